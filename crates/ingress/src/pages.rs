//! Pages of our own: short, without script, and with every word that comes from a room escaped.

use std::sync::Arc;

use hyper::{
    HeaderMap, Request, Response, StatusCode,
    header::{self, HeaderValue},
};

use crate::{
    Address, PICK, Route, RouteTable, Told,
    proxy::{Body, body_of},
};

/// What may be loaded by a page of ours: the style in it, which is known by its hash, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'sha256-UaL9jc8sxooMLCY9PQSfeKi74FhFfz+XIGs/FD/aI04='; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The style of all pages. Its hash is part of [`POLICY`]; a test compares them.
const STYLE: &str = ":root{--ground:#f6f8f5;--card:#fff;--line:#dfe6de;--ink:#17211b;--faint:#5d6d63;--link:#17663a;--log:#f1f5f0}\
@media(prefers-color-scheme:dark){:root{--ground:#0f1511;--card:#161e19;--line:#27332b;--ink:#e2ebe4;--faint:#93a59a;--link:#83d6a5;\
--log:#0c110e}}*{box-sizing:border-box}html{background:var(--ground);color:var(--ink);\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}body{max-width:44rem;margin:0 auto;padding:0 1.25rem 3rem}\
header{display:flex;align-items:center;gap:.5rem;padding:1rem 0;font-weight:650}main{background:var(--card);border:1px solid var(--line);\
border-radius:10px;padding:1.4rem 1.5rem}h1{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem;letter-spacing:-.015em;overflow-wrap:anywhere}\
p{margin:.6rem 0}a{color:var(--link)}code,pre,.url{font:12.5px/1.5 ui-monospace,'SF Mono',Menlo,Consolas,monospace}\
pre{background:var(--log);padding:.7rem .9rem;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;max-height:60vh;overflow:auto}\
.faint,.url{color:var(--faint)}ul{list-style:none;margin:.9rem 0 0;padding:0}li{border-top:1px solid var(--line)}\
li a{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 .6rem;padding:.6rem .2rem;text-decoration:none}\
li a:hover b{text-decoration:underline}.url{flex-basis:100%;overflow-wrap:anywhere}";

/// What stands above every page.
const BRAND: &str = "<header><svg width=22 height=22 viewBox=\"0 0 32 32\" aria-hidden=true><path d=\"M4 28V14L16 4l12 10v14z\" fill=\"#17663a\"/>\
<path d=\"M16 25c0-6 0-7-5-9 6-1 7 2 7 4 0-4 2-7 6-7-1 4-2 7-6 7v5z\" fill=\"#d9f2e0\"/></svg>Hothouse</header>";

/// Returns whether a client would show a page to somebody.
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

/// Tells that a host is unknown, and what there is.
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
            false => format!("there is: {}", known.join(" ")),
        };
        let told = format!("{}: {why}; {known}", visible(host));
        return plain(StatusCode::NOT_FOUND, &told);
    }
    let title = format!("No running app at {}", escape(&visible(host)));
    let body = format!(
        "<p class=faint>{}. Running apps:</p>{}",
        capital(&escape(why)),
        list(&routes, port, |route| url(route, port))
    );
    page(StatusCode::NOT_FOUND, &title, &body)
}

/// Shows the sandboxes of which one can be picked, and leads on to the path that was asked for.
pub fn picker(routes: &[Arc<Route>], port: u16, path: &str) -> Response<Body> {
    let joint = if path.contains('?') { '&' } else { '?' };
    let target = |route: &Route| {
        let shared = Address::Shared { app: route.app.clone(), project: route.project.clone() };
        format!("https://{shared}{}{path}{joint}{PICK}={}", shown_port(port), route.id)
    };
    let body = format!(
        "<p class=faint>This host is shared. Your choice is kept in a cookie of this browser.</p>{}",
        list(routes, port, target)
    );
    page(StatusCode::OK, "Which sandbox?", &body)
}

/// Tells that a sandbox is not up, or paused by its user.
pub fn stopped<B>(request: &Request<B>, route: &Route) -> Response<Body> {
    let (state, verb) = if route.paused { ("paused", "resume") } else { ("not running", "up") };
    let command = format!("hothouse {verb} -w {}/{}", route.project, route.sandbox);
    if !wants_page(request.headers()) {
        let told = format!("sandbox {} is {state}; `{command}` changes that", route.sandbox);
        return plain(StatusCode::SERVICE_UNAVAILABLE, &told);
    }
    let title = format!("Sandbox {} is {state}", escape(&route.sandbox));
    page(
        StatusCode::SERVICE_UNAVAILABLE,
        &title,
        &format!("<p>To start it, run:</p><pre>{}</pre>", escape(&command)),
    )
}

/// Tells that an app does not answer, and what is known of why. If its service only starts, a browser
/// asks again by itself.
pub fn no_answer(wants_page: bool, route: &Route, fault: &str, told: &Told) -> Response<Body> {
    if !wants_page {
        let text = format!("service {} of sandbox {} {fault}", route.service, route.sandbox);
        return plain(StatusCode::BAD_GATEWAY, &text);
    }
    let Route { service, project, sandbox, .. } = route;
    let command = format!("hothouse logs {service} -w {project}/{sandbox}");
    let (fault, then) = match told.starts {
        true => ("starts", "This page reloads by itself."),
        false => (fault, "<a href=\"\">Try again</a>"),
    };
    let lines = match told.lines.is_empty() {
        true => String::new(),
        false => format!("<p class=faint>Last log lines:</p><pre>{}</pre>", escape(&told.lines)),
    };
    let body = format!(
        "<p>It is the app <b>{}</b> of sandbox <b>{}</b> in {}. {then}</p>{lines}\
         <p class=faint>More: <code>{}</code></p>",
        escape(&route.app),
        escape(sandbox),
        escape(project),
        escape(&command)
    );
    let mut response =
        page(StatusCode::BAD_GATEWAY, &format!("Service {} {fault}", escape(service)), &body);
    if told.starts {
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("2"));
    }
    response
}

/// Tells that a sandbox is about to wake up; a browser asks again by itself.
pub fn waking(wants_page: bool, route: &Route) -> Response<Body> {
    let mut response = match wants_page {
        true => page(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("Waking {}…", escape(&route.sandbox)),
            "<p class=faint>It was put to sleep because nobody used it. This page reloads by itself.</p>",
        ),
        false => {
            let told = format!("sandbox {} takes too long to wake up", route.sandbox);
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

/// Tells that a sandbox does not wake up.
pub fn not_woken(wants_page: bool, route: &Route, why: &str) -> Response<Body> {
    let told = format!("sandbox {} does not wake up: {why}", route.sandbox);
    match wants_page {
        true => {
            let title = format!("Sandbox {} does not wake up", escape(&route.sandbox));
            page(StatusCode::BAD_GATEWAY, &title, &format!("<pre>{}</pre>", escape(why)))
        }
        false => plain(StatusCode::BAD_GATEWAY, &told),
    }
}

fn list(routes: &[Arc<Route>], port: u16, target: impl Fn(&Route) -> String) -> String {
    if routes.is_empty() {
        return "<p>Nothing is up. <code>hothouse up</code> starts a sandbox.</p>".into();
    }
    let items = routes.iter().map(|route| {
        let state = match &route.target {
            _ if route.activity.is_asleep() => " <span class=faint>(asleep)</span>",
            _ if route.paused => " <span class=faint>(paused)</span>",
            Some(_) => "",
            None => " <span class=faint>(not up)</span>",
        };
        format!(
            "<li><a href=\"{}\"><b>{}</b> {} <span class=faint>in {}</span>{state}<span class=url>{}</span></a></li>",
            escape(&target(route)),
            escape(&route.sandbox),
            escape(&route.app),
            escape(&route.project),
            escape(&url(route, port)),
        )
    });
    format!("<ul>{}</ul>", items.collect::<String>())
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the URL of an app of one sandbox.
pub fn url(route: &Route, port: u16) -> String {
    format!("https://{}{}", route.host(), shown_port(port))
}

/// Returns the port as it stands in a URL: nothing for the usual one.
pub fn shown_port(port: u16) -> String {
    if port == 443 { String::new() } else { format!(":{port}") }
}

fn page(status: StatusCode, title: &str, body: &str) -> Response<Body> {
    let text = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <meta name=color-scheme content=\"light dark\"><title>{title}</title><style>{STYLE}</style>{BRAND}<main><h1>{title}</h1>{body}</main></html>\n"
    );
    let mut response = answer(status, "text/html; charset=utf-8", text);
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

/// Makes a text harmless in HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            // These turn the order of letters around, and with it what a line seems to say.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Makes a host name of anybody's fit to be shown.
fn visible(host: &str) -> String {
    host.chars().filter(|c| !c.is_control()).take(253).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_room_cannot_become_markup() {
        assert_eq!(escape("<b a=\"1\">&'\x1b"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(
            escape("\u{202e}live\u{2066}"),
            "\u{fffd}live\u{fffd}",
            "letters keep their order"
        );
        assert_eq!(escape("اللغة"), "اللغة");
    }

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

    #[test]
    fn the_policy_names_the_style() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let hashes = provider.cipher_suites.iter().filter_map(|suite| suite.tls13());
        let sha256 =
            hashes.map(|suite| suite.common.hash_provider).find(|hash| hash.output_len() == 32);
        let digest = sha256.unwrap().hash(STYLE.as_bytes());
        let named = format!("'sha256-{}'", crate::websocket::base64(digest.as_ref()));
        assert!(POLICY.contains(&named), "the policy must name {named}");
    }
}
