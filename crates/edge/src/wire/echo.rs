//! Echo requests and replies: packets of a room, and messages of a socket on the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet;

/// An echo request of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub client: IpAddr,
    pub target: IpAddr,
    pub echo: Echo,
}

/// The content of a request or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Identifies the process in the room.
    pub identifier: u16,
    pub sequence: u16,
    pub data: Vec<u8>,
}

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
const HEAD_V4: usize = 20;
const HEAD_V6: usize = 40;
const HEAD: usize = 8;

/// Parses the requests in a netlink message; others, and incomplete ones, are skipped.
pub fn read_all(bytes: &[u8]) -> Vec<Request> {
    packet::payloads(bytes).into_iter().filter_map(read).collect()
}

fn read(packet: &[u8]) -> Option<Request> {
    match packet.first()? >> 4 {
        4 => {
            let length = usize::from(short(packet, 2)?);
            let head = usize::from(packet[0] & 15) * 4;
            let is_plain = packet.get(9) == Some(&ICMP) && length == packet.len();
            let message = packet.get(head.max(HEAD_V4)..).filter(|_| is_plain)?;
            let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(octets::<4>(packet, at)?)));
            let echo = read_message(message, REQUEST)?;
            Some(Request { client: address(12)?, target: address(16)?, echo })
        }
        6 => {
            let length = usize::from(short(packet, 4)?);
            let is_plain = packet.get(6) == Some(&ICMP_V6) && length + HEAD_V6 == packet.len();
            let message = packet.get(HEAD_V6..).filter(|_| is_plain)?;
            let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(octets::<16>(packet, at)?)));
            let echo = read_message(message, REQUEST_V6)?;
            Some(Request { client: address(8)?, target: address(24)?, echo })
        }
        _ => None,
    }
}

fn read_message(message: &[u8], kind: u8) -> Option<Echo> {
    let is_wanted = message.first() == Some(&kind) && message.get(1) == Some(&0);
    let data = message.get(HEAD..).filter(|_| is_wanted)?.to_vec();
    Some(Echo { identifier: short(message, 4)?, sequence: short(message, 6)?, data })
}

/// Parses a reply received on a socket of the host.
pub fn read_answer(bytes: &[u8], is_v4: bool, has_head: bool) -> Option<Echo> {
    let head = match (is_v4, has_head) {
        (true, true) => (usize::from(bytes.first()? & 15) * 4).max(HEAD_V4),
        _ => 0,
    };
    read_message(bytes.get(head..)?, if is_v4 { REPLY } else { REPLY_V6 })
}

/// Builds a request for a socket of the host; for IPv6 the kernel adds the checksum.
pub fn request(echo: &Echo, is_v4: bool) -> Vec<u8> {
    let mut message = message(echo, if is_v4 { REQUEST } else { REQUEST_V6 });
    if is_v4 {
        let sum = sum_of(0, &message);
        message[2..4].copy_from_slice(&sum);
    }
    message
}

/// Builds the packet that answers a request; `None` if the addresses are of different families.
pub fn answer(client: IpAddr, target: IpAddr, echo: &Echo) -> Option<Vec<u8>> {
    match (client, target) {
        (IpAddr::V4(client), IpAddr::V4(target)) => {
            let mut message = message(echo, REPLY);
            let sum = sum_of(0, &message);
            message[2..4].copy_from_slice(&sum);
            // The kernel fills in length, id and checksum.
            let head = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0];
            Some([&head[..], &target.octets(), &client.octets(), &message].concat())
        }
        (IpAddr::V6(client), IpAddr::V6(target)) => {
            let mut message = message(echo, REPLY_V6);
            let length = u16::try_from(message.len()).ok()?;
            let ends = [target.octets(), client.octets()].concat();
            let pseudo = [&ends[..], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, ICMP_V6]].concat();
            let sum = sum_of(partial_sum(0, &pseudo), &message);
            message[2..4].copy_from_slice(&sum);
            let [high, low] = length.to_be_bytes();
            let head = [0x60, 0, 0, 0, high, low, ICMP_V6, 64];
            Some([&head[..], &ends, &message].concat())
        }
        _ => None,
    }
}

fn message(echo: &Echo, kind: u8) -> Vec<u8> {
    let [identifier, sequence] = [echo.identifier, echo.sequence].map(u16::to_be_bytes);
    [&[kind, 0, 0, 0][..], &identifier, &sequence, &echo.data].concat()
}

/// Sums 16-bit words (RFC 1071).
fn partial_sum(start: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(2).fold(start, |sum, pair| {
        let word = [pair[0], pair.get(1).copied().unwrap_or(0)];
        sum + u64::from(u16::from_be_bytes(word))
    })
}

fn sum_of(start: u64, bytes: &[u8]) -> [u8; 2] {
    let mut sum = partial_sum(start, bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let [.., high, low] = (!sum).to_be_bytes();
    [high, low]
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(octets::<2>(bytes, at)?))
}

fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn echo() -> Echo {
        Echo { identifier: 77, sequence: 3, data: b"odd".to_vec() }
    }

    /// Turns a reply into the matching request.
    fn turned(mut packet: Vec<u8>) -> Vec<u8> {
        if packet[0] >> 4 == 4 {
            let length = u16::try_from(packet.len()).unwrap();
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[20] = REQUEST;
        } else {
            packet[40] = REQUEST_V6;
        }
        packet
    }

    #[test]
    fn what_is_written_can_be_read_and_is_summed() {
        for (client, target) in [("1.2.3.4", "8.8.8.8"), ("2001:db8::1", "2001:db8::2")] {
            let (client, target): (IpAddr, IpAddr) =
                (client.parse().unwrap(), target.parse().unwrap());
            let packet = answer(client, target, &echo()).unwrap();
            let read = read(&turned(packet.clone())).unwrap();
            // The sender of the reply is the target of the request.
            assert_eq!(read, Request { client: target, target: client, echo: echo() });
            let cut = turned(packet.clone());
            assert!((0..cut.len()).all(|end| super::read(&cut[..end]).is_none()));
            if target.is_ipv4() {
                assert_eq!(sum_of(0, &packet[20..]), [0, 0]);
                assert_eq!(read_answer(&packet, true, true), Some(echo()));
            } else {
                assert_eq!(read_answer(&packet[40..], false, false), Some(echo()));
                let pseudo = [&packet[8..40], &[0, 0, 0, 11, 0, 0, 0, 58]].concat();
                assert_eq!(sum_of(partial_sum(0, &pseudo), &packet[40..]), [0, 0]);
            }
        }
        assert_eq!(answer([1, 2, 3, 4].into(), "::1".parse().unwrap(), &echo()), None);
        let asked = request(&echo(), true);
        assert_eq!((asked[0], sum_of(0, &asked)), (REQUEST, [0, 0]));
        assert_eq!(read_answer(&asked, true, false), None, "a request is no answer");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120), is_v4: bool, has_head: bool
        ) {
            read_all(&bytes);
            read(&bytes);
            if let Some(echo) = read_answer(&bytes, is_v4, has_head) {
                prop_assert!(echo.data.len() <= bytes.len());
            }
        }
    }
}
