//! Records users' decisions in the affected runs.

use std::path::PathBuf;

use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    id::SandboxKey,
    record::{
        Draft,
        bodies::{Party, PolicyAction, PolicyArea, PolicyBody},
    },
};
use hothouse_reconcile::Timelines;

/// Which runs a decision affects.
pub(super) enum Concerned {
    One(SandboxKey),
    /// Those of a repository, by its git directory.
    Project(PathBuf),
    Everybody,
}

/// Area, rule and action: `(PolicyArea::Egress, "api.example", PolicyAction::Allowed)`.
pub(super) type Decided<'a> = (PolicyArea, &'a str, PolicyAction);

/// Records a decision for every run that it affects.
pub(super) fn note(
    engine: &Engine,
    timelines: &Timelines,
    concerned: &Concerned,
    decided: Decided<'_>,
) {
    let is_concerned = |sandbox: &&SandboxRecord| match concerned {
        Concerned::One(one) => *one == sandbox.key,
        Concerned::Project(project) => sandbox.repository.common_dir == *project,
        Concerned::Everybody => true,
    };
    let all = engine.sandboxes().unwrap_or_default();
    all.iter().filter(is_concerned).for_each(|sandbox| append(timelines, sandbox, decided));
}

/// Records a decision for one sandbox.
pub(super) fn append(timelines: &Timelines, sandbox: &SandboxRecord, decided: Decided<'_>) {
    let (area, rule, action) = decided;
    let body = PolicyBody {
        area: area.into(),
        rule: rule.to_owned(),
        action: action.into(),
        by: Party::User.into(),
        ..PolicyBody::default()
    };
    let draft = Draft::of(HostClock.now(), format!("{area}: {action} {rule}"), &body);
    timelines.append(sandbox, draft);
}
