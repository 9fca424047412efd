//! The name that a connection gives for its target, in the only form that is compared.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::{HostName, ascii_form};

/// How much of an invalid name is shown.
const SHOWN: usize = 64;

/// What a connection claims to be for. The bytes come from a room, so they may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    None,
    Name(HostName),
    /// An address in place of a name, in any form that resolvers accept.
    Address(IpAddr),
    /// Neither: a zero byte, an empty label, characters that are not allowed in names.
    Bad(String),
}

impl Claim {
    /// Parses a host without a port. Internationalized names are converted to ASCII before anything is compared
    /// (`bücher.de`, `xn--bcher-kva.de`); their digits and dots count as ASCII ones.
    pub fn of(host: &[u8]) -> Self {
        if host.is_empty() {
            return Self::None;
        }
        let bad = || Self::Bad(shown(host));
        let Ok(text) = std::str::from_utf8(host) else { return bad() };
        let Some(ascii) = ascii_form(text) else { return bad() };
        let text = &*ascii;
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(inner) = bracketed {
            return inner.parse::<Ipv6Addr>().map_or_else(|_| bad(), |at| Self::Address(at.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Self::Address(address);
        }
        let bare = text.strip_suffix('.').unwrap_or(text);
        if let Some(address) = parse_ipv4_loosely(bare) {
            return Self::Address(address.into());
        }
        text.parse().map_or_else(|_| bad(), Self::Name)
    }

    /// Parses a host with an optional port, as in `Host` and CONNECT.
    pub fn with_port(authority: &[u8]) -> (Self, Option<u16>) {
        let end = match authority.iter().position(|byte| *byte == b']') {
            Some(end) if authority.first() == Some(&b'[') => Some(end + 1),
            Some(_) => return (Self::Bad(shown(authority)), None),
            None => authority.iter().position(|byte| *byte == b':'),
        };
        let Some(end) = end.filter(|end| *end < authority.len()) else {
            return (Self::of(authority), None);
        };
        let (host, port) = authority.split_at(end);
        let digits = &port[1..];
        let number = std::str::from_utf8(digits).ok().filter(|_| port[0] == b':');
        let number = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number {
            // `host:` means the default port.
            Some("") => (Self::of(host), None),
            Some(text) => match text.parse::<u16>() {
                Ok(port) => (Self::of(host), Some(port)),
                Err(_) => (Self::Bad(shown(authority)), None),
            },
            None => (Self::Bad(shown(authority)), None),
        }
    }

    /// Returns the name, if it is one.
    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// Escapes and truncates bytes.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let text = cut.escape_ascii().to_string();
    if cut.len() < bytes.len() { format!("{text}…") } else { text }
}

/// Parses an IPv4 address as resolvers do: up to four parts, each decimal, octal or hexadecimal, with the last filling
/// the remaining bytes (`127.1`, `0x7f.1`, `2130706433`).
pub fn parse_ipv4_loosely(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last().filter(|(_, first)| first.len() < 4)?;
    let mut bits: u64 = 0;
    for part in first {
        bits = (bits << 8) | number(part).filter(|part| *part < 256)?;
    }
    let left = 32 - 8 * u32::try_from(first.len()).ok()?;
    let last = number(last).filter(|last| *last < 1 << left)?;
    u32::try_from((bits << left) | last).ok().map(Ipv4Addr::from_bits)
}

fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(rest) => (rest, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    // `0x` alone counts as zero; signs are not allowed.
    if digits.is_empty() && radix == 16 {
        return Some(0);
    }
    let sound = digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits.len() <= 12;
    if sound { u64::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_an_address_is_one() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7F000001", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::1]", "::1"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("169.254.43518", "169.254.169.254"),
            ("１２７。０。０。１", "127.0.0.1"),
        ] {
            assert_eq!(
                Claim::of(text.as_bytes()),
                Claim::Address(address.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn names_have_one_form_and_others_are_none() {
        let name = |text: &str| Claim::Name(text.parse().unwrap());
        assert_eq!(Claim::of(b"GitHub.COM."), name("github.com"));
        assert_eq!(Claim::of(b"xn--bcher-kva.de"), name("xn--bcher-kva.de"));
        assert_eq!(Claim::of("Bücher.DE".as_bytes()), name("xn--bcher-kva.de"));
        assert_eq!(Claim::of("bu\u{308}cher。de".as_bytes()), name("xn--bcher-kva.de"));
        assert_eq!(Claim::of("ｇｉｔｈｕｂ．ｃｏｍ".as_bytes()), name("github.com"));
        assert_eq!(Claim::of("日本語。ＪＰ".as_bytes()), name("xn--wgv71a119e.jp"));
        assert_eq!(Claim::of(b""), Claim::None);
        for bad in [
            &b"evil.example\0.github.com"[..],
            b"xn--bcher-kva-.de",
            b"xn--github-.com",
            b"xn--.com",
            "a\u{200b}..b".as_bytes(),
            "xn--bücher.de".as_bytes(),
            "\u{fffd}.de".as_bytes(),
            "אa.example".as_bytes(),
            b"a..b",
            b".",
            b"github.com..",
            b"a b",
            b"\xff\xfe",
            b"256.1.1.1",
            b"1.2.3.4.5",
            b"[::1",
            b"[127.0.0.1]",
            b"github.com%2eevil",
        ] {
            assert!(matches!(Claim::of(bad), Claim::Bad(_)), "{bad:?} is {:?}", Claim::of(bad));
        }
    }

    #[test]
    fn a_port_is_split_off() {
        let name = |text: &str| Claim::Name(text.parse().unwrap());
        assert_eq!(Claim::with_port(b"a.b:80"), (name("a.b"), Some(80)));
        assert_eq!(Claim::with_port(b"a.b:"), (name("a.b"), None));
        assert_eq!(Claim::with_port(b"a.b"), (name("a.b"), None));
        assert_eq!(
            Claim::with_port(b"[::1]:443"),
            (Claim::Address("::1".parse().unwrap()), Some(443))
        );
        for bad in
            [&b"a.b:x"[..], b"a.b:99999", b"[::1]x", b"a]:1", b"a:b:c", b"a.b:+80", b"a:\x0080"]
        {
            assert!(matches!(Claim::with_port(bad), (Claim::Bad(_), None)), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let (claim, _) = Claim::with_port(&bytes);
            if let Claim::Name(name) = claim {
                prop_assert!(name.as_str().is_ascii());
                prop_assert_eq!(Claim::of(name.as_str().as_bytes()), Claim::Name(name));
            }
        }

        #[test]
        fn a_plain_address_is_read_as_it_is_everywhere(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(parse_ipv4_loosely(&address.to_string()), Some(address));
            prop_assert_eq!(parse_ipv4_loosely(&bits.to_string()), Some(address));
            prop_assert_eq!(parse_ipv4_loosely(&format!("{bits:#x}")), Some(address));
            prop_assert_eq!(parse_ipv4_loosely(&format!("0{bits:o}")), Some(address));
        }
    }
}
