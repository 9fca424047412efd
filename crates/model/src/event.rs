//! Events that the engine emits while it works. Terminal, JSON stream and log consume them.

use hothouse_service::ServiceState;
use serde::{Deserialize, Serialize};

use crate::{Failure, OperationId, PlanKind};

/// Something that happened in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub operation: OperationId,
    #[serde(flatten)]
    pub what: Happening,
}

/// A service, as reported to a client that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceProgress {
    pub name: String,
    pub state: ServiceState,
    /// Whether the client has nothing more to wait for.
    pub settled: bool,
}

/// The kinds of things that happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Happening {
    PlanBegun {
        plan: PlanKind,
        subject: String,
        steps: usize,
    },
    StepBegun {
        index: usize,
        of: usize,
        title: String,
    },
    StepDone {
        index: usize,
        of: usize,
    },
    /// Something the user should know that did not stop the operation.
    Note {
        text: String,
    },
    /// The plan is done; waiting for its result.
    Waiting {
        title: String,
    },
    /// The services that an operation waits for.
    Services {
        services: Vec<ServiceProgress>,
    },
    StepUndone {
        index: usize,
        title: String,
    },
    PlanDone,
    PlanUndone {
        failure: Failure,
    },
    PlanStuck {
        failure: Failure,
    },
}
