//! One room as seen by the wall: its policy, its known names, its ledger.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use hothouse_host::{
    Clock,
    clock::HostClock,
    network::PacketGate,
    ping,
    shares::{Permit, RoomShare},
};
use hothouse_model::{
    config::HostName,
    ledger::{AttemptKind, LedgerRecord, RoomProcess},
    policy::{Policy, Reason, Transport, Verdict},
};
use tokio::{
    net::TcpStream,
    sync::{OnceCell, Semaphore, watch},
    time::timeout,
};

use crate::{
    book::{NameBook, is_synthetic},
    budget::Refused,
    covered::Covered,
    datagram::{Noted, Place},
    entry::LOOKUPS,
    ledger::{Ledger, record_id},
    pace::Paced,
    resolver::{Resolver, Servers},
    terminate::Terminate,
};

/// The timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(10);

/// How long repeated denied lookups of a name are not recorded.
const QUIET: Duration = Duration::from_secs(60);
const QUIET_NAMES: usize = 1024;

/// Finds the process in the room that owns a connection.
pub trait Processes: Send + Sync {
    /// Returns the process whose socket goes from `client` to `target`. It may take a millisecond.
    fn owner(&self, client: SocketAddr, target: SocketAddr) -> Option<RoomProcess>;

    /// Returns the process that owns a UDP port, or an identifier of echo requests. It may take a
    /// millisecond.
    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<RoomProcess>;
}

/// Completes a policy that was made before all of its inputs were known.
pub trait Settle: Send + Sync {
    /// Returns the complete policy; `None` if it already was. It may take seconds.
    fn settle(&self) -> Pin<Box<dyn Future<Output = Option<Arc<Policy>>> + Send + '_>>;
}

/// The owner of a room, for the ledger and for explanations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// In the form that `-w` accepts.
    pub sandbox: String,
    pub run: String,
}

/// Removes values of secrets from texts: a room may send one to any host, or look up a name that contains it.
pub trait Redact: Send + Sync {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

fn redact_texts(redact: &dyn Redact, record: &mut LedgerRecord) {
    let texts = [&mut record.host, &mut record.reason, &mut record.error];
    texts.into_iter().flatten().for_each(|text| redact_text(redact, text));
    record.request.iter_mut().for_each(|request| redact_json(redact, request));
}

fn redact_text(redact: &dyn Redact, text: &mut String) {
    if let Cow::Owned(clean) = redact.redact(text) {
        *text = clean;
    }
}

fn redact_json(redact: &dyn Redact, value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => redact_text(redact, text),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| redact_json(redact, one)),
        serde_json::Value::Object(all) => all.values_mut().for_each(|one| redact_json(redact, one)),
        _ => {}
    }
}

/// The parameters of a room's wall.
pub struct RoomSpec {
    pub about: About,
    pub policy: Arc<Policy>,
    pub ledger: Arc<Ledger>,
    pub servers: Arc<Servers>,
    pub processes: Arc<dyn Processes>,
    /// The names of services, which resolve to the room's own loopback.
    pub own_names: Vec<String>,
    pub terminate: Option<Arc<dyn Terminate>>,
    pub settle: Option<Box<dyn Settle>>,
    /// Keeps values of secrets out of the ledger.
    pub redact: Option<Box<dyn Redact>>,
    /// The room's share of the daemon's descriptors.
    pub share: RoomShare,
}

/// The wall of one room.
pub struct RoomEdge {
    pub(crate) about: About,
    policy: watch::Sender<Arc<Policy>>,
    book: Mutex<NameBook>,
    pub(crate) covered: Covered,
    pub(crate) resolver: Resolver,
    ledger: Arc<Ledger>,
    /// The rate limit of records.
    pub(crate) records: Paced,
    pub(crate) processes: Arc<dyn Processes>,
    /// The lookups of processes that may run at a time.
    pub(crate) lookups: Arc<Semaphore>,
    own_names: RwLock<Vec<String>>,
    terminate: RwLock<Option<Arc<dyn Terminate>>>,
    redact: Option<Box<dyn Redact>>,
    /// Names whose denial was recorded recently.
    quiet: Mutex<HashMap<HostName, Instant>>,
    noted: Mutex<Noted>,
    gate: OnceLock<Gate>,
    settle: Option<Box<dyn Settle>>,
    settled: OnceCell<()>,
    share: RoomShare,
    pub(crate) refused: Mutex<Refused>,
}

/// What a policy allows and this host cannot provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Datagrams,
    Echo,
}

/// Access to the nftables rules for traffic other than connections.
pub(crate) struct Gate {
    pub(crate) rules: Arc<PacketGate>,
    /// Whether echo requests can be answered here.
    pub(crate) echo: bool,
}

impl RoomEdge {
    /// Creates the wall of a room; it starts when sockets are [served](Self::serve).
    pub fn new(spec: RoomSpec) -> Arc<Self> {
        Arc::new(Self {
            about: spec.about,
            policy: watch::Sender::new(spec.policy),
            book: Mutex::default(),
            covered: Covered::default(),
            resolver: Resolver::new(spec.servers),
            ledger: spec.ledger,
            records: Paced::records(),
            processes: spec.processes,
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            own_names: RwLock::new(spec.own_names),
            terminate: RwLock::new(spec.terminate),
            redact: spec.redact,
            quiet: Mutex::default(),
            noted: Mutex::default(),
            gate: OnceLock::new(),
            settle: spec.settle,
            settled: OnceCell::new(),
            share: spec.share,
            refused: Mutex::default(),
        })
    }

    /// Returns the current policy.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.borrow().clone()
    }

    /// Replaces the policy. Connections that it does not allow are cut.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        let changed = self.policy.send_if_modified(|now| {
            let changed = *now != policy;
            *now = policy;
            changed
        });
        if changed {
            self.open_gate();
        }
    }

    /// Ensures, once, that all inputs of the policy are known.
    pub(crate) async fn settle(&self) {
        let settle = async || {
            let Some(settle) = &self.settle else { return };
            if let Some(policy) = settle.settle().await {
                self.set_policy(policy);
            }
        };
        self.settled.get_or_init(settle).await;
    }

    /// Sets the handle of the nftables rules for traffic other than connections, and applies the
    /// policy to them.
    pub(crate) fn hold_gate(&self, gate: Gate) {
        if self.gate.set(gate).is_ok() {
            self.open_gate();
        }
    }

    fn open_gate(&self) {
        let Some(gate) = self.gate.get() else { return };
        let policy = self.policy();
        let limits = self.limits();
        let ports = match limits.contains(&Limit::Datagrams) {
            true => BTreeSet::new(),
            false => policy.datagram_ports(),
        };
        let echo = policy.allows_echo() && !limits.contains(&Limit::Echo);
        if let Err(error) = gate.rules.open(&ports, echo) {
            tracing::warn!(%error, "a room's nftables rules could not be updated");
        }
    }

    /// Returns what the policy allows and this host cannot provide.
    pub fn limits(&self) -> Vec<Limit> {
        let (policy, gate) = (self.policy(), self.gate.get());
        let (datagrams, echo) = (!policy.datagram_ports().is_empty(), policy.allows_echo());
        let mut limits = Vec::new();
        if datagrams && !gate.is_some_and(|gate| gate.rules.tracks()) {
            limits.push(Limit::Datagrams);
        }
        if echo && !(gate.is_some_and(|gate| gate.echo) && ping::is_allowed()) {
            limits.push(Limit::Echo);
        }
        limits
    }

    /// Returns whether the denial of a target was recorded recently.
    pub(crate) fn was_noted(&self, place: Place) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).knows(place, Instant::now())
    }

    /// Returns whether the denial of a target should be recorded, at most once a minute.
    pub(crate) fn is_news(&self, place: Place) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).is_news(place, Instant::now())
    }

    /// Returns a receiver that is notified of every change of the policy or the terminator.
    pub fn watch_policy(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }

    /// Replaces the names of services.
    pub fn set_own_names(&self, names: Vec<String>) {
        *self.own_names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Returns whether a name resolves to the room's own loopback: a service, or anything below
    /// `localhost`.
    pub(crate) fn is_own(&self, name: &HostName) -> bool {
        let text = name.as_str();
        let local = text == "localhost" || text.ends_with(".localhost");
        let services = self.own_names.read().unwrap_or_else(PoisonError::into_inner);
        local || services.iter().any(|service| service == text)
    }

    /// Replaces the terminator. Relayed connections to a host that must now be terminated are cut,
    /// as soon as its addresses are known.
    pub fn set_terminate(self: &Arc<Self>, terminate: Option<Arc<dyn Terminate>>) {
        *self.terminate.write().unwrap_or_else(PoisonError::into_inner) = terminate;
        self.policy.send_modify(|_| {});
        let edge = Arc::downgrade(self);
        tokio::spawn(async move {
            if let Some(edge) = edge.upgrade() {
                edge.learn_covered().await;
                edge.policy.send_modify(|_| {});
            }
        });
    }

    /// Takes from the room's share, if enough is left.
    pub(crate) fn take(self: &Arc<Self>, cost: u64) -> Option<Permit> {
        let permit = self.share.take(cost);
        if permit.is_none() {
            self.note_refused();
        }
        permit
    }

    /// Returns the current terminator.
    pub fn terminate(&self) -> Option<Arc<dyn Terminate>> {
        self.terminate.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the terminator of a host, if it must be terminated.
    pub(crate) fn terminator(&self, name: &HostName, port: u16) -> Option<Arc<dyn Terminate>> {
        self.terminate().filter(|terminate| terminate.covers(name.as_str(), port))
    }

    /// Returns the host of a connection whose mail goes to a sink.
    pub(crate) fn mail_host(&self, target: SocketAddr) -> Option<HostName> {
        let (address, port) = (target.ip(), target.port());
        let policy = self.policy();
        let takes = |name: &HostName| {
            policy.takes_mail(name, port) && self.terminator(name, port).is_some()
        };
        is_synthetic(address).then(|| self.names_of(address))?.into_iter().find(takes)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, NameBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of an address in this room.
    pub(crate) fn names_of(&self, address: IpAddr) -> Vec<HostName> {
        self.book().names(address, Instant::now())
    }

    /// Records that a name may not be looked up, at most once a minute.
    pub(crate) fn note_denied_name(&self, host: &str, name: Option<&HostName>, verdict: &Verdict) {
        if name.is_some_and(|name| !self.is_unnoted(name)) {
            return;
        }
        let mut record = self.record(AttemptKind::Lookup, verdict);
        record.host = Some(host.to_owned());
        self.append(&mut record);
    }

    /// Records that an allowed name does not resolve, at most once a minute: the intended
    /// connection is never made.
    pub(crate) fn note_unresolved(&self, name: &HostName, why: String) {
        if !self.is_unnoted(name) {
            return;
        }
        let mut record = self.record(AttemptKind::Lookup, &self.policy().decide_name(name));
        record.host = Some(name.to_string());
        record.error = Some(why);
        self.append(&mut record);
    }

    /// Returns whether nothing was recorded for a name during the last minute; marks it as recorded.
    fn is_unnoted(&self, name: &HostName) -> bool {
        let now = Instant::now();
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if quiet.get(name).is_some_and(|noted| now.duration_since(*noted) < QUIET) {
            return false;
        }
        if quiet.len() >= QUIET_NAMES {
            quiet.clear();
        }
        quiet.insert(name.clone(), now);
        true
    }

    /// Appends a record to the ledger, and counts it. Callers must wait for [`Paced::turn`] first.
    pub(crate) fn append(&self, record: &mut LedgerRecord) {
        if let Some(redact) = &self.redact {
            redact_texts(&**redact, record);
        }
        self.append_redacted(record);
    }

    /// Appends a record of the terminator, which has redacted it.
    pub(crate) fn append_redacted(&self, record: &mut LedgerRecord) {
        self.records.count();
        self.ledger.append(record);
    }

    /// Begins a record.
    pub(crate) fn record(&self, kind: AttemptKind, verdict: &Verdict) -> LedgerRecord {
        LedgerRecord {
            seq: 0,
            id: record_id(),
            time: HostClock.now(),
            run: self.about.run.clone(),
            kind,
            allowed: verdict.allowed,
            rule: verdict.rule.clone(),
            code: verdict.reason.as_ref().map(|reason| reason.code().into()),
            reason: verdict.reason.as_ref().map(Reason::to_string),
            host: None,
            address: None,
            port: None,
            protocol: None,
            sent: 0,
            received: 0,
            duration_ms: 0,
            process: None,
            open: false,
            inspected: false,
            error: None,
            request: None,
            bodies: None,
        }
    }

    /// Connects to a name at the addresses that the policy allows, one after the other.
    pub(crate) async fn dial_name(
        &self,
        name: &HostName,
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let found = self.resolver.addresses(name).await;
        let found = found.map_err(|error| not_found(&format!("{name}: {error}")))?;
        if found.is_empty() {
            return Err(not_found(&format!("{name} has no address")));
        }
        let is_covered = self.terminator(name, port).is_some();
        if is_covered {
            self.note_covered(name, &found);
        }
        let policy = self.policy();
        let mut denied = None;
        let mut failed = None;
        for address in found {
            let shares = self.covered_by(address, port).filter(|_| !is_covered);
            let verdict = policy.decide_address(name, address, port, shares.as_ref());
            if !verdict.allowed {
                denied = Some(verdict);
                continue;
            }
            match dial(SocketAddr::new(address, port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Some(error),
            }
        }
        match (failed, denied) {
            (Some(error), _) => Err(DialError::Failed(error)),
            (None, Some(verdict)) => Err(DialError::Denied(verdict)),
            (None, None) => Err(DialError::Failed(io::ErrorKind::NotFound.into())),
        }
    }
}

/// A host that was not reached.
#[derive(Debug)]
pub(crate) enum DialError {
    /// The name resolves to a forbidden address: DNS rebinding, or a mistake.
    Denied(Verdict),
    Failed(io::Error),
}

pub(crate) fn not_found(what: &str) -> DialError {
    DialError::Failed(io::Error::new(io::ErrorKind::NotFound, what))
}

/// Connects to an address.
pub(crate) async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(stream) => {
            let stream = stream?;
            // Best effort: the socket also works without these options.
            stream.set_nodelay(true).ok();
            rustix::net::sockopt::set_socket_keepalive(&stream, true).ok();
            Ok(stream)
        }
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
