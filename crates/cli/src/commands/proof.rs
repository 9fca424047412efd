//! `scenarios`, `smoke`, `prove`, `compare`, `summary`: what a run proves.

use std::{path::Path, process::ExitCode};

use hothouse_api::{
    proof::{CompareBody, ProofView, ProveBody, ScenarioView, SmokeBody, SummaryBody, SummaryView},
    route,
    sandbox::FindQuery,
};
use hothouse_evidence::{
    checks::Check,
    compare::{Comparison, Difference, SideShown},
};
use hothouse_model::{Failure, FailureKind};

use super::{
    sign,
    timeline::{checked, cut},
};
use crate::{
    args::{CompareArgs, JudgeArg, ProveArgs, ScenariosArgs, SmokeArgs, SummaryArgs},
    progress::Progress,
    render::{Cell, plain, table},
    scope,
    session::Session,
    ui::{Tone, Ui},
};

/// How many output lines are shown of a service that did not start.
const LAST_LINES: usize = 12;

/// Lists scenarios.
pub(crate) fn scenarios(
    session: &Session,
    ui: &Ui,
    args: ScenariosArgs,
) -> Result<ExitCode, Failure> {
    let query = FindQuery { sandbox: checked(args.which)?, folder: session.folder_text()? };
    let all: Vec<ScenarioView> = session.query(route::SCENARIOS, &query)?;
    match ui.json {
        true => ui.print_json(&all),
        false if all.is_empty() => {
            ui.say("No scenarios: declare them under `[scenario.NAME]` in hothouse.toml.");
        }
        false => {
            let rows = all.iter().map(scenario_row).collect();
            ui.print(&table(ui, &["SCENARIO", "OPENS", "AS", "SEED", "CHECKS", "ABOUT"], rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario_row(scenario: &ScenarioView) -> Vec<Cell> {
    let or_dash = |text: &str| Cell::new(if text.is_empty() { "-" } else { text });
    vec![
        Cell::new(&scenario.name).tone(Tone::Strong),
        Cell::new(format!("{}{}", scenario.app.as_deref().unwrap_or_default(), scenario.path)),
        or_dash(scenario.auth.as_deref().unwrap_or_default()),
        or_dash(&scenario.seed.join(", ")),
        Cell::new(scenario.checks.to_string()),
        Cell::new(scenario.about.as_deref().unwrap_or_default()).tone(Tone::Faint),
    ]
}

/// Runs a scenario.
pub(crate) fn smoke(session: &Session, ui: &Ui, args: SmokeArgs) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(args.which)?, session.folder_text()?);
    let body = SmokeBody { sandbox, folder, scenario: args.scenario };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let proof: Result<ProofView, Failure> = session.post(route::SMOKE, &operation, &body);
    drop(progress);
    let proof = proof?;
    match ui.json {
        true => ui.print_json(&proof),
        false => show(ui, &proof),
    }
    Ok(code(proof.ok))
}

/// Proves scenarios.
pub(crate) fn prove(session: &Session, ui: &Ui, args: ProveArgs) -> Result<ExitCode, Failure> {
    let body = ProveBody {
        sandbox: checked(args.which)?,
        folder: session.folder_text()?,
        scenarios: args.scenarios,
        dirty: args.dirty,
        times: args.times,
        judged_by_base: args.judge == JudgeArg::Base,
        against_base: args.against_base,
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let proofs: Result<Vec<ProofView>, Failure> = session.post(route::PROVE, &operation, &body);
    drop(progress);
    let proofs = proofs?;
    match (ui.json, proofs.as_slice()) {
        (true, [one]) => ui.print_json(one),
        (true, all) => ui.print_json(&all),
        (false, all) => all.iter().for_each(|proof| show(ui, proof)),
    }
    Ok(code(proofs.iter().all(|proof| proof.ok)))
}

fn code(ok: bool) -> ExitCode {
    match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FailureKind::Unmet.exit_code()),
    }
}

fn show(ui: &Ui, proof: &ProofView) {
    let held = proof.checks.iter().filter(|check| check.ok).count();
    let (tone, word) = if proof.ok { (Tone::Good, "ok") } else { (Tone::Bad, "failed") };
    let (name, count) = (plain(&proof.scenario), proof.checks.len());
    ui.print(&format!("{}: {name}, {held} of {count} checks hold", ui.paint(tone, word)));
    if let Some(failure) = &proof.failure {
        show_failure(ui, failure);
    }
    proof.checks.iter().for_each(|check| show_check(ui, check));
    let runs = proof.attempts.len();
    for name in &proof.flaky {
        let failed = proof.attempts.iter().filter(|one| one.failed.contains(name)).count();
        ui.print(&format!("flaky: {} failed in {failed} of {runs} runs", plain(name)));
    }
    for change in proof.changed_checks.iter().filter(|change| change.weaker) {
        let how = plain(&change.how);
        ui.print(&format!("{}: {} {how}", ui.paint(Tone::Bad, "weaker"), plain(&change.name)));
    }
    if let Some(comparison) = &proof.comparison {
        show_differences(ui, comparison);
    }
    for gap in &proof.not_covered {
        ui.print(&format!("not covered: {}", plain(gap)));
    }
    ui.print(&format!("summary: {}", plain(&proof.summary.html)));
}

/// Shows why a scenario could not be run, with the last lines of a service that did not start.
fn show_failure(ui: &Ui, failure: &str) {
    let mut lines = failure.lines();
    let first = lines.next().unwrap_or_default();
    ui.print(&format!("  it could not be carried out: {}", plain(first)));
    let rest: Vec<&str> = lines.collect();
    let last = &rest[rest.len().saturating_sub(LAST_LINES)..];
    last.iter().for_each(|line| ui.print(&format!("    {}", plain(line))));
}

fn show_check(ui: &Ui, check: &Check) {
    let mark = if check.ok { ui.paint(Tone::Good, "+") } else { ui.paint(Tone::Bad, "-") };
    let seen = cut(&check.seen.split_whitespace().collect::<Vec<_>>().join(" "));
    let (kind, query) = (plain(&check.kind), plain(&check.query));
    ui.print(&format!("  {mark} {kind} {query}: {}", plain(&seen)));
    if check.ok {
        return;
    }
    ui.print(&format!("      wanted: {}", plain(&check.wanted)));
    for near in &check.nearest {
        let (failed, summary) = (plain(&near.failed.join(" ")), plain(&cut(&near.summary)));
        ui.print(&format!("      near: {} {summary}, but not {failed}", plain(&near.id)));
    }
    if let Some(more) = &check.more {
        ui.print(&format!("      more: {}", plain(more)));
    }
}

/// Compares sandboxes or runs.
pub(crate) fn compare(session: &Session, ui: &Ui, args: CompareArgs) -> Result<ExitCode, Failure> {
    if args.scenario.is_none()
        && let Some(code) = super::race::shown(session, ui, &args.sides)
    {
        return Ok(code);
    }
    let folder = session.folder_text()?;
    let body = CompareBody { sides: args.sides, folder, scenario: args.scenario };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let compared: Result<Comparison, Failure> = session.post(route::COMPARE, &operation, &body);
    drop(progress);
    let compared = compared?;
    match ui.json {
        true => ui.print_json(&compared),
        false => {
            for side in &compared.sides {
                ui.print(&side_line(side));
            }
            show_differences(ui, &compared);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Renders one side of a comparison on a line. A run without a scenario has neither checks nor a commit.
fn side_line(side: &SideShown) -> String {
    let held = side.checks.iter().filter(|check| check.ok).count();
    let checks = match side.checks.len() {
        0 => "no checks".to_owned(),
        of => format!("{held} of {of} checks hold"),
    };
    let commit = plain(&side.commit);
    let commit = if commit.is_empty() { commit } else { format!(", commit {commit:.10}") };
    format!("{}: {checks}{commit}", plain(&side.name))
}

fn show_differences(ui: &Ui, comparison: &Comparison) {
    let rows: Vec<Vec<Cell>> = comparison.differences.iter().map(difference_row).collect();
    match rows.is_empty() {
        true => ui.print("No differences."),
        false => ui.print(&table(ui, &["KIND", "WHAT", "BEFORE", "NOW"], rows)),
    }
    let same = comparison.same.iter().map(|(kind, count)| format!("{count} {}", plain(kind)));
    let same: Vec<String> = same.collect();
    let same = if same.is_empty() { "nothing".to_owned() } else { same.join(", ") };
    ui.print(&format!("the same: {same}"));
}

fn difference_row(difference: &Difference) -> Vec<Cell> {
    let side = |text: &Option<String>| Cell::new(cut(text.as_deref().unwrap_or("-")));
    let what = match &difference.side {
        Some(side) => format!("{side}: {}", difference.what),
        None => difference.what.clone(),
    };
    vec![
        Cell::new(&difference.kind).tone(Tone::Strong),
        Cell::new(cut(&what)),
        side(&difference.left),
        side(&difference.right),
    ]
}

/// Summarises a run.
pub(crate) fn summary(session: &Session, ui: &Ui, args: &SummaryArgs) -> Result<ExitCode, Failure> {
    let body = SummaryBody {
        sandbox: checked(args.run.which.clone())?,
        folder: session.folder_text()?,
        run: args.run.run.clone(),
    };
    if args.sign.is_some() && session.is_inside() {
        return Err(scope::refusal("summary --sign", "hothouse summary --sign"));
    }
    let view: SummaryView = session.post(route::SUMMARY, &session.operation(), &body)?;
    if let Some(key) = &args.sign {
        let signature = sign::sign(session, Path::new(&view.files.json), Some(key))?;
        ui.say(&format!("Signed: {}", plain(&signature.display().to_string())));
    }
    match () {
        () if ui.json => ui.print_json(&view.summary),
        () if args.html => ui.print(&plain(&view.files.html)),
        () => {
            ui.print(view.markdown.trim_end());
            if !args.md {
                ui.say(&format!("The page: {}", plain(&view.files.html)));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
