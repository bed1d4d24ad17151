//! The smallest art-host environment: the agent repeats the word that it is given.
//!
//! [`logic`] is the game, plain Rust that `cargo test` and the host's benchmark run natively;
//! `guest` says it in the words of the contract.

pub mod logic;

#[cfg(target_family = "wasm")]
mod guest;
