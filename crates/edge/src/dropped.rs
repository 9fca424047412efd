//! What the packet rules dropped, written down: datagrams, echo requests, and whatever else is no
//! connection. The kernel tells of a bounded number each second.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_model::{
    ledger::AttemptKind,
    policy::{Reason, Transport, Verdict},
};
use rustix::io::Errno;
use tokio::{net::UnixDatagram, time::timeout};

use crate::{
    book::is_synthetic,
    entry::{LOOKUP_WAIT, LOOKUPS},
    room::RoomEdge,
    wire::packet::{self, Packet},
};

/// How long the same target is not noted again.
const QUIET: Duration = Duration::from_secs(60);
const QUIET_TARGETS: usize = 1024;

/// Where a packet was to go.
type Place = (Transport, IpAddr, Option<u16>);

/// Notes what is dropped, for as long as the room's kernel tells.
pub(crate) async fn serve(edge: Arc<RoomEdge>, socket: UnixDatagram) {
    let mut noted: HashMap<Place, Instant> = HashMap::new();
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        // Only now: most rooms drop nothing for most of their time.
        let mut buffer = vec![0; 16 << 10];
        let length = match socket.try_recv(&mut buffer) {
            Ok(length) => length,
            // More was dropped than the socket holds. It is a flood, and has its lines.
            Err(error) if is_passing(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "what the packet rules drop is no longer noted");
                return;
            }
        };
        for packet in packet::read_all(&buffer[..length]) {
            if is_news(&mut noted, &packet, Instant::now()) {
                note(&edge, &packet).await;
            }
        }
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    // A wake-up for nothing has no number: tokio says it in its own words.
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    error.kind() == std::io::ErrorKind::WouldBlock
        || matches!(errno, Some(Errno::NOBUFS | Errno::INTR))
}

fn is_news(noted: &mut HashMap<Place, Instant>, packet: &Packet, now: Instant) -> bool {
    let place = (packet.transport, packet.target, packet.ports.map(|ports| ports.target));
    if noted.get(&place).is_some_and(|at| now.duration_since(*at) < QUIET) {
        return false;
    }
    if noted.len() >= QUIET_TARGETS {
        noted.clear();
    }
    noted.insert(place, now);
    true
}

async fn note(edge: &RoomEdge, packet: &Packet) {
    let port = packet.ports.map(|ports| ports.target);
    let verdict = Verdict::refused(Reason::Datagram { transport: packet.transport, port });
    let mut record = edge.record(AttemptKind::Datagram, &verdict);
    record.host = edge.names_of(packet.target).first().map(ToString::to_string);
    record.address = Some(packet.target).filter(|address| !is_synthetic(*address));
    record.port = port;
    record.protocol = Some(packet.transport.to_string());
    if let (Some(ports), Ok(permit)) = (packet.ports, LOOKUPS.try_acquire()) {
        let processes = edge.processes.clone();
        let search = tokio::task::spawn_blocking(move || {
            let owner = processes.datagram_owner(ports.source);
            drop(permit);
            owner
        });
        // On a busy host the search takes long, and the next packets wait behind this one.
        record.process = timeout(LOOKUP_WAIT, search).await.ok().and_then(Result::ok).flatten();
    }
    edge.ledger.append(&mut record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_noted_once_a_minute_and_not_for_ever() {
        let mut noted = HashMap::new();
        let now = Instant::now();
        let packet = |last: u8| Packet {
            transport: Transport::Icmp,
            target: [8, 8, 8, last].into(),
            ports: None,
        };
        assert!(is_news(&mut noted, &packet(1), now));
        assert!(!is_news(&mut noted, &packet(1), now));
        assert!(is_news(&mut noted, &packet(2), now));
        assert!(is_news(&mut noted, &packet(1), now + QUIET));
        for number in 0..3000_u32 {
            let target = IpAddr::from(number.to_be_bytes());
            is_news(&mut noted, &Packet { target, ..packet(0) }, now);
        }
        assert!(noted.len() <= QUIET_TARGETS);
    }
}
