//! Integration tests of the libraries: one binary, a module per topic.
//!
//! Tests of the program itself are in `program.rs`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rollout;
mod sandbox;
mod tidy;
