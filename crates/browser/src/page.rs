//! A page in a browser context of its own: opened, navigated, watched, captured, closed.

mod frames;
mod maps;
mod trace;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use hothouse_model::browse::{Media, Viewport, Vitals};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    accessibility::AxNode,
    capture::{self, Capture, CaptureSpec, text},
    client::{CallError, Client, Listener, within},
    coverage::{self, Taker},
    emulate::Emulation,
    shim::{BINDING, ShimSet},
    state::{Cookie, StorageState},
    wire::{Command, Event},
};

/// How long the network must be quiet after a page has loaded, and the maximum wait for it.
const QUIET: Duration = Duration::from_millis(120);
const QUIET_MOST: Duration = Duration::from_secs(5);

/// How long one look at a page may take: a page whose script never ends does not answer.
const LOOK: Duration = Duration::from_secs(10);

/// How much text of a page is kept.
const TEXT_MOST: usize = 200_000;

/// The maximum height of a picture, and number of pictures of one page.
const TILE: f64 = 8000.0;
const TILES: usize = 8;

const CAPTURE: &str = include_str!("scripts/capture.js");
const WORKERS: &str = include_str!("scripts/workers.js");

/// The parameters of a page.
#[derive(Clone, Debug, Default)]
pub struct PageSpec {
    pub emulation: Emulation,
    pub traced: Vec<String>,
    /// 16 digits.
    pub trace_prefix: String,
    pub shims: ShimSet,
    /// The initial cookies and storage.
    pub state: Option<StorageState>,
    pub video: bool,
    /// Whether the browser is traced while the page is open.
    pub trace: bool,
    /// Whether coverage of scripts is recorded.
    pub coverage: bool,
}

/// A page.
pub struct Page {
    client: Client,
    pub(crate) session: String,
    context: String,
    pub(crate) frame: String,
    listener: Arc<PageListener>,
    /// The initial cookies and storage, to report changes.
    before: Mutex<Kept>,
    taker: Option<Taker>,
}

/// Cookies and storage at one moment, by displayed name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub cookies: BTreeMap<String, String>,
    pub storage: BTreeMap<String, String>,
}

/// Receives the events of a page.
pub(crate) struct PageListener {
    capture: Mutex<Capture>,
    /// events --one more--> whoever waits for the page
    pub(crate) changed_tx: watch::Sender<u64>,
}

impl Listener for PageListener {
    fn on_event(&self, event: &Event) -> Vec<Command> {
        let commands = self.capture().on_event(event);
        self.changed_tx.send_modify(|count| *count = count.wrapping_add(1));
        commands
    }
}

impl PageListener {
    pub(crate) fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a navigation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The page loaded, and the network became quiet.
    Loaded,
    /// The page loaded, but continues to send requests.
    Busy,
    /// The page did not load in time; these requests were pending.
    Late(Vec<String>),
    /// The browser reports why there is no page.
    Failed(String),
    /// Its process ended.
    Crashed(String),
    /// It loaded, but does not answer; the page that it leads to, if it is loading one.
    Silent(Option<String>),
}

/// The area of a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Shot {
    Viewport,
    FullPage,
    Clip { x: f64, y: f64, width: f64, height: f64 },
}

/// The result of looking at a page.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub page: PageFacts,
    /// Whether the page answered.
    pub is_read: bool,
    pub nodes: Vec<AxNode>,
    pub kept: Kept,
    /// PNG files.
    pub pictures: Vec<Vec<u8>>,
    /// What could not be determined.
    pub notes: Vec<String>,
}

/// What a script in the page reports, which is untrusted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PageFacts {
    pub title: String,
    pub url: String,
    pub text: String,
    pub media: Vec<Media>,
    pub local: BTreeMap<String, String>,
    pub session: BTreeMap<String, String>,
    pub vitals: Vitals,
}

impl Page {
    /// Opens a page in a context of its own.
    pub async fn open(
        client: &Client,
        spec: PageSpec,
        deadline: Instant,
    ) -> Result<Self, CallError> {
        let call = |method, params| client.call(Command::new("", method, params), deadline);
        let context =
            call("Target.createBrowserContext", json!({ "disposeOnDetach": true })).await?;
        let context = text(&context["browserContextId"]).to_owned();
        let opened = Self::open_in(client, &context, spec, deadline).await;
        if opened.is_err() {
            dispose(client, &context).await;
        }
        opened
    }

    async fn open_in(
        client: &Client,
        context: &str,
        spec: PageSpec,
        deadline: Instant,
    ) -> Result<Self, CallError> {
        let call = |method, params| client.call(Command::new("", method, params), deadline);
        let downloads = json!({
            "behavior": "allowAndName", "browserContextId": context,
            "downloadPath": crate::launch::DOWNLOADS, "eventsEnabled": true,
        });
        call("Browser.setDownloadBehavior", downloads).await?;
        if let Some(state) = &spec.state {
            let cookies =
                json!({ "browserContextId": context, "cookies": state.cookies_for_browser() });
            call("Storage.setCookies", cookies).await?;
        }
        let Viewport { width, height } = spec.emulation.viewport();
        let target = json!({ "url": "about:blank", "browserContextId": context, "width": width, "height": height });
        let target = call("Target.createTarget", target).await?;
        let target = text(&target["targetId"]).to_owned();
        let attached =
            call("Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await?;
        let session = text(&attached["sessionId"]).to_owned();
        let capture = CaptureSpec {
            session: session.clone(),
            target: target.clone(),
            context: context.to_owned(),
            traced: spec.traced.clone(),
            trace_prefix: spec.trace_prefix.clone(),
            shims: spec.shims.clone(),
            video: spec.video,
            coverage: spec.coverage,
        };
        let listener = Arc::new(PageListener {
            capture: Mutex::new(Capture::new(capture)),
            changed_tx: watch::Sender::new(0),
        });
        client.listen(session.clone(), listener.clone());
        let taker = spec.coverage.then(|| Taker::start(client, &session, &spec.traced, &listener));
        let page = Self {
            client: client.clone(),
            session,
            context: context.to_owned(),
            // The main frame has the id of its target.
            frame: target,
            listener,
            before: Mutex::default(),
            taker,
        };
        page.listener.capture().set_frame(&page.frame);
        page.prepare(&spec, deadline).await?;
        Ok(page)
    }

    /// Enables everything that is recorded, before anything is loaded.
    async fn prepare(&self, spec: &PageSpec, deadline: Instant) -> Result<(), CallError> {
        let mut commands = vec![
            self.command("Page.enable", json!({})),
            self.command("Runtime.enable", json!({})),
            self.command("Network.enable", json!({})),
            self.command("Log.enable", json!({})),
            self.command("Inspector.enable", json!({})),
            self.command("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
            capture::auto_attach(&self.session),
        ];
        if spec.coverage {
            commands.extend(coverage::begin(&self.session));
        }
        commands.extend(spec.emulation.commands(&self.session));
        commands.extend(self.listener.capture().fetch_enable(&self.session));
        if !spec.shims.0.is_empty() {
            commands.push(self.command("Runtime.addBinding", json!({ "name": BINDING })));
        }
        let mut scripts = spec.emulation.scripts();
        scripts.extend(spec.state.as_ref().and_then(StorageState::script));
        for source in scripts {
            let params = json!({ "source": source });
            commands.push(self.command("Page.addScriptToEvaluateOnNewDocument", params));
        }
        if spec.video {
            let params =
                json!({ "format": "jpeg", "quality": 60, "maxWidth": 960, "maxHeight": 960 });
            commands.push(self.command("Page.startScreencast", params));
        }
        let told =
            join_all(commands.into_iter().map(|command| self.client.call(command, deadline)));
        told.await.into_iter().collect::<Result<Vec<_>, _>>()?;
        if spec.trace {
            let note = self.begin_trace(deadline).await;
            self.noted(|capture| capture.no_trace = note);
        }
        let kept = self.cookies(deadline).await.unwrap_or_default();
        let storage = spec.state.as_ref().map(StorageState::shown_storage).unwrap_or_default();
        *self.before() = Kept { cookies: shown_cookies(&kept), storage };
        Ok(())
    }

    fn before(&self) -> MutexGuard<'_, Kept> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the initial cookies and storage with `now`; returns the former ones.
    pub fn replace_kept(&self, now: Kept) -> Kept {
        std::mem::replace(&mut self.before(), now)
    }

    pub(crate) fn command(&self, method: &'static str, params: Value) -> Command {
        Command::new(&self.session, method, params)
    }

    /// Sends a command to the page.
    pub async fn call(
        &self,
        method: &'static str,
        params: Value,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        self.client.call(self.command(method, params), deadline).await
    }

    /// Reads what was recorded of the page.
    pub fn noted<T>(&self, read: impl FnOnce(&mut Capture) -> T) -> T {
        read(&mut self.listener.capture())
    }

    /// Returns whether the page can no longer be used.
    pub fn is_gone(&self) -> bool {
        self.client.is_closed() || self.noted(|capture| capture.crashed.is_some())
    }

    /// Opens a URL, and waits until it has loaded.
    pub async fn goto(&self, url: &str, deadline: Instant) -> Result<Arrival, CallError> {
        let params = json!({ "url": url });
        let told = match self.call("Page.navigate", params, deadline).await {
            Ok(told) => told,
            Err(CallError::Late { .. }) => return Ok(self.late()),
            Err(error) => return Err(error),
        };
        // A page that only offers a download, or has no answer, is not loaded.
        if let Some(error) = told["errorText"].as_str().filter(|error| !error.is_empty()) {
            let downloads = self.noted(|capture| !capture.downloads.is_empty());
            // An answer without a body is still an answer.
            let is_answer =
                matches!(error, "net::ERR_ABORTED" | "net::ERR_HTTP_RESPONSE_CODE_FAILURE");
            return Ok(match downloads || is_answer {
                true => self.settled(deadline).await,
                false => Arrival::Failed(error.to_owned()),
            });
        }
        if let Some(loader) = told["loaderId"].as_str() {
            self.noted(|capture| capture.navigated(text(&told["frameId"]), loader));
        }
        Ok(self.arrived(deadline).await)
    }

    /// Opens a URL again without network: only what a service worker keeps is available.
    pub async fn goto_offline(&self, url: &str, deadline: Instant) -> Result<Arrival, CallError> {
        // A worker that is still being installed keeps nothing yet.
        self.evaluate(WORKERS, deadline.min(within(LOOK))).await.ok();
        let conditions = json!({ "offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.call("Network.emulateNetworkConditions", conditions, deadline).await?;
        self.goto(url, deadline).await
    }

    /// Waits until the awaited document has loaded, and the network is quiet.
    pub async fn arrived(&self, deadline: Instant) -> Arrival {
        let mut changed_rx = self.listener.changed_tx.subscribe();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            if self.noted(|capture| capture.loaded) {
                return self.settled(deadline).await;
            }
            if let Some(why) = self.noted(|capture| capture.broken().map(str::to_owned)) {
                return Arrival::Failed(why);
            }
            tokio::select! {
                changed = timeout_at(deadline, changed_rx.changed()) => {
                    if changed.is_err() {
                        return self.late();
                    }
                }
                why = self.client.closed() => return Arrival::Crashed(why),
            }
        }
    }

    fn late(&self) -> Arrival {
        Arrival::Late(
            self.noted(|capture| {
                capture.requests.pending().into_iter().map(str::to_owned).collect()
            }),
        )
    }

    fn ended(&self) -> Option<Arrival> {
        self.noted(|capture| capture.crashed.clone()).map(Arrival::Crashed)
    }

    /// Waits until the network is quiet, for a while.
    pub async fn settled(&self, deadline: Instant) -> Arrival {
        let patience = deadline.min(within(QUIET_MOST));
        let mut changed_rx = self.listener.changed_tx.subscribe();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            let is_idle = self.noted(|capture| capture.requests.open() == 0);
            let pause = if is_idle { QUIET } else { QUIET_MOST };
            let waited = timeout_at(patience, timeout(pause, changed_rx.changed())).await;
            match waited {
                Ok(Err(_)) if is_idle => return Arrival::Loaded,
                Ok(_) => {}
                Err(_) => return if is_idle { Arrival::Loaded } else { Arrival::Busy },
            }
        }
    }

    /// Waits after an action until what it started has ended: requests, and a new document if there is one.
    pub async fn calm(&self, deadline: Instant) {
        loop {
            let settled = self.settled(deadline).await;
            let is_loaded = self.noted(|capture| capture.loaded);
            if is_loaded
                || settled != Arrival::Loaded
                || self.arrived(deadline).await != Arrival::Loaded
            {
                return;
            }
        }
    }

    /// Evaluates an expression in an isolated world, which the page's scripts cannot reach.
    pub async fn evaluate(&self, source: &str, deadline: Instant) -> Result<Value, CallError> {
        let world = self.world_of("", deadline).await?;
        let params = json!({
            "expression": source, "contextId": world, "returnByValue": true, "awaitPromise": true,
        });
        let told = self.call("Runtime.evaluate", params, deadline).await?;
        Ok(outcome(&told)?["value"].clone())
    }

    /// Calls a function on an element.
    pub(crate) async fn call_on(
        &self,
        object: &str,
        script: &str,
        values: &[Value],
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let values: Vec<Value> = values.iter().map(|value| json!({ "value": value })).collect();
        let params = json!({
            "objectId": object, "functionDeclaration": script, "arguments": values,
            "returnByValue": true, "awaitPromise": true,
        });
        let told = self.call("Runtime.callFunctionOn", params, deadline).await?;
        Ok(outcome(&told)?["value"].clone())
    }

    /// Looks at the page: what it shows, its tree, its pictures.
    pub async fn look(&self, shots: &[Shot], deadline: Instant) -> Look {
        let deadline = deadline.min(within(LOOK));
        if shots.contains(&Shot::FullPage) {
            self.load_lazy(deadline).await;
        }
        let mut look = Look::default();
        let expression = format!("({CAPTURE})({TEXT_MOST})");
        let (facts, nodes, cookies, pictures) = tokio::join!(
            self.evaluate(&expression, deadline),
            self.nodes(deadline),
            self.cookies(deadline),
            self.pictures(shots, deadline),
        );
        match facts.map(serde_json::from_value::<PageFacts>) {
            Ok(Ok(facts)) => (look.page, look.is_read) = (facts, true),
            Ok(Err(_)) => look.notes.push("the page gave no account of itself".into()),
            Err(error) => look.notes.push(format!("the page could not be read: {error}")),
        }
        match nodes {
            Ok(nodes) => look.nodes = nodes,
            Err(error) => look.notes.push(format!("there is no accessibility tree: {error}")),
        }
        let cookies = cookies.unwrap_or_default();
        look.kept = Kept { cookies: shown_cookies(&cookies), storage: shown_storage(&look.page) };
        let (pictures, notes) = pictures;
        look.pictures = pictures;
        look.notes.extend(notes);
        look
    }

    /// Loads pictures that would otherwise wait until they are scrolled into view.
    async fn load_lazy(&self, deadline: Instant) {
        let script = "(() => { const all = [...document.querySelectorAll('[loading=lazy]')].slice(0, 300); \
            all.forEach((one) => { one.loading = 'eager'; }); return all.length; })()";
        if self.evaluate(script, deadline).await.is_ok_and(|count| count.as_u64() > Some(0)) {
            self.settled(deadline).await;
        }
    }

    /// Reads the cookies of the page's context.
    pub async fn cookies(&self, deadline: Instant) -> Result<Vec<Cookie>, CallError> {
        let params = json!({ "browserContextId": self.context });
        let told =
            self.client.call(Command::new("", "Storage.getCookies", params), deadline).await?;
        Ok(Cookie::read_all(&told["cookies"]))
    }

    async fn pictures(&self, shots: &[Shot], deadline: Instant) -> (Vec<Vec<u8>>, Vec<String>) {
        let (mut pictures, mut notes) = (Vec::new(), Vec::new());
        for shot in shots {
            match self.picture(shot, deadline).await {
                Ok((taken, note)) => {
                    pictures.extend(taken);
                    notes.extend(note);
                }
                Err(error) => notes.push(format!("there is no screenshot: {error}")),
            }
        }
        (pictures, notes)
    }

    /// Takes a picture; a page that is too tall for one picture gets several.
    pub async fn picture(
        &self,
        shot: &Shot,
        deadline: Instant,
    ) -> Result<(Vec<Vec<u8>>, Option<String>), CallError> {
        let (clips, note) = match shot {
            Shot::Viewport => (vec![None], None),
            Shot::Clip { x, y, width, height } => {
                let (width, height) = (width.clamp(1.0, TILE), height.clamp(1.0, TILE));
                (vec![Some((*x, *y, width, height))], None)
            }
            Shot::FullPage => {
                let metrics = self.call("Page.getLayoutMetrics", json!({}), deadline).await?;
                let size = &metrics["cssContentSize"];
                let side =
                    |name: &str| size[name].as_f64().filter(|side| side.is_finite()).unwrap_or(0.0);
                tiles(side("width"), side("height"))
            }
        };
        let mut pictures = Vec::new();
        for clip in clips {
            let mut params = json!({ "format": "png", "optimizeForSpeed": true });
            if let Some((x, y, width, height)) = clip {
                params["clip"] =
                    json!({ "x": x, "y": y, "width": width, "height": height, "scale": 1 });
                params["captureBeyondViewport"] = true.into();
            }
            let taken = self.call("Page.captureScreenshot", params, deadline).await?;
            pictures.push(png(text(&taken["data"]))?);
        }
        Ok((pictures, note))
    }

    /// Closes the page and its context.
    pub async fn close(&self) {
        let listener: Arc<dyn Listener> = self.listener.clone();
        self.client.forget(&listener);
        dispose(&self.client, &self.context).await;
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let listener: Arc<dyn Listener> = self.listener.clone();
        self.client.forget(&listener);
        let (client, context) = (self.client.clone(), self.context.clone());
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move { dispose(&client, &context).await });
        }
    }
}

async fn dispose(client: &Client, context: &str) {
    if client.is_closed() {
        return;
    }
    let command =
        Command::new("", "Target.disposeBrowserContext", json!({ "browserContextId": context }));
    client.call(command, within(Duration::from_secs(5))).await.ok();
}

/// A part of a page: left, top, width, height.
type Clip = (f64, f64, f64, f64);

/// Divides a page into pictures.
fn tiles(width: f64, height: f64) -> (Vec<Option<Clip>>, Option<String>) {
    let most = TILE * TILES as f64;
    let note = match () {
        () if height > most => Some(format!(
            "the page is {height:.0} px tall; screenshots show the first {most:.0} px"
        )),
        () if width > TILE => {
            Some(format!("the page is {width:.0} px wide; screenshots show the first {TILE:.0} px"))
        }
        () => None,
    };
    let (width, height) = (width.clamp(1.0, TILE), height.max(1.0));
    let mut clips = Vec::new();
    let mut top = 0.0;
    while top < height.min(most) {
        clips.push(Some((0.0, top, width, TILE.min(height.min(most) - top))));
        top += TILE;
    }
    (clips, note)
}

/// Returns the result of a script, or what it threw.
fn outcome(told: &Value) -> Result<&Value, CallError> {
    match told["exceptionDetails"].is_null() {
        true => Ok(&told["result"]),
        false => {
            let message = capture::console::exception(&told["exceptionDetails"]);
            Err(CallError::Refused { method: "Runtime.evaluate", message })
        }
    }
}

/// Decodes a picture, and checks that it is one.
fn png(data: &str) -> Result<Vec<u8>, CallError> {
    let bytes = STANDARD.decode(data).unwrap_or_default();
    match bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        true => Ok(bytes),
        false => {
            let message = "it is not a PNG".to_owned();
            Err(CallError::Refused { method: "Page.captureScreenshot", message })
        }
    }
}

fn shown_cookies(cookies: &[Cookie]) -> BTreeMap<String, String> {
    let shown = cookies
        .iter()
        .map(|cookie| (format!("{} ({})", cookie.name, cookie.domain), cookie.value.clone()));
    shown.collect()
}

fn shown_storage(facts: &PageFacts) -> BTreeMap<String, String> {
    let local = facts.local.iter().map(|(name, value)| (format!("local {name}"), value.clone()));
    let session =
        facts.session.iter().map(|(name, value)| (format!("session {name}"), value.clone()));
    local.chain(session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tall_page_has_several_pictures_and_a_taller_one_is_cut() {
        for (height, pictures, is_cut) in [
            (0.0, 1, false),
            (720.0, 1, false),
            (8001.0, 2, false),
            (50_000.0, 7, false),
            (1e9, TILES, true),
        ] {
            let (clips, note) = tiles(1280.0, height);
            assert_eq!((clips.len(), note.is_some()), (pictures, is_cut), "{height}");
        }
        let (clips, _) = tiles(1280.0, 8001.0);
        assert_eq!(clips[1], Some((0.0, 8000.0, 1280.0, 1.0)));
        let (clips, note) = tiles(50_000.0, 720.0);
        assert_eq!(clips, [Some((0.0, 0.0, TILE, 720.0))]);
        assert!(note.unwrap().contains("50000 px wide"));
    }

    #[test]
    fn only_a_png_is_a_picture() {
        assert!(png(&STANDARD.encode(b"\x89PNG\r\n\x1a\nrest")).is_ok());
        assert!(png(&STANDARD.encode(b"<svg>")).is_err());
        assert!(png("!").is_err());
    }
}
