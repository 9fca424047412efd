//! Changes to a request before the app gets it, and to the answer before the client gets it.

use hothouse_http::strip_hop_by_hop;
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri, Version,
    header::{self, HeaderName, HeaderValue},
    http::{request::Parts, uri::PathAndQuery},
};

use crate::{
    PICK, Route, cookies,
    proxy::{Body, Connection, HOP},
};

const PICK_HEADER: HeaderName = HeaderName::from_static(PICK);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns whether a request is a gRPC call, which an app wants over HTTP/2.
pub(crate) fn is_grpc(version: Version, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    version == Version::HTTP_2 && kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Builds the request for the app.
pub(crate) fn prepare<B>(
    request: Request<B>,
    host: &HeaderValue,
    own: &str,
    from: &Connection,
) -> Request<B> {
    let (mut parts, body) = request.into_parts();
    let grpc = is_grpc(parts.version, &parts.headers);
    strip_hop_by_hop(&mut parts.headers, grpc);
    strip_own(&mut parts.headers);
    strip_forwarded(&mut parts.headers);
    // Last, since a client may name `Host` in `Connection`.
    address(&mut parts, host, grpc);
    let headers = &mut parts.headers;
    headers.insert(FORWARDED_FOR, from.peer_shown.clone());
    headers.insert(FORWARDED_HOST, host.clone());
    headers.insert(FORWARDED_PORT, from.port_shown.clone());
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
    if let Ok(own) = HeaderValue::from_str(own) {
        headers.append(HOP, own);
    }
    Request::from_parts(parts, body)
}

/// Rewrites the request target for the app: HTTP/2 needs the absolute form.
fn address(parts: &mut Parts, host: &HeaderValue, grpc: bool) {
    if grpc {
        let path = parts.uri.path_and_query().cloned();
        let uri = Uri::builder().scheme("http").authority(host.as_bytes());
        let uri = uri.path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        parts.uri = uri.build().unwrap_or_default();
        parts.headers.remove(header::HOST);
        return;
    }
    if parts.uri.authority().is_some() {
        let path = std::mem::take(&mut parts.uri).into_parts().path_and_query;
        parts.uri = path.map(Uri::from).unwrap_or_default();
    }
    parts.version = Version::HTTP_11;
    parts.headers.insert(header::HOST, host.clone());
}

/// Removes the client's forwarding headers. Many apps read `_` as `-`, so both are removed.
fn strip_forwarded(headers: &mut HeaderMap) {
    let told = |name: &&HeaderName| {
        let name = name.as_str();
        let starts = |prefix: &str| {
            let pairs = name.bytes().zip(prefix.bytes());
            let alike = |(one, two)| one == two || (one == b'_' && two == b'-');
            name.len() >= prefix.len() && pairs.into_iter().all(alike)
        };
        name == "forwarded" || starts("x-forwarded-") || starts("x-real-ip")
    };
    let told: Vec<_> = headers.keys().filter(told).cloned().collect();
    for name in told {
        headers.remove(name);
    }
}

/// Removes what concerns only the client and this proxy.
fn strip_own(headers: &mut HeaderMap) {
    headers.remove(PICK_HEADER);
    if !headers.contains_key(header::COOKIE) {
        return;
    }
    // HTTP/2 may split cookies, which must be joined for HTTP/1.1 (RFC 9113, section 8.2.3).
    let pieces = headers.get_all(header::COOKIE).iter();
    let kept = pieces.map(|value| cookies::split(value.as_bytes()).1);
    let kept = kept.filter(|kept| !kept.is_empty()).collect::<Vec<_>>().join(&b"; "[..]);
    headers.remove(header::COOKIE);
    if !kept.is_empty()
        && let Ok(kept) = HeaderValue::from_bytes(&kept)
    {
        headers.insert(header::COOKIE, kept);
    }
}

/// Builds the response for the client.
pub(crate) fn finish(response: Response<Body>, route: &Route) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if parts.status != StatusCode::SWITCHING_PROTOCOLS {
        strip_hop_by_hop(&mut parts.headers, false);
    }
    if parts.headers.contains_key(header::SET_COOKIE) {
        confine_cookies(&mut parts.headers, route);
    }
    parts.version = Version::HTTP_11;
    Response::from_parts(parts, body)
}

fn confine_cookies(headers: &mut HeaderMap, route: &Route) {
    let confined = headers.get_all(header::SET_COOKIE).iter().filter_map(|value| {
        HeaderValue::from_bytes(&cookies::confine(value.as_bytes(), route)?).ok()
    });
    let confined: Vec<_> = confined.collect();
    headers.remove(header::SET_COOKIE);
    for cookie in confined {
        headers.append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::tests::request;

    #[test]
    fn what_a_client_says_of_itself_is_replaced() {
        let from = Connection::new("127.0.0.1:5".parse().unwrap(), None, 8443, None);
        let prepared = prepare(
            request(
                "https://web.a.shop.localhost:8443/x?y=1",
                &[
                    ("x-forwarded-for", "6.6.6.6"),
                    ("x_forwarded_for", "6.6.6.6"),
                    ("x-forwarded_proto", "http"),
                    ("x-forwarded-prefix", "/admin"),
                    ("x-real-ip", "6.6.6.6"),
                    ("forwarded", "for=6.6.6.6"),
                    ("host", "web.a.shop.localhost:8443"),
                    ("connection", "keep-alive, x-secret, host"),
                    ("x-secret", "1"),
                    ("cookie", "a=1; hothouse-sandbox=z"),
                    ("cookie", "hothouse-sandbox=y"),
                    ("cookie", "b=2"),
                    ("hothouse-sandbox", "z"),
                    ("content-length", "5"),
                    ("transfer-encoding", "chunked"),
                ],
            ),
            &HeaderValue::from_static("web.a.shop.localhost:8443"),
            "web.a.shop.localhost",
            &from,
        );
        assert_eq!(prepared.uri(), "/x?y=1");
        let get = |name: &str| prepared.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(get("host"), Some("web.a.shop.localhost:8443"));
        assert_eq!(get("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(get("x-forwarded-proto"), Some("https"));
        assert_eq!(get("cookie"), Some("a=1; b=2"));
        assert_eq!(prepared.headers().get_all("cookie").iter().count(), 1);
        assert_eq!(get("x-hothouse-hop"), Some("web.a.shop.localhost"));
        for gone in [
            "forwarded",
            "x_forwarded_for",
            "x-forwarded_proto",
            "x-forwarded-prefix",
            "x-real-ip",
            "x-secret",
            "connection",
            "hothouse-sandbox",
            "transfer-encoding",
            "content-length",
        ] {
            assert_eq!(get(gone), None, "{gone}");
        }
    }
}
