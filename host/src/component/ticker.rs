//! The wall clock behind the backstop: one thread that moves wasmtime's epoch on.
//!
//! Compiled code looks at the epoch at loop heads and calls, so a deadline is met within a tick.
//! Knows nothing of what happens when one is missed.

use std::thread;
use std::time::Duration;

use wasmtime::Engine;

/// How often the epoch moves on; the error of every deadline.
const TICK_MS: u64 = 10;

/// Moves the epoch on as long as the process lives.
pub(super) fn start(engine: &Engine) -> std::io::Result<()> {
    let engine = engine.clone();
    let tick = move || {
        loop {
            thread::sleep(Duration::from_millis(TICK_MS));
            engine.increment_epoch();
        }
    };
    thread::Builder::new().name("epoch".into()).spawn(tick).map(drop)
}

/// The ticks after which at least this much time has passed.
pub(crate) fn ticks(milliseconds: u64) -> u64 {
    milliseconds.div_ceil(TICK_MS).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!((ticks(0), ticks(1), ticks(10), ticks(11)), (1, 2, 2, 3));
    }
}
