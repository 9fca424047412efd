//! `snapshot`, `snapshots`, `restore`.

use std::process::ExitCode;

use hothouse_api::{
    route,
    sandbox::FindQuery,
    workspace::{SnapshotBody, SnapshotView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, FailureKind};

use super::{overview::is_sandbox, sandbox::check_reference};
use crate::{
    args::{RestoreArgs, SnapshotArgs, Which},
    progress::Progress,
    render::{Cell, age, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Takes a snapshot, or removes one.
pub(crate) fn take(session: &Session, ui: &Ui, args: SnapshotArgs) -> Result<ExitCode, Failure> {
    if let (None, Some(label)) = (&args.which.sandbox, &args.label) {
        refuse_sandbox_as_label(session, label)?;
    }
    let forget = args.remove;
    let route = if forget { route::SNAPSHOT_FORGET } else { route::SNAPSHOTS };
    let snapshot = post(session, ui, route, args.which, args.label)?;
    if ui.json {
        ui.print_json(&snapshot);
        return Ok(ExitCode::SUCCESS);
    }
    if forget {
        ui.say(&format!("Removed snapshot `{}` of `{}`.", snapshot.label, snapshot.sandbox));
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!(
        "Took a snapshot of `{}`; `hothouse restore {} -w {0}` restores it.",
        snapshot.sandbox, snapshot.label
    ));
    ui.print(&snapshot.label);
    Ok(ExitCode::SUCCESS)
}

/// Refuses a label that is the name of a sandbox: `snapshot agent-a` most likely means the sandbox.
fn refuse_sandbox_as_label(session: &Session, label: &str) -> Result<(), Failure> {
    if !is_sandbox(session, label)? {
        return Ok(());
    }
    let message =
        format!("`{label}` is the name of a sandbox: is it the label, or what to snapshot?");
    Err(Failure::new(FailureKind::Usage, message)
        .hint(format!("to snapshot that sandbox: `hothouse snapshot -w {label}`"))
        .hint(format!("to use it as the label: `hothouse snapshot {label} -w SANDBOX`")))
}

/// Restores a sandbox to a snapshot.
pub(crate) fn restore(session: &Session, ui: &Ui, args: RestoreArgs) -> Result<ExitCode, Failure> {
    let snapshot = post(session, ui, route::SNAPSHOT_RESTORE, args.which, Some(args.label))?;
    if ui.json {
        ui.print_json(&snapshot);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Restored `{}` to `{}`.", snapshot.sandbox, snapshot.label));
    Ok(ExitCode::SUCCESS)
}

/// Lists the snapshots of a sandbox.
pub(crate) fn list(session: &Session, ui: &Ui, which: Which) -> Result<ExitCode, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    let all: Vec<SnapshotView> = session.query(route::SNAPSHOTS, &query)?;
    if ui.json {
        ui.print_json(&all);
    } else if all.is_empty() {
        ui.say("No snapshots yet; `hothouse snapshot LABEL` takes one.");
    } else {
        let now = HostClock.now();
        let rows = all.iter().map(|snapshot| {
            vec![
                Cell::new(&snapshot.label).tone(Tone::Strong),
                Cell::new(age(snapshot.created, now)),
                Cell::new(snapshot.tip.get(..10).unwrap_or(&snapshot.tip)),
            ]
        });
        ui.print(&table(ui, &["LABEL", "AGE", "COMMIT"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

fn post(
    session: &Session,
    ui: &Ui,
    route: &str,
    which: Which,
    label: Option<String>,
) -> Result<SnapshotView, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let body = SnapshotBody { sandbox: which.sandbox, folder: session.folder_text()?, label };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let answer = session.post(route, &operation, &body);
    drop(progress);
    answer
}
