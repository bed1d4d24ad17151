//! Ctrl-C: the first one asks the work to end cleanly, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// The exit code of a process that Ctrl-C ended: 128 and the signal's number, as shells count.
pub const INTERRUPTED: u8 = 130;

/// Listens from now on. The flag turns true at the first Ctrl-C or request to terminate.
///
/// # Errors
/// If the system does not hand its signals over.
pub fn listen() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("failed to start the listener for Ctrl-C")?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::register().context("failed to listen for Ctrl-C")?
    };
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        flag.store(true, Ordering::SeqCst);
        eprintln!("\nstopping after this round; once more ends at once and loses what is in play");
        runtime.block_on(signals.next());
        std::process::exit(i32::from(INTERRUPTED));
    });
    Ok(stop)
}

/// The signals that end the process.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn register() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The signals that end the process.
#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn register() -> std::io::Result<Signals> {
        tokio::signal::windows::ctrl_c().map(Signals)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
