//! The event stream.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{Query, State},
    response::sse::{Event as Sse, KeepAlive, Sse as Stream},
};
use futures_util::StreamExt;
use hothouse_api::operation::EventQuery;
use hothouse_engine::Engine;
use hothouse_model::Event;
use tokio_stream::wrappers::{BroadcastStream, WatchStream};

use crate::{Daemon, room_api::Shown};

#[utoipa::path(
    get, path = "/v1/events", operation_id = "events_follow", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", description = "One JSON event per message"))
)]
pub(crate) async fn follow(
    State(daemon): State<Daemon>,
    shown: Shown,
    Query(query): Query<EventQuery>,
) -> Stream<impl futures_util::Stream<Item = Result<Sse, Infallible>>> {
    let events = BroadcastStream::new(daemon.event_tx.subscribe());
    let stop_rx = daemon.stop_tx.subscribe();
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
    let stopped =
        WatchStream::new(stop_rx).filter(|stop| std::future::ready(*stop));
    let stream = wanted.take_until(stopped.into_future());
    Stream::new(stream).keep_alive(KeepAlive::default())
}

/// Whether an event is of an operation on a sandbox that may be shown.
async fn concerns(engine: Arc<Engine>, shown: Shown, event: &Event) -> bool {
    if shown.0.is_none() {
        return true;
    }
    let id = event.operation.clone();
    let plan = super::blocking(move || engine.operation(&id)).await.ok().flatten();
    plan.is_some_and(|plan| plan.sandboxes.iter().any(|key| shown.includes(*key)))
}
