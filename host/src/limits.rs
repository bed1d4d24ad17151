//! What a sandbox may use at most, each limit with the attack or accident that it stops.
//!
//! Limits that end an episode by the guest's own doing are counted in fuel, bytes or calls, so that
//! they end it at the same instruction on every machine; only `step_wall_ms` looks at a clock.
//! Enforced in `component`, `sandbox`, `wasi` and `episode`; knows nothing of how a user sets them.

use serde::{Deserialize, Serialize};

/// The limits of one component and of each episode played in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a component. Stops an upload that keeps the compiler busy for hours.
    pub component_bytes: u64,
    /// Fuel for `start` or one `step`, about one unit per WASM instruction. Stops an endless loop.
    pub fuel_per_step: u64,
    /// Fuel for a whole episode. Stops a guest that is a little slow in every one of many turns.
    pub fuel_per_episode: u64,
    /// Milliseconds of wall clock for `start` or one `step`. The backstop for work that fuel does
    /// not see, such as calls into the host; an episode that it ends is marked and never trained
    /// on.
    pub step_wall_ms: u64,
    /// Turns of an episode. Stops an environment that never ends; the episode counts as cut off,
    /// not as failed.
    pub turns: u32,
    /// Bytes of linear memory, all memories of the instance together. Stops a memory bomb.
    pub memory_bytes: u64,
    /// Elements of all tables together, at most 100 000 each. Stops the same bomb made of tables.
    pub table_elements: u64,
    /// Core instances of the component, and as many memories and tables. Stops a component made of
    /// thousands.
    pub instances: u32,
    /// Handles and host resources, such as streams, at once. Stops a guest that opens and never
    /// closes.
    pub handles: u32,
    /// Bytes that one call carries out of the guest, its result included. Stops a 200 MB string or
    /// a list of millions.
    pub hostcall_bytes: u64,
    /// Bytes of prompts and answers that an episode keeps. Stops many large turns where
    /// `hostcall_bytes` allows each.
    pub transcript_bytes: u64,
    /// Bytes that an episode writes to its log, stdout and stderr. Stops a log flood that keeps the
    /// host busy.
    pub log_bytes: u64,
    /// Bytes of the log that are kept, half from its beginning and half from its end. Stops a log
    /// that fills memory.
    pub log_kept_bytes: u64,
    /// Random bytes that an episode draws from the host. Stops a guest that keeps the host's
    /// generator busy.
    pub random_bytes: u64,
    /// Requests to `art:env/model` in an episode. Stops a guest that keeps the host busy copying
    /// conversations.
    pub model_requests: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            component_bytes: 64 << 20,
            fuel_per_step: 2_000_000_000,
            fuel_per_episode: 50_000_000_000,
            step_wall_ms: 30_000,
            turns: 200,
            memory_bytes: 256 << 20,
            table_elements: 50_000,
            instances: 64,
            handles: 1_000,
            hostcall_bytes: 4 << 20,
            transcript_bytes: 16 << 20,
            log_bytes: 16 << 20,
            log_kept_bytes: 16 << 10,
            random_bytes: 16 << 20,
            model_requests: 1_000,
        }
    }
}
