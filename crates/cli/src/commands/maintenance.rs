//! `adopt`, `size`, `clean`, `runs`.

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
    progress::Progress,
    render::{Cell, age, bytes, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Creates a sandbox from an existing worktree.
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
        "Adopted the worktree as sandbox `{}` on branch `{}`; Hothouse never removes it.",
        made.name, made.branch
    ));
    ui.print(&made.worktree);
    Ok(ExitCode::SUCCESS)
}

/// Shows the disk usage of sandboxes.
pub(crate) fn size(session: &Session, ui: &Ui, args: SizeArgs) -> Result<ExitCode, Failure> {
    let which = args.which.which();
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    let all: Vec<SizeView> = session.query(route::SIZES, &query)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("No sandboxes yet; `hothouse fork NAME` makes one.");
        return Ok(ExitCode::SUCCESS);
    }
    let part = |size: &SizeView, name: &str| bytes(size.parts.get(name).copied().unwrap_or(0));
    let rows = |with_parts: bool| {
        let row = |size: &SizeView| {
            let whole = [size.own, size.shared, size.total].map(|size| Cell::new(bytes(size)));
            let mut row = vec![sandbox_cell(size)];
            row.extend(whole);
            if with_parts {
                row.extend(PARTS.map(|name| Cell::new(part(size, name))));
            }
            row
        };
        all.iter().map(row).collect::<Vec<_>>()
    };
    let heading = ["SANDBOX", "OWN", "SHARED", "TOTAL", "WORKTREE", "ROOM", "DATA", "SNAPSHOTS"];
    let whole = table(ui, &heading, rows(true));
    // The parts are left out if the terminal is too narrow; `--verbose` shows them anyway.
    let is_broken = whole.lines().count() > all.len() + 1;
    match is_broken && !ui.is_verbose() {
        true => ui.print(&table(ui, &heading[..heading.len() - PARTS.len()], rows(false))),
        false => ui.print(&whole),
    }
    Ok(ExitCode::SUCCESS)
}

/// The parts of a sandbox's size.
const PARTS: [&str; 4] = ["worktree", "room", "data", "snapshots"];

/// Renders the name. A sandbox in the trash uses space but no longer exists.
fn sandbox_cell(size: &SizeView) -> Cell {
    let name = format!("{}/{}", size.project, size.name);
    match size.deleted {
        Some(_) => Cell::new(format!("{name} (in the trash)")).tone(Tone::Faint),
        None => Cell::new(name).tone(Tone::Strong),
    }
}

/// Deletes what can be deleted without loss, or shows what it would delete.
pub(crate) fn clean(session: &Session, ui: &Ui, args: CleanArgs) -> Result<ExitCode, Failure> {
    if let Some(name) = args.name {
        return match args.dry_run {
            true => Err(Failure::new(
                FailureKind::Usage,
                "--dry-run does not apply to a single sandbox",
            )
            .hint("`hothouse delete NAME` already refuses to lose work")),
            false => {
                let (names, force, branch, now) = (vec![name], false, false, true);
                delete(session, ui, &DeleteArgs { names, force, branch, now })
            }
        };
    }
    let what = match args {
        CleanArgs { all: true, .. } => CleanWord::All,
        CleanArgs { merged: true, .. } => CleanWord::Merged,
        CleanArgs { runs: true, .. } => CleanWord::Runs,
        CleanArgs { trash: true, .. } => CleanWord::Trash,
        _ => {
            return Err(Failure::new(FailureKind::Usage, "no sandbox or filter given")
                .hint("name a sandbox, or pass --merged, --all, --trash or --runs")
                .hint("`--dry-run` only shows what would be deleted"));
        }
    };
    let body = CleanBody { what, dry_run: args.dry_run };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let looked_at = session.post(route::CLEAN, &operation, &body);
    drop(progress);
    let looked_at: Vec<CleanedView> = looked_at?;
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
        let size = item.bytes.map_or_else(|| "-".to_owned(), bytes);
        let what = Cell::new(&item.what);
        vec![what, Cell::new(word).tone(tone), Cell::new(size), Cell::new(&item.reason)]
    });
    if looked_at.is_empty() {
        ui.say("Nothing to clean.");
    } else {
        ui.print(&table(ui, &["WHAT", "ACTION", "SIZE", "REASON"], rows.collect()));
    }
    let freed = looked_at.iter().filter(|item| item.goes).filter_map(|item| item.bytes);
    match freed.sum::<u64>() {
        0 => {}
        freed if args.dry_run => ui.say(&format!("{} would be freed.", bytes(freed))),
        freed => ui.say(&format!("{} freed.", bytes(freed))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists runs, including those of deleted sandboxes.
pub(crate) fn runs(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<RunLineView> = session.get(route::RUNS)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("No runs yet; `hothouse up` starts one.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = HostClock.now();
    let rows = all.iter().map(|run| {
        let whose = match (&run.project, &run.sandbox) {
            (Some(project), Some(sandbox)) => format!("{project}/{sandbox}"),
            _ => "-".to_owned(),
        };
        let state = match (run.ok, run.ended) {
            (Some(true), _) => "ok",
            (Some(false), _) => "not ok",
            (None, Some(_)) => "ended",
            (None, None) => "running",
        };
        vec![
            Cell::new(&run.id).tone(Tone::Strong),
            Cell::new(whose),
            Cell::new(age(run.started, now)),
            Cell::new(state),
            Cell::new(run.records.to_string()),
            Cell::new(run.bytes.map_or_else(|| "-".to_owned(), bytes)),
        ]
    });
    let heads = ["RUN", "SANDBOX", "AGE", "STATE", "RECORDED", "SIZE"];
    ui.print(&table(ui, &heads, rows.collect()));
    Ok(ExitCode::SUCCESS)
}
