//! Tic-tac-toe as an art-host environment, in the order in which things happen:
//! a task's config becomes [`settings`], an [`episode`] plays them on a [`game`] board with draws
//! from [`random`], and `guest` says it all in the words of the contract.
//!
//! Everything but `guest` is plain Rust that `cargo test` runs on any machine.

pub mod episode;
pub mod game;
pub mod random;
pub mod settings;

#[cfg(target_family = "wasm")]
mod guest;
