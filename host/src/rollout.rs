//! Many episodes side by side against one policy.
//!
//! In rounds: every living sandbox that has its answers takes its turn, on as many threads as
//! wanted; then all prompts that wait are answered in one call; then episodes that ended make room
//! for the next. What is played depends on the specs and the policy alone, never on threads or
//! concurrency. Knows nothing of learning.

use std::sync::atomic::{AtomicBool, Ordering};

use art_learner::conversation::Trajectory;
use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::component::Component;
use crate::episode::Episode;
pub use crate::episode::EpisodeSpec;
use crate::limits::Limits;
use crate::policy::Policy;
use crate::reward::RewardWeights;

/// The stack of a thread that runs guests: theirs, and room for the host's calls on top.
const THREAD_STACK_BYTES: usize = 4 << 20;

/// Why no rollout took place.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The machine gives no threads.
    #[error("no threads for the rollout: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The policy did not answer every prompt.
    #[error("policy `{policy}` gave {given} answers to {asked} prompts")]
    Unanswered {
        /// Its name.
        policy: String,
        /// The answers.
        given: usize,
        /// The prompts.
        asked: usize,
    },
}

/// Plays episodes and returns their trajectories in the order of the specs.
///
/// At most `concurrency` episodes live at once; `threads` step their sandboxes, 0 for one per core.
/// When `stop` is set, the rollout ends after the round under way and returns only the episodes
/// that had ended by then. An episode that fails ends alone: its fault is in its trajectory.
///
/// # Errors
/// If there are no threads, or the policy breaks its own contract.
#[allow(clippy::too_many_arguments, reason = "each is a thing of its own, and all are needed")]
pub fn rollout(
    component: &Component,
    limits: &Limits,
    weights: &RewardWeights,
    episodes: &[EpisodeSpec],
    concurrency: usize,
    threads: usize,
    policy: &mut dyn Policy,
    stop: &AtomicBool,
) -> Result<Vec<Trajectory>, RolloutError> {
    let pool = thread_pool(threads)?;
    let room = concurrency.clamp(1, component.compiled().instances_max());
    let mut waiting = (0..).zip(episodes);
    let mut alive: Vec<(usize, Episode<'_>)> = Vec::new();
    let mut finished: Vec<(usize, Trajectory)> = Vec::with_capacity(episodes.len());
    let wants_expert = policy.wants_expert();
    loop {
        let newcomers = waiting.by_ref().take(room - alive.len());
        alive.extend(newcomers.map(|(place, spec)| (place, Episode::new(component, limits, spec))));
        if alive.is_empty() {
            break;
        }
        pool.install(|| {
            alive.par_iter_mut().for_each(|(_, episode)| episode.advance(wants_expert));
        });
        let is_stopping = stop.load(Ordering::Relaxed);
        if !is_stopping {
            answer(&mut alive, policy)?;
        }
        let (ended, others) = alive.into_iter().partition(|(_, episode)| episode.is_over());
        alive = others;
        let ended: Vec<(usize, Episode<'_>)> = ended;
        for (place, episode) in ended {
            let rows = policy.finish(episode.number());
            finished.push((place, episode.finish(weights, rows)));
        }
        if is_stopping {
            for (_, episode) in alive {
                policy.finish(episode.number());
            }
            break;
        }
    }
    finished.sort_by_key(|(place, _)| *place);
    Ok(finished.into_iter().map(|(_, trajectory)| trajectory).collect())
}

/// Has every waiting prompt answered, in one call.
fn answer(alive: &mut [(usize, Episode<'_>)], policy: &mut dyn Policy) -> Result<(), RolloutError> {
    let asks: Vec<_> = alive.iter().flat_map(|(_, episode)| episode.asks()).collect();
    if asks.is_empty() {
        return Ok(());
    }
    let answers = policy.answer(&asks);
    if answers.len() != asks.len() {
        let (given, asked) = (answers.len(), asks.len());
        return Err(RolloutError::Unanswered { policy: policy.name(), given, asked });
    }
    let counts: Vec<usize> = alive.iter().map(|(_, episode)| episode.asks().count()).collect();
    let mut answers = answers.into_iter();
    for ((_, episode), count) in alive.iter_mut().zip(counts) {
        let own: Vec<_> = answers.by_ref().take(count).collect();
        episode.answer(own.into_iter());
    }
    Ok(())
}

fn thread_pool(threads: usize) -> Result<ThreadPool, rayon::ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .stack_size(THREAD_STACK_BYTES)
        .thread_name(|number| format!("sandbox-{number}"))
        .build()
}
