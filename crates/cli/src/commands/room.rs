//! `up`, `down`, `pause`, `resume`.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    SandboxView, route,
    sandbox::{FindQuery, UpBody},
    service::ServiceView,
};
use hothouse_model::{
    Failure,
    stack::{ServiceReport, StackReport, service::ServiceStatus},
};

use super::{given::duration, panel::panel, sandbox::check_reference};
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
        let chain = critical_chain(&shown.services, begun.elapsed());
        if !chain.is_empty() {
            ui.say(&chain);
        }
        if shown.services.is_empty() {
            ui.say(idle(Path::new(&shown.worktree)));
        }
        ui.next(&super::panel::next(&shown));
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 128 + 2;

/// Tells what continues after Ctrl-C, and how to stop it.
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
fn idle(worktree: &Path) -> &'static str {
    match std::fs::symlink_metadata(worktree.join("hothouse.toml")) {
        Ok(_) => "No services are running: hothouse.toml declares none.",
        Err(_) => {
            "No services are running: the worktree has no hothouse.toml. Commit one before you fork, or create one there."
        }
    }
}

/// Shows how long the command took, and the slowest chain: the service that was ready last, and those it needed.
fn critical_chain(services: &[ServiceView], took: Duration) -> String {
    let services = services.iter().map(|service| ServiceReport {
        status: ServiceStatus {
            name: service.name.clone(),
            needs: service.needs.clone(),
            started_ms: service.started_ms,
            ready_ms: service.ready_ms,
            ..ServiceStatus::default()
        },
        host_pid: None,
    });
    let report = StackReport { version: 0, services: services.collect() };
    let chain = report.critical_chain();
    let at = |time: Option<u64>| Duration::from_millis(time.unwrap_or_default());
    if chain.is_empty() {
        return String::new();
    }
    let spent = |service: &ServiceStatus| {
        seconds(at(service.ready_ms).saturating_sub(at(service.started_ms)))
    };
    let mut text = format!("Ready in {}. Slowest chain:", seconds(took));
    for (depth, service) in chain.iter().enumerate() {
        let ready = seconds(at(service.ready_ms));
        text.push_str(&format!(
            "\n  {}{} @{ready} +{}",
            "  ".repeat(depth),
            service.name,
            spent(service)
        ));
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
    fn the_longest_way_is_told_with_its_times() {
        let services = [service("db", &[], 5, 130), service("api", &["db"], 131, 1_500)];
        assert_eq!(
            critical_chain(&services, Duration::from_millis(1_900)),
            "Ready in 1.90s. Slowest chain:\n  api @1.50s +1.37s\n    db @130ms +125ms"
        );
        assert_eq!(critical_chain(&[], Duration::ZERO), "");
    }
}
