//! The vocabulary of Hothouse: ids, names, specs, states, events and plans.
//!
//! Pure on purpose: nothing here awaits, reads a clock, opens a file or a socket. Of our crates it
//! depends only on `service`, which is as pure; every other one may depend on it.

pub mod agent;
pub mod aside;
pub mod ask;
pub mod browse;
pub mod budget;
pub mod caveat;
pub mod config;
pub mod cron;
pub mod encodings;
pub mod event;
pub mod failure;
pub mod fence;
pub mod flag;
pub mod glob;
pub mod id;
pub mod integration;
pub mod ledger;
pub mod live_keys;
pub mod masks;
pub mod name;
pub mod plan;
pub mod policy;
pub mod query;
pub mod queue;
pub mod reach;
pub mod record;
pub mod review;
pub mod room;
pub mod routes;
pub mod sandbox;
pub mod search;
pub mod secret;
pub mod seed;
pub mod sleep;
pub mod source_map;
pub mod stack;
pub mod tree;
pub mod visible;
pub mod webhook;
mod words;

pub use event::{Event, Happening};
pub use failure::{Explain, Failure, FailureKind};
pub use id::{OperationId, SandboxId};
pub use name::{NameError, OWN_LABEL, ProjectName, SandboxName, ServiceName};
pub use plan::{PlanKind, Step};
pub use sandbox::{SandboxRecord, SandboxRef, SandboxState};
pub use words::{Word, Words};
