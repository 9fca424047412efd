//! Live pages: the changed part is sent as a server-sent event.

use std::{sync::Arc, time::Duration};

use askama::filters::Safe;
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

/// How often a page is checked for changes.
const LOOK: Duration = Duration::from_millis(1000);

/// How many checks without a change until a keep-alive is sent.
const SILENT_LOOKS: u32 = 15;

/// Opens a stream for a page: of one sandbox, or of all.
pub(super) fn open(
    dashboard: Arc<Dashboard>,
    one: Option<String>,
    session: Session,
) -> Response<Body> {
    // dashboard --event--> browser; a browser that does not read makes us wait
    let (event_tx, event_rx) = mpsc::channel(1);
    let handle = dashboard.handle.clone();
    handle.spawn(follow(dashboard, one, session, event_tx));
    let frames = ReceiverStream::new(event_rx).map(|bytes| Ok(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn follow(
    dashboard: Arc<Dashboard>,
    one: Option<String>,
    session: Session,
    event_tx: mpsc::Sender<Bytes>,
) {
    let (mut shown, mut silent) = (String::new(), 0);
    loop {
        let Some(Safe(now)) = dashboard.main(one.clone(), &session).await else { return };
        let event = match now == shown {
            false => Some(event(&now)),
            true if silent >= SILENT_LOOKS => Some(": still here\n\n".to_owned()),
            true => None,
        };
        silent = if event.is_some() { 0 } else { silent + 1 };
        shown = now;
        if let Some(event) = event
            && event_tx.send(event.into()).await.is_err()
        {
            return;
        }
        tokio::select! {
            () = event_tx.closed() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Writes a text as one event, line by line.
fn event(text: &str) -> String {
    let lines = text.split('\n').map(|line| format!("data: {}\n", line.replace('\r', "")));
    format!("{}\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_own_event() {
        assert_eq!(event("a\n\nevent: x\r"), "data: a\ndata: \ndata: event: x\n\n");
    }
}
