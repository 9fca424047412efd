//! Identifies a connection by its first bytes.

use std::{io, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use hothouse_model::{config::EgressMode, policy::Protocol};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    room::RoomEdge,
    splice::Counts,
    wire::{
        Read, head,
        sniff::{self, SNIFF_LIMIT, Sniffed},
    },
};

/// How long a connection may take to identify itself, if the decision depends on it.
const GREETING: Duration = Duration::from_secs(10);
/// How long it may be silent if the decision does not: on ports that a rule allows, the server may
/// speak first.
const GLANCE: Duration = Duration::from_millis(300);

/// The first bytes of a connection, identified.
pub(super) struct Seen {
    pub(super) first: Vec<u8>,
    pub(super) sniffed: Sniffed,
    /// Whether the client was silent, where that is no reason to refuse.
    pub(super) is_silent: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self { first: Vec::new(), sniffed: Sniffed::Other, is_silent: false }
    }
}

/// Reads the first bytes until they are identified, or the time runs out.
pub(super) async fn look(
    edge: &RoomEdge,
    stream: &mut TcpStream,
    mut first: Vec<u8>,
    target: SocketAddr,
) -> io::Result<Seen> {
    let port = target.port();
    let expected =
        edge.policy().mode() != EgressMode::Open && Protocol::expected_on(port).is_some();
    let matters = expected || edge.covered_by(target.ip(), port).is_some();
    let glance = Instant::now() + if matters { GREETING } else { GLANCE };
    let greeting = Instant::now() + GREETING;
    let sniffed = loop {
        match sniff::read(&first) {
            Read::Done(sniffed) => break sniffed,
            Read::More if first.len() < SNIFF_LIMIT => {}
            Read::More | Read::Broken => break Sniffed::Broken(Protocol::Other),
        }
        // Once a client has started to identify itself it must finish: the rest could be intended
        // for after the decision.
        let until = if first.is_empty() { glance } else { greeting };
        match timeout_at(until, stream.read_buf(&mut first)).await {
            Ok(Ok(0)) => break Sniffed::Other,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) if !first.is_empty() => break Sniffed::Broken(Protocol::Other),
            Err(_) => return Ok(Seen { is_silent: !matters, ..Seen::default() }),
        }
    };
    // If a rule allows the port, bytes that merely look like HTTP count as another protocol.
    let sniffed = match sniffed {
        Sniffed::Broken(Protocol::Http) if !matters && !head::says_http(&first) => Sniffed::Other,
        sniffed => sniffed,
    };
    Ok(Seen { first, sniffed, is_silent: false })
}

/// The first bytes of a client that was silent at first.
pub(super) struct Heard {
    pub(super) first: Vec<u8>,
    pub(super) server_spoke: bool,
}

/// Relays the server's bytes until the client sends something, or either side ends.
pub(super) async fn hear(
    stream: &mut TcpStream,
    outside: &mut TcpStream,
    counts: &Counts,
) -> io::Result<Heard> {
    let mut server_spoke = false;
    loop {
        let mut first = Vec::new();
        tokio::select! {
            biased;
            read = stream.read_buf(&mut first) => {
                read?;
                return Ok(Heard { first, server_spoke });
            }
            ready = outside.readable() => ready?,
        }
        let mut said = Vec::with_capacity(16 << 10);
        match outside.try_read_buf(&mut said) {
            Ok(0) => return Ok(Heard { first: Vec::new(), server_spoke }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        server_spoke = true;
        let length = u64::try_from(said.len()).unwrap_or(0);
        counts.received.fetch_add(length, Ordering::Relaxed);
        stream.write_all(&said).await?;
    }
}
