//! Sign-in: the browser state of each role, created by the app's own login and kept for the run.
//!
//! A state is used as long as its probe succeeds, and recreated when it fails. It is stored in a
//! folder of the daemon that no room can see, because it is equivalent to a password of the app.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_backend::connection::{ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio};
use hothouse_browser::{
    Arrival, Page, PageSpec,
    client::within,
    script,
    state::{Entry, Origin, StorageState},
    steps,
};
use hothouse_engine::{Engine, environment};
use hothouse_host::{files, random};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    browse::{BrowseSpec, cut},
    config::Role,
    id::hex,
    visible,
};
use tokio::{io::AsyncReadExt, net::unix::pipe, time::Instant};

use super::{Browsers, outside::RoomOutside, place::Place};

/// The time limit of a sign-in with its probe.
const SIGN_IN: Duration = Duration::from_secs(90);
const PROBE: Duration = Duration::from_secs(20);

/// How long a state counts as valid without a probe.
const FRESH: Duration = Duration::from_secs(5);

/// The size limit of a command's output, and of a file.
const STATE_MOST: u64 = 4 << 20;
const SCRIPT_MOST: u64 = 256 << 10;

/// The folder of states, below the state folder.
const FOLDER: &str = "sign-in";

/// The host suffix of any sandbox, in a state that sandboxes share.
const ANY_HOST: &str = ".sandbox.invalid";

/// Returns the host suffix of a sandbox's apps.
fn hosts_of(sandbox: &SandboxRecord) -> String {
    format!(".{}.{}.localhost", sandbox.name, sandbox.label)
}

/// A signed-in role.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub state: StorageState,
    /// The app that it is signed in to.
    pub app: String,
    /// The URL of that app, the same in a room and outside.
    pub url: String,
}

/// The cached states.
#[derive(Default)]
pub(super) struct States(Mutex<HashMap<StateKey, Arc<tokio::sync::Mutex<Option<Known>>>>>);

/// A run and a role.
type StateKey = (String, String);

struct Known {
    state: StorageState,
    checked: Instant,
}

/// How long an unused state stays in memory.
const KEPT: Duration = Duration::from_secs(3600);

impl States {
    fn of(&self, key: StateKey) -> Arc<tokio::sync::Mutex<Option<Known>>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_default().clone()
    }

    /// Evicts states that were not used for a while; they are still in files.
    pub(super) fn sweep(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| {
            let Ok(known) = known.try_lock() else { return true };
            known.as_ref().is_some_and(|known| known.checked.elapsed() < KEPT)
        });
    }
}

impl Browsers {
    /// Signs in as a role, unless there is a state that still works.
    pub async fn signed_in(
        &self,
        sandbox: &SandboxRecord,
        role: &str,
    ) -> Result<SignedIn, Failure> {
        let (engine, owned, name) = (self.engine.clone(), sandbox.clone(), role.to_owned());
        let found = tokio::task::spawn_blocking(move || engine.role(&owned, &name)).await;
        let spec = found.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        let place = self.place_of_role(sandbox, &spec).await?;
        let run = sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default();
        let slot = self.states.of((run.clone(), role.to_owned()));
        let mut slot = slot.lock().await;
        let file = self.state_file(&run, role);
        if slot.is_none() {
            let kept = files::read_capped(&file, STATE_MOST).ok();
            let state = kept.and_then(|bytes| StorageState::parse(&bytes).ok());
            let state = match state {
                Some(state) => Some(state),
                None => self.shared_state(sandbox, role).await,
            };
            let long_ago = Instant::now().checked_sub(FRESH).unwrap_or_else(Instant::now);
            *slot = state.map(|state| Known { state, checked: long_ago });
        }
        let signed_in = |state: StorageState| SignedIn {
            state,
            app: place.app.clone(),
            url: place.origin().to_owned(),
        };
        if let Some(known) = slot.as_mut() {
            if known.checked.elapsed() < FRESH {
                return Ok(signed_in(known.state.clone()));
            }
            if self.probe(sandbox, &place, &spec, &known.state).await?.is_none() {
                known.checked = Instant::now();
                return Ok(signed_in(known.state.clone()));
            }
            *slot = None;
        }
        let state = self.sign_in(sandbox, &place, &spec, role).await?;
        if let Some(problem) = self.probe(sandbox, &place, &spec, &state).await? {
            let message =
                format!("the sign-in as `{role}` ended, and its probe does not hold: {problem}");
            return Err(Failure::new(FailureKind::Unmet, message).hint(format!(
                "`probe` of `[auth.{role}]` must be a path that answers well for that role"
            )));
        }
        keep(&file, &state)?;
        *slot = Some(Known { state: state.clone(), checked: Instant::now() });
        Ok(signed_in(state))
    }

    /// Signs in as each role whose state has a probe, and returns their states for a snapshot of
    /// seeded data. Roles that cannot sign in are left out; without a browser, all are.
    pub(crate) async fn states_to_share(&self, sandbox: &SandboxRecord) -> Vec<u8> {
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let roles = tokio::task::spawn_blocking(move || engine.probed_roles(&own)).await;
        let mut all: BTreeMap<String, StorageState> = BTreeMap::new();
        for role in roles.unwrap_or_default() {
            match self.signed_in(sandbox, &role).await {
                Ok(signed_in) => {
                    let state = signed_in.state.moved(&hosts_of(sandbox), ANY_HOST);
                    all.insert(role, state);
                }
                Err(failure) => tracing::debug!(?failure, role, "no state is kept with the seed"),
            }
        }
        serde_json::to_vec(&all).unwrap_or_default()
    }

    /// Returns the state of a role that came with the snapshot of the sandbox's data. Its probe
    /// decides whether it works.
    async fn shared_state(&self, sandbox: &SandboxRecord, role: &str) -> Option<StorageState> {
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let kept = tokio::task::spawn_blocking(move || engine.seed_sign_in(&own)).await.ok()??;
        let mut all: BTreeMap<String, StorageState> = serde_json::from_slice(&kept).ok()?;
        let state = serde_json::to_vec(&all.remove(role)?).ok()?;
        Some(StorageState::parse(&state).ok()?.moved(ANY_HOST, &hosts_of(sandbox)))
    }

    /// Removes the states of runs that have ended.
    pub(super) fn forget_ended(&self) {
        let folders = files::list(&self.folder.join(FOLDER)).unwrap_or_default();
        if folders.is_empty() {
            return;
        }
        let Ok(runs) = self.engine.runs() else { return };
        let goes_on = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            runs.iter().any(|run| Some(run.id.as_str()) == name && run.ended.is_none())
        };
        for folder in folders.iter().filter(|folder| !goes_on(folder)) {
            files::remove_tree(folder).ok();
        }
    }

    fn state_file(&self, run: &str, role: &str) -> PathBuf {
        self.folder.join(FOLDER).join(run).join(format!("{role}.json"))
    }

    /// Finds the app that a role signs in to: the named one, `web`, or the only one.
    async fn place_of_role(&self, sandbox: &SandboxRecord, role: &Role) -> Result<Place, Failure> {
        let app = match &role.app {
            Some(app) => app.to_string(),
            None => {
                let apps = self.app_labels(sandbox).await?;
                match apps.as_slice() {
                    [only] => only.clone(),
                    _ => "web".to_owned(),
                }
            }
        };
        let path = role.probe.as_ref().map(ToString::to_string).unwrap_or_default();
        self.place(sandbox, &BrowseSpec::page(app, path)).await
    }

    /// Creates a state with the app's own login.
    async fn sign_in(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        spec: &Role,
        role: &str,
    ) -> Result<StorageState, Failure> {
        let bytes = match (&spec.script, &spec.run, &spec.state) {
            (Some(script), _, _) => {
                return self.sign_in_by_script(sandbox, place, script.as_str(), role).await;
            }
            (None, Some(run), _) => self.output_of(sandbox, place, run.as_str()).await?,
            (None, None, Some(path)) => {
                self.file(sandbox, path.as_str(), |engine, sandbox, path| {
                    engine.state_file(sandbox, path, STATE_MOST)
                })
                .await?
            }
            (None, None, None) => Vec::new(),
        };
        let state = StorageState::parse(&bytes).map_err(|error| {
            Failure::of(FailureKind::Config, &error)
                .hint(format!("`[auth.{role}]` must give what Playwright's `storageState` gives"))
        })?;
        Ok(state.adapted(place.origin()))
    }

    async fn file(
        &self,
        sandbox: &SandboxRecord,
        path: &str,
        read: fn(&Engine, &SandboxRecord, &Path) -> Result<Vec<u8>, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        let (engine, owned, path) = (self.engine.clone(), sandbox.clone(), path.to_owned());
        let reading = tokio::task::spawn_blocking(move || read(&engine, &owned, Path::new(&path)));
        reading.await.map_err(|error| Failure::of(FailureKind::Internal, &error))?
    }

    async fn sign_in_by_script(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        path: &str,
        role: &str,
    ) -> Result<StorageState, Failure> {
        let script = self.file(sandbox, path, |engine, sandbox, path| {
            engine.judging_file(sandbox, path, SCRIPT_MOST)
        });
        let text = String::from_utf8(script.await?).map_err(|_| {
            Failure::new(FailureKind::Config, format!("`{path}` is not text in UTF-8"))
        })?;
        let steps = script::parse(&text).map_err(|error| error.failure())?;
        let browser = self.browser(sandbox, &place.runtime).await?;
        let deadline = within(SIGN_IN);
        let order = self.plain_page(sandbox, place, None);
        let signing = async {
            let _turn = browser.turn().await;
            let page = Page::open(&browser.client, order, deadline).await?;
            let outside = RoomOutside::new(self, sandbox, place);
            let begins = matches!(steps[0].action, script::Action::Goto { .. });
            let arrival = match begins {
                true => Arrival::Loaded,
                false => page.goto(place.origin(), deadline).await?,
            };
            let ran = steps::run(&page, &steps, &outside, deadline).await;
            let state = storage_of(&page, deadline).await;
            page.close().await;
            Ok((arrival, ran, state))
        };
        let (_, ran, state) = match signing.await {
            Ok(found) => found,
            Err(error) => return Err(browser.failure(&error).await),
        };
        if let Some(failed) = ran.steps.iter().find(|step| !step.ok) {
            let why = failed.error.clone().unwrap_or_default();
            let message = format!("the sign-in as `{role}` failed at `{}`: {why}", failed.step);
            let failure = Failure::new(FailureKind::Unmet, message);
            return Err(match failed.near.is_empty() {
                true => failure,
                false => failure.hint(format!("there is {}", failed.near.join(", "))),
            });
        }
        Ok(state)
    }

    fn plain_page(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        state: Option<StorageState>,
    ) -> PageSpec {
        PageSpec {
            traced: place.origins.clone(),
            trace_prefix: hex(&random::bytes::<8>()),
            shims: super::shims::of(&self.engine, sandbox),
            state,
            ..PageSpec::default()
        }
    }

    /// Checks whether a state still works; returns the reason if not. Without a probe it is assumed
    /// to.
    async fn probe(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        spec: &Role,
        state: &StorageState,
    ) -> Result<Option<String>, Failure> {
        let Some(path) = &spec.probe else { return Ok(None) };
        let browser = self.browser(sandbox, &place.runtime).await?;
        let deadline = within(PROBE);
        let order = self.plain_page(sandbox, place, Some(state.clone()));
        let probing = async {
            let _turn = browser.turn().await;
            let page = Page::open(&browser.client, order, deadline).await?;
            let arrival = page.goto(&place.url, deadline).await?;
            let last = page.noted(|capture| {
                capture.requests.documents().next_back().map(|it| (it.status, it.url.clone()))
            });
            page.close().await;
            Ok((arrival, last))
        };
        let (arrival, last) = match probing.await {
            Ok(found) => found,
            Err(error) => return Err(browser.failure(&error).await),
        };
        Ok(judged(path.as_str(), &arrival, last.as_ref(), place.origin()))
    }

    /// Runs a command in the room, and returns its output.
    async fn output_of(
        &self,
        sandbox: &SandboxRecord,
        place: &Place,
        run: &str,
    ) -> Result<Vec<u8>, Failure> {
        let lost = |error: &dyn std::error::Error| Failure::of(FailureKind::Backend, error);
        let room = self.connections.of(&place.runtime).await.map_err(|error| lost(&error))?;
        let exec = ExecId(format!("sign-in-{}", hex(&random::bytes::<8>())));
        let (tools, wall) =
            (self.engine.tools_of(&place.runtime), self.engine.wall_of(&place.runtime));
        let spec = ExecSpec {
            id: exec.clone(),
            argv: ["/bin/sh", "-c", run].map(|word| word.as_bytes().to_vec()).to_vec(),
            env: environment::of(sandbox, RoomUser::Agent, None, &tools, &wall),
            cwd: sandbox.worktree.as_os_str().as_encoded_bytes().to_vec(),
            user: RoomUser::Agent,
            stdio: Stdio::Pipes,
            service: None,
        };
        let streams = room.exec(spec).await.map_err(|error| lost(&error))?;
        let ExecStreams::Pipes { stdin, stdout, stderr } = streams else {
            return Err(Failure::new(FailureKind::Backend, "the room gave no pipes"));
        };
        drop(stdin);
        let reading = async {
            let (out, errors) = tokio::join!(all_of(stdout), all_of(stderr));
            let exit = room.wait(exec.clone()).await.map_err(|error| lost(&error))?;
            Ok::<_, Failure>((out, errors, exit))
        };
        let Ok(read) = tokio::time::timeout(SIGN_IN, reading).await else {
            room.signal(exec.clone(), 9).await.ok();
            return Err(Failure::new(FailureKind::Unmet, format!("`{run}` did not end in time")));
        };
        match read? {
            (out, _, Exit::Code(0)) => Ok(out),
            (_, errors, exit) => {
                let text = String::from_utf8_lossy(&errors);
                let last =
                    text.lines().last().map(|line| visible::line(&cut(line, 300)).into_owned());
                let mut failure =
                    Failure::new(FailureKind::Unmet, format!("`{run}` failed: {exit}"));
                failure.causes.extend(last);
                Err(failure)
            }
        }
    }
}

/// Reads the output of a command, up to a limit.
async fn all_of(pipe: std::os::fd::OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(reader) = pipe::Receiver::from_owned_fd(pipe) {
        reader.take(STATE_MOST).read_to_end(&mut bytes).await.ok();
    }
    bytes
}

/// Judges the response to a probe: a status below 400, and no redirect to another path, such as a login page.
fn judged(
    path: &str,
    arrival: &Arrival,
    last: Option<&(Option<u16>, String)>,
    origin: &str,
) -> Option<String> {
    if !matches!(arrival, Arrival::Loaded | Arrival::Busy) {
        return Some("the page did not load".to_owned());
    }
    let plain = |path: &str| {
        path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned()
    };
    match last {
        Some((Some(status), _)) if *status >= 400 => Some(format!("{path} answered with {status}")),
        Some((_, url)) => {
            let reached = url.strip_prefix(origin).map(plain);
            (reached.as_deref() != Some(&plain(path)))
                .then(|| format!("{path} led to {}", cut(url, 300)))
        }
        None => Some(format!("{path} was not answered")),
    }
}

/// Reads the cookies and the local storage of a page.
async fn storage_of(page: &Page, deadline: Instant) -> StorageState {
    let script = "({ origin: location.origin, entries: Object.entries(localStorage).slice(0, 400).map(([name, value]) => ({ name: name.slice(0, 500), value: value.slice(0, 50000) })) })";
    let stored = page.evaluate(script, deadline).await.unwrap_or_default();
    let entries: Vec<Entry> = serde_json::from_value(stored["entries"].clone()).unwrap_or_default();
    let origin = stored["origin"].as_str().unwrap_or_default().to_owned();
    let origins = match entries.is_empty() {
        true => Vec::new(),
        false => vec![Origin { origin, local_storage: entries }],
    };
    StorageState { cookies: page.cookies(deadline).await.unwrap_or_default(), origins }
}

fn keep(file: &Path, state: &StorageState) -> Result<(), Failure> {
    let host = |error: files::FileError| Failure::of(FailureKind::Host, &error);
    files::make_private_folder(file.parent().unwrap_or(file)).map_err(host)?;
    let text = serde_json::to_vec(state).unwrap_or_default();
    files::write_quick(file, &text, 0o600).map_err(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_holds_only_where_it_was_asked() {
        let origin = "https://web.a.shop.localhost:8443";
        let told = |status: Option<u16>, path: &str| {
            let last = (status, format!("{origin}{path}"));
            judged("/account", &Arrival::Loaded, Some(&last), origin)
        };
        assert_eq!(told(Some(200), "/account"), None);
        assert_eq!(told(Some(200), "/account/?a=1"), None);
        assert!(told(Some(403), "/account").unwrap().contains("403"));
        assert!(told(Some(200), "/login?next=/account").unwrap().contains("/login"));
        assert!(judged("/account", &Arrival::Late(Vec::new()), None, origin).is_some());
    }
}
