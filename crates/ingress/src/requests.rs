//! What a client asks of a direct port, judged as it passes: the head of each request names a host, and the length of
//! its body tells where the next one begins. Pure.
//!
//! Only HTTP/1 can be read like this. Behind TLS only the name in the ClientHello is visible, and HTTP/2 without TLS,
//! which no browser speaks, compresses its heads.

use httparse::{EMPTY_HEADER, Header, Status};
use rustls::server::Acceptor;

use crate::names::ZONE;

/// The maximum length of a head, and of what lies between the pieces of a body.
const HEAD_LIMIT: usize = 64 << 10;

const MAX_HEADERS: usize = 128;

/// A fatal alert, unrecognized name (RFC 6066, section 3).
const UNRECOGNIZED: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

const MISDIRECTED: &[u8] = b"HTTP/1.1 421 Misdirected Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nthis port is another app's; use its URL, or 127.0.0.1\n";

/// A request for a host that is not the app's, or one whose host or length is unclear; with the answer to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misdirected(pub(crate) &'static [u8]);

/// What the next bytes of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The head of a request, or another protocol where one may begin.
    Head,
    /// So many bytes of a body.
    Body(u64),
    /// The length of a piece of a body.
    Length,
    /// So many bytes of a piece.
    Piece(u64),
    /// The line break after a piece.
    Break,
    Trailers,
    /// Something else, to the end.
    Other,
}

/// The requests of one client.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    /// The app's host name in our zone.
    own: Option<&'a str>,
    at: At,
    /// Whether something else than a request may follow: at the beginning, and after a request for another protocol.
    may_change: bool,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(own: Option<&'a str>) -> Self {
        Self { own, at: At::Head, may_change: true }
    }

    /// Returns whether the protocol may change after the last request.
    pub(crate) fn may_change(&self) -> bool {
        self.may_change
    }

    /// Reads no further: the app has changed the protocol.
    pub(crate) fn change(&mut self) {
        self.at = At::Other;
    }

    /// Returns how many of the bytes that wait may pass. Part of a request may not, even if the client has ended: it may
    /// contain cookies, and not yet its host.
    pub(crate) fn read(&mut self, bytes: &[u8], has_ended: bool) -> Result<usize, Misdirected> {
        let mut passed = 0;
        while let Some(length) = self.step(&bytes[passed..])? {
            passed += length;
        }
        let rest = &bytes[passed..];
        match has_ended {
            true if self.at == At::Head && claims_http(rest) => Err(refusal(rest)),
            true => Ok(bytes.len()),
            false if rest.len() >= HEAD_LIMIT => Err(refusal(rest)),
            false => Ok(passed),
        }
    }

    /// Reads one part; `None` if it is not complete.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, Misdirected> {
        let read = match self.at {
            _ if bytes.is_empty() => return Ok(None),
            At::Head => return self.head(bytes),
            At::Other => return Ok(Some(bytes.len())),
            At::Body(left) => return Ok(Some(self.take(bytes, left, At::Body, At::Head))),
            At::Piece(left) => return Ok(Some(self.take(bytes, left, At::Piece, At::Break))),
            At::Length => match httparse::parse_chunk_size(bytes).map_err(|_| refusal(bytes))? {
                Status::Complete((length, 0)) => Some((length, At::Trailers)),
                Status::Complete((length, size)) => Some((length, At::Piece(size))),
                Status::Partial => None,
            },
            At::Break => match bytes {
                [b'\r', b'\n', ..] => Some((2, At::Length)),
                b"\r" => None,
                _ => return Err(refusal(bytes)),
            },
            At::Trailers => {
                let mut headers = [EMPTY_HEADER; MAX_HEADERS];
                match httparse::parse_headers(bytes, &mut headers).map_err(|_| refusal(bytes))? {
                    Status::Complete((length, _)) => Some((length, At::Head)),
                    Status::Partial => None,
                }
            }
        };
        Ok(read.map(|(length, next)| {
            self.at = next;
            length
        }))
    }

    /// Takes what has come of a known length.
    fn take(&mut self, bytes: &[u8], left: u64, rest: fn(u64) -> At, next: At) -> usize {
        let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.at = match left - length as u64 {
            0 => next,
            left => rest(left),
        };
        length
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Misdirected> {
        match look(bytes) {
            Look::Partial => Ok(None),
            Look::Request(request) if self.answers_to(&request.hosts) => {
                (self.at, self.may_change) = (request.body, request.may_change);
                Ok(Some(request.length))
            }
            Look::Other(hosts) if self.may_change && self.answers_to(&hosts) => {
                (self.at, self.may_change) = (At::Other, false);
                Ok(Some(bytes.len()))
            }
            Look::Request(_) | Look::Other(_) | Look::Broken => Err(refusal(bytes)),
        }
    }

    fn answers_to(&self, hosts: &[String]) -> bool {
        hosts.iter().all(|host| is_allowed(host, self.own))
    }
}

/// The answer to bytes that may not pass.
fn refusal(bytes: &[u8]) -> Misdirected {
    Misdirected(if is_tls(bytes) { &UNRECOGNIZED } else { MISDIRECTED })
}

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Partial,
    Request(Head),
    /// Another protocol, and the hosts that the client names in it.
    Other(Vec<String>),
    /// A request whose host or length cannot be determined.
    Broken,
}

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    length: usize,
    hosts: Vec<String>,
    body: At,
    may_change: bool,
}

fn look(bytes: &[u8]) -> Look {
    if is_tls(bytes) || bytes == [22] {
        return greeted(bytes);
    }
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) => Look::Partial,
        Ok(Status::Complete(length)) => {
            head_of(&request, length).map_or(Look::Broken, Look::Request)
        }
        Err(_) if claims_http(bytes) => Look::Broken,
        Err(_) => Look::Other(Vec::new()),
    }
}

fn is_tls(bytes: &[u8]) -> bool {
    // A handshake record, in any TLS version that is still in use.
    bytes.starts_with(&[22, 3])
}

/// Returns whether the first line claims to be that of an HTTP/1 request, even if the rest is invalid.
fn claims_http(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.windows(7).any(|part| part == b" HTTP/1")
}

fn head_of(request: &httparse::Request<'_, '_>, length: usize) -> Option<Head> {
    let (method, target, version) = (request.method?, request.path?, request.version?);
    let is_connect = method == "CONNECT";
    let authority = match target.split_once("://") {
        Some((_, rest)) => rest.split(['/', '?', '#']).next(),
        None => is_connect.then_some(target),
    };
    let authority = authority.and_then(|authority| authority.rsplit('@').next());
    let hosts = values(request.headers, "host").chain(authority).map(str::to_owned).collect();
    let body = if is_connect { At::Head } else { body_of(request.headers, version)? };
    let may_change = is_connect || values(request.headers, "upgrade").next().is_some();
    Some(Head { length, hosts, body, may_change })
}

/// Returns how a body begins; `None` if its length is unclear (RFC 9112, section 6.3).
fn body_of(headers: &[Header<'_>], version: u8) -> Option<At> {
    let mut lengths = values(headers, "content-length").flat_map(|value| value.split(','));
    let mut codings = values(headers, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Some(At::Head),
        (None, Some(coding)) => {
            let is_plain = coding.trim().eq_ignore_ascii_case("chunked");
            (is_plain && codings.next().is_none() && version == 1).then_some(At::Length)
        }
        (Some(length), None) => {
            let length = length.trim();
            let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
            let is_one = lengths.all(|other| other.trim() == length);
            let length = length.parse().ok().filter(|_| is_number && is_one)?;
            Some(if length == 0 { At::Head } else { At::Body(length) })
        }
        (Some(_), Some(_)) => None,
    }
}

/// Returns the values of a header. One that is not text is not plain either: it names no host and no length.
fn values<'a>(headers: &'a [Header<'_>], name: &str) -> impl Iterator<Item = &'a str> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| std::str::from_utf8(header.value).unwrap_or("?"))
}

/// Parses the name in a ClientHello.
fn greeted(bytes: &[u8]) -> Look {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        if acceptor.read_tls(&mut rest).is_err() {
            return Look::Broken;
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Look::Other(name.into_iter().collect());
            }
            Err(_) => return Look::Broken,
        }
    }
    Look::Partial
}

/// Returns whether a port may answer to a host: one outside our zone, or the app's own.
fn is_allowed(host: &str, own: Option<&str>) -> bool {
    // Whatever follows as the port.
    let name = host.trim().split(':').next().unwrap_or_default();
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let in_zone = name.rsplit_once('.').is_some_and(|(_, zone)| zone == ZONE);
    !in_zone || own == Some(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "web.a.shop.localhost";

    /// Returns the hosts that a client names, if it is clear.
    fn hosts(bytes: &[u8]) -> Result<Vec<String>, Look> {
        match look(bytes) {
            Look::Request(Head { hosts, .. }) | Look::Other(hosts) => Ok(hosts),
            unclear => Err(unclear),
        }
    }

    fn are(hosts: &[&str]) -> Result<Vec<String>, Look> {
        Ok(hosts.iter().map(|host| (*host).to_owned()).collect())
    }

    #[test]
    fn a_request_tells_its_hosts_as_soon_as_it_can() {
        assert_eq!(hosts(b"GET / HTTP/1.1\r\nHo"), Err(Look::Partial));
        assert_eq!(hosts(b"GET / HTTP/1.1\r\nHOST: a:1\r\n\r\n"), are(&["a:1"]));
        assert_eq!(hosts(b"GET / HTTP/1.0\r\n\r\n"), are(&[]));
        assert_eq!(hosts(b"*1\r\n$4\r\nPING\r\n"), are(&[]));
        assert_eq!(hosts(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), are(&[]));
        let two = b"GET http://x@c.localhost/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert_eq!(hosts(two), are(&["a", "b", "c.localhost"]));
        assert_eq!(hosts(b"CONNECT c.localhost:1 HTTP/1.1\r\n\r\n"), are(&["c.localhost:1"]));
        let many = format!("GET / HTTP/1.1\r\n{}Host: a\r\n\r\n", "a: b\r\n".repeat(200));
        assert_eq!(hosts(many.as_bytes()), Err(Look::Broken));
        assert_eq!(hosts(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"), Err(Look::Broken));
        assert_eq!(hosts(b"\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\n"), Err(Look::Broken));
    }

    #[test]
    fn a_client_of_tls_tells_its_host_too() {
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config =
            builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let name = "hothouse.localhost".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        for end in 1..hello.len() {
            assert_eq!(hosts(&hello[..end]), Err(Look::Partial), "{end}");
        }
        assert_eq!(hosts(&hello), are(&["hothouse.localhost"]));
        assert_eq!(hosts(&[22, 3, 1, 0, 4, 9, 9, 9, 9]), Err(Look::Broken));
        assert_eq!(Requests::new(None).read(&hello, false), Err(Misdirected(&UNRECOGNIZED)));
    }

    /// Returns what passes of a client that sends so many bytes at once, and then ends.
    fn passed(bytes: &[u8], at_once: usize) -> Result<usize, Misdirected> {
        let mut requests = Requests::new(Some(OWN));
        let (mut passed, mut come) = (0, 0);
        while come < bytes.len() {
            come = (come + at_once).min(bytes.len());
            passed += requests.read(&bytes[passed..come], false)?;
        }
        Ok(passed + requests.read(&bytes[passed..], true)?)
    }

    #[test]
    fn every_request_of_a_client_is_judged() {
        let bodies = [
            "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4, 4\r\n\r\nGET ",
            "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: Chunked\r\n\r\n\
             3;a=b\r\nGET\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "\r\nGET http://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        ];
        for (one, two) in bodies.iter().flat_map(|one| bodies.map(|two| (one, two))) {
            let (first, second) = (one.replace("HOST", "127.0.0.1:9"), two.replace("HOST", OWN));
            let bytes = first.clone() + &second;
            for at_once in [1, 2, 7, bytes.len()] {
                assert_eq!(passed(bytes.as_bytes(), at_once), Ok(bytes.len()), "{bytes}");
            }
            let bytes = first + &two.replace("HOST", "hothouse.localhost");
            for at_once in [1, 2, 7, bytes.len()] {
                let refused = Err(Misdirected(MISDIRECTED));
                assert_eq!(passed(bytes.as_bytes(), at_once), refused, "{bytes}");
            }
        }
    }

    #[test]
    fn a_request_whose_end_is_unclear_is_refused() {
        for headers in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: +3",
            "Content-Length: ",
            "Content-Length: 99999999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: \x0bchunked",
            "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n",
            "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
            "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        ] {
            let bytes = format!("POST / HTTP/1.1\r\nHost: {OWN}\r\n{headers}\r\n\r\n");
            assert_eq!(passed(bytes.as_bytes(), 1), Err(Misdirected(MISDIRECTED)), "{headers}");
        }
        let endless = "a: b\r\n".repeat(20_000);
        for begin in
            ["GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"]
        {
            let bytes = format!("{begin}{endless}");
            assert!(passed(bytes.as_bytes(), bytes.len()).is_err(), "{begin}");
        }
    }

    #[test]
    fn another_protocol_passes_where_it_may_begin() {
        let asks = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        let frames = b"\x81\x85abcde\r\nGET / HTTP/1.1\r\nHost: hothouse.localhost\r\n\r\n";
        for at_once in [1, 200] {
            assert_eq!(passed(frames, at_once), Ok(frames.len()));
            let both = [&asks[..], frames].concat();
            assert_eq!(passed(&both, at_once), Ok(both.len()));
            let neither = [&b"GET / HTTP/1.1\r\n\r\n"[..], frames].concat();
            assert_eq!(passed(&neither, at_once), Err(Misdirected(MISDIRECTED)));
        }
        let mut requests = Requests::new(None);
        assert_eq!(requests.read(asks, false), Ok(asks.len()));
        assert_eq!(requests.read(b"ls", false), Ok(0), "it could be a request");
        requests.change();
        assert_eq!(requests.read(b"ls", false), Ok(2));
    }

    #[test]
    fn a_client_that_ends_in_a_request_is_not_heard() {
        let begun = b"GET / HTTP/1.1\r\nCookie: a=b\r\nHost: hothouse.localhost\r\n";
        assert_eq!(passed(begun, 1), Err(Misdirected(MISDIRECTED)));
        for other in [&b"ping"[..], b"quit", b"\x16", b""] {
            assert_eq!(passed(other, 1), Ok(other.len()));
        }
    }

    #[test]
    fn a_port_answers_to_no_other_name_of_the_zone() {
        let own = Some("web.a.shop.localhost");
        for (host, allowed) in [
            ("127.0.0.1:43100", true),
            ("localhost:43100", true),
            ("my-host.example", true),
            ("web.a.shop.localhost:43100", true),
            ("WEB.a.shop.LOCALHOST.", true),
            ("hothouse.localhost:43100", false),
            ("web.b.shop.localhost:43100", false),
            ("evil.web.a.shop.localhost", false),
            ("hothouse.localhost:", false),
            ("hothouse.localhost:123456", false),
            ("HotHouse.Localhost..:80", false),
            ("0f0f.hothouse.localhost", false),
            ("[::1]:43100", true),
        ] {
            assert_eq!(is_allowed(host, own), allowed, "{host}");
        }
        assert!(!is_allowed("web.a.shop.localhost", None));
    }
}
