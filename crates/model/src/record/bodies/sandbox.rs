//! Events of a sandbox itself: services, snapshots, policy, commits, commands, tests, seeds, notes.

use std::collections::BTreeMap;

use hothouse_service::ServiceState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Word, words::word_type};

/// A change of a service's state.
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

/// A named place in the timeline.
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

/// A restore of a snapshot. The timeline continues: it is never rewound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreBody {
    pub label: String,
    pub commit: Option<String>,
    /// The record of the snapshot, if it belongs to this run.
    pub snapshot: Option<String>,
}

/// A change of what the sandbox is allowed to do.
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
    /// The subject of a user's decision.
    PolicyArea {
        Egress = "egress",
        Secret = "secret",
        Config = "config",
        Port = "port",
        Integration = "integration",
    }
}

word_type! {
    /// The decision of a user.
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
    /// The progress of a seeding, or of one of its bundles.
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

/// A command run in the room by `exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecBody {
    pub argv: Vec<String>,
    /// Its id in the room, for `exec --attach`.
    pub exec: String,
    pub root: bool,
    pub fresh: bool,
    /// Whether a program in the room ran it and reported it itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// Whether it is a process of an agent that was seen by sampling, which can miss short-lived ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// Its exit code; `None` while it runs.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub duration_ms: Option<u64>,
}

/// A test result, as reported by a test runner in the room.
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
    /// The status that the test declares as expected.
    pub expected: Word<TestStatus>,
    pub outcome: Word<TestOutcome>,
    /// The number of earlier attempts.
    pub retry: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
    pub files: Vec<TestFile>,
}

word_type! {
    /// The status of a test, in Playwright's words.
    TestStatus {
        Passed = "passed",
        Failed = "failed",
        TimedOut = "timedOut",
        Skipped = "skipped",
        Interrupted = "interrupted",
    }
}

word_type! {
    /// The outcome of a test after all its attempts.
    TestOutcome {
        Expected = "expected",
        Unexpected = "unexpected",
        /// It passed after a failure.
        Flaky = "flaky",
        Skipped = "skipped",
    }
}

/// A file that a test produced: a screenshot, a video, a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestFile {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    /// The path that the runner wrote.
    pub path: String,
    /// The copy below the run's folder.
    pub file: Option<String>,
}

/// A seeding, or one of its bundles. All records of a seeding share its id; records between the first and the last of
/// them were made during the seeding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedBody {
    /// The bundle; `None` for the seeding as a whole.
    pub bundle: Option<String>,
    pub bundles: Vec<String>,
    pub radius: Option<String>,
    pub state: Word<SeedStep>,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
    /// The ids in the context.
    pub ids: BTreeMap<String, Value>,
}

word_type! {
    /// A gap in the records, so that a missing record is not taken as proof.
    GapKind {
        /// A crash damaged the end of the file, which was cut off.
        Recovered = "recovered",
        /// Records could not be written.
        Dropped = "dropped",
        /// A sink was unavailable for a while.
        SinkDown = "sink-down",
        /// No daemon was running for a while: nothing could leave the room, and events in it were not recorded.
        Absent = "absent",
        /// Something failed, but no error was reported.
        Unreported = "unreported",
        /// Encrypted connections to a host, whose requests were not visible.
        NotOpened = "not-opened",
        /// Datagrams to a host, of which only the number is known.
        Udp = "udp",
    }
}

/// A log line that is worth a record, or a note of Hothouse itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogBody {
    /// The service, or `hothouse`.
    pub source: String,
    pub level: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Word<GapKind>>,
    /// The number of records, bytes or seconds in the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The hash of the summary that was written, without what its records tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seals: Option<String>,
}
