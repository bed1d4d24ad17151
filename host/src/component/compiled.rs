//! A component as machine code, linked to what the host offers and ready to be instantiated.
//!
//! Bytes are looked at in this order, so that the most helpful complaint comes first: size, kind of
//! file, validity, contract, compilation. Knows nothing of descriptions.

use std::panic::{self, AssertUnwindSafe};
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
        let code = code(engine, &digest, bytes).map_err(complain)?;
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
fn code(engine: &Engine, digest: &str, bytes: &[u8]) -> Result<Code, Problem> {
    let contract = hex(&Sha256::digest(contract::WIT)[..4]);
    let key = format!("{digest}-{:016x}-{contract}", engine::compatibility(engine));
    let folder = cache::folder();
    let kept = folder.as_deref().and_then(|folder| cache::read(folder, &key));
    if let Some(code) = kept.and_then(|kept| precompiled::deserialize(engine, &kept).ok()) {
        return Ok(code);
    }
    validate(bytes)?;
    let code = compile(engine, bytes)?;
    if let Some(folder) = folder {
        let written = code
            .serialize()
            .map_err(std::io::Error::other)
            .and_then(|serialized| cache::write(&folder, &key, &serialized));
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

fn compile(engine: &Engine, bytes: &[u8]) -> Result<Code, Problem> {
    // A component that makes the compiler panic must not end a process that plays others.
    let compiled = panic::catch_unwind(AssertUnwindSafe(|| Code::from_binary(engine, bytes)));
    match compiled {
        Ok(Ok(code)) => Ok(code),
        Ok(Err(error)) => Err(Problem::Compile(format!("{error:#}"))),
        Err(_) => Err(Problem::Compile("the compiler panicked".into())),
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
