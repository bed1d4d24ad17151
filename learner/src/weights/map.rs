//! A file as bytes, without reading it into memory first.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

/// Maps a file for reading.
#[allow(unsafe_code, reason = "mapping a file is unsafe by nature; see SAFETY")]
pub(super) fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the map is read-only. Should another process cut the file short while it is mapped,
    // reading ends in a bus error; should it change the bytes, wrong numbers are read. Both need
    // write access to the user's own model files, and this program only ever replaces such files by
    // renaming.
    unsafe { Mmap::map(&file) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mapped_file_is_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bytes");
        std::fs::write(&path, b"some bytes").unwrap();
        assert_eq!(&super::map(&path).unwrap()[..], b"some bytes");
        assert!(super::map(&dir.path().join("none")).is_err());
    }
}
