//! The conformance suite behind `art-host check`: does an environment keep the contract?
//!
//! Plays the component directly in sandboxes, by several policies, and holds what it did against
//! one rule after the other. Each finding states its rule, so that a failing report reads as a list
//! of what to mend.

mod description;
mod odd;
mod play;
mod rules;

use std::fmt::{Display, Formatter};

use serde::Serialize;

use crate::component::Component;
use crate::limits::Limits;
use play::Plays;

/// What a rule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The rule is kept.
    Pass,
    /// The rule is broken.
    Fail,
    /// The rule could not be tried; the detail says why.
    Skip,
}

/// One rule and what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule, in words.
    pub rule: &'static str,
    /// Whether it is kept.
    pub verdict: Verdict,
    /// What was seen.
    pub detail: String,
}

/// What the suite says of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The environment's name.
    pub environment: String,
    /// SHA-256 of the component, in hex.
    pub component: String,
    /// Whether no rule is broken.
    pub passed: bool,
    /// Rule by rule.
    pub findings: Vec<Finding>,
}

/// Plays a component and holds it against every rule. `config` is the environment's own JSON
/// object.
pub fn check(component: &Component, limits: &Limits, config: &str, seed: u64) -> Report {
    let mut findings = vec![description::is_constant(component, limits)];
    let plays = Plays::play(component, limits, config, seed);
    findings.push(rules::plays_without_faults(&plays));
    if findings.iter().all(|finding| finding.verdict == Verdict::Pass) {
        let described = component.description();
        findings.push(rules::turns_are_well_formed(described, &plays));
        findings.push(rules::rewards_are_in_range(described, &plays));
        findings.push(rules::ends_in_time(described, &plays));
        findings.push(rules::repeats_bit_for_bit(&plays));
        findings.push(rules::tasks_differ(&plays));
        findings.push(rules::cost_is_bounded(&plays));
        findings.push(rules::takes_any_answer(&plays));
        findings.push(rules::expert_beats_random(&plays));
    }
    Report {
        environment: component.name().to_owned(),
        component: component.digest().to_owned(),
        passed: findings.iter().all(|finding| finding.verdict != Verdict::Fail),
        findings,
    }
}

impl Finding {
    /// A rule that is kept, or else why not.
    fn of(rule: &'static str, seen: Result<String, String>) -> Finding {
        match seen {
            Ok(detail) => Finding { rule, verdict: Verdict::Pass, detail },
            Err(detail) => Finding { rule, verdict: Verdict::Fail, detail },
        }
    }

    fn skip(rule: &'static str, detail: &str) -> Finding {
        Finding { rule, verdict: Verdict::Skip, detail: detail.to_owned() }
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let digest = self.component.get(..12).unwrap_or(&self.component);
        writeln!(out, "{} ({digest})", self.environment)?;
        for finding in &self.findings {
            let verdict = match finding.verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "FAIL",
                Verdict::Skip => "skip",
            };
            writeln!(out, "  {verdict}  {}", finding.rule)?;
            for line in finding.detail.lines() {
                writeln!(out, "        {line}")?;
            }
        }
        let broken = self.findings.iter().filter(|f| f.verdict == Verdict::Fail).count();
        match broken {
            0 => writeln!(out, "the contract is kept"),
            1 => writeln!(out, "1 rule is broken"),
            _ => writeln!(out, "{broken} rules are broken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Report};

    #[test]
    fn a_report_reads_as_a_list() {
        let report = Report {
            environment: "coin".into(),
            component: "0123456789abcdef".into(),
            passed: false,
            findings: vec![
                Finding::of("it plays", Ok("32 episodes".into())),
                Finding::of("it ends", Err("task 3 did not\nand task 4 neither".into())),
                Finding::skip("the expert wins", "it has none"),
            ],
        };
        let expected = "\
coin (0123456789ab)
  pass  it plays
        32 episodes
  FAIL  it ends
        task 3 did not
        and task 4 neither
  skip  the expert wins
        it has none
1 rule is broken
";
        assert_eq!(report.to_string(), expected);
    }
}
