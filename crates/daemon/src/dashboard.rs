//! The dashboard: a host for each session, `https://LABEL.hothouse.localhost`.
//!
//! Opening the one-time link of `hothouse ui` creates a session. Without a session, and on
//! `https://hothouse.localhost`, every request gets a page that says how to get one. Cookies ignore ports, so an app on
//! a loopback port could read and replace the cookies of any host that it can name; the label cannot be guessed, and no
//! other site learns it. No app shares the host, so none can set its cookie (`__Host-`), and the cookie is not sent
//! with requests from other sites (`SameSite=Strict`). A change also needs the session's token and our own origin. None
//! of this is part of the daemon's API.

mod actions;
mod assets;
mod changes;
mod compared;
mod contents;
mod data;
mod files;
mod inbox;
mod keys;
mod page;
mod records;
mod rendered;
mod reports;
mod stream;
mod terminal;
mod usage;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use askama::filters::Safe;
use hothouse_dashboard::{
    Section,
    page::{Note, Progress, Ran},
    place::{Part, Place, Subject},
};
use hothouse_ingress::{
    Sendable,
    names::ZONE,
    pages,
    proxy::{Body, OwnPages, body_of},
};
use hothouse_model::OWN_LABEL;
use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};
use tokio::runtime::Handle;

use self::{
    actions::Wish,
    contents::Content,
    keys::{Keys, Session},
    rendered::Rendered,
    reports::Reports,
    terminal::Terminals,
    usage::Usages,
};
use crate::Daemon;
pub(crate) use terminal::room_of;

/// What a page may load and where its forms go: only this site, and nothing inline. Browsers report violations.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; report-uri /policy-report";

/// The maximum size of a form.
const FORM_LIMIT: usize = 4 << 10;

/// How long a page says what succeeded.
const SAID: Duration = Duration::from_secs(15);

const COOKIE: &str = "__Host-hothouse";

/// The dashboard.
pub(crate) struct Dashboard {
    daemon: Daemon,
    port: OnceLock<u16>,
    keys: Mutex<Keys>,
    /// What the last action on a sandbox or in the inbox led to.
    notes: Mutex<HashMap<String, (Note, Instant)>>,
    /// The results of scenarios run from a page, by sandbox and name.
    scenarios: Mutex<HashMap<(String, String), Ran>>,
    rendered: Rendered,
    reports: Reports,
    terminals: Terminals,
    usages: Usages,
    /// The start of the schedule on which all pages are checked.
    began: Instant,
    /// The daemon's own threads.
    handle: Handle,
}

/// The dashboard, for the router.
pub(crate) struct Site(pub(crate) Arc<Dashboard>);

impl OwnPages for Site {
    fn answer(
        &self,
        request: Request<Incoming>,
        label: Option<String>,
    ) -> Sendable<'static, Response<Body>> {
        let dashboard = self.0.clone();
        Box::pin(async move { secured(dashboard.route(request, label).await) })
    }
}

impl Dashboard {
    /// Must be called on the daemon's threads.
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self {
            daemon,
            port: OnceLock::new(),
            keys: Mutex::default(),
            notes: Mutex::default(),
            scenarios: Mutex::default(),
            rendered: Rendered::default(),
            reports: Reports::default(),
            terminals: Terminals::default(),
            usages: Usages::default(),
            began: Instant::now(),
            handle: Handle::current(),
        }
    }

    /// Sets the router's port, which is part of our origin.
    pub(crate) fn set_port(&self, port: u16) {
        self.port.set(port).ok();
    }

    /// Creates a single-use link that expires soon.
    pub(crate) fn link(&self) -> Option<String> {
        let link = self.keys().make_link(Instant::now());
        Some(format!("{}/enter?key={}", self.origin(&link.label)?, link.key))
    }

    /// Returns the origin of a session.
    fn origin(&self, label: &str) -> Option<String> {
        let port = pages::shown_port(*self.port.get()?);
        Some(format!("https://{label}.{OWN_LABEL}.{ZONE}{port}"))
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn route(
        self: Arc<Self>,
        request: Request<Incoming>,
        label: Option<String>,
    ) -> Response<Body> {
        let label = label.unwrap_or_default();
        let path = request.uri().path().to_owned();
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(asset) = assets::answer(&path).filter(|_| get) {
            return asset;
        }
        if path == "/enter" && get {
            return self.enter(&label, request.uri().query().unwrap_or_default());
        }
        match self.session(&label, request.headers()) {
            None => page::html(StatusCode::UNAUTHORIZED, &page::Stranger),
            Some(session) => self.known(request, &path, get, session).await,
        }
    }

    /// Answers a request with a session.
    async fn known(
        self: Arc<Self>,
        request: Request<Incoming>,
        path: &str,
        get: bool,
        session: Session,
    ) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        match path {
            "/live" if get && is_own(request.headers()) => {
                let at = query_value(&query, "at").unwrap_or_default();
                stream::open(self, at, session)
            }
            "/terminal" => terminal::open(self, request, session).await,
            "/palette" if get && is_own(request.headers()) => self.palette().await,
            reports::PATH if request.method() == Method::POST && is_own(request.headers()) => {
                self.reports.take(request).await
            }
            "/act" if request.method() == Method::POST => self.act(request, &session).await,
            _ if !get => page::html(StatusCode::NOT_FOUND, &page::Nothing),
            _ => match Place::read(path) {
                Some(Place::Of(subject, Part::File(file))) => {
                    files::of_run(&self.daemon, subject, file).await
                }
                Some(place) => self.show(place, &query, &session).await,
                None => page::html(StatusCode::NOT_FOUND, &page::Nothing),
            },
        }
    }

    /// Exchanges a one-time key for a session.
    fn enter(&self, label: &str, query: &str) -> Response<Body> {
        let key = query_value(query, "key").unwrap_or_default();
        match self.keys().use_link(label, &key, Instant::now()) {
            Some(session) => {
                let cookie =
                    format!("{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Strict", session.id);
                let to = entered(query).path();
                let mut response = pages::redirect(&to, Some(&cookie));
                *response.status_mut() = StatusCode::SEE_OTHER;
                response
            }
            None => page::html(StatusCode::UNAUTHORIZED, &page::UsedUp),
        }
    }

    fn session(&self, label: &str, headers: &HeaderMap) -> Option<Session> {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
        own.find_map(|id| self.keys().session(label, id, Instant::now()))
    }

    async fn show(self: Arc<Self>, place: Place, query: &str, session: &Session) -> Response<Body> {
        let address = match query {
            "" => place.path(),
            query => format!("{}?{query}", place.path()),
        };
        match self.content(&address, session).await {
            Some(content) => {
                let live = page::Live {
                    title: &content.title,
                    at: content.is_live.then_some(address.as_str()),
                    main: Safe(content.main.0.as_str()),
                    waiting: content.waiting,
                };
                page::html(StatusCode::OK, &live)
            }
            None => page::html(StatusCode::NOT_FOUND, &page::Nothing),
        }
    }

    /// Renders the content of an address, or returns a recent rendering: many open pages cost as much as one.
    async fn content(self: &Arc<Self>, address: &str, session: &Session) -> Option<Arc<Content>> {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let place = Place::read(path)?;
        let slot = self.rendered.slot(&session.id, address);
        let mut held = slot.lock().await;
        if let Some(content) = held.fresh(Instant::now()) {
            return Some(content);
        }
        let (dashboard, token) = (self.clone(), session.token.clone());
        let (wanted, query) = (place.clone(), query.to_owned());
        let made = self
            .handle
            .spawn(async move { contents::make(&dashboard, wanted, &query, token).await });
        let content = Arc::new(made.await.ok()??);
        held.keep(content.clone(), Instant::now());
        Some(content)
    }

    /// Answers with every page that the command palette can open.
    async fn palette(self: Arc<Self>) -> Response<Body> {
        let daemon = self.daemon.clone();
        let listed = tokio::task::spawn_blocking(move || contents::destinations(&daemon)).await;
        let text = serde_json::to_string(&listed.unwrap_or_default()).unwrap_or_default();
        let mut response = Response::new(body_of(text));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Returns what the last actions led to: failures, and what succeeded a moment ago.
    fn notes(&self) -> HashMap<String, Note> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.retain(|_, (note, at)| note.progress != Progress::Done || at.elapsed() < SAID);
        notes.iter().map(|(key, (note, _))| (key.clone(), note.clone())).collect()
    }

    fn scenarios(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Ran>> {
        self.scenarios.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_of(&self, key: &str) -> Option<Note> {
        self.notes().remove(key)
    }

    /// Performs the action of a form, if the form is ours.
    async fn act(self: Arc<Self>, request: Request<Incoming>, session: &Session) -> Response<Body> {
        let (head, body) = request.into_parts();
        // Read before refusing: a client that is still sending may miss the answer.
        let Ok(body) = Limited::new(body, FORM_LIMIT).collect().await else {
            return pages::plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long");
        };
        let origin = head.headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
        if !is_own(&head.headers) || origin != self.origin(&session.label).as_deref() {
            return pages::plain(StatusCode::FORBIDDEN, "the form was not sent by the dashboard");
        }
        let form = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let token = query_value(&form, "token").unwrap_or_default();
        if !keys::same(&token, &session.token) {
            return pages::plain(
                StatusCode::FORBIDDEN,
                "the form belongs to another session; reload the page",
            );
        }
        let (id, what) = (query_value(&form, "id"), query_value(&form, "do"));
        let (Some(id), Some(what)) = (id, what.and_then(|what| Wish::read(&what, &form))) else {
            return pages::plain(StatusCode::BAD_REQUEST, "the form names no action");
        };
        // Only to one of our pages.
        let back = query_value(&form, "back").and_then(|back| Place::read(&back));
        let back = back.unwrap_or(Place::Overview);
        let key = if back == Place::Inbox { inbox::KEY.to_owned() } else { id.clone() };
        // Continues if the browser disconnects.
        let dashboard = self.clone();
        let done = self.handle.spawn(async move { dashboard.fulfil(key, id, what).await });
        let done = tokio::time::timeout(Duration::from_secs(2), done).await;
        let made = done.ok().and_then(Result::ok).flatten();
        self.rendered.forget();
        let mut response = pages::redirect(&made.unwrap_or(back).path(), None);
        *response.status_mut() = StatusCode::SEE_OTHER;
        response
    }

    /// Performs an action, and keeps what it led to for the page that asked. Returns the place that it made.
    async fn fulfil(self: Arc<Self>, key: String, id: String, wish: Wish) -> Option<Place> {
        self.keep_note(&key, Some(Note::running()));
        let done = actions::fulfil(&self, &id, wish).await;
        self.daemon.keepers.refresh_urls().await;
        let (note, made) = match done {
            Ok(done) => (done.said.map(Note::success), done.made),
            Err(failure) => (Some(Note::failure(&failure)), None),
        };
        self.keep_note(&key, note);
        made
    }

    fn keep_note(&self, key: &str, note: Option<Note>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => notes.insert(key.to_owned(), (note, Instant::now())),
            None => notes.remove(key),
        };
        drop(notes);
        self.rendered.forget();
    }
}

/// Returns the target of a one-time link: a sandbox, and a section of it.
fn entered(query: &str) -> Place {
    let Some(id) = query_value(query, "sandbox") else { return Place::Overview };
    let section = query_value(query, "page").and_then(|word| Section::read(&word));
    let part = section.map_or(Part::Start, Part::Section);
    Place::Of(Subject::Sandbox(id), part)
}

/// Whether a request comes from one of our own pages. Browsers state this; clients that do not are accepted.
fn is_own(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    matches!(site, None | Some("same-origin"))
}

/// Returns a value of a query or a form.
fn query_value(text: &str, name: &str) -> Option<String> {
    let value =
        text.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    value.and_then(|(_, value)| decoded(value))
}

/// Returns all values of a name in a query, in order.
fn query_values(text: &str, name: &str) -> Vec<String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).filter_map(|(_, value)| decoded(value)).collect()
}

/// Decodes a value of a form.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let code = digit(rest.next())? * 16 + digit(rest.next())?;
                u8::try_from(code).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Adds the security headers of this site to a response.
fn secured(mut response: Response<Body>) -> Response<Body> {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Other sites must not learn where a request comes from, above all not the host. `no-referrer` would also hide
        // the origin of our own forms (Fetch, "serializing a request origin").
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        // Files of runs set stricter ones.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_or_refused() {
        let form = "token=ab%2Fc&do=restart&service=a+b&bad=%zz&cut=%2";
        assert_eq!(query_value(form, "token").as_deref(), Some("ab/c"));
        assert_eq!(Wish::read("restart", form), Some(Wish::Restart("a b".into())));
        assert_eq!(Wish::read("delete", form), None);
        assert_eq!(query_values("a=1&b=2&a=%33&a=%zz", "a"), ["1", "3"]);
        for name in ["bad", "cut", "none"] {
            assert_eq!(query_value(form, name), None, "{name}");
        }
    }

    #[test]
    fn only_our_own_pages_are_our_own() {
        let of = |site: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(site.map(|site| {
                (HeaderName::from_static("sec-fetch-site"), HeaderValue::from_static(site))
            }));
            is_own(&headers)
        };
        assert!(of(None) && of(Some("same-origin")));
        assert!(!of(Some("same-site")) && !of(Some("cross-site")) && !of(Some("none")));
    }
}
