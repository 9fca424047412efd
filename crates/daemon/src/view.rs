//! What the engine knows, in the words of the API.

use std::collections::BTreeMap;

use hothouse_api::{OperationView, SandboxView, operation::OperationState, sandbox::Caveat};
use hothouse_model::SandboxRecord;
use hothouse_store::{Outcome, PlanRecord};

/// Shows a sandbox.
pub(crate) fn sandbox(record: SandboxRecord) -> SandboxView {
    SandboxView {
        name: record.name.to_string(),
        id: record.id.to_string(),
        project: record.project.to_string(),
        branch: record.branch,
        base: record.base,
        worktree: record.worktree.to_string_lossy().into_owned(),
        created: record.created,
        task: record.task,
        stack: "host".into(),
        egress: "open".into(),
        ttl: None,
        state: record.state,
        backend: "none".into(),
        tree_driver: record.tree_driver,
        profile: "dev".into(),
        run: None,
        services: Vec::new(),
        apps: BTreeMap::new(),
        fences: BTreeMap::new(),
        caveats: vec![no_room()],
    }
}

fn no_room() -> Caveat {
    Caveat {
        area: "room".into(),
        class: "missing".into(),
        text: "branch and files are its own, but commands run on the host: nothing is isolated"
            .into(),
    }
}

/// Shows an operation.
pub(crate) fn operation(plan: PlanRecord) -> OperationView {
    let (state, failure) = match plan.outcome {
        Outcome::Open => (OperationState::Open, None),
        Outcome::Done => (OperationState::Done, None),
        Outcome::Undone(failure) => (OperationState::Undone, Some(failure)),
        Outcome::Stuck(failure) => (OperationState::Stuck, Some(failure)),
    };
    OperationView {
        id: plan.operation.to_string(),
        kind: plan.kind.as_str().into(),
        subject: plan.subject,
        state,
        failure,
    }
}
