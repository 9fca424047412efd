//! Ports inside rooms that lead to the daemon: the router, so that routed URLs work in a room too,
//! and services of the host that the pinned config names.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};

use hothouse_backend::{CallError, RoomConnection};
use hothouse_host::shares::RoomShare;
use hothouse_ingress::Server;
use hothouse_model::{caveat::Caveat, id::SandboxKey};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

use super::Known;
use crate::{Keepers, sinks::local::LocalSink};

/// How many connections one port of a room may have: they use the daemon's descriptors.
const CONNECTIONS: usize = 256;

/// The cost of a connection: a socket on either side.
const COST: u64 = 2;

/// How often to check whether a room has ended.
const LOOK: Duration = Duration::from_millis(500);

/// A room belongs to one run of a sandbox: a new one has its own network.
type InsideKey = (SandboxKey, String, u16);

/// The open ports inside rooms.
#[derive(Default)]
pub(super) struct Inside {
    open: HashMap<InsideKey, OpenPort>,
    /// Ports that a room refused to open, with the reason, so that they are not retried.
    refused: HashMap<InsideKey, Caveat>,
}

struct OpenPort(JoinHandle<()>);

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The destination of a port inside.
#[derive(Clone)]
enum Way {
    /// To the router, as the sandbox of this id.
    Router { server: Arc<Server>, id: String },
    /// To the same port of the host's loopback.
    Host { service: String },
    /// To a sink for mail, errors or traces.
    Sink { service: String, local: LocalSink },
}

impl Inside {
    /// Opens the wanted ports and closes the others; returns those that could not be opened.
    pub(super) async fn open(
        &mut self,
        known: &[Known],
        keepers: &Keepers,
        server: Option<&Arc<Server>>,
    ) -> Vec<(SandboxKey, Caveat)> {
        let mut wanted = HashSet::new();
        for known in known.iter().filter(|known| known.lives) {
            let Some(room) = &known.sandbox.room else { continue };
            for (port, way) in ways(known, keepers, server) {
                let key = (known.sandbox.key, room.run.id.clone(), port);
                wanted.insert(key.clone());
                if self.is_settled(&key) {
                    continue;
                }
                match open_one(known, keepers, (port, way)).await {
                    Ok(task) => {
                        self.open.insert(key, OpenPort(task));
                    }
                    Err(Some(why)) => {
                        self.refused.insert(key, why);
                    }
                    // A room that does not answer is retried later.
                    Err(None) => {}
                }
            }
        }
        self.open.retain(|key, _| wanted.contains(key));
        self.refused.retain(|key, _| wanted.contains(key));
        self.refused.iter().map(|((key, ..), why)| (*key, why.clone())).collect()
    }

    /// Whether a port is open, or was refused permanently. A listener that ended is opened again: a
    /// replaced room keeps its run.
    fn is_settled(&self, key: &InsideKey) -> bool {
        let open = self.open.get(key).is_some_and(|port| !port.0.is_finished());
        open || self.refused.contains_key(key)
    }
}

/// Lists the ports that a room needs, except those that its own services listen on.
fn ways(known: &Known, keepers: &Keepers, server: Option<&Arc<Server>>) -> Vec<(u16, Way)> {
    let id = known.sandbox.id.to_string();
    let router = server.map(|server| (server.port, Way::Router { server: server.clone(), id }));
    // A room without an app does not need it.
    let router = router.filter(|(port, _)| known.has_apps() && !known.taken.contains(port));
    let hosted = known
        .hosted
        .iter()
        .map(|hosted| (hosted.port, Way::Host { service: hosted.service.clone() }));
    let walls = keepers.walls.get();
    let sinks = walls.iter().flat_map(|walls| {
        known.sinks.iter().map(|sink| {
            let local = walls.local_sink(&known.sandbox, &known.runtime, sink.takes);
            (sink.port, Way::Sink { service: sink.service.clone(), local })
        })
    });
    router.into_iter().chain(hosted).chain(sinks).collect()
}

async fn open_one(
    known: &Known,
    keepers: &Keepers,
    (port, way): (u16, Way),
) -> Result<JoinHandle<()>, Option<Caveat>> {
    let room = keepers.connections.of(&known.runtime).await.map_err(|_| None)?;
    let listening = room.listen((Ipv4Addr::LOCALHOST, port).into()).await;
    let socket = listening.map_err(|error| match (&error, &way) {
        (CallError::Refused(refusal), Way::Host { service } | Way::Sink { service, .. }) => {
            let (service, problem) = (service.clone(), refusal.message.clone());
            Some(Caveat::NotInRoom { service, problem })
        }
        (CallError::Refused(refusal), Way::Router { .. }) => {
            Some(Caveat::NoUrlsInside { problem: refusal.message.clone() })
        }
        _ => None,
    })?;
    let mut listeners = vec![listener(socket).map_err(|_| None)?];
    // Some clients try `::1` first; a room may not have it.
    if let Ok(socket) = room.listen((Ipv6Addr::LOCALHOST, port).into()).await {
        listeners.extend(listener(socket));
    }
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let share = keepers.shares.of(known.sandbox.id.as_str());
    let mut serving = JoinSet::new();
    for listener in listeners {
        serving.spawn(serve(listener, (port, way.clone()), places.clone(), share.clone()));
    }
    let task = tokio::spawn(async move {
        // The sockets would keep the network of an ended room alive, so they are closed with it.
        tokio::select! {
            _ = serving.join_next() => {}
            () = gone(&*room) => {}
        }
    });
    Ok(task)
}

/// Returns when a room has closed its connection.
async fn gone(room: &dyn RoomConnection) {
    while !room.is_closed() {
        tokio::time::sleep(LOOK).await;
    }
}

fn listener(socket: StdListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

async fn serve(
    listener: TcpListener,
    (port, way): (u16, Way),
    places: Arc<Semaphore>,
    share: RoomShare,
) {
    // Sessions with a sink end with the port; others are left alone.
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { return };
        let place = places.clone().try_acquire_owned().ok();
        if place.is_none() {
            share.refuse();
        }
        let Some(permit) = place.and_then(|place| Some((place, share.take(COST)?))) else {
            // A connection that exceeds the limit is reset immediately, without delaying others.
            stream.set_zero_linger().ok();
            continue;
        };
        match &way {
            Way::Router { server, id } => {
                if let Ok(stream) = stream.into_std() {
                    server.serve_room(stream, id.clone(), permit);
                }
            }
            Way::Host { .. } => {
                tokio::spawn(pass(stream, port, permit));
            }
            Way::Sink { local, .. } => {
                serving.spawn(local.clone().serve(stream, permit));
            }
        }
    }
}

/// Relays bytes between a room and a service of the host.
async fn pass(mut inside: TcpStream, port: u16, _permit: impl Send) {
    let host = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpStream::connect(host).await {
        Ok(mut outside) => {
            inside.set_nodelay(true).ok();
            outside.set_nodelay(true).ok();
            tokio::io::copy_bidirectional(&mut inside, &mut outside).await.ok();
        }
        // A reset, as from a port without a listener.
        Err(_) => inside.set_zero_linger().unwrap_or_default(),
    }
}
