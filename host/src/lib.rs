//! Trains language-model agents on sandboxed WebAssembly environments: the host's side.
//!
//! Modules in the order in which data flows:
//! - [`config`]: what a user chose, as plain values;
//! - [`limits`], [`fault`], [`component`], [`sandbox`]: one component, safely;
//! - [`tasks`], [`policy`], [`episode`], [`reward`], [`rollout`]: many episodes against a policy;
//! - [`evaluation`]: trajectories → numbers;
//! - [`run`], [`train`]: the loop, and the directory that it leaves;
//! - [`progress`], [`stop`]: what a person sees, and Ctrl-C;
//! - [`check`], [`bench`]: does an environment keep the contract, and what does it all cost;
//! - [`examples`]: the environments that come along.
//!
//! Tokens, tensors and updates are `art_learner`'s, which knows nothing of WASM.

pub mod config;

pub mod component;
pub mod fault;
pub mod limits;
pub mod sandbox;

pub mod episode;
pub mod policy;
pub mod reward;
pub mod rollout;
pub mod tasks;

pub mod evaluation;
pub mod run;
pub mod train;

pub mod progress;
pub mod stop;

pub mod bench;
pub mod check;
pub mod examples;

mod bindings;
mod wasi;
