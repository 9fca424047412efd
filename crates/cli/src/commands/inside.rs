//! Commands run from within a room: this process becomes the command.
//!
//! No way into the room has to be requested. The daemon provides what belongs to a service: its folder,
//! its environment, and the client of its database.

use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{ExitCode, Output},
    time::{Duration, Instant},
};

use hothouse_api::{
    SandboxView, route,
    sandbox::FindQuery,
    service::{CommandQuery, CommandView},
    timeline::{ExecNoteBody, ExecNoteView},
};
use hothouse_host::inside::InsideCommand;
use hothouse_model::{Failure, FailureKind};

use super::exec::{EndedView, show_tables};
use crate::{
    args::{DbArgs, ExecArgs, ShellArgs},
    scope::refusal,
    session::Session,
    ui::Ui,
};

/// The exit codes of a shell for a program that does not exist, or that cannot be run.
const MISSING: u8 = 127;
const UNUSABLE: u8 = 126;

/// How long a command waits for its record: not for a daemon that is away.
const NOTE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a command.
pub(super) fn exec(session: &Session, ui: &Ui, args: ExecArgs) -> Result<ExitCode, Failure> {
    for name in &args.sandboxes {
        own(session, Some(name.clone()))?;
    }
    if args.fresh {
        return Err(refusal("exec --fresh", "hothouse exec --fresh -- COMMAND"));
    }
    if let Some(id) = &args.attach {
        return Err(refusal("exec --attach", &format!("hothouse exec --attach {id}")));
    }
    let of_service = match &args.service {
        Some(service) => Some(command(session, None, Some(service.clone()), None)?),
        None => None,
    };
    let folder = folder(session, of_service.as_ref(), args.folder.as_deref())?;
    let words = args.words;
    let note = Note::begin(session, &words, args.root);
    let argv = if args.root { as_root(words) } else { words };
    let environment = of_service.map(|found| found.environment).unwrap_or_default();
    run(ui, &InsideCommand { argv, environment, folder }, note)
}

/// The record of a command. Failing to write it is ignored: the command runs even if the daemon is away.
struct Note<'s> {
    session: &'s Session,
    body: ExecNoteBody,
}

impl<'s> Note<'s> {
    fn begin(session: &'s Session, words: &[OsString], root: bool) -> Option<Self> {
        let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let folder = session.folder_text().ok()?;
        let mut body = ExecNoteBody { folder, argv, root, ..ExecNoteBody::default() };
        let noted: ExecNoteView =
            session.post_if_running(route::TIMELINE_EXEC, &body, NOTE_PATIENCE)?;
        body.id = Some(noted.id);
        Some(Self { session, body })
    }

    fn end(self, code: u8, begun: Instant) {
        let taken = u64::try_from(begun.elapsed().as_millis()).ok();
        let body = ExecNoteBody { exit: Some(code.into()), duration_ms: taken, ..self.body };
        drop::<Option<ExecNoteView>>(self.session.post_if_running(
            route::TIMELINE_EXEC,
            &body,
            NOTE_PATIENCE,
        ));
    }
}

/// Opens a shell.
pub(super) fn shell(session: &Session, ui: &Ui, args: ShellArgs) -> Result<ExitCode, Failure> {
    own(session, args.which.which().sandbox)?;
    let words = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"];
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let argv = if args.root { as_root(words) } else { words };
    run(ui, &InsideCommand { argv, ..InsideCommand::default() }, None)
}

/// Opens the shell of a database, or lists its tables.
pub(super) fn database(session: &Session, ui: &Ui, args: DbArgs) -> Result<ExitCode, Failure> {
    let what = if args.tables { "tables" } else { "shell" };
    let found = command(session, args.which.sandbox, args.service, Some(what))?;
    let argv = found.argv.into_iter().map(OsString::from).chain(args.words).collect();
    let command = InsideCommand {
        argv,
        environment: found.environment,
        folder: Some(PathBuf::from(found.folder)),
    };
    if !args.tables {
        return run(ui, &command, None);
    }
    match command.output() {
        Ok(output) if output.status.success() => {
            show_tables(ui, &String::from_utf8_lossy(&output.stdout));
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Failure::new(FailureKind::Unmet, "the database did not list its tables")
            .hint("`hothouse status` shows whether it is ready")),
    }
}

/// Returns the sandbox of the room. The daemon refuses any other name.
fn own(session: &Session, sandbox: Option<String>) -> Result<SandboxView, Failure> {
    session.query(route::SANDBOX_FIND, &FindQuery { sandbox, folder: session.folder_text()? })
}

fn command(
    session: &Session,
    sandbox: Option<String>,
    service: Option<String>,
    database: Option<&str>,
) -> Result<CommandView, Failure> {
    let folder = session.folder_text()?;
    let database = database.map(str::to_owned);
    session.query(route::SERVICE_COMMAND, &CommandQuery { sandbox, folder, service, database })
}

/// Returns the working directory, as for `exec` on the host: the worktree's or the service's.
fn folder(
    session: &Session,
    service: Option<&CommandView>,
    wanted: Option<&str>,
) -> Result<Option<PathBuf>, Failure> {
    match (wanted, service) {
        (Some(wanted), _) => Ok(Some(Path::new(&own(session, None)?.worktree).join(wanted))),
        (None, Some(service)) => Ok(Some(PathBuf::from(&service.folder))),
        (None, None) => Ok(None),
    }
}

fn as_root(words: Vec<OsString>) -> Vec<OsString> {
    ["sudo", "--"].into_iter().map(OsString::from).chain(words).collect()
}

/// Becomes the command, or with `--json` runs it and prints how it ended, which this process could not do after
/// becoming it.
fn run(ui: &Ui, command: &InsideCommand, note: Option<Note<'_>>) -> Result<ExitCode, Failure> {
    if !ui.json {
        let error = command.execute();
        ui.say(&format!("error: {}", told(command, &error)));
        return Ok(ExitCode::from(code_of(&error)));
    }
    let begun = Instant::now();
    let (code, output) = match command.output() {
        Ok(output) => (code(&output), output),
        Err(error) => {
            let ended = EndedView {
                code: code_of(&error),
                stderr: format!("{}\n", told(command, &error)),
                ..EndedView::default()
            };
            ui.print_json(&ended);
            return Ok(ExitCode::from(ended.code));
        }
    };
    if let Some(note) = note {
        note.end(code, begun);
    }
    ui.print_json(&EndedView {
        code,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        cut: false,
    });
    Ok(ExitCode::from(code))
}

fn told(command: &InsideCommand, error: &std::io::Error) -> String {
    let program = command.argv.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    format!("run `{program}`: {error}")
}

fn code_of(error: &std::io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { MISSING } else { UNUSABLE }
}

fn code(output: &Output) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(u8::MAX)
}
