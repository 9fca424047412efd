//! Talking to the daemon: found, started or replaced as needed, and asked again after it died.

use std::{
    future::Future,
    io::{BufRead, BufReader, ErrorKind},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use hothouse_api::{
    Build, Client, ClientError, DaemonView, client::EventStream, operation::EventQuery, route,
};
use hothouse_host::{
    FileError, Folders, Lock, LockError, files, process, random,
    socket::{self, SocketError},
};
use hothouse_model::{Explain, Failure, FailureKind, OperationId};
use serde::{Serialize, de::DeserializeOwned};

use crate::ui::Ui;

/// How long a daemon may take to make room for the next one.
const HANDOVER: Duration = Duration::from_secs(30);

/// How often a request is tried when daemons keep dying under it.
const ATTEMPTS: usize = 4;

/// One command's conversation with the daemon.
pub(crate) struct Session {
    pub(crate) folders: Folders,
    pub(crate) build: Build,
    /// Where the command was given.
    pub(crate) folder: PathBuf,
    ui: Ui,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// Begins a conversation; nothing is sent yet.
    pub(crate) fn new(
        folders: Folders,
        build: Build,
        folder: PathBuf,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        Ok(Self { folders, build, folder, ui: *ui, runtime })
    }

    /// Returns the folder as text for the API.
    pub(crate) fn folder_text(&self) -> Result<String, Failure> {
        let text = self.folder.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Failure::new(FailureKind::Host, "the path of the current folder is not valid UTF-8")
        })
    }

    /// Makes an id for a change.
    pub(crate) fn operation(&self) -> OperationId {
        OperationId::from_random(random::bytes())
    }

    /// Asks for something.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.persistently(|client| client.get(path))
    }

    /// Asks with parameters.
    pub(crate) fn query<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        self.persistently(|client| client.query(path, query))
    }

    /// Asks for a change. If the daemon dies meanwhile, the next one is asked what became of it.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        operation: &OperationId,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.persistently(|client| client.post(path, operation, body))
    }

    /// Asks a daemon that runs; none is started.
    pub(crate) fn get_if_running<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Failure> {
        match self.connect()? {
            Some(client) => self.runtime.block_on(client.get(path)).map(Some).map_err(failure),
            None => Ok(None),
        }
    }

    /// Opens the event stream of an operation that is about to be asked for.
    pub(crate) fn events(&self, operation: &OperationId) -> Option<EventStream> {
        let client = self.connect_or_start().ok()?;
        let query = EventQuery { operation: Some(operation.to_string()) };
        self.runtime.block_on(client.events(&query)).ok()
    }

    /// Starts the daemon if none runs.
    pub(crate) fn start(&self) -> Result<DaemonView, Failure> {
        self.get(route::DAEMON)
    }

    /// Ends the daemon and waits until it is gone; says which one it was.
    pub(crate) fn stop(&self) -> Result<Option<DaemonView>, Failure> {
        let Some(client) = self.connect()? else { return Ok(None) };
        let operation = self.operation();
        let stopped = self.runtime.block_on(client.post(route::DAEMON_STOP, &operation, &()));
        let stopped: DaemonView = stopped.map_err(failure)?;
        self.wait_until_gone()?;
        Ok(Some(stopped))
    }

    /// Runs work beside which the terminal is kept alive.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        self.runtime.spawn(work)
    }

    fn persistently<T, F, R>(&self, request: R) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, ClientError>>,
        R: Fn(Client) -> F,
    {
        let mut attempt = 1;
        loop {
            let client = self.connect_or_start()?;
            match self.runtime.block_on(request(client)) {
                Err(ClientError::Outdated) if attempt < ATTEMPTS => {
                    self.ui.detail("The daemon is older than this program: replacing it.");
                    self.stop()?;
                }
                Err(error) if error.is_broken() && attempt < ATTEMPTS => {
                    self.ui.detail("The daemon went away: asking the next one what became of it.");
                }
                other => return other.map_err(failure),
            }
            attempt += 1;
        }
    }

    /// Connects to a running daemon; nothing if there is none.
    fn connect(&self) -> Result<Option<Client>, Failure> {
        match socket::connect(&self.folders.socket()) {
            Ok(stream) => Ok(Some(Client::new(stream, self.build))),
            Err(SocketError::File(error)) if is_absent(&error) => Ok(None),
            Err(error) => Err(socket_failure(&error)),
        }
    }

    fn connect_or_start(&self) -> Result<Client, Failure> {
        let deadline = Instant::now() + HANDOVER;
        loop {
            if let Some(client) = self.connect()? {
                return Ok(client);
            }
            match self.start_daemon() {
                Ok(()) => {}
                // Another daemon is just starting or just ending.
                Err(failure)
                    if failure.kind == FailureKind::Conflict && Instant::now() < deadline =>
                {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Starts a daemon and waits for its word. Those who start at the same time wait for the first.
    fn start_daemon(&self) -> Result<(), Failure> {
        let explain = |error: FileError| error.failure();
        files::make_private_folder(&self.folders.logs()).map_err(explain)?;
        let _turn = Lock::take(&self.folders.state.join("start.lock")).map_err(explain)?;
        if self.connect()?.is_some() {
            return Ok(());
        }
        self.ui.detail("Starting the daemon.");
        let log =
            files::open_append(&self.folders.logs().join("daemon.stderr")).map_err(explain)?;
        let mut child = process::spawn_self(&["daemon", "run"], log)
            .map_err(|error| Failure::of(FailureKind::Host, &error))?;
        let mut word = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut word).ok();
        }
        match word.trim_end() {
            "ready" => Ok(()),
            other => Err(serde_json::from_str(other).unwrap_or_else(|_| self.silent_death())),
        }
    }

    fn silent_death(&self) -> Failure {
        let log = self.folders.logs();
        Failure::new(FailureKind::Internal, "the daemon ended before it was ready")
            .hint(format!("its last words are in {}", log.display()))
    }

    fn wait_until_gone(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + HANDOVER;
        loop {
            match Lock::try_take(&self.folders.daemon_lock()) {
                Ok(_) => return Ok(()),
                Err(LockError::File(error)) => return Err(error.failure()),
                Err(LockError::Held { holder, .. }) if Instant::now() > deadline => {
                    return Err(Failure::new(
                        FailureKind::Conflict,
                        format!("the daemon does not end ({holder})"),
                    )
                    .hint("operations in flight may take a while; try again"));
                }
                Err(LockError::Held { .. }) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

fn is_absent(error: &FileError) -> bool {
    matches!(error.source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

fn socket_failure(error: &SocketError) -> Failure {
    let failure = Failure::of(FailureKind::Host, error);
    match error {
        SocketError::Foreign { .. } => {
            failure.hint("that is not your daemon: set XDG_RUNTIME_DIR to a folder of your own")
        }
        SocketError::Open { path } => failure.hint(format!("`chmod 700 {}`", path.display())),
        SocketError::File(_) => failure,
    }
}

fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(failure) => failure,
        other => Failure::of(FailureKind::Internal, &other)
            .hint("`hothouse daemon status` shows whether it runs and where its log is"),
    }
}
