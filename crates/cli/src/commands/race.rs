//! `race`, `keep` and `tmux`: sandboxes side by side.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView,
    agent::{AgentQuery, AgentStartBody, RaceBody, RaceQuery},
    route,
    sandbox::{DeleteBody, DeletedView},
    workspace::{PromoteBody, PromotedView, PromotionWord},
};
use hothouse_host::{Program, process};
use hothouse_model::{
    Failure, FailureKind,
    agent::{AgentRecord, RaceSide, RaceView},
};
use serde_json::json;

use super::{agent::seconds, sandbox::check_reference};
use crate::{
    Surroundings,
    args::{KeepArgs, RaceArgs, TmuxArgs},
    progress::Progress,
    render::{Cell, bytes, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a race and prints the result.
pub(crate) fn race(session: &Session, ui: &Ui, args: RaceArgs) -> Result<ExitCode, Failure> {
    if let Some(name) = &args.sandbox {
        check_reference(name)?;
    }
    let body = RaceBody {
        sandbox: args.sandbox,
        folder: session.folder_text()?,
        task: args.idea,
        with: args.with.iter().flat_map(|with| split(with)).collect(),
        times: args.times,
        seconds: seconds("--time", args.time.as_deref())?,
        scenarios: args.scenarios,
        check: args.check,
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let raced: Result<RaceView, Failure> = session.post(route::RACE, &operation, &body);
    drop(progress);
    let raced = raced?;
    match ui.json {
        true => ui.print_json(&raced),
        false => show(ui, &raced),
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits `claude,codex` into two tools. A text with spaces is a single command.
fn split(with: &str) -> Vec<String> {
    match with.contains(char::is_whitespace) {
        true => vec![with.to_owned()],
        false => with.split(',').filter(|tool| !tool.is_empty()).map(str::to_owned).collect(),
    }
}

/// Shows the result of the race whose sides these sandboxes are; `None` unless they belong to one race that
/// has ended.
pub(super) fn shown(session: &Session, ui: &Ui, sides: &[String]) -> Option<ExitCode> {
    let names = sides.iter().map(|side| race_of(side.rsplit('/').next().unwrap_or(side)));
    let races: Vec<&str> = names.collect::<Option<_>>()?;
    let (first, rest) = races.split_first()?;
    if rest.iter().any(|race| race != first) {
        return None;
    }
    let query = RaceQuery { race: (*first).to_owned() };
    let mut race: RaceView = session.query(route::RACE, &query).ok()?;
    let is_asked = |name: &str| sides.iter().any(|side| side.rsplit('/').next() == Some(name));
    race.sides.retain(|side| is_asked(&side.name));
    match ui.json {
        true => ui.print_json(&race),
        false => show(ui, &race),
    }
    Some(ExitCode::SUCCESS)
}

fn show(ui: &Ui, race: &RaceView) {
    let heading = [
        "SIDE", "TOOL", "STATE", "CHECKS", "FILES", "+", "-", "SECONDS", "CPU", "MEMORY", "HOSTS",
        "DENIED", "COST",
    ];
    ui.print(&table(ui, &heading, race.sides.iter().map(row).collect()));
    if race.sides.iter().any(|side| side.checks.iter().any(|check| !check.ok)) {
        ui.print("");
    }
    for side in &race.sides {
        for check in side.checks.iter().filter(|check| !check.ok) {
            let why = check.detail.as_deref().unwrap_or("does not hold");
            ui.print(&format!(
                "{}: {}: {}: {}",
                ui.paint(Tone::Bad, "failed"),
                side.name,
                plain(&check.name),
                plain(why)
            ));
        }
        for changed in &side.changed_checks {
            ui.print(&format!(
                "{}: {} changed {}",
                ui.paint(Tone::Bad, "checks"),
                side.name,
                plain(changed)
            ));
        }
    }
    if let Some(best) = race.sides.iter().find(|side| side.checks.iter().all(|check| check.ok)) {
        ui.next(&format!("hothouse keep {}", best.name));
    }
}

fn row(side: &RaceSide) -> Vec<Cell> {
    let held = side.checks.iter().filter(|check| check.ok).count();
    let checks = match side.checks.len() {
        0 => "-".to_owned(),
        all => format!("{held}/{all}"),
    };
    let number = |number: u64| Cell::new(number.to_string());
    vec![
        Cell::new(&side.name).tone(Tone::Strong),
        Cell::new(side.tool.chars().take(30).collect::<String>()),
        Cell::new(side.state.as_str()),
        Cell::new(checks),
        number(side.diff.files),
        number(side.diff.added),
        number(side.diff.removed),
        Cell::new(format!("{:.1}", side.seconds)),
        Cell::new(side.cpu_seconds.map_or("-".to_owned(), |cpu| format!("{cpu:.1}"))),
        Cell::new(side.memory.map_or("-".to_owned(), bytes)),
        number(side.egress.hosts.len() as u64),
        number(side.egress.denied),
        Cell::new(side.cost.map_or("-".to_owned(), |cost| format!("${cost:.2}"))),
    ]
}

/// Returns the race that a sandbox is a side of: its name before the last dash.
fn race_of(name: &str) -> Option<&str> {
    let (race, number) = name.rsplit_once('-')?;
    (race.starts_with("race-") && number.chars().all(|c| c.is_ascii_digit())).then_some(race)
}

/// Keeps one side, and removes the others if nothing is lost by that.
pub(crate) fn keep(
    session: &Session,
    ui: &Ui,
    args: &KeepArgs,
    environment: &[(String, String)],
) -> Result<ExitCode, Failure> {
    check_reference(&args.name)?;
    let found = session.find_query(Some(args.name.clone()))?;
    let kept: SandboxView = session.query(route::SANDBOX_FIND, &found)?;
    let Some(race) = race_of(&kept.name) else {
        let message = format!("`{}` is not a side of a race", kept.name);
        return Err(Failure::new(FailureKind::Usage, message)
            .hint(format!("`hothouse promote {}` promotes any sandbox", kept.name)));
    };
    let promoted = match (args.merge, args.push) {
        (false, false) => None,
        (merge, _) => Some(promote(session, &kept, merge, environment)?),
    };
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    let others = all.into_iter().filter(|one| {
        one.project == kept.project && one.name != kept.name && race_of(&one.name) == Some(race)
    });
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for other in others {
        let body = DeleteBody {
            sandbox: format!("{}/{}", other.project, other.name),
            folder: session.folder_text()?,
            force: false,
            branch: false,
            now: false,
        };
        let deleted: Result<DeletedView, Failure> =
            session.post(route::SANDBOX_DELETE, &session.operation(), &body);
        match deleted {
            Ok(_) => removed.push(other.name),
            Err(failure) => left.push((other.name, failure.message)),
        }
    }
    if ui.json {
        let left: Vec<_> =
            left.iter().map(|(name, why)| json!({ "name": name, "reason": why })).collect();
        ui.print_json(&json!({ "kept": kept.name, "branch": kept.branch, "promoted": promoted, "removed": removed, "left": left }));
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Kept `{}`, on branch `{}`.", kept.name, kept.branch));
    for name in removed {
        ui.say(&format!("Removed `{name}`; its branch stays."));
    }
    for (name, why) in left {
        ui.say(&format!("Left `{name}` alone: {}", plain(&why)));
    }
    if promoted.is_none() {
        ui.next(&format!("hothouse promote {}", kept.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn promote(
    session: &Session,
    kept: &SandboxView,
    merge: bool,
    environment: &[(String, String)],
) -> Result<PromotedView, Failure> {
    let body = PromoteBody {
        sandbox: Some(format!("{}/{}", kept.project, kept.name)),
        folder: session.folder_text()?,
        how: if merge { PromotionWord::Merge } else { PromotionWord::Push },
        accept_grants: false,
        shown_grants: None,
        environment: environment.iter().cloned().collect(),
    };
    session.post(route::SANDBOX_PROMOTE, &session.operation(), &body)
}

/// Opens a tmux session with a pane for each sandbox.
pub(crate) fn tmux(
    session: &Session,
    ui: &Ui,
    args: &TmuxArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    args.names.iter().try_for_each(|name| check_reference(name))?;
    let mut lines = Vec::new();
    for name in &args.names {
        let found = session.find_query(Some(name.clone()))?;
        let sandbox: SandboxView = session.query(route::SANDBOX_FIND, &found)?;
        let whole = format!("{}/{}", sandbox.project, sandbox.name);
        if let Some(tool) = &args.agent {
            start_unless_running(session, &whole, tool)?;
        }
        let verb = if args.agent.is_some() { ["agent", "attach"].as_slice() } else { &["shell"] };
        lines.push((whole, verb));
    }
    let program = process::executable()
        .and_then(|path| path.to_str().map(str::to_owned))
        .unwrap_or_else(|| "hothouse".into());
    let command = |(name, verb): &(String, &[&str])| -> String {
        let words = std::iter::once(program.as_str())
            .chain(verb.iter().copied())
            .chain(["-w", name.as_str()]);
        words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
    };
    let tmux = |words: &[&str]| -> Result<(), Failure> {
        let tmux = environment(surroundings).into_iter();
        let tmux = tmux
            .fold(Program::new("tmux").args(words), |tmux, (name, value)| tmux.env(name, value));
        let outcome = tmux.output();
        outcome.map(drop).map_err(|error| {
            Failure::of(FailureKind::Host, &error)
                .hint("tmux has to be installed on this host; `apt install tmux`")
        })
    };
    let first = lines.first().map(command).unwrap_or_default();
    tmux(&["new-session", "-d", "-s", &args.session, "-n", "sandboxes", &first])?;
    for line in lines.iter().skip(1) {
        tmux(&["split-window", "-t", &args.session, &command(line)])?;
        tmux(&["select-layout", "-t", &args.session, "tiled"])?;
    }
    if ui.json {
        ui.print_json(&json!({ "session": args.session, "panes": lines.iter().map(|line| &line.0).collect::<Vec<_>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    if args.detached || !ui.can_ask() {
        ui.print(&format!("tmux attach -t {}", args.session));
        return Ok(ExitCode::SUCCESS);
    }
    let attached = Program::new("tmux").args(["attach", "-t", &args.session]).in_foreground();
    attached.map(ExitCode::from).map_err(|error| Failure::of(FailureKind::Host, &error))
}

fn environment(surroundings: &Surroundings) -> Vec<(String, String)> {
    let names = [
        "PATH",
        "HOME",
        "TMUX_TMPDIR",
        "TERM",
        "LANG",
        "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "SHELL",
    ];
    names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), (surroundings.variable)(name)?)))
        .collect()
}

fn start_unless_running(session: &Session, sandbox: &str, tool: &str) -> Result<(), Failure> {
    let query = AgentQuery { sandbox: Some(sandbox.to_owned()), folder: session.folder_text()? };
    let agents: Vec<AgentRecord> = session.query(route::AGENTS, &query)?;
    if agents.iter().any(|agent| agent.state.is_active()) {
        return Ok(());
    }
    let body = AgentStartBody {
        sandbox: query.sandbox,
        folder: query.folder,
        tool: Some(tool.to_owned()),
        rows: 40,
        columns: 100,
        ..AgentStartBody::default()
    };
    session.post::<AgentRecord>(route::AGENTS, &session.operation(), &body).map(drop)
}
