//! Which component is meant: an example by its name, or a file by its path.

use std::path::Path;

use anyhow::Context;
use art_host::component::Component;
use art_host::config::nearest;
use art_host::examples;
use art_host::limits::Limits;

/// What was typed names neither an example nor a file.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct UnknownEnvironment {
    message: String,
}

impl UnknownEnvironment {
    /// Nothing was typed.
    pub(crate) fn missing() -> UnknownEnvironment {
        let message = format!(
            "no environment is named: give an example ({}) or a path to a component, such as \
             `art-host run tictactoe`",
            names().join(", ")
        );
        UnknownEnvironment { message }
    }

    fn of(typed: &str) -> UnknownEnvironment {
        if let Some(message) = examples::how_to_build(typed) {
            return UnknownEnvironment { message };
        }
        let names = names();
        let suggestion = match nearest(typed, names.iter().copied()) {
            Some(name) if !looks_like_path(typed) => format!("; did you mean `{name}`?"),
            _ => String::new(),
        };
        let problem = match looks_like_path(typed) {
            true => format!("there is no file `{typed}`"),
            false => format!("`{typed}` is neither an example nor a file{suggestion}"),
        };
        let message = format!("{problem}; the examples are {}", names.join(", "));
        UnknownEnvironment { message }
    }
}

/// Loads what was typed. A name without a separator is an example before it is a file.
pub(crate) fn load(typed: &str, limits: &Limits) -> anyhow::Result<Component> {
    if !looks_like_path(typed)
        && let Some(bytes) = examples::find(typed)
    {
        return Component::load(typed, bytes, limits)
            .with_context(|| format!("the example `{typed}` cannot be used"));
    }
    let path = Path::new(typed);
    if !path.exists() {
        return Err(UnknownEnvironment::of(typed).into());
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{typed}`"))?;
    let name = path.file_stem().map_or(typed.into(), |stem| stem.to_string_lossy());
    Component::load(&name, &bytes, limits).with_context(|| format!("`{typed}` cannot be used"))
}

fn looks_like_path(typed: &str) -> bool {
    typed.contains(['/', '\\']) || typed.ends_with(".wasm")
}

fn names() -> Vec<&'static str> {
    examples::names().collect()
}
