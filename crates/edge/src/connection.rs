//! One connection of a room: read what it is, decide once, then refuse it or pass it on.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_model::{
    config::{EgressMode, HostName},
    ledger::AttemptKind,
    policy::{Attempt, Claim, Policy, Protocol, Reason, Verdict},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    book::is_synthetic,
    entry::Entry,
    plain,
    refuse::{self, Refusal},
    room::{DialError, RoomEdge, dial},
    splice,
    terminate::{Dial, Note, RequestNote, Rewound, Target, Terminate},
    wire::{
        Read,
        sniff::{self, SNIFF_LIMIT, Sniffed},
    },
};

/// How long a connection may take to say what it is, where that decides.
const GREETING: Duration = Duration::from_secs(10);
/// The same where it does not: on ports that a rule opens the server may speak first.
const GLANCE: Duration = Duration::from_millis(300);

/// How a connection came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It was made to its target, and caught.
    Caught,
    /// A tool asked for its target by a request to a proxy, and may ask for another by the next one.
    Asked,
}

/// Everything that a decision about a connection rests on, kept for when the policy changes.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) claim: Claim,
    /// Where it goes; none for a synthetic address.
    pub(crate) address: Option<IpAddr>,
    pub(crate) answered: Vec<HostName>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) hidden: bool,
    /// Whether its TLS will be opened.
    pub(crate) opened: bool,
}

impl Facts {
    /// Decides with a policy.
    pub(crate) fn decide(&self, policy: &Policy) -> Verdict {
        policy.decide(&Attempt {
            claim: &self.claim,
            address: self.address,
            answered: &self.answered,
            port: self.port,
            protocol: self.protocol,
            hidden: self.hidden,
            opened: self.opened,
        })
    }

    /// Returns the name that the connection goes by: its own, or the only one of its address.
    pub(crate) fn name(&self) -> Option<&HostName> {
        self.claim.name().or(match self.claim {
            Claim::None => self.answered.first(),
            _ => None,
        })
    }
}

/// Serves a connection to `target`, of which some bytes may have been read already. What follows the
/// decision is in boxes: a connection holds room for its own way, and not for the longest.
pub(crate) async fn serve(
    edge: Arc<RoomEdge>,
    mut stream: TcpStream,
    target: SocketAddr,
    first: Vec<u8>,
    way: Way,
) {
    let mut entry = Entry::begin(edge.clone(), stream.peer_addr().ok(), target);
    stream.set_nodelay(true).ok();
    rustix::net::sockopt::set_socket_keepalive(&stream, true).ok();
    let (first, sniffed) = match Box::pin(look(&edge, &mut stream, first, target.port())).await {
        Ok(seen) => seen,
        // It ended before it said anything.
        Err(_) => (Vec::new(), Sniffed::Other),
    };
    let facts = Box::pin(facts(&edge, &sniffed, target)).await;
    entry.protocol = Some(facts.protocol.as_str().into());
    entry.host = facts.name().map(ToString::to_string).or_else(|| match &facts.claim {
        Claim::Bad(text) => Some(text.clone()),
        _ => None,
    });
    let verdict = Box::pin(settled(&edge, &facts, &sniffed)).await;
    if !verdict.allowed {
        return Box::pin(deny(&edge, entry, stream, &sniffed, &verdict, target)).await;
    }
    let speaks_names = matches!(sniffed, Sniffed::Tls(_) | Sniffed::Http(_));
    let terminator = facts
        .name()
        .filter(|_| speaks_names)
        .and_then(|name| Some((name.clone(), edge.terminator(name, target.port())?)));
    if let Some((name, terminator)) = terminator {
        let client = Rewound::new(first, stream);
        let opened = terminated(&edge, entry, client, &facts, &verdict, (&name, terminator));
        return Box::pin(opened).await;
    }
    if matches!(sniffed, Sniffed::Http(_)) && (edge.policy().is_by_name() || way == Way::Asked) {
        let client = Rewound::new(first, stream);
        return Box::pin(plain::serve(edge, entry, client, facts, verdict, way)).await;
    }
    Box::pin(pass(&edge, entry, stream, first, (&facts, &sniffed), verdict, target)).await;
}

/// Reads the first bytes until it is clear what they are, or time is up.
async fn look(
    edge: &RoomEdge,
    stream: &mut TcpStream,
    mut first: Vec<u8>,
    port: u16,
) -> io::Result<(Vec<u8>, Sniffed)> {
    let matters = edge.policy().mode() != EgressMode::Open && Protocol::expected_on(port).is_some();
    let reading = async {
        loop {
            match sniff::read(&first) {
                Read::Done(sniffed) => return io::Result::Ok(sniffed),
                Read::More if first.len() < SNIFF_LIMIT => {}
                Read::More | Read::Broken => return Ok(Sniffed::Other),
            }
            if stream.read_buf(&mut first).await? == 0 {
                return Ok(Sniffed::Other);
            }
        }
    };
    let seen = timeout(if matters { GREETING } else { GLANCE }, reading).await;
    let sniffed = match seen {
        Ok(seen) => seen?,
        Err(_) if matters && !first.is_empty() => Sniffed::Broken(Protocol::Other),
        Err(_) => Sniffed::Other,
    };
    // Where a rule opens the port, talk that only looked like TLS or HTTP is other talk.
    let sniffed = match sniffed {
        Sniffed::Broken(_) if !matters => Sniffed::Other,
        sniffed => sniffed,
    };
    Ok((first, sniffed))
}

/// Collects what the decision rests on.
async fn facts(edge: &RoomEdge, sniffed: &Sniffed, target: SocketAddr) -> Facts {
    let address = target.ip();
    let mut answered = edge.names_of(address);
    let synthetic = is_synthetic(address) && !answered.is_empty();
    let claim = sniffed.claim();
    if let (false, Claim::Name(name)) = (synthetic, &claim)
        && !answered.contains(name)
        && leads_to(edge, name, target).await
    {
        answered.push(name.clone());
    }
    let is_tls = matches!(sniffed, Sniffed::Tls(_));
    let opened =
        is_tls && claim.name().is_some_and(|name| edge.terminator(name, target.port()).is_some());
    Facts {
        opened,
        claim,
        address: (!synthetic).then_some(address),
        answered,
        port: target.port(),
        protocol: sniffed.protocol(),
        hidden: matches!(sniffed, Sniffed::Tls(hello) if hello.hidden),
    }
}

/// Asks whether a name leads to an address, for rooms whose look-ups an earlier daemon answered.
async fn leads_to(edge: &RoomEdge, name: &HostName, target: SocketAddr) -> bool {
    let (policy, address) = (edge.policy(), target.ip());
    let named = Protocol::expected_on(target.port()).is_none();
    let counts = policy.mode() == EgressMode::Allowlist || named;
    if !counts || edge.is_own(name) || !policy.decide_name(name).allowed {
        return false;
    }
    let found = edge.resolver.addresses(name).await.unwrap_or_default();
    let leads = found.iter().any(|found| found.to_canonical() == address);
    if leads {
        edge.book().note(address, name, Instant::now());
    }
    leads
}

/// Decides, and again if it may have been a registry that nobody had asked the host's tools for yet.
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
    stream: TcpStream,
    sniffed: &Sniffed,
    verdict: &Verdict,
    target: SocketAddr,
) {
    let host = entry.host.clone();
    // It is written down first: whoever reads the refusal may ask why at once.
    entry.denied(verdict).await;
    let refusal = Refusal { verdict, host: host.as_deref(), target };
    refuse::refuse(stream, sniffed, &edge.about, &refusal).await;
}

/// Dials the target and passes bytes both ways, as long as the policy allows it.
async fn pass(
    edge: &RoomEdge,
    mut entry: Entry,
    stream: TcpStream,
    first: Vec<u8>,
    (facts, sniffed): (&Facts, &Sniffed),
    verdict: Verdict,
    target: SocketAddr,
) {
    let mut changes = edge.watch_policy();
    let mut outside = match reach(edge, facts).await {
        Ok(outside) => outside,
        Err(DialError::Denied(verdict)) => {
            return deny(edge, entry, stream, sniffed, &verdict, target).await;
        }
        Err(DialError::Failed(error)) => {
            let host = entry.host.clone().unwrap_or_else(|| target.to_string());
            entry.opened(&verdict).await;
            entry.closed(Some(format!("not reached: {error}"))).await;
            return refuse::unreachable(stream, sniffed, &host, &error).await;
        }
    };
    if let Ok(at) = outside.peer_addr() {
        entry.reached(at.ip());
    }
    entry.opened(&verdict).await;
    let counts = entry.counts.clone();
    let relay = async {
        outside.write_all(&first).await?;
        let length = u64::try_from(first.len()).unwrap_or(0);
        counts.sent.fetch_add(length, std::sync::atomic::Ordering::Relaxed);
        drop(first);
        splice::relay(&stream, &outside, &counts).await
    };
    tokio::select! {
        ended = relay => {
            if ended.is_err() {
                // Whoever broke it off, the other side shall know.
                stream.set_zero_linger().ok();
                outside.set_zero_linger().ok();
            }
            entry.closed(ended.err().map(|error| error.to_string())).await;
        }
        denied = forbidden(&mut changes, facts) => {
            stream.set_zero_linger().ok();
            outside.set_zero_linger().ok();
            entry.denied(&denied).await;
        }
    }
}

/// Returns when a new policy forbids a connection.
pub(crate) async fn forbidden(
    changes: &mut tokio::sync::watch::Receiver<Arc<Policy>>,
    facts: &Facts,
) -> Verdict {
    loop {
        let verdict = facts.decide(&changes.borrow_and_update());
        if !verdict.allowed {
            return verdict;
        }
        if changes.changed().await.is_err() {
            // The wall is being taken down, which ends this task.
            std::future::pending::<()>().await;
        }
    }
}

/// Reaches the target of a connection that was allowed.
pub(crate) async fn reach(edge: &RoomEdge, facts: &Facts) -> Result<TcpStream, DialError> {
    match (facts.address, facts.name()) {
        (Some(address), _) => {
            dial(SocketAddr::new(address, facts.port)).await.map_err(DialError::Failed)
        }
        (None, Some(name)) => edge.dial_name(name, facts.port).await,
        (None, None) => Err(DialError::Failed(io::ErrorKind::NotFound.into())),
    }
}

/// Hands a connection to what opens its host.
async fn terminated(
    edge: &Arc<RoomEdge>,
    mut entry: Entry,
    client: Rewound,
    facts: &Facts,
    verdict: &Verdict,
    (name, terminator): (&HostName, Arc<dyn Terminate>),
) {
    Box::pin(entry.opened(verdict)).await;
    let target =
        Target { name: name.to_string(), port: facts.port, tls: facts.protocol == Protocol::Tls };
    let dial: Dial = {
        // The name decides, not the address that the room was given.
        let facts = Facts { address: None, answered: vec![name.clone()], ..facts.clone() };
        let edge = edge.clone();
        Arc::new(move || {
            let (edge, facts) = (edge.clone(), facts.clone());
            Box::pin(async move {
                reach(&edge, &facts).await.map_err(|error| match error {
                    DialError::Denied(verdict) => {
                        io::Error::new(io::ErrorKind::PermissionDenied, verdict.why())
                    }
                    DialError::Failed(error) => error,
                })
            })
        })
    };
    let note: Note = {
        let (edge, host, port, verdict) =
            (edge.clone(), name.to_string(), facts.port, verdict.clone());
        Arc::new(move |note: RequestNote| {
            let mut record = edge.record(AttemptKind::Request, &verdict);
            if let Some(refused) = &note.refused {
                record.allowed = false;
                record.code = Some("request".to_owned());
                record.reason = Some(refused.clone());
            }
            record.host = Some(host.clone());
            record.port = Some(port);
            record.sent = note.sent;
            record.received = note.received;
            record.duration_ms = u64::try_from(note.duration.as_millis()).unwrap_or(u64::MAX);
            record.request = Some(serde_json::json!({
                "method": note.method, "path": note.path, "status": note.status, "detail": note.detail,
            }));
            edge.ledger.append(&mut record);
        })
    };
    let mut changes = edge.watch_policy();
    tokio::select! {
        () = terminator.serve(client, target, dial, note) => Box::pin(entry.closed(None)).await,
        denied = forbidden(&mut changes, facts) => Box::pin(entry.denied(&denied)).await,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        Settle,
        fixture::{policy, wall_of},
    };

    const EGRESS: &str = "mode = \"web\"\nallow = [\"@toolchain\"]\n";

    /// Tools that take a moment to name a registry, and count how often they are asked.
    struct Tools(Arc<AtomicUsize>);

    impl Settle for Tools {
        fn settle(&self) -> Pin<Box<dyn Future<Output = Option<Arc<Policy>>> + Send + '_>> {
            Box::pin(async {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Some(policy(EGRESS, &["registry.example", "files.example:8443"]).into())
            })
        }
    }

    fn facts(name: Option<&str>, address: &str, port: u16) -> Facts {
        let claim = name.map_or(Claim::None, |name| Claim::of(name.as_bytes()));
        Facts {
            answered: claim.name().cloned().into_iter().collect(),
            claim,
            address: Some(address.parse().unwrap()),
            port,
            protocol: Protocol::Tls,
            hidden: false,
            opened: false,
        }
    }

    #[tokio::test]
    async fn a_registry_that_nobody_knew_yet_is_asked_for_before_it_is_denied() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let tools = Box::new(Tools(asked.clone()));
        let edge = wall_of(policy(EGRESS, &[]), folder.path(), Vec::new(), Some(tools));
        let is_allowed = async |name, address, port| {
            settled(&edge, &facts(name, address, port), &Sniffed::Other).await.allowed
        };
        // What no registry can be is denied at once.
        assert!(!is_allowed(Some("x.example"), "169.254.169.254", 443).await);
        assert!(!is_allowed(None, "10.0.0.5", 443).await);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        assert!(is_allowed(Some("registry.example"), "10.0.0.5", 443).await);
        assert!(is_allowed(Some("files.example"), "1.2.3.4", 8443).await);
        assert!(!is_allowed(Some("other.example"), "10.0.0.5", 443).await);
        assert!(!is_allowed(Some("other.example"), "1.2.3.4", 8443).await);
        assert_eq!(asked.load(Ordering::Relaxed), 1, "and they are asked once");
    }
}
