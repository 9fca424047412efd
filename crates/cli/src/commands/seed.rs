//! `seeds` and `seed`.

use std::process::ExitCode;

use hothouse_api::{
    route,
    sandbox::FindQuery,
    seed::{BundleView, SeedRequest, SeedSnapshotView, SeedsView},
};
use hothouse_model::{
    Failure,
    seed::{BundleOutcome, BundleResult, BundleState, SeedSnapshotState, SeedSummary},
};
use serde_json::Value;

use super::timeline::{checked, cut};
use crate::{
    args::{SeedArgs, SeedsArgs},
    progress::Progress,
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// How many ids are shown.
const IDS: usize = 12;

/// Lists bundles and radii.
pub(crate) fn list(session: &Session, ui: &Ui, args: SeedsArgs) -> Result<ExitCode, Failure> {
    let query = FindQuery { sandbox: checked(args.which)?, folder: session.folder_text()? };
    let mut view: SeedsView = session.query(route::SEEDS, &query)?;
    if args.stale {
        view.bundles.retain(|bundle| bundle.state == BundleState::Stale);
        view.snapshots.retain(|snapshot| snapshot.state == SeedSnapshotState::Stale);
    }
    if ui.json {
        ui.print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    if view.bundles.is_empty() && view.snapshots.is_empty() {
        ui.say(if args.stale {
            "Nothing is stale."
        } else {
            "No bundles: declare them under `[seed.bundle.NAME]` in hothouse.toml."
        });
        return Ok(ExitCode::SUCCESS);
    }
    if !view.bundles.is_empty() {
        let rows = view.bundles.iter().map(row).collect();
        ui.print(&table(ui, &["BUNDLE", "STATE", "NEEDS", ""], rows));
    }
    if !args.stale && !view.radii.is_empty() {
        let mut radii: Vec<_> = view.radii.iter().collect();
        radii.sort_by_key(|(name, _)| ["z", "s", "m", "l", "xl"].iter().position(|r| r == name));
        let rows = radii.iter().map(|(name, bundles)| {
            vec![Cell::new(*name).tone(Tone::Strong), Cell::new(bundles.join(", "))]
        });
        ui.print(&table(ui, &["RADIUS", "BUNDLES"], rows.collect()));
    }
    if !view.snapshots.is_empty() {
        let rows = view.snapshots.iter().map(snapshot).collect();
        ui.print(&table(ui, &["SNAPSHOT", "STATE", "BUNDLES", ""], rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn snapshot(snapshot: &SeedSnapshotView) -> Vec<Cell> {
    let tone = if snapshot.why.is_some() { Tone::Warning } else { Tone::Good };
    vec![
        Cell::new(snapshot.key.chars().take(12).collect::<String>()).tone(Tone::Strong),
        Cell::new(snapshot.state.as_str()).tone(tone),
        Cell::new(snapshot.bundles.join(", ")),
        Cell::new(snapshot.why.as_deref().unwrap_or_default()).tone(Tone::Faint),
    ]
}

fn row(bundle: &BundleView) -> Vec<Cell> {
    let tone = match bundle.state {
        BundleState::Seeded => Tone::Good,
        BundleState::Stale => Tone::Warning,
        BundleState::None => Tone::Faint,
    };
    let needs = if bundle.needs.is_empty() { "-".to_owned() } else { bundle.needs.join(", ") };
    vec![
        Cell::new(&bundle.name).tone(Tone::Strong),
        Cell::new(bundle.state.as_str()).tone(tone),
        Cell::new(needs),
        Cell::new(bundle.why.as_deref().unwrap_or_default()).tone(Tone::Faint),
    ]
}

/// Seeds a sandbox that is up.
pub(crate) fn seed(session: &Session, ui: &Ui, args: SeedArgs) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(args.which)?, session.folder_text()?);
    let body = SeedRequest { sandbox, folder, names: args.names };
    let operation = session.operation();
    let progress = Progress::tell(session, ui, &operation);
    let summary: Result<SeedSummary, Failure> = session.post(route::SEEDS, &operation, &body);
    drop(progress);
    let summary = summary?;
    match ui.json {
        true => ui.print_json(&summary),
        false => show(ui, &summary),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(ui: &Ui, summary: &SeedSummary) {
    let rows = summary.bundles.iter().map(outcome).collect();
    ui.print(&table(ui, &["BUNDLE", "STATE", "TIME"], rows));
    if !summary.ids.is_empty() {
        ui.print("");
        ui.print(&table(ui, &["ID OF", "ID"], ids(summary.ids.iter())));
    }
    for caveat in &summary.caveats {
        ui.say(&format!("caveat: {}", plain(caveat)));
    }
    if let Some(file) = summary.files.get("md") {
        ui.say(&format!("Summary: {}", plain(file)));
    }
}

fn outcome(bundle: &BundleResult) -> Vec<Cell> {
    let (word, tone) = match bundle.state {
        BundleOutcome::Done => ("done", Tone::Good),
        BundleOutcome::Kept => ("kept", Tone::Faint),
        BundleOutcome::Restored => ("restored", Tone::Good),
        BundleOutcome::Failed => ("failed", Tone::Bad),
        BundleOutcome::Left => ("left", Tone::Warning),
    };
    vec![
        Cell::new(&bundle.name).tone(Tone::Strong),
        Cell::new(word).tone(tone),
        Cell::new(format!("{} ms", bundle.duration_ms)),
    ]
}

/// Renders the first ids.
pub(super) fn ids<'a>(
    all: impl ExactSizeIterator<Item = (&'a String, &'a Value)>,
) -> Vec<Vec<Cell>> {
    let more = all.len().saturating_sub(IDS);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let shown =
        all.take(IDS).map(|(name, id)| vec![Cell::new(cut(name)), Cell::new(cut(&text(id)))]);
    let rest = (more > 0).then(|| vec![Cell::new(format!("and {more} more")), Cell::new("")]);
    shown.chain(rest).collect()
}
