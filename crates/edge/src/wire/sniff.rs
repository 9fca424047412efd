//! Identifies the protocol of a connection by its first bytes.

use hothouse_model::policy::{Claim, Protocol};

use super::{
    Read,
    head::{self, Head},
    hello::{self, Hello},
};

/// The maximum number of bytes read before a connection must be identified.
pub const SNIFF_LIMIT: usize = head::HEAD_LIMIT + 1;

const SSH_START: &[u8] = b"SSH-";
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The identified protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sniffed {
    Tls(Hello),
    Http(Box<Head>),
    /// HTTP/2 without TLS, whose host names we do not parse.
    Http2,
    Ssh,
    Other,
    /// It started like TLS or HTTP, but was invalid.
    Broken(Protocol),
}

impl Sniffed {
    /// Returns the protocol for the policy.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Tls(_) => Protocol::Tls,
            Self::Http(_) => Protocol::Http,
            Self::Ssh => Protocol::Ssh,
            Self::Broken(protocol) => *protocol,
            Self::Http2 | Self::Other => Protocol::Other,
        }
    }

    /// Returns the name that the connection states.
    pub fn claim(&self) -> Claim {
        match self {
            Self::Tls(hello) => hello.claim.clone(),
            Self::Http(head) => head.claim.clone(),
            _ => Claim::None,
        }
    }
}

/// Identifies the first bytes.
pub fn read(bytes: &[u8]) -> Read<Sniffed> {
    if bytes.is_empty() {
        return Read::More;
    }
    if hello::is_start(bytes) {
        return match hello::read(bytes) {
            Read::Done(hello) => Read::Done(Sniffed::Tls(hello)),
            Read::More => Read::More,
            Read::Broken => Read::Done(Sniffed::Broken(Protocol::Tls)),
        };
    }
    if is_prefix(bytes, SSH_START) {
        return if bytes.len() >= SSH_START.len() { Read::Done(Sniffed::Ssh) } else { Read::More };
    }
    if is_prefix(bytes, HTTP2_PREFACE) {
        let whole = bytes.len() >= HTTP2_PREFACE.len();
        return if whole { Read::Done(Sniffed::Http2) } else { Read::More };
    }
    if head::is_start(bytes) {
        return match head::read(bytes) {
            Read::Done(head) => Read::Done(Sniffed::Http(Box::new(head))),
            Read::More => Read::More,
            Read::Broken => Read::Done(Sniffed::Broken(Protocol::Http)),
        };
    }
    Read::Done(Sniffed::Other)
}

/// Returns whether one is a prefix of the other.
fn is_prefix(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(left, right)| left == right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        let protocol = |bytes: &[u8]| match read(bytes) {
            Read::Done(sniffed) => Some(sniffed.protocol()),
            _ => None,
        };
        assert_eq!(protocol(&hello::sample(Some("a.b"), false, 0)), Some(Protocol::Tls));
        assert_eq!(protocol(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(Protocol::Http));
        assert_eq!(protocol(b"SSH-2.0-OpenSSH_9\r\n"), Some(Protocol::Ssh));
        assert_eq!(protocol(b"\0\0\0\x08\x04\xd2\x16\x2f"), Some(Protocol::Other));
        assert_eq!(protocol(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Protocol::Other));
        assert_eq!(protocol(b"EHLO there\r\n"), Some(Protocol::Http), "a capital word and a space");
        for undecided in [&b""[..], b"S", b"SSH", b"GET / HT", b"\x16\x03", b"PRI * HTTP"] {
            assert_eq!(protocol(undecided), None, "{}", undecided.escape_ascii());
        }
    }
}
