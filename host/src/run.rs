//! The run directory: everything that one training job leaves behind, under one name that nobody
//! else takes.
//!
//! ```text
//! config.toml          as resolved; `--config` with it gives the same run again
//! metrics.jsonl        a line per update
//! trajectories/        before, warm-start, update-00001 …, after: one .jsonl.zst each
//! checkpoints/         update-00010 …: what a resume needs
//! policy/              the trained policy, a model directory that `--policy` takes
//! summary.json         before, after, and how it ended
//! ```
//! Creating the directory is the lock: a second run never writes into a first one's.

pub mod atomic;
pub mod trajectories;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::config::Config;

/// Why a run directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The named place is taken.
    #[error(
        "`{}` exists already, and a run never writes into another's directory: name a new one with \
         `--out`, or leave `--out` away",
        .0.display()
    )]
    Exists(PathBuf),
    /// The place cannot be made.
    #[error("cannot create the run directory `{}`: {source}", .path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// An open run directory. Held by one run, from its first file to its last.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// `metrics.jsonl`, open for appending.
    metrics: File,
}

impl RunDirectory {
    /// Takes `out`, or else the first free `runs/NAME-N`.
    ///
    /// # Errors
    /// [`DirectoryError`] when `out` exists or nothing can be written there.
    pub fn create(out: Option<&Path>, environment: &str) -> Result<RunDirectory, DirectoryError> {
        let path = match out {
            Some(out) => {
                if let Some(parent) = out.parent() {
                    make_parents(parent)?;
                }
                take(out)?.then_some(out.to_owned())
            }
            None => Some(take_next(Path::new("runs"), environment)?),
        };
        let path =
            path.ok_or_else(|| DirectoryError::Exists(out.unwrap_or(Path::new("")).into()))?;
        let unwritable = |source| DirectoryError::Unwritable { path: path.clone(), source };
        for folder in ["trajectories", "checkpoints"] {
            std::fs::create_dir(path.join(folder)).map_err(unwritable)?;
        }
        let metrics = File::create_new(path.join("metrics.jsonl")).map_err(unwritable)?;
        Ok(RunDirectory { path, metrics })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The trained policy's model directory.
    pub fn policy(&self) -> PathBuf {
        self.path.join("policy")
    }

    /// The checkpoint after an update.
    pub fn checkpoint(&self, update: u64) -> PathBuf {
        self.path.join("checkpoints").join(format!("update-{update:05}"))
    }

    /// Removes all checkpoints but the newest.
    pub fn keep_checkpoints(&self, newest: usize) -> anyhow::Result<()> {
        let folder = self.path.join("checkpoints");
        let place = || format!("failed to look through `{}`", folder.display());
        let entries = std::fs::read_dir(&folder).with_context(place)?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().rev().skip(newest) {
            let context = || format!("failed to remove `{}`", path.display());
            std::fs::remove_dir_all(path).with_context(context)?;
        }
        Ok(())
    }

    /// The trajectory file of a stage, such as `before` or `update-00001`.
    pub fn trajectories(&self, stage: &str) -> PathBuf {
        self.path.join("trajectories").join(format!("{stage}.jsonl.zst"))
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, config: &Config) -> anyhow::Result<()> {
        let toml = toml::to_string_pretty(config).context("failed to write the config as TOML")?;
        let text = format!(
            "# The settings of this run as resolved.\n\
             # `art-host run --config` with this file repeats it.\n\n{toml}"
        );
        atomic::write(&self.path.join("config.toml"), |file| file.write_all(text.as_bytes()))
    }

    /// Appends one line to `metrics.jsonl`, whole.
    pub fn append_metrics(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line).context("failed to write metrics as JSON")?;
        text.push('\n');
        let written = self.metrics.write_all(text.as_bytes()).and_then(|()| self.metrics.flush());
        written.with_context(|| atomic::failed(&self.path.join("metrics.jsonl")))
    }

    /// Writes `summary.json`.
    pub fn write_summary(&self, summary: &impl Serialize) -> anyhow::Result<()> {
        let mut text =
            serde_json::to_string_pretty(summary).context("failed to write a summary")?;
        text.push('\n');
        self.metrics
            .sync_all()
            .with_context(|| atomic::failed(&self.path.join("metrics.jsonl")))?;
        atomic::write(&self.path.join("summary.json"), |file| file.write_all(text.as_bytes()))
    }

    /// Removes a directory in which nothing was recorded, because the run could not begin.
    pub fn discard(self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(&self.path)
            .with_context(|| format!("failed to remove `{}`", self.path.display()))
    }
}

/// Makes the directory; false if it is there already. The kernel decides between two that ask at
/// once.
fn take(path: &Path) -> Result<bool, DirectoryError> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(DirectoryError::Unwritable { path: path.into(), source }),
    }
}

/// Takes the directory `NAME-N` with the lowest N above all that are there.
fn take_next(parent: &Path, name: &str) -> Result<PathBuf, DirectoryError> {
    make_parents(parent)?;
    let entries = std::fs::read_dir(parent)
        .map_err(|source| DirectoryError::Unwritable { path: parent.into(), source })?;
    let number = |entry: std::fs::DirEntry| -> Option<u64> {
        entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok()
    };
    let mut next = entries.flatten().filter_map(number).max().map_or(1, |last| last + 1);
    loop {
        let path = parent.join(format!("{name}-{next}"));
        if take(&path)? {
            return Ok(path);
        }
        next += 1;
    }
}

fn make_parents(parent: &Path) -> Result<(), DirectoryError> {
    std::fs::create_dir_all(parent)
        .map_err(|source| DirectoryError::Unwritable { path: parent.into(), source })
}

#[cfg(test)]
mod tests {
    use super::{DirectoryError, RunDirectory, take_next};

    #[test]
    fn two_that_ask_at_once_get_two() {
        let folder = tempfile::tempdir().unwrap();
        let take = || (0..20).map(|_| take_next(folder.path(), "e").unwrap()).collect::<Vec<_>>();
        let mut taken: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 80);
    }

    #[test]
    fn an_existing_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunDirectory::create(Some(folder.path()), "e").unwrap_err();
        assert!(matches!(error, DirectoryError::Exists(_)), "{error}");
    }
}
