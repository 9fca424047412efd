//! The current state and resource usage of sandboxes.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    top::{TopLineView, TopView, UsageView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{SandboxRecord, query::Query, record::Kind, room::RoomUsage};
use hothouse_reconcile::timelines::RunPlace;
use hothouse_timeline::{Direction, Reader, Selection};

use super::blocking;
use crate::{Daemon, failure::ErrorResponse, room_api::Shown, view};

/// The maximum number of counted denials.
const DENIALS: usize = 1000;

#[utoipa::path(
    get, path = "/v1/top", operation_id = "top",
    description = "Returns all sandboxes with what their rooms take of the machine.",
    responses((status = 200, body = TopView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    shown: Shown,
) -> Result<axum::Json<TopView>, ErrorResponse> {
    let listed = blocking(move || {
        let mut all = daemon.engine.sandboxes()?;
        all.retain(|sandbox| shown.includes(sandbox.key));
        let usage = daemon.engine.usage_of(&all);
        let line = |(sandbox, usage)| line(&daemon, sandbox, usage);
        let sandboxes = all.into_iter().zip(usage).map(line).collect();
        Ok(TopView { time: HostClock.now(), sandboxes })
    });
    listed.await.map(axum::Json)
}

fn line(daemon: &Daemon, sandbox: SandboxRecord, usage: Option<RoomUsage>) -> TopLineView {
    let place = sandbox
        .room
        .as_ref()
        .map(|room| RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() });
    let reader = place.and_then(|place| daemon.keepers.timelines.reader(&place).ok());
    let counts = reader.as_ref().and_then(|reader| reader.counts().ok()).unwrap_or_default();
    let count = |kind: Kind| counts.get(kind.as_str()).copied().unwrap_or_default();
    TopLineView {
        usage: usage.map(|usage| UsageView {
            cpu_ms: usage.cpu_ms,
            memory_bytes: usage.memory_bytes,
            processes: usage.processes,
        }),
        errors: count(Kind::Error),
        denied: reader.as_ref().map(denials).unwrap_or_default(),
        mails: count(Kind::Mail),
        records: counts.values().sum(),
        sandbox: view::sandbox(daemon, sandbox),
    }
}

fn denials(reader: &Reader) -> u64 {
    let query =
        Query::parse("allowed=false", Some(Kind::Connection)).expect("connections have a verdict");
    let now = HostClock.now();
    let direction = Direction::NewestFirst;
    let selection = Selection { query, since: None, now, limit: DENIALS, direction };
    let found = reader.records(&selection).map_or(0, |records| records.len());
    u64::try_from(found).unwrap_or(u64::MAX)
}
