//! Scenarios: what is done in a browser, and what must have happened afterwards.

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
    /// Flags that are pinned while it runs.
    #[serde(default)]
    pub flags: BTreeMap<FlagKey, Value>,
    /// How long an effect may take, where it does not say so itself.
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
    /// Names of cookies that the page sets.
    pub cookie: Vec<Line>,
    pub no_cookie: Vec<Line>,
    /// Services that must be ready, and must not have restarted.
    pub service: Vec<ServiceName>,
    /// The status of the page; by default any that is not an error.
    pub status: Option<u16>,
    /// How many errors may be recorded; `None` means no limit.
    pub errors: Option<u32>,
    /// How many calls may be without a fixture; `None` means no limit.
    pub unmatched: Option<u32>,
    /// How many queries of a database one request may make, as traces tell; `None` means no limit.
    pub queries: Option<u32>,
    /// How long a query of a database may take, as traces tell; `None` means no limit.
    #[serde(with = "optional_duration")]
    pub slowest_query: Option<Duration>,
    /// How many errors the page may write to its console; none by default.
    pub console: Option<u32>,
    /// How many requests of the page may fail; none by default.
    pub failed: Option<u32>,
    /// How many pictures of the page may be broken; none by default.
    pub broken: Option<u32>,
}

/// Records that a scenario leaves, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Effect {
    /// Terms that must all hold for a record.
    pub query: Line,
    /// Exactly so many; without this, at least one.
    pub count: Option<u32>,
    pub at_least: Option<u32>,
    pub at_most: Option<u32>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}

/// How much of a queue may be left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct QueueExpectation {
    /// The name of the queue; `*` for all.
    pub name: Line,
    /// How many jobs may still wait, be delayed or run; none by default.
    pub open: Option<u32>,
    /// How many jobs may have failed for good; none by default.
    pub dead: Option<u32>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}

/// A query and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RowExpectation {
    pub service: ServiceName,
    pub query: Command,
    /// None means: at least one row.
    pub equals: Option<Line>,
    #[serde(default, with = "optional_duration")]
    pub within: Option<Duration>,
}
