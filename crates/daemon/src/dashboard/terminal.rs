//! A terminal of a room in a page: the output of a command, and the user's input after a click.
//!
//! Output from the room is not trusted, and is only passed to the page's terminal emulator. The connection is a
//! WebSocket: only our own origin may open one, and its first message is the session's token.

mod talk;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use hothouse_backend::{
    RoomConnection,
    connection::{Attached, ExecId, ExecRecord},
};
use hothouse_dashboard::{
    page::{Head, Shell, TerminalPage, render},
    place::Part,
    text::short,
};
use hothouse_ingress::{html::Markup, pages, proxy::Body, websocket};
use hothouse_model::{Failure, FailureKind, SandboxRecord};
use hyper::{Request, Response, StatusCode, body::Incoming, header};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};

use self::talk::{Said, Talk, Word};
use super::{Dashboard, Session, assets, is_own, keys, query_value, records};
use crate::{Daemon, exec::shell, routes::blocking};

/// The maximum number of open terminals in pages.
const MOST: usize = 64;

/// The maximum size of a message from a page.
const MESSAGE: usize = 64 << 10;

/// How long a page may take to authenticate.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a shell that no page shows stays alive.
const UNSEEN: Duration = Duration::from_secs(600);

/// SIGHUP, for a shell that no page shows.
const HANGUP: i32 = 1;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// The open terminals.
pub(super) struct Terminals {
    seats: Arc<Semaphore>,
    /// How many pages show a command, by its sandbox and its id.
    viewers: Mutex<HashMap<(String, String), usize>>,
}

impl Default for Terminals {
    fn default() -> Self {
        Self { seats: Arc::new(Semaphore::new(MOST)), viewers: Mutex::default() }
    }
}

impl Terminals {
    fn come(&self, at: &(String, String)) {
        *self.lock().entry(at.clone()).or_default() += 1;
    }

    fn leave(&self, at: &(String, String)) {
        let mut viewers = self.lock();
        if let Some(count) = viewers.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                viewers.remove(at);
            }
        }
    }

    fn is_seen(&self, at: &(String, String)) -> bool {
        self.lock().contains_key(at)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), usize>> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connection to the room of a running sandbox. A sleeping sandbox is not woken.
pub(crate) async fn room_of(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
) -> Result<Arc<dyn RoomConnection>, Failure> {
    let (engine, sandbox) = (daemon.engine.clone(), sandbox.clone());
    let runtime = blocking(move || engine.running(&sandbox)).await;
    let runtime = runtime.map_err(|crate::failure::ErrorResponse(failure)| failure)?;
    let room = daemon.keepers.connections.of(&runtime).await;
    room.map_err(|error| Failure::of(FailureKind::Backend, &error))
}

/// Renders the page: the terminals of a room, and the selected one.
pub(super) async fn page(daemon: &Daemon, head: &Head, wanted: Option<String>) -> Option<Markup> {
    let id = head.sandbox.clone()?;
    let (known, of) = (daemon.clone(), id.clone());
    let sandbox = blocking(move || Ok(records::sandbox(&known, &of))).await.ok()??;
    let agents = daemon.keepers.agents.list(vec![sandbox.clone()]).await;
    let agent = agents.into_iter().rfind(|agent| agent.ended.is_none());
    let (shells, problem) = match room_of(daemon, &sandbox).await {
        Ok(room) => (room.execs().await.unwrap_or_default(), None),
        Err(failure) => (Vec::new(), Some(failure.message)),
    };
    let is_open = |record: &&ExecRecord| record.terminal && record.exit.is_none();
    let mut shells: Vec<Shell> = shells
        .iter()
        .filter(is_open)
        .map(|record| {
            let exec = record.id.0.clone();
            let of_agent = agent.as_ref().filter(|agent| agent.exec == exec);
            Shell {
                title: match of_agent {
                    Some(agent) => format!("Agent {}", short(&agent.tool, 40)),
                    None if shell::is_own(&exec) => format!("Shell {}", &exec[5..9]),
                    None => format!("Terminal {exec}"),
                },
                is_agent: of_agent.is_some(),
                is_own: shell::is_own(&exec),
                exec,
            }
        })
        .collect();
    shells.sort_by_key(|shell| (!shell.is_agent, !shell.is_own));
    let shown = match wanted {
        Some(exec) => Some(exec),
        None => shells.first().map(|shell| shell.exec.clone()),
    };
    let (style, script) = assets::terminal();
    let page = TerminalPage {
        head,
        here: Some(Part::Terminal(None)),
        shells,
        shown,
        problem,
        new: shell::new_id(),
        style,
        script,
    };
    Some(render(&page))
}

/// Answers a WebSocket request.
pub(super) async fn open(
    dashboard: Arc<Dashboard>,
    mut request: Request<Incoming>,
    session: Session,
) -> Response<Body> {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    if !is_own(headers) || origin.is_none() || origin != dashboard.origin(&session.label).as_deref()
    {
        return pages::plain(
            StatusCode::FORBIDDEN,
            "the terminal was not asked for by the dashboard",
        );
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let (sandbox, exec) = (query_value(&query, "sandbox"), query_value(&query, "exec"));
    let (Some(sandbox), Some(exec)) = (sandbox, exec) else {
        return pages::plain(StatusCode::BAD_REQUEST, "the address names no terminal");
    };
    let Ok(seat) = dashboard.terminals.seats.clone().try_acquire_owned() else {
        return pages::plain(StatusCode::SERVICE_UNAVAILABLE, "too many terminals are open");
    };
    let Some((answer, upgrade)) = websocket::accept(&mut request) else {
        return pages::plain(StatusCode::BAD_REQUEST, "this address is for a WebSocket");
    };
    let handle = dashboard.handle.clone();
    handle.spawn(async move {
        let _seat = seat;
        let Ok(stream) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE))
            .max_frame_size(Some(MESSAGE))
            .max_write_buffer_size(1 << 20);
        let stream = TokioIo::new(stream);
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let at = (sandbox, exec);
        if let Err(failure) = converse(&dashboard, &mut socket, &at, &session).await {
            let said = Said::Ended(failure.message);
            socket.send(said.message()).await.ok();
        }
        socket.close(None).await.ok();
    });
    answer
}

/// Authenticates the page, and shows the terminal until either side ends.
async fn converse(
    dashboard: &Arc<Dashboard>,
    socket: &mut Socket,
    at: &(String, String),
    session: &Session,
) -> Result<(), Failure> {
    let first = tokio::time::timeout(PATIENCE, socket.next()).await;
    let word = match first {
        Ok(Some(Ok(Message::Text(text)))) => Word::read(&text),
        _ => None,
    };
    if !matches!(word, Some(Word::Hello { token }) if keys::same(&token, &session.token)) {
        let message = "the terminal belongs to another session; reload the page";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let daemon = &dashboard.daemon;
    let (known, id) = (daemon.clone(), at.0.clone());
    let found = blocking(move || Ok(records::sandbox(&known, &id))).await;
    let sandbox = found.ok().flatten();
    let gone = || Failure::new(FailureKind::NotFound, "the sandbox is gone");
    let sandbox = sandbox.ok_or_else(gone)?;
    let room = room_of(daemon, &sandbox).await?;
    let exec = ExecId(at.1.clone());
    let attached = room.attach(exec.clone()).await;
    let attached = attached.map_err(|_| {
        Failure::new(FailureKind::NotFound, "this terminal has ended, or was never there")
    })?;
    let Attached::Terminal { input, output } = attached else {
        return Err(Failure::new(FailureKind::Usage, "this command has no terminal"));
    };
    dashboard.terminals.come(at);
    let activity = daemon.keepers.activities.of(sandbox.key);
    let size = room.size(exec.clone()).await.ok().flatten();
    let talk = Talk::new(room.clone(), exec, &activity, input, output, size);
    let done = match talk {
        Ok(talk) => talk.run(socket).await,
        Err(error) => Err(Failure::of(FailureKind::Internal, &error)),
    };
    dashboard.terminals.leave(at);
    if shell::is_own(&at.1) {
        forget_later(dashboard.clone(), room, at.clone());
    }
    done
}

/// Ends a page's shell that no page has shown for a while.
fn forget_later(dashboard: Arc<Dashboard>, room: Arc<dyn RoomConnection>, at: (String, String)) {
    tokio::spawn(async move {
        tokio::time::sleep(UNSEEN).await;
        if !dashboard.terminals.is_seen(&at) {
            room.signal(ExecId(at.1), HANGUP).await.ok();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_seen_until_the_last_page_leaves() {
        let terminals = Terminals::default();
        let at = ("a".to_owned(), "page-1".to_owned());
        terminals.come(&at);
        terminals.come(&at);
        terminals.leave(&at);
        assert!(terminals.is_seen(&at));
        terminals.leave(&at);
        terminals.leave(&at);
        assert!(!terminals.is_seen(&at));
    }
}
