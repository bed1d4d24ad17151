//! Tokens, tensors and updates: turns groups of trajectories into the next policy version.
//!
//! Modules in the order in which data flows:
//! - [`conversation`]: the domain as plain data;
//! - [`chat`]: conversation → tokens, and tokens → actions;
//! - [`weights`]: tensors in files;
//! - [`model`]: tokens → logits;
//! - [`sampling`]: prompts → completions, many at once;
//! - [`grpo`]: groups → advantages → one batch → loss;
//! - [`sft`]: expert trajectories → the same batch → loss;
//! - [`optimizer`]: gradients → changed weights;
//! - [`learner`]: one policy in training: all of the above behind `sampler()` and `update()`;
//! - [`tiny`]: the built-in policy, an ordinary model directory made from a seed;
//! - [`device`], [`random`]: where tensors live, and where randomness comes from.
//!
//! Knows nothing of WASM, HTTP, or files outside a model or run directory.

pub mod conversation;

pub mod chat;
pub mod weights;

pub mod model;
pub mod sampling;

pub mod grpo;
pub mod optimizer;
pub mod sft;

pub mod learner;
pub mod tiny;

pub mod device;
pub mod random;
