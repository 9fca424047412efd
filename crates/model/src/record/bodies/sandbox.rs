//! What happened to a sandbox itself: services, snapshots, policy, commits, commands, tests, seeds, notes.

use std::collections::BTreeMap;

use hothouse_service::ServiceState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Word, words::word_type};

/// A service that changed its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceBody {
    pub name: String,
    pub state: Word<ServiceState>,
    pub room_pid: Option<u32>,
    pub restarts: u32,
    /// How it ended, such as `exit 1` or `SIGKILL`.
    pub exit: Option<String>,
    pub health: Option<String>,
}

/// A place in the timeline with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MarkBody {
    pub mark: String,
}

/// A snapshot that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotBody {
    pub label: String,
    pub commit: Option<String>,
    pub services: Vec<String>,
    pub bytes: Option<u64>,
}

/// A snapshot that the sandbox went back to. The timeline continues: it is never rewound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreBody {
    pub label: String,
    pub commit: Option<String>,
    /// The record of the snapshot, where it is of this run.
    pub snapshot: Option<String>,
}

/// A change of what the sandbox may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyBody {
    pub area: Word<PolicyArea>,
    pub rule: String,
    pub action: Word<PolicyAction>,
    pub host: Option<String>,
    pub reason: Option<String>,
    pub by: Word<Party>,
}

word_type! {
    /// Who asked, answered or decided.
    Party { Agent = "agent", User = "user" }
}

word_type! {
    /// What a user decided about.
    PolicyArea {
        Egress = "egress",
        Secret = "secret",
        Config = "config",
        Port = "port",
        Integration = "integration",
    }
}

word_type! {
    /// What a user decided.
    PolicyAction {
        Allowed = "allowed",
        Removed = "removed",
        Set = "set",
        Approved = "approved",
        Exposed = "exposed",
        RecordingBegan = "recording began",
        RecordingEnded = "recording ended",
    }
}

word_type! {
    /// How far a seeding is, or one of its bundles.
    SeedStep {
        Begun = "begun",
        Done = "done",
        /// It was seeded before.
        Kept = "kept",
        Failed = "failed",
    }
}

/// A commit that was imported from the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitBody {
    pub commit: String,
    pub branch: String,
    pub author: String,
    pub subject: String,
    pub files: u64,
}

/// A command that was run in the room by `exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecBody {
    pub argv: Vec<String>,
    /// Its id in the room, for `exec --attach`.
    pub exec: String,
    pub root: bool,
    pub fresh: bool,
    /// Whether a program of the room ran it, and says so itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// Whether it is a process of an agent that was seen to run. One that ends soon may be missed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// How it ended; none while it runs.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub duration_ms: Option<u64>,
}

/// A test that a runner in the room has run, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestBody {
    /// Such as `playwright`.
    pub runner: String,
    /// The project within the runner's config, such as a browser.
    pub project: String,
    pub file: String,
    pub line: Option<u64>,
    pub title: String,
    pub status: Word<TestStatus>,
    /// The status that the test says it must have.
    pub expected: Word<TestStatus>,
    pub outcome: Word<TestOutcome>,
    /// How often it was tried before.
    pub retry: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
    pub files: Vec<TestFile>,
}

word_type! {
    /// How a test ended, in the words of Playwright.
    TestStatus {
        Passed = "passed",
        Failed = "failed",
        TimedOut = "timedOut",
        Skipped = "skipped",
        Interrupted = "interrupted",
    }
}

word_type! {
    /// What a test amounts to, after all its tries.
    TestOutcome {
        Expected = "expected",
        Unexpected = "unexpected",
        /// It passed after it had failed.
        Flaky = "flaky",
        Skipped = "skipped",
    }
}

/// A file that a test left: a picture, a film, a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestFile {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    /// Where the runner wrote it.
    pub path: String,
    /// The copy below the run's folder.
    pub file: Option<String>,
}

/// A seeding, or one of its bundles. All records of a seeding share its id: what lies between the first and the last of
/// them was recorded meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedBody {
    /// The bundle; none for the seeding as a whole.
    pub bundle: Option<String>,
    pub bundles: Vec<String>,
    pub radius: Option<String>,
    pub state: Word<SeedStep>,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
    /// What the context names.
    pub ids: BTreeMap<String, Value>,
}

word_type! {
    /// A gap in the records, so that their absence is not taken for proof.
    GapKind {
        /// The end of the file was torn by a crash, and cut.
        Recovered = "recovered",
        /// Records could not be written.
        Dropped = "dropped",
        /// A sink did not take anything for a while.
        SinkDown = "sink-down",
        /// No daemon ran for a while: nothing could leave the room, and what happened in it was not seen.
        Absent = "absent",
        /// Something broke, and no error was reported.
        Unreported = "unreported",
        /// Encrypted connections to a host, whose requests were not seen.
        NotOpened = "not-opened",
        /// Datagrams to a host, of which nothing but their number is known.
        Udp = "udp",
    }
}

/// A line of a log that is worth a record, or a note of Hothouse itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogBody {
    /// The service, or `hothouse`.
    pub source: String,
    pub level: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Word<GapKind>>,
    /// How many records, bytes or seconds the gap is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}
