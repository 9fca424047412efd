//! Records what the nftables rules dropped: datagrams, echo requests, and everything else that is
//! not a connection. The kernel reports a limited number per second.

use std::sync::Arc;

use hothouse_host::ping;
use hothouse_model::policy::{Reason, Transport, Verdict};
use rustix::io::Errno;
use tokio::net::UnixDatagram;

use crate::{
    datagram::Facts,
    entry::Entry,
    room::RoomEdge,
    wire::packet::{self, Packet},
};

/// Records dropped packets for as long as the room's kernel reports them.
pub(crate) async fn serve(edge: Arc<RoomEdge>, socket: UnixDatagram) {
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        // Allocated only now: most rooms drop nothing most of the time.
        let mut buffer = vec![0; 16 << 10];
        let length = match socket.try_recv(&mut buffer) {
            Ok(length) => length,
            // More was dropped than the socket buffers. It is a flood, and some of it was recorded.
            Err(error) if is_passing(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "packets dropped by the nftables rules are no longer recorded");
                return;
            }
        };
        for packet in packet::read_all(&buffer[..length]) {
            note(&edge, &packet).await;
        }
    }
}

async fn note(edge: &Arc<RoomEdge>, packet: &Packet) {
    let port = packet.ports.map(|ports| ports.target);
    let facts = Facts::of(edge, packet.transport, packet.target, port);
    let mut verdict = facts.decide(edge);
    if verdict.allowed && packet.transport == Transport::Icmp && !ping::is_allowed() {
        verdict = Verdict::refused(Reason::NoEcho);
    }
    // A rule allows it by now, it only exceeded the rate limit, or it was recorded recently.
    if verdict.allowed || !edge.is_news((packet.transport, packet.target, port)) {
        return;
    }
    let source = packet.ports.map(|ports| ports.source);
    let mut entry =
        Entry::of_datagrams(edge.clone(), source, packet.transport, (packet.target, port));
    entry.host = facts.name().map(ToString::to_string);
    entry.denied(&verdict).await;
}

pub(crate) fn is_passing(error: &std::io::Error) -> bool {
    // A spurious wake-up has no errno: tokio reports it as its own error.
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    error.kind() == std::io::ErrorKind::WouldBlock
        || matches!(errno, Some(Errno::NOBUFS | Errno::INTR))
}
