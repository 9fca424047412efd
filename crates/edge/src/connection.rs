//! One connection of a room: identify it, decide once, then refuse or forward it.

mod facts;
mod look;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use hothouse_host::charged::Charged;
use hothouse_model::{
    config::HostName,
    ledger::AttemptKind,
    policy::{Claim, MAIL_TLS_PORT, Policy, Protocol, Reason, Verdict},
};
use tokio::{io::AsyncWriteExt, net::TcpStream};

pub(crate) use self::facts::Facts;
use self::{
    facts::facts,
    look::{Heard, Seen, hear, look},
};
use crate::{
    book::is_synthetic,
    budget,
    entry::Entry,
    plain,
    refuse::{self, Denial},
    room::{DialError, RoomEdge, dial},
    splice,
    terminate::{Dial, Endpoint, Note, RequestNote, Rewound, Terminate},
    wire::sniff::Sniffed,
};

/// How a connection reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It was made to its target, and redirected.
    Caught,
    /// A tool requested its target through the proxy, and the next request may name another.
    Asked,
}

/// A connection that has not been decided on.
struct Caught {
    edge: Arc<RoomEdge>,
    entry: Entry,
    stream: TcpStream,
    target: SocketAddr,
    way: Way,
}

/// Serves a connection to `target`; `first` are bytes that were already read. Everything after the
/// decision is boxed, to keep the future small.
pub(crate) async fn serve(
    edge: Arc<RoomEdge>,
    stream: TcpStream,
    target: SocketAddr,
    first: Vec<u8>,
    way: Way,
) {
    let entry = Entry::begin(edge.clone(), stream.peer_addr().ok(), target);
    stream.set_nodelay(true).ok();
    rustix::net::sockopt::set_socket_keepalive(&stream, true).ok();
    if !is_synthetic(target.ip()) {
        Box::pin(edge.learn_covered()).await;
    }
    let mut caught = Caught { edge, entry, stream, target, way };
    if let Some(name) = caught.edge.mail_host(target) {
        return Box::pin(caught.take_mail(name, first)).await;
    }
    // A connection that closed without sending anything is recorded as such.
    let seen = Box::pin(look(&caught.edge, &mut caught.stream, first, target)).await;
    let seen = seen.unwrap_or_default();
    if seen.is_silent {
        return Box::pin(caught.wait()).await;
    }
    Box::pin(caught.go_on(seen)).await;
}

impl Caught {
    /// Decides on a connection whose protocol is known.
    async fn go_on(mut self, Seen { first, sniffed, .. }: Seen) {
        let (facts, verdict) = self.decide(&sniffed).await;
        let Self { edge, entry, stream, target, way } = self;
        if !verdict.allowed {
            return Box::pin(deny(&edge, entry, (stream, first), &sniffed, &verdict, target)).await;
        }
        let covering = facts.claim.name().filter(|_| facts.terminated).cloned();
        let terminator = covering
            .and_then(|name| edge.terminator(&name, target.port()).map(|opens| (name, opens)));
        if let Some((name, terminator)) = terminator {
            let client = Rewound::new(first, stream).paced(&edge);
            let opened = terminated(&edge, entry, client, &facts, &verdict, (&name, terminator));
            return Box::pin(opened).await;
        }
        let facts = Facts { passed: true, ..facts };
        if matches!(sniffed, Sniffed::Http(_)) {
            let client = Rewound::new(first, stream).paced(&edge);
            return Box::pin(plain::serve(edge, entry, client, facts, verdict, way)).await;
        }
        let caught = Self { edge, entry, stream, target, way };
        Box::pin(caught.pass(first, (facts, sniffed), verdict)).await;
    }

    /// Passes a connection to the mail sink for its host. The server speaks first, so nothing is
    /// read.
    async fn take_mail(mut self, name: HostName, first: Vec<u8>) {
        let facts = Facts::of_mail(name.clone(), self.target.port()).cover(&self.edge);
        self.entry.protocol = Some(facts.protocol.as_str().into());
        self.entry.host = Some(name.to_string());
        let mut changes = self.edge.watch_policy();
        let verdict = facts.decide(&self.edge.policy());
        let terminator = self.edge.terminator(&name, facts.port).filter(|_| verdict.allowed);
        let Self { edge, mut entry, stream, target, .. } = self;
        let Some(terminator) = terminator else {
            return deny(&edge, entry, (stream, first), &Sniffed::Other, &verdict, target).await;
        };
        entry.inspected = true;
        entry.opened(&verdict).await;
        let process = entry.process().await;
        let tls = facts.port == MAIL_TLS_PORT;
        let endpoint = Endpoint { name: name.to_string(), port: facts.port, tls, process };
        tokio::select! {
            () = terminator.serve_mail(Rewound::new(first, stream), endpoint) => {
                entry.closed(None).await;
            }
            denied = forbidden(&edge, &mut changes, &facts) => entry.denied(&denied).await,
        }
    }

    /// Collects the inputs of the decision, and decides.
    async fn decide(&mut self, sniffed: &Sniffed) -> (Facts, Verdict) {
        let facts = Box::pin(facts(&self.edge, sniffed, self.target)).await;
        self.entry.protocol = Some(facts.protocol.as_str().into());
        let named = facts.name().or(facts.covered.as_ref());
        self.entry.host = named.map(ToString::to_string).or_else(|| match &facts.claim {
            Claim::Bad(text) => Some(text.clone()),
            _ => None,
        });
        let verdict = Box::pin(settled(&self.edge, &facts, sniffed)).await;
        (facts, verdict)
    }

    /// Serves a silent connection: the server may be the one to speak first. If the client speaks
    /// after all, the decision is made as if it had spoken immediately.
    async fn wait(mut self) {
        let sniffed = Sniffed::Other;
        let (facts, verdict) = self.decide(&sniffed).await;
        if !verdict.allowed {
            let client = (self.stream, Vec::new());
            return deny(&self.edge, self.entry, client, &sniffed, &verdict, self.target).await;
        }
        let facts = Facts { passed: true, ..facts };
        let edge = self.edge.clone();
        let mut changes = edge.watch_policy();
        let Some((mut caught, mut outside)) = self.reach(&facts, &sniffed, &verdict).await else {
            return;
        };
        caught.entry.opened(&verdict).await;
        let counts = caught.entry.counts.clone();
        let heard = tokio::select! {
            heard = hear(&mut caught.stream, &mut outside, &counts) => heard,
            denied = forbidden(&edge, &mut changes, &facts) => {
                return caught.cut(outside, &denied).await;
            }
        };
        let Ok(Heard { first, server_spoke }) = heard else {
            return caught.entry.closed(heard.err().map(|error| error.to_string())).await;
        };
        if first.is_empty() {
            return caught.relay(outside, first, facts).await;
        }
        let seen = look(&edge, &mut caught.stream, first, caught.target).await;
        let seen = seen.unwrap_or_default();
        if !server_spoke {
            drop(outside);
            return Box::pin(caught.go_on(seen)).await;
        }
        let (facts, verdict) = caught.decide(&seen.sniffed).await;
        // It is too late to terminate it.
        let facts = Facts { passed: true, ..facts }.cover(&edge);
        let verdict = if verdict.allowed { facts.decide(&edge.policy()) } else { verdict };
        match verdict.allowed {
            true => caught.relay(outside, seen.first, facts).await,
            false => caught.cut(outside, &verdict).await,
        }
    }

    /// Connects to the target and relays bytes both ways, as long as the policy allows it.
    async fn pass(self, first: Vec<u8>, (facts, sniffed): (Facts, Sniffed), verdict: Verdict) {
        let reached = self.reach(&facts, &sniffed, &verdict).await;
        let Some((mut caught, outside)) = reached else { return };
        caught.entry.opened(&verdict).await;
        caught.relay(outside, first, facts).await;
    }

    /// Connects to the target; on failure the connection is refused.
    async fn reach(
        mut self,
        facts: &Facts,
        sniffed: &Sniffed,
        verdict: &Verdict,
    ) -> Option<(Self, TcpStream)> {
        match reach(&self.edge, facts).await {
            Ok(outside) => {
                if let Ok(at) = outside.peer_addr() {
                    self.entry.reached(at.ip());
                }
                return Some((self, outside));
            }
            Err(DialError::Denied(verdict)) => {
                let client = (self.stream, Vec::new());
                deny(&self.edge, self.entry, client, sniffed, &verdict, self.target).await;
            }
            Err(DialError::Failed(error)) => {
                let host = self.entry.host.clone().unwrap_or_else(|| self.target.to_string());
                self.entry.opened(verdict).await;
                self.entry.closed(Some(format!("not reached: {error}"))).await;
                refuse::unreachable(self.stream, sniffed, &host, &error).await;
            }
        }
        None
    }

    async fn relay(self, mut outside: TcpStream, first: Vec<u8>, facts: Facts) {
        let Self { edge, entry, stream, .. } = self;
        let mut changes = edge.watch_policy();
        let counts = entry.counts.clone();
        let relay = async {
            outside.write_all(&first).await?;
            let length = u64::try_from(first.len()).unwrap_or(0);
            counts.sent.fetch_add(length, Ordering::Relaxed);
            drop(first);
            splice::relay(&stream, &outside, &counts).await
        };
        tokio::select! {
            ended = relay => {
                if ended.is_err() {
                    // Whichever side closed it, the other must notice.
                    stream.set_zero_linger().ok();
                    outside.set_zero_linger().ok();
                }
                entry.closed(ended.err().map(|error| error.to_string())).await;
            }
            denied = forbidden(&edge, &mut changes, &facts) => {
                stream.set_zero_linger().ok();
                outside.set_zero_linger().ok();
                entry.denied(&denied).await;
            }
        }
    }

    async fn cut(self, outside: TcpStream, denied: &Verdict) {
        self.stream.set_zero_linger().ok();
        outside.set_zero_linger().ok();
        self.entry.denied(denied).await;
    }
}

/// Decides, and again if the host could be a registry that the host's tools have not been asked for
/// yet.
async fn settled(edge: &RoomEdge, facts: &Facts, sniffed: &Sniffed) -> Verdict {
    let verdict = decide(edge, facts, sniffed);
    if facts.name().is_none() || !verdict.may_be_a_registry() {
        return verdict;
    }
    edge.settle().await;
    decide(edge, facts, sniffed)
}

fn decide(edge: &RoomEdge, facts: &Facts, sniffed: &Sniffed) -> Verdict {
    let verdict = facts.decide(&edge.policy());
    if !verdict.allowed {
        return verdict;
    }
    match sniffed {
        Sniffed::Http(head) if head.method == "CONNECT" => Verdict::refused(Reason::Nested),
        Sniffed::Http(head) if head.contradicts => Verdict::refused(Reason::TwoNames),
        Sniffed::Broken(Protocol::Other) => Verdict::refused(Reason::Slow),
        Sniffed::Broken(_) => Verdict::refused(Reason::Malformed),
        _ => verdict,
    }
}

async fn deny(
    edge: &RoomEdge,
    entry: Entry,
    (stream, first): (TcpStream, Vec<u8>),
    sniffed: &Sniffed,
    verdict: &Verdict,
    target: SocketAddr,
) {
    let host = entry.host.clone();
    // Recorded first: the client may ask for the reason immediately.
    entry.denied(verdict).await;
    let denial = Denial { verdict, host: host.as_deref(), target };
    refuse::refuse(stream, sniffed, first, &edge.about, &denial).await;
}

/// Returns when a new policy forbids a connection, or its host must be terminated.
pub(crate) async fn forbidden(
    edge: &RoomEdge,
    changes: &mut tokio::sync::watch::Receiver<Arc<Policy>>,
    facts: &Facts,
) -> Verdict {
    loop {
        let policy = changes.borrow_and_update().clone();
        let verdict = facts.clone().cover(edge).decide(&policy);
        if !verdict.allowed {
            return verdict;
        }
        if changes.changed().await.is_err() {
            // The wall is stopping, which ends this task.
            std::future::pending::<()>().await;
        }
    }
}

/// Connects to the target of an allowed connection.
pub(crate) async fn reach(edge: &RoomEdge, facts: &Facts) -> Result<TcpStream, DialError> {
    match (facts.address, facts.name()) {
        (Some(address), _) => {
            dial(SocketAddr::new(address, facts.port)).await.map_err(DialError::Failed)
        }
        (None, Some(name)) => edge.dial_name(name, facts.port).await,
        (None, None) => Err(DialError::Failed(io::ErrorKind::NotFound.into())),
    }
}

/// Connects to a terminated host, again and again, each time within the room's share.
fn dial_of(edge: &Arc<RoomEdge>, name: &HostName, facts: &Facts) -> Dial {
    // The name decides, not the address that the room has.
    let facts = Facts { address: None, answered: vec![name.clone()], ..facts.clone() };
    let edge = edge.clone();
    Arc::new(move || {
        let (edge, facts) = (edge.clone(), facts.clone());
        Box::pin(async move {
            let permit = edge.take(budget::SOCKET).ok_or_else(over_share)?;
            let reached = reach(&edge, &facts).await.map_err(|error| match error {
                DialError::Denied(verdict) => {
                    io::Error::new(io::ErrorKind::PermissionDenied, verdict.why())
                }
                DialError::Failed(error) => error,
            });
            Ok(Charged::new(reached?, permit))
        })
    })
}

fn over_share() -> io::Error {
    let why = "the sandbox has more connections open than its share";
    io::Error::new(io::ErrorKind::QuotaExceeded, why)
}

/// Passes a connection to the terminator of its host.
async fn terminated(
    edge: &Arc<RoomEdge>,
    mut entry: Entry,
    client: Rewound,
    facts: &Facts,
    verdict: &Verdict,
    (name, terminator): (&HostName, Arc<dyn Terminate>),
) {
    entry.inspected = true;
    Box::pin(entry.opened(verdict)).await;
    // Recorded requests include their process, so it is worth waiting a moment for it.
    let process = Box::pin(entry.process()).await;
    let target = Endpoint {
        name: name.to_string(),
        port: facts.port,
        tls: facts.protocol == Protocol::Tls,
        process: process.clone(),
    };
    let dial = dial_of(edge, name, facts);
    let note: Note = {
        let (edge, host, port, verdict) =
            (edge.clone(), name.to_string(), facts.port, verdict.clone());
        Arc::new(move |note: RequestNote| {
            let mut record = edge.record(AttemptKind::Request, &verdict);
            if let Some(refused) = &note.refused {
                record.allowed = false;
                record.code = Some(Reason::Request.code().into());
                record.reason = Some(refused.clone());
            }
            record.host = Some(host.clone());
            record.port = Some(port);
            record.process = process.clone();
            record.sent = note.sent;
            record.received = note.received;
            record.duration_ms = u64::try_from(note.duration.as_millis()).unwrap_or(u64::MAX);
            record.request = Some(note.to_json());
            record.bodies = note.bodies;
            edge.append_redacted(&mut record);
        })
    };
    let mut changes = edge.watch_policy();
    tokio::select! {
        () = terminator.serve(client, target, dial, note) => Box::pin(entry.closed(None)).await,
        denied = forbidden(edge, &mut changes, facts) => Box::pin(entry.denied(&denied)).await,
    }
}

#[cfg(test)]
mod tests;
