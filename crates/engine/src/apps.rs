//! Apps: the services of a sandbox that have a URL, and where that is.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
};

use hothouse_model::{Explain, Failure, FailureKind, SandboxRecord};
use hothouse_store::{PortReservation, StoreError};

use crate::Engine;

/// The ports that apps are given directly.
const DIRECT_PORTS: std::ops::Range<u16> = 43_100..45_100;

/// An app of a sandbox that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Its label in URLs.
    pub app: String,
    pub service: String,
    /// Its port in the room.
    pub port: u16,
    /// Its port on the host.
    pub direct: u16,
    /// Where the room is reached.
    pub runtime: PathBuf,
}

/// An app without a port of the host.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("no port between {} and {} is free", DIRECT_PORTS.start, DIRECT_PORTS.end)]
    Exhausted,
    #[error("port {port} is reserved for nobody")]
    Unknown { port: u16 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Explain for PortError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Exhausted => FailureKind::Host,
            Self::Unknown { .. } => FailureKind::NotFound,
            Self::Store(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Exhausted => {
                vec!["`hothouse ports release` gives back those that nobody uses".into()]
            }
            Self::Unknown { .. } => vec!["`hothouse ports` lists them".into()],
            Self::Store(error) => error.hints(),
        }
    }
}

impl Engine {
    /// Returns the apps of a sandbox that is up.
    pub fn apps(&self, sandbox: &SandboxRecord) -> Result<Vec<App>, Failure> {
        let runtime = self.places(sandbox).runtime;
        let Some(stack) = self.with.rooms.stack(&runtime) else { return Ok(Vec::new()) };
        if self.room_of(sandbox).is_none() {
            return Ok(Vec::new());
        }
        let mut apps = Vec::new();
        for service in stack.services {
            let (Some(app), Some(port)) = (service.app, service.port) else { continue };
            let direct = self.direct_port(sandbox, &app).map_err(|error| error.failure())?;
            apps.push(App { app, service: service.name, port, direct, runtime: runtime.clone() });
        }
        Ok(apps)
    }

    /// Returns the port of the host that an app has, reserving one the first time.
    fn direct_port(&self, sandbox: &SandboxRecord, app: &str) -> Result<u16, PortError> {
        let store = &self.with.store;
        if let Some(port) = store.reserved_port(sandbox.key, app)? {
            return Ok(port);
        }
        let taken: Vec<_> =
            store.port_reservations()?.into_iter().map(|reserved| reserved.port).collect();
        for port in DIRECT_PORTS.filter(|port| !taken.contains(port) && is_free(*port)) {
            store.reserve_port(sandbox.key, app, port, self.with.clock.now())?;
            // Somebody may have been quicker, with this port or for this app.
            if let Some(port) = store.reserved_port(sandbox.key, app)? {
                return Ok(port);
            }
        }
        Err(PortError::Exhausted)
    }

    /// Returns the ports that are kept for apps.
    pub fn port_reservations(&self) -> Result<Vec<PortReservation>, Failure> {
        self.with.store.port_reservations().map_err(|error| error.failure())
    }

    /// Gives a port back, or all whose sandboxes are gone.
    pub fn release_ports(&self, port: Option<u16>) -> Result<Vec<PortReservation>, Failure> {
        let release = || -> Result<Vec<PortReservation>, PortError> {
            let all = self.with.store.port_reservations()?;
            let known = self.with.store.sandboxes()?;
            let lives = |reserved: &PortReservation| {
                known.iter().any(|sandbox| {
                    sandbox.project.as_str() == reserved.project
                        && sandbox.name.as_str() == reserved.sandbox
                })
            };
            let going: Vec<_> = match port {
                Some(port) => all.into_iter().filter(|reserved| reserved.port == port).collect(),
                None => all.into_iter().filter(|reserved| !lives(reserved)).collect(),
            };
            if let (Some(port), true) = (port, going.is_empty()) {
                return Err(PortError::Unknown { port });
            }
            for reserved in &going {
                self.with.store.release_port(reserved.port)?;
            }
            Ok(going)
        };
        release().map_err(|error| error.failure())
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok()
}
