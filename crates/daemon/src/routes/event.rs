//! The event stream: operations, and on request the records of runs.

use std::{
    collections::HashSet, convert::Infallible, path::PathBuf, pin::Pin, sync::Arc, time::Duration,
};

use axum::{
    extract::{Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event as Sse, KeepAlive, Sse as Stream},
    },
};
use futures_util::{StreamExt, stream};
use hothouse_api::operation::EventQuery;
use hothouse_engine::Engine;
use hothouse_model::{Event, Explain, Failure, SandboxRecord, room::RoomWish};
use hothouse_reconcile::timelines::RunPlace;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream, WatchStream};

use super::{blocking, sandbox::reference, timeline::selection};
use crate::{Daemon, failure::ErrorResponse, room_api::Shown};

/// How often to check for new runs.
const LOOK: Duration = Duration::from_secs(1);

/// How many records may wait for a slow follower; then its runs are read more slowly.
const WAITING: usize = 256;

type Messages = Pin<Box<dyn futures_util::Stream<Item = Result<Sse, Infallible>> + Send>>;

#[utoipa::path(
    get, path = "/v1/events", operation_id = "events_follow", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", description = "One JSON event per message"))
)]
pub(crate) async fn follow(
    State(daemon): State<Daemon>,
    shown: Shown,
    Query(query): Query<EventQuery>,
) -> Result<Response, ErrorResponse> {
    let shown = narrowed(&daemon, shown, &query).await?;
    let events = BroadcastStream::new(daemon.event_tx.subscribe());
    let stop_rx = daemon.stop_tx.subscribe();
    let records: Messages = match query.records {
        true => Box::pin(records(daemon.clone(), shown)),
        false => Box::pin(stream::pending()),
    };
    let wanted = events.filter_map(move |event| {
        // A follower that fell behind misses events; the store, not the stream, is the truth.
        let event = event.ok().filter(|event| {
            query.operation.as_deref().is_none_or(|operation| operation == event.operation.as_str())
        });
        let engine = daemon.engine.clone();
        async move {
            let event = event?;
            if !concerns(engine, shown, &event).await {
                return None;
            }
            Sse::default().json_data(&event).ok().map(Ok)
        }
    });
    let stopped = WatchStream::new(stop_rx).filter(|stop| std::future::ready(*stop));
    let all = stream::select(wanted, records).take_until(stopped.into_future());
    let all: Messages = Box::pin(all);
    Ok(Stream::new(all).keep_alive(KeepAlive::default()).into_response())
}

/// Restricts what is shown to the sandbox that the follower names.
async fn narrowed(
    daemon: &Daemon,
    shown: Shown,
    query: &EventQuery,
) -> Result<Shown, ErrorResponse> {
    let Some(wanted) = query.sandbox.as_deref().filter(|_| shown.0.is_none()) else {
        return Ok(shown);
    };
    let (wanted, engine) = (reference(wanted)?, daemon.engine.clone());
    let folder = PathBuf::from(query.folder.clone().unwrap_or_default());
    let found = blocking(move || engine.find(Some(&wanted), &folder)).await?;
    Ok(Shown(Some(found.key)))
}

/// Whether an event is of an operation on a sandbox that may be shown.
async fn concerns(engine: Arc<Engine>, shown: Shown, event: &Event) -> bool {
    if shown.0.is_none() {
        return true;
    }
    let id = event.operation.clone();
    let plan = blocking(move || engine.operation(&id)).await.ok().flatten();
    plan.is_some_and(|plan| plan.sandboxes.iter().any(|key| shown.includes(*key)))
}

/// Returns the records of all runs that may be shown, from now on.
fn records(
    daemon: Daemon,
    shown: Shown,
) -> impl futures_util::Stream<Item = Result<Sse, Infallible>> {
    let (record_tx, record_rx) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut known = HashSet::new();
        // Runs found by the first check are followed from now on, later ones from their start.
        let mut is_first = true;
        while !record_tx.is_closed() {
            for sandbox in running(&daemon, shown).await {
                let Some(room) = &sandbox.room else { continue };
                if known.insert(room.run.id.clone()) {
                    let place =
                        RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
                    tokio::spawn(tail(daemon.clone(), sandbox, place, is_first, record_tx.clone()));
                }
            }
            is_first = false;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = record_tx.closed() => {}
            }
        }
    });
    ReceiverStream::new(record_rx)
        .filter_map(|value| std::future::ready(Sse::default().json_data(&value).ok().map(Ok)))
}

async fn running(daemon: &Daemon, shown: Shown) -> Vec<SandboxRecord> {
    let engine = daemon.engine.clone();
    let all = blocking(move || engine.sandboxes()).await.unwrap_or_default();
    let is_up = |sandbox: &SandboxRecord| {
        sandbox.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped)
    };
    all.into_iter().filter(|one| shown.includes(one.key) && is_up(one)).collect()
}

/// Passes the records of one run on until its follower has left, or the run has ended.
async fn tail(
    daemon: Daemon,
    sandbox: SandboxRecord,
    place: RunPlace,
    from_now: bool,
    record_tx: mpsc::Sender<Value>,
) {
    let timelines = daemon.keepers.timelines.clone();
    let opened = blocking(move || {
        let reader = timelines.reader(&place)?;
        let last = reader.last().map_err(|error| error.failure())?.map_or(0, |record| record.seq);
        let since = from_now.then(|| last.to_string());
        let wanted = selection("", None, since.as_deref());
        let wanted = wanted.map_err(|ErrorResponse(failure)| failure)?;
        reader.tail(&wanted).map_err(|error| -> Failure { error.failure() })
    });
    let Ok(mut tail) = opened.await else { return };
    loop {
        let record = tokio::select! {
            record = tail.next() => record,
            () = record_tx.closed() => return,
        };
        let Ok(record) = record else { return };
        let project = sandbox.project.as_str();
        let value = json!({ "event": "record", "project": project, "record": record });
        if record_tx.send(value).await.is_err() {
            return;
        }
    }
}
