//! One flow: datagrams between a client in the room and a target outside.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hothouse_host::{network::Tracked, shares::Permit};
use hothouse_model::policy::{Policy, Verdict};
use rustix::{
    io::Errno,
    net::{SendFlags, sendto},
};
use tokio::{net::UdpSocket, sync::Notify};

use super::{Catch, with_buffer};
use crate::{
    datagram::{self, Facts},
    entry::Entry,
    room::{DialError, RoomEdge},
    splice::Counts,
};

/// A flow ends after this time without datagrams, as in the kernel (`nf_conntrack_udp_timeout` and
/// `_stream`).
const IDLE: Duration = Duration::from_secs(30);
const IDLE_ANSWERED: Duration = Duration::from_secs(120);

/// After this idle time the kernel is asked whether a flow is still the same.
const DOUBT: Duration = Duration::from_secs(10);

/// How much is queued until a flow is decided on; more is lost, as on a network.
const WAITING: usize = 64;
const WAITING_BYTES: usize = 256 << 10;

/// One flow.
pub(super) struct Flow {
    pub(super) tracked: Tracked,
    facts: Facts,
    begun: Instant,
    /// The time of the last datagram, in milliseconds since the flow started.
    last: AtomicU64,
    counts: Arc<Counts>,
    way: Mutex<Way>,
    ended: Notify,
    _permit: Permit,
}

/// Where datagrams of the room are sent.
enum Way {
    /// Not decided yet.
    Waiting(Vec<Vec<u8>>),
    Open(Open),
    Shut,
}

/// An outgoing socket, and the inputs of the decision.
struct Open {
    socket: Arc<UdpSocket>,
    facts: Facts,
    policy: Arc<Policy>,
}

impl Open {
    /// Returns whether the current policy still allows it. After a change the flow's own task ends
    /// it, but possibly a moment later.
    fn holds(&mut self, edge: &RoomEdge) -> bool {
        let now = edge.policy();
        if !Arc::ptr_eq(&now, &self.policy) {
            if !self.facts.decide_by(edge, &now).allowed {
                return false;
            }
            self.policy = now;
        }
        true
    }
}

impl Flow {
    pub(super) fn new(tracked: Tracked, facts: Facts, permit: Permit) -> Self {
        Self {
            tracked,
            facts,
            begun: Instant::now(),
            last: AtomicU64::new(0),
            counts: Arc::default(),
            way: Mutex::new(Way::Waiting(Vec::new())),
            ended: Notify::new(),
            _permit: permit,
        }
    }

    /// Forwards a datagram of the room, or queues it until the decision.
    pub(super) fn send(&self, edge: &RoomEdge, datagram: &[u8]) {
        self.touch();
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *way {
            Way::Waiting(kept) => {
                let bytes: usize = kept.iter().map(Vec::len).sum();
                if kept.len() < WAITING && bytes + datagram.len() <= WAITING_BYTES {
                    kept.push(datagram.to_vec());
                }
            }
            Way::Open(open) => {
                if open.holds(edge) {
                    self.pass_on(&open.socket, datagram);
                }
            }
            Way::Shut => {}
        }
    }

    fn pass_on(&self, socket: &UdpSocket, datagram: &[u8]) {
        // If the queue is full, or an earlier datagram failed, this one is lost, as on a network.
        // Not through tokio, which would not try before it knows that a new socket is writable.
        if rustix::net::send(socket, datagram, SendFlags::DONTWAIT).is_ok() {
            let length = u64::try_from(datagram.len()).unwrap_or(0);
            self.counts.sent.fetch_add(length, Ordering::Relaxed);
        }
    }

    /// Opens the flow, and sends queued datagrams that are still allowed.
    fn open(&self, edge: &RoomEdge, mut open: Open) {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Way::Waiting(kept) = &mut *way {
            if open.holds(edge) {
                kept.iter().for_each(|datagram| self.pass_on(&open.socket, datagram));
            }
            *way = Way::Open(open);
        }
    }

    /// Ends the flow: nothing more is forwarded.
    pub(super) fn end(&self) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Way::Shut;
        self.ended.notify_one();
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns how long the flow has been idle.
    pub(super) fn quiet(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last)
    }

    /// Returns whether the kernel may have forgotten the flow.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.quiet() >= DOUBT
    }

    fn patience(&self) -> Duration {
        let answered = self.counts.received.load(Ordering::Relaxed) > 0;
        if answered { IDLE_ANSWERED } else { IDLE }
    }

    /// Returns when the flow has been idle for too long.
    async fn idle(&self) {
        loop {
            let left = self.patience().saturating_sub(self.quiet());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// Decides on a flow and, if allowed, relays its replies until it ends.
pub(super) async fn run(catch: &Arc<Catch>, peer: SocketAddr, flow: &Arc<Flow>) {
    let edge = &catch.edge;
    let mut entry = catch.entry(flow.tracked);
    entry.counts = flow.counts.clone();
    let mut changes = edge.watch_policy();
    let mut facts = flow.facts.clone();
    let policy = edge.policy();
    edge.learn_covered().await;
    let verdict = facts.settle(edge).await;
    entry.host = facts.name().map(ToString::to_string);
    if !verdict.allowed {
        return deny(edge, entry, flow, &verdict).await;
    }
    let place = facts.place(edge).await.map(|ip| SocketAddr::new(ip, flow.tracked.target.port()));
    let socket = match place {
        Ok(place) => connect(place).await.map_err(DialError::Failed),
        Err(error) => Err(error),
    };
    let socket = match socket {
        Ok(socket) => Arc::new(socket),
        Err(DialError::Denied(verdict)) => return deny(edge, entry, flow, &verdict).await,
        Err(DialError::Failed(error)) => {
            entry.opened(&verdict).await;
            return entry.closed(Some(format!("not reached: {error}"))).await;
        }
    };
    if let Ok(at) = socket.peer_addr() {
        entry.reached(at.ip());
    }
    entry.opened(&verdict).await;
    flow.open(edge, Open { socket: socket.clone(), facts: facts.clone(), policy });
    tokio::select! {
        error = bring_back(catch, peer, flow, &socket) => entry.closed(error).await,
        () = flow.idle() => entry.closed(None).await,
        () = flow.ended.notified() => entry.closed(None).await,
        denied = datagram::forbidden(edge, &mut changes, &facts) => entry.denied(&denied).await,
    }
}

async fn deny(edge: &RoomEdge, entry: Entry, flow: &Flow, verdict: &Verdict) {
    let target = flow.tracked.target;
    let place = (flow.facts.transport, target.ip().to_canonical(), Some(target.port()));
    if edge.is_news(place) {
        entry.denied(verdict).await;
    }
}

/// Opens a socket of the host, connected to one target.
async fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any = match target.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(target).await?;
    Ok(socket)
}

/// Relays replies, for as long as the room's kernel knows the flow.
async fn bring_back(
    catch: &Catch,
    peer: SocketAddr,
    flow: &Flow,
    socket: &UdpSocket,
) -> Option<String> {
    loop {
        if let Err(error) = socket.readable().await {
            return Some(error.to_string());
        }
        let gone = with_buffer(|buffer| {
            // Lets other tasks run, however many replies arrive.
            for _ in 0..64 {
                match socket.try_recv(buffer) {
                    Ok(length) => {
                        if !catch.is_still(flow, peer) {
                            return true;
                        }
                        flow.touch();
                        let length_sent = u64::try_from(length).unwrap_or(0);
                        let datagram = &buffer[..length];
                        match sendto(&catch.socket, datagram, SendFlags::DONTWAIT, &peer) {
                            Ok(_) => {
                                let received = &flow.counts.received;
                                received.fetch_add(length_sent, Ordering::Relaxed);
                            }
                            // With a full queue it is lost, as on a network.
                            Err(Errno::AGAIN) => {}
                            // The kernel no longer tracks the flow.
                            Err(_) => return true,
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                    // Unreachable, or nothing listens there: a network does not report that either.
                    Err(_) => {}
                }
            }
            false
        });
        if gone {
            return None;
        }
        tokio::task::yield_now().await;
    }
}
