//! The options that several commands share, and how they become one config.

use std::path::PathBuf;

use art_host::config::{Config, ConfigError, Layers};
use clap::Args;

/// Settings from a file and from the command line.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// Read settings from a TOML file, such as the `config.toml` of an earlier run.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Change one setting, such as `env.opponent=minimax` or `rollout.group_size=16`; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl SettingsArgs {
    /// The file with every `--set` laid over it; flags come on top.
    pub(crate) fn layers(&self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = &self.config {
            layers.file(path)?;
        }
        for assignment in &self.set {
            layers.set(assignment)?;
        }
        Ok(layers)
    }

    /// The settings alone, for commands whose flags are not settings.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        self.layers()?.resolve()
    }
}
