//! Pages that are kept open by name, to be used step by step.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hothouse_browser::{
    CallError, Page,
    client::within,
    emulate::Emulation,
    script::{Action, Step, VERBS},
    steps,
};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    browse::{BrowseReport, BrowseSpec},
    config::rules::nearest,
    id::SandboxKey,
};
use tokio::time::Instant;

use super::{Browsers, Open, Plan, patience, place::Place, warm::Warm};

/// How long an idle page stays open.
const IDLE: Duration = Duration::from_secs(900);

/// The maximum number of open pages per sandbox.
const MOST: usize = 5;

/// How many steps of a page are remembered.
const STEPS: usize = 500;

type Key = (SandboxKey, String);

/// The open pages.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Key, Arc<tokio::sync::Mutex<KeptPage>>>>);

/// A page, and what was done with it.
struct KeptPage {
    page: Page,
    browser: Arc<Warm>,
    place: Place,
    auth: Option<String>,
    trace_prefix: String,
    steps: Vec<Step>,
    used: Instant,
}

impl KeptPage {
    fn remember(&mut self, step: Step) {
        if self.steps.len() < STEPS {
            self.steps.push(step);
        }
    }
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<tokio::sync::Mutex<KeptPage>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle pages; the browsers of the others stay.
    pub(super) fn sweep(&self) {
        self.all().retain(|_, kept| {
            let Ok(kept) = kept.try_lock() else { return true };
            kept.browser.touch();
            kept.used.elapsed() < IDLE && !kept.page.is_gone()
        });
    }

    pub(super) fn clear(&self) {
        self.all().clear();
    }
}

impl Browsers {
    /// Uses an open page, or opens one to keep.
    pub(super) async fn browse_in_session(
        &self,
        sandbox: &SandboxRecord,
        name: &str,
        spec: &BrowseSpec,
        plan: &Plan,
    ) -> Result<BrowseReport, Failure> {
        let begun = Instant::now();
        let key = (sandbox.key, check(name)?);
        let known = self.sessions.all().get(&key).cloned();
        let known = match known {
            Some(kept) if !kept.lock().await.page.is_gone() => Some(kept),
            _ => None,
        };
        // An app that does not exist leaves the page as it is.
        let place = match spec.app.as_str() {
            "" => None,
            app => Some(self.place(sandbox, spec).await.map_err(|failure| {
                match nearest(app, VERBS) {
                    Some(step) => failure.hint(format!("or did you mean the step `{step}`?")),
                    None => failure,
                }
            })?),
        };
        let kept = match (known, place) {
            (Some(kept), _) if opens_otherwise(spec, plan) => {
                let auth = kept.lock().await.auth.clone();
                return Err(opened_already(name, auth.as_deref()));
            }
            (Some(kept), place) => {
                if let Some(place) = place {
                    kept.lock().await.place = place;
                }
                kept
            }
            (None, None) => return Err(no_session(name)),
            (None, Some(place)) => self.keep_page(sandbox, &key, (spec, plan), place).await?,
        };
        let mut guard = kept.lock().await;
        let used = self.use_kept(sandbox, &mut guard, spec, plan).await;
        let browser = guard.browser.clone();
        let mut visit = match used {
            Ok(visit) => visit,
            Err(error) => {
                self.sessions.all().remove(&key);
                return Err(browser.failure(&error).await);
            }
        };
        visit.report.session = Some(name.to_owned());
        visit.report.auth.clone_from(&guard.auth);
        visit.report.browser = browser.product.clone();
        visit.report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        visit.report.script = spec.record.then(|| guard.steps.iter().map(Step::to_toml).collect());
        let report = self.keep(sandbox, visit, &guard.trace_prefix).await;
        guard.page.noted(|capture| capture.clear());
        if spec.close {
            guard.page.close().await;
            self.sessions.all().remove(&key);
        }
        report
    }

    async fn keep_page(
        &self,
        sandbox: &SandboxRecord,
        key: &Key,
        (spec, plan): (&BrowseSpec, &Plan),
        place: Place,
    ) -> Result<Arc<tokio::sync::Mutex<KeptPage>>, Failure> {
        let own = self.sessions.all().keys().filter(|(sandbox, _)| *sandbox == key.0).count();
        if own >= MOST {
            let message = format!("sandbox `{}` keeps {MOST} pages already", sandbox.name);
            return Err(Failure::new(FailureKind::Conflict, message)
                .hint("let one go with `hothouse browse --session NAME --close`"));
        }
        let state = match &spec.auth {
            Some(role) => Some(self.signed_in(sandbox, role).await?.state),
            None => None,
        };
        let browser = self.browser(sandbox, &place.runtime).await?;
        let order = self.page_spec(sandbox, spec, plan, &place, state);
        let trace_prefix = order.trace_prefix.clone();
        let page = Page::open(&browser.client, order, within(patience(spec))).await;
        let page = match page {
            Ok(page) => page,
            Err(error) => return Err(browser.failure(&error).await),
        };
        let kept = KeptPage {
            page,
            browser,
            place,
            auth: spec.auth.clone(),
            trace_prefix,
            steps: Vec::new(),
            used: Instant::now(),
        };
        let kept = Arc::new(tokio::sync::Mutex::new(kept));
        self.sessions.all().insert(key.clone(), kept.clone());
        Ok(kept)
    }

    async fn use_kept(
        &self,
        sandbox: &SandboxRecord,
        kept: &mut KeptPage,
        spec: &BrowseSpec,
        plan: &Plan,
    ) -> Result<super::Visit, CallError> {
        kept.used = Instant::now();
        if !spec.app.is_empty() {
            let (path, app) = (spec.path.clone(), Some(spec.app.clone()));
            let path = if path.is_empty() { "/".to_owned() } else { path };
            kept.remember(Step { action: Action::Goto { path, app }, timeout: None });
        }
        let mut lasting = Vec::new();
        for step in &plan.steps {
            lasting.push(steps::lasting(&kept.page, step).await);
        }
        let open = Open { sandbox, spec, plan, place: &kept.place, page: &kept.page };
        let navigates = !spec.app.is_empty() && !plan.begins_elsewhere(spec);
        let visit = self.use_page(&open, navigates).await?;
        // Failed steps are not repeated.
        let done = visit.report.steps.iter().filter(|step| step.ok).count();
        lasting.into_iter().take(done).for_each(|step| kept.remember(step));
        kept.used = Instant::now();
        Ok(visit)
    }
}

fn check(name: &str) -> Result<String, Failure> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= 40 && name.chars().all(is_part) {
        true => Ok(name.to_owned()),
        false => Err(Failure::new(FailureKind::Usage, format!("`{name}` is not a name of a page"))
            .hint("use up to 40 letters, digits, dots and dashes")),
    }
}

/// Whether a request asks for what is decided when a page is opened.
fn opens_otherwise(spec: &BrowseSpec, plan: &Plan) -> bool {
    spec.auth.is_some() || spec.video || plan.emulation != Emulation::default()
}

fn opened_already(name: &str, auth: Option<&str>) -> Failure {
    let role = auth.map(|role| format!(", signed in as `{role}`")).unwrap_or_default();
    let message = format!("page `{name}` is open already{role}");
    Failure::new(FailureKind::Conflict, message).hint(format!(
        "role, device and video are those of its first call; `hothouse browse --session {name} --close` lets it go"
    ))
}

fn no_session(name: &str) -> Failure {
    let message = format!("no page is kept as `{name}`");
    Failure::new(FailureKind::NotFound, message)
        .hint(format!("open one with `hothouse browse APP PATH --session {name}`"))
}
