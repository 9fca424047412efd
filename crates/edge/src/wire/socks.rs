//! SOCKS version 5 (RFC 1928), without authentication, only for CONNECT.

use std::net::{Ipv4Addr, Ipv6Addr};

use hothouse_model::policy::Claim;

use super::{Cursor, Read};

pub const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;

/// The reply to a greeting: no authentication, or no acceptable method (RFC 1928, section 3).
pub const WELCOME: [u8; 2] = [VERSION, NO_AUTHENTICATION];
pub const NO_WAY: [u8; 2] = [VERSION, 0xff];

/// Replies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted = 0,
    Failed = 1,
    Denied = 2,
    NoCommand = 7,
    NoAddress = 8,
}

impl Answer {
    /// Encodes it, with a meaningless address, as most servers do.
    pub fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// A parsed request, or its error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Connect { claim: Claim, port: u16 },
    Refused(Answer),
}

/// Parses a greeting: whether it offers no authentication, and its length.
pub fn read_greeting(bytes: &[u8]) -> Read<(bool, usize)> {
    let mut cursor = Cursor::new(bytes);
    let Some(version) = cursor.byte() else { return Read::More };
    if version != VERSION {
        return Read::Broken;
    }
    let Some(methods) = cursor.prefixed(1) else { return Read::More };
    let length = bytes.len() - cursor.rest().len();
    Read::Done((methods.rest().contains(&NO_AUTHENTICATION), length))
}

/// Parses a request, and returns its length.
pub fn read_request(bytes: &[u8]) -> Read<(Asked, usize)> {
    let mut cursor = Cursor::new(bytes);
    let Some(head) = cursor.take(4) else { return Read::More };
    if head[0] != VERSION || head[2] != 0 {
        return Read::Broken;
    }
    let claim = match head[3] {
        1 => cursor.take(4).map(|octets| {
            let octets: [u8; 4] = octets.try_into().unwrap_or_default();
            Claim::Address(Ipv4Addr::from(octets).into())
        }),
        3 => cursor.prefixed(1).map(|name| match Claim::of(name.rest()) {
            Claim::None => Claim::Bad(String::new()),
            claim => claim,
        }),
        4 => cursor.take(16).map(|octets| {
            let octets: [u8; 16] = octets.try_into().unwrap_or_default();
            Claim::Address(Ipv6Addr::from(octets).into())
        }),
        _ => return Read::Done((Asked::Refused(Answer::NoAddress), bytes.len())),
    };
    let (Some(claim), Some(port)) = (claim, cursor.short()) else { return Read::More };
    let length = bytes.len() - cursor.rest().len();
    let asked = match head[1] {
        CONNECT => Asked::Connect { claim, port },
        _ => Asked::Refused(Answer::NoCommand),
    };
    Read::Done((asked, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_however_it_is_cut() {
        let name = [&[5, 1, 0, 3, 9][..], b"a.example", &[1, 187]].concat();
        let asked = Asked::Connect { claim: Claim::of(b"a.example"), port: 443 };
        assert_eq!(read_request(&name), Read::Done((asked.clone(), name.len())));
        assert_eq!(read_request(&[&name[..], b"x"].concat()), Read::Done((asked, name.len())));
        for end in 0..name.len() {
            assert_eq!(read_request(&name[..end]), Read::More);
        }
    }

    #[test]
    fn names_with_zero_bytes_are_not_names() {
        let request = [&[5, 1, 0, 3, 12][..], b"a.example\0.b", &[0, 80]].concat();
        let Read::Done((Asked::Connect { claim, .. }, _)) = read_request(&request) else {
            panic!()
        };
        assert!(matches!(claim, Claim::Bad(_)), "{claim:?}");
        let empty = read_request(&[5, 1, 0, 3, 0, 0, 80]);
        assert!(matches!(empty, Read::Done((Asked::Connect { claim: Claim::Bad(_), .. }, _))));
    }

    #[test]
    fn other_commands_and_versions_are_refused() {
        assert_eq!(read_greeting(&[4, 1]), Read::Broken);
        assert_eq!(read_greeting(&[5, 2, 0, 2]), Read::Done((true, 4)));
        assert_eq!(read_greeting(&[5, 1, 2]), Read::Done((false, 3)));
        assert_eq!(read_greeting(&[5, 1]), Read::More);
        let bind = read_request(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]);
        assert_eq!(bind, Read::Done((Asked::Refused(Answer::NoCommand), 10)));
        let odd = read_request(&[5, 1, 0, 9, 0]);
        assert_eq!(odd, Read::Done((Asked::Refused(Answer::NoAddress), 5)));
    }
}
