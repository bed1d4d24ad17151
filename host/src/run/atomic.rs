//! Files that are there whole or not at all: written beside their place, synced, then renamed into
//! it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;

/// Writes a file through a temporary one in the same directory. A reader never sees half of it.
///
/// What is no file, such as a pipe or a device, is written into: renaming would put a file in its
/// place.
pub fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return write_into(path, fill).with_context(|| failed(path));
    }
    let name = path.file_name().with_context(|| format!("`{}` names no file", path.display()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".tmp");
    let temporary = path.with_file_name(hidden);
    let written = (|| {
        let mut file = BufWriter::new(File::create(&temporary)?);
        fill(&mut file)?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&temporary, path)?;
        sync_parent(path)
    })();
    if written.is_err() {
        // The half-written file is of no use, and on a full disk its space is.
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(|| failed(path))
}

fn write_into(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::options().write(true).open(path)?);
    fill(&mut file)?;
    file.flush()
}

/// What every failed write says.
pub fn failed(path: &Path) -> String {
    format!("failed to write `{}`: make room or choose another place", path.display())
}

/// Makes the rename itself durable, where directories can be synced.
fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) if cfg!(unix) && !parent.as_os_str().is_empty() => {
            File::open(parent)?.sync_all()
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_stays_a_device_and_a_full_one_is_said() {
        let error = super::write(std::path::Path::new("/dev/full"), |file| file.write_all(b"x"));
        assert!(format!("{:#}", error.unwrap_err()).contains("make room"));
        assert!(!std::fs::metadata("/dev/full").unwrap().is_file());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        super::write(&path, |file| file.write_all(b"old")).unwrap();
        let error = super::write(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        });
        assert!(format!("{:#}", error.unwrap_err()).contains("make room"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
