//! The lifecycle of services as pure decisions.
//!
//! room-init is small and static, so this crate depends on the types of services alone: no clock, no
//! files, no async. Time comes in with every event.
//!
//! - [`rules`]: the settings of each service
//! - [`machine`]: events in, actions out
//! - [`log`]: the format of a service's log on disk

pub mod log;
pub mod machine;
pub mod rules;

pub use machine::{Action, Event, Machine, Phase, State};
pub use rules::{Kind, ProbeRules, Rules};
