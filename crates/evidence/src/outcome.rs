//! The outcome of a scenario, kept among the artifacts of a run as `scenarios/NAME.json`.

use std::collections::BTreeMap;

use hothouse_model::{
    config::Scenario,
    record::{Kind, Record, bodies::GapKind},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    checks::{Check, QueueSeen, RowAnswer, ServiceSeen},
    coverage::ScenarioCoverage,
    page::PageSeen,
};

/// The folder of outcomes, below the run's folder.
pub const FOLDER: &str = "scenarios";

/// Whether a scenario ran to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Written first; it stays if the program ends before the scenario does.
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

/// The outcome of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioOutcome {
    pub scenario: String,
    /// The scenario as declared, so that anyone with the records can check again.
    pub declared: Option<Scenario>,
    pub about: Option<String>,
    pub app: Option<String>,
    pub path: String,
    pub auth: Option<String>,
    pub seed: Vec<String>,
    pub flags: BTreeMap<String, Value>,
    pub judged_by: JudgedBy,
    pub progress: Progress,
    /// The commit under test.
    pub commit: String,
    pub started: Option<Timestamp>,
    pub took_ms: u64,
    pub ok: bool,
    /// The record of the mark: later records count.
    pub mark: u64,
    /// The last record that was evaluated.
    pub upto: u64,
    pub checks: Vec<Check>,
    pub page: Option<PageSeen>,
    pub rows: Vec<RowAnswer>,
    pub services: Vec<ServiceSeen>,
    /// The state of queues, if they were read.
    pub queues: Vec<QueueSeen>,
    /// Which changed lines it ran, as far as measured.
    pub coverage: ScenarioCoverage,
    /// Every attempt, if there was more than one.
    pub attempts: Vec<Attempt>,
    /// Why it could not be carried out.
    pub failure: Option<String>,
}

/// One of several attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    pub run: String,
    pub ok: bool,
    /// The failed checks, as `kind query`.
    pub failed: Vec<String>,
}

impl ScenarioOutcome {
    /// Returns the failed checks.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.ok)
    }

    /// Returns the first line of why it could not be carried out.
    pub fn reason(&self) -> Option<&str> {
        self.failure.as_deref()?.lines().find(|line| !line.trim().is_empty())
    }

    /// Returns whether it ran on another commit than the one that a summary is about.
    pub fn is_outdated(&self, commit: &str) -> bool {
        !self.commit.is_empty() && !commit.is_empty() && self.commit != commit
    }

    /// Returns this run as an attempt.
    pub fn attempt(&self, run: &str) -> Attempt {
        let failed = self.failed().map(Check::name).collect();
        Attempt { run: run.to_owned(), ok: self.ok, failed }
    }

    /// Returns checks that passed in some attempts and failed in others, with the number of
    /// failures.
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

/// Returns what a run says of records that could not be written. What is missing may be what must not happen, so a
/// scenario with such a gap proves nothing.
pub fn lost(records: &[Record]) -> Option<&str> {
    let is_lost = |record: &&Record| {
        record.kind == Kind::Log && record.body["gap"] == GapKind::Dropped.as_str()
    };
    records.iter().find(is_lost).map(|record| record.summary.as_str())
}

/// Returns checks that failed in some attempts but not in all, with the number of failures.
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
