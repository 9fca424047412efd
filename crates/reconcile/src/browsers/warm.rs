//! A running browser in a room.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_backend::{
    RoomConnection,
    connection::{ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio},
};
use hothouse_browser::{
    CallError, Client,
    client::within,
    launch::{self, Cause, OwnSandbox},
};
use hothouse_engine::{Engine, environment};
use hothouse_host::random;
use hothouse_model::{Failure, FailureKind, SandboxRecord, id::hex, visible};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// The id prefix of browser commands. Such a command does not keep a sandbox awake.
pub(crate) const EXEC_PREFIX: &str = "browser-";

/// The time limit for starting a browser.
const START: Duration = Duration::from_secs(60);

/// How many pages of a room may be open at once; others wait.
const PAGES: usize = 6;

/// How much of its standard error is kept.
const STDERR_MOST: usize = 16 << 10;

const KILL: i32 = 9;

/// A running browser.
pub(super) struct Warm {
    pub(super) client: Client,
    /// Such as `Chrome/156.0`.
    pub(super) product: String,
    room: Arc<dyn RoomConnection>,
    exec: ExecId,
    stderr: Arc<Mutex<Vec<u8>>>,
    used: Mutex<Instant>,
    pages: Semaphore,
}

impl Warm {
    pub(super) fn is_alive(&self) -> bool {
        !self.client.is_closed() && !self.room.is_closed()
    }

    /// Records that it is in use.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether it is unused, and has been for a while.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.elapsed() > time && self.pages.available_permits() == PAGES
    }

    /// Waits until another page may be opened.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.pages.acquire().await.ok()
    }

    /// Explains why a page could not be used.
    pub(super) async fn failure(&self, error: &CallError) -> Failure {
        match error {
            CallError::Closed { .. } => {
                let ended =
                    tokio::time::timeout(Duration::from_secs(2), self.room.wait(self.exec.clone()));
                let signal =
                    ended.await.ok().and_then(Result::ok).and_then(|exit| signal_of(&exit));
                explain(launch::cause(&self.said(), signal), &self.said())
            }
            // Only the browser knows all names of zones and locales.
            CallError::Refused { method: "Emulation.setTimezoneOverride", .. } => {
                Failure::new(FailureKind::Usage, "the browser does not know this time zone")
                    .hint("name it as `--timezone Europe/Stockholm`")
            }
            CallError::Refused { method: "Emulation.setLocaleOverride", .. } => {
                Failure::new(FailureKind::Usage, "the browser does not know this locale")
                    .hint("name it as `--locale sv-SE`")
            }
            CallError::Refused { .. } => Failure::of(FailureKind::Backend, error),
            CallError::Late { .. } => Failure::of(FailureKind::Backend, error)
                .hint("the browser may be overloaded; try again, or pass a longer `--timeout`"),
        }
    }

    fn said(&self) -> String {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // Closing its pipes ends it too, unless it hangs.
        let (room, exec) = (self.room.clone(), self.exec.clone());
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move { room.signal(exec, KILL).await.ok() });
        }
    }
}

/// Starts a browser in a room: with its own sandbox, if the host allows nested namespaces.
pub(super) async fn start(
    engine: &Arc<Engine>,
    sandbox: &SandboxRecord,
    runtime: &Path,
    room: Arc<dyn RoomConnection>,
) -> Result<Warm, Failure> {
    match try_start(engine, sandbox, runtime, &room, OwnSandbox::On).await {
        Err((Cause::NoNamespaces, _)) => {
            let again = try_start(engine, sandbox, runtime, &room, OwnSandbox::Off).await;
            again.map_err(|(cause, said)| explain(cause, &said))
        }
        outcome => outcome.map_err(|(cause, said)| explain(cause, &said)),
    }
}

async fn try_start(
    engine: &Arc<Engine>,
    sandbox: &SandboxRecord,
    runtime: &Path,
    room: &Arc<dyn RoomConnection>,
    own_sandbox: OwnSandbox,
) -> Result<Warm, (Cause, String)> {
    let other = |error: &dyn std::error::Error| (Cause::Other, error.to_string());
    let exec = ExecId(format!("{EXEC_PREFIX}{}", hex(&random::bytes::<8>())));
    let (tools, wall) = (engine.tools_of(runtime), engine.wall_of(runtime));
    let spec = ExecSpec {
        id: exec.clone(),
        argv: launch::argv(own_sandbox).into_iter().map(String::into_bytes).collect(),
        env: environment::of(sandbox, RoomUser::Agent, None, &tools, &wall),
        cwd: b"/".to_vec(),
        user: RoomUser::Agent,
        stdio: Stdio::Pipes,
        service: None,
    };
    let streams = room.exec(spec).await.map_err(|error| other(&error))?;
    let ExecStreams::Pipes { stdin, stdout, stderr } = streams else {
        return Err((Cause::Other, "the room gave no pipes".into()));
    };
    let writer = pipe::Sender::from_owned_fd(stdin).map_err(|error| other(&error))?;
    let reader = pipe::Receiver::from_owned_fd(stdout).map_err(|error| other(&error))?;
    let stderr = pipe::Receiver::from_owned_fd(stderr).map_err(|error| other(&error))?;
    let said = Arc::new(Mutex::new(Vec::new()));
    let listening = tokio::spawn(listen(stderr, said.clone()));
    let mut warm = Warm {
        client: Client::new(reader, writer),
        product: String::new(),
        room: room.clone(),
        exec: exec.clone(),
        stderr: said,
        used: Mutex::new(Instant::now()),
        pages: Semaphore::new(PAGES),
    };
    let deadline = within(START);
    let mut told = Vec::new();
    for command in launch::greeting() {
        match warm.client.call(command, deadline).await {
            Ok(answer) => told.push(answer),
            Err(CallError::Closed { .. }) => {
                let ended = tokio::time::timeout(Duration::from_secs(5), room.wait(exec)).await;
                let signal = ended.ok().and_then(Result::ok).and_then(|exit| signal_of(&exit));
                // Its last output may still be arriving.
                tokio::time::timeout(Duration::from_secs(2), listening).await.ok();
                let said = warm.said();
                return Err((launch::cause(&said, signal), said));
            }
            Err(error) => return Err((Cause::Other, format!("{error}\n{}", warm.said()))),
        }
    }
    let product = told.first().map(launch::version);
    warm.product = product.unwrap_or(Err(Cause::Other)).map_err(|cause| (cause, String::new()))?;
    Ok(warm)
}

fn signal_of(exit: &Exit) -> Option<i32> {
    match exit {
        Exit::Signal(signal) => Some(*signal),
        // How a shell reports a signal.
        Exit::Code(code @ 129..) => Some(code - 128),
        Exit::Code(_) | Exit::NotStarted { .. } => None,
    }
}

/// Keeps the tail of a browser's standard error.
async fn listen(mut stderr: pipe::Receiver, said: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..count]);
        let over = said.len().saturating_sub(STDERR_MOST);
        said.drain(..over);
    }
}

/// Explains why there is no browser, and what to do.
fn explain(cause: Cause, said: &str) -> Failure {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.iter().rev().take(3).rev().map(|line| visible::line(line).into_owned());
    let causes: Vec<String> = last.collect();
    let failure = match cause {
        Cause::Missing => Failure::new(FailureKind::Host, "the room has no browser")
            .hint("install one on this host, where rooms find it: `apt-get install chromium`")
            .hint("or in the room alone: `hothouse exec --root -- apt-get install -y chromium`"),
        Cause::TooOld(product) => {
            let message = format!("the room's browser is too old: `{product}`");
            Failure::new(FailureKind::Host, message)
                .hint(format!("version {} or later is needed", launch::OLDEST))
        }
        Cause::Killed => Failure::new(FailureKind::Backend, "the browser was killed")
            .hint("most likely the room ran out of memory: raise `memory` under `[room]`, then `hothouse up`"),
        Cause::NoNamespaces => {
            Failure::new(FailureKind::Host, "the browser cannot build its own sandbox in the room")
                .hint("`hothouse doctor` says whether this host lets rooms nest namespaces")
        }
        Cause::Other => Failure::new(FailureKind::Backend, "the browser ended")
            .hint("try again: a new one is started"),
    };
    let told = if failure.causes.is_empty() { causes } else { Vec::new() };
    Failure { causes: told, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_says_what_to_do() {
        for (cause, kind, hint) in [
            (Cause::Missing, FailureKind::Host, "apt-get install chromium"),
            (Cause::TooOld("Chrome/90".into()), FailureKind::Host, "120 or later"),
            (Cause::Killed, FailureKind::Backend, "memory"),
            (Cause::NoNamespaces, FailureKind::Host, "doctor"),
            (Cause::Other, FailureKind::Backend, "try again"),
        ] {
            let failure = explain(cause, "a\n\nlast words\n");
            assert_eq!(failure.kind, kind);
            assert!(failure.hints.iter().any(|it| it.contains(hint)), "{hint}");
            assert_eq!(failure.causes.last().map(String::as_str), Some("last words"));
        }
    }
}
