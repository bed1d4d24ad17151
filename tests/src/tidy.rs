//! The house rules that a machine can hold: sizes, openings, names. Each exception stands here with
//! its reason.

use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] =
    ["mod.rs", "base.rs", "utils.rs", "util.rs", "common.rs", "helpers.rs", "manager.rs"];

/// Files that break a rule, the rule, and why.
const EXCEPTIONS: [(&str, Rule, &str); 1] =
    [("env-examples/build", Rule::Path, "it takes such paths out of what it builds")];

/// Beginnings of such paths, in halves so that this file does not hold them itself.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    FileLength,
    FunctionLength,
    LineLength,
    Opening,
    Name,
    GlobImport,
    Path,
}

#[test]
fn the_house_is_tidy() {
    let root = root();
    let mut broken = Vec::new();
    for path in tracked(&root) {
        let name = path.to_string_lossy().replace('\\', "/");
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let mut found = machine_paths(&text);
        if name.ends_with(".rs") && !is_generated(&name) {
            found.extend(rust_file(&name, &text));
        }
        let excused = |rule| EXCEPTIONS.iter().any(|(file, r, _)| *file == name && *r == rule);
        found.retain(|(rule, _)| !excused(*rule));
        broken.extend(found.into_iter().map(|(rule, what)| format!("{name}: {rule:?}: {what}")));
    }
    assert!(broken.is_empty(), "STYLE.md is broken here:\n{}", broken.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// Every file of the workspace that is not built or ignored, relative to its root.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            let hidden = name.to_string_lossy().starts_with('.');
            let built = ["target", "node_modules", "runs"].iter().any(|built| name == *built);
            if hidden || built {
                continue;
            }
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(folder.join(name)),
                kind if kind.is_file() => files.push(folder.join(name)),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Bindings that wit-bindgen wrote, committed so that guests build without it.
fn is_generated(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file == "bindings.rs"
        && (name.starts_with("env-examples/") || name.starts_with("tests/guests/"))
}

fn rust_file(name: &str, text: &str) -> Vec<(Rule, String)> {
    let mut broken = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > FILE_LINES_MAX {
        broken.push((Rule::FileLength, format!("{} lines", lines.len())));
    }
    if !text.starts_with("//! ") {
        broken.push((Rule::Opening, "does not open with `//! `".into()));
    }
    let file = name.rsplit('/').next().unwrap_or(name);
    if EMPTY_NAMES.contains(&file) {
        broken.push((Rule::Name, "the name says nothing about what is inside".into()));
    }
    for (index, line) in lines.iter().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            broken.push((Rule::LineLength, format!("line {}: {columns} columns", index + 1)));
        }
        let import = line.trim_start().trim_start_matches("pub ").starts_with("use ");
        if import && line.contains("::*") && line.trim() != "use super::*;" {
            broken.push((Rule::GlobImport, format!("line {}", index + 1)));
        }
    }
    let long = functions(&lines).into_iter().filter(|(_, length)| *length > FUNCTION_LINES_MAX);
    broken.extend(
        long.map(|(line, length)| (Rule::FunctionLength, format!("line {line}: {length} lines"))),
    );
    broken
}

/// Where each function begins, and how many lines it has. rustfmt puts its closing brace below its
/// first word.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().take(5).collect();
        let is_function = words.iter().take_while(|word| is_qualifier(word)).count();
        if words.get(is_function) != Some(&"fn") || line.trim_end().ends_with('}') {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let length = lines[index..].iter().position(|line| *line == closing);
        functions.extend(length.map(|length| (index + 1, length + 1)));
    }
    functions
}

fn is_qualifier(word: &str) -> bool {
    word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
}

/// Paths that exist on one machine only.
fn machine_paths(text: &str) -> Vec<(Rule, String)> {
    let mut broken = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let starts_a_path = |prefix: &&str| {
            line.match_indices(prefix).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-~}$/".contains(c))
            })
        };
        if MACHINE_PATHS.iter().any(starts_a_path) {
            broken.push((Rule::Path, format!("line {}: a path of one machine", index + 1)));
        }
    }
    broken
}

#[test]
fn the_rules_find_what_they_forbid() {
    let long = "x".repeat(101);
    let body = "    let _ = 0;\n".repeat(70);
    let text = format!("use a::*;\nfn f() {{\n{body}}}\n// {long}\n");
    let rules: Vec<Rule> =
        rust_file("a/utils.rs", &text).into_iter().map(|(rule, _)| rule).collect();
    let expected =
        [Rule::Opening, Rule::Name, Rule::GlobImport, Rule::LineLength, Rule::FunctionLength];
    assert_eq!(rules, expected);
    assert_eq!(machine_paths(&format!("see {}x", MACHINE_PATHS[0])).len(), 1);
    assert_eq!(machine_paths("see $HOME/x and a/root/b").len(), 0);
}
