//! The ledger entry of one connection, or of the datagrams between two endpoints, from its first
//! byte to its last.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use hothouse_model::{
    ledger::{AttemptKind, LedgerRecord, RoomProcess},
    policy::{Transport, Verdict},
};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};

use crate::{room::RoomEdge, splice::Counts};

/// How many process lookups of a room may run at a time; if the wait is too long, the process stays
/// unknown. A room that floods the wall only delays itself.
pub(crate) const LOOKUPS: usize = 2;

/// How long to wait for the process of a connection when it is needed. A lookup takes about a
/// millisecond, but hundreds on a machine whose processors are all busy.
const LOOKUP_WAIT: Duration = Duration::from_secs(1);

/// One connection in the ledger, or the datagrams between two endpoints.
pub(crate) struct Entry {
    edge: Arc<RoomEdge>,
    kind: AttemptKind,
    begun: Instant,
    process: Whose,
    port: Option<u16>,
    address: Option<IpAddr>,
    pub(crate) host: Option<String>,
    pub(crate) protocol: Option<Cow<'static, str>>,
    /// Whether its requests are visible to us.
    pub(crate) inspected: bool,
    pub(crate) counts: Arc<Counts>,
    record: Option<LedgerRecord>,
}

/// The process of a connection, once known.
struct Whose {
    known: Option<RoomProcess>,
    search: Option<Search>,
}

type Search = JoinHandle<Option<RoomProcess>>;

/// Looks up a process, as soon as not too many lookups of its room are running.
fn search(
    lookups: Arc<Semaphore>,
    find: impl FnOnce() -> Option<RoomProcess> + Send + 'static,
) -> Search {
    tokio::spawn(async move {
        let permit = timeout(LOOKUP_WAIT, lookups.acquire()).await.ok()?.ok()?;
        let owner = tokio::task::spawn_blocking(find).await.ok().flatten();
        drop(permit);
        owner
    })
}

impl Entry {
    /// Starts an entry, and looks up the process in the background.
    pub(crate) fn begin(
        edge: Arc<RoomEdge>,
        client: Option<SocketAddr>,
        target: SocketAddr,
    ) -> Self {
        let search = client.map(|client| {
            let processes = edge.processes.clone();
            search(edge.lookups.clone(), move || processes.owner(client, target))
        });
        Self::new(edge, AttemptKind::Connection, (target.ip(), Some(target.port())), search)
    }

    /// Starts an entry for traffic other than connections, and looks up the process by its source
    /// port (for echo requests, the identifier).
    pub(crate) fn of_datagrams(
        edge: Arc<RoomEdge>,
        source: Option<u16>,
        transport: Transport,
        target: (IpAddr, Option<u16>),
    ) -> Self {
        let search = source.map(|source| {
            let processes = edge.processes.clone();
            search(edge.lookups.clone(), move || processes.datagram_owner(transport, source))
        });
        let entry = Self::new(edge, AttemptKind::Datagram, target, search);
        Self { protocol: Some(transport.to_string().into()), ..entry }
    }

    fn new(
        edge: Arc<RoomEdge>,
        kind: AttemptKind,
        (address, port): (IpAddr, Option<u16>),
        search: Option<Search>,
    ) -> Self {
        Self {
            edge,
            kind,
            begun: Instant::now(),
            process: Whose { known: None, search },
            port,
            address: (!crate::book::is_synthetic(address)).then_some(address),
            host: None,
            protocol: None,
            inspected: false,
            counts: Arc::default(),
            record: None,
        }
    }

    /// Records the address of a connection that was made by name.
    pub(crate) fn reached(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// Records that a connection was denied.
    pub(crate) async fn denied(mut self, verdict: &Verdict) {
        self.edge.records.turn().await;
        let mut record = self.edge.record(self.kind, verdict);
        if let Some(opened) = &self.record {
            record.id = opened.id.clone();
            record.time = opened.time;
        }
        self.fill(&mut record).await;
        self.edge.append(&mut record);
    }

    /// Records that a connection was allowed.
    pub(crate) async fn opened(&mut self, verdict: &Verdict) {
        self.edge.records.turn().await;
        let mut record = self.edge.record(self.kind, verdict);
        if let Some(opened) = &self.record {
            (record.id, record.time) = (opened.id.clone(), opened.time);
        }
        record.open = true;
        record.inspected = self.inspected;
        record.host = self.host.clone();
        record.address = self.address;
        record.port = self.port;
        record.protocol = self.protocol.as_deref().map(str::to_owned);
        self.edge.append(&mut record);
        self.record = Some(record);
    }

    /// Records how a connection ended.
    pub(crate) async fn closed(mut self, error: Option<String>) {
        let Some(mut record) = self.record.take() else { return };
        record.open = false;
        record.error = error;
        self.fill(&mut record).await;
        self.edge.append(&mut record);
    }

    /// Returns the process of the connection, if it is found soon.
    pub(crate) async fn process(&mut self) -> Option<RoomProcess> {
        self.process.find().await
    }

    async fn fill(&mut self, record: &mut LedgerRecord) {
        record.host = self.host.clone();
        record.address = self.address;
        record.port = self.port;
        record.protocol = self.protocol.as_deref().map(str::to_owned);
        record.sent = self.counts.sent.load(Ordering::Relaxed);
        record.received = self.counts.received.load(Ordering::Relaxed);
        record.duration_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        record.process = self.process.find().await;
    }
}

impl Whose {
    /// Returns the process, if it is found in time; a slower lookup may have finished by the next
    /// record.
    async fn find(&mut self) -> Option<RoomProcess> {
        let Some(search) = self.search.as_mut() else { return self.known.clone() };
        let Ok(found) = timeout(LOOKUP_WAIT, search).await else { return None };
        self.search = None;
        self.known = found.ok().flatten();
        self.known.clone()
    }
}
