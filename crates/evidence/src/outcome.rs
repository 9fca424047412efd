//! How a scenario went: what is kept among the artifacts of a run, as `scenarios/NAME.json`.

use std::collections::BTreeMap;

use hothouse_model::config::Scenario;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    checks::{Check, QueueSeen, RowAnswer, ServiceSeen},
    coverage::ScenarioCoverage,
    page::PageSeen,
};

/// The folder of outcomes below that of the run.
pub const FOLDER: &str = "scenarios";

/// Whether a scenario ran to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Written first; it stays if nobody lives to write the end.
    #[default]
    Begun,
    Done,
}

/// Whose scenario, fixtures and seeds were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedBy {
    /// Those of the code under test.
    #[default]
    Own,
    Base,
}

/// How a scenario went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioOutcome {
    pub scenario: String,
    /// The scenario as it was declared: whoever has the records can check again.
    pub declared: Option<Scenario>,
    pub about: Option<String>,
    pub app: Option<String>,
    pub path: String,
    pub auth: Option<String>,
    pub seed: Vec<String>,
    pub flags: BTreeMap<String, Value>,
    pub judged_by: JudgedBy,
    pub progress: Progress,
    /// The commit of the code.
    pub commit: String,
    pub started: Option<Timestamp>,
    pub took_ms: u64,
    pub ok: bool,
    /// The record of the mark: what comes after it counts.
    pub mark: u64,
    /// The last record that was looked at.
    pub upto: u64,
    pub checks: Vec<Check>,
    pub page: Option<PageSeen>,
    pub rows: Vec<RowAnswer>,
    pub services: Vec<ServiceSeen>,
    /// How queues stood, where that was looked at.
    pub queues: Vec<QueueSeen>,
    /// Which changed lines it ran, as far as that was measured.
    pub coverage: ScenarioCoverage,
    /// Every time that it was run, where that was more than once.
    pub attempts: Vec<Attempt>,
    /// Why it could not be carried out.
    pub failure: Option<String>,
}

/// One of several times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    pub run: String,
    pub ok: bool,
    /// The checks that did not hold, as `kind query`.
    pub failed: Vec<String>,
}

impl ScenarioOutcome {
    /// Returns the checks that do not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.ok)
    }

    /// Whether it ran on another commit than the one that a summary is about.
    pub fn is_outdated(&self, commit: &str) -> bool {
        !self.commit.is_empty() && !commit.is_empty() && self.commit != commit
    }

    /// Returns its own attempt.
    pub fn attempt(&self, run: &str) -> Attempt {
        let failed = self.failed().map(Check::name).collect();
        Attempt { run: run.to_owned(), ok: self.ok, failed }
    }

    /// Returns checks that held in some attempts and not in others, with how often they failed.
    pub fn flaky(&self) -> Vec<(String, usize)> {
        flaky(&self.attempts)
    }
}

impl Check {
    /// Returns its kind and query.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind, self.query)
    }
}

/// Returns checks that failed in some attempts but not in all, with how often.
pub fn flaky(attempts: &[Attempt]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in attempts.iter().flat_map(|attempt| &attempt.failed) {
        *counts.entry(name).or_default() += 1;
    }
    let some = counts.into_iter().filter(|(_, count)| *count < attempts.len());
    some.map(|(name, count)| (name.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_flaky_if_it_fails_only_sometimes() {
        let attempt = |failed: &[&str]| Attempt {
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            ..Attempt::default()
        };
        let all = [attempt(&["mail a", "event b"]), attempt(&["mail a"]), attempt(&["mail a"])];
        assert_eq!(flaky(&all), [("event b".to_owned(), 1)]);
        assert!(flaky(&all[1..]).is_empty());
        assert!(flaky(&[]).is_empty());
    }
}
