//! Requests to the daemon, which is started or replaced as needed and asked again if it died.

use std::{
    future::Future,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::Engine as _;

use hothouse_api::{
    Build, Client, ClientError, DaemonView,
    client::EventStream,
    operation::EventQuery,
    route,
    sandbox::FindQuery,
    timeline::{ArtifactQuery, ArtifactView},
};
use hothouse_host::{Folders, files, newest::NewestDaemon, random};
use hothouse_model::{Explain, Failure, FailureKind, OperationId};
use serde::{Serialize, de::DeserializeOwned};

use crate::{progress, reach::Reach, ui::Ui};

/// How often a request is retried when the daemon keeps dying.
const ATTEMPTS: usize = 4;

/// One command's session with the daemon.
pub(crate) struct Session {
    pub(crate) folders: Folders,
    pub(crate) build: Build,
    /// The command's working directory.
    pub(crate) folder: PathBuf,
    reach: Reach,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// Creates a session. Sends nothing yet.
    pub(crate) fn new(
        folders: Folders,
        build: Build,
        folder: PathBuf,
        inside: bool,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        let reach = Reach { folders: folders.clone(), build, ui: *ui, inside };
        Ok(Self { folders, build, folder, reach, runtime })
    }

    /// Whether this is a room, whose API serves only its own sandbox.
    pub(crate) fn is_inside(&self) -> bool {
        self.reach.inside
    }

    /// Returns the folder as text for the API.
    pub(crate) fn folder_text(&self) -> Result<String, Failure> {
        let text = self.folder.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Failure::new(FailureKind::Host, "the path of the current folder is not valid UTF-8")
        })
    }

    /// Generates the id of a change.
    pub(crate) fn operation(&self) -> OperationId {
        OperationId::from_random(random::bytes())
    }

    /// Sends a GET request.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.persistently(path, |client| client.get(path))
    }

    /// Sends a GET request with parameters.
    pub(crate) fn query<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        self.persistently(path, |client| client.query(path, query))
    }

    /// Requests a change. If the daemon dies in the meantime, asks the next one for the outcome.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        operation: &OperationId,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.persistently(path, |client| client.post(path, operation, body))
    }

    /// Requests a change that takes a while. Returns `None` if the user presses Ctrl-C; the daemon continues.
    pub(crate) fn post_unless_interrupted<T: DeserializeOwned>(
        &self,
        path: &str,
        operation: &OperationId,
        body: &impl Serialize,
    ) -> Result<Option<T>, Failure> {
        self.persistently(path, |client| async move {
            tokio::select! {
                answer = client.post(path, operation, body) => answer.map(Some),
                Ok(()) = tokio::signal::ctrl_c() => Ok(None),
            }
        })
    }

    /// Reads a file of a run by the path that the daemon named. In a room that path does not exist, so
    /// it requests the file.
    pub(crate) fn read_artifact(
        &self,
        file: &Path,
        run: Option<String>,
        limit: u64,
    ) -> Result<Vec<u8>, Failure> {
        if !self.is_inside() {
            return files::read_capped(file, limit)
                .map_err(|error| Failure::of(FailureKind::NotFound, &error));
        }
        let file = file.to_string_lossy().into_owned();
        let folder = self.folder_text()?;
        let query = ArtifactQuery { sandbox: None, folder, run, file };
        let found: ArtifactView = self.query(route::ARTIFACTS, &query)?;
        base64::engine::general_purpose::STANDARD
            .decode(found.base64)
            .map_err(|error| Failure::of(FailureKind::Internal, &error))
    }

    /// Queries a running daemon; does not start one.
    pub(crate) fn get_if_running<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Failure> {
        match self.reach.connect()? {
            Some(client) => self.runtime.block_on(client.get(path)).map(Some).map_err(failure),
            None => Ok(None),
        }
    }

    /// Queries a running daemon with parameters; does not start one.
    pub(crate) fn query_if_running<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<Option<T>, Failure> {
        match self.reach.connect()? {
            Some(client) => {
                self.runtime.block_on(client.query(path, query)).map(Some).map_err(failure)
            }
            None => Ok(None),
        }
    }

    /// Sends something to a running daemon, within a time limit; does not start one.
    pub(crate) fn post_if_running<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Option<T> {
        let client = self.reach.connect().ok()??;
        let operation = self.operation();
        self.runtime.block_on(async {
            let answer = client.post(path, &operation, body);
            tokio::time::timeout(patience, answer).await.ok()?.ok()
        })
    }

    /// Builds the query for a sandbox, relative to the current folder.
    pub(crate) fn find_query(&self, sandbox: Option<String>) -> Result<FindQuery, Failure> {
        Ok(FindQuery { sandbox, folder: self.folder_text()? })
    }

    /// Opens the event stream of an operation that is about to be requested.
    pub(crate) fn events(&self, operation: &OperationId) -> Option<EventStream> {
        let client = self.reach.connect_or_start().ok()?;
        let operation = Some(operation.to_string());
        let query = EventQuery { operation, ..EventQuery::default() };
        self.runtime.block_on(client.events(&query)).ok()
    }

    /// Follows events, one JSON value at a time, until the visitor stops or the daemon ends.
    pub(crate) fn follow_events(
        &self,
        query: &EventQuery,
        visitor: &mut dyn FnMut(serde_json::Value) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let client = self.reach.connect_or_start()?;
        self.runtime.block_on(async {
            let mut events = client.events(query).await.map_err(failure)?;
            while let Some(event) = events.next().await {
                if visitor(event).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Starts the daemon if none is running.
    pub(crate) fn start(&self) -> Result<DaemonView, Failure> {
        self.get(route::DAEMON)
    }

    /// Stops the daemon, waits until it has exited, and returns which one it was.
    pub(crate) fn stop(&self) -> Result<Option<DaemonView>, Failure> {
        let stopped = self.runtime.block_on(self.reach.stop())?;
        // A user who stops it may want to run another build next, even an older one.
        NewestDaemon::forget(&self.folders.state).map_err(|error| error.failure())?;
        Ok(stopped)
    }

    /// Returns the means to connect to the daemon, for code with its own connections.
    pub(crate) fn reach(&self) -> Reach {
        self.reach.clone()
    }

    /// Runs work that may itself start tasks on this thread.
    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        tokio::task::LocalSet::new().block_on(&self.runtime, work)
    }

    /// Runs work in the background while the progress line is updated.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        self.runtime.spawn(work)
    }

    fn persistently<T, F, R>(&self, path: &str, request: R) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, ClientError>>,
        R: Fn(Client) -> F,
    {
        let (mut attempt, begun) = (1, Instant::now());
        loop {
            let client = self.reach.connect_or_start()?;
            match self.runtime.block_on(progress::told(&self.reach.ui, path, request(client))) {
                Err(ClientError::Outdated) if attempt < ATTEMPTS => {
                    self.reach.ui.detail("Replacing the daemon, which is older than this program.");
                    self.runtime.block_on(self.reach.replace())?;
                }
                // room-init closes new connections while no daemon serves the room.
                Err(error) if error.is_broken() && self.reach.inside => {
                    self.reach.await_daemon(begun)?;
                }
                Err(error) if error.is_broken() && attempt < ATTEMPTS => {
                    self.reach
                        .ui
                        .detail("The daemon stopped during the operation; asking the next one for its outcome.");
                }
                other => return other.map_err(failure),
            }
            attempt += 1;
        }
    }
}

pub(crate) fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(failure) => failure,
        other => Failure::of(FailureKind::Internal, &other)
            .hint("`hothouse daemon status` shows whether it is running and where its log is"),
    }
}
