//! Model directories: written whole or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The files of a model directory that describe it; weights, and whatever else lies there, stay
/// behind.
const COMPANIONS: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "LICENSE",
];

/// Copies the files that belong beside the weights from one model directory to another.
pub fn copy_companions(from: &Path, to: &Path) -> Result<()> {
    for name in COMPANIONS {
        let path = from.join(name);
        if path.exists() {
            fs::copy(&path, to.join(name)).with_context(|| {
                format!("cannot copy `{}` to `{}`", path.display(), to.display())
            })?;
        }
    }
    Ok(())
}

/// Fills a directory under a temporary name beside it, and renames it when everything is in place.
///
/// # Errors
/// If the directory exists, if `fill` fails, or if the disk does; then nothing is left behind.
pub fn write_directory(dir: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    ensure!(
        !dir.exists(),
        "`{}` exists and is not overwritten; name another directory or remove it",
        dir.display()
    );
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let create = || -> Result<tempfile::TempDir> {
        fs::create_dir_all(parent)?;
        Ok(tempfile::Builder::new().prefix(".partial-").tempdir_in(parent)?)
    };
    let partial =
        create().with_context(|| format!("cannot create a directory in `{}`", parent.display()))?;
    fill(partial.path())?;
    for entry in fs::read_dir(partial.path())? {
        fs::File::open(entry?.path())?.sync_all().context("cannot write to the disk")?;
    }
    fs::rename(partial.path(), dir)
        .with_context(|| format!("cannot put `{}` in its place", dir.display()))?;
    // The name it would remove is gone; forgetting it says so.
    let _ = partial.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::write_directory;

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("models/one");
        let failed = write_directory(&dir, |partial| {
            std::fs::write(partial.join("a"), "1")?;
            bail!("no more")
        });
        assert!(failed.is_err() && !dir.exists());
        assert_eq!(std::fs::read_dir(home.path().join("models")).unwrap().count(), 0);
        write_directory(&dir, |partial| Ok(std::fs::write(partial.join("a"), "1")?)).unwrap();
        assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "1");
        let error = write_directory(&dir, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("exists"), "{error}");
    }
}
