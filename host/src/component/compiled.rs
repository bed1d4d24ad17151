//! A component as machine code, linked to what the host offers and ready to be instantiated.
//!
//! Bytes are looked at in this order, so that the most helpful complaint comes first: size, kind of
//! file, validity, contract, compilation. Knows nothing of descriptions.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Validator};
use wasmtime::Engine;
use wasmtime::component::{Component as Code, InstancePre, Linker};

use super::contract::{self, Kind};
use super::engine::{INSTANCES_MAX, MEMORIES_MAX, TABLES_MAX};
use super::{ComponentError, Problem, cache, engine, precompiled};
use crate::bindings::{environment, expert, reward_function};
use crate::limits::Limits;
use crate::sandbox::state::{self, GuestState};
use crate::wasi;

/// A component as machine code.
pub(crate) struct Compiled {
    name: Arc<str>,
    digest: String,
    instance_pre: InstancePre<GuestState>,
    environment: Option<environment::GuestIndices>,
    expert: Option<expert::GuestIndices>,
    reward: Option<reward_function::GuestIndices>,
    imports_wasi: bool,
}

impl Compiled {
    /// Checks and compiles a component, or takes its code from the cache.
    pub(crate) fn new(
        name: &str,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Compiled, ComponentError> {
        let complain = |problem| ComponentError { name: name.to_owned(), problem };
        let engine = engine::engine().map_err(|text| complain(Problem::Host(text)))?;
        look_at(bytes, limits).map_err(complain)?;
        let digest = hex(&Sha256::digest(bytes));
        let folder = cache::folder();
        let code = code(engine, folder.as_deref(), &digest, bytes).map_err(complain)?;
        Compiled::link(name, digest, &code)
            .map_err(|error| complain(Problem::Link(format!("{error:#}"))))
    }

    fn link(name: &str, digest: String, code: &Code) -> wasmtime::Result<Compiled> {
        let mut linker = Linker::new(code.engine());
        state::add_to_linker(&mut linker)?;
        let imports_wasi = wasi::is_imported_by(code);
        if imports_wasi {
            wasi::add_to_linker(&mut linker, code)?;
        }
        let instance_pre = linker.instantiate_pre(code)?;
        code.initialize_copy_on_write_image()?;
        // The contract has been checked, so an interface that is not found is one that the world
        // does not have.
        Ok(Compiled {
            name: name.into(),
            digest,
            environment: environment::GuestIndices::new(&instance_pre).ok(),
            expert: expert::GuestIndices::new(&instance_pre).ok(),
            reward: reward_function::GuestIndices::new(&instance_pre).ok(),
            instance_pre,
            imports_wasi,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.instance_pre.engine()
    }

    pub(crate) fn instance_pre(&self) -> &InstancePre<GuestState> {
        &self.instance_pre
    }

    pub(crate) fn environment(&self) -> Option<&environment::GuestIndices> {
        self.environment.as_ref()
    }

    pub(crate) fn expert(&self) -> Option<&expert::GuestIndices> {
        self.expert.as_ref()
    }

    pub(crate) fn reward(&self) -> Option<&reward_function::GuestIndices> {
        self.reward.as_ref()
    }

    /// How many instances the pool can hold at once.
    pub(crate) fn instances_max(&self) -> usize {
        let Some(needs) = self.instance_pre.component().resources_required() else { return 1 };
        let by_memories = MEMORIES_MAX / needs.num_memories.max(1);
        let by_tables = TABLES_MAX / needs.num_tables.max(1);
        INSTANCES_MAX.min(by_memories).min(by_tables).max(1) as usize
    }

    pub(crate) fn imports_wasi(&self) -> bool {
        self.imports_wasi
    }
}

/// Looks at the first bytes only.
fn look_at(bytes: &[u8], limits: &Limits) -> Result<(), Problem> {
    let (size, limit) = (bytes.len() as u64, limits.component_bytes);
    if size > limit {
        return Err(Problem::TooLarge { size, limit });
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(Problem::Precompiled);
    }
    if Parser::is_core_wasm(bytes) {
        return Err(Problem::CoreModule);
    }
    match bytes {
        [b'(' | b';', ..] => Err(Problem::Text),
        _ if Parser::is_component(bytes) => Ok(()),
        _ => Err(Problem::NotWasm { size }),
    }
}

/// The machine code of a component, from the cache where it is there.
fn code(
    engine: &Engine,
    folder: Option<&Path>,
    digest: &str,
    bytes: &[u8],
) -> Result<Code, Problem> {
    let contract = hex(&Sha256::digest(contract::WIT)[..4]);
    let key = format!("{digest}-{:016x}-{contract}", engine::compatibility(engine));
    let kept = folder.and_then(|folder| cache::read(folder, &key));
    if let Some(code) = kept.and_then(|kept| precompiled::deserialize(engine, &kept).ok()) {
        return Ok(code);
    }
    // A component that makes a parser or the compiler panic must not end a process that plays
    // others.
    let made = panic::catch_unwind(AssertUnwindSafe(|| {
        validate(bytes)?;
        Code::from_binary(engine, bytes).map_err(|error| Problem::Compile(format!("{error:#}")))
    }));
    let code = made.unwrap_or_else(|_| Err(Problem::Compile("the compiler panicked".into())))?;
    if let Some(folder) = folder {
        let written = code
            .serialize()
            .map_err(std::io::Error::other)
            .and_then(|serialized| cache::write(folder, &key, &serialized));
        if let Err(error) = written {
            tracing::warn!("compiled code is not kept in {}: {error}", folder.display());
        }
    }
    Ok(code)
}

fn validate(bytes: &[u8]) -> Result<Kind, Problem> {
    Validator::new_with_features(engine::features()).validate_all(bytes).map_err(|error| {
        Problem::Invalid { text: error.message().to_owned(), offset: error.offset() as u64 }
    })?;
    contract::kind_of(bytes).map_err(Problem::Contract)
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Problem, engine};
    use art_learner::random::Key;

    use super::{code, look_at, validate};
    use crate::examples;
    use crate::limits::Limits;

    #[test]
    fn machine_code_is_never_taken_from_a_user() {
        let engine = engine::engine().unwrap();
        let code = engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        assert!(matches!(look_at(&code, &Limits::default()), Err(Problem::Precompiled)));
    }

    #[test]
    fn a_cut_off_cache_file_is_compiled_again() {
        let engine = engine::engine().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let bytes = examples::find("echo").unwrap();
        let load = || code(engine, Some(folder.path()), "digest", bytes).unwrap();
        let file = || {
            let mut files = std::fs::read_dir(folder.path()).unwrap();
            let file = files.next().unwrap().unwrap().path();
            assert!(files.next().is_none());
            file
        };
        load();
        let whole = std::fs::read(file()).unwrap();
        std::fs::write(file(), &whole[..whole.len() / 2]).unwrap();
        load();
        assert_eq!(std::fs::read(file()).unwrap().len(), whole.len());
        load();
    }

    #[test]
    fn damaged_components_are_refused_or_read_but_never_a_panic() {
        let key = Key::new(1);
        let whole = examples::find("echo").unwrap();
        let mut refused = 0;
        for damage in 0..300 {
            let mut bytes = whole.to_vec();
            for byte in 0..4 {
                let place = key.part(damage).bits(byte) as usize % bytes.len();
                bytes[place] = key.part(damage).bits(100 + byte) as u8;
            }
            let cut = key.bits(damage) as usize % (2 * bytes.len());
            bytes.truncate(cut);
            refused += usize::from(validate(&bytes).is_err());
        }
        assert!((150..300).contains(&refused), "{refused}");
    }

    #[test]
    fn without_a_cache_components_are_compiled_all_the_same() {
        let engine = engine::engine().unwrap();
        let bytes = examples::find("echo").unwrap();
        assert!(code(engine, None, "digest", bytes).is_ok());
    }
}
