//! `fork`, `delete`, `list`, `status`, `nuke`.

use std::{path::Path, process::ExitCode};

use hothouse_api::{
    SandboxView, route,
    sandbox::{AgentBrief, DeleteBody, DeletedView, FindQuery, ForkBody, SetupBody, SetupView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxName, SandboxRef, SandboxState,
    agent::AgentState,
    caveat::{Caveat, Class},
};

use super::{config, exec, given::told_text, panel, run_status};
use crate::{
    Surroundings,
    args::{DeleteArgs, ForkArgs, NukeArgs, StatusArgs},
    progress::Progress,
    render::{Cell, age, ago, plain, table, wrapped},
    session::Session,
    ui::{Tone, Ui},
};

const CAME_ALONG: &str = "Dependencies came along: they were installed before with the same command, lock files and manifests.";

/// Creates a sandbox and prints its path.
pub(crate) fn fork(
    session: &Session,
    ui: &Ui,
    args: ForkArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let Surroundings { variables, credentials, .. } = surroundings;
    let name: SandboxName = args.name.parse().map_err(|error| {
        Failure::of(FailureKind::Usage, &error)
            .hint("choose a short name, such as `agent-a` or `fix-login`")
    })?;
    let setup = args.setup.then(|| config::setup(session, variables)).transpose()?;
    let body = ForkBody {
        name: name.to_string(),
        folder: session.folder_text()?,
        base: args.base,
        branch: args.branch,
        task: args.idea,
        context: args.context.as_deref().map(read_context).transpose()?,
        from: args.from,
        environment: args.repo.iter().flat_map(|_| credentials.iter().cloned()).collect(),
        repository: args.repo,
        tree: args.tree,
        stack: args.stack,
        setup: args.setup,
        variables: variables.iter().cloned().collect(),
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let made: Result<SandboxView, Failure> = session.post(route::SANDBOXES, &operation, &body);
    drop(progress);
    let made = made?;
    if ui.json {
        ui.print_json(&made);
    } else {
        let base = short_base(&made.base);
        ui.say(&format!(
            "Made sandbox `{}` on branch `{}`, based on {base}.",
            made.name, made.branch
        ));
        let told = |class| matches!(class, Class::RoomOnly | Class::Pending | Class::LeftOut);
        for caveat in made.caveats.iter().filter(|caveat| caveat.class.known().is_some_and(told)) {
            ui.say(&format!("Note: {}.", plain(&caveat.text)));
        }
        ui.print(&made.worktree);
        if made.caveats.iter().any(|caveat| caveat.value == Some(Caveat::FullCopies)) {
            ui.hint(&format!("Note: {}.", Caveat::FullCopies));
        }
        if setup.is_none() && made.installed {
            ui.say(CAME_ALONG);
        }
        if setup.is_none() {
            ui.next(&format!("hothouse up {}", made.name));
        }
    }
    match setup {
        Some(_) if made.installed => {
            ui.say(CAME_ALONG);
            Ok(ExitCode::SUCCESS)
        }
        Some(line) => install(session, ui, &made.name, line),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Runs the setup command in a room of its own, and caches what it installed.
pub(super) fn install(
    session: &Session,
    ui: &Ui,
    name: &str,
    line: String,
) -> Result<ExitCode, Failure> {
    ui.say(&format!("Installing in a room: {line}"));
    let code = exec::run_in_fresh_room(session, ui, name, &line)?;
    if code == ExitCode::SUCCESS {
        keep_setup(session, ui, name, line)?;
    }
    Ok(code)
}

/// Names the base: a branch or tag, or a commit by its abbreviated id.
fn short_base(base: &str) -> String {
    const SHORT: usize = 10;
    match base.len() >= 40 && base.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => format!("commit `{}`", &base[..SHORT]),
        false => format!("`{}`", plain(base)),
    }
}

/// Caches what was installed for the next fork. The install itself has succeeded, whatever the outcome.
fn keep_setup(session: &Session, ui: &Ui, name: &str, command: String) -> Result<(), Failure> {
    let body = SetupBody { sandbox: name.to_owned(), folder: session.folder_text()?, command };
    let kept = session.post::<SetupView>(route::SANDBOX_SETUP, &session.operation(), &body);
    match kept {
        Ok(SetupView { kept: true, .. }) => {
            ui.say("Kept for the next fork with the same lock files and manifests.");
        }
        Ok(SetupView { reason, .. }) => {
            ui.say(&format!("Not kept for the next fork: {}.", reason.unwrap_or_default()));
        }
        Err(failure) => ui.say(&format!("Not kept for the next fork: {}.", failure.message)),
    }
    Ok(())
}

/// The maximum size of a task description.
const CONTEXT_LIMIT: u64 = 1 << 20;

fn read_context(path: &Path) -> Result<String, Failure> {
    told_text(path, CONTEXT_LIMIT)
}

/// Deletes sandboxes, in order, until one cannot be deleted.
pub(crate) fn delete(session: &Session, ui: &Ui, args: &DeleteArgs) -> Result<ExitCode, Failure> {
    args.names.iter().try_for_each(|name| check_reference(name))?;
    if args.names.len() > 1 {
        // A mistyped name must not leave the work half done.
        args.names.iter().try_for_each(|name| find(session, name).map(drop))?;
    }
    let mut all = DeletedView { deleted: Vec::new(), branches: Vec::new(), until: None };
    for name in &args.names {
        match delete_one(session, ui, name, args) {
            Ok(gone) => {
                all.deleted.extend(gone.deleted);
                all.branches.extend(gone.branches);
                all.until = all.until.or(gone.until);
            }
            // What has been deleted is reported before the reason why the rest was not.
            Err(failure) => {
                if !all.deleted.is_empty() && !ui.json {
                    show_deleted(ui, &all);
                }
                return Err(failure);
            }
        }
    }
    show_deleted(ui, &all);
    Ok(ExitCode::SUCCESS)
}

fn find(session: &Session, name: &str) -> Result<SandboxView, Failure> {
    let query = FindQuery { sandbox: Some(name.to_owned()), folder: session.folder_text()? };
    session.query(route::SANDBOX_FIND, &query)
}

fn delete_one(
    session: &Session,
    ui: &Ui,
    name: &str,
    args: &DeleteArgs,
) -> Result<DeletedView, Failure> {
    let body = DeleteBody {
        sandbox: name.to_owned(),
        folder: session.folder_text()?,
        force: args.force,
        branch: args.branch,
        now: args.now,
    };
    let operation = session.operation();
    let _progress = Progress::follow(session, ui, &operation);
    session.post(route::SANDBOX_DELETE, &operation, &body)
}

/// Deletes every sandbox, after confirmation.
pub(crate) fn nuke(session: &Session, ui: &Ui, args: &NukeArgs) -> Result<ExitCode, Failure> {
    if !args.yes {
        let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
        let question = format!("Delete {} with all uncommitted work in them?", counted(all.len()));
        match ui.ask(&question) {
            Some(true) => {}
            Some(false) => {
                ui.say("Cancelled: nothing was deleted.");
                return Ok(ExitCode::from(FailureKind::Unmet.exit_code()));
            }
            None => {
                return Err(Failure::new(
                    FailureKind::Usage,
                    "confirmation needed, and this is not a terminal",
                )
                .hint("pass `--yes`"));
            }
        }
    }
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let gone: Result<DeletedView, Failure> = session.post(route::NUKE, &operation, &());
    drop(progress);
    show_deleted(ui, &gone?);
    Ok(ExitCode::SUCCESS)
}

fn show_deleted(ui: &Ui, gone: &DeletedView) {
    if ui.json {
        ui.print_json(gone);
        return;
    }
    ui.say(&format!("Deleted {}.", counted(gone.deleted.len())));
    let kept: Vec<_> = gone.branches.iter().map(|branch| format!("`{}`", plain(branch))).collect();
    match kept.as_slice() {
        [] => {}
        [one] => ui.say(&format!("Kept branch {one} and its commits.")),
        several => {
            ui.say(&format!("Kept the branches and their commits: {}.", several.join(", ")));
        }
    }
    let name = |whole: &str| whole.rsplit('/').next().unwrap_or(whole).to_owned();
    match gone.deleted.as_slice() {
        _ if gone.until.is_none() => {}
        [] => {}
        [one] => {
            let name = name(one);
            ui.say(&format!("In the trash for a day: `hothouse undelete {name}` brings it back."));
        }
        _ => ui.say("In the trash for a day: `hothouse undelete NAME` brings one back."),
    }
}

/// Lists the sandboxes.
pub(crate) fn list(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    if ui.json {
        ui.print_json(&all);
    } else if all.is_empty() {
        ui.say("No sandboxes yet; `hothouse fork NAME` makes one.");
    } else {
        let now = HostClock.now();
        ui.print(&listed(ui, &all, now));
        if let Some(first) = all.first() {
            ui.next(&format!("hothouse status {}", first.name));
        }
        match all.iter().map(|sandbox| sandbox.asks).sum::<usize>() {
            0 => {}
            1 => ui.say("1 request of an agent waits for your answer: `hothouse asks`."),
            asks => {
                ui.say(&format!(
                    "{asks} requests of agents wait for your answer: `hothouse asks`."
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Names an agent, and its state unless it is working.
fn agent_word(agent: &AgentBrief) -> String {
    match agent.state {
        AgentState::Running => agent.tool.clone(),
        state => format!("{} ({state})", agent.tool),
    }
}

/// Renders all sandboxes. Leaves out worktrees if the terminal is too narrow; `status` shows them.
fn listed(ui: &Ui, all: &[SandboxView], now: jiff::Timestamp) -> String {
    let rows = |with_worktrees: bool| {
        let row = move |sandbox: &SandboxView| {
            let agent = sandbox.agent.as_ref();
            let login = agent.and_then(|agent| agent.login.as_deref());
            let mut row = vec![
                Cell::new(&sandbox.project),
                Cell::new(&sandbox.name).tone(Tone::Strong),
                Cell::new(panel::state_word(sandbox)).tone(tone(sandbox.state)),
                Cell::new(&sandbox.branch),
                Cell::new(age(sandbox.created, now)),
                Cell::new(panel::ports(sandbox)),
                Cell::new(agent.map_or_else(|| "-".to_owned(), agent_word)),
                Cell::new(login.unwrap_or("-")),
            ];
            row.extend(with_worktrees.then(|| Cell::new(&sandbox.worktree)));
            row
        };
        all.iter().map(row).collect::<Vec<_>>()
    };
    let heads =
        ["PROJECT", "NAME", "STATE", "BRANCH", "AGE", "PORTS", "AGENT", "LOGIN", "WORKTREE"];
    let columns = ui.columns().unwrap_or(usize::MAX);
    let whole = table(ui, &heads, rows(true));
    let is_wide = whole.lines().count() > all.len() + 1;
    match is_wide && columns != usize::MAX && !ui.is_verbose() {
        true => table(ui, &heads[..heads.len() - 1], rows(false)),
        false => whole,
    }
}

/// How often a followed sandbox is queried.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Shows one sandbox, or all.
pub(crate) fn status(session: &Session, ui: &Ui, args: StatusArgs) -> Result<ExitCode, Failure> {
    if args.all {
        return list(session, ui);
    }
    if let Some(run) = &args.run {
        return run_status::show(session, ui, run);
    }
    let which = args.which.clone().which();
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    let mut before: Option<SandboxView> = None;
    loop {
        let sandbox: SandboxView = session.query(route::SANDBOX_FIND, &query)?;
        if before.as_ref() != Some(&sandbox) {
            show_status(ui, &sandbox, &args);
            let asks = before.as_ref().map_or(0, |before| before.asks);
            if args.follow && sandbox.asks > asks && super::ask::rings(session) {
                ui.ring();
            }
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(code) = ui.cut_off() {
            return Ok(code);
        }
        before = Some(sandbox);
        session.block_on(async { tokio::time::sleep(LOOK).await });
    }
}

fn show_status(ui: &Ui, sandbox: &SandboxView, args: &StatusArgs) {
    match ui.json {
        true if args.follow => ui.print_json_line(sandbox),
        true => ui.print_json(sandbox),
        false if ui.is_quiet() => sandbox.apps.values().for_each(|app| ui.print(&app.url)),
        false => {
            let text = in_full(ui, sandbox, args.caveats);
            match ui.rows().filter(|_| args.follow) {
                // The most important lines are on top and must not scroll away.
                Some(rows) => {
                    ui.clear_screen();
                    let lines: Vec<_> = text.lines().take(rows.saturating_sub(1)).collect();
                    ui.print(&lines.join("\n"));
                }
                None => ui.print(&text),
            }
            if !args.follow {
                ui.next(&panel::next(sandbox));
            }
        }
    }
}

fn in_full(ui: &Ui, sandbox: &SandboxView, caveats: bool) -> String {
    let (now, verbose) = (HostClock.now(), ui.is_verbose());
    let mut facts = vec![
        (
            "branch",
            format!(
                "{} (from {})",
                plain(&sandbox.branch),
                short_base(&sandbox.base).replace('`', "")
            ),
        ),
        ("worktree", plain(&sandbox.worktree)),
        ("profile", plain(&sandbox.profile)),
        ("tree", sandbox.tree_driver.to_string()),
        ("egress", sandbox.egress.to_string()),
        ("created", ago(sandbox.created, now)),
    ];
    if let Some(task) = &sandbox.task {
        facts.push(("task", plain(task)));
    }
    if let Some(run) = &sandbox.run {
        facts.push(("run", format!("{}, {}", run.id, ago(run.started, now))));
    }
    if let Some(ttl) = sandbox.ttl.as_ref().and_then(|ttl| ttl.parse().ok()) {
        facts.push(("ends", format!("in {}", age(now, ttl))));
    }
    if sandbox.asks > 0 {
        let asks = format!("{} open: `hothouse asks`", sandbox.asks);
        facts.push(("asks", ui.paint(Tone::Warning, &asks)));
    }
    if !sandbox.fences.is_empty() && verbose {
        let fences = sandbox.fences.iter().map(|(name, state)| format!("{name} {state}"));
        facts.push(("fences", fences.collect::<Vec<_>>().join(", ")));
    }
    if verbose {
        let capabilities: Vec<_> = sandbox.capabilities.iter().map(|one| one.as_str()).collect();
        let told = format!("{}: {}", plain(&sandbox.backend), capabilities.join(", "));
        facts.push(("backend", told));
    }
    let facts = facts.into_iter().map(|(name, value)| fact(ui, name, &value));
    let facts = facts.collect::<Vec<_>>().join("\n");
    let whole = caveats || verbose;
    let told = panel::told_caveats(ui, sandbox, whole);
    let shown = std::iter::once(panel::title(ui, sandbox));
    let shown = shown.chain(panel::pending(ui, sandbox)).chain(panel::running(ui, sandbox));
    let shown = shown.chain(told).chain([facts]).chain(panel::further(ui, sandbox));
    shown.collect::<Vec<_>>().join("\n\n")
}

/// Renders a fact beside its name, wrapped between words if it is too long.
fn fact(ui: &Ui, name: &str, value: &str) -> String {
    const BEFORE: usize = 12;
    let room = ui.columns().map_or(usize::MAX, |columns| columns.saturating_sub(BEFORE));
    let lines = wrapped(value, room).into_iter().enumerate();
    let lines = lines.map(|(at, line)| match at {
        0 => format!("  {name:<10}{line}"),
        _ => format!("{:BEFORE$}{line}", ""),
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn tone(state: SandboxState) -> Tone {
    match state {
        SandboxState::Ready => Tone::Good,
        SandboxState::Failed => Tone::Bad,
        SandboxState::Degraded | SandboxState::Deleting | SandboxState::Starting => Tone::Warning,
        SandboxState::Created | SandboxState::Paused | SandboxState::Stopped => Tone::Faint,
    }
}

pub(super) fn check_reference(text: &str) -> Result<(), Failure> {
    let parsed = text.parse::<SandboxRef>();
    parsed.map(|_| ()).map_err(|error| {
        Failure::of(FailureKind::Usage, &error).hint("`hothouse list` shows all sandboxes")
    })
}

fn counted(sandboxes: usize) -> String {
    if sandboxes == 1 { "1 sandbox".into() } else { format!("{sandboxes} sandboxes") }
}
