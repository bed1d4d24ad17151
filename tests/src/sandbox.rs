//! Components are refused with a helpful word, and guests that misbehave fail alone, with the right
//! fault.

use art_host::component::Component;
use art_host::episode::{EpisodeSpec, digest};
use art_host::examples;
use art_host::fault::Fault;
use art_host::limits::Limits;
use art_host::sandbox::{Sandbox, Turn};
use art_learner::conversation::{Action, Blame, Message, Task};

use crate::rollout::{HOSTILE, play, specs};

/// Limits under which an attack ends within a fraction of a second.
pub(crate) fn tight() -> Limits {
    Limits {
        fuel_per_step: 300_000_000,
        memory_bytes: 300 << 20,
        log_bytes: 1 << 20,
        ..Limits::default()
    }
}

fn task(config: &str) -> Task {
    Task { split: "train".into(), index: 0, seed: 7, config: config.into() }
}

fn hostile() -> Component {
    Component::load("hostile", HOSTILE, &tight()).unwrap()
}

/// What an attack in the first step comes to.
fn attacked(component: &Component, limits: &Limits, attack: &str) -> Result<Turn, Fault> {
    let config = format!("{{\"attack\":\"{attack}\"}}");
    let mut sandbox = Sandbox::new(component, limits, 7)?;
    sandbox.start(&task(&config))?;
    sandbox.step(&[Action { agent: "player".into(), message: Message::assistant("yes") }])
}

#[test]
fn every_attack_is_the_guests_fault_and_of_the_right_kind() {
    let component = hostile();
    for (attack, kind, key) in [
        ("loop", "fuel", "limits.fuel_per_step = 300000000"),
        ("trap", "trap", "unreachable"),
        ("error-log-then-trap", "trap", "unreachable"),
        ("memory", "memory", "limits.memory_bytes = 314572800"),
        ("log", "log", "limits.log_bytes = 1048576"),
        ("huge-log-line", "refused", "limits.hostcall_bytes = 4194304"),
        ("model-flood", "model-requests", "limits.model_requests = 1000"),
        ("huge-string", "refused", "limits.hostcall_bytes = 4194304"),
        ("shared-strings", "refused", "limits.hostcall_bytes = 4194304"),
        ("many-records", "refused", "limits.hostcall_bytes = 4194304"),
        ("deep-recursion", "trap", "trapped"),
        ("err", "error", "hostile: told to fail"),
        ("huge-err", "refused", "limits.hostcall_bytes = 4194304"),
    ] {
        let fault = attacked(&component, &tight(), attack).unwrap_err();
        assert_eq!((fault.kind(), fault.whose()), (kind, Blame::Guest), "{attack}: {fault}");
        let text = fault.to_string();
        assert!(text.contains(key), "{attack}: {text}");
        assert!(text.starts_with("`step` of hostile: "), "{attack}: {text}");
    }
}

#[test]
fn a_fault_shows_what_the_guest_logged() {
    let fault = attacked(&hostile(), &tight(), "error-log-then-trap").unwrap_err();
    assert_eq!(fault.log, ["error: hostile: about to trap"]);
    let fault = attacked(&hostile(), &tight(), "trap").unwrap_err();
    assert!(fault.log.iter().any(|line| line.contains("told to panic")), "{:?}", fault.log);
    let fault = attacked(&hostile(), &tight(), "log").unwrap_err();
    let bytes: usize = fault.log.iter().map(String::len).sum();
    assert!(bytes < 20_000 && fault.log.iter().any(|line| line.contains("dropped")), "{bytes}");
}

#[test]
fn a_faulted_sandbox_is_never_entered_again() {
    let component = hostile();
    let mut sandbox = Sandbox::new(&component, &tight(), 7).unwrap();
    sandbox.start(&task(r#"{"attack":"trap"}"#)).unwrap();
    assert_eq!(sandbox.step(&[]).unwrap_err().kind(), "trap");
    let again = sandbox.step(&[]).unwrap_err();
    assert_eq!((again.kind(), again.whose()), ("host", Blame::Host));
}

#[test]
fn the_wall_clock_is_the_backstop_and_nobody_is_blamed_for_it() {
    let limits = Limits { fuel_per_step: u64::MAX, fuel_per_episode: u64::MAX, ..tight() };
    let limits = Limits { step_wall_ms: 30, ..limits };
    let fault = attacked(&hostile(), &limits, "loop").unwrap_err();
    assert_eq!((fault.kind(), fault.whose()), ("time", Blame::Host));
    assert!(fault.to_string().contains("limits.step_wall_ms"), "{fault}");
    let spec = EpisodeSpec {
        episode: 0,
        task: task(r#"{"attack":"loop","when":"start"}"#),
        policy_seed: 0,
    };
    let played = play(&hostile(), &limits, &[spec], 1, 1);
    assert_eq!(played[0].ending.label(), "truncated-time");
    assert!(!played[0].ending.is_trainable());
}

#[test]
fn fuel_is_counted_over_the_episode_too() {
    let echo = Component::load("echo", examples::find("echo").unwrap(), &tight()).unwrap();
    let limits = Limits { fuel_per_episode: 1_000_000, ..tight() };
    let mut sandbox = Sandbox::new(&echo, &limits, 0).unwrap();
    sandbox.start(&task(r#"{"bytes":10000,"turns":1000}"#)).unwrap();
    let answer = [Action { agent: "parrot".into(), message: Message::assistant("x") }];
    let fault = (0..1000).find_map(|_| sandbox.step(&answer).err()).unwrap();
    assert_eq!(fault.kind(), "fuel");
    assert!(fault.to_string().contains("limits.fuel_per_episode = 1000000"), "{fault}");
}

#[test]
fn files_that_are_no_components_are_refused_with_what_to_do() {
    let refused = |bytes: &[u8]| match Component::load("it", bytes, &Limits::default()) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let expected = "it: it is not a WebAssembly component: its 0 bytes do not begin as one";
    assert_eq!(refused(b""), expected);
    let expected = "it: it is WebAssembly text: turn it into a component with `wasm-tools parse`";
    assert_eq!(refused(b"(component)"), expected);
    let expected = "it: it is a core WebAssembly module, not a component: build it for \
                    `wasm32-wasip2`, or turn it into one with `wasm-tools component new`";
    assert_eq!(refused(b"\0asm\x01\0\0\0"), expected);
    let expected = "it: it does not keep the contract of `wit/art-env.wit`:\n  \
                    exports neither `art:env/environment@0.1.0` nor \
                    `art:env/reward-function@0.1.0`; it exports nothing\n\
                    Build it against that file";
    assert_eq!(refused(b"\0asm\x0d\0\x01\0"), expected);
    let cut = &HOSTILE[..HOSTILE.len() / 2];
    assert!(refused(cut).starts_with("it: it is not valid, or uses what this host does not allow"));
    let small = Limits { component_bytes: 1000, ..Limits::default() };
    let error = Component::load("it", HOSTILE, &small).err().unwrap().to_string();
    assert!(error.contains("raise `limits.component_bytes = 1000`"), "{error}");
}

#[test]
fn a_javascript_guest_plays_the_same_twice_and_its_seeds_differ() {
    // It brings a whole language along, with WASI and its own randomness.
    let bytes = examples::find("arithmetic").unwrap();
    let component = Component::load("arithmetic", bytes, &Limits::default()).unwrap();
    let digests = |seed| {
        let played = play(&component, &Limits::default(), &specs(6, seed, "{}"), 3, 2);
        assert!(played.iter().all(|trajectory| trajectory.ending.is_trainable()), "{played:?}");
        played.iter().map(digest).collect::<Vec<_>>()
    };
    assert_eq!(digests(1), digests(1));
    assert_ne!(digests(1), digests(2));
}

#[test]
fn twenty_thousand_episodes_leave_nothing_behind() {
    if !is_alone("sandbox::twenty_thousand_episodes_leave_nothing_behind") {
        return;
    }
    let limits = Limits::default();
    let echo = Component::load("echo", examples::find("echo").unwrap(), &limits).unwrap();
    let round = |seed| drop(play(&echo, &limits, &specs(2_000, seed, "{}"), 64, 2));
    round(0);
    let before = resident_bytes();
    (1..=10).for_each(round);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more after 20000 episodes");
}

/// Whether this process runs one test alone. If not, such a process is run for the named test, as
/// the memory of a process is only one test's if no other runs in it.
fn is_alone(test: &str) -> bool {
    const VARIABLE: &str = "ART_TESTS_ALONE";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", test]).env(VARIABLE, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

/// Bytes of this process in memory; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096_u64
}

#[test]
fn the_benchmark_measures_every_number() {
    let report = art_host::bench::sandbox::run().unwrap();
    println!("{report:#?}");
    let numbers = [report.instantiate_start_us, report.step_us, report.native_step_us];
    assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{report:?}");
    assert!(report.native_step_us < report.step_us, "{report:?}");
}
