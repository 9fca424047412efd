//! The state of `top`, and what keys do. Pure.

use std::collections::HashMap;

use hothouse_api::top::{TopLineView, TopView, UsageView};
use hothouse_model::{SandboxState, agent::AgentState, stack::service::ServiceState};
use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The columns: headings and minimum widths.
pub(super) const COLUMNS: [(&str, u16); 9] = [
    ("Sandbox", 14),
    ("State", 9),
    ("Services", 10),
    ("Agent", 8),
    ("CPU", 6),
    ("Memory", 8),
    ("Errors", 6),
    ("Denied", 6),
    ("Mail", 5),
];

/// The health of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Busy,
    Bad,
    Still,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) tone: Health,
    pub(super) has_errors: bool,
    pub(super) denied: bool,
    /// The health of its agent, if it has one.
    pub(super) agent: Option<Health>,
}

/// What a key requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Quit,
    /// Show a URL in the browser.
    Open(String),
    /// Run one of our commands on the terminal.
    Run(Vec<String>),
}

/// The services of a sandbox of which one is to be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// `PROJECT/NAME`.
    sandbox: String,
    services: Vec<String>,
}

/// The keys that choose one, in order.
const CHOICES: &str = "123456789abcdefghijklmnopqrstuvwxyz";

impl Choice {
    /// Lists the services, each after its key.
    pub(super) fn line(&self) -> String {
        let keyed = CHOICES.chars().zip(&self.services);
        let keyed: Vec<String> = keyed.map(|(key, service)| format!("{key} {service}")).collect();
        format!("Restart  {}  Esc none", keyed.join("  "))
    }

    fn take(mut self, key: KeyCode) -> Option<Act> {
        let KeyCode::Char(key) = key else { return None };
        let at = CHOICES.chars().position(|choice| choice == key)?;
        (at < self.services.len()).then(|| restart(&self.sandbox, self.services.swap_remove(at)))
    }
}

fn restart(sandbox: &str, service: String) -> Act {
    let words = ["restart", "-w", sandbox].map(str::to_owned);
    Act::Run(words.into_iter().chain([service]).collect())
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) lines: Vec<TopLineView>,
    pub(super) chosen: usize,
    /// The last error.
    pub(super) note: Option<String>,
    /// The service to restart is being chosen.
    pub(super) choice: Option<Choice>,
    time: Option<Timestamp>,
    /// The usage of each sandbox at the previous update, and its share of a processor since then.
    before: HashMap<String, UsageView>,
    shares: HashMap<String, f64>,
}

impl State {
    /// Takes a new view. The selected sandbox stays selected.
    pub(super) fn take(&mut self, view: TopView) {
        let chosen = self.lines.get(self.chosen).map(|line| line.sandbox.id.clone());
        let elapsed = self.time.map(|before| view.time.duration_since(before).as_secs_f64());
        let mut lines = view.sandboxes;
        lines.sort_by_key(|line| {
            let is_still = matches!(health(line), Health::Still);
            (is_still, line.sandbox.project.clone(), line.sandbox.name.clone())
        });
        let mut before = HashMap::new();
        self.shares.clear();
        for line in &lines {
            let Some(usage) = line.usage else { continue };
            let id = line.sandbox.id.clone();
            if let (Some(past), Some(elapsed)) = (self.before.get(&id), elapsed) {
                self.shares.insert(id.clone(), share(*past, usage, elapsed));
            }
            before.insert(id, usage);
        }
        self.before = before;
        self.time = Some(view.time);
        let at = chosen.and_then(|id| lines.iter().position(|line| line.sandbox.id == id));
        self.chosen = at.unwrap_or(self.chosen).min(lines.len().saturating_sub(1));
        self.lines = lines;
    }

    /// Returns the lines of the table.
    pub(super) fn rows(&self) -> Vec<Row> {
        let share = |line: &TopLineView| self.shares.get(&line.sandbox.id).copied();
        self.lines.iter().map(|line| row(line, share(line))).collect()
    }

    /// Handles a key, or returns what the caller must do.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Act> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        self.note = None;
        let choice = self.choice.take();
        match key.code {
            KeyCode::Char('c') if is_control => return Some(Act::Quit),
            code if choice.is_some() => return choice?.take(code),
            KeyCode::Char('q') | KeyCode::Esc => return Some(Act::Quit),
            KeyCode::Down | KeyCode::Char('j') => {
                self.chosen = (self.chosen + 1).min(self.lines.len().saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = self.lines.len().saturating_sub(1),
            KeyCode::Enter | KeyCode::Char('o') => return self.open(),
            KeyCode::Char('l') => return self.run(&["logs", "-f", "-w"]),
            KeyCode::Char('s') => return self.run(&["shell", "-w"]),
            KeyCode::Char('a') => return self.attach(),
            KeyCode::Char('r') => return self.restart(),
            KeyCode::Char('u') => return self.run(&["up", "-w"]),
            KeyCode::Char('p') => {
                let is_paused = self.lines.get(self.chosen)?.sandbox.state == SandboxState::Paused;
                return self.run(&[if is_paused { "resume" } else { "pause" }, "-w"]);
            }
            _ => {}
        }
        None
    }

    fn open(&mut self) -> Option<Act> {
        let line = self.lines.get(self.chosen)?;
        let apps = &line.sandbox.apps;
        // As `hothouse open` does.
        let app = apps.get("web").or_else(|| apps.values().next());
        let url = app.map(|app| app.url.clone());
        if url.is_none() {
            self.note = Some(format!("`{}` has no app to open", line.sandbox.name));
        }
        url.map(Act::Open)
    }

    /// Restarts a service: the only one, or the one that is chosen next.
    fn restart(&mut self) -> Option<Act> {
        let sandbox = &self.lines.get(self.chosen)?.sandbox;
        let name = format!("{}/{}", sandbox.project, sandbox.name);
        let mut services: Vec<String> =
            sandbox.services.iter().map(|service| service.name.clone()).collect();
        match services.len() {
            0 => self.note = Some(format!("`{}` has no services that run", sandbox.name)),
            1 => return services.pop().map(|service| restart(&name, service)),
            _ => self.choice = Some(Choice { sandbox: name, services }),
        }
        None
    }

    /// Returns how many requests of agents are open.
    pub(super) fn asks(&self) -> usize {
        self.lines.iter().map(|line| line.sandbox.asks).sum()
    }

    /// Shows the terminal of the agent.
    fn attach(&mut self) -> Option<Act> {
        let sandbox = &self.lines.get(self.chosen)?.sandbox;
        if sandbox.agent.as_ref().is_some_and(|agent| agent.state.is_active()) {
            return self.run(&["agent", "attach", "-w"]);
        }
        self.note = Some(format!(
            "`{}` has no agent that runs: `hothouse agent start {}`",
            sandbox.name, sandbox.name
        ));
        None
    }

    fn run(&self, words: &[&str]) -> Option<Act> {
        let sandbox = &self.lines.get(self.chosen)?.sandbox;
        let name = format!("{}/{}", sandbox.project, sandbox.name);
        let words = words.iter().map(|word| (*word).to_owned());
        Some(Act::Run(words.chain([name]).collect()))
    }
}

/// Returns the share of one processor that was used between two updates.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of a processor are few")]
fn share(before: UsageView, now: UsageView, seconds: f64) -> f64 {
    let taken = now.cpu_ms.saturating_sub(before.cpu_ms) as f64 / 1000.0;
    if seconds > 0.0 { taken / seconds } else { 0.0 }
}

/// Builds the line of a sandbox.
pub(super) fn row(line: &TopLineView, share: Option<f64>) -> Row {
    let sandbox = &line.sandbox;
    let state = if sandbox.asleep { "asleep" } else { sandbox.state.as_str() };
    let well = sandbox.services.iter().filter(|service| service.state.is_well()).count();
    let failed = sandbox.services.iter().find(|service| service.state == ServiceState::Failed);
    let services = match failed {
        Some(failed) => format!("{well}/{} {}", sandbox.services.len(), failed.name),
        None => format!("{well}/{}", sandbox.services.len()),
    };
    let count = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let cells = vec![
        format!("{}/{}", sandbox.project, sandbox.name),
        state.to_owned(),
        services,
        sandbox.agent.as_ref().map_or("-", |agent| agent.state.as_str()).to_owned(),
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
        line.usage.map_or_else(|| "-".to_owned(), |usage| megabytes(usage.memory_bytes)),
        count(line.errors),
        count(line.denied),
        count(line.mails),
    ];
    Row {
        cells,
        tone: health(line),
        has_errors: line.errors > 0,
        denied: line.denied > 0,
        agent: sandbox.agent.as_ref().map(|agent| agent_health(agent.state)),
    }
}

fn agent_health(state: AgentState) -> Health {
    match state {
        AgentState::Running => Health::Good,
        AgentState::Starting | AgentState::Waiting => Health::Busy,
        AgentState::Failed => Health::Bad,
        AgentState::Exited | AgentState::Stopped => Health::Still,
    }
}

fn health(line: &TopLineView) -> Health {
    match line.sandbox.state {
        _ if line.sandbox.asleep => Health::Still,
        SandboxState::Ready => Health::Good,
        SandboxState::Failed | SandboxState::Degraded => Health::Bad,
        SandboxState::Created | SandboxState::Stopped | SandboxState::Paused => Health::Still,
        SandboxState::Starting | SandboxState::Deleting => Health::Busy,
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hothouse_api::{SandboxView, sandbox::AgentBrief, service::ServiceView};

    use super::*;

    fn line(name: &str, state: SandboxState, cpu_ms: u64) -> TopLineView {
        let word = || name.to_owned();
        let sandbox = SandboxView {
            name: word(),
            id: word(),
            project: "p".into(),
            branch: word(),
            base: word(),
            worktree: word(),
            created: Timestamp::UNIX_EPOCH,
            task: None,
            stack: word(),
            egress: hothouse_model::Word::default(),
            ttl: None,
            state,
            backend: word(),
            capabilities: Vec::new(),
            tree_driver: hothouse_model::tree::TreeMaker::Foreign,
            profile: word(),
            run: None,
            services: Vec::new(),
            apps: BTreeMap::new(),
            exposed: Vec::new(),
            fences: BTreeMap::new(),
            caveats: Vec::new(),
            integrations: Vec::new(),
            asks: 0,
            agent: None,
            asleep: false,
            installed: false,
            flags: Vec::new(),
        };
        let is_up = state == SandboxState::Ready;
        let usage = UsageView { cpu_ms, memory_bytes: 3 << 20, processes: 2 };
        let usage = is_up.then_some(usage);
        TopLineView { sandbox, usage, errors: 0, denied: 2, mails: 0, records: 9 }
    }

    fn view(second: i64, lines: &[TopLineView]) -> TopView {
        TopView { time: Timestamp::from_second(second).unwrap(), sandboxes: lines.to_vec() }
    }

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn the_share_of_a_processor_is_what_was_taken_between_two_looks() {
        let mut state = State::default();
        state.take(view(10, &[line("a", SandboxState::Ready, 1000)]));
        assert_eq!(state.rows()[0].cells[4], "-", "one look tells nothing");
        state.take(view(12, &[line("a", SandboxState::Ready, 2000)]));
        let row = &state.rows()[0];
        assert_eq!((row.cells[4].as_str(), row.cells[5].as_str()), ("50%", "3 MB"));
        // A room that was started again counts from zero.
        state.take(view(14, &[line("a", SandboxState::Ready, 0)]));
        assert_eq!(state.rows()[0].cells[4], "0%");
    }

    #[test]
    fn what_runs_stands_above_and_the_chosen_one_stays_chosen() {
        let mut state = State::default();
        let (a, b) = (line("a", SandboxState::Stopped, 0), line("b", SandboxState::Ready, 0));
        state.take(view(1, &[a, b.clone()]));
        assert_eq!(state.lines[0].sandbox.name, "b");
        assert_eq!(state.press(key(KeyCode::Down)), None);
        state.take(view(2, &[line("a", SandboxState::Ready, 0), b]));
        assert_eq!(state.lines[state.chosen].sandbox.name, "a");
        state.take(view(3, &[]));
        assert_eq!((state.chosen, state.press(key(KeyCode::Char('l')))), (0, None));
    }

    #[test]
    fn an_agent_is_shown_and_attached_while_it_runs() {
        let mut state = State::default();
        let mut one = line("a", SandboxState::Ready, 0);
        for (agent, tone, attaches) in [
            (AgentState::Running, Health::Good, true),
            (AgentState::Waiting, Health::Busy, true),
            (AgentState::Failed, Health::Bad, false),
            (AgentState::Stopped, Health::Still, false),
        ] {
            one.sandbox.agent = Some(AgentBrief {
                tool: "claude".into(),
                mode: hothouse_model::agent::AgentMode::Once,
                state: agent,
                round: 1,
                reason: None,
                login: None,
            });
            state.take(view(1, std::slice::from_ref(&one)));
            let row = &state.rows()[0];
            assert_eq!((row.cells[3].as_str(), row.agent), (agent.as_str(), Some(tone)));
            let act = state.press(key(KeyCode::Char('a')));
            let words = ["agent", "attach", "-w", "p/a"].map(str::to_owned).to_vec();
            assert_eq!(act, attaches.then_some(Act::Run(words)), "{agent}");
        }
    }

    fn service(name: &str) -> ServiceView {
        ServiceView {
            name: name.to_owned(),
            state: ServiceState::Ready,
            pid: None,
            room_pid: None,
            restarts: 0,
            port: None,
            health: None,
            log: String::new(),
            task: false,
            needs: Vec::new(),
            exit: None,
            probes: Vec::new(),
            url: None,
            started_ms: None,
            ready_ms: None,
        }
    }

    #[test]
    fn a_restart_asks_which_service_where_there_are_several() {
        let mut state = State::default();
        let mut one = line("a", SandboxState::Ready, 0);
        one.sandbox.services = vec![service("db")];
        state.take(view(1, std::slice::from_ref(&one)));
        let restarted = |service: &str| {
            Some(Act::Run(["restart", "-w", "p/a", service].map(str::to_owned).to_vec()))
        };
        assert_eq!(state.press(key(KeyCode::Char('r'))), restarted("db"));
        one.sandbox.services.push(service("web"));
        state.take(view(2, std::slice::from_ref(&one)));
        for (chosen, act) in [
            (KeyCode::Char('2'), restarted("web")),
            (KeyCode::Char('3'), None),
            (KeyCode::Char('q'), None),
            (KeyCode::Esc, None),
        ] {
            assert_eq!(state.press(key(KeyCode::Char('r'))), None);
            let shown = state.choice.as_ref().map(Choice::line);
            assert_eq!(shown.as_deref(), Some("Restart  1 db  2 web  Esc none"));
            assert_eq!(state.press(key(chosen)), act);
            assert_eq!(state.choice, None);
        }
    }

    /// Each command must be one that this program has: a key that runs another fails only when it is pressed.
    #[test]
    fn what_keys_run_can_be_parsed() {
        use clap::Parser;
        let mut state = State::default();
        let mut one = line("a", SandboxState::Ready, 0);
        one.sandbox.services = vec![service("db")];
        one.sandbox.agent = Some(AgentBrief {
            tool: "claude".into(),
            mode: hothouse_model::agent::AgentMode::Once,
            state: AgentState::Running,
            round: 1,
            reason: None,
            login: None,
        });
        let mut run = 0;
        for paused in [false, true] {
            one.sandbox.state = if paused { SandboxState::Paused } else { SandboxState::Ready };
            state.take(view(1, std::slice::from_ref(&one)));
            for code in ('a'..='z').map(KeyCode::Char) {
                let Some(Act::Run(words)) = state.press(key(code)) else { continue };
                let line = std::iter::once("hothouse".to_owned()).chain(words.clone());
                crate::args::Arguments::try_parse_from(line)
                    .unwrap_or_else(|error| panic!("{words:?}: {error}"));
                run += 1;
            }
        }
        assert_eq!(run, 12, "logs, shell, attach, restart, up, pause or resume");
    }

    #[test]
    fn keys_run_commands_of_the_chosen_sandbox() {
        let mut state = State::default();
        state.take(view(1, &[line("a", SandboxState::Ready, 0)]));
        let words = |act: Option<Act>| match act {
            Some(Act::Run(words)) => words.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(words(state.press(key(KeyCode::Char('p')))), "pause -w p/a");
        assert_eq!(words(state.press(key(KeyCode::Char('l')))), "logs -f -w p/a");
        assert_eq!(state.press(key(KeyCode::Enter)), None);
        assert!(state.note.as_deref().is_some_and(|note| note.contains("no app")));
        assert_eq!(state.press(key(KeyCode::Char('a'))), None);
        assert!(state.note.as_deref().is_some_and(|note| note.contains("hothouse agent start a")));
        assert_eq!(state.press(key(KeyCode::Char('r'))), None);
        assert!(state.note.as_deref().is_some_and(|note| note.contains("no services")));
        state.take(view(2, &[line("a", SandboxState::Paused, 0)]));
        assert_eq!(words(state.press(key(KeyCode::Char('p')))), "resume -w p/a");
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(end), Some(Act::Quit));
    }
}
