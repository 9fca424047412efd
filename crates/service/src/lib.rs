//! The spec of a service, and its state.
//!
//! One set of types from the config's output through the engine to room-init, and back to the API. It is linked into
//! room-init, which is static and small, so its only dependency is serde.
//!
//! - [`spec`]: what is requested
//! - [`state`]: its state, and how its processes ended
//! - [`found`]: what a probe found
//! - [`codec`]: the same values in JSON and on the wire

mod codec;
mod found;
mod spec;
mod state;
mod status;

pub use found::{Found, ProbeAnswer};
pub use spec::{
    AS_ROOT, Condition, Need, ProbeSpec, Question, Restart, RestartPolicy, ServiceSpec,
};
pub use state::{Exit, ServiceState};
pub use status::ServiceStatus;
