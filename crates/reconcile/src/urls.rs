//! URLs: the router, the direct ports and the ports inside rooms, kept up to date with what is running.

mod inside;
mod known;
mod rooms;

use std::{
    collections::{HashMap, HashSet},
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hothouse_host::{Clock, Program, clock::HostClock, files};
use hothouse_ingress::{
    Rooms, RouteTable, Server, ServerSpec, ca,
    direct::{DirectPort, Leads},
    proxy::OwnPages,
    server::Ports,
};
use hothouse_model::{
    Event, Explain, Happening, PlanKind, SandboxRecord, caveat::Caveat, id::SandboxKey,
};
use tokio::sync::broadcast::error::RecvError;

use self::{
    inside::Inside,
    known::{Known, know, look},
    rooms::DaemonRooms,
};
use crate::{Keepers, Stop};

/// How often the router checks whether a room has ended.
const CHECK: Duration = Duration::from_secs(2);

/// The file with the ports of URLs.
const PORTS_FILE: &str = "url-ports";

/// The folder of the CA in the state folder.
pub const CA_FOLDER: &str = "ca";

/// A direct port belongs to an app, or to an exposed port, of one sandbox.
type DirectKey = (SandboxKey, String);

/// The router and the direct ports. If no port is available there are no URLs, which is reported.
pub struct Urls {
    keepers: Keepers,
    rooms: Arc<dyn Rooms>,
    server: Option<Arc<Server>>,
    /// Why there is no router.
    problem: Option<String>,
    direct: tokio::sync::Mutex<HashMap<DirectKey, DirectPort>>,
    inside: tokio::sync::Mutex<Inside>,
    /// Whether this host resolves names below `.localhost` to the loopback, once known.
    resolves: Arc<OnceLock<bool>>,
    /// Ports that could not be opened, and why.
    conflicts: Mutex<HashMap<SandboxKey, Vec<Caveat>>>,
    /// How often a refresh of all sandboxes was requested.
    asked: AtomicU64,
    seen: tokio::sync::Mutex<Seen>,
}

/// The result of the last refresh.
#[derive(Default)]
struct Seen {
    /// The last request that it covers.
    answered: u64,
    known: Vec<Known>,
}

impl Urls {
    /// Opens the ports, reusing the last ones if they are free. `own` answers for Hothouse itself.
    /// Must be called on the daemon's runtime.
    pub fn open(keepers: &Keepers, own: Arc<dyn OwnPages>) -> Arc<Self> {
        let rooms: Arc<dyn Rooms> = Arc::new(DaemonRooms::new(keepers.clone()));
        let (server, problem) = match start_server(keepers, rooms.clone(), own) {
            Ok(server) => (Some(Arc::new(server)), None),
            Err(problem) => {
                tracing::error!(problem, "there are no URLs");
                (None, Some(problem))
            }
        };
        if let Some(server) = &server {
            let file = keepers.state.join(CA_FOLDER).join(ca::CERTIFICATE_FILE);
            keepers.engine.set_router(server.port, files::read_text(&file).unwrap_or_default());
        }
        let resolves = Arc::new(OnceLock::new());
        tokio::task::spawn_blocking({
            let resolves = resolves.clone();
            move || resolves.set(resolver_knows())
        });
        Arc::new(Self {
            keepers: keepers.clone(),
            rooms,
            server,
            problem,
            direct: tokio::sync::Mutex::default(),
            inside: tokio::sync::Mutex::default(),
            resolves,
            conflicts: Mutex::default(),
            asked: AtomicU64::new(0),
            seen: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the port of `https` URLs.
    pub fn port(&self) -> Option<u16> {
        self.server.as_ref().map(|server| server.port)
    }

    /// Returns why there is no router.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether programs of this host can resolve routed names, as far as known.
    pub fn resolves(&self) -> bool {
        self.resolves.get().copied().unwrap_or(true)
    }

    /// Returns the ports of a sandbox that could not be opened.
    pub fn conflicts(&self, sandbox: SandboxKey) -> Vec<Caveat> {
        let all = self.conflicts.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&sandbox).cloned().unwrap_or_default()
    }

    /// Updates routes and ports to what is running. Concurrent callers share one refresh.
    pub async fn refresh(&self) {
        let wanted = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut seen = self.seen.lock().await;
        if seen.answered >= wanted {
            return;
        }
        let covered = self.asked.load(Ordering::SeqCst);
        let (engine, activities) = (self.keepers.engine.clone(), self.keepers.activities.clone());
        match tokio::task::spawn_blocking(move || look(&engine, &activities)).await {
            Ok(Ok(known)) => {
                let is_known = |key| known.iter().any(|known| known.sandbox.key == key);
                self.keepers.activities.keep(is_known);
                seen.known = known;
                self.lead_to(&seen.known).await;
            }
            Ok(Err(failure)) => tracing::warn!(?failure, "the routes are not brought up to date"),
            Err(_) => {}
        }
        seen.answered = covered;
    }

    /// Updates routes and ports after a change of one sandbox.
    pub async fn refresh_one(&self, sandbox: &SandboxRecord) {
        let mut seen = self.seen.lock().await;
        let (keepers, key) = (self.keepers.clone(), sandbox.key);
        let known = tokio::task::spawn_blocking(move || {
            let now = keepers.engine.sandbox(key)?;
            now.map(|now| know(&keepers.engine, &keepers.activities, now)).transpose()
        });
        let known = match known.await {
            Ok(Ok(known)) => known,
            Ok(Err(failure)) => {
                tracing::warn!(?failure, "the routes are not brought up to date");
                return;
            }
            Err(_) => return,
        };
        let before = seen.known.iter().position(|known| known.sandbox.key == key);
        let before = before.map(|at| seen.known.swap_remove(at));
        let matters = before.iter().chain(&known).any(Known::leads_anywhere);
        seen.known.extend(known);
        if matters {
            self.lead_to(&seen.known).await;
        }
    }

    async fn lead_to(&self, known: &[Known]) {
        if let Some(server) = &self.server {
            let routes = RouteTable::new(known.iter().flat_map(Known::routes));
            server.set_routes(routes.with_stopped(known.iter().filter_map(Known::stopped)));
        }
        let mut conflicts = self.open_direct(known).await;
        let mut inside = self.inside.lock().await;
        for (key, why) in inside.open(known, &self.keepers, self.server.as_ref()).await {
            conflicts.entry(key).or_default().push(why);
        }
        *self.conflicts.lock().unwrap_or_else(PoisonError::into_inner) = conflicts;
    }

    async fn open_direct(&self, known: &[Known]) -> HashMap<SandboxKey, Vec<Caveat>> {
        let mut open = self.direct.lock().await;
        let mut wanted: HashMap<DirectKey, (u16, Leads)> = HashMap::new();
        for known in known {
            for (port, leads) in known.direct() {
                wanted.insert((known.sandbox.key, leads.app.clone()), (port, leads));
            }
        }
        open.retain(|key, direct| wanted.get(key).is_some_and(|(port, _)| *port == direct.port));
        let mut conflicts: HashMap<_, Vec<_>> = HashMap::new();
        for (key, (port, to)) in wanted {
            if let Some(direct) = open.get(&key) {
                direct.lead(to);
                continue;
            }
            self.keepers.engine.let_go(port);
            match DirectPort::open(port, to, self.rooms.clone(), self.keepers.shares.clone()).await
            {
                Ok(direct) => {
                    open.insert(key, direct);
                }
                Err(error) => conflicts.entry(key.0).or_default().push(conflict(port, &error)),
            }
        }
        self.keepers.engine.let_go_of_old();
        conflicts
    }
}

/// Queries this host's resolver for a name below `.localhost`.
fn resolver_knows() -> bool {
    // With a program, because a statically linked binary cannot load the host's resolvers.
    let asked = Program::new("getent").args(["ahosts", "resolver.hothouse.localhost"]).output();
    let answer = asked.unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer);
    let addresses = answer.split_whitespace().filter_map(|word| word.parse::<IpAddr>().ok());
    addresses.take(1).any(|address| address.is_loopback())
}

fn conflict(port: u16, error: &io::Error) -> Caveat {
    match hothouse_host::process::listener_of(port) {
        Some(pid) => Caveat::PortHeld { port, pid },
        None => Caveat::PortClosed { port, problem: error.to_string() },
    }
}

/// Updates URLs for rooms that started or ended by themselves.
pub(crate) async fn watch(keepers: Keepers, mut stop: Stop) {
    while stop.pause(CHECK).await {
        keepers.refresh_urls().await;
    }
}

/// Updates URLs after each step of a start: a starting service may need one.
pub(crate) async fn watch_steps(keepers: Keepers, mut stop: Stop) {
    let mut event_rx = keepers.event_tx.subscribe();
    let mut starting = HashSet::new();
    loop {
        let received = tokio::select! {
            () = stop.told() => return,
            received = event_rx.recv() => received,
        };
        let Event { operation, what } = match received {
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        match what {
            // If only the room and its wall were started, the caller updates the URLs.
            Happening::PlanBegun { plan: PlanKind::Up, steps, .. } if steps > 2 => {
                starting.insert(operation);
            }
            Happening::StepDone { .. } if starting.contains(&operation) => {
                keepers.refresh_urls().await;
            }
            Happening::PlanDone | Happening::PlanUndone { .. } | Happening::PlanStuck { .. } => {
                starting.remove(&operation);
            }
            _ => {}
        }
    }
}

/// Whether a sandbox is asleep.
pub fn is_asleep(sandbox: &SandboxRecord) -> bool {
    sandbox.room.as_ref().is_some_and(|room| room.slept.is_some())
}

fn start_server(
    keepers: &Keepers,
    rooms: Arc<dyn Rooms>,
    own: Arc<dyn OwnPages>,
) -> Result<Server, String> {
    let state = &keepers.state;
    let told = |error: &dyn std::error::Error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let ca = ca::open(&state.join(CA_FOLDER), HostClock.now()).map_err(|error| {
        let hints = error.hints().join(", ");
        format!("{}; {hints}; then `hothouse daemon stop`", told(&error))
    })?;
    let file = state.join(PORTS_FILE);
    let (tls, plain) = remembered(&files::read_text(&file).unwrap_or_default());
    let spec = ServerSpec {
        ports: Ports::usual().preferring(tls, plain),
        ca: Arc::new(ca),
        rooms,
        own,
        shares: keepers.shares.clone(),
    };
    let server = Server::start(spec).map_err(|error| told(&error))?;
    let text = format!("{} {}\n", server.port, server.plain_port);
    if let Err(error) = files::replace(&file, text.as_bytes(), 0o600) {
        tracing::warn!(%error, "the ports of URLs are not remembered");
    }
    Ok(server)
}

/// Parses the ports that were used the last time.
fn remembered(text: &str) -> (Option<u16>, Option<u16>) {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
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
