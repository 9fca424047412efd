//! `audit`: what agents reported, and what the room recorded.

use std::process::ExitCode;

use hothouse_api::{agent::AuditQuery, route};
use hothouse_model::{
    Failure,
    agent::{AuditDecision, AuditReport, AuditRow, Seen, Verdict},
};

use super::timeline::checked;
use crate::{
    args::AuditArgs,
    render::{Cell, cut, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The longest audit that is printed as Markdown.
const PAGE_LIMIT: u64 = 16 << 20;

/// Shows the audit of a run.
pub(crate) fn show(session: &Session, ui: &Ui, args: AuditArgs) -> Result<ExitCode, Failure> {
    let query = AuditQuery {
        sandbox: checked(args.run.which)?,
        folder: session.folder_text()?,
        run: args.run.run.clone(),
        suspicious: args.suspicious,
    };
    let report: AuditReport = session.query(route::AUDIT, &query)?;
    if args.md && !ui.json {
        let page =
            session.read_artifact(std::path::Path::new(&report.log), args.run.run, PAGE_LIMIT)?;
        ui.print(plain_lines(&String::from_utf8_lossy(&page)).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    match ui.json {
        true => ui.print_json(&report.rows),
        false if report.rows.is_empty() => {
            ui.say("Nothing to audit: no agent has done anything in this run.")
        }
        false => {
            let rows = report.rows.iter().map(row).collect();
            ui.print(&table(
                ui,
                &["TIME", "TOOL", "DECISION", "SEVERITY", "SEEN", "TARGET", "REASON"],
                rows,
            ));
            ui.say(&format!("The whole audit: {}", report.log));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(row: &AuditRow) -> Vec<Cell> {
    let decision = Cell::new(row.decision.as_str());
    let decision = match row.decision.known() {
        Some(AuditDecision::Judged(Verdict::Deny)) => decision.tone(Tone::Bad),
        Some(AuditDecision::Judged(Verdict::Ask)) => decision.tone(Tone::Warning),
        _ => decision,
    };
    vec![
        Cell::new(row.time.strftime("%H:%M:%S").to_string()),
        Cell::new(&row.tool),
        decision,
        Cell::new(row.severity.as_str()),
        Cell::new(row.seen.map_or("-", Seen::as_str)),
        Cell::new(cut(&row.target, 60)),
        Cell::new(cut(&row.reason, 80)),
    ]
}
