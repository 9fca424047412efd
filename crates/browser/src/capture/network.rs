//! The requests of a page.

use std::collections::HashMap;

use hothouse_model::browse::{FailedRequest, Redirect, SlowRequest, TracedRequest, cut};
use serde_json::Value;

use super::{URL_MOST, text};

/// The maximum number of requests, of headers of each, and length of a header.
const REQUESTS_MOST: usize = 3000;
const HEADERS_MOST: usize = 100;
const HEADER_MOST: usize = 2000;

/// The minimum duration of a slow request, in milliseconds.
const SLOW_MS: f64 = 1000.0;

/// One request, or one hop of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub id: String,
    pub url: String,
    pub method: String,
    /// The kind of resource in lower case, such as `document` or `fetch`.
    pub kind: String,
    /// In seconds of the browser's own clock.
    pub begun: f64,
    /// In seconds since 1970.
    pub wall: f64,
    pub ended: Option<f64>,
    pub status: Option<u16>,
    pub status_text: String,
    pub mime: String,
    pub protocol: String,
    pub bytes: u64,
    pub failure: Option<String>,
    /// Whether the page itself canceled it.
    pub canceled: bool,
    /// Whether a service worker or the cache answered.
    pub from: Option<&'static str>,
    pub request_headers: Vec<(String, String)>,
    pub response_headers: Vec<(String, String)>,
    pub redirect: Option<String>,
    pub trace: Option<String>,
    /// Whether it is for the page itself.
    pub is_document: bool,
}

/// All requests of a page.
#[derive(Debug, Default)]
pub struct Requests {
    pub all: Vec<Request>,
    by_id: HashMap<String, usize>,
    /// Traces of requests that have not started yet.
    traces: HashMap<String, String>,
    /// How many were made.
    pub count: u64,
    pub left_out: u64,
    now: f64,
}

impl Requests {
    /// Handles a network event.
    pub fn on_event(&mut self, method: &str, params: &Value, main_frame: &str) {
        if let Some(now) = params["timestamp"].as_f64() {
            self.now = self.now.max(now);
        }
        match method {
            "Network.requestWillBeSent" => self.begin(params, main_frame),
            "Network.responseReceived" => self.answered(params),
            "Network.loadingFinished" => self.finish(params, None),
            "Network.loadingFailed" => self.finish(params, Some(reason(params))),
            "Network.requestServedFromCache" => {
                if let Some(request) = self.find(params) {
                    request.from = Some("cache");
                }
            }
            _ => {}
        }
    }

    /// Records the trace that a request was given.
    pub fn traced(&mut self, id: &str, trace: String) {
        let open = self.by_id.get(id).and_then(|at| self.all.get_mut(*at));
        match open {
            Some(request) if request.trace.is_none() => request.trace = Some(trace),
            _ if self.traces.len() < REQUESTS_MOST => {
                drop(self.traces.insert(id.to_owned(), trace))
            }
            _ => {}
        }
    }

    /// Returns how many requests are in progress.
    pub fn open(&self) -> usize {
        self.by_id.len()
    }

    /// Removes requests that have ended.
    pub fn clear_ended(&mut self) {
        let open: Vec<usize> = self.by_id.values().copied().collect();
        let kept: Vec<Request> = open.iter().filter_map(|at| self.all.get(*at).cloned()).collect();
        self.by_id =
            kept.iter().enumerate().map(|(at, request)| (request.id.clone(), at)).collect();
        self.all = kept;
        self.count = 0;
        self.left_out = 0;
    }

    fn find(&mut self, params: &Value) -> Option<&mut Request> {
        let at = *self.by_id.get(text(&params["requestId"]))?;
        self.all.get_mut(at)
    }

    fn begin(&mut self, params: &Value, main_frame: &str) {
        let (id, request) = (text(&params["requestId"]), &params["request"]);
        let url = cut(text(&request["url"]), URL_MOST);
        if url.starts_with("data:") || url.starts_with("blob:") {
            return;
        }
        let hop = &params["redirectResponse"];
        if !hop.is_null() {
            let now = params["timestamp"].as_f64();
            if let Some(before) = self.find(params) {
                take_response(before, hop);
                before.redirect = Some(url.clone());
                before.ended = now;
            }
        }
        self.by_id.remove(id);
        self.count += 1;
        if self.all.len() >= REQUESTS_MOST {
            self.left_out += 1;
            return;
        }
        let is_main = params["frameId"] == main_frame || main_frame.is_empty();
        self.by_id.insert(id.to_owned(), self.all.len());
        self.all.push(Request {
            id: id.to_owned(),
            url,
            method: cut(text(&request["method"]), 20),
            kind: cut(&text(&params["type"]).to_ascii_lowercase(), 20),
            begun: params["timestamp"].as_f64().unwrap_or_default(),
            wall: params["wallTime"].as_f64().unwrap_or_default(),
            request_headers: headers(&request["headers"]),
            trace: self.traces.remove(id),
            is_document: params["type"] == "Document" && is_main && params["loaderId"] == id,
            ..Request::default()
        });
    }

    fn answered(&mut self, params: &Value) {
        let kind = cut(&text(&params["type"]).to_ascii_lowercase(), 20);
        if let Some(request) = self.find(params) {
            take_response(request, &params["response"]);
            if !kind.is_empty() {
                request.kind = kind;
            }
            // It never ends, so the page does not wait for it.
            if request.kind == "eventsource" {
                let id = request.id.clone();
                self.by_id.remove(&id);
            }
        }
    }

    fn finish(&mut self, params: &Value, failure: Option<String>) {
        let Some(at) = self.by_id.remove(text(&params["requestId"])) else { return };
        let Some(request) = self.all.get_mut(at) else { return };
        request.ended = params["timestamp"].as_f64();
        request.canceled = params["canceled"] == true && params["blockedReason"].is_null();
        request.failure = failure;
        if let Some(bytes) = params["encodedDataLength"].as_f64() {
            request.bytes = whole(bytes);
        }
    }

    /// Lists failed requests, except those that the page itself canceled.
    pub fn failed(&self) -> Vec<FailedRequest> {
        let is_bad = |request: &&Request| {
            // Browsers request it on their own.
            if request.kind == "other" && request.url.ends_with("/favicon.ico") {
                return false;
            }
            let broken = request.failure.is_some() && !request.canceled;
            broken || request.status.is_some_and(|status| status >= 400)
        };
        let failed = self.all.iter().filter(is_bad).map(|request| FailedRequest {
            url: request.url.clone(),
            status: request.status,
            reason: match (&request.failure, request.status) {
                (_, Some(status)) if status >= 400 => said(status, &request.status_text),
                (Some(failure), _) => failure.clone(),
                _ => String::new(),
            },
            method: request.method.clone(),
            r#type: request.kind.clone(),
        });
        failed.collect()
    }

    /// Lists slow requests, including those in progress.
    pub fn slow(&self) -> Vec<SlowRequest> {
        let timed = self.all.iter().map(|request| {
            let time = (request.ended.unwrap_or(self.now) - request.begun) * 1000.0;
            (request, time)
        });
        let is_long_lived = |kind: &str| matches!(kind, "websocket" | "eventsource");
        let slow =
            timed.filter(|(request, time)| *time >= SLOW_MS && !is_long_lived(&request.kind));
        let told = slow.map(|(request, time)| SlowRequest {
            url: request.url.clone(),
            duration_ms: whole(time),
            ended: request.ended.is_some(),
        });
        told.collect()
    }

    /// Lists redirects of the page itself.
    pub fn redirects(&self) -> Vec<Redirect> {
        let hops = self.all.iter().filter(|request| request.is_document).filter_map(|request| {
            let to = request.redirect.clone()?;
            Some(Redirect {
                from: request.url.clone(),
                to,
                status: request.status.unwrap_or_default(),
            })
        });
        hops.collect()
    }

    /// Lists requests with a trace.
    pub fn with_traces(&self) -> Vec<TracedRequest> {
        let traced = self.all.iter().filter_map(|request| {
            Some(TracedRequest {
                method: request.method.clone(),
                url: request.url.clone(),
                status: request.status,
                trace: request.trace.clone()?,
                records: Vec::new(),
            })
        });
        traced.collect()
    }

    /// Returns the answers to requests for the page itself, in order, without redirects.
    pub fn documents(&self) -> impl DoubleEndedIterator<Item = &Request> {
        self.all.iter().filter(|request| request.is_document && request.redirect.is_none())
    }

    /// Returns the URLs of requests in progress.
    pub fn pending(&self) -> Vec<&str> {
        let open = self.by_id.values().filter_map(|at| self.all.get(*at));
        let mut urls: Vec<&str> = open.map(|request| request.url.as_str()).collect();
        urls.sort_unstable();
        urls
    }
}

fn take_response(request: &mut Request, response: &Value) {
    request.status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    request.status_text = cut(text(&response["statusText"]), 100);
    request.mime = cut(text(&response["mimeType"]), 100);
    request.protocol = cut(text(&response["protocol"]), 20);
    request.response_headers = headers(&response["headers"]);
    if response["fromServiceWorker"] == true {
        request.from = Some("service worker");
    } else if response["fromDiskCache"] == true {
        request.from = Some("cache");
    }
}

fn reason(params: &Value) -> String {
    let cors = text(&params["corsErrorStatus"]["corsError"]);
    let blocked = text(&params["blockedReason"]);
    let error = text(&params["errorText"]);
    let parts = [error, blocked, cors].into_iter().filter(|part| !part.is_empty());
    cut(&parts.collect::<Vec<_>>().join(", "), 300)
}

fn said(status: u16, words: &str) -> String {
    if words.is_empty() { status.to_string() } else { format!("{status} {words}") }
}

fn headers(tree: &Value) -> Vec<(String, String)> {
    let pairs = tree.as_object().into_iter().flatten().take(HEADERS_MOST);
    pairs.map(|(name, value)| (cut(name, 200), cut(text(value), HEADER_MOST))).collect()
}

/// Converts a number from the browser to a non-negative integer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
pub fn whole(number: f64) -> u64 {
    if number.is_finite() { number.clamp(0.0, 9e15) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn begin(id: &str, url: &str, at: f64) -> Value {
        json!({
            "requestId": id, "loaderId": "D", "frameId": "F", "timestamp": at, "wallTime": at,
            "type": if id == "D" { "Document" } else { "Fetch" },
            "request": { "url": url, "method": "GET", "headers": {} },
        })
    }

    #[test]
    fn redirects_failures_and_slow_requests_are_reported() {
        let mut all = Requests::default();
        let mut tell = |method: &str, params: Value| all.on_event(method, &params, "F");
        tell("Network.requestWillBeSent", begin("D", "https://a/", 0.0));
        let mut next = begin("D", "https://a/login", 0.1);
        next["redirectResponse"] = json!({ "status": 302 });
        tell("Network.requestWillBeSent", next);
        let response = json!({ "status": 200, "mimeType": "text/html" });
        tell(
            "Network.responseReceived",
            json!({ "requestId": "D", "type": "Document", "response": response }),
        );
        tell("Network.loadingFinished", json!({ "requestId": "D", "timestamp": 0.2 }));
        tell("Network.requestWillBeSent", begin("1", "https://a/boom", 0.2));
        tell(
            "Network.responseReceived",
            json!({ "requestId": "1", "response": { "status": 500, "statusText": "No" } }),
        );
        tell("Network.loadingFinished", json!({ "requestId": "1", "timestamp": 2.2 }));
        tell("Network.requestWillBeSent", begin("2", "https://gone/", 0.2));
        tell(
            "Network.loadingFailed",
            json!({ "requestId": "2", "timestamp": 0.3, "errorText": "net::ERR_X" }),
        );
        tell("Network.requestWillBeSent", begin("3", "https://left/", 0.2));
        tell(
            "Network.loadingFailed",
            json!({ "requestId": "3", "timestamp": 0.3, "errorText": "net::ERR_ABORTED", "canceled": true }),
        );
        tell("Network.requestWillBeSent", begin("4", "https://a/hangs", 0.2));
        let failed: Vec<_> = all.failed().into_iter().map(|it| (it.url, it.reason)).collect();
        assert_eq!(
            failed,
            [
                ("https://a/boom".into(), "500 No".into()),
                ("https://gone/".into(), "net::ERR_X".to_owned())
            ]
        );
        let slow: Vec<_> =
            all.slow().into_iter().map(|it| (it.url, it.duration_ms, it.ended)).collect();
        assert_eq!(
            slow,
            [
                ("https://a/boom".to_owned(), 2000, true),
                ("https://a/hangs".to_owned(), 2000, false)
            ]
        );
        assert_eq!(all.redirects()[0].to, "https://a/login");
        assert_eq!(all.documents().map(|it| it.status).collect::<Vec<_>>(), [Some(200)]);
        assert_eq!(all.pending(), ["https://a/hangs"]);
    }

    #[test]
    fn a_trace_finds_its_request_whichever_comes_first() {
        let mut all = Requests::default();
        all.traced("1", "t1".into());
        all.on_event("Network.requestWillBeSent", &begin("1", "https://a/", 0.0), "F");
        all.on_event("Network.requestWillBeSent", &begin("2", "https://a/", 0.0), "F");
        all.traced("2", "t2".into());
        let traces: Vec<_> = all.with_traces().into_iter().map(|it| it.trace).collect();
        assert_eq!(traces, ["t1", "t2"]);
    }

    #[test]
    fn numbers_of_the_browser_do_no_harm() {
        for (number, expected) in [(1.9, 1), (-5.0, 0), (f64::NAN, 0), (f64::INFINITY, 0)] {
            assert_eq!(whole(number), expected);
        }
    }
}
