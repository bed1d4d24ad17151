//! Integration tests of the libraries: one binary, a module per topic.
//!
//! Tests of the program itself are in `program.rs`.

mod rollout;
mod sandbox;
mod tidy;
