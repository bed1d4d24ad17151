//! Whether a component keeps the contract of `wit/`: which world it targets, and what is missing or
//! mistyped if none.
//!
//! Compares interface types structurally, so that the message can name the function and the field
//! that differ. Imports of `wasi:` pass, because the host answers them or traps; every other import
//! must be of the contract. Runs no code.

use std::fmt::Write;
use std::sync::LazyLock;

use wit_component::DecodedWasm;
use wit_parser::{InterfaceId, PackageName, Resolve, WorldId, WorldItem, WorldKey};

use super::signature;

/// The contract.
pub(super) const WIT: &str = include_str!("../../../wit/art-env.wit");

/// The package of the contract, without its version.
const PACKAGE: (&str, &str) = ("art", "env");

/// Which of the contract's worlds a component targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An environment.
    Environment,
    /// An environment that knows how to play itself well.
    EnvironmentWithExpert,
    /// A reward function.
    Reward,
}

/// The contract, parsed.
struct Contract {
    resolve: Resolve,
    package: PackageName,
    interfaces: Vec<(String, InterfaceId)>,
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let mut resolve = Resolve::default();
    let id = resolve.push_str("art-env.wit", WIT).expect("the contract parses, as a test shows");
    let package = &resolve.packages[id];
    let interfaces = package.interfaces.iter().map(|(name, id)| (name.clone(), *id)).collect();
    Contract { package: package.name.clone(), interfaces, resolve }
});

/// Says which world a component targets.
///
/// # Errors
/// What is wrong, line by line, in words.
pub(super) fn kind_of(bytes: &[u8]) -> Result<Kind, String> {
    match wit_component::decode(bytes) {
        Ok(DecodedWasm::Component(resolve, world)) => check(&resolve, world),
        Ok(DecodedWasm::WitPackage(..)) => {
            Err("it holds only a WIT package, the description of an interface, and no code".into())
        }
        Err(error) => Err(format!("its interface cannot be read: {error:#}")),
    }
}

/// Compares a component's world with the contract.
fn check(theirs: &Resolve, world: WorldId) -> Result<Kind, String> {
    let exports = Side::of(theirs, world, |world| &world.exports);
    let imports = Side::of(theirs, world, |world| &world.imports);
    let mut wrong = String::new();
    let has = |name| exports.contract.iter().any(|(exported, ..)| exported == name);
    let kind = match (has("environment"), has("expert"), has("reward-function")) {
        (true, false, _) => Kind::Environment,
        (true, true, _) => Kind::EnvironmentWithExpert,
        (false, _, true) => Kind::Reward,
        (false, _, false) => return Err(missing_export(&exports)),
    };
    for (name, id, version) in &exports.contract {
        compare(&mut wrong, "exports", name, version, theirs, *id);
    }
    for (name, id, version) in &imports.contract {
        compare(&mut wrong, "imports", name, version, theirs, *id);
    }
    for name in imports.foreign.iter().filter(|name| !name.starts_with("wasi:")) {
        line(&mut wrong, &format!("imports `{name}`, which this host does not offer"));
    }
    if wrong.is_empty() { Ok(kind) } else { Err(wrong) }
}

/// What a world imports or exports, sorted into the contract's interfaces and everything else.
#[derive(Default)]
struct Side {
    contract: Vec<(String, InterfaceId, PackageName)>,
    foreign: Vec<String>,
}

impl Side {
    fn of(
        resolve: &Resolve,
        world: WorldId,
        items: fn(&wit_parser::World) -> &wit_parser::IndexMap<WorldKey, WorldItem>,
    ) -> Side {
        let mut side = Side::default();
        for (key, item) in items(&resolve.worlds[world]) {
            let interface = match item {
                WorldItem::Interface { id, .. } => Some(*id),
                WorldItem::Function(_) => None,
                WorldItem::Type { .. } => continue,
            };
            let named = interface.and_then(|id| {
                let interface = &resolve.interfaces[id];
                let package = &resolve.packages[interface.package?].name;
                let is_ours = (&*package.namespace, &*package.name) == PACKAGE;
                is_ours.then(|| Some((interface.name.clone()?, id, package.clone())))?
            });
            match named {
                Some(named) => side.contract.push(named),
                None => side.foreign.push(resolve.name_world_key(key)),
            }
        }
        side
    }
}

/// Adds a line for every way in which an interface differs from the contract's.
fn compare(
    wrong: &mut String,
    verb: &str,
    name: &str,
    package: &PackageName,
    theirs: &Resolve,
    id: InterfaceId,
) {
    let full_name = package.interface_id(name);
    if !is_same_track(package) {
        let ours = CONTRACT.package.interface_id(name);
        line(wrong, &format!("{verb} `{full_name}`; this host speaks `{ours}`"));
        return;
    }
    let Some((_, ours)) = CONTRACT.interfaces.iter().find(|(known, _)| known == name) else {
        line(wrong, &format!("{verb} `{full_name}`, which the contract does not have"));
        return;
    };
    let ours = &CONTRACT.resolve.interfaces[*ours].functions;
    let functions = &theirs.interfaces[id].functions;
    if verb == "exports" {
        for function in ours.keys().filter(|function| !functions.contains_key(*function)) {
            line(wrong, &format!("{verb} `{full_name}` without its function `{function}`"));
        }
    }
    for (function, their_function) in functions {
        match ours.get(function) {
            Some(our_function) => {
                let (a, b) = ((&CONTRACT.resolve, our_function), (theirs, their_function));
                if let Err(difference) = signature::compare(a, b) {
                    line(wrong, &format!("{verb} `{full_name}` with another type of {difference}"));
                }
            }
            None if verb == "imports" => {
                line(wrong, &format!("{verb} `{full_name}#{function}`, which this host lacks"));
            }
            None => {}
        }
    }
}

/// Whether two versions of the contract are meant to fit: the same major, or the same minor while
/// that is 0.
fn is_same_track(theirs: &PackageName) -> bool {
    match (&CONTRACT.package.version, &theirs.version) {
        (Some(ours), Some(theirs)) if !theirs.pre.is_empty() => ours == theirs,
        (Some(ours), Some(theirs)) if ours.major == 0 => {
            (ours.major, ours.minor) == (theirs.major, theirs.minor)
        }
        (Some(ours), Some(theirs)) => ours.major == theirs.major,
        _ => false,
    }
}

fn missing_export(exports: &Side) -> String {
    let wanted = |name| CONTRACT.package.interface_id(name);
    let mut found: Vec<String> =
        exports.contract.iter().map(|(name, _, package)| package.interface_id(name)).collect();
    found.extend(exports.foreign.iter().cloned());
    let found = match found.as_slice() {
        [] => "nothing".into(),
        found => format!("`{}`", found.join("`, `")),
    };
    let (environment, reward) = (wanted("environment"), wanted("reward-function"));
    format!("exports neither `{environment}` nor `{reward}`; it exports {found}")
}

fn line(text: &mut String, line: &str) {
    let separator = if text.is_empty() { "" } else { "\n  " };
    // Writing to a string cannot fail.
    let _ = write!(text, "{separator}{line}");
}

#[cfg(test)]
mod tests {
    use wit_parser::Resolve;

    use super::{Kind, WIT, check};

    /// What the check says of a component that targets a world of a changed contract.
    fn checked(world: &str, change: impl Fn(String) -> String) -> Result<Kind, String> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("theirs.wit", &change(WIT.to_owned())).unwrap();
        let world = resolve.select_world(&[package], Some(world)).unwrap();
        check(&resolve, world)
    }

    fn changed(world: &str, from: &str, to: &str) -> String {
        assert!(WIT.contains(from), "{from}");
        checked(world, |wit| wit.replace(from, to)).unwrap_err()
    }

    #[test]
    fn each_world_is_recognised() {
        let same = |world| checked(world, |wit| wit);
        assert_eq!(same("environment-only"), Ok(Kind::Environment));
        assert_eq!(same("environment-with-expert"), Ok(Kind::EnvironmentWithExpert));
        assert_eq!(same("reward"), Ok(Kind::Reward));
        let later_patch = checked("reward", |wit| wit.replace("art:env@0.1.0", "art:env@0.1.9"));
        assert_eq!(later_patch, Ok(Kind::Reward));
    }

    #[test]
    fn another_version_is_named() {
        let error = changed("environment-only", "art:env@0.1.0", "art:env@0.2.0");
        let line = "exports `art:env/environment@0.2.0`; this host speaks \
                    `art:env/environment@0.1.0`";
        assert!(error.contains(line), "{error}");
    }

    #[test]
    fn a_mistyped_function_names_the_field() {
        let error = changed("environment-only", "max-turns: u32", "max-turns: u64");
        assert_eq!(
            error,
            "exports `art:env/environment@0.1.0` with another type of `describe`: its result, \
             field `max-turns` is u64, the contract says u32"
        );
        let error = changed("environment-only", "    index: u64,\n", "");
        assert!(error.contains("`start`: parameter `task` has no field `index`"), "{error}");
    }

    #[test]
    fn a_missing_function_and_a_foreign_import_are_named() {
        let step = "step: func(actions: list<action>) -> result<turn, string>;";
        let error = changed("environment-only", step, "");
        assert!(error.contains("without its function `step`"), "{error}");
        let error = checked("environment-only", |wit| {
            format!("{wit}\ninterface net {{ get: func(); }}")
                .replace("world environment-only {", "world environment-only { import net;")
        });
        assert!(error.unwrap_err().contains("`art:env/net@0.1.0`, which the contract does not"));
    }

    #[test]
    fn a_component_of_another_world_is_told_what_it_exports() {
        let mut resolve = Resolve::default();
        let wit = "package a:b@1.0.0; interface c { d: func(); } world w { export c; }";
        let package = resolve.push_str("a.wit", wit).unwrap();
        let world = resolve.select_world(&[package], None).unwrap();
        assert_eq!(
            check(&resolve, world).unwrap_err(),
            "exports neither `art:env/environment@0.1.0` nor `art:env/reward-function@0.1.0`; \
             it exports `a:b/c@1.0.0`"
        );
    }
}
