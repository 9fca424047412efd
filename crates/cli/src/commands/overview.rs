//! `hothouse` alone: where you are and what to do next. Also what a word without a flag means.

use std::process::ExitCode;

use hothouse_api::{SandboxView, route, sandbox::FindQuery};
use hothouse_model::{Failure, FailureKind};

use super::{panel::is_up, sandbox::tone};
use crate::{
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Shows the sandboxes, the one that the current folder belongs to, and the next steps.
pub(crate) fn show(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    let here = here(session)?.map(|sandbox| sandbox.id);
    if !all.is_empty() {
        let rows = all.iter().map(|sandbox| row(sandbox, here.as_deref()));
        ui.print(&table(ui, &["SANDBOX", "STATE", "BRANCH", "APPS"], rows.collect()));
    }
    let steps = next_steps(&all, here.as_deref());
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    if !all.is_empty() {
        ui.print("");
    }
    for (command, what) in steps {
        let what = ui.paint(Tone::Faint, what);
        ui.print(&format!("  {command:<width$}  {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(sandbox: &SandboxView, here: Option<&str>) -> Vec<Cell> {
    let mark = if here == Some(sandbox.id.as_str()) { " (here)" } else { "" };
    let apps: Vec<_> = sandbox.apps.keys().map(String::as_str).collect();
    vec![
        Cell::new(format!("{}/{}{mark}", sandbox.project, sandbox.name)).tone(Tone::Strong),
        Cell::new(sandbox.state.as_str()).tone(tone(sandbox.state)),
        Cell::new(&sandbox.branch),
        Cell::new(if apps.is_empty() { "-".to_owned() } else { apps.join(", ") }),
    ]
}

/// Returns the commands that make sense now, most useful first.
fn next_steps(all: &[SandboxView], here: Option<&str>) -> Vec<(String, &'static str)> {
    let command = |words: &str| format!("hothouse {words}");
    let meant = all.iter().find(|one| here == Some(one.id.as_str())).or(all.first());
    let Some(one) = meant else {
        return vec![
            (command("fork agent-a"), "make a sandbox of the repository in this folder"),
            (command("doctor"), "check what works on this host"),
            (command("help"), "list the commands"),
        ];
    };
    let name = &one.name;
    let mut steps = match is_up(one.state) {
        true => vec![
            (command(&format!("status {name}")), "its services, URLs and caveats"),
            (command(&format!("exec -w {name} -- COMMAND")), "run something in its room"),
            (command(&format!("timeline -w {name}")), "what happened there"),
        ],
        false => vec![
            (command(&format!("up {name}")), "start its room and services"),
            (command(&format!("diff {name}")), "what changed on its branch"),
        ],
    };
    steps.push((command("fork NAME"), "make another sandbox"));
    steps.push((command("help"), "list the commands"));
    steps
}

/// Returns the sandbox that the current folder belongs to, or the only one.
fn here(session: &Session) -> Result<Option<SandboxView>, Failure> {
    let query = FindQuery { sandbox: None, folder: session.folder_text()? };
    let found = session.query(route::SANDBOX_FIND, &query);
    match found {
        Ok(sandbox) => Ok(Some(sandbox)),
        Err(Failure { kind: FailureKind::NotFound | FailureKind::Usage, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether a word is the name of a sandbox, as `-w` would take it.
pub(super) fn is_sandbox(session: &Session, word: &str) -> Result<bool, Failure> {
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    Ok(all.iter().any(|one| one.name == word || format!("{}/{}", one.project, one.name) == word))
}

/// Whether the first word of a command that takes services is a sandbox. A word that could be either is refused
/// with both readings.
pub(super) fn names_sandbox(session: &Session, command: &str, word: &str) -> Result<bool, Failure> {
    if !is_sandbox(session, word)? {
        return Ok(false);
    }
    let here = here(session)?;
    let service = here.filter(|one| one.services.iter().any(|service| service.name == word));
    let Some(one) = service else { return Ok(true) };
    let message = format!("`{word}` is a sandbox, and a service of `{}`", one.name);
    Err(Failure::new(FailureKind::Usage, message)
        .hint(format!("for the service: `hothouse {command} {word} -w {}`", one.name))
        .hint(format!("for the sandbox: `hothouse {command} -w {word}`")))
}
