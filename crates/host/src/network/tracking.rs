//! Queries to the kernel's connection tracking table: a redirected datagram no longer carries its
//! original destination, which only that table contains.

use super::netfilter::*;
use super::netlink::Message;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flow of datagrams as the room sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tracked {
    pub client: SocketAddr,
    pub target: SocketAddr,
    /// The kernel's id of the flow; a new flow between the same endpoints gets another one.
    pub id: u32,
}

const GET: u16 = (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET;
const FOUND: u16 = (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW;
/// The address attributes of an endpoint, for IPv4 and IPv6.
const SOURCE: (u16, u16) = (CTA_IP_V4_SRC, CTA_IP_V6_SRC);
const DESTINATION: (u16, u16) = (CTA_IP_V4_DST, CTA_IP_V6_DST);
const UDP: u8 = 17;

const HEAD: usize = 16;
/// The size of the netfilter header after the netlink header.
const OWN_HEAD: usize = 4;
/// The upper bits of an attribute's type are flags.
const KIND: u16 = 0x3fff;

/// Builds the query for the flow whose answers go from `at` to `from`.
pub(super) fn question(at: SocketAddr, from: SocketAddr, sequence: u32) -> Vec<u8> {
    let family = if at.is_ipv4() { NFPROTO_IPV4 } else { NFPROTO_IPV6 };
    let message = Message::new(GET, 0, sequence).raw(&[family, 0, 0, 0]);
    message.nest(CTA_TUPLE_REPLY, |m| tuple(m, at, from, UDP)).finish()
}

/// Encodes the two endpoints of one direction of a flow.
fn tuple(message: Message, from: SocketAddr, to: SocketAddr, protocol: u8) -> Message {
    let address = |m: Message, address: IpAddr, (v4, v6): (u16, u16)| match address {
        IpAddr::V4(address) => m.attribute(v4, &address.octets()),
        IpAddr::V6(address) => m.attribute(v6, &address.octets()),
    };
    message
        .nest(CTA_TUPLE_IP, |m| address(address(m, from.ip(), SOURCE), to.ip(), DESTINATION))
        .nest(CTA_TUPLE_PROTO, |m| {
            m.attribute(CTA_PROTO_NUM, &[protocol])
                .attribute(CTA_PROTO_SRC_PORT, &from.port().to_be_bytes())
                .attribute(CTA_PROTO_DST_PORT, &to.port().to_be_bytes())
        })
}

/// Returns the sequence number of the query that an answer belongs to.
pub(super) fn sequence(answer: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(answer.get(8..12)?.try_into().ok()?))
}

/// Parses an answer; returns `None` if it is not a UDP flow.
pub fn read_tracked(answer: &[u8]) -> Option<Tracked> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let size = u32::from_ne_bytes(answer.get(..4)?.try_into().ok()?);
    let message = answer.get(..usize::try_from(size).ok()?).filter(|_| kind == FOUND)?;
    let all = message.get(HEAD + OWN_HEAD..)?;
    let original = attribute(all, CTA_TUPLE_ORIG)?;
    let addresses = attribute(original, CTA_TUPLE_IP)?;
    let protocol = attribute(original, CTA_TUPLE_PROTO)?;
    let address = |(v4, v6): (u16, u16)| {
        let v4 = attribute(addresses, v4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let v6 = || <[u8; 16]>::try_from(attribute(addresses, v6)?).ok();
        match v4 {
            Some(octets) => Some(IpAddr::V4(Ipv4Addr::from(octets))),
            None => v6().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        }
    };
    let port = |kind| Some(u16::from_be_bytes(attribute(protocol, kind)?.try_into().ok()?));
    if attribute(protocol, CTA_PROTO_NUM)? != [UDP] {
        return None;
    }
    Some(Tracked {
        client: SocketAddr::new(address(SOURCE)?, port(CTA_PROTO_SRC_PORT)?),
        target: SocketAddr::new(address(DESTINATION)?, port(CTA_PROTO_DST_PORT)?),
        id: u32::from_be_bytes(attribute(all, CTA_ID)?.try_into().ok()?),
    })
}

/// Returns the value of the first attribute of a type.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (size, kind) = (usize::from(half(0)?), half(2)?);
        let value = rest.get(4..size)?;
        if kind & KIND == wanted {
            return Some(value);
        }
        rest = rest.get(size.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(client: SocketAddr, target: SocketAddr, protocol: u8) -> Vec<u8> {
        const STATUS: u16 = 3;
        let message = Message::new(FOUND, 0, 7).raw(&[NFPROTO_IPV4, 0, 0, 0]);
        message
            .nest(CTA_TUPLE_ORIG, |m| tuple(m, client, target, protocol))
            .nest(CTA_TUPLE_REPLY, |m| m.number(CTA_TUPLE_IP, 0))
            .number(STATUS, 8)
            .number(CTA_ID, 99)
            .finish()
    }

    #[test]
    fn a_flow_is_read_with_both_ends_and_rubbish_is_none() {
        for (client, target) in
            [("8.8.8.8:4000", "8.8.8.8:443"), ("[2001:db8::1]:4000", "[2001:db8::1]:123")]
        {
            let (client, target) = (client.parse().unwrap(), target.parse().unwrap());
            let bytes = answer(client, target, UDP);
            assert_eq!(read_tracked(&bytes), Some(Tracked { client, target, id: 99 }));
            assert_eq!(sequence(&bytes), Some(7));
            assert_eq!(read_tracked(&answer(client, target, 6)), None);
            for end in 0..bytes.len() {
                assert_eq!(read_tracked(&bytes[..end]), None);
            }
        }
    }

    #[test]
    fn a_question_names_the_answers_ends() {
        let bytes =
            question("127.0.0.1:15002".parse().unwrap(), "8.8.8.8:4000".parse().unwrap(), 3);
        assert_eq!(bytes[16], 2);
        let reply = attribute(&bytes[HEAD + OWN_HEAD..], CTA_TUPLE_REPLY).unwrap();
        let addresses = attribute(reply, CTA_TUPLE_IP).unwrap();
        assert_eq!(attribute(addresses, CTA_IP_V4_SRC), Some(&[127, 0, 0, 1][..]));
        assert_eq!(attribute(addresses, CTA_IP_V4_DST), Some(&[8, 8, 8, 8][..]));
        let ports = attribute(reply, CTA_TUPLE_PROTO).unwrap();
        assert_eq!(attribute(ports, CTA_PROTO_SRC_PORT), Some(&15_002_u16.to_be_bytes()[..]));
        assert_eq!(attribute(ports, CTA_PROTO_DST_PORT), Some(&4000_u16.to_be_bytes()[..]));
    }
}
