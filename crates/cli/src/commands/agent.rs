//! `agent`: coding agents in rooms.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    agent::{AgentLogView, AgentQuery, AgentStartBody, PROMPT_LIMIT},
    route,
};
use hothouse_host::{Clock, clock::HostClock, terminal};
use hothouse_model::{
    Failure, FailureKind,
    agent::{AgentRecord, AgentState, LoopSpec},
};

use super::{
    exec,
    given::{duration, told_text},
    login,
    past::Past,
    timeline::checked,
};
use crate::{
    Surroundings,
    args::{
        AgentCommand, AgentLogsArgs, AgentLoopArgs, AgentStartArgs, AgentTaskArgs, NamedRun, Which,
    },
    render::{Cell, age, plain, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a command of `agent`.
pub(crate) fn run(
    session: &Session,
    ui: &Ui,
    command: AgentCommand,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let kind = surroundings.terminal.as_str();
    match command {
        AgentCommand::Login(args) => login::login(session, ui, &args, surroundings),
        AgentCommand::Token { tool, account } => {
            login::token(session, ui, tool, account, surroundings)
        }
        AgentCommand::Start(args) => start(session, ui, args, kind),
        AgentCommand::Loop(args) => rounds(session, ui, args),
        AgentCommand::Stop(args) => change(session, ui, args.which.which(), route::AGENTS_STOP),
        AgentCommand::Resume(args) => change(session, ui, args.which.which(), route::AGENTS_RESUME),
        AgentCommand::List(args) => list(session, ui, args),
        AgentCommand::Logs(args) => logs(session, ui, args),
        AgentCommand::Attach(args) => attach(session, ui, args.which.which(), kind),
    }
}

fn start(
    session: &Session,
    ui: &Ui,
    args: AgentStartArgs,
    kind: &str,
) -> Result<ExitCode, Failure> {
    let which = args.which.which();
    let body =
        AgentStartBody { unattended: args.unattended, ..body(session, which.clone(), args.task)? };
    let started: AgentRecord = session.post(route::AGENTS, &session.operation(), &body)?;
    if args.attach && !ui.json {
        return exec::attach(session, ui, which.sandbox, started.exec, kind);
    }
    tell(ui, &started);
    Ok(ExitCode::SUCCESS)
}

fn tell(ui: &Ui, agent: &AgentRecord) {
    if ui.json {
        return ui.print_json(agent);
    }
    let AgentRecord { sandbox, tool, state, .. } = agent;
    ui.say(&format!("`{}` of `{sandbox}` is {state}.", plain(tool)));
    ui.next(&format!("hothouse agent attach {sandbox}"));
}

/// Reads a file to be passed to an agent, up to a size limit.
fn told_file(path: &std::path::Path) -> Result<String, Failure> {
    told_text(path, u64::try_from(PROMPT_LIMIT).unwrap_or(u64::MAX))
}

fn body(session: &Session, which: Which, task: AgentTaskArgs) -> Result<AgentStartBody, Failure> {
    let AgentTaskArgs { tool, prompt, prompt_file, idea, context, model, no_guard } = task;
    let prompt = match prompt_file {
        Some(file) => Some(told_file(&file)?),
        None => prompt,
    };
    let context = context.map(|file| told_file(&file)).transpose()?;
    let task = match (idea, context) {
        (Some(idea), Some(context)) => Some(format!("{idea}\n\n{context}")),
        (idea, context) => idea.or(context),
    };
    let (rows, columns) = terminal::size().unwrap_or((40, 120));
    Ok(AgentStartBody {
        sandbox: checked(which)?,
        folder: session.folder_text()?,
        tool,
        prompt,
        task,
        model,
        no_guard,
        rows,
        columns,
        ..AgentStartBody::default()
    })
}

fn rounds(session: &Session, ui: &Ui, args: AgentLoopArgs) -> Result<ExitCode, Failure> {
    let spec = LoopSpec {
        rounds: args.rounds,
        seconds: seconds("--time", args.time.as_deref())?,
        cost: args.cost,
        check: args.check,
        done_file: args.done,
        pause: seconds("--pause", args.pause.as_deref())?,
    };
    let body =
        AgentStartBody { rounds: Some(spec), ..body(session, args.which.which(), args.task)? };
    let started: AgentRecord = session.post(route::AGENTS, &session.operation(), &body)?;
    if !args.wait {
        tell(ui, &started);
        return Ok(ExitCode::SUCCESS);
    }
    let ended = await_end(session, &started, &body)?;
    let done = ended.state == AgentState::Exited;
    match ui.json {
        true => ui.print_json(&ended),
        false => show_rounds(ui, &ended),
    }
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::from(FailureKind::Unmet.exit_code()) })
}

pub(super) fn seconds(option: &str, text: Option<&str>) -> Result<Option<u64>, Failure> {
    Ok(duration(option, text)?.map(|span| span.as_secs().max(1)))
}

/// Waits until an agent has ended.
fn await_end(
    session: &Session,
    agent: &AgentRecord,
    body: &AgentStartBody,
) -> Result<AgentRecord, Failure> {
    let begun = Instant::now();
    loop {
        let query = AgentQuery {
            sandbox: body.sandbox.clone().or(Some(agent.sandbox.clone())),
            folder: body.folder.clone(),
        };
        let all: Vec<AgentRecord> = session.query(route::AGENTS, &query)?;
        if let Some(now) = all.into_iter().find(|one| one.id == agent.id)
            && !now.state.is_active()
        {
            return Ok(now);
        }
        let pause = if begun.elapsed() < Duration::from_secs(10) { 100 } else { 1000 };
        std::thread::sleep(Duration::from_millis(pause));
    }
}

fn show_rounds(ui: &Ui, agent: &AgentRecord) {
    for round in &agent.rounds {
        let commit = round
            .commit
            .as_deref()
            .map_or("no commit", |commit| commit.get(..10).unwrap_or(commit));
        let check = match round.green {
            Some(true) => ", the check passes",
            Some(false) => ", the check fails",
            None => "",
        };
        ui.print(&format!(
            "round {}: exit {}, {}, +{} -{}, {}{check}",
            round.round,
            round.exit,
            if round.files == 1 { "1 file".to_owned() } else { format!("{} files", round.files) },
            round.added,
            round.removed,
            plain(commit)
        ));
    }
    ui.print(&format!("{}: {}", agent.state, plain(agent.reason.as_deref().unwrap_or("ended"))));
}

fn change(session: &Session, ui: &Ui, which: Which, path: &str) -> Result<ExitCode, Failure> {
    let query = AgentQuery { sandbox: checked(which)?, folder: session.folder_text()? };
    let agent: AgentRecord = session.post(path, &session.operation(), &query)?;
    match ui.json {
        true => ui.print_json(&agent),
        false => {
            ui.say(&format!("`{}` of `{}` is {}.", plain(&agent.tool), agent.sandbox, agent.state))
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, ui: &Ui, args: NamedRun) -> Result<ExitCode, Failure> {
    let agents: Vec<AgentRecord> = match &args.run {
        Some(run) => Past::find(session, run)?.agents()?,
        None => {
            let sandbox = checked(args.named.which())?;
            session.query(route::AGENTS, &AgentQuery { sandbox, folder: session.folder_text()? })?
        }
    };
    match ui.json {
        true => ui.print_json(&agents),
        false if agents.is_empty() => {
            ui.say("No agents. Start one with `hothouse agent start NAME`.")
        }
        false => {
            let now = HostClock.now();
            let rows = agents.iter().map(|agent| row(agent, now)).collect();
            ui.print(&table(
                ui,
                &["SANDBOX", "TOOL", "MODE", "STATE", "ROUND", "COST", "STARTED", "WHY"],
                rows,
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(agent: &AgentRecord, now: jiff::Timestamp) -> Vec<Cell> {
    let state = Cell::new(agent.state.as_str());
    let state = match agent.state {
        AgentState::Failed => state.tone(Tone::Bad),
        AgentState::Waiting => state.tone(Tone::Warning),
        AgentState::Running => state.tone(Tone::Good),
        _ => state,
    };
    let cost = agent.cost.map_or("-".to_owned(), |cost| format!("${cost:.2}"));
    vec![
        Cell::new(format!("{}/{}", agent.project, agent.sandbox)).tone(Tone::Strong),
        Cell::new(agent.tool.chars().take(30).collect::<String>()),
        Cell::new(agent.mode.as_str()),
        state,
        Cell::new(agent.round.to_string()),
        Cell::new(cost),
        Cell::new(age(agent.started, now)),
        Cell::new(agent.reason.as_deref().unwrap_or("")),
    ]
}

fn logs(session: &Session, ui: &Ui, args: AgentLogsArgs) -> Result<ExitCode, Failure> {
    let mut log: AgentLogView = match &args.which.run {
        Some(run) => Past::find(session, run)?.agent_log()?,
        None => {
            let sandbox = checked(args.which.named.which())?;
            let query = AgentQuery { sandbox, folder: session.folder_text()? };
            session.query(route::AGENTS_LOG, &query)?
        }
    };
    if let Some(tail) = args.tail {
        let lines: Vec<&str> = log.text.lines().collect();
        let from = lines.len().saturating_sub(tail);
        log.cut |= from > 0;
        log.text = lines[from..].join("\n");
    }
    match ui.json {
        true => ui.print_json(&log),
        false => ui.print(plain_lines(&log.text).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn attach(session: &Session, ui: &Ui, which: Which, kind: &str) -> Result<ExitCode, Failure> {
    let query = AgentQuery { sandbox: checked(which)?, folder: session.folder_text()? };
    let found = session.find_query(query.sandbox.clone())?;
    let own: hothouse_api::SandboxView = session.query(route::SANDBOX_FIND, &found)?;
    let named = AgentQuery { sandbox: Some(format!("{}/{}", own.project, own.name)), ..query };
    let agents: Vec<AgentRecord> = session.query(route::AGENTS, &named)?;
    let agent = agents.into_iter().find(|agent| agent.state.is_active());
    let agent = agent.ok_or_else(|| {
        Failure::new(FailureKind::Conflict, format!("no agent of `{}` is running", own.name))
            .hint(format!("`hothouse agent logs {}` shows what the last one did", own.name))
    })?;
    exec::attach(session, ui, named.sandbox, agent.exec, kind)
}
