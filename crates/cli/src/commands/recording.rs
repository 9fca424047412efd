//! `integration NAME record`: real answers become fixtures.

use std::{
    ffi::OsString,
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    integration::{RecordBody, RecordedCallView, RecordingQuery, RecordingView},
    route,
};
use hothouse_model::Failure;

use super::{exec, given::duration, timeline::checked};
use crate::{
    args::{ExecArgs, IntegrationRecordArgs},
    render::plain,
    session::Session,
    ui::Ui,
};

/// How long a recording without a command lasts.
const USUAL: Duration = Duration::from_secs(600);

/// How often the daemon is told that the recording is still wanted.
const ALIVE: Duration = Duration::from_secs(2);

/// Records until the command ends, the time runs out or the user stops it.
pub(crate) fn record(
    session: &Session,
    ui: &Ui,
    args: IntegrationRecordArgs,
) -> Result<ExitCode, Failure> {
    let time = duration("--for", args.time.as_deref())?;
    let sandbox = checked(args.which)?;
    let body = RecordBody {
        sandbox: sandbox.clone(),
        folder: session.folder_text()?,
        integration: args.name,
    };
    let begun: RecordingView = session.post(route::RECORDING, &session.operation(), &body)?;
    ui.say(&format!(
        "Recording `{}`: calls of `{}` to {} reach the real hosts, with test keys alone.",
        plain(&begun.integration),
        plain(&begun.sandbox),
        plain(&begun.hosts.join(", ")),
    ));
    let query = RecordingQuery { id: begun.id };
    let ran = match args.words.is_empty() {
        true => wait(session, ui, &query, time.unwrap_or(USUAL)).map(|()| ExitCode::SUCCESS),
        false => run(session, ui, &query, command(sandbox, talking(ui, args.words))),
    };
    let ended: RecordingView = session.post(route::RECORDING_END, &session.operation(), &query)?;
    tell(ui, &ended);
    ran
}

/// A command's output is for people; with `--json` only the recording goes to standard output.
fn talking(ui: &Ui, words: Vec<OsString>) -> Vec<OsString> {
    let quiet = ["/bin/sh", "-c", "exec 1>&2; exec \"$@\"", "record"].map(OsString::from);
    if ui.json { quiet.into_iter().chain(words).collect() } else { words }
}

fn command(sandbox: Option<String>, words: Vec<OsString>) -> ExecArgs {
    ExecArgs {
        sandboxes: sandbox.into_iter().collect(),
        root: false,
        fresh: false,
        attach: None,
        folder: None,
        explain: false,
        service: None,
        words,
    }
}

/// Runs a command in the room, and meanwhile tells the daemon that the recording is still wanted.
fn run(
    session: &Session,
    ui: &Ui,
    query: &RecordingQuery,
    args: ExecArgs,
) -> Result<ExitCode, Failure> {
    let (reach, query) = (session.reach(), query.clone());
    let alive = session.spawn(async move {
        loop {
            tokio::time::sleep(ALIVE).await;
            if let Ok(Some(client)) = reach.connect() {
                client.query::<RecordingView>(route::RECORDING, &query).await.ok();
            }
        }
    });
    let mut ui = *ui;
    ui.json = false;
    let ran = exec::exec(session, &ui, args, "exec");
    alive.abort();
    ran
}

/// Waits, and prints each recorded call.
fn wait(session: &Session, ui: &Ui, query: &RecordingQuery, time: Duration) -> Result<(), Failure> {
    ui.say("Press Ctrl-C to end it.");
    let (begun, mut told) = (Instant::now(), 0);
    loop {
        let view: RecordingView = session.query(route::RECORDING, query)?;
        view.calls.iter().skip(told).for_each(|call| ui.say(&line(call)));
        told = view.calls.len();
        let left = time.saturating_sub(begun.elapsed());
        let interrupted = session.block_on(async {
            tokio::select! {
                signal = tokio::signal::ctrl_c() => signal.is_ok(),
                () = tokio::time::sleep(left.min(ALIVE)) => false,
            }
        });
        if interrupted || begun.elapsed() >= time {
            return Ok(());
        }
    }
}

fn line(call: &RecordedCallView) -> String {
    let status = call.status.map_or("-".to_owned(), |status| status.to_string());
    let left_out = call.left_out.as_ref().map(|why| format!(" (no fixture: {why})"));
    plain(&format!(
        "  {} {}{} {status}{}",
        call.method,
        call.host,
        call.path,
        left_out.unwrap_or_default()
    ))
}

fn tell(ui: &Ui, ended: &RecordingView) {
    if ui.json {
        ui.print_json(ended);
        return;
    }
    ended.files.iter().for_each(|file| ui.print(&plain(file)));
    let left_out = ended.calls.iter().filter(|call| call.left_out.is_some());
    left_out.for_each(|call| ui.say(&line(call)));
    match (ended.calls.len(), ended.files.is_empty()) {
        (0, _) => ui.say("Nothing was called, so there is no fixture."),
        (calls, true) => ui.say(&format!("{calls} calls, and no fixture.")),
        (calls, false) => ui.say(&format!(
            "{calls} calls recorded. The hosts are mocked again. Look at the files before you commit them: only known secrets are redacted."
        )),
    }
}
