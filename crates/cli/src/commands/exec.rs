//! `exec` and `shell`: bytes flow directly between this process and the room; the daemon passes the
//! descriptors.

mod conversation;
mod detach;
mod plumbing;
mod screen;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    os::unix::ffi::OsStringExt,
    process::ExitCode,
    time::Instant,
};

use hothouse_api::{
    egress::{EgressPage, EgressQuery, EgressRecord},
    exec::{Ask, DatabaseAsk, Ended, RunAsk, Target, TerminalAsk},
    route,
};
use hothouse_host::{Clock, clock::HostClock, random, terminal};
use hothouse_model::{Failure, FailureKind, id::hex};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;

use self::{
    conversation::{BROKEN_PIPE, Conversation},
    plumbing::{Kept, KeptBoth, Plain, Prefixed},
};
use super::{inside, overview::is_sandbox, sandbox::check_reference};
use crate::{
    args::{DbArgs, ExecArgs, ShellArgs},
    render::{Cell, table},
    session::Session,
    ui::Ui,
};

/// Runs a command in one room or in several.
pub(crate) fn exec(
    session: &Session,
    ui: &Ui,
    args: ExecArgs,
    kind: &str,
) -> Result<ExitCode, Failure> {
    let (service, names_one) = (args.service.clone(), !args.sandboxes.is_empty());
    exec_as_asked(session, ui, args, kind).map_err(|failure| match service {
        Some(word) if failure.kind == FailureKind::NotFound && !names_one => {
            with_reading(session, failure, &word)
        }
        _ => failure,
    })
}

/// Adds the other interpretation of `exec NAME -- COMMAND`, if the name is a sandbox and not a service.
fn with_reading(session: &Session, failure: Failure, word: &str) -> Failure {
    match is_sandbox(session, word) {
        Ok(true) => {
            failure.hint(format!("`{word}` is a sandbox: `hothouse exec -w {word} -- COMMAND`"))
        }
        _ => failure,
    }
}

fn exec_as_asked(
    session: &Session,
    ui: &Ui,
    args: ExecArgs,
    kind: &str,
) -> Result<ExitCode, Failure> {
    for name in &args.sandboxes {
        check_reference(name)?;
    }
    if session.is_inside() {
        return inside::exec(session, ui, args);
    }
    if args.sandboxes.len() > 1 {
        return side_by_side(session, ui, &args);
    }
    let sandbox = args.sandboxes.first().cloned();
    let named = sandbox.clone();
    let terminal = (args.attach.is_none()).then(|| terminal_ask(kind)).flatten();
    let ask = match args.attach {
        Some(exec) => Ask::Attach(Target { sandbox, folder: session.folder_text()?, exec }),
        None => Ask::Run(RunAsk {
            target: target(session, ui, sandbox)?,
            words: args.words.into_iter().map(OsString::into_vec).collect(),
            root: args.root,
            fresh: args.fresh,
            service: args.service,
            folder: args.folder,
            database: None,
            terminal: terminal.filter(|_| !ui.json),
        }),
    };
    if ui.json {
        return run_kept(session, ui, ask);
    }
    let begun = HostClock.now();
    let code = run_one(session, ui, ask)?;
    if code != ExitCode::SUCCESS && (args.explain || io::stderr().is_terminal()) {
        tell_denials(session, ui, named, begun);
    }
    Ok(code)
}

/// Attaches to a command by its id, as one of possibly several viewers.
pub(super) fn attach(
    session: &Session,
    ui: &Ui,
    sandbox: Option<String>,
    exec: String,
    _kind: &str,
) -> Result<ExitCode, Failure> {
    run_one(session, ui, Ask::Attach(Target { sandbox, folder: session.folder_text()?, exec }))
}

/// Reports connections denied since a point in time: a failed command often does not show why it failed.
fn tell_denials(session: &Session, ui: &Ui, sandbox: Option<String>, since: Timestamp) {
    let Ok(folder) = session.folder_text() else { return };
    let query = EgressQuery {
        sandbox,
        folder,
        since: Some(since.to_string()),
        denied: true,
        ..EgressQuery::default()
    };
    // This is only a hint, so it is omitted if the ledger is unavailable.
    let Ok(page) = session.query::<EgressPage>(route::EGRESS, &query) else { return };
    if !page.records.is_empty() {
        ui.say(&denials(&page.records));
    }
}

/// Returns how many connections were denied, and how to see why.
fn denials(records: &[EgressRecord]) -> String {
    let Some(last) = records.last() else { return String::new() };
    let host = last.host.clone().or_else(|| last.address.clone());
    let were = if records.len() == 1 { "connection was" } else { "connections were" };
    format!("{} {were} denied: `hothouse egress why {}`", records.len(), host.unwrap_or_default())
}

/// Runs a shell line in a new room on a sandbox's worktree, with its output on standard error.
pub(super) fn run_in_fresh_room(
    session: &Session,
    ui: &Ui,
    sandbox: &str,
    line: &str,
) -> Result<ExitCode, Failure> {
    let words = [
        "/bin/sh",
        "-c",
        "exec 1>&2; cd \"${HOTHOUSE_WORKSPACE:-.}\" && eval \"$1\"",
        "setup",
        line,
    ];
    let ask = Ask::Run(RunAsk {
        target: target(session, ui, Some(sandbox.to_owned()))?,
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        root: false,
        fresh: true,
        service: None,
        folder: None,
        database: None,
        terminal: None,
    });
    run_one(session, ui, ask)
}

/// Opens a login shell.
pub(crate) fn shell(
    session: &Session,
    ui: &Ui,
    args: ShellArgs,
    kind: &str,
) -> Result<ExitCode, Failure> {
    if session.is_inside() {
        return inside::shell(session, ui, args);
    }
    let which = args.which.which();
    if let Some(name) = &which.sandbox {
        check_reference(name)?;
    }
    let words = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"];
    let ask = Ask::Run(RunAsk {
        target: target(session, ui, which.sandbox)?,
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        root: args.root,
        fresh: false,
        service: None,
        folder: None,
        database: None,
        terminal: terminal_ask(kind),
    });
    run_one(session, ui, ask)
}

/// Opens the shell of a database, or lists its tables.
pub(crate) fn database(
    session: &Session,
    ui: &Ui,
    args: DbArgs,
    kind: &str,
) -> Result<ExitCode, Failure> {
    if let Some(name) = &args.which.sandbox {
        check_reference(name)?;
    }
    if session.is_inside() {
        return inside::database(session, ui, args);
    }
    let ask = |database, terminal| -> Result<Ask, Failure> {
        Ok(Ask::Run(RunAsk {
            target: target(session, ui, args.which.sandbox.clone())?,
            words: args.words.iter().cloned().map(OsString::into_vec).collect(),
            root: false,
            fresh: false,
            service: args.service.clone(),
            folder: None,
            database: Some(database),
            terminal,
        }))
    };
    if !args.tables {
        return run_one(session, ui, ask(DatabaseAsk::Shell, terminal_ask(kind))?);
    }
    let mut kept = Kept::default();
    let mut listing = Conversation::new(session.reach(), ask(DatabaseAsk::Tables, None)?);
    let ended = session.block_on(listing.run(&mut kept))?;
    let text = kept.text();
    if ended.exit_code() != 0 {
        return Err(Failure::new(FailureKind::Unmet, "the database did not list its tables")
            .hint("`hothouse status` shows whether it is ready"));
    }
    show_tables(ui, &text);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show_tables(ui: &Ui, text: &str) {
    let rows: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    if ui.json {
        let count = |rows: &str| rows.parse::<u64>().map_or_else(|_| rows.into(), Into::into);
        let rows = rows.iter().map(|(name, rows)| {
            let rows: serde_json::Value = count(rows);
            serde_json::json!({ "table": name, "rows": rows })
        });
        ui.print_json(&rows.collect::<Vec<_>>());
        return;
    }
    let rows = rows.iter().map(|(name, rows)| vec![Cell::new(name), Cell::new(rows)]);
    ui.print(&table(ui, &["TABLE", "ROWS"], rows.collect()));
}

fn target(session: &Session, ui: &Ui, sandbox: Option<String>) -> Result<Target, Failure> {
    let exec = format!("ex-{}", hex(&random::bytes::<8>()));
    ui.detail(&format!("Attach to this command with `hothouse exec --attach {exec}`."));
    Ok(Target { sandbox, folder: session.folder_text()?, exec })
}

/// The hint for a command that a room does not have.
const NOT_IN_THE_ROOM: &str =
    "a room has the programs of its stack, and of the folders in `[room] tools` of hothouse.toml";

/// Requests a terminal if both standard input and output are one.
fn terminal_ask(kind: &str) -> Option<TerminalAsk> {
    let (rows, columns) = terminal::size()?;
    Some(TerminalAsk { rows, columns, kind: kind.to_owned() })
}

fn run_one(session: &Session, ui: &Ui, ask: Ask) -> Result<ExitCode, Failure> {
    let target = match &ask {
        Ask::Run(RunAsk { target, .. }) | Ask::Attach(target) => Some(target.clone()),
        _ => None,
    };
    let mut conversation = Conversation::new(session.reach(), ask);
    let (leave_tx, leave_rx) = mpsc::unbounded_channel();
    conversation.leave_rx = Some(leave_rx);
    let ended = session.block_on(conversation.run(&mut Plain { leave_tx }))?;
    if conversation.left {
        ui.print_bytes(detach::RESTORE.as_bytes());
        let target = target.map(|Target { sandbox, exec, .. }| {
            let which = sandbox.map_or(String::new(), |name| format!(" -w {name}"));
            format!(" Attach again with `hothouse exec{which} --attach {exec}`.")
        });
        ui.say(&format!("Detached; the command is still running.{}", target.unwrap_or_default()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Ended::NotStarted { message, .. } = &ended {
        ui.say(&format!("error: {message}\nhint: {NOT_IN_THE_ROOM}"));
    }
    Ok(ExitCode::from(ended.exit_code()))
}

/// An ended command, as `--json` prints it.
#[derive(Default, Serialize)]
pub(super) struct EndedView {
    pub(super) code: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) duration_ms: u64,
    /// Whether there was more output than is shown.
    pub(super) cut: bool,
}

/// Runs a command and prints how it ended and what it printed, as JSON.
fn run_kept(session: &Session, ui: &Ui, ask: Ask) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let mut kept = KeptBoth::default();
    let ended = session.block_on(Conversation::new(session.reach(), ask).run(&mut kept))?;
    let (stdout, stderr) = (kept.stdout.text(), kept.stderr.text());
    let stderr = match &ended {
        Ended::NotStarted { message, .. } => format!("{stderr}{message}\n"),
        _ => stderr,
    };
    let code = ended.exit_code();
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let cut = kept.stdout.is_cut() || kept.stderr.is_cut();
    ui.print_json(&EndedView { code, stdout, stderr, duration_ms, cut });
    Ok(ExitCode::from(code))
}

/// Runs one command in several rooms, and prefixes each line with its sandbox.
fn side_by_side(session: &Session, ui: &Ui, args: &ExecArgs) -> Result<ExitCode, Failure> {
    if args.attach.is_some() {
        return Err(
            Failure::new(FailureKind::Usage, "--attach takes one sandbox").hint("pass `-w` once")
        );
    }
    let width = args.sandboxes.iter().map(String::len).max().unwrap_or(0);
    let mut conversations = Vec::new();
    for name in &args.sandboxes {
        let ask = Ask::Run(RunAsk {
            target: target(session, ui, Some(name.clone()))?,
            words: args.words.iter().cloned().map(OsString::into_vec).collect(),
            root: args.root,
            fresh: args.fresh,
            service: args.service.clone(),
            folder: args.folder.clone(),
            database: None,
            terminal: None,
        });
        conversations.push((format!("{name:<width$} | "), Conversation::new(session.reach(), ask)));
    }
    let ends = session.block_on(all(conversations));
    let mut worst = 0;
    let mut told: Vec<Failure> = Vec::new();
    for (name, end) in args.sandboxes.iter().zip(ends) {
        let code = match end {
            // The reader closed the pipe on purpose, which is not an error.
            Ok(Ended::Signal(BROKEN_PIPE)) => {
                worst = worst.max(Ended::Signal(BROKEN_PIPE).exit_code());
                continue;
            }
            Ok(ended) => {
                if let Ended::NotStarted { message, .. } = &ended {
                    ui.say(&format!("{name}: {message}"));
                }
                ended.exit_code()
            }
            Err(failure) => {
                let code = failure.kind.exit_code();
                // All of them write to the same output, so its error is reported once.
                if told.contains(&failure) {
                    worst = worst.max(code);
                    continue;
                }
                ui.say(&format!("{name}: {}", failure.render().trim_end()));
                told.push(failure);
                code
            }
        };
        if code != 0 {
            ui.say(&format!("{name} exited {code}"));
        }
        worst = worst.max(code);
    }
    Ok(ExitCode::from(worst))
}

async fn all(conversations: Vec<(String, Conversation)>) -> Vec<Result<Ended, Failure>> {
    let tasks: Vec<_> = conversations
        .into_iter()
        .map(|(prefix, mut conversation)| {
            tokio::task::spawn_local(async move { conversation.run(&mut Prefixed(prefix)).await })
        })
        .collect();
    let mut ends = Vec::new();
    for task in tasks {
        let end = task.await;
        ends.push(end.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error))));
    }
    ends
}
