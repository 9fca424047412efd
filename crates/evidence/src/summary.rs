//! What a reviewer gets to see of a run: one value, written as Markdown, as a page and as JSON.

mod coverage;
mod markdown;
mod page;
mod seal;

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::record::{Kind, Record};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    compare::Comparison,
    coverage::{ChangeCoverage, Meter},
    judge::{ChangedCheck, ChangedFile},
    outcome::{Progress, ScenarioOutcome},
};

pub use coverage::{Coverage, Gap, IntegrationSeen, not_covered};
pub use markdown::markdown;
pub use page::{MailShown, PageInput, Shot, page};
pub use seal::{seal_of, sealed};

/// The format of `summary.json`.
pub const FORMAT: u32 = 1;

/// The names of the files, below the run's folder.
pub const JSON: &str = "summary.json";
pub const MARKDOWN: &str = "summary.md";
pub const HTML: &str = "summary.html";

/// The overall verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check of every scenario holds.
    Proved,
    Failed,
    /// A scenario did not complete, or ran on another commit.
    Incomplete,
    /// No scenario was run.
    #[default]
    Unproved,
}

impl Verdict {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Unproved => "unproved",
        }
    }

    /// Derives the verdict from the outcomes. One of another commit proves nothing for this one.
    pub fn of(scenarios: &[ScenarioOutcome], commit: &str) -> Self {
        let is_open =
            |one: &ScenarioOutcome| one.progress != Progress::Done || one.is_outdated(commit);
        match () {
            () if scenarios.is_empty() => Self::Unproved,
            () if scenarios.iter().any(is_open) => Self::Incomplete,
            () if scenarios.iter().all(|one| one.ok) => Self::Proved,
            () => Self::Failed,
        }
    }
}

/// Everything that is claimed about a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub format: u32,
    /// The version of Hothouse that made it.
    pub tool: String,
    pub made: Timestamp,
    pub verdict: Verdict,
    pub project: String,
    pub sandbox: String,
    pub run: String,
    pub code: Code,
    pub digests: Digests,
    /// The seeded bundles.
    pub seed: Vec<String>,
    /// The pinned flags.
    pub flags: BTreeMap<String, Value>,
    pub chain: Chain,
    pub scenarios: Vec<ScenarioOutcome>,
    pub effects: Vec<EffectCount>,
    pub comparison: Option<Comparison>,
    pub changed_checks: Vec<ChangedCheck>,
    /// The changes from the base.
    pub files: Vec<ChangedFile>,
    /// Which of the changes ran.
    pub coverage: ChangeCoverage,
    pub caveats: Vec<CaveatShown>,
    pub not_covered: Vec<String>,
    /// The files that support it, by path, with their hashes.
    pub evidence: BTreeMap<String, String>,
}

/// The code under test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Code {
    pub branch: String,
    pub commit: String,
    /// The hash of the commit's tree.
    pub tree: String,
    pub base: String,
    pub base_commit: String,
    /// Whether it ran in a sandbox made only for this commit. In any other sandbox, services may still run older
    /// versions of the files.
    pub fresh: bool,
    /// Files that were used but are in no commit.
    pub uncommitted: Vec<String>,
    /// Files of the base that replaced those of the commit, to judge it, and sections of the config.
    pub from_base: Vec<String>,
    /// Sections of the config that differ from the base's, and were not replaced by it.
    pub left_to_branch: Vec<String>,
}

impl Code {
    /// Returns whether the base is a branch, rather than the previous commit.
    pub fn is_branch_base(&self) -> bool {
        !self.base.contains(' ')
    }
}

/// Hashes of the run's inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Digests {
    pub config: String,
    pub fixtures: String,
    /// Each fixture, as `INTEGRATION/FILE`.
    pub each_fixture: BTreeMap<String, String>,
}

/// The end of the chain of records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chain {
    pub records: u64,
    pub head: String,
}

/// How many records of a kind the scenarios caused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectCount {
    pub kind: String,
    pub count: u64,
    /// The first few, as id and summary.
    pub first: Vec<(String, String)>,
}

/// A difference from a production environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaveatShown {
    pub area: String,
    pub text: String,
}

impl EffectCount {
    /// Returns the noun for the count.
    pub fn plural(&self) -> String {
        match (self.kind.as_str(), self.count) {
            ("llm", 1) => "model call".to_owned(),
            ("llm", _) => "model calls".to_owned(),
            (kind, 1) => kind.to_owned(),
            (kind, _) => format!("{kind}s"),
        }
    }
}

/// The kinds that are effects of an app, rather than bookkeeping of a sandbox.
pub const EFFECTS: [Kind; 9] = [
    Kind::Mail,
    Kind::Event,
    Kind::Error,
    Kind::Request,
    Kind::Webhook,
    Kind::Object,
    Kind::Llm,
    Kind::Job,
    Kind::Connection,
];

/// How many effects of a kind are named.
const FIRST: usize = 3;

/// Counts the records of each kind that the scenarios caused, including zero.
pub fn effects(records: &[Record]) -> Vec<EffectCount> {
    let count = |kind: Kind| {
        let mut ids: Vec<(String, String)> = Vec::new();
        for record in records.iter().filter(|record| record.kind == kind) {
            if !ids.iter().any(|(id, _)| *id == record.id) {
                ids.push((record.id.clone(), record.summary.clone()));
            }
        }
        let count = ids.len() as u64;
        ids.truncate(FIRST);
        EffectCount { kind: kind.to_string(), count, first: ids }
    };
    EFFECTS.into_iter().map(count).collect()
}

/// Returns the records that belong to the scenarios of a summary.
pub fn of_scenarios<'r>(scenarios: &[ScenarioOutcome], records: &'r [Record]) -> Vec<&'r Record> {
    let is_within = |record: &&Record| {
        scenarios.iter().any(|one| record.seq > one.mark && record.seq <= one.upto)
    };
    records.iter().filter(is_within).collect()
}

impl Summary {
    /// Returns how many checks passed, and their total number.
    pub fn checks(&self) -> (usize, usize) {
        let all = self.scenarios.iter().flat_map(|one| &one.checks);
        (all.clone().filter(|check| check.ok).count(), all.count())
    }

    /// Returns the base of its commit; `None` for the first commit of a repository.
    pub fn base(&self) -> Option<&str> {
        let code = &self.code;
        let is_own = !code.base_commit.is_empty() && code.base_commit == code.commit;
        (!code.base.is_empty() && !is_own).then_some(code.base.as_str())
    }

    /// Returns the names of its scenarios.
    pub fn title(&self) -> String {
        let names: Vec<&str> = self.scenarios.iter().map(|one| one.scenario.as_str()).collect();
        if names.is_empty() { self.sandbox.clone() } else { names.join(", ") }
    }

    /// Returns how many of the measured changed lines ran, and their total number; `None` if nothing was measured.
    pub fn lines_run(&self) -> Option<(u64, u64)> {
        let files = self.coverage.files.iter().filter(|file| file.unmeasured.is_none());
        let ran: u64 = files.clone().map(|file| file.ran.count()).sum();
        let idle: u64 = files.clone().map(|file| file.not_run.count()).sum();
        files.clone().next().map(|_| (ran, ran + idle))
    }

    /// Returns the meters that measured changed files.
    pub fn meters(&self) -> BTreeSet<Meter> {
        self.coverage.files.iter().flat_map(|file| file.by.iter().copied()).collect()
    }

    /// Writes the JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be written");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests;
