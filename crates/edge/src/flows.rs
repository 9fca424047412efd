//! Relays datagrams that a rule allows: for each pair of endpoints a flow with its own socket on
//! the host.
//!
//! A redirected datagram no longer has its original destination. The kernel knows it, and is
//! queried once for each flow ([`PacketGate::tracked`]), and again after a flow was quiet for so
//! long that the kernel may have reused its endpoints. Replies are sent from the socket that
//! received the request; the kernel restores the correct sender.

mod flow;

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hothouse_host::network::{PacketGate, Tracked};
use hothouse_model::policy::{Transport, Verdict};
use tokio::{net::UdpSocket, task::JoinSet};

use self::flow::Flow;
use crate::{budget, datagram::Facts, dropped::is_passing, entry::Entry, room::RoomEdge};

/// The maximum number of flows in a room; beyond that, the longest idle one is dropped.
const FLOWS: usize = 2048;

/// Slightly more than the largest datagram.
const LARGEST: usize = 1 << 16;

thread_local! {
    /// A buffer for datagrams, shared by all flows because none is held across an await.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with the buffer of this thread.
fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(LARGEST, 0);
        work(buffer)
    })
}

/// The flows of one room, by source address.
#[derive(Default)]
struct Table(Mutex<HashMap<SocketAddr, Arc<Flow>>>);

impl Table {
    fn all(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Flow>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a flow; the longest idle one is evicted if necessary.
    fn put(&self, peer: SocketAddr, flow: Arc<Flow>) {
        let mut all = self.all();
        if all.len() >= FLOWS {
            let quietest = all.iter().max_by_key(|(_, flow)| flow.quiet());
            if let Some(peer) = quietest.map(|(peer, _)| *peer) {
                all.remove(&peer).inspect(|flow| flow.end());
            }
        }
        all.insert(peer, flow).inspect(|old| old.end());
    }

    /// Removes a flow, unless it was already replaced.
    fn take(&self, peer: SocketAddr, flow: &Arc<Flow>) {
        let mut all = self.all();
        if all.get(&peer).is_some_and(|known| Arc::ptr_eq(known, flow)) {
            all.remove(&peer);
        }
    }
}

/// A socket that receives redirected datagrams, and its state.
struct Catch {
    edge: Arc<RoomEdge>,
    gate: Arc<PacketGate>,
    socket: UdpSocket,
    at: SocketAddr,
    table: Table,
}

/// Serves a socket that receives redirected datagrams.
pub(crate) async fn serve(edge: Arc<RoomEdge>, gate: Arc<PacketGate>, socket: UdpSocket) {
    let Ok(at) = socket.local_addr() else { return };
    let catch = Arc::new(Catch { edge, gate, socket, at, table: Table::default() });
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        if catch.socket.readable().await.is_err() {
            return;
        }
        // Bounded by somewhat more than the socket buffers.
        for _ in 0..256 {
            match with_buffer(|buffer| catch.receive(buffer)) {
                Ok(None) => {}
                Ok(Some(work)) => drop(tasks.spawn(work.run())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a room's datagrams are no longer forwarded");
                    return;
                }
            }
        }
        // Lets other tasks run, however many datagrams arrive.
        tokio::task::yield_now().await;
    }
}

/// Work that has to wait.
enum Work {
    /// Record a denial.
    Note(Box<Entry>, Verdict),
    /// Decide on a flow, and relay its replies.
    Flow(Arc<Catch>, SocketAddr, Arc<Flow>),
}

impl Work {
    async fn run(self) {
        match self {
            Self::Note(entry, verdict) => entry.denied(&verdict).await,
            Self::Flow(catch, peer, flow) => {
                flow::run(&catch, peer, &flow).await;
                flow.end();
                catch.table.take(peer, &flow);
            }
        }
    }
}

impl Catch {
    /// Receives one datagram and forwards it, or returns what must be done first.
    fn receive(self: &Arc<Self>, buffer: &mut [u8]) -> io::Result<Option<Work>> {
        let (length, peer) = self.socket.try_recv_from(buffer)?;
        let datagram = &buffer[..length];
        let known = self.table.all().get(&peer).cloned();
        if let Some(flow) = known {
            if self.is_still(&flow, peer) {
                flow.send(&self.edge, datagram);
                return Ok(None);
            }
            flow.end();
        }
        // A datagram that was not redirected was sent to our own port, which is not a destination.
        let tracked = self.gate.tracked(self.at, peer).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel does not report the destination of a datagram");
            None
        });
        let Some(tracked) = tracked.filter(|tracked| tracked.target != self.at) else {
            return Ok(None);
        };
        Ok(self.begin(peer, tracked, datagram))
    }

    /// Returns whether datagrams from `peer` still belong to this flow.
    fn is_still(&self, flow: &Flow, peer: SocketAddr) -> bool {
        !flow.is_in_doubt()
            || self.gate.tracked(self.at, peer).is_ok_and(|now| now == Some(flow.tracked))
    }

    fn begin(
        self: &Arc<Self>,
        peer: SocketAddr,
        tracked: Tracked,
        datagram: &[u8],
    ) -> Option<Work> {
        let (target, port) = (tracked.target.ip().to_canonical(), tracked.target.port());
        let facts = Facts::of(&self.edge, Transport::Udp, target, Some(port));
        let verdict = facts.decide(&self.edge);
        if !verdict.allowed && !facts.may_have_names(&self.edge, &verdict) {
            if !self.edge.is_news((Transport::Udp, target, Some(port))) {
                return None;
            }
            let mut entry = self.entry(tracked);
            entry.host = facts.name().map(ToString::to_string);
            return Some(Work::Note(Box::new(entry), verdict));
        }
        let permit = self.edge.take(budget::SOCKET)?;
        let flow = Arc::new(Flow::new(tracked, facts, permit));
        flow.send(&self.edge, datagram);
        self.table.put(peer, flow.clone());
        Some(Work::Flow(self.clone(), peer, flow))
    }

    fn entry(&self, tracked: Tracked) -> Entry {
        let target = (tracked.target.ip().to_canonical(), Some(tracked.target.port()));
        let source = Some(tracked.client.port());
        Entry::of_datagrams(self.edge.clone(), source, Transport::Udp, target)
    }
}
