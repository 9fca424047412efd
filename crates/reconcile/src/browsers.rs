//! Browsers in rooms: one per room, kept warm, with a context of its own for each page.
//!
//! A browser runs in the room as `agent`, so that its requests pass the wall and what a page does to it stays there. It is
//! spoken to on the pipes of its command, and ends with them: with the room, with the daemon, or when it was not used for a while.

mod kept;
mod place;
mod warm;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use hothouse_browser::{
    Arrival, CallError, Page, PageSpec, Shot,
    client::within,
    emulate::Emulation,
    report::{Found, report},
};
use hothouse_engine::Engine;
use hothouse_host::random;
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    browse::{BrowseReport, BrowseSpec, PATIENCE_MS},
    id::hex,
};
use tokio::time::Instant;

use self::{kept::Numbers, place::Place, warm::Warm};
use crate::{Activities, Connections, Stop, Timelines, Urls};

pub(crate) use self::warm::EXEC_PREFIX;

/// How long a browser may be without use, and how often that is looked at.
const IDLE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(5);

/// The longest that a user may have a page wait.
const PATIENCE_MOST: Duration = Duration::from_secs(600);

/// How long it may take to look at a page in the end, whatever the time that it had.
const LAST_LOOK: Duration = Duration::from_secs(15);

/// The browsers of all rooms.
pub struct Browsers {
    engine: Arc<Engine>,
    connections: Arc<Connections>,
    activities: Arc<Activities>,
    timelines: Arc<Timelines>,
    urls: Arc<OnceLock<Arc<Urls>>>,
    /// By runtime folder; a place is held while a browser is started.
    warm: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<Option<Arc<Warm>>>>>>,
    numbers: Numbers,
}

impl Browsers {
    pub(crate) fn new(
        engine: Arc<Engine>,
        connections: Arc<Connections>,
        activities: Arc<Activities>,
        timelines: Arc<Timelines>,
        urls: Arc<OnceLock<Arc<Urls>>>,
    ) -> Arc<Self> {
        let (warm, numbers) = (Mutex::default(), Numbers::default());
        Arc::new(Self { engine, connections, activities, timelines, urls, warm, numbers })
    }

    /// Opens a page of a sandbox that is up, and tells what it found. Files are in the run's artifacts.
    pub async fn browse(
        &self,
        sandbox: &SandboxRecord,
        spec: BrowseSpec,
    ) -> Result<BrowseReport, Failure> {
        let emulation = Emulation::of(&spec).map_err(|error| error.failure())?;
        let begun = Instant::now();
        let _used = self.activities.of(sandbox.key).enter();
        let place = self.place(sandbox, &spec).await?;
        let browser = self.browser(sandbox, &place.runtime).await?;
        let trace_prefix = hex(&random::bytes::<8>());
        let page = PageSpec {
            emulation,
            traced: place.origins.clone(),
            trace_prefix: trace_prefix.clone(),
            ..PageSpec::default()
        };
        let visited = self.visit(&browser, &place, &spec, page).await;
        browser.touch();
        let mut visit = match visited {
            Ok(visit) => visit,
            Err(error) => return Err(browser.failure(&error).await),
        };
        visit.report.browser = browser.product.clone();
        visit.report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.keep(sandbox, visit, &trace_prefix).await
    }

    /// Opens the page, waits for it, and looks at it.
    async fn visit(
        &self,
        browser: &Warm,
        place: &Place,
        spec: &BrowseSpec,
        page: PageSpec,
    ) -> Result<Visit, CallError> {
        let _turn = browser.turn().await;
        let deadline = within(patience(spec));
        let page = Page::open(&browser.client, page, deadline).await?;
        let arrival = page.goto(&place.url, deadline).await?;
        let visit = self.finish(&page, place, spec, arrival).await;
        page.close().await;
        if browser.client.is_closed() {
            return Err(CallError::Closed { why: "it ended while the page was open".into() });
        }
        Ok(visit)
    }

    async fn finish(&self, page: &Page, place: &Place, spec: &BrowseSpec, arrival: Arrival) -> Visit {
        if arrival == Arrival::Late {
            let soon = within(Duration::from_secs(2));
            page.call("Page.stopLoading", serde_json::json!({}), soon).await.ok();
        }
        let shot = if spec.full_page { Shot::FullPage } else { Shot::Viewport };
        let look = page.look(&[shot], within(LAST_LOOK)).await;
        let before = page.replace_kept(look.kept.clone());
        let (report, requests) = page.noted(|capture| {
            let found = Found {
                app: &place.app,
                url: &place.url,
                arrival,
                capture,
                look: &look,
                before: &before,
                steps: Vec::new(),
            };
            (report(found), spec.har.then(|| capture.requests.all.clone()))
        });
        Visit { report, pictures: look.pictures, requests }
    }

    /// Returns the browser of a room, starting it if need be.
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

    fn warm(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<tokio::sync::Mutex<Option<Arc<Warm>>>>>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends browsers that nobody uses, for as long as the daemon runs.
    pub(crate) async fn watch(self: Arc<Self>, mut stop: Stop) {
        while stop.pause(LOOK).await {
            self.sweep();
        }
        self.warm().clear();
    }

    fn sweep(&self) {
        self.warm().retain(|_, slot| {
            // One that is being started is in use.
            let Ok(mut slot) = slot.try_lock() else { return true };
            if slot.as_ref().is_some_and(|warm| !warm.is_alive() || warm.is_idle(IDLE)) {
                *slot = None;
            }
            slot.is_some()
        });
    }
}

/// What came of a page.
pub(crate) struct Visit {
    report: BrowseReport,
    /// PNG files.
    pictures: Vec<Vec<u8>>,
    /// For an archive, if one is wanted.
    requests: Option<Vec<hothouse_browser::capture::Request>>,
}

fn patience(spec: &BrowseSpec) -> Duration {
    let asked = Duration::from_millis(spec.timeout_ms.unwrap_or(PATIENCE_MS));
    asked.clamp(Duration::from_millis(100), PATIENCE_MOST)
}
