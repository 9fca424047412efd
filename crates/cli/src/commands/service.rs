//! `start`, `stop`, `restart`, `signal`.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView, route,
    sandbox::FindQuery,
    service::{ServiceAct, ServiceBody},
};
use hothouse_model::{Failure, FailureKind, config::rules::among};

use super::{given::duration, overview::is_sandbox, sandbox::check_reference};
use crate::{
    args::{ServiceArgs, SignalArgs, Which},
    session::Session,
    ui::Ui,
};

/// Signals by name; the numbers are Linux's.
const SIGNALS: [(&str, i32); 20] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("WINCH", 28),
    ("SYS", 31),
];

/// Starts, stops or restarts a service.
pub(crate) fn act(
    session: &Session,
    ui: &Ui,
    args: ServiceArgs,
    action: ServiceAct,
) -> Result<ExitCode, Failure> {
    let timeout = duration("--timeout", args.timeout.as_deref())?;
    let timeout_seconds = timeout.map(|timeout| timeout.as_secs().max(1));
    ask(session, ui, args.which, args.service, action, timeout_seconds)
}

/// Sends a signal to a service.
pub(crate) fn signal(session: &Session, ui: &Ui, args: SignalArgs) -> Result<ExitCode, Failure> {
    let number = parse_signal(&args.signal).ok_or_else(|| {
        let names: Vec<_> = SIGNALS.iter().map(|(name, _)| *name).collect();
        Failure::new(FailureKind::Usage, format!("unknown signal `{}`", args.signal))
            .hint(format!("available: {}", names.join(", ")))
    })?;
    ask(session, ui, args.which, args.service, ServiceAct::Signal(number), None)
}

fn parse_signal(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

fn ask(
    session: &Session,
    ui: &Ui,
    which: Which,
    service: String,
    action: ServiceAct,
    timeout_seconds: Option<u64>,
) -> Result<ExitCode, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let done = match action {
        ServiceAct::Start => format!("Started `{service}`."),
        ServiceAct::Stop => format!("Stopped `{service}`."),
        ServiceAct::Restart => format!("Restarted `{service}`."),
        ServiceAct::Signal(number) => format!("Sent signal {number} to `{service}`."),
    };
    let folder = session.folder_text()?;
    let body = ServiceBody { sandbox: which.sandbox, folder, service, action, timeout_seconds };
    let operation = session.operation();
    let shown: Result<SandboxView, Failure> = session.post(route::SERVICE_ACT, &operation, &body);
    let shown = shown.map_err(|failure| named_better(session, failure, &body))?;
    if ui.json {
        let own = shown.services.iter().find(|service| service.name == body.service);
        ui.print_json(&own);
    } else {
        ui.say(&done);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns hints for an unknown service: a similar name, or a sandbox.
fn named_better(session: &Session, failure: Failure, body: &ServiceBody) -> Failure {
    let word = &body.service;
    if failure.message != format!("no service `{word}`") {
        return failure;
    }
    let query = FindQuery { sandbox: body.sandbox.clone(), folder: body.folder.clone() };
    let services = session.query(route::SANDBOX_FIND, &query);
    let services = services.map_or_else(|_| Vec::new(), |one: SandboxView| one.services);
    let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
    let mut hints = if known.is_empty() { failure.hints.clone() } else { among(word, &known) };
    let command = match body.action {
        ServiceAct::Start => "up",
        ServiceAct::Stop => "down",
        _ => "status",
    };
    if is_sandbox(session, word).unwrap_or(false) {
        hints.push(format!("`{word}` is a sandbox: `hothouse {command} {word}`"));
    }
    Failure { hints, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_with_and_without_sig_and_numbers() {
        let parsed = ["HUP", "sighup", "SIGUSR1", "9", "0", "65", "NOPE", "-1"].map(parse_signal);
        assert_eq!(parsed, [Some(1), Some(1), Some(10), Some(9), None, None, None, None]);
    }
}
