//! The two streams: results go to standard output, everything else to standard error.

use std::io::{ErrorKind, Write};

use anyhow::Context;
use art_host::config::ConfigError;
use art_host::run::DirectoryError;
use serde::Serialize;

use super::USAGE;
use super::environment::UnknownEnvironment;
use super::policy::UnusablePolicy;

/// Writes a result to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("failed to write to standard output")
}

/// Writes a result to standard output as one JSON object on one line.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(value).context("failed to write the result as JSON")?;
    text.push('\n');
    print(&text)
}

/// Says what went wrong on standard error, and gives the exit code that it deserves.
pub(crate) fn explain(error: &anyhow::Error) -> u8 {
    let is_closed_pipe = |cause: &&(dyn std::error::Error + 'static)| {
        let io: Option<&std::io::Error> = cause.downcast_ref();
        io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
    };
    if error.chain().any(|cause| is_closed_pipe(&cause)) {
        // The reader, `head` for one, has seen enough.
        return 0;
    }
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
    let is_usage = error.chain().any(|cause| {
        cause.is::<ConfigError>()
            || cause.is::<UnknownEnvironment>()
            || cause.is::<UnusablePolicy>()
            || matches!(cause.downcast_ref(), Some(DirectoryError::Exists(_)))
    });
    if is_usage { USAGE } else { 1 }
}
