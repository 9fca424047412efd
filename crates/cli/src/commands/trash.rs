//! `undelete`: lists the trash, and restores sandboxes from it.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView, route,
    sandbox::{TrashView, UndeleteBody},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, FailureKind, SandboxName};

use crate::{
    args::UndeleteArgs,
    progress::Progress,
    render::{Cell, age, ago, bytes, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Restores a sandbox, or lists those that can be restored.
pub(crate) fn undelete(
    session: &Session,
    ui: &Ui,
    args: UndeleteArgs,
) -> Result<ExitCode, Failure> {
    let Some(name) = args.name else { return list(session, ui) };
    if let Some(other) = &args.other {
        other.parse::<SandboxName>().map_err(|error| {
            Failure::of(FailureKind::Usage, &error)
                .hint("choose a short name, such as `agent-a` or `fix-login`")
        })?;
    }
    let body = UndeleteBody {
        sandbox: name,
        folder: session.folder_text()?,
        name: args.other,
        branch: args.branch,
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let back = session.post(route::SANDBOX_UNDELETE, &operation, &body);
    drop(progress);
    let back: SandboxView = back?;
    if ui.json {
        ui.print_json(&back);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Brought sandbox `{}` back on branch `{}`.", back.name, plain(&back.branch)));
    ui.print(&back.worktree);
    ui.next(&format!("hothouse up {}", back.name));
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<TrashView> = session.get(route::TRASH)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("The trash is empty. A deleted sandbox is kept there for a day.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = HostClock.now();
    let is_older = |at: usize| {
        all[..at].iter().any(|o| (&o.project, &o.name) == (&all[at].project, &all[at].name))
    };
    let rows = all.iter().enumerate().map(|(at, one)| {
        // An older one with the same name is identified by its id.
        let name = if is_older(at) { &one.id } else { &one.name };
        vec![
            Cell::new(&one.project),
            Cell::new(name).tone(Tone::Strong),
            Cell::new(&one.branch),
            Cell::new(ago(one.deleted, now)),
            Cell::new(format!("in {}", age(now, one.expires))),
            Cell::new(one.bytes.map_or_else(|| "-".to_owned(), bytes)),
        ]
    });
    let heads = ["PROJECT", "NAME", "BRANCH", "DELETED", "EXPIRES", "SIZE"];
    ui.print(&table(ui, &heads, rows.collect()));
    if let Some(first) = all.first() {
        ui.next(&format!("hothouse undelete {}", first.name));
    }
    Ok(ExitCode::SUCCESS)
}
