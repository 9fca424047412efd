//! One request, from the host name to the app's answer.
//!
//! What decides is the host alone: it must be the one of the TLS greeting, stand there once, and agree
//! with an absolute address if the request has one. What a client says about itself by
//! `X-Forwarded-*` is replaced by what we know.

use std::{
    net::SocketAddr,
    sync::{Arc, RwLock},
};

use bytes::Bytes;
use hothouse_http::{host_of, strip_hop_by_hop};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};

use crate::{
    Address, PICK, Rooms, Route, RouteTable, cookies, names, pages,
    pool::{Pool, UpstreamError},
    table::Found,
    websocket,
};

/// The body of a request or an answer, passed on as it comes.
pub type Body = BoxBody<Bytes, hyper::Error>;

/// Marks a request that went through us, so that one that comes back is noticed.
const HOP: HeaderName = HeaderName::from_static("x-hothouse-hop");

const FORWARDED: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Serves Hothouse's own host.
pub trait OwnPages: Send + Sync {
    /// Answers a request.
    fn answer(&self, request: Request<Incoming>) -> crate::Sendable<'static, Response<Body>>;
}

/// What is known of the connection that a request came on.
#[derive(Clone, Debug)]
pub struct Connection {
    pub peer: SocketAddr,
    /// The name in the TLS greeting.
    pub server_name: Option<String>,
    /// The port that clients use.
    pub port: u16,
}

/// The router.
pub struct Proxy {
    pub table: Arc<RwLock<Arc<RouteTable>>>,
    pub pool: Arc<Pool>,
    pub rooms: Arc<dyn Rooms>,
    pub own: Arc<dyn OwnPages>,
}

impl Proxy {
    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, from: &Connection) -> Response<Body> {
        let host = match host_of(&request) {
            Ok(host) => host,
            Err(why) => return pages::plain(StatusCode::BAD_REQUEST, why),
        };
        let address = names::parse(&host);
        let greeted = from.server_name.as_deref().and_then(|name| names::parse(name).ok());
        if let (Ok(address), Some(greeted)) = (&address, &greeted)
            && address != greeted
        {
            let why = "this connection was made for another host name";
            return pages::plain(StatusCode::MISDIRECTED_REQUEST, why);
        }
        if request.headers().contains_key(&HOP) {
            let why = "this request has been here before: an app proxies to its own URL";
            return pages::plain(StatusCode::LOOP_DETECTED, why);
        }
        let table = self.table.read().map(|table| table.clone()).unwrap_or_default();
        let address = match address {
            Ok(address) => address,
            Err(why) => {
                return pages::unknown_host(&request, &host, &why.to_string(), &table, from.port);
            }
        };
        let picked = picked(&request);
        match table.find(&address, picked.as_deref()) {
            Found::Own => self.own.answer(request).await,
            Found::Nothing => {
                pages::unknown_host(&request, &host, "nothing has this name", &table, from.port)
            }
            Found::Picker(routes) => pages::picker(&routes, from.port),
            Found::Choose(routes) => choose(&request, &routes, from.port),
            Found::Route(route) => {
                if let Some(answer) = remember_choice(&request, &address, &route) {
                    return answer;
                }
                self.forward(request, &route, &host, from).await
            }
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        route: &Arc<Route>,
        host: &str,
        from: &Connection,
    ) -> Response<Body> {
        let Some(target) = &route.target else {
            return pages::stopped(&request, route);
        };
        let wants_page = pages::wants_page(request.headers());
        let outcome = match websocket::asked(&request) {
            Some(asked) => {
                websocket::bridge(&self.pool, target, asked, request, |request| {
                    prepare(request, host, from)
                })
                .await
            }
            None => {
                let grpc = is_grpc(&request);
                let request = prepare(request, host, from).map(|body| body.boxed());
                match grpc {
                    true => self.pool.send_http2(target, request).await,
                    false => self.pool.send(target, request).await,
                }
                .map(|response| response.map(|body| body.boxed()))
            }
        };
        match outcome {
            Ok(response) => finish(response, route),
            Err(error) => {
                tracing::debug!(%error, app = route.app, sandbox = route.sandbox, "no answer");
                let told = match &error {
                    // What an app said last is for those who sit at this machine.
                    UpstreamError::Dial(_) if from.peer.ip().is_loopback() && wants_page => {
                        self.rooms.explain(route).await
                    }
                    _ => String::new(),
                };
                pages::no_answer(wants_page, route, &told)
            }
        }
    }
}

/// Returns the sandbox that a request picks: by header, query or cookie, in this order.
fn picked<B>(request: &Request<B>) -> Option<String> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    if let Some(id) = request.headers().get(PICK).and_then(text) {
        return Some(id);
    }
    let query = request.uri().path_and_query().map(|path| path.as_str());
    if let Some((id, _)) = query.and_then(cookies::picked_by_query) {
        return Some(id);
    }
    let headers = request.headers().get_all(header::COOKIE).iter();
    headers.filter_map(|value| cookies::split(value.to_str().ok()?).0).next()
}

/// Turns a choice in the address into a cookie.
fn remember_choice<B>(
    request: &Request<B>,
    address: &Address,
    route: &Route,
) -> Option<Response<Body>> {
    let Address::Shared { .. } = address else { return None };
    let path = request.uri().path_and_query()?.as_str();
    let (_, rest) = cookies::picked_by_query(path)?;
    (request.method() == Method::GET)
        .then(|| pages::redirect(&rest, Some(&cookies::pick(&route.id))))
}

fn choose<B>(request: &Request<B>, routes: &[Arc<Route>], port: u16) -> Response<Body> {
    if pages::wants_page(request.headers()) {
        return pages::picker(routes, port);
    }
    let ids: Vec<_> = routes.iter().map(|route| route.id.as_str()).collect();
    let told =
        format!("which sandbox? send the cookie or header {PICK} with one of: {}", ids.join(", "));
    pages::plain(StatusCode::CONFLICT, &told)
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    request.version() == Version::HTTP_2
        && kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Makes the request that the app gets.
pub(crate) fn prepare<B>(request: Request<B>, host: &str, from: &Connection) -> Request<B> {
    let (mut parts, body) = request.into_parts();
    let grpc = parts.version == Version::HTTP_2
        && parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if grpc {
        let uri = Uri::builder().scheme("http").authority(host).path_and_query(path).build();
        parts.uri = uri.unwrap_or(parts.uri);
        parts.headers.remove(header::HOST);
    } else {
        parts.uri = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
        parts.version = Version::HTTP_11;
        if let Ok(host) = HeaderValue::from_str(host) {
            parts.headers.insert(header::HOST, host);
        }
    }
    strip_hop_by_hop(&mut parts.headers, grpc);
    strip_own(&mut parts.headers);
    for name in FORWARDED {
        parts.headers.remove(name);
    }
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            parts.headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("x-forwarded-for", &from.peer.ip().to_string());
    set("x-forwarded-host", host);
    set("x-forwarded-port", &from.port.to_string());
    set("x-forwarded-proto", "https");
    parts.headers.insert(HOP, HeaderValue::from_static("1"));
    Request::from_parts(parts, body)
}

/// Takes out what is between client and us.
fn strip_own(headers: &mut HeaderMap) {
    headers.remove(PICK);
    let kept: Vec<_> = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| match value.to_str() {
            Ok(text) => {
                let (_, kept) = cookies::split(text);
                HeaderValue::from_str(&kept).ok().filter(|_| !kept.is_empty())
            }
            Err(_) => Some(value.clone()),
        })
        .collect();
    headers.remove(header::COOKIE);
    for value in kept {
        headers.append(header::COOKIE, value);
    }
}

/// Makes the answer that the client gets.
fn finish(response: Response<Body>, route: &Route) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let upgraded = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    if !upgraded {
        strip_hop_by_hop(&mut parts.headers, false);
        parts.headers.remove(header::TE);
    }
    let cookies: Vec<_> = parts
        .headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter_map(|value| match value.to_str() {
            Ok(text) => HeaderValue::from_str(&cookies::confine(text, route)?).ok(),
            Err(_) => None,
        })
        .collect();
    parts.headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        parts.headers.append(header::SET_COOKIE, cookie);
    }
    parts.version = Version::HTTP_11;
    Response::from_parts(parts, body)
}

/// Makes a body of text.
pub fn body_of(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
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
    fn what_a_client_says_of_itself_is_replaced() {
        let from =
            Connection { peer: "127.0.0.1:5".parse().unwrap(), server_name: None, port: 8443 };
        let prepared = prepare(
            request(
                "https://web.a.shop.localhost:8443/x?y=1",
                &[
                    ("x-forwarded-for", "6.6.6.6"),
                    ("forwarded", "for=6.6.6.6"),
                    ("connection", "keep-alive, x-secret"),
                    ("x-secret", "1"),
                    ("cookie", "a=1; hothouse-sandbox=z"),
                    ("hothouse-sandbox", "z"),
                    ("transfer-encoding", "chunked"),
                ],
            ),
            "web.a.shop.localhost:8443",
            &from,
        );
        assert_eq!(prepared.uri(), "/x?y=1");
        let get = |name: &str| prepared.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(get("host"), Some("web.a.shop.localhost:8443"));
        assert_eq!(get("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(get("x-forwarded-proto"), Some("https"));
        assert_eq!(get("cookie"), Some("a=1"));
        for gone in ["forwarded", "x-secret", "connection", "hothouse-sandbox", "transfer-encoding"]
        {
            assert_eq!(get(gone), None, "{gone}");
        }
    }

    #[test]
    fn a_choice_is_taken_from_header_query_and_cookie() {
        let of = |uri: &str, headers: &[(&str, &str)]| picked(&request(uri, headers));
        assert_eq!(of("/", &[("cookie", "x=1; hothouse-sandbox=c")]).as_deref(), Some("c"));
        assert_eq!(
            of("/?hothouse-sandbox=q", &[("cookie", "hothouse-sandbox=c")]).as_deref(),
            Some("q")
        );
        assert_eq!(of("/?hothouse-sandbox=q", &[("hothouse-sandbox", "h")]).as_deref(), Some("h"));
        assert_eq!(of("/", &[]), None);
    }
}
