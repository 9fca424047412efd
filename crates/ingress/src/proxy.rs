//! One request, from the host name to the app's answer.
//!
//! Only the host decides: it must match the SNI of the ClientHello, occur once, and agree with an
//! absolute URI if the request has one. `X-Forwarded-*` from the client is replaced. A request from
//! inside a room sees only its own sandbox.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hothouse_http::host_value;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Frame, Incoming, SizeHint},
    header::{self, HeaderName, HeaderValue},
};

use crate::{
    Address, PICK, RoomPort, Rooms, Route, RouteTable, Told,
    activity::Use,
    cookies, names, pages,
    pool::{Pool, UpstreamError},
    rewrite::{finish, is_grpc, prepare},
    sign_in,
    table::Found,
    websocket,
};

/// The body of a request or an answer, passed on as it comes.
pub type Body = BoxBody<Bytes, hyper::Error>;

/// Lists the apps that a request passed through, to detect loops.
pub(crate) const HOP: HeaderName = HeaderName::from_static("x-hothouse-hop");

/// How many apps one request may pass through.
const HOP_LIMIT: usize = 8;

/// How long a browser waits before it gets a page that explains the wait.
const SHORT_WAIT: Duration = Duration::from_millis(700);
/// How long a program waits for a sandbox to wake up.
const LONG_WAIT: Duration = Duration::from_secs(180);

/// Serves Hothouse's own host.
pub trait OwnPages: Send + Sync {
    /// Answers a request; `label` is the label before Hothouse's own host name, if any.
    fn answer(
        &self,
        request: Request<Incoming>,
        label: Option<String>,
    ) -> crate::Sendable<'static, Response<Body>>;
}

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub struct Connection {
    peer: SocketAddr,
    /// The server name (SNI) of the ClientHello.
    server_name: Option<String>,
    /// The port that clients use.
    port: u16,
    /// The public id of the sandbox whose room it comes from.
    room: Option<String>,
    /// The same, as headers for apps.
    pub(crate) peer_shown: HeaderValue,
    pub(crate) port_shown: HeaderValue,
}

impl Connection {
    /// Describes a connection.
    pub fn new(
        peer: SocketAddr,
        server_name: Option<String>,
        port: u16,
        room: Option<String>,
    ) -> Self {
        let shown = |text: String| {
            HeaderValue::from_str(&text).expect("addresses and numbers are plain text")
        };
        let (peer_shown, port_shown) = (shown(peer.ip().to_string()), shown(port.to_string()));
        Self { peer, server_name, port, room, peer_shown, port_shown }
    }

    /// Returns whether the connection may serve a name; without SNI, any.
    fn is_for(&self, name: &str) -> bool {
        let greeted = self.server_name.as_deref();
        greeted.is_none_or(|greeted| names::bare(greeted).eq_ignore_ascii_case(name))
    }

    fn may_see(&self, route: &Route) -> bool {
        self.room.as_ref().is_none_or(|room| *room == route.id)
    }
}

/// The header that browsers send only when they request the script of a service worker.
const WORKER: &str = "service-worker";

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
        let host = match host_value(&request) {
            Ok(host) => host,
            Err(why) => return pages::plain(StatusCode::BAD_REQUEST, &why.to_string()),
        };
        if request.method() == Method::CONNECT && websocket::asked(&request).is_none() {
            return pages::plain(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not supported here");
        }
        let table = self.table();
        let name = names::bare(host.to_str().unwrap_or_default());
        // Nearly every request is for an app's own host in its canonical form.
        if let Some(route) = table.app(name).filter(|route| from.may_see(route)) {
            return match from.is_for(name) {
                true => self.enter(request, route, &host, from).await,
                false => misdirected(),
            };
        }
        self.answer_slowly(request, &host, table, from).await
    }

    async fn answer_slowly(
        &self,
        request: Request<Incoming>,
        host: &HeaderValue,
        table: Arc<RouteTable>,
        from: &Connection,
    ) -> Response<Body> {
        let text = host.to_str().unwrap_or_default();
        let table = match &from.room {
            Some(room) => Arc::new(table.only(room)),
            None => table,
        };
        let address = match names::parse(text) {
            Ok(address) if !from.is_for(&address.to_string()) => return misdirected(),
            Ok(address) => address,
            Err(why) => {
                return pages::unknown_host(&request, text, &why.to_string(), &table, from.port);
            }
        };
        let picked = from.room.clone().or_else(|| picked(&request));
        match table.find(&address, picked.as_deref()) {
            Found::Own(label) if from.room.is_none() => self.own.answer(request, label).await,
            Found::Own(_) | Found::Nothing => {
                pages::unknown_host(&request, text, "no app has this name", &table, from.port)
            }
            Found::Surface { project, sandbox, page } => {
                pages::surface(&request, &project, &sandbox, page)
            }
            Found::Stopped(it) => {
                pages::stopped(&request, &it.project, &it.sandbox, pages::Rest::Stopped)
            }
            Found::Picker(routes) => pages::picker(&routes, from.port, "/"),
            Found::Choose(routes) => choose(&request, &routes, from.port),
            Found::Route(route) => {
                if let Some(answer) = remember_choice(&request, &address, &route) {
                    return answer;
                }
                match address {
                    // In a room there is nothing to choose.
                    Address::Shared { .. } if from.room.is_none() => {
                        self.forward_shared(request, &route, host, from).await
                    }
                    _ => self.forward(request, &route, host, from).await,
                }
            }
        }
    }

    /// Forwards a request for a shared host. Nothing of one sandbox may stay in the browser and
    /// answer for the next choice: no service worker, and no answer in the browser's cache.
    async fn forward_shared(
        &self,
        request: Request<Incoming>,
        route: &Arc<Route>,
        host: &HeaderValue,
        from: &Connection,
    ) -> Response<Body> {
        if request.headers().contains_key(WORKER) {
            let why = format!(
                "a service worker would answer for other sandboxes on this host; use https://{}",
                route.host()
            );
            return pages::plain(StatusCode::FORBIDDEN, &why);
        }
        let mut response = self.forward(request, route, host, from).await;
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Cookie"));
        response
    }

    /// Answers a request for an app: sign-in links are answered here, everything else by the app. Rooms cannot use
    /// links.
    async fn enter(
        &self,
        request: Request<Incoming>,
        route: &Arc<Route>,
        host: &HeaderValue,
        from: &Connection,
    ) -> Response<Body> {
        match sign_in::key_of(request.uri().path()).filter(|_| from.room.is_none()) {
            Some(key) => sign_in::answer(&*self.rooms, &request, route, key),
            None => self.forward(request, route, host, from).await,
        }
    }

    fn table(&self) -> Arc<RouteTable> {
        self.table.read().map(|table| table.clone()).unwrap_or_default()
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        route: &Arc<Route>,
        host: &HeaderValue,
        from: &Connection,
    ) -> Response<Body> {
        let own = route.host();
        if been_here(request.headers(), &own) {
            let why = "request loop: an app proxies to its own URL";
            return pages::plain(StatusCode::LOOP_DETECTED, why);
        }
        let held = route.activity.enter();
        let woken;
        let target = match &route.target {
            // A request from inside means that the room is awake; waiting here could block its own start. A
            // room that is being started has a target as soon as its services do.
            target
                if from.room.is_none()
                    && (route.activity.is_asleep()
                        || target.is_none() && route.activity.is_starting()) =>
            {
                match self.wake(&request, route).await {
                    Ok(target) => {
                        woken = target;
                        &woken
                    }
                    Err(answer) => return answer,
                }
            }
            Some(target) if !route.paused => target,
            _ => return pages::stopped(&request, &route.project, &route.sandbox, rest_of(route)),
        };
        let wants_page = pages::wants_page(request.headers());
        let line = format!("{} {}", request.method(), request.uri().path());
        let outcome = match websocket::asked(&request) {
            Some(asked) => {
                websocket::bridge(
                    &self.pool,
                    (&route.id, target),
                    (asked, held),
                    request,
                    |request| prepare(request, host, &own, from),
                )
                .await
            }
            None => {
                let grpc = is_grpc(request.version(), request.headers());
                let request = prepare(request, host, &own, from).map(|body| body.boxed());
                match grpc {
                    true => self.pool.send_http2((&route.id, target), request).await,
                    false => self.pool.send((&route.id, target), request).await,
                }
                .map(|response| response.map(|body| Held { body, _held: held }.boxed()))
            }
        };
        match outcome {
            Ok(response) => {
                if response.status().is_server_error() {
                    self.rooms.failed(route, &line, response.status().as_u16());
                }
                finish(response, route)
            }
            Err(UpstreamError::Talk(error)) if error.is_user() => {
                pages::plain(StatusCode::BAD_REQUEST, "the request body ended early")
            }
            Err(error) => {
                tracing::debug!(%error, app = route.app, sandbox = route.sandbox, "no answer");
                let local = from.room.is_none() && from.peer.ip().is_loopback();
                // Log lines are only for users of this machine.
                let told = match local && wants_page {
                    true => self.rooms.explain(route).await,
                    false => Told::default(),
                };
                pages::no_answer(wants_page, route, error.fault(), &told)
            }
        }
    }

    /// Wakes a sandbox. A program waits; a browser gets a page after a moment.
    async fn wake<B>(
        &self,
        request: &Request<B>,
        route: &Route,
    ) -> Result<RoomPort, Response<Body>> {
        let page = request.method() == Method::GET && pages::wants_page(request.headers());
        let patience = if page { SHORT_WAIT } else { LONG_WAIT };
        let woken = tokio::time::timeout(patience, self.rooms.wake(&route.id, &route.app)).await;
        match woken {
            Ok(Ok(target)) => Ok(target),
            Ok(Err(why)) => Err(pages::not_woken(page, route, &why)),
            Err(_) => Err(pages::waking(page, route)),
        }
    }
}

/// The body of an answer; its sandbox counts as in use until it ends.
struct Held<B> {
    body: B,
    _held: Use,
}

impl<B: hyper::body::Body + Unpin> hyper::body::Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn rest_of(route: &Route) -> pages::Rest {
    if route.paused { pages::Rest::Paused } else { pages::Rest::Stopped }
}

fn misdirected() -> Response<Body> {
    let why = "this connection was made for another host name";
    pages::plain(StatusCode::MISDIRECTED_REQUEST, why)
}

/// Returns whether a request passed through this app before, or through too many.
fn been_here(headers: &HeaderMap, own: &str) -> bool {
    let mut hops = headers.get_all(HOP).iter();
    let seen = hops.by_ref().take(HOP_LIMIT).any(|hop| hop.as_bytes() == own.as_bytes());
    seen || hops.next().is_some()
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
    headers.filter_map(|value| cookies::split(value.as_bytes()).0).next()
}

/// Turns a choice in the URL into a cookie.
fn remember_choice<B>(
    request: &Request<B>,
    address: &Address,
    route: &Route,
) -> Option<Response<Body>> {
    let Address::Shared { .. } = address else { return None };
    let path = request.uri().path_and_query()?.as_str();
    let (_, rest) = cookies::picked_by_query(path)?;
    (request.method() == Method::GET)
        .then(|| pages::redirect(&on_this_host(rest), Some(&cookies::pick(&route.id))))
}

/// Keeps a path on this host: a browser takes `//x/` and `/\x` for another host.
fn on_this_host(path: String) -> String {
    let elsewhere = path.starts_with("//") || path.starts_with("/\\");
    if elsewhere { format!("/.{path}") } else { path }
}

fn choose<B>(request: &Request<B>, routes: &[Arc<Route>], port: u16) -> Response<Body> {
    if pages::wants_page(request.headers()) {
        // Deep links keep their path; a choice that failed is dropped.
        let asked = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path =
            cookies::picked_by_query(asked).map_or_else(|| asked.to_owned(), |(_, rest)| rest);
        return pages::picker(routes, port, &path);
    }
    let ids: Vec<_> = routes.iter().map(|route| route.id.as_str()).collect();
    let told =
        format!("which sandbox? send the cookie or header {PICK} with one of: {}", ids.join(", "));
    pages::plain(StatusCode::CONFLICT, &told)
}

/// Creates a body from text.
pub fn body_of(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn a_request_that_comes_back_is_noticed() {
        let been = |hops: &[&str]| {
            let headers: Vec<_> = hops.iter().map(|hop| ("x-hothouse-hop", *hop)).collect();
            been_here(request("/", &headers).headers(), "web.a.shop.localhost")
        };
        assert!(!been(&[]) && !been(&["api.a.shop.localhost"]));
        assert!(been(&["api.a.shop.localhost", "web.a.shop.localhost"]));
        assert!(been(&["x"; 9]), "no honest request goes through so many");
    }

    #[test]
    fn a_choice_leads_to_no_other_host() {
        let route = crate::table::tests::route("shop", "a", "web");
        let address = names::parse("web.shop.localhost").unwrap();
        for (asked, location) in [
            ("/x?y=1&hothouse-sandbox=i", "/x?y=1"),
            ("//evil.example/?hothouse-sandbox=i", "/.//evil.example/"),
            ("/\\evil.example?hothouse-sandbox=i", "/./\\evil.example"),
        ] {
            let Ok(uri) = asked.parse::<hyper::Uri>() else { continue };
            let mut asked = request("/", &[]);
            *asked.uri_mut() = uri;
            let answer = remember_choice(&asked, &address, &route).unwrap();
            assert_eq!(answer.headers()[header::LOCATION], location);
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
