//! The DNS server of every room, on whatever address it queries.
//!
//! A name that the policy does not allow is never looked up upstream: it gets a synthetic address,
//! so that the attempt reaches us and is refused with a reason. So do hosts that we terminate, and
//! names that resolve to a loopback address which a rule allows, or to a synthetic one: inside the
//! room these addresses would mean something else.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_model::{
    config::HostName,
    policy::{Claim, Policy, Reason, Verdict},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use crate::{
    book::is_synthetic,
    budget, refuse,
    resolver::Found,
    room::RoomEdge,
    wire::dns::{self, CLASS_IN, Code, NoQuestion, Question, TYPE_A, TYPE_AAAA},
};

/// The TTL of a synthetic address: short, since a rule may soon allow the name.
const SYNTHETIC_TTL: u32 = 5;
const OWN_TTL: u32 = 5;

/// How many questions may be in progress; others are dropped, and clients retry.
const AT_ONCE: usize = 512;
const STREAMS: usize = 64;
const STREAM_IDLE: Duration = Duration::from_secs(10);
const LONGEST_QUESTION: usize = 4096;

/// Serves a datagram socket.
pub(crate) async fn serve_datagrams(edge: Arc<RoomEdge>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        // Denials are recorded, so wait for the record limit.
        edge.records.turn().await;
        // An idle room needs no buffer.
        if socket.readable().await.is_err() {
            return;
        }
        let mut buffer = [0; LONGEST_QUESTION];
        let (length, asker) = match socket.try_recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if is_passing(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "DNS questions are no longer answered");
                return;
            }
        };
        match read(&edge, &buffer[..length]) {
            Work::Silence => {}
            Work::Answer(answer) => {
                // With a full queue the answer is lost, as on a network.
                socket.try_send_to(&answer, asker).ok();
            }
            Work::Ask(question) => {
                let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
                let Some(share) = edge.take(budget::SOCKET) else {
                    socket.try_send_to(&question.empty(Code::Failed), asker).ok();
                    continue;
                };
                let (edge, socket) = (edge.clone(), socket.clone());
                tasks.spawn(async move {
                    let answer = question.cut(ask(&edge, &question).await);
                    socket.try_send_to(&answer, asker).ok();
                    drop((permit, share));
                });
            }
        }
    }
}

/// Returns whether a socket keeps working after an error, such as a closed port of a peer.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, WouldBlock,
    };
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | Interrupted | WouldBlock
    )
}

/// Serves a stream listener.
pub(crate) async fn serve_streams(edge: Arc<RoomEdge>, listener: TcpListener) {
    let permits = Arc::new(Semaphore::new(STREAMS));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Some((stream, _)) = crate::serve::accept(&listener).await else { return };
        let Some(share) = edge.take(2 * budget::SOCKET) else {
            refuse::reset(stream);
            continue;
        };
        let edge = edge.clone();
        tasks.spawn(async move {
            // A client that disconnects needs no answer.
            serve_stream(&edge, stream).await.ok();
            drop((permit, share));
        });
    }
}

async fn serve_stream(edge: &RoomEdge, mut stream: TcpStream) -> io::Result<()> {
    loop {
        let question = async {
            let length = usize::from(stream.read_u16().await?);
            if length > LONGEST_QUESTION {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).await?;
            Ok(bytes)
        };
        edge.records.turn().await;
        let bytes = timeout(STREAM_IDLE, question).await??;
        let answer = match read(edge, &bytes) {
            Work::Silence => return Ok(()),
            Work::Answer(answer) => answer,
            Work::Ask(question) => ask(edge, &question).await,
        };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        timeout(STREAM_IDLE, stream.write_all(&framed)).await??;
    }
}

/// What to do with a question.
enum Work {
    Silence,
    Answer(Vec<u8>),
    /// Query the host's resolvers.
    Ask(Question),
}

/// Answers what can be answered without waiting.
fn read(edge: &RoomEdge, bytes: &[u8]) -> Work {
    let question = match Question::read(bytes) {
        Ok(question) => question,
        Err(NoQuestion(None)) => return Work::Silence,
        Err(NoQuestion(Some(answer))) => return Work::Answer(answer),
    };
    match at_once(edge, &question) {
        Some(answer) => Work::Answer(question.cut(answer)),
        None => Work::Ask(question),
    }
}

fn at_once(edge: &RoomEdge, question: &Question) -> Option<Vec<u8>> {
    if question.class != CLASS_IN || dns::TYPE_WHOLESALE.contains(&question.kind) {
        return Some(question.empty(Code::Refused));
    }
    let name = match &question.claim {
        Claim::Name(name) => name,
        Claim::None => return Some(question.empty(Code::Fine)),
        // A name that ends in a number is never a host; others could not be compared.
        Claim::Address(_) => return Some(question.empty(Code::NoName)),
        Claim::Bad(text) => {
            let verdict = Verdict::refused(Reason::BadName(text.clone()));
            edge.note_denied_name(text, None, &verdict);
            return Some(question.empty(Code::NoName));
        }
    };
    if edge.is_own(name) {
        let own = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        return Some(question.addresses(&own, OWN_TTL));
    }
    // A name with a single label is not an Internet host; it names a service.
    if !name.as_str().contains('.') {
        return Some(question.empty(Code::NoName));
    }
    // Names of hosts that are answered here are never looked up outside, not even their TXT
    // records.
    if edge.policy().answers_for(name) {
        return Some(match question.kind {
            TYPE_A | TYPE_AAAA => synthetic(edge, question, name),
            _ => question.empty(Code::Fine),
        });
    }
    let verdict = edge.policy().decide_name(name);
    if !verdict.allowed {
        edge.note_denied_name(name.as_str(), Some(name), &verdict);
        return Some(match question.kind {
            TYPE_A | TYPE_AAAA => synthetic(edge, question, name),
            dns::TYPE_PTR => question.empty(Code::NoName),
            _ => question.empty(Code::Fine),
        });
    }
    match question.kind {
        TYPE_A | TYPE_AAAA if is_terminated(edge, name) => Some(synthetic(edge, question, name)),
        TYPE_A | TYPE_AAAA => {
            let found = edge.resolver.remembered(name, question.kind)?;
            Some(told(edge, question, name, &found))
        }
        // They can carry keys for encrypted names, and addresses that we would have to check.
        dns::TYPE_SVCB | dns::TYPE_HTTPS => Some(question.empty(Code::Fine)),
        // It would be looked up in another form than the one decided on.
        _ if !question.is_plain() => Some(question.empty(Code::NoName)),
        _ => None,
    }
}

/// Queries the host's resolvers.
async fn ask(edge: &RoomEdge, question: &Question) -> Vec<u8> {
    let Claim::Name(name) = &question.claim else { return question.empty(Code::Failed) };
    if !matches!(question.kind, TYPE_A | TYPE_AAAA) {
        let relayed = edge.resolver.relay(question).await;
        return relayed.unwrap_or_else(|_| question.empty(Code::Failed));
    }
    match edge.resolver.lookup(name, question.kind).await {
        Ok(found) => told(edge, question, name, &found),
        Err(error) => {
            tracing::debug!(%error, %name, "a name could not be looked up");
            edge.note_unresolved(name, format!("not looked up: {error}"));
            question.empty(Code::Failed)
        }
    }
}

/// Builds the answer for the room, and remembers its addresses.
fn told(edge: &RoomEdge, question: &Question, name: &HostName, found: &Found) -> Vec<u8> {
    if !found.exists {
        edge.note_unresolved(name, "the name does not exist".to_owned());
        return question.empty(Code::NoName);
    }
    let policy = edge.policy();
    if found.addresses.iter().any(|at| means_otherwise(&policy, *at)) {
        return synthetic(edge, question, name);
    }
    let now = Instant::now();
    let mut book = edge.book();
    found.addresses.iter().for_each(|address| book.note(*address, name, now));
    drop(book);
    question.addresses(&found.addresses, found.ttl)
}

/// Returns whether an address would mean something else inside the room.
fn means_otherwise(policy: &Policy, address: IpAddr) -> bool {
    let opened = || policy.names_address(address);
    is_synthetic(address) || address.to_canonical().is_loopback() && opened()
}

fn synthetic(edge: &RoomEdge, question: &Question, name: &HostName) -> Vec<u8> {
    let addresses = edge.book().synthesize(name);
    question.addresses(&addresses, SYNTHETIC_TTL)
}

fn is_terminated(edge: &RoomEdge, name: &HostName) -> bool {
    [443, 80].iter().any(|port| edge.terminator(name, *port).is_some())
}

impl RoomEdge {
    /// Returns the address that the room would get for a name, for clients of the proxy.
    pub(crate) async fn address_for(&self, name: &HostName) -> Option<IpAddr> {
        if self.is_own(name) || !name.as_str().contains('.') {
            return None;
        }
        if !self.policy().decide_name(name).allowed || is_terminated(self, name) {
            return Some(self.book().synthesize(name)[0]);
        }
        let found = self.resolver.addresses(name).await.ok()?;
        let policy = self.policy();
        if found.iter().any(|at| means_otherwise(&policy, *at)) {
            return Some(self.book().synthesize(name)[0]);
        }
        let now = Instant::now();
        let mut book = self.book();
        found.iter().for_each(|address| book.note(*address, name, now));
        found.first().copied()
    }
}

#[cfg(test)]
mod tests;
