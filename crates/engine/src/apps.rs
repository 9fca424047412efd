//! Apps: the services of a sandbox that have a URL, and their addresses.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_model::{Explain, Failure, FailureKind, SandboxRecord, id::fnv1a, stack::StackOrder};
use hothouse_store::{PortReservation, StoreError};

use crate::Engine;

/// The range of direct ports for apps.
const DIRECT_PORTS: std::ops::RangeInclusive<u16> = 43_100..=45_099;

/// Reserved ports, held open until the router opens them: another user's daemon may look for free
/// ports too.
pub(crate) type HeldPorts = Mutex<HashMap<u16, (TcpListener, Instant)>>;

/// How long a port is held for a starting room.
const LONGEST_HOLD: Duration = Duration::from_secs(120);

/// An app of a running sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Its label in URLs.
    pub app: String,
    pub service: String,
    /// Its port in the room.
    pub port: u16,
    /// Its port on the host.
    pub direct: u16,
    /// The runtime folder of the room.
    pub runtime: PathBuf,
}

/// An exposed port of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The port in the room.
    pub port: u16,
    /// The port on the host.
    pub host_port: u16,
    /// The runtime folder of the room.
    pub runtime: PathBuf,
}

impl App {
    /// Whether the port is reserved for an exposed port rather than for an app.
    pub(crate) fn is_exposed_port(kept: &str) -> bool {
        Exposed::port_of(kept).is_some()
    }
}

impl Exposed {
    /// Returns the name under which its port is reserved.
    pub fn name(&self) -> String {
        Self::kept_as(self.port)
    }

    /// Returns a key that no app can have: labels of apps contain no colon.
    fn kept_as(port: u16) -> String {
        format!(":{port}")
    }

    fn port_of(kept: &str) -> Option<u16> {
        kept.strip_prefix(':')?.parse().ok()
    }
}

/// The router, as rooms need it.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) port: u16,
    /// The certificate of the CA that signs for routed URLs.
    pub(crate) ca: String,
}

/// The external names of a sandbox's apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    pub(crate) sandbox: &'a str,
    /// The label of its project.
    pub(crate) project: &'a str,
    /// The port of the router.
    pub(crate) port: u16,
}

impl Names<'_> {
    /// Returns the URL of an app of this sandbox.
    pub(crate) fn of(&self, app: &str) -> String {
        let [own, _] = self.hosts(app);
        format!("https://{own}{}", self.shown_port())
    }

    /// Returns the shared URL of an app, for whichever sandbox is selected.
    pub(crate) fn shared(&self, app: &str) -> String {
        let [_, shared] = self.hosts(app);
        format!("https://{shared}{}", self.shown_port())
    }

    /// Returns the host names of an app: its own, and the shared one.
    pub(crate) fn hosts(&self, app: &str) -> [String; 2] {
        let Self { sandbox, project, .. } = self;
        [format!("{app}.{sandbox}.{project}.localhost"), format!("{app}.{project}.localhost")]
    }

    fn shown_port(&self) -> String {
        if self.port == 443 { String::new() } else { format!(":{}", self.port) }
    }
}

/// Failure to give an app a host port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("no port between {} and {} is free", DIRECT_PORTS.start(), DIRECT_PORTS.end())]
    Exhausted,
    #[error("port {port} is not reserved")]
    Unknown { port: u16 },
    #[error("port {port} of the host is reserved for `{holder}`")]
    Kept { port: u16, holder: String },
    #[error("port {port} of the host is in use by process {pid}")]
    Held { port: u16, pid: u32 },
    #[error("listen on port {port} of the host")]
    Closed {
        port: u16,
        #[source]
        source: io::Error,
    },
    #[error("port {port} of `{sandbox}` is already exposed as {host_port}")]
    Elsewhere { sandbox: String, port: u16, host_port: u16 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

hothouse_model::explain! {
    PortError passes on Store;
    kind {
        Self::Exhausted | Self::Closed { .. } => FailureKind::Host,
        Self::Kept { .. } | Self::Held { .. } | Self::Elsewhere { .. } => FailureKind::Conflict,
        Self::Unknown { .. } => FailureKind::NotFound,
    }
    hints {
        Self::Exhausted => {
            vec![
                "`hothouse ports` lists them; `hothouse delete NAME` frees those of a sandbox".into(),
                "`hothouse ports release PORT` releases a single one".into(),
            ]
        }
        Self::Unknown { .. } => vec!["`hothouse ports` lists them".into()],
        Self::Kept { port, .. } => {
            vec![format!("choose another, or run `hothouse ports release {port}`")]
        }
        Self::Held { .. } => {
            vec!["choose another with --host-port, or omit it to get a free one".into()]
        }
        Self::Closed { port: 0..1024, .. } => vec!["ports below 1024 need privileges".into()],
        Self::Closed { .. } => vec!["choose another with --host-port".into()],
        Self::Elsewhere { host_port, .. } => {
            vec![format!("run `hothouse ports release {host_port}` first")]
        }
    }
}

impl Engine {
    /// Records the router's port, once it is open, and the certificate of its CA, which rooms with
    /// apps trust.
    pub fn set_router(&self, port: u16, ca: String) {
        // The router is opened once per engine.
        self.router.set(Router { port, ca }).ok();
    }

    /// Returns the external names of a sandbox's apps, if there is a router.
    pub(crate) fn names<'a>(&self, sandbox: &'a SandboxRecord) -> Option<Names<'a>> {
        let port = self.router.get()?.port;
        Some(Names { sandbox: sandbox.name.as_str(), project: &sandbox.label, port })
    }

    /// Returns the apps of a running sandbox.
    pub fn apps(&self, sandbox: &SandboxRecord) -> Result<Vec<App>, Failure> {
        let runtime = self.places(sandbox).runtime;
        let Some(stack) = self.with.rooms.stack(&runtime) else { return Ok(Vec::new()) };
        if self.room_of(sandbox).is_none() {
            return Ok(Vec::new());
        }
        let mut apps = Vec::new();
        for service in stack.services {
            let (Some(app), Some(port)) = (service.app, service.port) else { continue };
            let direct = self.reserve(sandbox, &app).map_err(|error| error.failure())?;
            apps.push(App {
                app,
                service: service.spec.name,
                port,
                direct,
                runtime: runtime.clone(),
            });
        }
        Ok(apps)
    }

    /// Reserves a host port for every app of a stack that is about to start, or for none.
    pub(crate) fn reserve_for(
        &self,
        sandbox: &SandboxRecord,
        stack: &StackOrder,
    ) -> Result<(), PortError> {
        let store = &self.with.store;
        let mut new = Vec::new();
        for app in stack.services.iter().filter_map(|service| service.app.as_deref()) {
            let known = store.reserved_port(sandbox.key, app)?.is_some();
            match self.reserve(sandbox, app) {
                Ok(port) if !known => new.push(port),
                Ok(_) => {}
                Err(error) => {
                    for port in new {
                        self.let_go(port);
                        store.release_port(port)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the exposed ports of a room.
    pub fn exposed(&self, sandbox: &SandboxRecord) -> Result<Vec<Exposed>, Failure> {
        let kept = self.with.store.ports_of(sandbox.key).map_err(|error| error.failure())?;
        let runtime = self.places(sandbox).runtime;
        let exposed = kept.into_iter().filter_map(|(host_port, kept)| {
            let port = Exposed::port_of(&kept)?;
            Some(Exposed { port, host_port, runtime: runtime.clone() })
        });
        Ok(exposed.collect())
    }

    /// Forwards a host port to a port of a room, whenever the room is up.
    pub fn expose(
        &self,
        sandbox: &SandboxRecord,
        port: u16,
        host_port: Option<u16>,
    ) -> Result<Exposed, Failure> {
        let expose = || -> Result<Exposed, PortError> {
            let name = Exposed::kept_as(port);
            let known = self.with.store.reserved_port(sandbox.key, &name)?;
            let host_port = match (known, host_port) {
                (Some(known), Some(wanted)) if known != wanted => {
                    let sandbox = sandbox.name.to_string();
                    return Err(PortError::Elsewhere { sandbox, port, host_port: known });
                }
                (Some(known), _) => known,
                (None, None) => self.reserve(sandbox, &name)?,
                (None, Some(wanted)) => {
                    self.check_free(wanted)?;
                    let now = self.with.clock.now();
                    self.with.store.reserve_port(sandbox.key, &name, wanted, now)?;
                    wanted
                }
            };
            Ok(Exposed { port, host_port, runtime: self.places(sandbox).runtime })
        };
        expose().map_err(|error| error.failure())
    }

    /// Fails if a host port is reserved or in use.
    fn check_free(&self, port: u16) -> Result<(), PortError> {
        let kept = self.with.store.port_reservations()?;
        if let Some(kept) = kept.into_iter().find(|kept| kept.port == port && !kept.is_free) {
            let what = kept.app.trim_start_matches(':');
            let holder = format!("{}/{} {what}", kept.project, kept.sandbox);
            return Err(PortError::Kept { port, holder });
        }
        match bind(port) {
            Ok(_) => Ok(()),
            Err(source) => Err(match hothouse_host::process::listener_of(port) {
                Some(pid) => PortError::Held { port, pid },
                None => PortError::Closed { port, source },
            }),
        }
    }

    /// Returns the host port that is reserved under a name, reserving one on first use.
    fn reserve(&self, sandbox: &SandboxRecord, app: &str) -> Result<u16, PortError> {
        let store = &self.with.store;
        if let Some(port) = store.reserved_port(sandbox.key, app)? {
            return Ok(port);
        }
        // Ports of deleted sandboxes are used last: those may be restored.
        let mut known = store.port_reservations()?;
        known.sort_by_key(|reserved| reserved.reserved);
        let unknown = ports_for(&self.with.runs)
            .filter(|port| !known.iter().any(|reserved| reserved.port == *port));
        let is_left =
            |reserved: &&PortReservation| reserved.is_free && DIRECT_PORTS.contains(&reserved.port);
        let left = known.iter().filter(is_left).map(|reserved| reserved.port);
        for port in unknown.chain(left) {
            let Ok(listener) = bind(port) else { continue };
            store.reserve_port(sandbox.key, app, port, self.with.clock.now())?;
            // Another process may have been faster, with this port or for this app.
            if let Some(kept) = store.reserved_port(sandbox.key, app)? {
                if kept == port {
                    self.held_ports().insert(port, (listener, Instant::now()));
                }
                return Ok(kept);
            }
        }
        Err(PortError::Exhausted)
    }

    /// Releases a held port, so that it can be opened now.
    pub fn let_go(&self, port: u16) {
        self.held_ports().remove(&port);
    }

    /// Releases held ports of rooms that did not start.
    pub fn let_go_of_old(&self) {
        self.held_ports().retain(|_, (_, since)| since.elapsed() < LONGEST_HOLD);
    }

    fn held_ports(&self) -> MutexGuard<'_, HashMap<u16, (TcpListener, Instant)>> {
        self.held_ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reserved ports.
    pub fn port_reservations(&self) -> Result<Vec<PortReservation>, Failure> {
        self.with.store.port_reservations().map_err(|error| error.failure())
    }

    /// Releases a port, or all whose sandboxes are gone.
    pub fn release_ports(&self, port: Option<u16>) -> Result<Vec<PortReservation>, Failure> {
        let release = || -> Result<Vec<PortReservation>, PortError> {
            let all = self.with.store.port_reservations()?;
            let going: Vec<_> = match port {
                Some(port) => all.into_iter().filter(|reserved| reserved.port == port).collect(),
                None => all.into_iter().filter(|reserved| reserved.is_free).collect(),
            };
            if let (Some(port), true) = (port, going.is_empty()) {
                return Err(PortError::Unknown { port });
            }
            for reserved in &going {
                self.let_go(reserved.port);
                self.with.store.release_port(reserved.port)?;
            }
            Ok(going)
        };
        release().map_err(|error| error.failure())
    }
}

/// Returns all direct ports, in an order specific to this state folder: the ports of another user's
/// stopped sandboxes look free, and are better avoided.
fn ports_for(state: &Path) -> impl Iterator<Item = u16> {
    const SLICE: u16 = 100;
    let (start, end) = (*DIRECT_PORTS.start(), *DIRECT_PORTS.end());
    let slices = u64::from((end - start + 1) / SLICE);
    let slice = fnv1a(&[state.as_os_str().as_bytes()]) % slices;
    let first = start + SLICE * u16::try_from(slice).unwrap_or_default();
    (first..=end).chain(start..first)
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_the_range_is_tried_once_wherever_one_begins() {
        let mut firsts = std::collections::BTreeSet::new();
        for n in 0..50 {
            let mut ports: Vec<_> = ports_for(Path::new(&format!("/home/user{n}"))).collect();
            firsts.insert(ports[0]);
            ports.sort_unstable();
            assert!(ports.into_iter().eq(DIRECT_PORTS));
        }
        assert!(firsts.len() > 5, "users begin at different places: {firsts:?}");
    }
}
