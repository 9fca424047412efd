//! The event stream.

use std::convert::Infallible;

use axum::{
    extract::{Query, State},
    response::sse::{Event as Sse, KeepAlive, Sse as Stream},
};
use futures_util::StreamExt;
use hothouse_api::operation::EventQuery;
use tokio_stream::wrappers::{BroadcastStream, WatchStream};

use crate::Daemon;

#[utoipa::path(
    get, path = "/v1/events", operation_id = "events_follow", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", description = "One JSON event per message"))
)]
pub(crate) async fn follow(
    State(daemon): State<Daemon>,
    Query(query): Query<EventQuery>,
) -> Stream<impl futures_util::Stream<Item = Result<Sse, Infallible>>> {
    let events = BroadcastStream::new(daemon.event_tx.subscribe());
    let wanted = events.filter_map(move |event| {
        // A follower that fell behind misses events; the store, not the stream, is the truth.
        let event = event.ok().filter(|event| {
            query.operation.as_deref().is_none_or(|operation| operation == event.operation.as_str())
        });
        let message = event.and_then(|event| Sse::default().json_data(&event).ok());
        std::future::ready(message.map(Ok))
    });
    let stopped =
        WatchStream::new(daemon.stop_tx.subscribe()).filter(|stop| std::future::ready(*stop));
    let stream = wanted.take_until(stopped.into_future());
    Stream::new(stream).keep_alive(KeepAlive::default())
}
