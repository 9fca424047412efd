//! URLs: the router and the direct ports, kept in step with what is up.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hothouse_engine::{App, Engine};
use hothouse_host::{Clock, clock::HostClock, files};
use hothouse_ingress::{
    Rooms, Route, RouteTable, Sendable, Server, ServerSpec, Target, authority,
    direct::DirectPort,
    pages,
    proxy::{Body, OwnPages},
    server::Ports,
};
use hothouse_model::{SandboxRecord, id::SandboxKey};
use hyper::{Request, Response, StatusCode, body::Incoming};
use tokio::net::TcpStream;

use crate::exec::Clients;

/// The file that remembers the ports of URLs.
const PORTS_FILE: &str = "url-ports";

/// The router and the direct ports. Without a port to serve on there are no URLs, and that is said.
pub(crate) struct Ingress {
    engine: Arc<Engine>,
    rooms: Arc<dyn Rooms>,
    server: Option<Server>,
    /// Why there is no router.
    problem: Option<String>,
    direct: tokio::sync::Mutex<HashMap<(SandboxKey, String), DirectPort>>,
    /// Direct ports that could not be opened, and why.
    conflicts: Mutex<HashMap<(SandboxKey, String), String>>,
    /// How often a refresh was asked for, and the last asking that one has answered.
    asked: AtomicU64,
    answered: tokio::sync::Mutex<u64>,
}

impl Ingress {
    /// Opens the ports, those of the last time if they are free.
    pub(crate) async fn start(
        engine: Arc<Engine>,
        clients: Arc<Clients>,
        state: PathBuf,
    ) -> Arc<Self> {
        let rooms: Arc<dyn Rooms> = Arc::new(DaemonRooms { clients, engine: engine.clone() });
        let (server, problem) = match start_server(&state, rooms.clone()).await {
            Ok(server) => (Some(server), None),
            Err(problem) => {
                tracing::error!(problem, "there are no URLs");
                (None, Some(problem))
            }
        };
        let ingress = Self {
            engine,
            rooms,
            server,
            problem,
            direct: tokio::sync::Mutex::default(),
            conflicts: Mutex::default(),
            asked: AtomicU64::new(0),
            answered: tokio::sync::Mutex::default(),
        };
        Arc::new(ingress)
    }

    /// Returns the port of `https` URLs.
    pub(crate) fn port(&self) -> Option<u16> {
        self.server.as_ref().map(|server| server.port)
    }

    /// Says why there is no router.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the direct ports of a sandbox that could not be opened.
    pub(crate) fn conflicts(&self, sandbox: SandboxKey) -> Vec<String> {
        let all = self.conflicts.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|((key, _), _)| *key == sandbox).map(|(_, why)| why.clone()).collect()
    }

    /// Brings routes and direct ports in step with what is up. Many who ask at once share one look.
    pub(crate) async fn refresh(&self) {
        let wanted = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut answered = self.answered.lock().await;
        if *answered < wanted {
            let covered = self.asked.load(Ordering::SeqCst);
            self.look_again().await;
            *answered = covered;
        }
    }

    async fn look_again(&self) {
        let engine = self.engine.clone();
        let known = tokio::task::spawn_blocking(move || {
            let sandboxes = engine.sandboxes()?;
            let with_apps = sandboxes.into_iter().map(|sandbox| {
                let apps = engine.apps(&sandbox)?;
                Ok((sandbox, apps))
            });
            with_apps.collect::<Result<Vec<_>, hothouse_model::Failure>>()
        });
        let known = match known.await {
            Ok(Ok(known)) => known,
            Ok(Err(failure)) => {
                tracing::warn!(?failure, "the routes are not brought up to date");
                return;
            }
            Err(_) => return,
        };
        let routes = known.iter().flat_map(|(sandbox, apps)| {
            apps.iter().map(|app| route(sandbox, app)).collect::<Vec<_>>()
        });
        if let Some(server) = &self.server {
            server.set_routes(RouteTable::new(routes));
        }
        self.open_direct(&known).await;
    }

    async fn open_direct(&self, known: &[(SandboxRecord, Vec<App>)]) {
        let mut open = self.direct.lock().await;
        let mut wanted = HashMap::new();
        for (sandbox, apps) in known {
            for app in apps {
                wanted.insert((sandbox.key, app.app.clone()), (app.direct, target(app)));
            }
        }
        open.retain(|key, direct| {
            wanted.get(key).is_some_and(|(port, to)| *port == direct.port && *to == direct.target)
        });
        let mut conflicts = HashMap::new();
        for (key, (port, to)) in wanted {
            if open.contains_key(&key) {
                continue;
            }
            match DirectPort::open(port, to, self.rooms.clone()).await {
                Ok(direct) => {
                    open.insert(key, direct);
                }
                Err(error) => {
                    conflicts.insert(key, conflict(port, &error));
                }
            }
        }
        *self.conflicts.lock().unwrap_or_else(PoisonError::into_inner) = conflicts;
    }
}

fn conflict(port: u16, error: &io::Error) -> String {
    match hothouse_host::process::listener_of(port) {
        Some(pid) => format!("port {port} is held by process {pid}, so there is no direct URL"),
        None => format!("port {port} cannot be opened ({error}), so there is no direct URL"),
    }
}

fn route(sandbox: &SandboxRecord, app: &App) -> Route {
    Route {
        id: sandbox.id.to_string(),
        sandbox: sandbox.name.to_string(),
        project: sandbox.label.clone(),
        app: app.app.clone(),
        service: app.service.clone(),
        target: Some(target(app)),
    }
}

fn target(app: &App) -> Target {
    Target { runtime: app.runtime.clone(), port: app.port }
}

async fn start_server(state: &std::path::Path, rooms: Arc<dyn Rooms>) -> Result<Server, String> {
    let told = |error: &dyn std::error::Error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let authority =
        authority::open(&state.join("ca"), HostClock.now()).map_err(|error| told(&error))?;
    let file = state.join(PORTS_FILE);
    let (tls, plain) = remembered(&files::read_text(&file).unwrap_or_default());
    let spec = ServerSpec {
        ports: Ports::usual().preferring(tls, plain),
        authority: Arc::new(authority),
        rooms,
        own: Arc::new(NoPages),
    };
    let server = Server::start(spec).await.map_err(|error| told(&error))?;
    let text = format!("{} {}\n", server.port, server.plain_port);
    if let Err(error) = files::replace(&file, text.as_bytes(), 0o600) {
        tracing::warn!(%error, "the ports of URLs are not remembered");
    }
    Ok(server)
}

/// Reads the ports that were used the last time.
fn remembered(text: &str) -> (Option<u16>, Option<u16>) {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

/// Hothouse's own host, which has no pages yet.
struct NoPages;

impl OwnPages for NoPages {
    fn answer(&self, _request: Request<Incoming>) -> Sendable<'static, Response<Body>> {
        Box::pin(async {
            pages::plain(StatusCode::NOT_FOUND, "Hothouse has no page here; see `hothouse list`")
        })
    }
}

/// The rooms as the daemon reaches them.
struct DaemonRooms {
    clients: Arc<Clients>,
    engine: Arc<Engine>,
}

impl Rooms for DaemonRooms {
    fn dial<'a>(&'a self, target: &'a Target) -> Sendable<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let client = self.clients.of(&target.runtime).await.map_err(io::Error::other)?;
            let socket = client.connect_inside(target.port).await.map_err(io::Error::other)?;
            let stream = std::net::TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        })
    }

    fn explain<'a>(&'a self, route: &'a Route) -> Sendable<'a, String> {
        let (engine, id, service) = (self.engine.clone(), route.id.clone(), route.service.clone());
        Box::pin(async move {
            let told = tokio::task::spawn_blocking(move || {
                let all = engine.sandboxes().ok()?;
                let sandbox = all.into_iter().find(|sandbox| sandbox.id.as_str() == id)?;
                Some(engine.last_lines(&sandbox, &service).join("\n"))
            });
            told.await.ok().flatten().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_remembered_as_far_as_they_can_be_read() {
        assert_eq!(remembered("8443 8080\n"), (Some(8443), Some(8080)));
        assert_eq!(remembered("nonsense 80"), (None, Some(80)));
        assert_eq!(remembered(""), (None, None));
    }
}
