//! Whether what an environment returns keeps the contract; types alone cannot say.
//!
//! Pure. Every complaint names what the author has to look for.

use std::collections::{BTreeMap, BTreeSet};

use art_learner::conversation::{Prompt, Reward};

use crate::component::Description;
use crate::sandbox::Turn;

/// How far a sum may leave its range by rounding, as a share of the range's ends.
const ROUNDING: f64 = 1e-9;

/// Says what is wrong with a turn, if anything is.
pub(crate) fn turn(turn: &Turn, description: &Description) -> Result<(), String> {
    let mut prompted = BTreeSet::new();
    for prompt in &turn.prompts {
        known_agent(&prompt.agent, description)?;
        if !prompted.insert(&prompt.agent) {
            return Err(format!("agent `{}` is prompted twice in one turn", prompt.agent));
        }
        check_prompt(prompt)?;
    }
    for reward in &turn.rewards {
        known_agent(&reward.agent, description)?;
        if description.part(&reward.part).is_none() {
            let parts: Vec<&str> = description.parts.iter().map(|part| &*part.name).collect();
            return Err(format!(
                "a reward is given in part `{}`; `describe` names `{}`",
                reward.part,
                parts.join("`, `")
            ));
        }
        if !reward.value.is_finite() {
            return Err(format!("a reward in part `{}` is {}", reward.part, reward.value));
        }
    }
    match turn.metrics.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => Err(format!("metric `{name}` is {value}")),
        None => Ok(()),
    }
}

fn known_agent(agent: &str, description: &Description) -> Result<(), String> {
    match description.agents.iter().any(|known| known == agent) {
        true => Ok(()),
        false => Err(format!(
            "agent `{agent}` is unknown; `describe` names `{}`",
            description.agents.join("`, `")
        )),
    }
}

fn check_prompt(prompt: &Prompt) -> Result<(), String> {
    let agent = &prompt.agent;
    let mut seen = BTreeSet::new();
    for choice in &prompt.choices {
        if choice.is_empty() {
            return Err(format!("a choice offered to `{agent}` is empty"));
        }
        if !seen.insert(choice) {
            return Err(format!("choice `{choice}` is offered to `{agent}` twice"));
        }
    }
    if prompt.max_tokens == Some(0) {
        return Err(format!("the answer of `{agent}` may have 0 tokens"));
    }
    Ok(())
}

/// Says which reward part of a whole episode is out of its range, if any is.
pub(crate) fn totals<'a>(
    rewards: impl Iterator<Item = &'a Reward>,
    description: &Description,
) -> Result<(), String> {
    let mut totals: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for reward in rewards {
        *totals.entry((&reward.agent, &reward.part)).or_default() += reward.value;
    }
    for ((agent, name), total) in totals {
        let Some(part) = description.part(name) else { continue };
        let slack = ROUNDING * part.minimum.abs().max(part.maximum.abs()).max(1.0);
        if total < part.minimum - slack || total > part.maximum + slack {
            return Err(format!(
                "`{agent}` earned {total} in part `{name}`; `describe` says {} to {}",
                part.minimum, part.maximum
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use art_learner::conversation::{Prompt, Reward};

    use super::{totals, turn};
    use crate::component::description::tests::sane;
    use crate::sandbox::Turn;

    fn prompt(agent: &str, choices: &[&str]) -> Prompt {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        Prompt { agent: agent.into(), messages: vec![], tools: vec![], choices, max_tokens: None }
    }

    fn reward(agent: &str, part: &str, value: f64) -> Reward {
        Reward { agent: agent.into(), part: part.into(), value }
    }

    fn said(prompts: Vec<Prompt>, rewards: Vec<Reward>) -> Result<(), String> {
        turn(&Turn { prompts, rewards, success: None, metrics: BTreeMap::new(), fuel: 0 }, &sane())
    }

    #[test]
    fn what_breaks_the_contract_is_named() {
        assert_eq!(said(vec![prompt("x", &["1"])], vec![reward("o", "win", 0.5)]), Ok(()));
        let wrong = |prompts, rewards| said(prompts, rewards).unwrap_err();
        assert!(wrong(vec![prompt("y", &[])], vec![]).contains("agent `y` is unknown"));
        assert!(wrong(vec![prompt("x", &[]), prompt("x", &[])], vec![]).contains("twice"));
        assert!(wrong(vec![prompt("x", &[""])], vec![]).contains("is empty"));
        assert!(wrong(vec![prompt("x", &["1", "1"])], vec![]).contains("`1` is offered"));
        assert!(wrong(vec![], vec![reward("x", "luck", 1.0)]).contains("part `luck`"));
        assert!(wrong(vec![], vec![reward("x", "win", f64::NAN)]).contains("is NaN"));
    }

    #[test]
    fn totals_may_leave_their_range_by_rounding_only() {
        let of = |values: &[f64]| {
            let rewards: Vec<Reward> = values.iter().map(|v| reward("x", "win", *v)).collect();
            totals(rewards.iter(), &sane())
        };
        assert_eq!(of(&[0.1; 10]), Ok(()));
        let error = of(&[0.75, 0.5]).unwrap_err();
        assert_eq!(error, "`x` earned 1.25 in part `win`; `describe` says 0 to 1");
    }
}
