//! The head of an HTTP/1 request, as far as a decision needs it.

use hothouse_model::policy::Claim;

use super::Read;

/// The maximum length of a head.
pub const HEAD_LIMIT: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// The maximum length of a method.
const METHOD_LIMIT: usize = 24;

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    /// The raw target: a path, or an absolute URL.
    pub target: String,
    pub claim: Claim,
    pub port: Option<u16>,
    /// Whether URL and `Host` name different hosts, or there are two `Host` headers.
    pub contradicts: bool,
    /// Whether the client prefers JSON.
    pub wants_json: bool,
}

/// Returns whether bytes can be the start of a request: a method in capitals, a space, a target.
pub fn is_start(bytes: &[u8]) -> bool {
    let method =
        bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    match bytes.get(method) {
        None => method > 0 && method <= METHOD_LIMIT,
        Some(b' ') if (1..=METHOD_LIMIT).contains(&method) => {
            bytes.get(method + 1).is_none_or(|byte| byte.is_ascii_graphic())
        }
        Some(_) => false,
    }
}

/// Returns whether the first line claims to be HTTP, even if the rest is invalid.
pub fn says_http(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.windows(6).any(|part| part == b" HTTP/")
}

/// Parses the head of a request.
pub fn read(bytes: &[u8]) -> Read<Head> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_LIMIT => {
            request_of(&request).map_or(Read::Broken, Read::Done)
        }
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_LIMIT => Read::More,
        _ => Read::Broken,
    }
}

fn request_of(request: &httparse::Request<'_, '_>) -> Option<Head> {
    let (method, target) = (request.method?, request.path?);
    let named = |name: &'static str| {
        let of =
            request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        of.map(|header| header.value.trim_ascii())
    };
    let hosts: Vec<&[u8]> = named("host").collect();
    let (mut claim, mut port) =
        hosts.first().map_or((Claim::None, None), |host| Claim::with_port(host));
    let mut contradicts = hosts.len() > 1;
    let authority = authority_of(method, target);
    if let Some(authority) = authority {
        let (by_target, target_port) = Claim::with_port(authority);
        contradicts |= !hosts.is_empty() && claim != by_target;
        (claim, port) = (by_target, target_port);
    }
    let wants_json = named("accept").any(|value| value.starts_with(b"application/json"));
    Some(Head {
        method: method.to_owned(),
        target: target.to_owned(),
        claim,
        port,
        contradicts,
        wants_json,
    })
}

/// Returns the host of an absolute target (RFC 9112, section 3.2), without user info before an `@`.
fn authority_of<'a>(method: &str, target: &'a str) -> Option<&'a [u8]> {
    if method == "CONNECT" {
        return Some(target.as_bytes());
    }
    let (_, rest) = target.split_once("://").filter(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Some(authority.rsplit('@').next().unwrap_or_default().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        match read(text.as_bytes()) {
            Read::Done(head) => head,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_host_is_found() {
        let plain = head("GET /a HTTP/1.1\r\nhost:  A.Example:8080 \r\n\r\n");
        assert_eq!((plain.claim, plain.port), (Claim::of(b"a.example"), Some(8080)));
        assert!(!plain.contradicts);
        let absolute = head("GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(absolute.claim, Claim::of(b"a.example"));
        assert!(!absolute.contradicts);
        let none = head("GET / HTTP/1.0\r\n\r\n");
        assert_eq!(none.claim, Claim::None);
        let connect = head("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n");
        assert_eq!((connect.claim, connect.port), (Claim::of(b"b.example"), Some(443)));
    }

    #[test]
    fn two_names_are_seen() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
            "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET http://a.example@b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ] {
            assert!(head(text).contradicts, "{text}");
        }
    }

    #[test]
    fn a_head_that_never_ends_is_broken() {
        let mut text = b"GET / HTTP/1.1\r\nX: ".to_vec();
        assert_eq!(read(&text), Read::More);
        text.resize(HEAD_LIMIT + 1, b'a');
        assert_eq!(read(&text), Read::Broken);
        assert_eq!(read(b"GET / HTTP/1.1\r\nHost a\r\n\r\n"), Read::Broken);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(read(many.as_bytes()), Read::Broken);
    }

    #[test]
    fn a_start_is_told_from_other_talk() {
        for (bytes, start) in [
            (&b"GET / HTTP"[..], true),
            (b"G", true),
            (b"PROPFIND /x", true),
            (b"SSH-2.0-x", false),
            (b"\x16\x03\x01", false),
            (b"get /", false),
            (b"", false),
            (b"EHLO\r\n", false),
        ] {
            assert_eq!(is_start(bytes), start, "{}", bytes.escape_ascii());
        }
    }
}
