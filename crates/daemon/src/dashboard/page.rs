//! The pages. Their layout is in `templates/`, which escape everything that comes from a room or a repository.

use std::collections::{BTreeMap, HashMap};

use askama::{Template, filters::Safe};
use hothouse_api::{SandboxView, service::ServiceView};
use hothouse_dashboard::{
    page::Note,
    place::Subject,
    spark::Usage,
    text::{age, encoded, short},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::{
    html::{self, Markup},
    proxy::{Body, body_of},
};
use hothouse_model::{
    SandboxRecord, SandboxState,
    agent::{AgentMode, AgentState},
    room::RunningProgram,
    stack::service::ServiceState,
};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use jiff::Timestamp;

use hothouse_reconcile::urls::is_asleep;

use super::Dashboard;
use crate::{Daemon, view};

/// How many lines of each log the page of a sandbox shows.
const TAIL: usize = 60;

/// How many lines the page of a log shows, and how many of them form one layout part.
const LONG_TAIL: usize = 10_000;
const LOG_PART: usize = 200;

/// How many processes the page of a sandbox lists.
const PROGRAMS: usize = 200;

/// A sandbox with what its page needs.
struct Shown {
    view: SandboxView,
    asleep: bool,
    /// What the last action from a page led to.
    note: Option<Note>,
    /// Its newest run with a result.
    proof: Option<Proof>,
    /// The log of each service; only on the page of a single sandbox.
    logs: Vec<Log>,
    usage: Option<Usage>,
    /// The programs in its room; only on the page of a single sandbox.
    programs: Vec<RunningProgram>,
    now: Timestamp,
}

/// The result of a scenario.
struct Proof {
    scenario: String,
    ok: bool,
    run: String,
}

/// The last lines of a service.
struct Log {
    name: String,
    lines: Vec<String>,
}

/// Answers with a page.
pub(super) fn html(status: StatusCode, page: &impl Template) -> Response<Body> {
    let mut response = Response::new(body_of(html::render(page).0));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A complete page, around the part that changes.
#[derive(Template)]
#[template(path = "live.html")]
pub(super) struct Live<'a> {
    pub(super) title: &'a str,
    /// The address that is updated live, if it is.
    pub(super) at: Option<&'a str>,
    pub(super) main: Safe<&'a str>,
    /// How many decisions wait for the user.
    pub(super) waiting: usize,
}

/// The page for browsers without a session.
#[derive(Template)]
#[template(path = "stranger.html")]
pub(super) struct Stranger;

/// The page for an invalid link.
#[derive(Template)]
#[template(path = "used-up.html")]
pub(super) struct UsedUp;

/// The page for missing content.
#[derive(Template)]
#[template(path = "nothing.html")]
pub(super) struct Nothing;

/// All sandboxes, by project.
#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    projects: Vec<Project<'a>>,
    token: &'a str,
}

struct Project<'a> {
    name: &'a str,
    up: usize,
    sandboxes: Vec<&'a Shown>,
}

/// One sandbox.
#[derive(Template)]
#[template(path = "single.html")]
struct Single<'a> {
    shown: &'a Shown,
    token: &'a str,
    navigation: Markup,
}

/// A long log of a service, in parts: browsers lay out only the visible ones.
#[derive(Template)]
#[template(path = "log.html")]
struct LongLog {
    name: String,
    lines: Vec<String>,
    navigation: Markup,
}

impl LongLog {
    fn parts(&self) -> impl Iterator<Item = String> {
        self.lines.chunks(LOG_PART).map(|part| part.join("\n"))
    }
}

/// Renders all sandboxes.
pub(super) fn overview_of(
    dashboard: &Dashboard,
    token: &str,
    mut notes: HashMap<String, Note>,
) -> Option<Markup> {
    let daemon = &dashboard.daemon;
    let all = daemon.engine.sandboxes().ok()?;
    let mut usages = dashboard.usages.of(daemon, &all);
    let now = HostClock.now();
    let mut proofs = proofs(daemon);
    let shown = all.into_iter().map(|record| Shown {
        proof: proofs.remove(record.id.as_str()),
        logs: Vec::new(),
        programs: Vec::new(),
        usage: usages.remove(&record.key),
        asleep: is_asleep(&record),
        note: notes.remove(record.id.as_str()),
        view: view::row(daemon, record),
        now,
    });
    Some(overview(&shown.collect::<Vec<_>>(), token))
}

/// Renders one sandbox; `None` if it does not exist.
pub(super) fn single_of(
    dashboard: &Dashboard,
    id: &str,
    token: &str,
    navigation: Markup,
) -> Option<Markup> {
    let daemon = &dashboard.daemon;
    let all = daemon.engine.sandboxes().ok()?;
    let mut usages = dashboard.usages.of(daemon, &all);
    let record = all.into_iter().find(|sandbox| sandbox.id.as_str() == id)?;
    let services = daemon.engine.stack_of(&record).into_iter().flat_map(|stack| stack.services);
    let logs = services.map(|service| {
        let name = service.spec.name;
        Log { lines: daemon.engine.tail_of(&record, &name, TAIL), name }
    });
    let now = HostClock.now();
    let shown = Shown {
        proof: proofs(daemon).remove(id),
        logs: logs.collect(),
        programs: programs(daemon, &record),
        usage: usages.remove(&record.key),
        asleep: is_asleep(&record),
        note: None,
        view: view::sandbox(daemon, record),
        now,
    };
    Some(single(&shown, token, navigation))
}

/// Returns the newest run with a result of each sandbox, by its id.
fn proofs(daemon: &Daemon) -> HashMap<String, Proof> {
    let mut newest = HashMap::new();
    for run in daemon.engine.runs().unwrap_or_default() {
        let (Some(id), Some(scenario), Some(ok)) = (run.sandbox_id, run.scenario, run.ok) else {
            continue;
        };
        newest.entry(id).or_insert(Proof { scenario, ok, run: run.id });
    }
    newest
}

/// Returns the programs that are running in a room, in start order.
fn programs(daemon: &Daemon, record: &SandboxRecord) -> Vec<RunningProgram> {
    let mut programs = daemon.engine.programs(record);
    programs.sort_by_key(|program| (program.started, program.pid));
    programs.truncate(PROGRAMS);
    programs
}

fn command(program: &RunningProgram) -> String {
    short(&program.argv.join(" "), 200)
}

/// Renders the log of a service; `None` if there is no such service.
pub(super) fn log_of(
    daemon: &Daemon,
    id: &str,
    service: String,
    navigation: Markup,
) -> Option<Markup> {
    let record = super::records::sandbox(daemon, id)?;
    let stack = daemon.engine.stack_of(&record)?;
    stack.services.iter().find(|known| known.name() == service)?;
    let lines = daemon.engine.tail_of(&record, &service, LONG_TAIL);
    Some(html::render(&LongLog { name: service, lines, navigation }))
}

fn overview(all: &[Shown], token: &str) -> Markup {
    let mut projects: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for shown in all {
        projects.entry(&shown.view.project).or_default().push(shown);
    }
    let projects = projects.into_iter().map(|(name, mut sandboxes)| {
        // Sandboxes that are running, or should be, come first.
        sandboxes.sort_by_cached_key(|shown| {
            let rests = matches!(shown.view.state, SandboxState::Created | SandboxState::Stopped);
            (rests && !shown.asleep, counted(&shown.view.name))
        });
        let up = sandboxes.iter().filter(|shown| is_up(shown.view.state)).count();
        Project { name, up, sandboxes }
    });
    html::render(&Overview { projects: projects.collect(), token })
}

fn single(shown: &Shown, token: &str, navigation: Markup) -> Markup {
    html::render(&Single { shown, token, navigation })
}

/// Splits a name into text and numbers, so that `agent-2` sorts before `agent-10`.
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

impl Shown {
    fn state(&self) -> &'static str {
        if self.asleep { "asleep" } else { self.view.state.as_str() }
    }

    fn kind(&self) -> &'static str {
        match self.view.state {
            _ if self.asleep => "still",
            SandboxState::Ready => "good",
            SandboxState::Failed => "bad",
            SandboxState::Stopped | SandboxState::Created | SandboxState::Paused => "still",
            SandboxState::Starting | SandboxState::Degraded | SandboxState::Deleting => "busy",
        }
    }

    /// Returns the address of its page.
    fn path(&self) -> String {
        Subject::Sandbox(self.view.id.clone()).path()
    }

    /// Describes its agent: the tool, its state, and the round of a loop.
    fn agent(&self) -> Option<(String, &'static str)> {
        let agent = self.view.agent.as_ref()?;
        let round = match agent.mode {
            AgentMode::Loop => format!(", round {}", agent.round),
            AgentMode::Once => String::new(),
        };
        let kind = match agent.state {
            AgentState::Waiting | AgentState::Starting => "busy",
            AgentState::Running => "good",
            AgentState::Failed => "bad",
            AgentState::Exited | AgentState::Stopped => "still",
        };
        Some((format!("{} {}{round}", short(&agent.tool, 30), agent.state), kind))
    }

    /// Returns why its agent waits or has ended.
    fn reason(&self) -> Option<String> {
        let agent = self.view.agent.as_ref()?;
        // Reasons mark commands as the command line does.
        agent.reason.as_ref().map(|reason| short(&reason.replace('`', ""), 200))
    }

    fn age(&self, then: &Timestamp) -> String {
        age(*then, self.now)
    }

    /// Returns the actions for its current state: the value in the form, and the label.
    fn wishes(&self) -> &'static [(&'static str, &'static str)] {
        match self.view.state {
            SandboxState::Created | SandboxState::Stopped | SandboxState::Failed => {
                &[("up", "Start")]
            }
            SandboxState::Paused => &[("resume", "Resume"), ("down", "Stop")],
            SandboxState::Ready | SandboxState::Degraded => &[("pause", "Pause"), ("down", "Stop")],
            SandboxState::Starting => &[("down", "Stop")],
            SandboxState::Deleting => &[],
        }
    }
}

/// Describes the health of a service: its exit if it has ended, else the last result of its probe.
fn health_of(service: &ServiceView) -> Option<String> {
    match &service.exit {
        Some(exit) if service.pid.is_none() => Some(exit.to_string()),
        _ => service.health.as_ref().map(ToString::to_string),
    }
}

fn port_of(url: &str) -> &str {
    url.rsplit_once(':').map_or("direct", |(_, port)| port)
}

/// Returns the CSS class of a service's state.
fn kind(state: &ServiceState) -> &'static str {
    match state {
        ServiceState::Ready | ServiceState::Completed => "good",
        ServiceState::Failed => "bad",
        ServiceState::Stopped => "still",
        _ => "busy",
    }
}

fn is_up(state: SandboxState) -> bool {
    matches!(state, SandboxState::Ready | SandboxState::Degraded | SandboxState::Starting)
}

#[cfg(test)]
mod tests {
    use hothouse_api::sandbox::{AgentBrief, AppView, CaveatView, RunView};
    use hothouse_dashboard::page::Progress;
    use hothouse_model::{
        Word,
        stack::service::{Exit, Found},
    };

    use super::*;

    #[test]
    fn names_stand_in_the_order_of_their_numbers() {
        let mut names = ["b", "a10", "a2", "a2-b10", "a2-b9", "a", "2", "10", ""];
        names.sort_by_cached_key(|name| counted(name));
        assert_eq!(names, ["", "2", "10", "a", "a2", "a2-b9", "a2-b10", "a10", "b"]);
    }

    const NOW: i64 = 9_000;

    /// Returns a sandbox with `text` in every field that a room, a repository or a user controls.
    fn shown(text: &str) -> Shown {
        let time = |seconds| Timestamp::from_second(seconds).unwrap();
        let word = || text.to_owned();
        let service = ServiceView {
            name: word(),
            state: ServiceState::Ready,
            pid: None,
            room_pid: None,
            restarts: 0,
            port: None,
            health: Some(Found::Problem(word())),
            log: word(),
            task: false,
            needs: Vec::new(),
            exit: None,
            probes: Vec::new(),
            url: None,
            started_ms: None,
            ready_ms: None,
        };
        let view = SandboxView {
            name: word(),
            id: word(),
            project: word(),
            branch: format!("{text}/branch"),
            base: word(),
            worktree: word(),
            created: time(NOW - 120),
            task: Some(word()),
            stack: word(),
            egress: hothouse_model::Word::default(),
            ttl: None,
            state: SandboxState::Ready,
            backend: word(),
            capabilities: Vec::new(),
            tree_driver: hothouse_model::tree::TreeMaker::Foreign,
            profile: word(),
            run: Some(RunView { id: word(), artifacts: word(), started: time(NOW), seed: None }),
            services: vec![
                ServiceView { exit: Some(Exit::from(word())), ..service.clone() },
                service,
            ],
            apps: [(word(), AppView { url: word(), direct: format!("x:{text}"), shared: word() })]
                .into(),
            exposed: Vec::new(),
            fences: BTreeMap::new(),
            caveats: vec![CaveatView {
                area: word(),
                class: Word::read(word()),
                text: word(),
                value: None,
            }],
            integrations: Vec::new(),
            asks: 0,
            agent: Some(AgentBrief {
                tool: word(),
                mode: AgentMode::Loop,
                state: AgentState::Waiting,
                round: 2,
                reason: Some(word()),
                login: Some(word()),
            }),
            asleep: false,
            installed: false,
            flags: Vec::new(),
        };
        let logs = vec![Log { name: word(), lines: vec![word(), word()] }];
        let program = RunningProgram { pid: 7, parent: 1, started: 1, argv: vec![word(), word()] };
        Shown {
            view,
            asleep: false,
            note: Some(Note { text: word(), hints: vec![word()], progress: Progress::Failed }),
            proof: Some(Proof { scenario: word(), ok: false, run: word() }),
            logs,
            usage: Some(Usage::new(&[1], &[2], 3)),
            programs: vec![program],
            now: time(NOW),
        }
    }

    fn pages(text: &str) -> [String; 3] {
        let shown = shown(text);
        let one = single(&shown, text, Safe(String::new()));
        let whole = Live { title: text, at: Some(text), main: Safe(&one.0), waiting: 1 };
        [html::render(&whole).0, one.0.clone(), overview(&[shown], text).0]
    }

    #[test]
    fn no_page_shows_a_text_as_markup() {
        let plain = pages("x");
        for attack in ["<script>", "\"><img src=x>", "' onclick=x '", "</pre></title><b>", "&lt;"] {
            for (page, plain) in pages(attack).iter().zip(&plain) {
                assert!(!page.contains(attack), "{attack}: {page}");
                for delimiter in ["<", ">", "\"", "'"] {
                    let count = |page: &str| page.matches(delimiter).count();
                    assert_eq!(count(page), count(plain), "{attack}: {page}");
                }
            }
        }
    }

    #[test]
    fn a_log_is_shown_as_it_is_or_said_to_be_empty() {
        let mut shown = shown("x");
        shown.logs[0].lines = vec!["  <a>".into(), String::new(), "b\x1b\u{202e}".into()];
        shown.logs.push(Log { name: "y".into(), lines: Vec::new() });
        let page = single(&shown, "t", Safe(String::new())).0;
        assert!(page.contains("tabindex=0>  &lt;a&gt;\n\nb\u{fffd}\u{fffd}</pre>"), "{page}");
        assert!(page.contains("tabindex=0><span class=faint>No output yet."), "{page}");
    }
}
