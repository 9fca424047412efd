//! Parses the kernel's reports of dropped packets: NFLOG netlink messages, each with the headers of
//! one packet. The messages are from the kernel, but the packets are from a room.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hothouse_model::policy::Transport;

/// A dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub transport: Transport,
    pub target: IpAddr,
    /// Destination and source port; only for UDP.
    pub ports: Option<Ports>,
}

/// The ports of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    pub target: u16,
    pub source: u16,
}

const MESSAGE_HEAD: usize = 16;
/// The size of the NFLOG header after the netlink header.
const LOG_HEAD: usize = 4;
const PACKET: u16 = 4 << 8;
const PAYLOAD: u16 = 9;
/// The upper bits of an attribute's type are flags.
const KIND: u16 = 0x3fff;

/// Parses the packets in a netlink message; invalid ones are skipped.
pub fn read_all(bytes: &[u8]) -> Vec<Packet> {
    payloads(bytes).into_iter().filter_map(read).collect()
}

/// Returns the packets in a netlink message, as far as they were copied.
pub(super) fn payloads(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let (Some(size), Some(kind)) = (word(bytes, 0), half(bytes, 4)) {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let Some(message) = bytes.get(..size).filter(|_| size >= MESSAGE_HEAD) else { break };
        if kind == PACKET {
            found.extend(payload(message));
        }
        bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the packet in a message.
fn payload(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message.get(MESSAGE_HEAD + LOG_HEAD..)?;
    loop {
        let (size, kind) = (usize::from(half(rest, 0)?), half(rest, 2)?);
        let value = rest.get(4..size)?;
        if kind & KIND == PAYLOAD {
            return Some(value);
        }
        rest = rest.get(size.next_multiple_of(4)..)?;
    }
}

/// Parses the headers of a packet.
fn read(packet: &[u8]) -> Option<Packet> {
    let (protocol, target, rest) = match packet.first()? >> 4 {
        4 => {
            let target: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            let head = usize::from(packet[0] & 15) * 4;
            (packet[9], IpAddr::from(Ipv4Addr::from(target)), packet.get(head.max(20)..))
        }
        6 => {
            let target: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let (protocol, rest) = after_options(packet[6], packet.get(40..).unwrap_or_default());
            (protocol, IpAddr::from(Ipv6Addr::from(target)), Some(rest))
        }
        _ => return None,
    };
    let transport = match protocol {
        17 => Transport::Udp,
        1 | 58 => Transport::Icmp,
        other => Transport::Other(other),
    };
    let port = |at: usize| Some(u16::from_be_bytes(rest?.get(at..at + 2)?.try_into().ok()?));
    let ports = match (transport, port(0), port(2)) {
        (Transport::Udp, Some(source), Some(target)) => Some(Ports { target, source }),
        _ => None,
    };
    Some(Packet { transport, target: target.to_canonical(), ports })
}

/// Skips IPv6 extension headers (RFC 8200, section 4).
fn after_options(mut protocol: u8, mut rest: &[u8]) -> (u8, &[u8]) {
    const FRAGMENT: u8 = 44;
    while let (0 | 43 | 60 | FRAGMENT, [next, length, ..]) = (protocol, rest) {
        let size = if protocol == FRAGMENT { 8 } else { (usize::from(*length) + 1) * 8 };
        let Some(behind) = rest.get(size..) else { break };
        (protocol, rest) = (*next, behind);
    }
    (protocol, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(packet: &[u8]) -> Vec<u8> {
        let attribute = |kind: u16, value: &[u8]| {
            let size = u16::try_from(4 + value.len()).unwrap();
            let mut all = [&size.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
            all.resize(all.len().next_multiple_of(4), 0);
            all
        };
        let body = [vec![2, 0, 0, 1], attribute(1, &[8, 0, 3, 0]), attribute(9, packet)].concat();
        let size = u32::try_from(16 + body.len()).unwrap();
        [&size.to_ne_bytes()[..], &PACKET.to_ne_bytes(), &[0; 10], &body].concat()
    }

    fn v4(protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 8, 8, 8, 8];
        packet.extend(rest);
        packet
    }

    #[test]
    fn packets_are_read_with_their_ports() {
        let udp = v4(17, &[0x30, 0x39, 1, 0xbb, 0, 9, 0, 0, 0]);
        let mut six = vec![0x60, 0, 0, 0, 0, 16, 60, 64];
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        // Options before the datagram.
        six.extend([17, 0, 1, 4, 0, 0, 0, 0, 0x30, 0x39, 0, 123, 0, 8, 0, 0]);
        let all = [message(&udp), message(&v4(1, &[8, 0])), message(&six), message(b"x")].concat();
        let found = read_all(&all);
        let ports = |target| Some(Ports { target, source: 12345 });
        assert_eq!(
            found,
            [
                Packet {
                    transport: Transport::Udp,
                    target: [8, 8, 8, 8].into(),
                    ports: ports(443)
                },
                Packet { transport: Transport::Icmp, target: [8, 8, 8, 8].into(), ports: None },
                Packet {
                    transport: Transport::Udp,
                    target: "2001:db8::1".parse().unwrap(),
                    ports: ports(123)
                },
            ]
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read_all(&bytes);
            let found = read_all(&message(&bytes));
            prop_assert!(found.len() <= 1);
        }
    }
}
