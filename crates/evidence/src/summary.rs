//! What a reviewer is told of a run: one value, written as Markdown, as a page and as JSON.

mod coverage;
mod markdown;
mod page;

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

/// The format of `summary.json`.
pub const FORMAT: u32 = 1;

/// The names of the files, below the folder of the run.
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
    /// A scenario did not come to its end, or ran on another commit.
    Incomplete,
    /// No scenario was run.
    #[default]
    Unproved,
}

impl Verdict {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Unproved => "unproved",
        }
    }

    /// Decides by how the scenarios went. One that ran on another commit says nothing about this one.
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

/// Everything that is claimed of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub format: u32,
    /// The version that made it.
    pub tool: String,
    pub made: Timestamp,
    pub verdict: Verdict,
    pub project: String,
    pub sandbox: String,
    pub run: String,
    pub code: Code,
    pub digests: Digests,
    /// The bundles that were put in.
    pub seed: Vec<String>,
    /// The flags that were pinned.
    pub flags: BTreeMap<String, Value>,
    pub chain: Chain,
    pub scenarios: Vec<ScenarioOutcome>,
    pub effects: Vec<EffectCount>,
    pub comparison: Option<Comparison>,
    pub changed_checks: Vec<ChangedCheck>,
    /// What the code changes of its base.
    pub files: Vec<ChangedFile>,
    /// Which of that ran.
    pub coverage: ChangeCoverage,
    pub caveats: Vec<CaveatShown>,
    pub not_covered: Vec<String>,
    /// The files that it rests on, by path, with the hash of each.
    pub evidence: BTreeMap<String, String>,
}

/// The code that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Code {
    pub branch: String,
    pub commit: String,
    /// The hash of the commit's tree.
    pub tree: String,
    pub base: String,
    pub base_commit: String,
    /// Whether it ran in a sandbox that was made of the commit for nothing else. In any other, services may run what
    /// the files were before.
    pub fresh: bool,
    /// Files that were run but that no commit has.
    pub uncommitted: Vec<String>,
    /// Files of the base that took the place of the commit's own, to judge it, and sections of the config.
    pub from_base: Vec<String>,
    /// Sections of the config that differ from the base's, and that the base did not judge by.
    pub left_to_branch: Vec<String>,
}

impl Code {
    /// Whether the base is a branch rather than the commit before.
    pub fn is_branch_base(&self) -> bool {
        !self.base.contains(' ')
    }
}

/// Hashes of what the run was told.
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

/// How many records of a kind the scenarios left.
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
    /// Returns the word for so many.
    pub fn plural(&self) -> String {
        match (self.kind.as_str(), self.count) {
            ("llm", 1) => "model call".to_owned(),
            ("llm", _) => "model calls".to_owned(),
            (kind, 1) => kind.to_owned(),
            (kind, _) => format!("{kind}s"),
        }
    }
}

/// The kinds that are effects of an app, rather than the bookkeeping of a sandbox.
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

/// Counts what the scenarios left, also what they did not.
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

/// Returns the records that a summary is about: those of its scenarios.
pub fn of_scenarios<'r>(scenarios: &[ScenarioOutcome], records: &'r [Record]) -> Vec<&'r Record> {
    let is_within = |record: &&Record| {
        scenarios.iter().any(|one| record.seq > one.mark && record.seq <= one.upto)
    };
    records.iter().filter(is_within).collect()
}

impl Summary {
    /// Returns how many checks hold, and how many there are.
    pub fn checks(&self) -> (usize, usize) {
        let all = self.scenarios.iter().flat_map(|one| &one.checks);
        (all.clone().filter(|check| check.ok).count(), all.count())
    }

    /// Returns what its commit is based on; none for the first commit of a repository.
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

    /// Returns how many of the changed lines that were measured ran, and how many there are; none if nobody measured.
    pub fn lines_run(&self) -> Option<(u64, u64)> {
        let files = self.coverage.files.iter().filter(|file| file.unmeasured.is_none());
        let ran: u64 = files.clone().map(|file| file.ran.count()).sum();
        let idle: u64 = files.clone().map(|file| file.not_run.count()).sum();
        files.clone().next().map(|_| (ran, ran + idle))
    }

    /// Returns who measured changed files.
    pub fn meters(&self) -> BTreeSet<Meter> {
        self.coverage.files.iter().flat_map(|file| file.by.iter().copied()).collect()
    }

    /// Writes JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be written");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests;
