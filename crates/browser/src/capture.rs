//! Records what happens on a page: events in, commands for the browser out. Pure.
//!
//! Every list and text is bounded, because the page controls them; what is left out is counted.

pub mod console;
pub mod network;

use std::collections::{HashMap, VecDeque};

use hothouse_model::{
    Word,
    browse::{ConsoleLine, Dialog, Download, DownloadState, cut},
};
use serde_json::{Value, json};

pub use self::network::{Request, Requests};
use crate::{
    shim::{ShimAnswer, ShimSet},
    wire::{Command, Event},
};

/// The maximum length of each list.
const CONSOLE_MOST: usize = 500;
const ERRORS_MOST: usize = 100;
const DIALOGS_MOST: usize = 50;
const DOWNLOADS_MOST: usize = 50;
const POPUPS_MOST: usize = 50;
const FRAMES_MOST: usize = 900;
const HELD_MOST: usize = 16;

/// The maximum length of a text.
const TEXT_MOST: usize = 8000;

/// The maximum length of a URL.
pub(crate) const URL_MOST: usize = 2000;

/// The parameters of a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureSpec {
    /// The page's own session.
    pub session: String,
    pub target: String,
    pub context: String,
    /// The origins whose requests get a trace id, such as `https://web.a.shop.localhost`.
    pub traced: Vec<String>,
    /// The prefix of trace ids: 16 digits.
    pub trace_prefix: String,
    pub shims: ShimSet,
    /// Whether video frames are kept.
    pub video: bool,
    /// Whether each document is held until the coverage of the previous one has been read.
    pub coverage: bool,
}

/// Everything recorded of a page.
#[derive(Debug, Default)]
pub struct Capture {
    spec: CaptureSpec,
    /// The id of the main frame.
    frame: String,
    pub requests: Requests,
    pub console: Vec<ConsoleLine>,
    pub page_errors: Vec<String>,
    pub dialogs: Vec<Dialog>,
    pub downloads: Vec<Download>,
    downloads_by_guid: HashMap<String, usize>,
    /// URLs by target.
    pub popups: Vec<(String, String)>,
    /// The browser's id of the main frame's document, and whether it has loaded.
    loader: String,
    pub loaded: bool,
    /// How a page that stays open was answered, if that was reported already.
    pub answered: Option<u16>,
    /// Why the page can no longer answer.
    pub crashed: Option<String>,
    /// Whether current requests are ours, not the page's.
    pub muted: bool,
    /// Whether the next dialog is accepted.
    pub accept_dialogs: bool,
    pub video_frames: Vec<VideoFrame>,
    /// The stream of a finished trace, or why there is none.
    pub(crate) trace_stream: Option<String>,
    pub(crate) no_trace: Option<String>,
    /// How many events of any kind were left out.
    pub left_out: u64,
    traces: u64,
    /// What shims did, by name.
    pub shim_uses: HashMap<String, (u64, Vec<String>)>,
    /// The commands that release held documents, oldest first.
    pub(crate) held: VecDeque<Vec<Command>>,
}

/// A frame of a video.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoFrame {
    /// In seconds.
    pub at: f64,
    /// A JPEG, in base64.
    pub data: String,
}

impl Capture {
    pub fn new(spec: CaptureSpec) -> Self {
        Self { spec, ..Self::default() }
    }

    /// Sets the awaited document: its load counts from now on.
    pub fn navigated(&mut self, frame: &str, loader: &str) {
        self.frame = frame.to_owned();
        if self.loader != loader {
            self.loader = loader.to_owned();
            self.loaded = false;
        }
    }

    /// Returns why the awaited document broke off: it will never have loaded.
    pub fn broken(&self) -> Option<&str> {
        let document = self.requests.documents().find(|document| document.id == self.loader)?;
        document.failure.as_deref().filter(|_| !document.canceled && !self.loaded)
    }

    /// Returns the page that is still being loaded.
    pub fn loading(&self) -> Option<&str> {
        let last = self.requests.documents().next_back()?;
        (!self.loaded || last.ended.is_none()).then_some(last.url.as_str())
    }

    /// Sets the main frame.
    pub fn set_frame(&mut self, frame: &str) {
        self.frame = frame.to_owned();
    }

    /// Clears the records of a page that stays open, so that the next report covers only what
    /// follows.
    pub fn clear(&mut self) {
        if let Some(document) = self.requests.documents().next_back() {
            self.answered = document.status;
        }
        self.console.clear();
        self.page_errors.clear();
        self.dialogs.clear();
        self.downloads.clear();
        self.downloads_by_guid.clear();
        self.video_frames.clear();
        self.requests.clear_ended();
        self.shim_uses.clear();
        self.left_out = 0;
    }

    /// Handles an event; returns commands for the browser.
    pub fn on_event(&mut self, event: &Event) -> Vec<Command> {
        if event.session.is_empty() {
            self.on_browser(event);
            return Vec::new();
        }
        let params = &event.params;
        match event.method.as_str() {
            "Target.attachedToTarget" => return self.attached(params),
            "Fetch.requestPaused" => {
                let commands = self.paused(&event.session, params);
                let is_document = params["resourceType"] == "Document"
                    && params["frameId"] == self.frame.as_str();
                let holds = self.spec.coverage && is_document && self.held.len() < HELD_MOST;
                if !holds {
                    return commands;
                }
                self.held.push_back(commands);
            }
            "Page.javascriptDialogOpening" => return self.asked(&event.session, params),
            "Tracing.tracingComplete" => {
                self.trace_stream = params["stream"].as_str().map(str::to_owned);
            }
            "Page.screencastFrame" => return self.filmed(&event.session, params),
            "Runtime.consoleAPICalled" => {
                let line = console::line(params);
                push(&mut self.console, line, CONSOLE_MOST, &mut self.left_out);
            }
            "Log.entryAdded" | "Network.requestWillBeSent" if self.muted => {}
            "Log.entryAdded" => {
                let line = console::entry(&params["entry"]);
                // Browsers request it on their own.
                if line.at.as_deref().is_some_and(|at| at.ends_with("/favicon.ico")) {
                    return Vec::new();
                }
                push(&mut self.console, line, CONSOLE_MOST, &mut self.left_out);
            }
            "Runtime.exceptionThrown" => {
                let error = console::exception(&params["exceptionDetails"]);
                push(&mut self.page_errors, error, ERRORS_MOST, &mut self.left_out);
            }
            "Runtime.bindingCalled" => self.told(params),
            "Inspector.targetCrashed" if event.session == self.spec.session => {
                self.crashed = Some("the page crashed, perhaps for want of memory".into());
            }
            "Page.lifecycleEvent" => self.lifecycle(params),
            "Page.frameNavigated" => {
                let frame = &params["frame"];
                if frame["parentId"].is_null() && event.session == self.spec.session {
                    self.navigated(text(&frame["id"]), text(&frame["loaderId"]));
                }
            }
            method => self.requests.on_event(method, params, &self.frame),
        }
        Vec::new()
    }

    fn lifecycle(&mut self, params: &Value) {
        let own =
            params["frameId"] == self.frame.as_str() && params["loaderId"] == self.loader.as_str();
        if own && params["name"] == "load" {
            self.loaded = true;
        }
    }

    /// Attaches to a frame or worker of the page, to record it from its start.
    fn attached(&mut self, params: &Value) -> Vec<Command> {
        let session = text(&params["sessionId"]);
        let mut commands = vec![
            Command::new(session, "Network.enable", json!({})),
            Command::new(session, "Runtime.enable", json!({})),
            Command::new(session, "Log.enable", json!({})),
        ];
        if params["targetInfo"]["type"] == "iframe" {
            commands.push(Command::new(session, "Page.enable", json!({})));
            commands.extend(self.fetch_enable(session));
        }
        commands.push(auto_attach(session));
        commands.push(Command::new(session, "Runtime.runIfWaitingForDebugger", json!({})));
        commands
    }

    /// Returns the command that pauses requests before they are sent.
    pub fn fetch_enable(&self, session: &str) -> Option<Command> {
        let traced = self.spec.traced.iter().map(|origin| format!("{origin}/*"));
        let shimmed = self.spec.shims.patterns();
        let mut patterns: Vec<Value> =
            traced.chain(shimmed).map(|pattern| json!({ "urlPattern": pattern })).collect();
        if self.spec.coverage {
            patterns.push(json!({ "urlPattern": "*", "resourceType": "Document" }));
        }
        let params = json!({ "patterns": patterns });
        (!patterns.is_empty()).then(|| Command::new(session, "Fetch.enable", params))
    }

    /// Decides on a paused request: a shim answers it, or it continues with a trace.
    fn paused(&mut self, session: &str, params: &Value) -> Vec<Command> {
        let (id, request) = (&params["requestId"], &params["request"]);
        let url = text(&request["url"]);
        if let Some((name, answer)) = self.spec.shims.answer(url) {
            let uses = self.shim_uses.entry(name.to_owned()).or_default();
            uses.0 += 1;
            return vec![fulfil(session, id, &answer)];
        }
        let go_on = |headers: Option<Vec<Value>>| {
            let mut params = json!({ "requestId": id });
            if let Some(headers) = headers {
                params["headers"] = headers.into();
            }
            vec![Command::new(session, "Fetch.continueRequest", params)]
        };
        if !self.spec.traced.iter().any(|origin| is_of(url, origin)) {
            return go_on(None);
        }
        let own = request["headers"].as_object();
        let pairs = own.into_iter().flatten().map(|(name, value)| (name.as_str(), text(value)));
        let headers: Vec<(&str, &str)> = pairs.collect();
        let known = hothouse_model::record::trace_of(headers.iter().copied());
        let network = text(&params["networkId"]);
        if let Some(trace) = known {
            self.requests.traced(network, trace);
            return go_on(None);
        }
        self.traces += 1;
        let trace = format!("{}{:016x}", self.spec.trace_prefix, self.traces);
        let parent = format!("00-{trace}-{:016x}-01", self.traces);
        self.requests.traced(network, trace);
        let header = |(name, value): (&str, &str)| json!({ "name": name, "value": value });
        let added = std::iter::once(("traceparent", parent.as_str()));
        go_on(Some(headers.into_iter().chain(added).map(header).collect()))
    }

    fn asked(&mut self, session: &str, params: &Value) -> Vec<Command> {
        let kind = text(&params["type"]);
        let accept = self.accept_dialogs || matches!(kind, "alert" | "beforeunload");
        let dialog = Dialog {
            r#type: cut(kind, 40),
            message: cut(text(&params["message"]), TEXT_MOST),
            answer: if accept { "accepted" } else { "dismissed" }.into(),
        };
        push(&mut self.dialogs, dialog, DIALOGS_MOST, &mut self.left_out);
        let params = json!({ "accept": accept });
        vec![Command::new(session, "Page.handleJavaScriptDialog", params)]
    }

    fn filmed(&mut self, session: &str, params: &Value) -> Vec<Command> {
        let at = params["metadata"]["timestamp"].as_f64().unwrap_or_default();
        let frame = VideoFrame { at, data: text(&params["data"]).to_owned() };
        let kept: usize = self.video_frames.iter().map(|frame| frame.data.len()).sum();
        if self.spec.video && kept + frame.data.len() < VIDEO_MOST {
            push(&mut self.video_frames, frame, FRAMES_MOST, &mut self.left_out);
        }
        let ack = json!({ "sessionId": params["sessionId"] });
        vec![Command::new(session, "Page.screencastFrameAck", ack)]
    }

    /// Records what a shim's script reports through its binding: `NAME: TEXT`.
    fn told(&mut self, params: &Value) {
        if params["name"] != crate::shim::BINDING {
            return;
        }
        let Some((name, told)) = text(&params["payload"]).split_once(": ") else { return };
        if !self.spec.shims.has(name) {
            return;
        }
        let uses = self.shim_uses.entry(name.to_owned()).or_default();
        push(&mut uses.1, cut(told, 200), 100, &mut self.left_out);
    }

    /// Records browser events about windows and downloads.
    fn on_browser(&mut self, event: &Event) {
        let params = &event.params;
        match event.method.as_str() {
            "Target.targetCreated" | "Target.targetInfoChanged" => {
                self.window(&params["targetInfo"]);
            }
            "Target.targetCrashed" if params["targetId"] == self.spec.target.as_str() => {
                self.crashed = Some("the page crashed, perhaps for want of memory".into());
            }
            "Browser.downloadWillBegin" => {
                if self.frame.is_empty() || params["frameId"] != self.frame.as_str() {
                    return;
                }
                let download = Download {
                    url: cut(text(&params["url"]), URL_MOST),
                    name: cut(text(&params["suggestedFilename"]), 255),
                    bytes: 0,
                    state: DownloadState::Running.into(),
                    file: None,
                    guid: cut(text(&params["guid"]), 80),
                };
                if self.downloads.len() < DOWNLOADS_MOST {
                    let guid = text(&params["guid"]).to_owned();
                    self.downloads_by_guid.insert(guid, self.downloads.len());
                }
                push(&mut self.downloads, download, DOWNLOADS_MOST, &mut self.left_out);
            }
            "Browser.downloadProgress" => {
                let at = self.downloads_by_guid.get(text(&params["guid"]));
                if let Some(download) = at.and_then(|at| self.downloads.get_mut(*at)) {
                    let bytes = params["receivedBytes"].as_f64().unwrap_or_default();
                    download.bytes = network::whole(bytes);
                    if params["state"] != "inProgress" {
                        download.state = Word::read(cut(text(&params["state"]), 40));
                    }
                }
            }
            _ => {}
        }
    }

    fn window(&mut self, info: &Value) {
        let is_own = info["browserContextId"] == self.spec.context.as_str();
        let target = text(&info["targetId"]);
        if !is_own
            || self.spec.context.is_empty()
            || info["type"] != "page"
            || target == self.spec.target
        {
            return;
        }
        let url = cut(text(&info["url"]), URL_MOST);
        match self.popups.iter_mut().find(|(known, _)| known == target) {
            Some((_, known)) => *known = url,
            None => {
                let popup = (target.to_owned(), url);
                push(&mut self.popups, popup, POPUPS_MOST, &mut self.left_out);
            }
        }
    }
}

/// The maximum size of a video, in bytes.
const VIDEO_MOST: usize = 48 << 20;

/// Returns the command that attaches to frames and workers as they appear.
pub fn auto_attach(session: &str) -> Command {
    let params = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
    Command::new(session, "Target.setAutoAttach", params)
}

fn fulfil(session: &str, id: &Value, answer: &ShimAnswer) -> Command {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let headers =
        [("content-type", answer.content_type.as_str()), ("access-control-allow-origin", "*")];
    let headers: Vec<Value> =
        headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let params = json!({
        "requestId": id,
        "responseCode": 200,
        "responseHeaders": headers,
        "body": STANDARD.encode(&answer.body),
    });
    Command::new(session, "Fetch.fulfillRequest", params)
}

/// Returns whether a URL has an origin.
pub fn is_of(url: &str, origin: &str) -> bool {
    url.strip_prefix(origin)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Adds to a list of bounded length.
fn push<T>(list: &mut Vec<T>, one: T, most: usize, left_out: &mut u64) {
    if list.len() < most {
        list.push(one);
    } else {
        *left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Capture {
        Capture::new(CaptureSpec {
            session: "S".into(),
            target: "T".into(),
            context: "C".into(),
            traced: vec!["https://web.a.shop.localhost:8443".into()],
            trace_prefix: "0123456789abcdef".into(),
            ..CaptureSpec::default()
        })
    }

    fn tell(capture: &mut Capture, session: &str, method: &str, params: Value) -> Vec<Command> {
        capture.on_event(&Event { session: session.into(), method: method.into(), params })
    }

    #[test]
    fn requests_to_the_app_get_a_trace_and_others_do_not() {
        let mut page = capture();
        let mut paused = |url: &str, headers: Value| {
            let request = json!({ "url": url, "method": "GET", "headers": headers });
            let params = json!({ "requestId": "R", "networkId": url, "request": request });
            tell(&mut page, "S", "Fetch.requestPaused", params).remove(0)
        };
        let own = paused("https://web.a.shop.localhost:8443/x", json!({ "Accept": "*/*" }));
        assert_eq!(own.params["headers"][0]["name"], "Accept");
        assert_eq!(
            own.params["headers"][1]["value"],
            "00-0123456789abcdef0000000000000001-0000000000000001-01"
        );
        for other in ["https://js.stripe.com/v3", "https://web.a.shop.localhost:8443.evil.example/"]
        {
            assert!(paused(other, json!({})).params["headers"].is_null(), "{other}");
        }
        let known =
            json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
        let kept = paused("https://web.a.shop.localhost:8443/y", known);
        assert!(kept.params["headers"].is_null(), "the app's own trace is kept");
    }

    #[test]
    fn questions_are_answered_and_noted() {
        let mut page = capture();
        for (kind, accepted) in
            [("alert", true), ("confirm", false), ("prompt", false), ("beforeunload", true)]
        {
            let params = json!({ "type": kind, "message": "sure?" });
            let told = tell(&mut page, "S", "Page.javascriptDialogOpening", params);
            assert_eq!(told[0].params["accept"], accepted, "{kind}");
        }
        assert_eq!(page.dialogs.len(), 4);
    }

    #[test]
    fn lists_are_bounded_and_what_is_left_out_is_counted() {
        let mut page = capture();
        for _ in 0..CONSOLE_MOST + 7 {
            let params = json!({ "type": "log", "args": [{ "type": "string", "value": "x" }] });
            tell(&mut page, "S", "Runtime.consoleAPICalled", params);
        }
        assert_eq!((page.console.len(), page.left_out), (CONSOLE_MOST, 7));
    }

    #[test]
    fn windows_and_downloads_are_those_of_this_page() {
        let mut page = capture();
        page.navigated("F", "L");
        let mut window = |target: &str, context: &str, url: &str| {
            let info = json!({ "targetId": target, "type": "page", "browserContextId": context, "url": url });
            tell(&mut page, "", "Target.targetCreated", json!({ "targetInfo": info }));
        };
        window("T", "C", "own");
        window("P", "C", "about:blank");
        window("P", "C", "https://popup.example/");
        window("Q", "another", "https://other.example/");
        assert_eq!(page.popups, [("P".to_owned(), "https://popup.example/".to_owned())]);
        let begin =
            json!({ "frameId": "F", "guid": "G", "url": "u", "suggestedFilename": "a.csv" });
        tell(&mut page, "", "Browser.downloadWillBegin", begin);
        let done = json!({ "guid": "G", "receivedBytes": 12, "state": "completed" });
        tell(&mut page, "", "Browser.downloadProgress", done);
        let [download] = &page.downloads[..] else { panic!() };
        assert_eq!((&*download.name, download.bytes), ("a.csv", 12));
        assert_eq!(download.state, DownloadState::Completed);
    }

    #[test]
    fn a_document_that_breaks_off_or_loads_again_is_known() {
        let mut page = capture();
        let begin = |id: &str| {
            json!({
                "requestId": id, "loaderId": id, "frameId": "F", "type": "Document",
                "request": { "url": format!("https://a/{id}"), "method": "GET" },
            })
        };
        let answered =
            json!({ "requestId": "D1", "type": "Document", "response": { "status": 200 } });
        page.navigated("F", "D1");
        tell(&mut page, "S", "Network.requestWillBeSent", begin("D1"));
        tell(&mut page, "S", "Network.responseReceived", answered);
        assert_eq!((page.broken(), page.loading()), (None, Some("https://a/D1")));
        let failed = json!({ "requestId": "D1", "errorText": "net::ERR_X" });
        tell(&mut page, "S", "Network.loadingFailed", failed);
        assert_eq!(page.broken(), Some("net::ERR_X"));
        page.clear();
        assert_eq!(page.answered, Some(200), "a page that stays open was answered");
        tell(&mut page, "S", "Network.requestWillBeSent", begin("D2"));
        page.navigated("F", "D2");
        page.loaded = true;
        assert_eq!(page.loading(), Some("https://a/D2"), "the next one has no end yet");
        tell(
            &mut page,
            "S",
            "Network.loadingFinished",
            json!({ "requestId": "D2", "timestamp": 1.0 }),
        );
        assert_eq!((page.broken(), page.loading()), (None, None));
    }

    #[test]
    fn a_load_counts_for_the_document_that_is_awaited() {
        let mut page = capture();
        page.navigated("F", "L1");
        let load = |loader: &str| json!({ "frameId": "F", "loaderId": loader, "name": "load" });
        tell(&mut page, "S", "Page.lifecycleEvent", load("L0"));
        assert!(!page.loaded);
        tell(&mut page, "S", "Page.lifecycleEvent", load("L1"));
        assert!(page.loaded);
        let frame = json!({ "frame": { "id": "F", "loaderId": "L2" } });
        tell(&mut page, "S", "Page.frameNavigated", frame);
        assert!(!page.loaded, "a new document has to load again");
    }
}
