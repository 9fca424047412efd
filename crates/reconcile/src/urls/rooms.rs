//! Access of the router to rooms.

use std::io;

use hothouse_ingress::{RoomPort, Rooms, Route, Sendable, Told, sign_in::SignIn};
use tokio::{net::TcpStream, runtime::Handle};

use crate::{Keepers, sleep, timelines::unreported::suspect};

/// The maximum length of the description of a failed request.
const LINE: usize = 200;

/// The rooms of the daemon.
pub(super) struct DaemonRooms {
    keepers: Keepers,
    /// The daemon's own runtime: work started by a request must not end with it.
    handle: Handle,
}

impl DaemonRooms {
    /// Must be called on the daemon's runtime.
    pub(super) fn new(keepers: Keepers) -> Self {
        Self { keepers, handle: Handle::current() }
    }
}

impl Rooms for DaemonRooms {
    fn dial<'a>(&'a self, target: &'a RoomPort) -> Sendable<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let room =
                self.keepers.connections.of(&target.runtime).await.map_err(io::Error::other)?;
            let stream = room.dial(target.port).await.map_err(io::Error::other)?;
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        })
    }

    fn wake<'a>(&'a self, id: &'a str, app: &'a str) -> Sendable<'a, Result<RoomPort, String>> {
        let (keepers, id, app) = (self.keepers.clone(), id.to_owned(), app.to_owned());
        let woken = self.handle.spawn(async move { sleep::wake_for(&keepers, &id, &app).await });
        Box::pin(async move {
            match woken.await {
                Ok(Ok(target)) => Ok(target),
                Ok(Err(failure)) => Err(failure.message),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn explain<'a>(&'a self, route: &'a Route) -> Sendable<'a, Told> {
        let engine = self.keepers.engine.clone();
        let (id, service) = (route.id.clone(), route.service.clone());
        Box::pin(async move {
            let told = tokio::task::spawn_blocking(move || {
                let all = engine.sandboxes().ok()?;
                let sandbox = all.into_iter().find(|sandbox| sandbox.id.as_str() == id)?;
                let report = engine.services(&sandbox).unwrap_or_default();
                let stands = report.statuses().find(|known| known.name == service);
                let starts =
                    stands.is_some_and(|service| service.state.is_beginning() && !service.stuck);
                Some(Told { lines: engine.last_lines(&sandbox, &service).join("\n"), starts })
            });
            told.await.ok().flatten().unwrap_or_default()
        })
    }

    fn failed(&self, route: &Route, request: &str, status: u16) {
        let (keepers, id) = (self.keepers.clone(), route.id.clone());
        let request: String = request.chars().take(LINE).collect();
        let what = format!("`{}` answered {request} with {status}", route.app);
        let timelines = keepers.timelines.clone();
        timelines.suspicions.start_on(&self.handle, async move {
            let engine = keepers.engine.clone();
            let find = move || {
                let all = engine.sandboxes().ok()?;
                all.into_iter().find(|sandbox| sandbox.id.as_str() == id)
            };
            if let Ok(Some(sandbox)) = tokio::task::spawn_blocking(find).await {
                suspect(&keepers.engine, &keepers.timelines, &sandbox, what);
            }
        });
    }

    fn sign_in(&self, id: &str, app: &str, key: &str, uses: bool) -> Option<SignIn> {
        self.keepers.browsers.use_link(id, app, key, uses)
    }
}
