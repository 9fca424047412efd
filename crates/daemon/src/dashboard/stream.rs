//! Live pages: the changed part is sent as a server-sent event.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hothouse_ingress::proxy::Body;
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Response,
    body::Frame,
    header::{self, HeaderValue},
};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

use super::{Dashboard, Session};

/// How often a page is checked while it changes.
const LOOK: Duration = Duration::from_millis(1000);

/// How often it is checked if nothing has changed for a while. Operations of the engine trigger a check immediately.
const IDLE_LOOK: Duration = Duration::from_millis(4000);

/// After how many checks without a change they become rarer.
const BUSY_LOOKS: u32 = 10;

/// The maximum silence on a stream.
const SILENCE: Duration = Duration::from_secs(15);

/// Opens a stream for the page of an address.
pub(super) fn open(dashboard: Arc<Dashboard>, at: String, session: Session) -> Response<Body> {
    // dashboard --event--> browser; a browser that does not read makes this task wait
    let (event_tx, event_rx) = mpsc::channel(1);
    let handle = dashboard.handle.clone();
    handle.spawn(follow(dashboard, at, session, event_tx));
    let frames = ReceiverStream::new(event_rx).map(|bytes| Ok(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn follow(
    dashboard: Arc<Dashboard>,
    at: String,
    session: Session,
    event_tx: mpsc::Sender<Bytes>,
) {
    let mut operations = dashboard.daemon.event_tx.subscribe();
    let (mut shown, mut looks, mut waiting) = (String::new(), 0, None);
    let mut heard = tokio::time::Instant::now();
    loop {
        let Some(content) = dashboard.content(&at, &session).await else { return };
        let now = &content.main.0;
        let mut events = String::new();
        if *now != shown {
            events.push_str(&event(now));
        }
        // The header is not part of what is sent again.
        if waiting.replace(content.waiting) != Some(content.waiting) {
            events.push_str(&format!("event: waiting\n{}", event(&content.waiting.to_string())));
        }
        if events.is_empty() && heard.elapsed() >= SILENCE {
            events.push_str(": still here\n\n");
        }
        looks = if *now == shown { looks + 1 } else { 0 };
        if *now != shown {
            shown.clone_from(now);
        }
        if !events.is_empty() {
            heard = tokio::time::Instant::now();
            if event_tx.send(events.into()).await.is_err() {
                return;
            }
        }
        let period = if looks < BUSY_LOOKS { LOOK } else { IDLE_LOOK };
        let pause = until_next(dashboard.began.elapsed(), period);
        tokio::select! {
            () = event_tx.closed() => return,
            () = tokio::time::sleep(pause) => {}
            // A burst of operations causes one check.
            _ = operations.recv() => tokio::time::sleep(LOOK / 4).await,
        }
        operations = operations.resubscribe();
    }
}

/// Returns the time until the next check. All open pages are checked at the same times, so that one rendering serves
/// them all.
fn until_next(passed: Duration, period: Duration) -> Duration {
    let (passed, period) = (passed.as_millis(), period.as_millis().max(1));
    Duration::from_millis(u64::try_from(period - passed % period).unwrap_or(1))
}

/// Formats a text as one event, line by line.
fn event(text: &str) -> String {
    let lines = text.split('\n').map(|line| format!("data: {}\n", line.replace('\r', "")));
    format!("{}\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_looked_at_together() {
        let ms = Duration::from_millis;
        for (passed, pause) in [(0, 4000), (1, 3999), (3999, 1), (4000, 4000), (9000, 3000)] {
            assert_eq!(until_next(ms(passed), IDLE_LOOK), ms(pause));
        }
    }

    #[test]
    fn a_text_cannot_end_its_own_event() {
        assert_eq!(event("a\n\nevent: x\r"), "data: a\ndata: \ndata: event: x\n\n");
    }
}
