//! The one unsafe step of the host: turning bytes from this host's own cache into machine code that
//! will run.
//!
//! Wasmtime hardly checks such bytes, so whoever can write them can run anything. `cache` therefore
//! keeps them in a directory that only this user can write, next to a digest that is compared
//! first.

use wasmtime::Engine;
use wasmtime::component::Component;

use super::cache::Vouched;

/// Makes a component of precompiled code.
///
/// # Errors
/// If the code is of another version of wasmtime or for another machine.
pub(super) fn deserialize(engine: &Engine, code: &Vouched) -> wasmtime::Result<Component> {
    #[allow(unsafe_code, reason = "wasmtime offers no safe way to load precompiled code")]
    // SAFETY: `Vouched` is made only by `cache::read`, from a file of this host's own directory,
    // which others cannot write, and only when its digest shows that it is whole and was written
    // under this very key.
    unsafe {
        Component::deserialize(engine, code.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cache, engine};

    #[test]
    fn what_was_serialized_comes_back_and_what_was_altered_does_not() {
        let engine = engine::engine().unwrap();
        let empty_component = b"\0asm\x0d\0\x01\0";
        let code = engine.precompile_component(empty_component).unwrap();
        let folder = tempfile::tempdir().unwrap();
        cache::write(folder.path(), "key", &code).unwrap();
        let vouched = cache::read(folder.path(), "key").unwrap();
        assert!(super::deserialize(engine, &vouched).is_ok());

        let file = folder.path().join("key.cwasm");
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert!(cache::read(folder.path(), "key").is_none());
    }
}
