//! `up`, `down`, `pause`, `resume`.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    SandboxView, route,
    sandbox::{FindQuery, UpBody, WantedSetup},
    service::ServiceView,
};
use hothouse_model::{
    Failure,
    caveat::Class,
    stack::{ServiceReport, StackReport, service::ServiceStatus},
};
use jiff::Timestamp;

use super::{
    given::duration,
    panel::panel,
    sandbox::{check_reference, install},
};
use crate::{
    args::{UpArgs, Which},
    progress::Progress,
    session::Session,
    ui::Ui,
};

/// Actions on a room that need only its name.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Down,
    Pause,
    Resume,
}

impl Action {
    fn route(self) -> &'static str {
        match self {
            Self::Down => route::SANDBOX_DOWN,
            Self::Pause => route::SANDBOX_PAUSE,
            Self::Resume => route::SANDBOX_RESUME,
        }
    }

    fn done(self, name: &str) -> String {
        match self {
            Self::Down => format!("Stopped `{name}`; its files are kept."),
            Self::Pause => format!("Paused `{name}`."),
            Self::Resume => format!("Resumed `{name}`."),
        }
    }
}

/// Starts a room and shows the sandbox.
pub(crate) fn up(session: &Session, ui: &Ui, args: UpArgs) -> Result<ExitCode, Failure> {
    let ttl = duration("--ttl", args.ttl.as_deref())?;
    let timeout = duration("--timeout", args.timeout.as_deref())?;
    let which = args.which.which();
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let body = UpBody {
        sandbox: which.sandbox,
        folder: session.folder_text()?,
        ttl_seconds: ttl.map(|ttl| ttl.as_secs().max(1)),
        profile: args.profile,
        reuse: args.reuse,
        restrict_domains: args.restrict_domains,
        seed: args.seed,
        only_running: false,
        no_wait: args.no_wait,
        timeout_seconds: timeout.map(|timeout| timeout.as_secs().max(1)),
    };
    let (begun, operation) = (Instant::now(), session.operation());
    let may_install = !body.no_wait && !session.is_inside();
    if may_install && install_first(session, ui, &body)? == ExitCode::from(INTERRUPTED) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let progress = Progress::tell(session, ui, &operation);
    let shown = session.post_unless_interrupted(route::SANDBOX_UP, &operation, &body);
    match shown {
        Ok(None) => progress.interrupted(),
        _ => drop(progress),
    }
    let Some(shown): Option<SandboxView> = shown? else {
        tell_interrupted(ui, body.sandbox.as_deref());
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if ui.json {
        ui.print_json(&shown);
    } else if ui.is_quiet() {
        shown.apps.values().for_each(|app| ui.print(&app.url));
    } else {
        ui.print(&panel(ui, &shown));
        let run_age = shown.run.as_ref().map(|run| Timestamp::now().duration_since(run.started));
        let run_age = run_age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        let chain = critical_chain(&shown.services, Ran { took: begun.elapsed(), run_age });
        if !chain.is_empty() {
            ui.say(&chain);
        }
        if shown.services.is_empty() {
            ui.say(idle(&shown));
        }
        ui.next(&super::panel::next(&shown));
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs dependencies of a sandbox that starts for the first time where the next fork can have them too. If that
/// fails, the task that installs them fails as well, and says more.
fn install_first(session: &Session, ui: &Ui, body: &UpBody) -> Result<ExitCode, Failure> {
    let query = FindQuery { sandbox: body.sandbox.clone(), folder: body.folder.clone() };
    // If there is no such sandbox yet, `up` may adopt it, or reports that.
    let wanted = session.query::<WantedSetup>(route::SANDBOX_SETUP, &query);
    let Some(line) = wanted.ok().and_then(|wanted| wanted.command) else {
        return Ok(ExitCode::SUCCESS);
    };
    let found: SandboxView = session.query(route::SANDBOX_FIND, &query)?;
    install(session, ui, &format!("{}/{}", found.project, found.name), line)
}

/// The exit code of a program ended by Ctrl-C.
const INTERRUPTED: u8 = 128 + 2;

/// Reports what continues after Ctrl-C, and how to stop it.
fn tell_interrupted(ui: &Ui, sandbox: Option<&str>) {
    let (what, name) = match sandbox {
        Some(name) => (format!("`{name}`"), format!(" {name}")),
        None => ("the sandbox".to_owned(), String::new()),
    };
    ui.say(&format!(
        "Interrupted: {what} keeps starting in the background. `hothouse status{name}` shows its state, `hothouse down{name}` stops it."
    ));
}

/// Explains why no services are running.
fn idle(shown: &SandboxView) -> &'static str {
    // In that case the folder on the host is empty, whatever the worktree contains.
    let is_hidden = shown.caveats.iter().any(|caveat| caveat.class == Class::RoomOnly);
    match std::fs::symlink_metadata(Path::new(&shown.worktree).join("hothouse.toml")) {
        Ok(_) => "No services are running: hothouse.toml declares none.",
        Err(_) if is_hidden => {
            "No services are running: the worktree has no hothouse.toml that declares any."
        }
        Err(_) => {
            "No services are running: the worktree has no hothouse.toml. Commit one before you fork, or create one there."
        }
    }
}

/// When an `up` ran, as far as it matters for the times of services.
#[derive(Clone, Copy)]
struct Ran {
    /// How long it took.
    took: Duration,
    /// The age of the room's run when it ended. The room itself is a little younger.
    run_age: Duration,
}

/// Renders how long the command took, and the slowest chain: the service that was ready last, and those it
/// needed. Leaves out services that were ready before; times count from the start of the command.
fn critical_chain(services: &[ServiceView], ran: Ran) -> String {
    let at = |time: Option<u64>| Duration::from_millis(time.unwrap_or_default());
    let last = services.iter().map(|service| at(service.ready_ms)).max().unwrap_or_default();
    if ran.run_age.saturating_sub(last) > ran.took {
        return String::new();
    }
    let begun = last.saturating_sub(ran.took);
    let started = services.iter().filter(|service| at(service.ready_ms) >= begun);
    let started = started.map(|service| ServiceReport {
        status: ServiceStatus {
            name: service.name.clone(),
            needs: service.needs.clone(),
            started_ms: service.started_ms,
            ready_ms: service.ready_ms,
            ..ServiceStatus::default()
        },
        host_pid: None,
    });
    let report = StackReport { version: 0, services: started.collect() };
    let chain = report.critical_chain();
    if chain.is_empty() {
        return String::new();
    }
    let mut text = format!("Ready in {}. Slowest chain:", seconds(ran.took));
    for (depth, service) in chain.iter().enumerate() {
        let (ready, indent) = (at(service.ready_ms), "  ".repeat(depth));
        let spent = seconds(ready.saturating_sub(at(service.started_ms)));
        let ready = seconds(ready.saturating_sub(begun));
        text.push_str(&format!("\n  {indent}{} @{ready} +{spent}", service.name));
    }
    text
}

fn seconds(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..1000 => format!("{ms}ms"),
        _ => format!("{:.2}s", time.as_secs_f64()),
    }
}

/// Stops, pauses or resumes a room.
pub(crate) fn act(
    session: &Session,
    ui: &Ui,
    which: Which,
    action: Action,
) -> Result<ExitCode, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let shown: Result<SandboxView, Failure> = session.post(action.route(), &operation, &query);
    drop(progress);
    let shown = shown?;
    if ui.json {
        ui.print_json(&shown);
    } else {
        ui.say(&action.done(&shown.name));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hothouse_model::stack::service::ServiceState;

    fn service(name: &str, needs: &[&str], started: u64, ready: u64) -> ServiceView {
        ServiceView {
            name: name.into(),
            state: ServiceState::Ready,
            pid: None,
            room_pid: None,
            restarts: 0,
            port: None,
            health: None,
            log: String::new(),
            task: false,
            needs: needs.iter().map(|need| (*need).into()).collect(),
            exit: None,
            probes: Vec::new(),
            url: None,
            started_ms: Some(started),
            ready_ms: Some(ready),
        }
    }

    #[test]
    fn the_longest_path_is_shown_with_its_times() {
        let services = [service("db", &[], 5, 130), service("api", &["db"], 131, 1_500)];
        let ran = |took, run_age| Ran {
            took: Duration::from_millis(took),
            run_age: Duration::from_millis(run_age),
        };
        assert_eq!(
            critical_chain(&services, ran(1_900, 1_800)),
            "Ready in 1.90s. Slowest chain:\n  api @1.50s +1.37s\n    db @130ms +125ms"
        );
        assert_eq!(critical_chain(&[], ran(0, 0)), "");
    }

    #[test]
    fn times_count_from_the_command_that_started_the_services() {
        let ran = |took| Ran {
            took: Duration::from_millis(took),
            run_age: Duration::from_millis(61_600),
        };
        let services = [service("db", &[], 5, 130), service("api", &["db"], 60_100, 61_500)];
        assert_eq!(
            critical_chain(&services, ran(1_600)),
            "Ready in 1.60s. Slowest chain:\n  api @1.60s +1.40s"
        );
        let all_were_ready = critical_chain(&services, ran(90));
        assert_eq!(all_were_ready, "");
    }
}
