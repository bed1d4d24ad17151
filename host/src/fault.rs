//! What went wrong in an episode and whose it is, as a type.
//!
//! A fault of the guest is told from one of the host by the type of wasmtime's error, never by its
//! text. Every message says what happened, in which call of which component, and names the limit to
//! raise where there is one. Knows nothing of what becomes of the episode.

use art_learner::conversation::{Blame, FaultRecord};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

/// The most frames of a trap that are shown.
const FRAMES_MAX: usize = 8;

/// What went wrong, where, and what the guest had logged by then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct Fault {
    /// What went wrong.
    pub cause: Cause,
    /// Where: the call and the component, such as "`step` of tictactoe".
    pub place: String,
    /// The guest's kept log lines.
    pub log: Vec<String>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The guest used more than a limit allows.
    #[error(transparent)]
    Limit(#[from] LimitHit),
    /// The guest ran into a WASM trap: a panic, an abort, a bad memory access.
    #[error("the guest trapped ({trap}){}", frames_text(frames))]
    Trap {
        /// Which trap.
        trap: Trap,
        /// The guest's functions, innermost first.
        frames: Vec<String>,
    },
    /// The guest called `exit`, which ends nothing here: an episode ends by a turn without prompts.
    #[error("the guest called exit({status}); return a turn without prompts to end an episode")]
    Exit {
        /// The status that it gave.
        status: i32,
    },
    /// The guest called a WASI function that the host does not offer.
    #[error("the guest called `{0}`, which this host does not offer")]
    Unsupported(String),
    /// The guest answered with the contract's error.
    #[error("the guest answered with an error: {0}")]
    Error(String),
    /// What the guest returned breaks the contract.
    #[error("{0}")]
    Contract(String),
    /// The sandbox could not read or allow what the guest did.
    #[error(
        "the sandbox refused what the guest did: {text}. If it is too much data or too many \
         handles, `limits.hostcall_bytes = {hostcall_bytes}` and `limits.handles = {handles}` \
         are what it may not exceed"
    )]
    Refused {
        /// Wasmtime's words.
        text: String,
        /// The limit on bytes per call.
        hostcall_bytes: u64,
        /// The limit on handles.
        handles: u32,
    },
    /// The wall clock ran out; the machine may be to blame, so the result is not reproducible.
    #[error(
        "no answer within {limit_ms} ms of wall clock; fuel was left, so the machine may be busy: \
         raise `limits.step_wall_ms` or use fewer threads"
    )]
    WallClock {
        /// The limit.
        limit_ms: u64,
    },
    /// The policy could not answer a prompt.
    #[error("the policy could not answer: {0}")]
    Policy(String),
    /// As many sandboxes as the process can hold are alive.
    #[error("{0}; lower `rollout.concurrency`")]
    Crowded(String),
    /// This program or its machine failed.
    #[error("the host failed: {0}")]
    Host(String),
}

/// A limit that a guest ran into, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitHit {
    /// `limits.fuel_per_step`.
    #[error("the guest burnt all of its fuel: raise `limits.fuel_per_step = {0}` if it needs it")]
    FuelPerStep(u64),
    /// `limits.fuel_per_episode`.
    #[error("the episode burnt all of its fuel: raise `limits.fuel_per_episode = {0}`")]
    FuelPerEpisode(u64),
    /// `limits.memory_bytes`.
    #[error("the guest asked for {asked} bytes of memory: raise `limits.memory_bytes = {limit}`")]
    Memory {
        /// What it would have had in all.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// `limits.table_elements`.
    #[error("the guest asked for {asked} table elements: raise `limits.table_elements = {limit}`")]
    Table {
        /// What it would have had in all.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// `limits.log_bytes`.
    #[error("the guest flooded its log: raise `limits.log_bytes = {0}` or log less")]
    Log(u64),
    /// `limits.random_bytes`.
    #[error("the guest drew too much randomness: raise `limits.random_bytes = {0}`")]
    Random(u64),
    /// `limits.model_requests`.
    #[error("the guest made too many model requests: raise `limits.model_requests = {0}`")]
    ModelRequests(u32),
    /// `limits.transcript_bytes`.
    #[error("the episode's messages are too long: raise `limits.transcript_bytes = {0}`")]
    Transcript(u64),
    /// The environment's own `max-turns`.
    #[error("the guest asks for another turn after {0}, the most that its description allows")]
    MaxTurns(u32),
}

impl LimitHit {
    fn kind(self) -> &'static str {
        match self {
            LimitHit::FuelPerStep(_) | LimitHit::FuelPerEpisode(_) => "fuel",
            LimitHit::Memory { .. } => "memory",
            LimitHit::Table { .. } => "table",
            LimitHit::Log(_) => "log",
            LimitHit::Random(_) => "random",
            LimitHit::ModelRequests(_) => "model-requests",
            LimitHit::Transcript(_) => "transcript",
            LimitHit::MaxTurns(_) => "max-turns",
        }
    }
}

/// What an error needs to be told apart that it does not carry itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// Which limit the call's fuel came from.
    pub(crate) fuel: LimitHit,
    /// `limits.step_wall_ms`.
    pub(crate) step_wall_ms: u64,
    /// `limits.hostcall_bytes`.
    pub(crate) hostcall_bytes: u64,
    /// `limits.handles`.
    pub(crate) handles: u32,
    /// Whether the guest's own code was running, rather than the host preparing an instance.
    pub(crate) is_guest_running: bool,
}

impl Cause {
    /// Reads wasmtime's error by type.
    pub(crate) fn of(error: &wasmtime::Error, circumstances: Circumstances) -> Cause {
        if let Some(hit) = error.downcast_ref::<LimitHit>() {
            return Cause::Limit(*hit);
        }
        if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
            return Cause::Exit { status: *status };
        }
        if let Some(Unsupported(import)) = error.downcast_ref::<Unsupported>() {
            return Cause::Unsupported(import.clone());
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => return Cause::Limit(circumstances.fuel),
            Some(Trap::Interrupt) => {
                return Cause::WallClock { limit_ms: circumstances.step_wall_ms };
            }
            Some(trap) => return Cause::Trap { trap: *trap, frames: frames(error) },
            None => {}
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return Cause::Crowded(error.to_string());
        }
        let text = error.root_cause().to_string();
        if !circumstances.is_guest_running {
            return Cause::Host(format!("{error:#}"));
        }
        let Circumstances { hostcall_bytes, handles, .. } = circumstances;
        Cause::Refused { text, hostcall_bytes, handles }
    }
}

/// A guest called a function that the host does not offer: `wasi:http/types@0.2.0#send`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{0}` is not offered")]
pub(crate) struct Unsupported(pub(crate) String);

impl Fault {
    /// A fault without log lines.
    pub fn new(cause: impl Into<Cause>, place: impl Into<String>) -> Fault {
        Fault { cause: cause.into(), place: place.into(), log: vec![] }
    }

    /// The message, and below it what the guest had logged.
    pub fn with_log(&self) -> String {
        let lines = self.log.iter().map(|line| format!("\n  {line}"));
        format!("{self}{}", lines.collect::<String>())
    }

    /// Whose mistake it is.
    pub fn whose(&self) -> Blame {
        match &self.cause {
            Cause::Limit(_)
            | Cause::Trap { .. }
            | Cause::Exit { .. }
            | Cause::Unsupported(_)
            | Cause::Error(_)
            | Cause::Contract(_)
            | Cause::Refused { .. } => Blame::Guest,
            Cause::Policy(_) => Blame::Policy,
            Cause::WallClock { .. } | Cause::Crowded(_) | Cause::Host(_) => Blame::Host,
        }
    }

    /// A stable short name, for counting.
    pub fn kind(&self) -> &'static str {
        match &self.cause {
            Cause::Limit(hit) => hit.kind(),
            Cause::Trap { .. } => "trap",
            Cause::Exit { .. } => "exit",
            Cause::Unsupported(_) => "unsupported",
            Cause::Error(_) => "error",
            Cause::Contract(_) => "contract",
            Cause::Refused { .. } => "refused",
            Cause::WallClock { .. } => "time",
            Cause::Policy(_) => "answer",
            Cause::Crowded(_) => "crowded",
            Cause::Host(_) => "host",
        }
    }

    /// The fault as a trajectory records it.
    pub fn record(&self) -> FaultRecord {
        FaultRecord {
            blame: self.whose(),
            kind: self.kind().to_owned(),
            message: self.to_string(),
            log: self.log.clone(),
        }
    }
}

/// The guest's functions that a trap went through, innermost first.
fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return vec![] };
    let names = backtrace.frames().iter().map(|frame| match frame.func_name() {
        Some(name) => without_hash(name).to_owned(),
        None => format!("function {}", frame.func_index()),
    });
    names.take(FRAMES_MAX).collect()
}

/// A symbol without the hash that Rust puts behind it; the linker has demangled the rest.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((symbol, hash)) if hash.len() == 16 => symbol,
        _ => name,
    }
}

fn frames_text(frames: &[String]) -> String {
    match frames {
        [] => String::new(),
        frames => format!(" in {}", frames.join(" < ")),
    }
}
