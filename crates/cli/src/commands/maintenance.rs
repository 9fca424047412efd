//! `adopt`, `size`, `clean`, `runs`: what there is, what it takes, what may go.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView, route,
    sandbox::FindQuery,
    workspace::{AdoptBody, CleanBody, CleanWord, CleanedView, RunLineView, SizeView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, FailureKind};

use super::sandbox::{check_reference, delete};
use crate::{
    args::{AdoptArgs, CleanArgs, DeleteArgs, SizeArgs},
    render::{Cell, age, bytes, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Makes a sandbox of a worktree that exists.
pub(crate) fn adopt(session: &Session, ui: &Ui, args: AdoptArgs) -> Result<ExitCode, Failure> {
    let folder = match args.path {
        Some(path) => session.folder.join(path).to_string_lossy().into_owned(),
        None => session.folder_text()?,
    };
    let body = AdoptBody { folder, name: args.name };
    let operation = session.operation();
    let made: SandboxView = session.post(route::SANDBOX_ADOPT, &operation, &body)?;
    if ui.json {
        ui.print_json(&made);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!(
        "Adopted the worktree as sandbox `{}` on branch `{}`; it is never removed by Hothouse.",
        made.name, made.branch
    ));
    ui.print(&made.worktree);
    Ok(ExitCode::SUCCESS)
}

/// Says what sandboxes take on the disk.
pub(crate) fn size(session: &Session, ui: &Ui, args: SizeArgs) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: args.which.sandbox, folder: session.folder_text()? };
    let all: Vec<SizeView> = session.query(route::SIZES, &query)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("There is no sandbox yet; `hothouse fork NAME` makes one.");
        return Ok(ExitCode::SUCCESS);
    }
    let part = |size: &SizeView, name: &str| bytes(size.parts.get(name).copied().unwrap_or(0));
    let rows = all.iter().map(|size| {
        vec![
            Cell::new(format!("{}/{}", size.project, size.name)).tone(Tone::Strong),
            Cell::new(bytes(size.own)),
            Cell::new(bytes(size.shared)),
            Cell::new(bytes(size.total)),
            Cell::new(part(size, "worktree")),
            Cell::new(part(size, "room")),
            Cell::new(part(size, "data")),
            Cell::new(part(size, "snapshots")),
        ]
    });
    let heading = ["SANDBOX", "OWN", "SHARED", "TOTAL", "WORKTREE", "ROOM", "DATA", "SNAPSHOTS"];
    ui.print(&table(ui, &heading, rows.collect()));
    Ok(ExitCode::SUCCESS)
}

/// Removes what may go, or says what would.
pub(crate) fn clean(session: &Session, ui: &Ui, args: CleanArgs) -> Result<ExitCode, Failure> {
    if let Some(name) = args.name {
        return match args.dry_run {
            true => Err(Failure::new(FailureKind::Usage, "one sandbox is deleted or it is not")
                .hint("`hothouse delete NAME` refuses to lose work by itself")),
            false => delete(session, ui, &DeleteArgs { name, force: false }),
        };
    }
    let what = match (args.all, args.merged, args.runs) {
        (true, ..) => CleanWord::All,
        (_, true, _) => CleanWord::Merged,
        (_, _, true) => CleanWord::Runs,
        _ => {
            return Err(Failure::new(FailureKind::Usage, "clean what?")
                .hint("name a sandbox, or say --merged, --all or --runs")
                .hint("`--dry-run` only says what would go"));
        }
    };
    let body = CleanBody { what, dry_run: args.dry_run };
    let looked_at: Vec<CleanedView> = session.post(route::CLEAN, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&looked_at);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = looked_at.iter().map(|item| {
        let (word, tone) = match (item.goes, args.dry_run) {
            (false, _) => ("kept", Tone::Faint),
            (true, true) => ("would be deleted", Tone::Warning),
            (true, false) => ("deleted", Tone::Good),
        };
        vec![Cell::new(&item.what), Cell::new(word).tone(tone), Cell::new(&item.reason)]
    });
    if looked_at.is_empty() {
        ui.say("Nothing to clean.");
    } else {
        ui.print(&table(ui, &["WHAT", "ACTION", "REASON"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists runs, also those of sandboxes that are gone.
pub(crate) fn runs(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<RunLineView> = session.get(route::RUNS)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("No runs yet; `hothouse up` begins one.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = HostClock.now();
    let rows = all.iter().map(|run| {
        vec![
            Cell::new(&run.id).tone(Tone::Strong),
            Cell::new(run.sandbox.as_deref().unwrap_or("-")),
            Cell::new(age(run.started, now)),
            Cell::new(if run.ended.is_some() { "ended" } else { "running" }),
            Cell::new(&run.artifacts),
        ]
    });
    ui.print(&table(ui, &["RUN", "SANDBOX", "AGE", "STATE", "ARTIFACTS"], rows.collect()));
    Ok(ExitCode::SUCCESS)
}
