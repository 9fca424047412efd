//! The life of services, decided without doing anything.
//!
//! room-init is small and static, so this crate depends on the types of services alone: no clock, no
//! files, no async. Time comes in with every event.
//!
//! - [`rules`]: what is asked of each service
//! - [`machine`]: events in, actions out
//! - [`log`]: how a service's output lies on disk

pub mod log;
pub mod machine;
pub mod rules;

pub use machine::{Action, Event, Machine, Phase, State};
pub use rules::{Kind, ProbeRules, Rules};
