//! Hothouse's own pages: short, without script, and with all text that comes from a room escaped.
//! The markup is in `templates/`.

use std::sync::Arc;

use askama::Template;
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    header::{self, HeaderValue},
};

use crate::{
    Address, PICK, Route, RouteTable, Told, html,
    proxy::{Body, body_of},
};

/// What our pages may load: the inline style (`templates/style.css`), identified by its hash, and
/// nothing else.
const POLICY: &str = "default-src 'none'; style-src 'sha256-SVjAwZUw6aRT/EeUjbux3VvIBYZn/ImiIgOsCAW/1sI='; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns whether the client is a browser that would show a page.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.into_iter().any(|text| text.contains("text/html"))
}

/// Answers with a line of text.
pub fn plain(status: StatusCode, text: &str) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// Sends the client elsewhere, with a cookie if there is one.
pub fn redirect(to: &str, cookie: Option<&str>) -> Response<Body> {
    let mut response = plain(StatusCode::FOUND, "go on there");
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    if let Some(cookie) = cookie.and_then(|text| HeaderValue::from_str(text).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Builds the page for an unknown host, with the running apps.
pub fn unknown_host<B>(
    request: &Request<B>,
    host: &str,
    why: &str,
    table: &RouteTable,
    port: u16,
) -> Response<Body> {
    let routes = table.all();
    if !wants_page(request.headers()) {
        let known: Vec<_> = routes.iter().map(|route| url(route, port)).collect();
        let known = match known.is_empty() {
            true => "no app is up".into(),
            false => format!("running apps: {}", known.join(" ")),
        };
        let told = format!("{}: {why}; {known}", visible(host));
        return plain(StatusCode::NOT_FOUND, &told);
    }
    let page = UnknownHost {
        title: format!("No running app at {}", visible(host)),
        why: capital(why),
        apps: links(&routes, port, |route| url(route, port)),
    };
    answer_page(StatusCode::NOT_FOUND, &page)
}

#[derive(Template)]
#[template(path = "unknown-host.html")]
struct UnknownHost<'a> {
    title: String,
    why: String,
    apps: Vec<AppLink<'a>>,
}

/// Builds the page to pick a sandbox; its links keep the requested path.
pub fn picker(routes: &[Arc<Route>], port: u16, path: &str) -> Response<Body> {
    let joint = if path.contains('?') { '&' } else { '?' };
    let target = |route: &Route| {
        let shared = Address::Shared { app: route.app.clone(), project: route.project.clone() };
        format!("https://{shared}{}{path}{joint}{PICK}={}", shown_port(port), route.id)
    };
    let page = Picker { title: "Which sandbox?", apps: links(routes, port, target) };
    answer_page(StatusCode::OK, &page)
}

#[derive(Template)]
#[template(path = "picker.html")]
struct Picker<'a> {
    title: &'static str,
    apps: Vec<AppLink<'a>>,
}

/// Why a sandbox does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It has no room.
    Stopped,
    /// Its user has paused it.
    Paused,
}

/// Builds the page for a sandbox that is down, or paused by its user.
pub fn stopped<B>(
    request: &Request<B>,
    project: &str,
    sandbox: &str,
    rest: Rest,
) -> Response<Body> {
    let (state, verb) = match rest {
        Rest::Paused => ("paused", "resume"),
        Rest::Stopped => ("not running", "up"),
    };
    let command = format!("hothouse {verb} -w {project}/{sandbox}");
    if !wants_page(request.headers()) {
        let told = format!("sandbox {sandbox} is {state}; run `{command}`");
        return plain(StatusCode::SERVICE_UNAVAILABLE, &told);
    }
    let title = format!("Sandbox {sandbox} is {state}");
    answer_page(StatusCode::SERVICE_UNAVAILABLE, &Stopped { title, command })
}

/// Explains how to see what a sandbox recorded. The dashboard's host is a secret of each session, so there is no link
/// to it.
pub fn surface<B>(
    request: &Request<B>,
    project: &str,
    sandbox: &str,
    page: &str,
) -> Response<Body> {
    let command = format!("hothouse ui -w {project}/{sandbox} --page {page} --open");
    if !wants_page(request.headers()) {
        return plain(StatusCode::OK, &format!("run `{command}`"));
    }
    let title = format!("The {page} of sandbox {sandbox}");
    answer_page(StatusCode::OK, &Surface { title, command })
}

#[derive(Template)]
#[template(path = "surface.html")]
struct Surface {
    title: String,
    command: String,
}

#[derive(Template)]
#[template(path = "stopped.html")]
struct Stopped {
    title: String,
    command: String,
}

/// Builds the page for an app that does not answer, with the reason if known. It reloads while the service is starting.
pub fn no_answer(wants_page: bool, route: &Route, fault: &str, told: &Told) -> Response<Body> {
    if !wants_page {
        let text = format!("service {} of sandbox {} {fault}", route.service, route.sandbox);
        return plain(StatusCode::BAD_GATEWAY, &text);
    }
    let Route { service, project, sandbox, .. } = route;
    let command = format!("hothouse logs {service} -w {project}/{sandbox}");
    let fault = if told.starts { "starts" } else { fault };
    let title = format!("Service {service} {fault}");
    let page = NoAnswer { title, route, told, command };
    let mut response = answer_page(StatusCode::BAD_GATEWAY, &page);
    if told.starts {
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("2"));
    }
    response
}

#[derive(Template)]
#[template(path = "no-answer.html")]
struct NoAnswer<'a> {
    title: String,
    route: &'a Route,
    told: &'a Told,
    command: String,
}

/// Builds the page for a sandbox that is waking up; it reloads.
pub fn waking(wants_page: bool, route: &Route) -> Response<Body> {
    let mut response = match wants_page {
        true => {
            let page = Waking { title: format!("Waking {}…", route.sandbox) };
            answer_page(StatusCode::SERVICE_UNAVAILABLE, &page)
        }
        false => {
            let told = format!("sandbox {} did not wake up in time", route.sandbox);
            plain(StatusCode::SERVICE_UNAVAILABLE, &told)
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if wants_page {
        headers.insert(header::REFRESH, HeaderValue::from_static("1"));
    }
    response
}

#[derive(Template)]
#[template(path = "waking.html")]
struct Waking {
    title: String,
}

/// Builds the page for a sandbox that could not be woken.
pub fn not_woken(wants_page: bool, route: &Route, why: &str) -> Response<Body> {
    let title = format!("Sandbox {} could not be woken", route.sandbox);
    match wants_page {
        true => answer_page(StatusCode::BAD_GATEWAY, &NotWoken { title, why }),
        false => {
            let told = format!("sandbox {} could not be woken: {why}", route.sandbox);
            plain(StatusCode::BAD_GATEWAY, &told)
        }
    }
}

#[derive(Template)]
#[template(path = "not-woken.html")]
struct NotWoken<'a> {
    title: String,
    why: &'a str,
}

/// The policy of a sign-in link's page, which may also submit its form.
const FORM_POLICY: &str = "default-src 'none'; style-src 'sha256-SVjAwZUw6aRT/EeUjbux3VvIBYZn/ImiIgOsCAW/1sI='; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The policy of the page that fills the local storage, which may run its own script (`templates/sign-in.js`).
const SCRIPT_POLICY: &str = "default-src 'none'; script-src 'sha256-yp+tkbIXC/9/LsswDe8i4IJVTQWh0KFgD/bjI4w+yzo='; \
                             base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Builds the page of a sign-in link, with a button.
pub fn sign_in(route: &Route, role: &str) -> Response<Body> {
    let Route { app, sandbox, .. } = route;
    let page = SignInPage { title: "Sign in", app, sandbox, role };
    with_policy(answer_page(StatusCode::OK, &page), FORM_POLICY)
}

#[derive(Template)]
#[template(path = "sign-in.html")]
struct SignInPage<'a> {
    title: &'a str,
    app: &'a str,
    sandbox: &'a str,
    role: &'a str,
}

/// Builds the page that fills the local storage and continues.
pub fn signed_in(storage: &str, to: &str) -> Response<Body> {
    with_policy(answer_page(StatusCode::OK, &SignedIn { storage, to }), SCRIPT_POLICY)
}

#[derive(Template)]
#[template(path = "signed-in.html")]
struct SignedIn<'a> {
    storage: &'a str,
    to: &'a str,
}

fn with_policy(mut response: Response<Body>, policy: &'static str) -> Response<Body> {
    let policy = HeaderValue::from_static(policy);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// An app in a list, and its link.
struct AppLink<'a> {
    route: &'a Route,
    target: String,
    url: String,
}

impl AppLink<'_> {
    /// Returns why it may not answer immediately.
    fn state(&self) -> Option<&'static str> {
        match &self.route.target {
            _ if self.route.activity.is_asleep() => Some("asleep"),
            _ if self.route.paused => Some("paused"),
            Some(_) => None,
            None => Some("not up"),
        }
    }
}

fn links(routes: &[Arc<Route>], port: u16, target: impl Fn(&Route) -> String) -> Vec<AppLink<'_>> {
    let link = |route| AppLink { route, target: target(route), url: url(route, port) };
    routes.iter().map(|route| link(route)).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the URL of an app of one sandbox.
pub fn url(route: &Route, port: u16) -> String {
    format!("https://{}{}", route.host(), shown_port(port))
}

/// Returns the port as written in a URL: empty for the default one.
pub fn shown_port(port: u16) -> String {
    if port == 443 { String::new() } else { format!(":{port}") }
}

fn answer_page(status: StatusCode, page: &impl Template) -> Response<Body> {
    let mut response = answer(status, "text/html; charset=utf-8", html::render(page).0);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(body_of(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Escapes an untrusted host name.
fn visible(host: &str) -> String {
    host.chars().filter(|c| !c.is_control()).take(253).collect()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn a_service_that_starts_is_waited_for_and_one_that_fails_is_not() {
        let route = crate::table::tests::route("shop", "a", "web");
        let of = |starts| {
            let told = Told { lines: "<b>".into(), starts };
            no_answer(true, &route, "does not answer", &told)
        };
        assert_eq!(of(true).headers()[header::REFRESH], "2");
        assert!(!of(false).headers().contains_key(header::REFRESH));
        assert_eq!(of(true).status(), StatusCode::BAD_GATEWAY);
    }

    /// Renders every page with one text wherever a room, a request or a user chose one.
    async fn every_page(text: &str) -> Vec<String> {
        let request = Request::builder().header(header::ACCEPT, "text/html").body(()).unwrap();
        let route = Route { service: text.into(), ..crate::table::tests::route(text, text, text) };
        let table = RouteTable::new([route.clone()]);
        let told = |starts| Told { lines: text.into(), starts };
        let mut pages = Vec::new();
        for response in [
            unknown_host(&request, text, text, &table, 443),
            picker(&table.all(), 443, &format!("/{text}")),
            stopped(&request, text, text, Rest::Stopped),
            no_answer(true, &route, text, &told(true)),
            no_answer(true, &route, text, &told(false)),
            waking(true, &route),
            not_woken(true, &route, text),
        ] {
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            pages.push(String::from_utf8(bytes.to_vec()).unwrap());
        }
        pages
    }

    #[tokio::test]
    async fn no_page_shows_a_text_as_markup() {
        let plain = every_page("x").await;
        for attack in ["<script>", "\"><img src=x>", "' onclick=x '", "</title></pre><b>", "&lt;"] {
            for (page, plain) in every_page(attack).await.iter().zip(&plain) {
                assert!(!page.contains(attack), "{attack}: {page}");
                for delimiter in ["<", ">", "\"", "'"] {
                    let count = |page: &str| page.matches(delimiter).count();
                    assert_eq!(count(page), count(plain), "{attack}: {page}");
                }
            }
        }
    }

    #[tokio::test]
    async fn the_policy_names_the_style() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let hashes = provider.cipher_suites.iter().filter_map(|suite| suite.tls13());
        let sha256 =
            hashes.map(|suite| suite.common.hash_provider).find(|hash| hash.output_len() == 32);
        for page in every_page("x").await {
            let (_, rest) = page.split_once("<style>").unwrap();
            let (style, _) = rest.split_once("</style>").unwrap();
            let digest = sha256.unwrap().hash(style.as_bytes());
            let named = format!("'sha256-{}'", crate::websocket::base64(digest.as_ref()));
            assert!(POLICY.contains(&named), "the policy must name {named}");
        }
    }
}
