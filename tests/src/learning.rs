//! Training works from end to end: a short run plays visibly better afterwards.
//!
//! The claim that the README makes, with three seeds and in full length, is `tests/claims`.

use crate::art_host;

/// Chance wins 58 % of games as x; 500 games put 2 points around that. A sampler that does not
/// follow the learner, a wrong sign or a mask in the wrong place all stay there.
#[test]
fn a_short_run_of_tictactoe_improves() {
    let folder = tempfile::tempdir().unwrap();
    let done = art_host(
        folder.path(),
        ["run", "tictactoe", "--json", "--seed", "1", "--updates", "25", "--device", "cpu"],
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    let summary = done.json();
    let success = |stage: &str| summary[stage]["success"].as_f64().unwrap();
    let (before, after) = (success("before"), success("after"));
    assert!(before < 0.70 && after > before + 0.12, "from {before} to {after}");
}
