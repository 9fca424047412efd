//! Browsers in rooms: one per room, kept warm, with a separate context for each page.
//!
//! A browser runs in the room as `agent`, so that its requests pass the wall and whatever a page
//! does to it stays there. It is driven over the pipes of its command, and ends with them: with the
//! room, with the daemon, or after a while without use.

mod auth;
mod downloads;
mod kept;
mod links;
mod outside;
mod place;
mod sessions;
mod shims;
mod warm;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use hothouse_browser::{
    Arrival, CallError, Page, PageSpec, Shot,
    capture::{Request, is_of},
    client::within,
    coverage::PageCoverage,
    emulate::Emulation,
    locate::Locator,
    report::{Found, report},
    script::{self, Action, Step},
    steps::{self, Ran},
    video,
};
use hothouse_engine::Engine;
use hothouse_host::random;
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    browse::{BrowseReport, BrowseSpec, PATIENCE_MS},
    id::hex,
};
use serde_json::json;
use tokio::time::Instant;

use self::{
    auth::States, kept::Numbers, outside::RoomOutside, place::Place, sessions::Sessions, warm::Warm,
};
use crate::{
    Activities, Connections, Stop, Subtasks, Timelines, Urls, Webhooks, queues::JobInterest,
};

pub use self::auth::SignedIn;
pub(crate) use self::warm::EXEC_PREFIX;

/// How long a browser may be idle, and how often that is checked.
const IDLE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(5);

/// The maximum wait that a user may request for a page.
const PATIENCE_MOST: Duration = Duration::from_secs(600);

/// The time limit for inspecting a page at the end, regardless of its own.
const LAST_LOOK: Duration = Duration::from_secs(15);

const SHORT_LOOK: Duration = Duration::from_secs(3);

/// The browser of a room, if any; locked while it starts.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Warm>>>>;

/// The browsers of all rooms.
pub struct Browsers {
    engine: Arc<Engine>,
    connections: Arc<Connections>,
    activities: Arc<Activities>,
    timelines: Arc<Timelines>,
    webhooks: Arc<Webhooks>,
    urls: Arc<OnceLock<Arc<Urls>>>,
    interest: Arc<JobInterest>,
    /// By runtime folder.
    warm: Mutex<HashMap<PathBuf, Slot>>,
    starting: Subtasks,
    numbers: Numbers,
    sessions: Sessions,
    states: States,
    links: links::Links,
    /// The state folder, for files that no room may see.
    folder: PathBuf,
}

/// The dependencies of [`Browsers`].
pub(crate) struct BrowsersOrder {
    pub(crate) folder: PathBuf,
    pub(crate) engine: Arc<Engine>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) activities: Arc<Activities>,
    pub(crate) timelines: Arc<Timelines>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) urls: Arc<OnceLock<Arc<Urls>>>,
    pub(crate) interest: Arc<JobInterest>,
}

/// A parsed request, checked before anything is started.
struct Plan {
    emulation: Emulation,
    steps: Vec<Step>,
    element: Option<Locator>,
}

impl Plan {
    fn of(spec: &BrowseSpec) -> Result<Self, Failure> {
        let emulation = Emulation::of(spec).map_err(|error| error.failure())?;
        let script = spec.script.as_deref().map(script::parse).transpose();
        let mut steps = script.map_err(|error| error.failure())?.unwrap_or_default();
        if !spec.step.is_empty() {
            steps.push(Step::from_words(&spec.step).map_err(|error| error.failure())?);
        }
        let element = spec.element.as_deref().map(str::parse).transpose();
        let element = element.map_err(|error| Failure::of(FailureKind::Usage, &error))?;
        Ok(Self { emulation, steps, element })
    }

    /// Whether the steps themselves decide what is opened first.
    fn begins_elsewhere(&self, spec: &BrowseSpec) -> bool {
        let goes = matches!(self.steps.first().map(|step| &step.action), Some(Action::Goto { .. }));
        spec.path.is_empty() && goes
    }
}

/// A page in use, with what is needed for its report.
struct Open<'a> {
    sandbox: &'a SandboxRecord,
    spec: &'a BrowseSpec,
    plan: &'a Plan,
    place: &'a Place,
    page: &'a Page,
}

impl Browsers {
    pub(crate) fn new(order: BrowsersOrder) -> Arc<Self> {
        let BrowsersOrder {
            folder,
            engine,
            connections,
            activities,
            timelines,
            webhooks,
            urls,
            interest,
        } = order;
        Arc::new(Self {
            engine,
            connections,
            activities,
            timelines,
            webhooks,
            urls,
            interest,
            warm: Mutex::default(),
            starting: Subtasks::new("browsers that start"),
            numbers: Numbers::default(),
            sessions: Sessions::default(),
            states: States::default(),
            links: links::Links::default(),
            folder,
        })
    }

    /// Opens a page of a running sandbox, and reports what it found. Files are stored among the
    /// run's artifacts.
    pub async fn browse(
        &self,
        sandbox: &SandboxRecord,
        spec: BrowseSpec,
    ) -> Result<BrowseReport, Failure> {
        let plan = Plan::of(&spec)?;
        let _used = self.activities.of(sandbox.key).enter();
        if let Some(name) = &spec.session {
            return self.browse_in_session(sandbox, name, &spec, &plan).await;
        }
        let opened = self.open_once(sandbox, spec, plan, false).await;
        opened.map(|(report, _)| report)
    }

    /// Like [`browse`](Self::browse), and reports which parts of scripts ran if requested.
    pub(crate) async fn browse_measured(
        &self,
        sandbox: &SandboxRecord,
        spec: BrowseSpec,
        measured: bool,
    ) -> Result<(BrowseReport, PageRun), Failure> {
        let plan = Plan::of(&spec)?;
        let _used = self.activities.of(sandbox.key).enter();
        self.open_once(sandbox, spec, plan, measured).await
    }

    async fn open_once(
        &self,
        sandbox: &SandboxRecord,
        spec: BrowseSpec,
        plan: Plan,
        measured: bool,
    ) -> Result<(BrowseReport, PageRun), Failure> {
        let begun = Instant::now();
        let place = self.place(sandbox, &spec).await?;
        let state = match &spec.auth {
            Some(role) => Some(self.signed_in(sandbox, role).await?),
            None => None,
        };
        let browser = self.browser(sandbox, &place.runtime).await?;
        let page = self.page_spec(sandbox, &spec, &plan, &place, state.map(|it| it.state));
        let page = PageSpec { coverage: measured, ..page };
        let trace_prefix = page.trace_prefix.clone();
        let visited = self.visit(&browser, sandbox, (&spec, &plan, &place), page).await;
        browser.touch();
        let mut visit = match visited {
            Ok(visit) => visit,
            Err(error) => return Err(browser.failure(&error).await),
        };
        visit.report.browser = browser.product.clone();
        visit.report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if visit.report.status == Some(404) {
            let near = self.near_route(sandbox, &place, &spec.path).await;
            visit.report.hints.extend(near);
        }
        visit.downloads = self.downloads(sandbox, &visit.report).await;
        let run = std::mem::take(&mut visit.run);
        Ok((self.keep(sandbox, visit, &trace_prefix).await?, run))
    }

    /// Describes the page to open.
    fn page_spec(
        &self,
        sandbox: &SandboxRecord,
        spec: &BrowseSpec,
        plan: &Plan,
        place: &Place,
        state: Option<hothouse_browser::state::StorageState>,
    ) -> PageSpec {
        PageSpec {
            emulation: plan.emulation.clone(),
            traced: place.origins.clone(),
            trace_prefix: hex(&random::bytes::<8>()),
            shims: shims::of(&self.engine, sandbox),
            state,
            video: spec.video,
            trace: spec.trace && spec.session.is_none(),
            coverage: false,
        }
    }

    /// Opens the page, waits for it, performs the steps, and inspects it.
    async fn visit(
        &self,
        browser: &Warm,
        sandbox: &SandboxRecord,
        (spec, plan, place): (&BrowseSpec, &Plan, &Place),
        page: PageSpec,
    ) -> Result<Visit, CallError> {
        let _turn = browser.turn().await;
        let page = Page::open(&browser.client, page, within(patience(spec))).await?;
        let open = Open { sandbox, spec, plan, place, page: &page };
        let visit = self.use_page(&open, !plan.begins_elsewhere(spec)).await;
        page.close().await;
        if browser.client.is_closed() {
            return Err(CallError::Closed { why: "it ended while the page was open".into() });
        }
        visit
    }

    async fn use_page(&self, open: &Open<'_>, navigates: bool) -> Result<Visit, CallError> {
        let Open { sandbox, spec, plan, place, page } = open;
        let deadline = within(patience(spec));
        let mut arrival = match navigates {
            true => page.goto(&place.url, deadline).await?,
            false => Arrival::Loaded,
        };
        if spec.offline && matches!(arrival, Arrival::Loaded | Arrival::Busy) {
            arrival = page.goto_offline(&place.url, deadline).await?;
        }
        let mut ran = Ran::default();
        if !plan.steps.is_empty() && matches!(arrival, Arrival::Loaded | Arrival::Busy) {
            let outside = RoomOutside::new(self, sandbox, place);
            // Each step has its own time limit, unless the user limits the whole.
            let deadline = match spec.timeout_ms {
                Some(_) => deadline,
                None => within((steps::patience(&plan.steps) + SHORT_LOOK).min(PATIENCE_MOST)),
            };
            ran = steps::run(page, &plan.steps, &outside, deadline).await;
            arrival = ran.arrival.take().unwrap_or(arrival);
        }
        Ok(self.finish(open, arrival, ran).await)
    }

    async fn finish(&self, open: &Open<'_>, mut arrival: Arrival, ran: Ran) -> Visit {
        let Open { spec, plan, place, page, .. } = open;
        let is_well = matches!(arrival, Arrival::Loaded | Arrival::Busy | Arrival::Failed(_));
        if matches!(arrival, Arrival::Late(_)) {
            page.call("Page.stopLoading", json!({}), within(Duration::from_secs(2))).await.ok();
        }
        let (shot, complaint) = shot(page, spec, plan).await;
        // A page that does not load rarely answers.
        let patience = if is_well { LAST_LOOK } else { SHORT_LOOK };
        let mut look = page.look(&[shot], within(patience)).await;
        look.notes.extend(complaint);
        if !look.is_read && matches!(arrival, Arrival::Loaded | Arrival::Busy) {
            arrival = page.noted(|capture| Arrival::Silent(capture.loading().map(str::to_owned)));
        }
        if is_well {
            page.map_errors(within(SHORT_LOOK)).await;
        }
        let coverage = page.coverage(within(LAST_LOOK)).await;
        let trace = match spec.trace && spec.session.is_none() {
            true => {
                let (trace, note) = page.end_trace().await;
                look.notes.extend(note);
                trace
            }
            false => None,
        };
        let before = page.replace_kept(look.kept.clone());
        page.noted(|capture| {
            let found = Found {
                app: &place.app,
                url: &place.url,
                arrival,
                capture,
                look: &look,
                before: &before,
                steps: ran.steps,
            };
            let mut report = report(found);
            report.auth.clone_from(&spec.auth);
            let run = coverage.map(|coverage| PageRun {
                requests: own_requests(&capture.requests.all, &place.origins),
                coverage,
            });
            Visit {
                run: run.unwrap_or_default(),
                downloads: Vec::new(),
                report,
                pictures: look.pictures.clone(),
                step_pictures: ran.pictures,
                requests: spec.har.then(|| capture.requests.all.clone()),
                trace,
                video: spec.video.then(|| video::avi(&capture.video_frames)).flatten(),
            }
        })
    }

    /// Starts the browser of a running sandbox in the background, for a page that is about to be opened. If it does not
    /// start, that page reports the error.
    pub(crate) fn warm_up(self: &Arc<Self>, sandbox: &SandboxRecord) {
        let (browsers, sandbox) = (self.clone(), sandbox.clone());
        self.starting.start(async move {
            let runtime = browsers.engine.places(&sandbox).runtime;
            if let Err(failure) = browsers.browser(&sandbox, &runtime).await {
                tracing::debug!(?failure, "a browser was not started ahead of its page");
            }
        });
    }

    /// Returns the browser of a room, starting it if necessary.
    async fn browser(&self, sandbox: &SandboxRecord, runtime: &Path) -> Result<Arc<Warm>, Failure> {
        let slot = self.warm().entry(runtime.to_owned()).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(warm) = slot.as_ref().filter(|warm| warm.is_alive()) {
            warm.touch();
            return Ok(warm.clone());
        }
        *slot = None;
        let room = self.connections.of(runtime).await;
        let room = room.map_err(|error| Failure::of(FailureKind::Backend, &error))?;
        let started = warm::start(&self.engine, sandbox, runtime, room).await?;
        Ok(slot.insert(Arc::new(started)).clone())
    }

    fn warm(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle pages and browsers, for as long as the daemon is running.
    pub(crate) async fn watch(self: Arc<Self>, mut stop: Stop) {
        while stop.pause(LOOK).await {
            self.sessions.sweep();
            self.states.sweep();
            let own = self.clone();
            tokio::task::spawn_blocking(move || own.forget_ended()).await.ok();
            self.sweep();
        }
        self.starting.end().await;
        self.sessions.clear();
        self.warm().clear();
    }

    fn sweep(&self) {
        self.warm().retain(|_, slot| {
            // A browser that is starting is in use.
            let Ok(mut slot) = slot.try_lock() else { return true };
            if slot.as_ref().is_some_and(|warm| !warm.is_alive() || warm.is_idle(IDLE)) {
                *slot = None;
            }
            slot.is_some()
        });
    }
}

/// Decides what the screenshot shows; if an element is missing, that is reported and the window is
/// shown.
async fn shot(page: &Page, spec: &BrowseSpec, plan: &Plan) -> (Shot, Option<String>) {
    let usual = if spec.full_page { Shot::FullPage } else { Shot::Viewport };
    match &plan.element {
        None => (usual, None),
        Some(on) => match steps::place_of(page, on, within(LAST_LOOK)).await {
            Ok(shot) => (shot, None),
            Err(why) => (usual, Some(format!("the screenshot is not of the element: {why}"))),
        },
    }
}

/// What a page executed and requested.
#[derive(Debug, Default)]
pub(crate) struct PageRun {
    pub(crate) coverage: PageCoverage,
    /// Method and path of the requests to apps of the sandbox.
    pub(crate) requests: Vec<(String, String)>,
}

fn own_requests(all: &[Request], origins: &[String]) -> Vec<(String, String)> {
    let own = all.iter().filter_map(|request| {
        let origin = origins.iter().find(|origin| is_of(&request.url, origin))?;
        Some((request.method.clone(), request.url[origin.len()..].to_owned()))
    });
    own.collect()
}

/// The result of a page visit.
struct Visit {
    run: PageRun,
    /// Files that the page downloaded, by their index in the report.
    downloads: Vec<(usize, Vec<u8>)>,
    report: BrowseReport,
    /// PNG files.
    pictures: Vec<Vec<u8>>,
    /// PNG files taken by steps, by name.
    step_pictures: Vec<(String, Vec<u8>)>,
    /// For an archive, if requested.
    requests: Option<Vec<Request>>,
    video: Option<Vec<u8>>,
    trace: Option<Vec<u8>>,
}

/// Returns how long a page may take until it is loaded.
fn patience(spec: &BrowseSpec) -> Duration {
    let asked = Duration::from_millis(spec.timeout_ms.unwrap_or(PATIENCE_MS));
    asked.clamp(Duration::from_millis(100), PATIENCE_MOST)
}
