//! `daemon start`, `stop`, `status` and `run`.

use std::{fs::File, os::fd::AsFd, process::ExitCode};

use hothouse_api::{DaemonView, route};
use hothouse_model::{Failure, FailureKind};

use crate::{DaemonEnd, Surroundings, args::DaemonCommand, session::Session, ui::Ui};

/// Runs a `daemon` command.
pub(crate) fn run(
    session: &Session,
    ui: &Ui,
    command: &DaemonCommand,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    match command {
        DaemonCommand::Start => {
            let daemon = session.start()?;
            show(ui, &daemon, "The daemon is running.");
            Ok(ExitCode::SUCCESS)
        }
        DaemonCommand::Stop => stop(session, ui),
        DaemonCommand::Status => status(session, ui),
        DaemonCommand::Run => be(session, surroundings),
    }
}

fn stop(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let stopped = session.stop()?;
    if ui.json {
        ui.print_json(&serde_json::json!({ "stopped": stopped.map(|daemon| daemon.pid) }));
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(match stopped {
        Some(_) => "Stopped the daemon.",
        None => "No daemon is running.",
    });
    Ok(ExitCode::SUCCESS)
}

fn status(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    match session.get_if_running::<DaemonView>(route::DAEMON)? {
        Some(daemon) => {
            show(ui, &daemon, "The daemon is running.");
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Failure::new(FailureKind::NotFound, "no daemon is running")
            .hint("it starts automatically when needed; `hothouse daemon start` starts it now")),
    }
}

fn show(ui: &Ui, daemon: &DaemonView, word: &str) {
    if ui.json {
        ui.print_json(daemon);
        return;
    }
    ui.say(word);
    ui.print(&format!(
        "pid      {}\nversion  {}\nsocket   {}\nstate    {}\nlog      {}\nstarted  {}",
        daemon.pid, daemon.version, daemon.socket, daemon.state, daemon.log, daemon.started
    ));
}

/// Runs the daemon in this process. Its starter reads `ready` or the failure from standard output.
fn be(session: &Session, surroundings: &Surroundings) -> Result<ExitCode, Failure> {
    hothouse_host::process::leave_session();
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    let stdout = File::from(stdout.map_err(|error| Failure::of(FailureKind::Host, &error))?);
    hothouse_host::process::close_stdout();
    let mut word = stdout.try_clone().map_err(|error| Failure::of(FailureKind::Host, &error))?;
    match (surroundings.serve)(session.folders.clone(), session.build, stdout) {
        DaemonEnd::Ended => Ok(ExitCode::SUCCESS),
        DaemonEnd::NotStarted(failure) => {
            let text = serde_json::to_string(&failure).expect("a failure is plain data");
            std::io::Write::write_all(&mut word, format!("{text}\n").as_bytes()).ok();
            Ok(ExitCode::from(failure.kind.exit_code()))
        }
    }
}
