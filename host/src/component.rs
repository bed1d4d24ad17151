//! A component: compiled WASM that keeps the contract, known by the digest of its bytes.
//!
//! `compiled` takes bytes to machine code by way of `contract` and `cache`; what remains here is to
//! ask the environment what it is, once, in a sandbox of its own. Knows nothing of episodes.

mod cache;
pub(crate) mod compiled;
mod contract;
pub(crate) mod description;
pub(crate) mod engine;
mod precompiled;
mod signature;
pub(crate) mod ticker;

use std::sync::Arc;
use std::thread;

use self::compiled::Compiled;
pub use self::description::{Description, Part, Split};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::sandbox::Sandbox;

/// An environment, compiled. Cheap to clone.
#[derive(Clone)]
pub struct Component {
    compiled: Arc<Compiled>,
    description: Arc<Description>,
}

/// Why a component is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct ComponentError {
    /// The component's name, as the user gave it.
    pub name: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a component.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// More bytes than allowed.
    #[error("it has {size} bytes: raise `limits.component_bytes = {limit}`, or build it smaller")]
    TooLarge {
        /// Its bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// No WebAssembly.
    #[error("it is not a WebAssembly component: its {size} bytes do not begin as one")]
    NotWasm {
        /// Its bytes.
        size: u64,
    },
    /// WebAssembly as text.
    #[error("it is WebAssembly text: turn it into a component with `wasm-tools parse`")]
    Text,
    /// A core module.
    #[error(
        "it is a core WebAssembly module, not a component: build it for `wasm32-wasip2`, or turn \
         it into one with `wasm-tools component new`"
    )]
    CoreModule,
    /// Machine code.
    #[error(
        "it is precompiled machine code, which is never run: give the component it was made from"
    )]
    Precompiled,
    /// Invalid WebAssembly, or a feature that is not allowed.
    #[error("it is not valid, or uses what this host does not allow: {text} (at byte {offset})")]
    Invalid {
        /// The validator's words.
        text: String,
        /// Where in the file.
        offset: u64,
    },
    /// It does not keep the contract.
    #[error(
        "it does not keep the contract of `wit/art-env.wit`:\n  {0}\nBuild it against that file"
    )]
    Contract(String),
    /// The compiler refused it.
    #[error("it does not compile: {0}")]
    Compile(String),
    /// It could not be linked to what the host offers.
    #[error("it cannot be linked: {0}")]
    Link(String),
    /// A reward function where an environment is asked for.
    #[error("it is a reward function; an environment is needed here")]
    NotEnvironment,
    /// An environment where a reward function is asked for.
    #[error("it is an environment; a reward function is needed here")]
    NotReward,
    /// It failed while it was asked what it is.
    #[error("it cannot say what it is: {}", .0.with_log())]
    Describe(Fault),
    /// What it says of itself breaks the contract.
    #[error("its description breaks the contract: {0}")]
    Description(String),
    /// This machine cannot run components.
    #[error("{0}")]
    Host(String),
}

impl Component {
    /// Checks, compiles and describes an environment.
    ///
    /// The machine code is kept in the user's cache directory (`ART_HOST_CACHE` moves it), so the
    /// same bytes are compiled once. `name` is only for messages.
    ///
    /// # Errors
    /// What is wrong with it, where, and what to do.
    pub fn load(name: &str, bytes: &[u8], limits: &Limits) -> Result<Component, ComponentError> {
        let load = || {
            let compiled = Compiled::new(name, bytes, limits)?;
            let complain = |problem| ComponentError { name: name.to_owned(), problem };
            if compiled.environment().is_none() {
                return Err(complain(Problem::NotEnvironment));
            }
            let description = Sandbox::of_compiled(&compiled, limits, 0)
                .and_then(|mut sandbox| sandbox.describe())
                .map_err(|fault| complain(Problem::Describe(fault)))?;
            description.validate().map_err(|text| complain(Problem::Description(text)))?;
            let (compiled, description) = (Arc::new(compiled), Arc::new(description));
            Ok(Component { compiled, description })
        };
        apart(load)
    }

    /// SHA-256 of its bytes, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.compiled.digest()
    }

    /// Its name, as the user gave it.
    pub fn name(&self) -> &str {
        self.compiled.name()
    }

    /// Whether it knows how to play itself well.
    pub fn has_expert(&self) -> bool {
        self.compiled.expert().is_some()
    }

    /// What it says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }
}

/// The stack of [`apart`]'s thread: the compiler and the parsers recurse over what a stranger
/// wrote.
const APART_STACK_BYTES: usize = 16 << 20;

/// Runs on a thread of its own: WASI's blocking calls panic on a thread that runs async tasks,
/// which a caller's may be.
pub(crate) fn apart<A: Send>(work: impl FnOnce() -> A + Send) -> A {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(APART_STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work).expect("the system gives one more thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
