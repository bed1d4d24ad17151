//! The rule on what an environment says of itself. Names and ranges are held when it is loaded;
//! here, that it does not change its mind.

use super::Finding;
use crate::component::{Component, Description};
use crate::limits::Limits;
use crate::sandbox::Sandbox;

/// `describe` says what there is, and says the same in every instance.
pub(super) fn is_constant(component: &Component, limits: &Limits) -> Finding {
    let rule = "`describe` says what the environment is, and always the same";
    let described = component.description();
    let again = Sandbox::new(component, limits, 1).and_then(|mut sandbox| sandbox.describe());
    let seen = match again {
        Err(fault) => Err(fault.to_string()),
        Ok(again) if again != *described => Err("another instance described itself differently: \
             describe must not depend on time, chance or what was called before"
            .to_owned()),
        Ok(_) if described.summary.trim().is_empty() => {
            Err("the summary is empty: say in a sentence what the agents have to do".to_owned())
        }
        Ok(_) => Ok(summary(described)),
    };
    Finding::of(rule, seen)
}

fn summary(described: &Description) -> String {
    let quoted = |names: Vec<&String>| match names.is_empty() {
        true => "none".to_owned(),
        false => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    format!(
        "{} {}; agents {}; splits {}; reward parts {}; at most {} turns",
        described.name,
        described.version,
        quoted(described.agents.iter().collect()),
        quoted(described.splits.iter().map(|split| &split.name).collect()),
        quoted(described.parts.iter().map(|part| &part.name).collect()),
        described.max_turns,
    )
}
