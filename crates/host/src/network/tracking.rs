//! Questions to the kernel's table of flows, and its answers: a redirected datagram has lost where it
//! was to go, and only that table remembers.

use super::netlink::Message;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A flow of datagrams as the room sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tracked {
    pub client: SocketAddr,
    pub target: SocketAddr,
    /// The kernel's number for the flow; another flow with the same ends has another.
    pub id: u32,
}

const GET: u16 = (1 << 8) | 1;
const FOUND: u16 = 1 << 8;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;
const ID: u16 = 12;
const UDP: u8 = 17;

const HEAD: usize = 16;
/// Netfilter's own head after that of netlink.
const OWN_HEAD: usize = 4;
/// The upper bits of an attribute's kind are flags.
const KIND: u16 = 0x3fff;

/// Asks for the flow whose answers go from `at` to `from`.
pub(super) fn question(at: SocketAddr, from: SocketAddr, sequence: u32) -> Vec<u8> {
    const INET: u8 = 2;
    const INET6: u8 = 10;
    let family = if at.is_ipv4() { INET } else { INET6 };
    let address = |m: Message, address: IpAddr, kind: u16| match address {
        IpAddr::V4(address) => m.attribute(kind, &address.octets()),
        IpAddr::V6(address) => m.attribute(kind + 2, &address.octets()),
    };
    let message = Message::new(GET, 0, sequence).raw(&[family, 0, 0, 0]);
    let message = message.nest(REPLY, |m| {
        m.nest(ADDRESSES, |m| address(address(m, at.ip(), 1), from.ip(), 2)).nest(PROTOCOL, |m| {
            m.attribute(1, &[UDP])
                .attribute(2, &at.port().to_be_bytes())
                .attribute(3, &from.port().to_be_bytes())
        })
    });
    message.finish()
}

/// Returns which question an answer is for.
pub(super) fn sequence(answer: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(answer.get(8..12)?.try_into().ok()?))
}

/// Reads an answer; nothing comes of one that is no flow of UDP.
pub fn read_tracked(answer: &[u8]) -> Option<Tracked> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let size = u32::from_ne_bytes(answer.get(..4)?.try_into().ok()?);
    let message = answer.get(..usize::try_from(size).ok()?).filter(|_| kind == FOUND)?;
    let all = message.get(HEAD + OWN_HEAD..)?;
    let original = attribute(all, ORIGINAL)?;
    let (addresses, protocol) = (attribute(original, ADDRESSES)?, attribute(original, PROTOCOL)?);
    let address = |kind: u16| {
        let v4 = attribute(addresses, kind).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let v6 = || <[u8; 16]>::try_from(attribute(addresses, kind + 2)?).ok();
        match v4 {
            Some(octets) => Some(IpAddr::V4(Ipv4Addr::from(octets))),
            None => v6().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        }
    };
    let port = |kind| Some(u16::from_be_bytes(attribute(protocol, kind)?.try_into().ok()?));
    if attribute(protocol, 1)? != [UDP] {
        return None;
    }
    Some(Tracked {
        client: SocketAddr::new(address(1)?, port(2)?),
        target: SocketAddr::new(address(2)?, port(3)?),
        id: u32::from_be_bytes(attribute(all, ID)?.try_into().ok()?),
    })
}

/// Returns the value of the first attribute of a kind.
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
        let ends = |m: Message| {
            let of = |m: Message, address: IpAddr, kind: u16| match address {
                IpAddr::V4(address) => m.attribute(kind, &address.octets()),
                IpAddr::V6(address) => m.attribute(kind + 2, &address.octets()),
            };
            m.nest(ADDRESSES, |m| of(of(m, client.ip(), 1), target.ip(), 2)).nest(PROTOCOL, |m| {
                m.attribute(1, &[protocol])
                    .attribute(2, &client.port().to_be_bytes())
                    .attribute(3, &target.port().to_be_bytes())
            })
        };
        let message = Message::new(FOUND, 0, 7).raw(&[2, 0, 0, 0]).nest(ORIGINAL, ends);
        message.nest(REPLY, |m| m.number(1, 0)).number(3, 8).number(ID, 99).finish()
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
        let reply = attribute(&bytes[HEAD + OWN_HEAD..], REPLY).unwrap();
        let addresses = attribute(reply, ADDRESSES).unwrap();
        assert_eq!(attribute(addresses, 1), Some(&[127, 0, 0, 1][..]));
        assert_eq!(attribute(addresses, 2), Some(&[8, 8, 8, 8][..]));
        let ports = attribute(reply, PROTOCOL).unwrap();
        assert_eq!(attribute(ports, 2), Some(&15_002_u16.to_be_bytes()[..]));
        assert_eq!(attribute(ports, 3), Some(&4000_u16.to_be_bytes()[..]));
    }
}
