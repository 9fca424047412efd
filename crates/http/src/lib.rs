//! What every proxy must know about HTTP: the host of a request, hop-by-hop headers, and upgrades.
//! Pure.

mod redact;

pub use redact::{redacted_headers, redacted_target};

use hyper::{
    HeaderMap, Request, Uri, Version,
    body::Frame,
    header::{self, HeaderName, HeaderValue},
    http::uri::Scheme,
};

/// Hop-by-hop headers (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Why the host of a request is unclear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    #[error("the request names no host")]
    None,
    #[error("the request names its host twice")]
    Twice,
    #[error("the request names two different hosts")]
    Different,
    #[error("the host is not plain text")]
    NotText,
    #[error("an address has no user here")]
    User,
}

/// Returns the host of a request, with its port if one is named: that of the request target, which `Host` must repeat
/// if present (RFC 9112, section 3.2). Every proxy uses this, so that no two of them disagree.
pub fn host_value<B>(request: &Request<B>) -> Result<HeaderValue, HostProblem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(HostProblem::Twice),
        (header, None) => header,
    };
    if header.is_some_and(|host| host.to_str().is_err()) {
        return Err(HostProblem::NotText);
    }
    let Some(authority) = request.uri().authority().map(|authority| authority.as_str()) else {
        return header.cloned().ok_or(HostProblem::None);
    };
    if authority.contains('@') {
        return Err(HostProblem::User);
    }
    let port = usual_port(request.uri());
    let is_same = |host: &HeaderValue| {
        bare(host.as_bytes(), port).eq_ignore_ascii_case(bare(authority.as_bytes(), port))
    };
    if header.is_some_and(|host| !is_same(host)) {
        return Err(HostProblem::Different);
    }
    HeaderValue::from_str(authority).map_err(|_| HostProblem::NotText)
}

/// Returns the suffix of the default port.
fn usual_port(uri: &Uri) -> &'static [u8] {
    if uri.scheme() == Some(&Scheme::HTTPS) { b":443" } else { b":80" }
}

/// Removes the default port from a host.
fn bare<'a>(host: &'a [u8], usual: &[u8]) -> &'a [u8] {
    host.strip_suffix(usual).unwrap_or(host)
}

/// Removes the hop-by-hop headers.
pub fn strip_hop_by_hop(headers: &mut HeaderMap, keep_trailers: bool) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // The two may disagree about where the message ends (RFC 9112, section 6.3). `Transfer-Encoding`
        // takes precedence and is not forwarded, so `Content-Length` must not be either.
        headers.remove(header::CONTENT_LENGTH);
    }
    if headers.contains_key(header::CONNECTION) {
        strip_named(headers);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
    if keep_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Removes the headers that `Connection` names, except those that determine the host and the length of the request.
fn strip_named(headers: &mut HeaderMap) {
    const KEPT: [&str; 5] = ["keep-alive", "close", "host", "content-length", "transfer-encoding"];
    let plain = |name: &str| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept));
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = values.flat_map(|value| value.split(',').map(str::trim));
    let named: Vec<_> = named.filter(|name| !plain(name)).map(str::to_ascii_lowercase).collect();
    for name in named {
        headers.remove(name.as_str());
    }
}

/// Removes headers that could make a host process another request than the one that was judged: with another method,
/// path or host.
pub fn strip_overrides(headers: &mut HeaderMap) {
    let told: Vec<HeaderName> =
        headers.keys().filter(|name| overrides(name.as_str())).cloned().collect();
    for name in told {
        headers.remove(name);
    }
}

/// Removes such headers from the trailers of a request, which some servers add to its headers.
pub fn plain_trailers<D>(frame: Frame<D>) -> Frame<D> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            strip_overrides(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

fn overrides(name: &str) -> bool {
    // CGI and its successors treat `X_A` and `X-A` as the same name.
    let name = name.replace('_', "-");
    // These describe the client rather than the request.
    const CLIENT: [&str; 6] = ["for", "proto", "port", "scheme", "ssl", "client-cert"];
    let forwarded = name.strip_prefix("x-forwarded-").filter(|rest| !CLIENT.contains(rest));
    let begins = ["x-original-", "x-rewrite-", "x-replaced-", "x-override-", "x-envoy-original-"];
    let named =
        ["forwarded", "http2-settings", "request-uri", "x-http-destinationurl", "x-script-name"];
    forwarded.is_some()
        || begins.iter().any(|begin| name.starts_with(begin))
        || named.contains(&name.as_str())
        || name.ends_with("-override")
        || restates(&name)
}

/// Returns whether a header names a part of the request line with only generic words before it: `x-http-method`,
/// `x-request-uri`, `x-host`. A service's own word in it (`x-shop-callback-url`) makes it data.
fn restates(name: &str) -> bool {
    const PARTS: [&str; 8] = ["method", "verb", "uri", "url", "path", "host", "pathname", "route"];
    const GENERAL: [&str; 16] = [
        "http",
        "request",
        "requested",
        "real",
        "proxy",
        "tunnel",
        "server",
        "backend",
        "upstream",
        "target",
        "actual",
        "effective",
        "internal",
        "invoke",
        "matched",
        "raw",
    ];
    // `_method` is a CGI name too. Alone, `host` is the request's own, and `path` or `url` may be data.
    const ALONE: [&str; 2] = ["method", "verb"];
    let (is_extension, rest) = match name.strip_prefix("x-").or_else(|| name.strip_prefix('-')) {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let (before, last) = rest.rsplit_once('-').unwrap_or(("", rest));
    PARTS.contains(&last)
        && (is_extension || !before.is_empty() || ALONE.contains(&last))
        && before.split('-').all(|word| word.is_empty() || GENERAL.contains(&word))
}

/// Returns the protocol that an HTTP/1.1 request asks for in its `Upgrade` header.
pub fn asked_upgrade<B>(request: &Request<B>) -> Option<HeaderValue> {
    let upgrade = request.headers().get(header::UPGRADE)?;
    let named = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|name| name.trim().eq_ignore_ascii_case("upgrade"))
        })
    };
    let connection = request.headers().get_all(header::CONNECTION).iter().any(named);
    (request.version() == Version::HTTP_11 && connection).then(|| upgrade.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn a_request_has_one_host() {
        let check = |uri: &str, headers: &[(&str, &str)], expected: Result<&str, ()>| {
            let found = host_value(&request(uri, headers));
            let found = found.as_ref().map(|host| host.to_str().unwrap());
            assert_eq!(found.map_err(|_| ()), expected, "{uri} {headers:?}");
        };
        check("/", &[("host", "web.a.shop.localhost")], Ok("web.a.shop.localhost"));
        check("https://web.a.shop.localhost/x", &[], Ok("web.a.shop.localhost"));
        check("http://a.localhost/x", &[("host", "b.localhost")], Err(()));
        check("http://a.localhost/x", &[("host", "A.localhost:80")], Ok("a.localhost"));
        check("http://a.localhost:80/x", &[("host", "a.localhost")], Ok("a.localhost:80"));
        check("http://a.localhost/x", &[("host", "a.localhost:81")], Err(()));
        check("http://a.localhost/x", &[("host", "a.localhost:443")], Err(()));
        check("http://u@a.localhost/x", &[], Err(()));
        check("/", &[("host", "a.localhost"), ("host", "b.localhost")], Err(()));
        check("/", &[], Err(()));
    }

    #[test]
    fn what_belongs_to_one_connection_is_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, x-own, Host, content-length"),
            ("x-own", "1"),
            ("te", "gzip"),
            ("accept", "*/*"),
            ("host", "a.example"),
            ("content-length", "3"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        strip_hop_by_hop(&mut headers, true);
        let mut left: Vec<_> =
            headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        left.sort();
        assert_eq!(left, ["accept: */*", "content-length: 3", "host: a.example", "te: trailers"]);
    }

    #[test]
    fn no_header_makes_another_request_of_one() {
        for (name, goes) in [
            ("x-http-method-override", true),
            ("x_http_method_override", true),
            ("x-http-method", true),
            ("x-method-override", true),
            ("x-original-method", true),
            ("x-original-url", true),
            ("x-original-uri", true),
            ("x-rewrite-url", true),
            ("request-uri", true),
            ("x-http-destinationurl", true),
            ("x-forwarded-uri", true),
            ("x-forwarded-method", true),
            ("x-forwarded-prefix", true),
            ("x-forwarded-host", true),
            ("x-http-host-override", true),
            ("x-envoy-original-path", true),
            ("x-http-verb", true),
            ("x-method", true),
            ("x-host", true),
            ("x-http-host", true),
            ("x-request-uri", true),
            ("x-request-url", true),
            ("x-request-path", true),
            ("x-proxy-url", true),
            ("x_real_uri", true),
            ("x-invoke-path", true),
            ("forwarded", true),
            ("_method", true),
            ("method", true),
            ("http-method", true),
            ("http_method", true),
            ("request-method", true),
            ("http-request-uri", true),
            ("host", false),
            ("path", false),
            ("access-control-request-method", false),
            ("x-shop-callback-url", false),
            ("x-request-id", false),
            ("x-path-style", false),
            ("x-forwarded-for", false),
            ("x-forwarded-proto", false),
            ("x-api-key", false),
            ("x-amz-date", false),
            ("host", false),
            ("accept", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
            strip_overrides(&mut headers);
            assert_eq!(headers.is_empty(), goes, "{name}");
        }
    }

    #[test]
    fn a_message_ends_in_one_place() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("4"));
        strip_hop_by_hop(&mut headers, false);
        assert!(headers.contains_key(header::CONTENT_LENGTH));
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        strip_hop_by_hop(&mut headers, false);
        assert!(headers.is_empty(), "{headers:?}");
    }

    #[test]
    fn only_a_whole_question_asks_for_an_upgrade() {
        let ask = |headers: &[(&str, &str)]| asked_upgrade(&request("/", headers)).is_some();
        assert!(ask(&[("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")]));
        assert!(!ask(&[("upgrade", "websocket")]));
        assert!(!ask(&[("connection", "upgrade")]));
    }
}
