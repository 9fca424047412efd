//! A trace of the browser while a page is open: what its threads did, in the format of DevTools' performance panel.
//!
//! A browser records one trace at a time, of all its pages: they belong to one room.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::Page;
use crate::{capture::text, client::within};

/// The categories of DevTools' own recordings.
const CATEGORIES: [&str; 9] = [
    "-*",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "disabled-by-default-devtools.timeline.frame",
    "disabled-by-default-v8.cpu_profiler",
    "blink.user_timing",
    "latencyInfo",
    "loading",
    "v8.execute",
];

/// How much of a trace is kept, and how much is read at a time.
const MOST: usize = 64 << 20;
const PART: usize = 1 << 20;

/// How long a browser may take to return a trace.
const PATIENCE: Duration = Duration::from_secs(20);

impl Page {
    /// Starts a trace; returns why there is none, if it fails.
    pub(super) async fn begin_trace(&self, deadline: Instant) -> Option<String> {
        let params = json!({
            "transferMode": "ReturnAsStream",
            "traceConfig": { "recordMode": "recordUntilFull", "includedCategories": CATEGORIES },
        });
        let begun = self.call("Tracing.start", params, deadline).await;
        begun.err().map(|error| format!("there is no trace: {error}"))
    }

    /// Ends the trace, and returns it, and a note if it is incomplete or missing.
    pub async fn end_trace(&self) -> (Option<Vec<u8>>, Option<String>) {
        if let Some(note) = self.noted(|capture| capture.no_trace.take()) {
            return (None, Some(note));
        }
        match self.read_trace(within(PATIENCE)).await {
            Ok((bytes, is_whole)) => {
                let note = (!is_whole)
                    .then(|| format!("the trace has more than {} MiB, which are kept", MOST >> 20));
                (Some(bytes), note)
            }
            Err(why) => (None, Some(format!("there is no trace: {why}"))),
        }
    }

    async fn read_trace(&self, deadline: Instant) -> Result<(Vec<u8>, bool), String> {
        let mut changed_rx = self.listener.changed_tx.subscribe();
        let ended = self.call("Tracing.end", json!({}), deadline).await;
        ended.map_err(|error| error.to_string())?;
        let stream = loop {
            if let Some(stream) = self.noted(|capture| capture.trace_stream.take()) {
                break stream;
            }
            let waited = timeout_at(deadline, changed_rx.changed()).await;
            waited.map_err(|_| "the browser did not hand it over in time")?.ok();
        };
        let mut bytes = Vec::new();
        loop {
            let params = json!({ "handle": stream, "size": PART });
            let told = self.call("IO.read", params, deadline).await;
            let told = told.map_err(|error| error.to_string())?;
            let data = text(&told["data"]);
            match told["base64Encoded"] == true {
                true => bytes.extend(STANDARD.decode(data).unwrap_or_default()),
                false => bytes.extend_from_slice(data.as_bytes()),
            }
            let is_whole = told["eof"] == true;
            if is_whole || bytes.len() >= MOST {
                self.call("IO.close", json!({ "handle": stream }), deadline).await.ok();
                bytes.truncate(MOST);
                return Ok((bytes, is_whole));
            }
        }
    }
}
