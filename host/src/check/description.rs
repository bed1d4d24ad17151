//! The rule on what an environment says of itself.

use std::collections::BTreeSet;

use super::Finding;
use crate::component::{Component, Description};
use crate::limits::Limits;
use crate::sandbox::Sandbox;

/// `describe` is sane, and the same in every instance.
pub(super) fn is_sane(component: &Component, limits: &Limits) -> Finding {
    let rule = "`describe` names its agents, splits and reward parts, always the same";
    let described = component.description();
    let again = Sandbox::new(component, limits, 1).and_then(|mut sandbox| sandbox.describe());
    let seen = match again {
        Err(fault) => Err(fault.to_string()),
        Ok(again) if again != *described => Err("another instance described itself differently; \
             describe must not depend on time, chance or what was called before"
            .to_owned()),
        Ok(_) => problem(described).map_or_else(|| Ok(summary(described)), Err),
    };
    Finding::of(rule, seen)
}

fn summary(described: &Description) -> String {
    format!(
        "{} {}: {} agents, {} splits, at most {} turns, reward parts {}",
        described.name,
        described.version,
        described.agents.len(),
        described.splits.len(),
        described.max_turns,
        names(described.parts.iter().map(|part| part.name.as_str())),
    )
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn problem(described: &Description) -> Option<String> {
    let Description { name, agents, splits, parts, .. } = described;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Some(format!("the name `{name}` may hold letters, digits and `-` only"));
    }
    if described.summary.trim().is_empty() {
        return Some("the summary is empty: say in a sentence what agents have to do".into());
    }
    if agents.is_empty() || splits.is_empty() || described.max_turns == 0 {
        return Some("it needs an agent, a split and a turn at least".into());
    }
    if let Some(twice) = repeated(agents.iter().map(String::as_str)) {
        return Some(format!("the agent `{twice}` is named twice"));
    }
    if let Some(twice) = repeated(splits.iter().map(|split| split.name.as_str())) {
        return Some(format!("the split `{twice}` is named twice"));
    }
    if let Some(twice) = repeated(parts.iter().map(|part| part.name.as_str())) {
        return Some(format!("the reward part `{twice}` is named twice"));
    }
    if let Some(empty) = splits.iter().find(|split| split.tasks == 0) {
        return Some(format!("the split `{}` has no task", empty.name));
    }
    let range = |minimum: f64, maximum: f64| {
        minimum.is_finite() && maximum.is_finite() && minimum <= maximum
    };
    parts
        .iter()
        .find(|part| !range(part.minimum, part.maximum))
        .map(|part| format!("`{}` ranges from {} to {}", part.name, part.minimum, part.maximum))
}

fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
