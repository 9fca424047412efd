//! Forwards echo requests that a rule allows: sent from this host, answered under the target's
//! address.
//!
//! The kernel reports each request and drops it (`host::network::rules`), because it would answer
//! by itself: every address is local. The reply that this host receives is sent into the room by a
//! raw socket, and passes as the reply to the request that the kernel has seen.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hothouse_host::{ping, random};
use hothouse_model::policy::{Reason, Transport, Verdict};
use rustix::net::{SendFlags, send, sendto};
use tokio::{
    net::{UdpSocket, UnixDatagram},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};

use crate::{
    budget,
    datagram::{self, Facts},
    dropped::is_passing,
    entry::Entry,
    room::{DialError, RoomEdge},
    wire::echo::{self, Echo, Request},
};

/// How many pairs may ping at the same time in a room; others are not answered.
const ASKING: usize = 64;

/// How many requests of one pair may be queued.
const WAITING: usize = 32;

/// A pair ends after this time without a request or a reply.
const IDLE: Duration = Duration::from_secs(30);

/// Client, target and identifier.
type Pair = (IpAddr, IpAddr, u16);

/// Serves echo requests that the kernel reports; `raw` are the sockets for replies.
pub(crate) async fn serve(edge: Arc<RoomEdge>, told: UnixDatagram, raw: Vec<OwnedFd>) {
    let raw = Arc::new(raw);
    // here --request--> the task of a pair
    let mut request_txs: HashMap<Pair, mpsc::Sender<Echo>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        if told.readable().await.is_err() {
            return;
        }
        let mut buffer = vec![0; 32 << 10];
        let length = match told.try_recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if is_passing(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "a room's echo requests are no longer answered");
                return;
            }
        };
        for request in echo::read_all(&buffer[..length]) {
            // Addressed to the room itself, whose kernel answers.
            if request.target.to_canonical().is_loopback() {
                continue;
            }
            let pair = (request.client, request.target, request.echo.identifier);
            if let Some(request_tx) = request_txs.get(&pair).filter(|known| !known.is_closed()) {
                // A request beyond the limit is lost, as on a network.
                request_tx.try_send(request.echo).ok();
                continue;
            }
            request_txs.retain(|_, request_tx| !request_tx.is_closed());
            if request_txs.len() >= ASKING {
                edge.note_refused();
                continue;
            }
            let Some(permit) = edge.take(budget::SOCKET) else { continue };
            let (request_tx, request_rx) = mpsc::channel(WAITING);
            request_txs.insert(pair, request_tx);
            let (edge, raw) = (edge.clone(), raw.clone());
            tasks.spawn(async move {
                run(edge, raw, request, request_rx).await;
                drop(permit);
            });
        }
    }
}

/// Decides on a pair, then pings the host and replies until it ends.
async fn run(
    edge: Arc<RoomEdge>,
    raw: Arc<Vec<OwnedFd>>,
    request: Request,
    mut request_rx: mpsc::Receiver<Echo>,
) {
    let target = request.target.to_canonical();
    let mut facts = Facts::of(&edge, Transport::Icmp, target, None);
    let verdict = facts.settle(&edge).await;
    let source = Some(request.echo.identifier);
    let mut entry = Entry::of_datagrams(edge.clone(), source, Transport::Icmp, (target, None));
    entry.host = facts.name().map(ToString::to_string);
    let reached = match verdict.allowed {
        true => reach(&edge, &facts).await,
        false => Err(DialError::Denied(verdict.clone())),
    };
    let host = match reached {
        Ok(host) => host,
        Err(DialError::Denied(verdict)) => {
            if edge.is_news((Transport::Icmp, target, None)) {
                entry.denied(&verdict).await;
            }
            return;
        }
        Err(DialError::Failed(error)) => {
            entry.opened(&verdict).await;
            return entry.closed(Some(format!("not reached: {error}"))).await;
        }
    };
    entry.reached(host.address);
    entry.opened(&verdict).await;
    let mut changes = edge.watch_policy();
    let counts = entry.counts.clone();
    let relay = async {
        host.ask(&request.echo);
        counts.sent.fetch_add(size(&request.echo), Ordering::Relaxed);
        loop {
            let next = async {
                tokio::select! {
                    more = request_rx.recv() => more.map(Next::Request),
                    answer = host.hear() => answer.ok().map(Next::Answer),
                }
            };
            match timeout(IDLE, next).await {
                Ok(Some(Next::Request(echo))) => {
                    host.ask(&echo);
                    counts.sent.fetch_add(size(&echo), Ordering::Relaxed);
                }
                Ok(Some(Next::Answer(echo))) => {
                    let echo = Echo { identifier: request.echo.identifier, ..echo };
                    if answer(&raw, &request, &echo) {
                        counts.received.fetch_add(size(&echo), Ordering::Relaxed);
                    }
                }
                Ok(None) | Err(_) => return,
            }
        }
    };
    tokio::select! {
        () = relay => entry.closed(None).await,
        denied = datagram::forbidden(&edge, &mut changes, &facts) => entry.denied(&denied).await,
    }
}

enum Next {
    Request(Echo),
    Answer(Echo),
}

fn size(echo: &Echo) -> u64 {
    u64::try_from(echo.data.len() + 8).unwrap_or(0)
}

/// Sends a reply into the room.
fn answer(raw: &[OwnedFd], request: &Request, echo: &Echo) -> bool {
    let at = usize::from(request.client.is_ipv6());
    let packet = echo::answer(request.client, request.target, echo);
    let (Some(socket), Some(packet)) = (raw.get(at), packet) else { return false };
    let to = SocketAddr::new(request.client, 0);
    sendto(socket, &packet, SendFlags::DONTWAIT, &to).is_ok()
}

/// A socket of this host that pings one address.
struct Host {
    socket: UdpSocket,
    address: IpAddr,
    is_raw: bool,
    /// Identifies its replies, if the kernel does not.
    identifier: u16,
}

async fn reach(edge: &RoomEdge, facts: &Facts) -> Result<Host, DialError> {
    let address = facts.place(edge).await?;
    let opened = ping::open(address).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => DialError::Denied(Verdict::refused(Reason::NoEcho)),
        _ => DialError::Failed(error),
    })?;
    // An ICMP socket: sending and receiving work as for any datagram socket.
    let socket = UdpSocket::from_std(std::net::UdpSocket::from(opened.socket));
    let socket = socket.map_err(DialError::Failed)?;
    let identifier = u16::from_be_bytes(random::bytes());
    Ok(Host { socket, address, is_raw: opened.is_raw, identifier })
}

impl Host {
    fn ask(&self, echo: &Echo) {
        let echo = Echo { identifier: self.identifier, ..echo.clone() };
        let message = echo::request(&echo, self.address.is_ipv4());
        // A request that cannot be sent is lost, as on a network.
        send(&self.socket, &message, SendFlags::DONTWAIT).ok();
    }

    /// Returns the next reply.
    async fn hear(&self) -> io::Result<Echo> {
        loop {
            self.socket.readable().await?;
            let mut buffer = vec![0; 16 << 10];
            // An error belongs to an earlier, undelivered request; a network does not report that
            // either.
            let Ok(length) = self.socket.try_recv(&mut buffer) else { continue };
            let echo = echo::read_answer(&buffer[..length], self.address.is_ipv4(), self.is_raw);
            if let Some(echo) = echo
                && (!self.is_raw || echo.identifier == self.identifier)
            {
                return Ok(echo);
            }
        }
    }
}
