//! Connects to the daemon, starts it and stops it.

use std::{
    io::{BufRead, BufReader, ErrorKind},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use hothouse_api::{Build, Client, DaemonView, exec::EXEC_SOCKET, route};
use hothouse_host::{
    FileError, Folders, Lock, LockError, files,
    newest::NewestDaemon,
    process, random,
    socket::{self, SocketError},
};
use hothouse_model::{Explain, Failure, FailureKind, OperationId, room::API_SOCKET};

use crate::{session::failure, ui::Ui};

/// How long a daemon may take to stop before the next one starts.
const HANDOVER: Duration = Duration::from_secs(30);

/// How to connect to the daemon.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) folders: Folders,
    pub(crate) build: Build,
    pub(crate) ui: Ui,
    /// Whether this is a room, whose socket leads to the host's daemon.
    pub(crate) inside: bool,
}

/// How long a room waits for the host's daemon.
const ABSENCE: Duration = Duration::from_secs(10);

impl Reach {
    /// Connects to a running daemon; `None` if there is none.
    pub(crate) fn connect(&self) -> Result<Option<Client>, Failure> {
        if self.inside {
            // Anyone in the room may replace the socket, but it leads no further than the room itself may go.
            let stream = UnixStream::connect(API_SOCKET).ok();
            return Ok(stream.map(|stream| Client::new(stream, self.build)));
        }
        let stream = match connected(&self.folders.socket())? {
            // A daemon of an earlier release may listen on another socket.
            None => connected(&self.former_socket())?,
            found => found,
        };
        Ok(stream.map(|stream| Client::new(stream, self.build)))
    }

    fn former_socket(&self) -> PathBuf {
        let former = self.folders.former_runtime.as_ref();
        former.unwrap_or(&self.folders.runtime).join("daemon.sock")
    }

    /// Connects to the socket for commands, starting a daemon if there is none.
    pub(crate) fn connect_exec(&self) -> Result<UnixStream, Failure> {
        let socket = self.folders.socket().with_file_name(EXEC_SOCKET);
        let connect = || connected(&socket);
        self.persist(connect)
    }

    /// Stops the daemon, waits until it has exited, and returns which one it was.
    pub(crate) async fn stop(&self) -> Result<Option<DaemonView>, Failure> {
        let Some(client) = self.connect()? else { return Ok(None) };
        let operation = OperationId::from_random(random::bytes());
        let stopped: DaemonView =
            client.post(route::DAEMON_STOP, &operation, &()).await.map_err(failure)?;
        self.wait_until_gone()?;
        Ok(Some(stopped))
    }

    /// Replaces a daemon that is older than this program.
    ///
    /// The start lock is held until the new daemon is ready. Otherwise a command waiting in
    /// parallel could start the old one again.
    pub(crate) async fn replace(&self) -> Result<(), Failure> {
        if self.inside {
            let version = self.build.version();
            let message =
                format!("the daemon of the host is older than hothouse {version} of this room");
            return Err(Failure::new(FailureKind::Host, message).hint(
                "ask your user to update hothouse on the host, or to restart this room with it",
            ));
        }
        self.prepare()?;
        let _turn = self.take_turn()?;
        let Some(client) = self.connect()? else { return Ok(()) };
        match client.is_outdated().await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // It stopped in the meantime.
            Err(error) if error.is_broken() => {}
            Err(error) => return Err(failure(error)),
        }
        match self.stop().await {
            Err(broken) if self.connect()?.is_some() => return Err(broken),
            _ => self.wait_until_gone()?,
        }
        self.spawn_daemon()
    }

    /// Connects to the daemon, starting one if there is none.
    pub(crate) fn connect_or_start(&self) -> Result<Client, Failure> {
        self.persist(|| self.connect())
    }

    fn persist<T>(&self, connect: impl Fn() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
        let deadline = Instant::now() + HANDOVER;
        loop {
            if let Some(connection) = connect()? {
                return Ok(connection);
            }
            if self.inside {
                self.await_daemon(deadline - HANDOVER)?;
                continue;
            }
            match self.start_daemon() {
                Ok(()) => {}
                // Another daemon is starting or stopping.
                Err(failure)
                    if failure.kind == FailureKind::Conflict && Instant::now() < deadline =>
                {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits briefly for the host's daemon; fails once it has been away for too long.
    pub(crate) fn await_daemon(&self, since: Instant) -> Result<(), Failure> {
        if since.elapsed() > ABSENCE {
            let message = "the daemon of the host does not answer this room";
            return Err(Failure::new(FailureKind::Backend, message)
                .hint("ask your user to run any command on the host, such as `hothouse status`"));
        }
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// Starts a daemon and waits until it is ready. Commands that start one concurrently wait for the first.
    fn start_daemon(&self) -> Result<(), Failure> {
        self.prepare()?;
        let _turn = self.take_turn()?;
        if self.connect()?.is_some() {
            return Ok(());
        }
        self.spawn_daemon()
    }

    fn prepare(&self) -> Result<(), Failure> {
        files::make_private_folder(&self.folders.logs()).map_err(|error| error.failure())
    }

    fn take_turn(&self) -> Result<Lock, Failure> {
        Lock::take(&self.folders.state.join("start.lock")).map_err(|error| error.failure())
    }

    /// Starts a daemon under the start lock and waits until it is ready.
    fn spawn_daemon(&self) -> Result<(), Failure> {
        self.ui.detail("Starting the daemon.");
        let log = files::open_append(&self.folders.logs().join("daemon.stderr"))
            .map_err(|error| error.failure())?;
        let words = ["daemon", "run"];
        let child = match self.newer_program() {
            Some(program) => process::spawn_daemon(&program, &words, log),
            None => process::spawn_self(&words, log),
        };
        let mut child = child.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        let mut word = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut word).ok();
        }
        if let Some(notice) = word.trim_end().strip_prefix("ready: ") {
            self.ui.say(&format!("warning: {notice}"));
            return Ok(());
        }
        match word.trim_end() {
            "ready" => Ok(()),
            other => Err(serde_json::from_str(other).unwrap_or_else(|_| self.silent_death())),
        }
    }

    /// Returns the program of a newer daemon that has run here, if its file is unchanged.
    fn newer_program(&self) -> Option<PathBuf> {
        let newest = NewestDaemon::read(&self.folders.state)?;
        let build: Build = newest.build.parse().ok()?;
        let same = process::stamp_of(&newest.program) == Some(build.stamp);
        (same && build > self.build).then_some(newest.program)
    }

    fn silent_death(&self) -> Failure {
        let log = self.folders.logs();
        Failure::new(FailureKind::Internal, "the daemon ended before it was ready")
            .hint(format!("its log is {}", log.display()))
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
                        format!("the daemon does not stop ({holder})"),
                    )
                    .hint("it waits for operations in progress; try again later"));
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
        SocketError::Foreign { .. } => failure.hint(
            "another user's daemon uses this folder: set XDG_STATE_HOME to a folder of your own",
        ),
        SocketError::Open { path } => failure.hint(format!("`chmod 700 {}`", path.display())),
        SocketError::File(_) => failure,
    }
}

/// Connects to one of our sockets; `None` if nothing listens.
fn connected(socket: &Path) -> Result<Option<UnixStream>, Failure> {
    match socket::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(SocketError::File(error)) if is_absent(&error) => Ok(None),
        Err(error) => Err(socket_failure(&error)),
    }
}
