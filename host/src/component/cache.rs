//! Compiled code on disk, so that a component is compiled once on a machine and not once per run.
//!
//! A file is written whole or not at all, into a directory that only this user can enter, behind a
//! digest over its key and content. Whatever does not match is compiled again; a cache that cannot
//! be written only costs time.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// The environment variable that moves the cache.
const VARIABLE: &str = "ART_HOST_CACHE";

/// What a file begins with. The number is raised when the layout changes.
const MAGIC: &[u8] = b"art-host code 1\n";

const DIGEST_BYTES: usize = 32;

/// How much is kept; a Python component takes 33 MB. What was written first goes first.
const BYTES_MAX: u64 = 2 << 30;

/// Precompiled code that this host wrote itself, as far as file permissions and a digest can show.
pub(super) struct Vouched {
    file: Vec<u8>,
}

impl Vouched {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.file[MAGIC.len() + DIGEST_BYTES..]
    }
}

/// Where compiled code is kept: in `ART_HOST_CACHE`, or this system's place for caches. None if
/// there is no such place.
pub(super) fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let in_home = |path: &str| variable("HOME").map(|home| PathBuf::from(home).join(path));
    let caches = || match std::env::consts::OS {
        "windows" => variable("LOCALAPPDATA").map(PathBuf::from),
        "macos" => in_home("Library/Caches"),
        _ => variable("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| in_home(".cache")),
    };
    let own = variable(VARIABLE).map(PathBuf::from);
    Some(own.or_else(|| Some(caches()?.join("art-host")))?.join("code"))
}

/// The code kept under a key, if it is whole and nobody else can have written it.
pub(super) fn read(folder: &Path, key: &str) -> Option<Vouched> {
    if !is_private(folder) {
        return None;
    }
    let file = fs::read(path(folder, key)).ok()?;
    let code = file.get(MAGIC.len() + DIGEST_BYTES..)?;
    let is_whole = file.starts_with(MAGIC)
        && file[MAGIC.len()..MAGIC.len() + DIGEST_BYTES] == digest(key, code)[..];
    is_whole.then_some(Vouched { file })
}

/// Keeps code under a key.
///
/// # Errors
/// If the directory cannot be made or written, or others may write it.
pub(super) fn write(folder: &Path, key: &str, code: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    make_private(folder)?;
    if !is_private(folder) {
        return Err(io::Error::other("others may write it; make it the owner's alone (chmod 700)"));
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{key}.{}.{number}.tmp", process::id()));
    let written = fs::File::create(&unfinished).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(&digest(key, code))?;
        file.write_all(code)
    });
    let finished = written.and_then(|()| fs::rename(&unfinished, path(folder, key)));
    if finished.is_err() {
        // The half-written file is of no use to anybody; that it cannot be removed changes nothing.
        drop(fs::remove_file(&unfinished));
    }
    finished.and_then(|()| prune(folder, BYTES_MAX))
}

/// Removes what was written first until the rest is small enough.
fn prune(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may have removed it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let path = entry.path();
        let is_ours = path.extension().is_some_and(|kind| kind == "cwasm" || kind == "tmp");
        if !is_ours {
            continue;
        }
        files.push((metadata.modified()?, path, metadata.len()));
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, _, length)| length).sum();
    for (_, path, length) in files {
        if total <= bytes_max {
            break;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => total -= length,
        }
    }
    Ok(())
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.cwasm"))
}

fn digest(key: &str, code: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::new().chain_update(key).chain_update([0]).chain_update(code).finalize().into()
}

#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    // The user's own folders are private already.
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.permissions().mode() & 0o022 == 0)
}

#[cfg(not(unix))]
fn is_private(folder: &Path) -> bool {
    folder.is_dir()
}

#[cfg(test)]
mod tests {
    use super::{prune, read, write};

    #[test]
    fn the_oldest_files_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let begin = std::time::UNIX_EPOCH;
        for (age, key) in [(3, "old"), (1, "new"), (2, "middle")] {
            write(folder.path(), key, b"code").unwrap();
            let path = super::path(folder.path(), key);
            let file = std::fs::File::options().append(true).open(path).unwrap();
            file.set_modified(begin + std::time::Duration::from_secs(100 - age)).unwrap();
        }
        prune(folder.path(), 110).unwrap();
        let is_kept = |key| read(folder.path(), key).is_some();
        assert_eq!(["old", "middle", "new"].map(is_kept), [false, true, true]);
    }

    #[test]
    fn truncated_files_and_files_of_another_key_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/on/demand");
        write(&folder, "a", b"code").unwrap();
        assert_eq!(read(&folder, "a").unwrap().bytes(), b"code");
        assert!(read(&folder, "b").is_none());
        std::fs::copy(folder.join("a.cwasm"), folder.join("b.cwasm")).unwrap();
        assert!(read(&folder, "b").is_none());
        let whole = std::fs::read(folder.join("a.cwasm")).unwrap();
        for length in 0..whole.len() {
            std::fs::write(folder.join("a.cwasm"), &whole[..length]).unwrap();
            assert!(read(&folder, "a").is_none(), "{length}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_may_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", b"code").unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        assert!(read(folder.path(), "a").is_none());
        assert!(write(folder.path(), "a", b"code").is_err());
    }
}
