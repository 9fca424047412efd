//! Scenarios: what to do in a browser, and what must have happened afterwards.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ServiceName,
    config::{
        path::{TreePath, UrlPath},
        text::{AppLabel, Command, EntryName, FlagKey, Line},
        units::{duration, optional_duration},
    },
};

/// `[scenario.NAME]`: what `smoke` and `prove` do and expect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    pub about: Option<Line>,
    #[serde(default)]
    pub seed: Vec<EntryName>,
    pub app: Option<AppLabel>,
    pub path: UrlPath,
    pub auth: Option<EntryName>,
    pub script: Option<TreePath>,
    /// Flags to pin while it runs.
    #[serde(default)]
    pub flags: BTreeMap<FlagKey, Value>,
    /// The time limit of effects that have none of their own.
    #[serde(with = "duration")]
    pub within: Duration,
    #[serde(default)]
    pub expect: Expectation,
}

/// What must have happened after a scenario, and what must not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Expectation {
    pub page: Vec<Line>,
    pub no_page: Vec<Line>,
    pub row: Vec<RowExpectation>,
    pub queue: Vec<QueueExpectation>,
    pub mail: Vec<Effect>,
    pub no_mail: Vec<Line>,
    pub event: Vec<Effect>,
    pub no_event: Vec<Line>,
    pub error: Vec<Effect>,
    pub no_error: Vec<Line>,
    pub request: Vec<Effect>,
    pub no_request: Vec<Line>,
    pub webhook: Vec<Effect>,
    pub no_webhook: Vec<Line>,
    pub object: Vec<Effect>,
    pub no_object: Vec<Line>,
    pub job: Vec<Effect>,
    pub no_job: Vec<Line>,
    pub llm: Vec<Effect>,
    pub no_llm: Vec<Line>,
    pub log: Vec<Effect>,
    pub no_log: Vec<Line>,
    /// Names of cookies that the page must set.
    pub cookie: Vec<Line>,
    pub no_cookie: Vec<Line>,
    /// Services that must be ready, and must not have restarted.
    pub service: Vec<ServiceName>,
    /// The status of the page; by default any except errors.
    pub status: Option<u16>,
    /// The maximum number of recorded errors; `None` means no limit.
    pub errors: Option<u32>,
    /// The maximum number of calls without a fixture; `None` means no limit.
    pub unmatched: Option<u32>,
    /// The maximum number of database queries per request, according to traces; `None` means no
    /// limit.
    pub queries: Option<u32>,
    /// The maximum duration of a database query, according to traces; `None` means no limit.
    #[serde(with = "optional_duration")]
    pub slowest_query: Option<Duration>,
    /// The maximum number of errors that the page may log to its console; 0 by default.
    pub console: Option<u32>,
    /// The maximum number of failed requests of the page; 0 by default.
    pub failed: Option<u32>,
    /// The maximum number of broken images in the page; 0 by default.
    pub broken: Option<u32>,
}

/// Records that a scenario causes, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Effect {
    /// Terms that must all hold for a record.
    pub query: Line,
    /// The exact number; without it, at least one.
    pub count: Option<u32>,
    pub at_least: Option<u32>,
    pub at_most: Option<u32>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}

/// How many jobs a queue may still have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct QueueExpectation {
    /// The name of the queue; `*` for all.
    pub name: Line,
    /// The maximum number of jobs that are waiting, delayed or running; 0 by default.
    pub open: Option<u32>,
    /// The maximum number of jobs that failed for good; 0 by default.
    pub dead: Option<u32>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}

/// A query and its expected result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RowExpectation {
    pub service: ServiceName,
    pub query: Command,
    /// `None` means at least one row.
    pub equals: Option<Line>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}
