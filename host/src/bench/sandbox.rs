//! What a sandbox costs: making it, stepping it, keeping it, against the same logic called
//! natively.
//!
//! One core, fuel and epochs on, 1 KB each way in every step. Numbers are medians over rounds,
//! because a shared machine disturbs some of them.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use art_learner::conversation::{Action, Message, Task};
use serde::Serialize;

use crate::component::Component;
use crate::examples;
use crate::limits::Limits;
use crate::sandbox::Sandbox;

#[path = "../../../env-examples/echo/src/logic.rs"]
#[allow(dead_code, unreachable_pub, reason = "the guest's own source, used here in part")]
mod echo;

/// Bytes of every observation and of every answer.
const BYTES: usize = 1024;

/// Steps of one episode; `echo` plays at most a thousand.
const STEPS: usize = 900;

/// Rounds of each measurement.
const ROUNDS: usize = 31;

/// Episodes of one round of making and dropping.
const EPISODES: usize = 300;

/// Sandboxes that live at once to see what one takes.
const ALIVE: usize = 1000;

/// What a sandbox costs on this machine. Names end in their unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SandboxReport {
    /// Making an instance, `start`, and dropping it.
    pub instantiate_start_us: f64,
    /// The same, a second, on one core.
    pub instantiate_start_per_s: f64,
    /// One step with 1 KB each way.
    pub step_us: f64,
    /// The same, a second, on one core.
    pub steps_per_s: f64,
    /// The same logic called natively.
    pub native_step_us: f64,
    /// Fuel of one step.
    pub fuel_per_step: u64,
    /// Memory of one started instance among a thousand; none where the system does not tell.
    pub instance_bytes: Option<u64>,
}

/// Measures.
///
/// # Errors
/// If the embedded example cannot be loaded or played.
pub fn run() -> anyhow::Result<SandboxReport> {
    let limits = Limits::default();
    let bytes = examples::find("echo").context("the example `echo` is embedded")?;
    let component = Component::load("echo", bytes, &limits)?;
    let instance_bytes = instance_bytes(&component, &limits)?;
    let instantiate_start_us = instantiate_start_us(&component, &limits)?;
    let (step_us, fuel_per_step) = step_us(&component, &limits)?;
    Ok(SandboxReport {
        instantiate_start_us,
        instantiate_start_per_s: 1e6 / instantiate_start_us,
        step_us,
        steps_per_s: 1e6 / step_us,
        native_step_us: native_step_us(),
        fuel_per_step,
        instance_bytes,
    })
}

fn started(component: &Component, limits: &Limits, seed: u64) -> anyhow::Result<Sandbox> {
    let config = format!("{{\"bytes\":{BYTES},\"turns\":1000}}");
    let task = Task { split: "train".into(), index: 0, seed, config };
    let mut sandbox = Sandbox::new(component, limits, seed)?;
    sandbox.start(&task)?;
    Ok(sandbox)
}

fn instantiate_start_us(component: &Component, limits: &Limits) -> anyhow::Result<f64> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for seed in 0..EPISODES as u64 {
            drop(black_box(started(component, limits, seed)?));
        }
        rounds.push(begun.elapsed().as_secs_f64() * 1e6 / EPISODES as f64);
    }
    Ok(median(rounds))
}

fn step_us(component: &Component, limits: &Limits) -> anyhow::Result<(f64, u64)> {
    let answer = "x".repeat(BYTES);
    let actions = [Action { agent: "parrot".into(), message: Message::assistant(answer) }];
    let mut rounds = Vec::with_capacity(ROUNDS);
    let mut fuel = 0;
    for seed in 0..ROUNDS as u64 {
        let mut sandbox = started(component, limits, seed)?;
        let begun = Instant::now();
        for _ in 0..STEPS {
            fuel = black_box(sandbox.step(&actions)?).fuel;
        }
        rounds.push(begun.elapsed().as_secs_f64() * 1e6 / STEPS as f64);
    }
    Ok((median(rounds), fuel))
}

fn native_step_us() -> f64 {
    let answer = "x".repeat(BYTES);
    let rounds = (0..ROUNDS as u64).map(|seed| {
        let (mut echo, _) = echo::Echo::start(seed, BYTES);
        let begun = Instant::now();
        for _ in 0..STEPS {
            black_box(echo.step(black_box(&answer)));
        }
        begun.elapsed().as_secs_f64() * 1e6 / STEPS as f64
    });
    median(rounds.collect())
}

fn instance_bytes(component: &Component, limits: &Limits) -> anyhow::Result<Option<u64>> {
    // The first instance pays for what all share.
    let first = started(component, limits, 0)?;
    let before = resident_bytes();
    let alive: anyhow::Result<Vec<Sandbox>> =
        (0..ALIVE as u64).map(|seed| started(component, limits, seed)).collect();
    let alive = alive?;
    let after = resident_bytes();
    drop((first, alive));
    let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(grown.map(|grown| grown / ALIVE as u64))
}

/// This process's share of the machine's memory (Linux's proportional set size).
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
