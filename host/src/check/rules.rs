//! The rules on how an environment plays: each looks at what was played and says what it saw.

use art_learner::conversation::Blame;

use super::Finding;
use super::play::{Play, Plays};
use crate::component::Description;
use crate::episode;

/// How much more fuel a late turn may take than an early one: a list that is walked each turn may
/// grow, but an environment that works on all of its past over and over does not get far.
const FUEL_GROWTH_MAX: f64 = 8.0;

/// Fuel that is too little to matter, whatever it grew from.
const FUEL_NEGLIGIBLE: f64 = 1_000_000.0;

/// The fewest turns in which growth can be told from chance.
const TURNS_FOR_GROWTH: usize = 9;

pub(super) fn plays_without_faults(plays: &Plays) -> Finding {
    let rule = "random play meets no fault";
    let all = plays.random.iter().chain(&plays.same_answers).chain(plays.expert.iter().flatten());
    let mut count = 0;
    for play in all {
        count += 1;
        if let Some(fault) = &play.fault {
            let log = fault.log.iter().map(|line| format!("\nlog: {line}"));
            let seen = format!("{}: {fault}{}", play.place(), log.collect::<String>());
            return Finding::of(rule, Err(seen));
        }
    }
    Finding::of(rule, Ok(format!("{count} episodes")))
}

pub(super) fn turns_are_well_formed(described: &Description, plays: &Plays) -> Finding {
    let rule = "each turn prompts and rewards what `describe` names, with finite numbers";
    let mut turns = 0;
    for play in plays.played() {
        for turn in &play.turns {
            turns += 1;
            if let Err(problem) = episode::check::turn(turn, described) {
                return Finding::of(rule, Err(format!("{}: {problem}", play.place())));
            }
        }
    }
    Finding::of(rule, Ok(format!("{turns} turns")))
}

pub(super) fn rewards_are_in_range(described: &Description, plays: &Plays) -> Finding {
    let rule = "what an episode gives an agent in a reward part stays in its stated range";
    for play in plays.played() {
        if let Err(problem) = episode::check::totals(play.rewards(), described) {
            return Finding::of(rule, Err(format!("{}: {problem}", play.place())));
        }
    }
    let seen = described.parts.iter().map(|part| {
        let of_part = |play: &Play| play.rewards().filter(|r| r.part == part.name).count();
        let given: usize = plays.played().map(of_part).sum();
        format!("`{}` from {} to {}: {given} given", part.name, part.minimum, part.maximum)
    });
    Finding::of(rule, Ok(seen.collect::<Vec<_>>().join("\n")))
}

pub(super) fn ends_in_time(described: &Description, plays: &Plays) -> Finding {
    let rule = "every episode ends within max-turns";
    let late = plays.played().find(|play| {
        play.fault.is_none() && (!play.is_over() || play.turns.len() > described.max_turns as usize)
    });
    let longest = plays.played().map(|play| play.turns.len()).max().unwrap_or(0);
    let seen = match late {
        Some(play) => Err(format!("{} went on beyond {}", play.place(), described.max_turns)),
        None => Ok(format!("the longest had {longest} of {} turns", described.max_turns)),
    };
    Finding::of(rule, seen)
}

pub(super) fn repeats_bit_for_bit(plays: &Plays) -> Finding {
    let rule = "the same task and answers give the same turns, bit for bit";
    let differs = plays.random.iter().zip(&plays.again).find_map(|(first, second)| {
        let turns = first.turns.iter().zip(&second.turns);
        let at = turns.take_while(|(a, b)| a == b).count();
        let same = at == first.turns.len() && at == second.turns.len();
        (!same).then(|| format!("{}: turn {at} differs when it is played again", first.place()))
    });
    let count = plays.random.len();
    Finding::of(rule, differs.map_or_else(|| Ok(format!("{count} episodes, twice each")), Err))
}

pub(super) fn tasks_differ(plays: &Plays) -> Finding {
    let rule = "different tasks play differently";
    let mut distinct: Vec<&Play> = Vec::new();
    for play in &plays.same_answers {
        if distinct.iter().all(|other| !same_course(other, play)) {
            distinct.push(play);
        }
    }
    let count = plays.same_answers.len();
    let seen = match distinct.len() {
        1 => Err(format!(
            "{count} tasks of different index and seed, answered alike, played alike: draw what is \
             random from the task's seed, and what is given from its index"
        )),
        distinct => Ok(format!("{count} tasks, answered alike, took {distinct} different courses")),
    };
    Finding::of(rule, seen)
}

/// Whether two episodes asked and gave the same.
fn same_course(a: &Play, b: &Play) -> bool {
    let mut turns = a.turns.iter().zip(&b.turns);
    a.turns.len() == b.turns.len()
        && turns.all(|(a, b)| (&a.prompts, &a.rewards) == (&b.prompts, &b.rewards))
}

pub(super) fn cost_is_bounded(plays: &Plays) -> Finding {
    let rule = "fuel and memory do not grow, neither turn by turn nor episode by episode";
    let cost = |play: &Play| (play.turns.iter().map(|turn| turn.fuel).sum(), play.memory_bytes);
    let costs: Vec<(u64, u64)> = plays.repeated.iter().map(cost).collect();
    let (fuel, memory) = costs[0];
    if let Some(at) = costs.iter().position(|cost| *cost != costs[0]) {
        let (fuel_now, memory_now) = costs[at];
        return Finding::of(
            rule,
            Err(format!(
                "the same episode took {fuel} fuel and {memory} bytes the first time, \
                 {fuel_now} and {memory_now} after {at} repeats"
            )),
        );
    }
    let grown = plays.random.iter().find_map(|play| {
        let (early, late) = early_and_late_fuel(play)?;
        let too_much = late > FUEL_GROWTH_MAX * early && late > FUEL_NEGLIGIBLE;
        too_much.then(|| format!("{}: from {early:.0} fuel a turn to {late:.0}", play.place()))
    });
    let seen = format!("an episode takes {fuel} fuel and {} KiB, every time", memory >> 10);
    Finding::of(rule, grown.map_or(Ok(seen), Err))
}

/// The mean fuel of the first and last third of the steps; none where an episode is too short to
/// tell.
fn early_and_late_fuel(play: &Play) -> Option<(f64, f64)> {
    if play.turns.len() <= TURNS_FOR_GROWTH {
        return None;
    }
    let steps: Vec<f64> = play.turns.iter().skip(1).map(|turn| turn.fuel as f64).collect();
    let third = steps.len() / 3;
    let mean = |steps: &[f64]| steps.iter().sum::<f64>() / steps.len() as f64;
    Some((mean(&steps[..third]), mean(&steps[steps.len() - third..])))
}

pub(super) fn takes_any_answer(plays: &Plays) -> Finding {
    let rule = "no answer, however odd, brings the environment down";
    let fault = plays.odd.iter().find_map(|play| {
        let fault = play.fault.as_ref().filter(|fault| fault.whose() == Blame::Guest)?;
        Some(format!(
            "{}: {fault}; an untrained policy says such things: reward them, do not fail",
            play.place()
        ))
    });
    let count = plays.odd.len();
    Finding::of(rule, fault.map_or_else(|| Ok(format!("{count} episodes of odd answers")), Err))
}

pub(super) fn expert_beats_random(plays: &Plays) -> Finding {
    let rule = "the expert beats random play";
    let Some(expert) = &plays.expert else {
        return Finding::skip(rule, "it exports no expert");
    };
    let total = |play: &Play| play.rewards().map(|reward| reward.value).sum::<f64>();
    let mean = |plays: &[Play]| plays.iter().map(total).sum::<f64>() / plays.len() as f64;
    let (expert, random) = (mean(expert), mean(&plays.random));
    let seen = format!("mean reward {expert:.3} against {random:.3}");
    Finding::of(rule, if expert > random { Ok(seen) } else { Err(seen) })
}
