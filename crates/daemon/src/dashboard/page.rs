//! The pages, rendered here. Whatever comes from a room or a repository goes through [`escape`].

use std::collections::{BTreeMap, HashMap};

use hothouse_api::{SandboxView, service::ServiceView};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::{
    pages::escape,
    proxy::{Body, body_of},
};
use hothouse_model::{SandboxRecord, SandboxState};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use jiff::Timestamp;

use hothouse_reconcile::urls::is_asleep;

use crate::{Door, view};

/// How many lines of each log the page of one sandbox shows.
const TAIL: usize = 60;

/// A sandbox with what a page needs of it.
struct Shown {
    view: SandboxView,
    asleep: bool,
    /// What went wrong when it was last told something here.
    failure: Option<String>,
    /// The last lines of each service; of the page of one sandbox alone.
    logs: Vec<(String, Vec<String>)>,
}

/// Answers with a page.
pub(super) fn html(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(body_of(text.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Renders a whole page around what changes.
pub(super) fn whole(one: Option<&str>, main: &str) -> String {
    let sandbox = one.map(|id| format!(" data-sandbox=\"{}\"", escape(id))).unwrap_or_default();
    let body = format!(
        "{}<main{sandbox}>{main}</main>\n<script src=\"/live.js\" defer></script>",
        top(one.is_some(), "<span id=live class=live>reloads by itself</span>")
    );
    let title = one.map(|id| format!("{} · ", escape(id))).unwrap_or_default();
    document(&title, "<noscript><meta http-equiv=refresh content=5></noscript>", &body)
}

/// Renders a page about one sandbox that stays as it is.
pub(super) fn still(id: &str, main: &str) -> String {
    let body = format!("{}<main>{main}</main>", top(true, ""));
    document(&format!("{} · ", escape(id)), "", &body)
}

fn top(below: bool, right: &str) -> String {
    let way = if below { "<a class=up href=\"/\">All sandboxes</a>" } else { "" };
    format!(
        "<header><a class=brand href=\"/\"><img src=\"/icon.svg\" alt=\"\" width=22 height=22>Hothouse</a>{way}{right}</header>\n"
    )
}

fn document(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{title}Hothouse</title><link rel=icon href=\"/icon.svg\"><link rel=stylesheet href=\"/style.css\">{head}</head>\n\
         <body>{body}</body></html>\n"
    )
}

fn notice(title: &str, text: &str) -> String {
    let body = format!(
        "<header><span class=brand><img src=\"/icon.svg\" alt=\"\" width=22 height=22>Hothouse</span></header>\
         <main><section class=notice><h1>{title}</h1>{text}</section></main>"
    );
    document("", "", &body)
}

/// The page for somebody without a session.
pub(super) fn stranger() -> String {
    notice(
        "Who are you?",
        "<p>This page shows your sandboxes to you alone. Ask for a link, which works once:</p><pre>hothouse ui</pre>",
    )
}

/// The page of a link that opens nothing.
pub(super) fn used_up() -> String {
    notice(
        "This link is used up",
        "<p>A link works once, within two minutes. Ask for another:</p><pre>hothouse ui</pre>",
    )
}

/// The page of what is not there.
pub(super) fn nothing() -> String {
    notice(
        "There is no such page",
        "<p>The sandbox may be gone. <a href=\"/\">All sandboxes</a></p>",
    )
}

/// Renders all sandboxes, or one; nothing if that is not there.
pub(super) fn main(
    door: &Door,
    one: Option<&str>,
    token: &str,
    failures: &HashMap<String, String>,
) -> Option<String> {
    let all = door.engine.sandboxes().ok()?;
    let now = HostClock.now();
    let shown = |record: SandboxRecord, tail: bool| {
        let names: Vec<String> = match tail {
            true => door
                .engine
                .stack_of(&record)
                .into_iter()
                .flat_map(|s| s.services)
                .map(|s| s.name)
                .collect(),
            false => Vec::new(),
        };
        let logs = names.into_iter().map(|name| {
            let lines = door.engine.tail_of(&record, &name, TAIL);
            (name, lines)
        });
        Shown {
            logs: logs.collect(),
            asleep: is_asleep(&record),
            failure: failures.get(record.id.as_str()).cloned(),
            view: view::sandbox(door, record),
        }
    };
    match one {
        Some(id) => {
            let record = all.into_iter().find(|record| record.id.as_str() == id)?;
            Some(single(&shown(record, true), token, now))
        }
        None => {
            let all: Vec<_> = all.into_iter().map(|record| shown(record, false)).collect();
            Some(overview(&all, token, now))
        }
    }
}

fn overview(all: &[Shown], token: &str, now: Timestamp) -> String {
    if all.is_empty() {
        return "<section class=notice><h1>Nothing grows here yet</h1><p>Make a sandbox in a repository:</p>\
                <pre>hothouse fork agent-a\nhothouse up -w agent-a</pre></section>"
            .into();
    }
    let mut projects: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for shown in all {
        projects.entry(&shown.view.project).or_default().push(shown);
    }
    let sections = projects.into_iter().map(|(project, mut sandboxes)| {
        // What runs, or should, is above what only lies there.
        sandboxes.sort_by_cached_key(|shown| {
            let rests = matches!(shown.view.state, SandboxState::Created | SandboxState::Stopped);
            (rests && !shown.asleep, counted(&shown.view.name))
        });
        let up = sandboxes.iter().filter(|shown| is_up(shown.view.state)).count();
        let rows: String = sandboxes.iter().map(|shown| row(shown, token, now)).collect();
        format!(
            "<section class=project><h2>{}<small>{} of {} up</small></h2><ul class=rows>{rows}</ul></section>\n",
            escape(project),
            up,
            sandboxes.len()
        )
    });
    sections.collect()
}

/// Takes a name apart so that `agent-2` stands before `agent-10`.
fn counted(name: &str) -> Vec<(String, u64)> {
    let starts = |pair: &[u8]| pair[0].is_ascii_digit() && !pair[1].is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let end = rest.as_bytes().windows(2).position(starts).map_or(rest.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        let text = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &part[text.len()..];
        let number = if number.is_empty() { 0 } else { number.parse().unwrap_or(u64::MAX) };
        parts.push((text.to_owned(), number));
        rest = after;
    }
    parts
}

fn row(shown: &Shown, token: &str, now: Timestamp) -> String {
    let Shown { view, .. } = shown;
    let task = view.task.as_deref().map(|task| format!("<p class=task>{}</p>", escape(task)));
    format!(
        "<li class=\"row {state}\"><div class=who>{dot}<a class=name href=\"/sandbox/{id}\">{name}</a>\
         <span class=branch>{branch}</span><span class=age>{age}</span></div>{task}\
         <div class=apps>{apps}</div><div class=services>{services}</div>{failure}{buttons}</li>\n",
        state = view.state.as_str(),
        dot = state_of(shown),
        id = encoded(&view.id),
        name = escape(&view.name),
        branch = if view.branch == view.name { String::new() } else { escape(&view.branch) },
        age = age(view.created, now),
        task = task.unwrap_or_default(),
        apps = links(view),
        services = view.services.iter().map(pill).collect::<String>(),
        failure = failure_of(shown),
        buttons = buttons(shown, token, "all"),
    )
}

fn single(shown: &Shown, token: &str, now: Timestamp) -> String {
    let Shown { view, .. } = shown;
    let mut facts = vec![
        ("id", escape(&view.id)),
        (
            "branch",
            format!(
                "{} <span class=faint>from {}</span> <a href=\"/sandbox/{}/changes\">changes</a>",
                escape(&view.branch),
                escape(&view.base),
                encoded(&view.id)
            ),
        ),
        ("worktree", escape(&view.worktree)),
        ("made", format!("{} ago", age(view.created, now))),
    ];
    if let Some(run) = &view.run {
        facts.push((
            "run",
            format!(
                "{} <span class=faint>begun {} ago</span>",
                escape(&run.id),
                age(run.started, now)
            ),
        ));
        facts.push(("artifacts", escape(&run.artifacts)));
    }
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"))
        .collect();
    let task = view.task.as_deref().map(|task| format!("<p class=task>{}</p>", escape(task)));
    let caveats = view
        .caveats
        .iter()
        .map(|caveat| format!("<li><b>{}</b> {}</li>", escape(&caveat.area), escape(&caveat.text)));
    let caveats: String = caveats.collect();
    let caveats = match caveats.is_empty() {
        true => String::new(),
        false => format!(
            "<details class=caveats id=caveats><summary>{}</summary><ul>{caveats}</ul></details>",
            match view.caveats.len() {
                1 => "1 caveat".to_owned(),
                count => format!("{count} caveats"),
            }
        ),
    };
    format!(
        "<section class=\"one {state}\"><h1>{dot}<span class=faint>{project} /</span> {name}</h1>{task}{failure}\
         <div class=apps>{apps}</div>{buttons}<dl class=facts>{facts}</dl>{caveats}</section>\n{services}{logs}",
        state = view.state.as_str(),
        dot = state_of(shown),
        project = escape(&view.project),
        name = escape(&view.name),
        task = task.unwrap_or_default(),
        failure = failure_of(shown),
        apps = links(view),
        buttons = buttons(shown, token, "one"),
        services = services(view, token),
        logs = shown.logs.iter().map(|(name, lines)| log(name, lines)).collect::<String>(),
    )
}

fn services(view: &SandboxView, token: &str) -> String {
    if view.services.is_empty() {
        return String::new();
    }
    let dash = || "–".to_owned();
    let rows = view.services.iter().map(|service| {
        let told = match &service.exit {
            Some(exit) if service.pid.is_none() => Some(exit),
            _ => service.health.as_ref(),
        };
        let again = form(&view.id, token, "one", "restart", "Restart", &format!("<input type=hidden name=service value=\"{}\">", escape(&service.name)), &format!("restart-{}", encoded(&service.name)));
        format!(
            "<tr><td><a href=\"#log-{anchor}\">{name}</a><td>{pill}<td class=number>{port}<td class=\"number more\">{pid}<td class=\"number more\">{restarts}\
             <td class=health>{health}<td class=does>{again}",
            anchor = encoded(&service.name),
            name = escape(&service.name),
            pill = word(&service.state),
            port = service.port.map_or_else(dash, |port| port.to_string()),
            pid = service.pid.map_or_else(dash, |pid| pid.to_string()),
            restarts = service.restarts,
            health = told.map_or_else(dash, |text| escape(text)),
        )
    });
    format!(
        "<section class=card><h2>Services</h2><div class=wide><table><thead><tr><th>Service<th>State<th>Port<th class=more>Pid<th class=more>Restarts<th>Health<th>\
         </thead><tbody>{}</tbody></table></div></section>\n",
        rows.collect::<String>()
    )
}

fn log(name: &str, lines: &[String]) -> String {
    let text = match lines.is_empty() {
        true => "<span class=faint>It has said nothing yet.</span>".to_owned(),
        false => escape(&lines.join("\n")),
    };
    let (anchor, name) = (encoded(name), escape(name));
    format!(
        "<section class=card id=\"log-{anchor}\"><h2>{name}<small>last lines</small></h2><pre class=log id=\"tail-{anchor}\" tabindex=0>{text}</pre></section>\n"
    )
}

fn links(view: &SandboxView) -> String {
    let apps = view.apps.iter().map(|(app, urls)| {
        format!(
            "<span class=app><a href=\"{url}\" rel=\"noopener noreferrer\">{app}</a><a class=direct href=\"{direct}\" rel=\"noopener noreferrer\">:{port}</a></span>",
            url = escape(&urls.url),
            app = escape(app),
            direct = escape(&urls.direct),
            port = escape(urls.direct.rsplit_once(':').map_or("direct", |(_, port)| port)),
        )
    });
    let exposed = view.exposed.iter().map(|port| {
        format!("<span class=app><span class=faint>port {}</span><span class=direct>127.0.0.1:{}</span></span>", port.port, port.host_port)
    });
    apps.chain(exposed).collect()
}

fn pill(service: &ServiceView) -> String {
    format!(
        "<span class=\"pill {kind}\" title=\"{state}\">{name}{told}</span>",
        kind = kind(&service.state),
        state = escape(&service.state),
        name = escape(&service.name),
        told = match service.state.as_str() {
            "ready" | "completed" => String::new(),
            state => format!(" <i>{}</i>", escape(state)),
        },
    )
}

fn word(state: &str) -> String {
    format!("<span class=\"pill {}\">{}</span>", kind(state), escape(state))
}

/// Says how good a state is.
fn kind(state: &str) -> &'static str {
    match state {
        "ready" | "completed" => "good",
        "failed" => "bad",
        "stopped" | "created" | "paused" => "still",
        _ => "busy",
    }
}

fn state_of(shown: &Shown) -> String {
    let state = if shown.asleep { "asleep" } else { shown.view.state.as_str() };
    let kind = if shown.asleep { "still" } else { kind(state) };
    format!("<span class=\"state {kind}\">{state}</span>")
}

fn failure_of(shown: &Shown) -> String {
    shown
        .failure
        .as_deref()
        .map(|text| format!("<p class=failure>{}</p>", escape(text)))
        .unwrap_or_default()
}

fn is_up(state: SandboxState) -> bool {
    matches!(state, SandboxState::Ready | SandboxState::Degraded | SandboxState::Starting)
}

/// Renders what can be done with a sandbox as it stands.
fn buttons(shown: &Shown, token: &str, view: &str) -> String {
    let id = &shown.view.id;
    let wishes: &[(&str, &str)] = match shown.view.state {
        SandboxState::Created | SandboxState::Stopped | SandboxState::Failed => &[("up", "Start")],
        SandboxState::Paused => &[("resume", "Resume"), ("down", "Stop")],
        SandboxState::Ready | SandboxState::Degraded => &[("pause", "Pause"), ("down", "Stop")],
        SandboxState::Starting => &[("down", "Stop")],
        SandboxState::Deleting => &[],
    };
    let forms = wishes.iter().map(|(wish, label)| {
        form(id, token, view, wish, label, "", &format!("{wish}-{}", encoded(id)))
    });
    format!("<div class=does>{}</div>", forms.collect::<String>())
}

fn form(
    id: &str,
    token: &str,
    view: &str,
    wish: &str,
    label: &str,
    more: &str,
    anchor: &str,
) -> String {
    format!(
        "<form method=post action=\"/act\"><input type=hidden name=token value=\"{}\"><input type=hidden name=id value=\"{}\">\
         <input type=hidden name=view value={view}>{more}<button id=\"{anchor}\" name=do value={wish}>{label}</button></form>",
        escape(token),
        escape(id),
    )
}

/// Makes a text fit for one part of an address.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let parts = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    parts.collect()
}

fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => "a moment".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_their_numbers() {
        let mut names = ["b", "a10", "a2", "a2-b10", "a2-b9", "a", "2", "10", ""];
        names.sort_by_cached_key(|name| counted(name));
        assert_eq!(names, ["", "2", "10", "a", "a2", "a2-b9", "a2-b10", "a10", "b"]);
    }

    #[test]
    fn an_address_holds_no_markup() {
        assert_eq!(encoded("a-b_1.c"), "a-b_1.c");
        assert_eq!(encoded("\"><b"), "%22%3E%3Cb");
    }

    #[test]
    fn what_a_room_says_cannot_become_markup() {
        let log = log("x\"><script>", &["</pre><script>alert(1)</script>".to_owned()]);
        assert!(!log.contains("<script"), "{log}");
        assert!(log.contains("&lt;script&gt;alert(1)"), "{log}");
    }
}
