//! What waits for the user: requests from agents, settings to approve, denials that a rule would lift.

use axum::extract::{Query, State};
use hothouse_api::{ask::AskView, ask::AsksQuery, egress::LearnQuery, sandbox::FindQuery};
use hothouse_dashboard::{
    Section,
    page::{Asked, Denied, Inbox, Note, Pending, render},
    place::{Part, Place, Subject},
    text::age,
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::html::Markup;
use hothouse_model::{SandboxRecord, ask::AskState, room::RoomWish};
use hothouse_timeline::digest;

use crate::{
    Daemon,
    routes::{ask, blocking, egress},
};

/// The key of what was last done in the inbox.
pub(super) const KEY: &str = "inbox";

/// How many denials of one sandbox are listed.
const DENIED: usize = 20;

/// Counts the open requests from agents.
pub(super) fn count(daemon: &Daemon) -> usize {
    let asks = daemon.engine.asks(None).unwrap_or_default();
    asks.iter().filter(|ask| ask.state == AskState::Open).count()
}

/// Renders the inbox.
pub(super) async fn make(daemon: &Daemon, token: String, note: Option<Note>) -> Markup {
    let asks = ask::list(State(daemon.clone()), Query(AsksQuery::default())).await;
    let engine = daemon.engine.clone();
    let all = blocking(move || engine.sandboxes()).await.unwrap_or_default();
    let asked = asks.map(|asks| asks.0).unwrap_or_default().into_iter().map(|ask| {
        let is_of = |sandbox: &&SandboxRecord| {
            sandbox.project.as_str() == ask.project && sandbox.name.as_str() == ask.sandbox
        };
        let to = all.iter().find(is_of).map(|sandbox| page_of(sandbox, Part::Start));
        asked(ask, to.unwrap_or_default())
    });
    let (mut pending, mut denied) = (Vec::new(), Vec::new());
    for sandbox in all.iter().filter(|sandbox| is_up(sandbox)) {
        pending.extend(changes_of(daemon, sandbox).await);
        denied.extend(denials_of(daemon, sandbox).await);
    }
    render(&Inbox { asked: asked.collect(), pending, denied, token, note })
}

fn is_up(sandbox: &SandboxRecord) -> bool {
    sandbox.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped)
}

/// Names a sandbox for a route of the API.
pub(super) fn named(sandbox: &SandboxRecord) -> FindQuery {
    FindQuery {
        sandbox: Some(format!("{}/{}", sandbox.project, sandbox.name)),
        folder: "/".to_owned(),
    }
}

fn page_of(sandbox: &SandboxRecord, part: Part) -> String {
    Place::Of(Subject::Sandbox(sandbox.id.to_string()), part).path()
}

fn asked(ask: AskView, to: String) -> Asked {
    let host = ask.host.map(|host| format!("host {host}"));
    let secret = ask.secret.map(|secret| format!("secret {secret}"));
    let limit = ask.limit.map(|limit| format!("limit {limit}"));
    Asked {
        id: ask.id,
        to,
        project: ask.project,
        sandbox: ask.sandbox,
        text: ask.text,
        wanted: host.or(secret).or(limit),
        age: age(ask.time, HostClock.now()),
    }
}

async fn changes_of(daemon: &Daemon, sandbox: &SandboxRecord) -> Option<Pending> {
    let pending = egress::pending(State(daemon.clone()), Query(named(sandbox))).await.ok()?.0;
    if pending.changes.is_empty() {
        return None;
    }
    let changes = pending.changes.into_iter().map(|change| {
        (change.key, change.base.unwrap_or_default(), change.worktree.unwrap_or_default())
    });
    Some(Pending {
        id: sandbox.id.to_string(),
        project: sandbox.project.to_string(),
        sandbox: sandbox.name.to_string(),
        to: page_of(sandbox, Part::Start),
        changes: changes.collect(),
        text: digest(pending.text.as_bytes()),
    })
}

async fn denials_of(daemon: &Daemon, sandbox: &SandboxRecord) -> Vec<Denied> {
    let FindQuery { sandbox: name, folder } = named(sandbox);
    let query = LearnQuery { sandbox: name, folder, run: None };
    let learned = egress::learned(State(daemon.clone()), Query(query)).await;
    let learned = learned.map(|learned| learned.0).unwrap_or_default();
    let denied = learned.into_iter().take(DENIED).map(|rule| Denied {
        id: sandbox.id.to_string(),
        project: sandbox.project.to_string(),
        sandbox: sandbox.name.to_string(),
        to: page_of(sandbox, Part::Section(Section::Network)),
        rule: rule.rule,
        attempts: rule.attempts,
        processes: rule.processes.join(", "),
    });
    denied.collect()
}
