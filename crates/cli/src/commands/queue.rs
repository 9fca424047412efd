//! `queue` and `cron`.

use std::process::ExitCode;

use hothouse_api::{
    queue::{CronRequest, CronRunView, CronView, JobView, QueueRequest},
    route,
    sandbox::FindQuery,
};
use hothouse_model::{Failure, queue::JobState};

use super::{
    given::duration,
    timeline::{checked, cut},
};
use crate::{
    args::{CronCommand, QueueCommand, Which},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a `queue` command.
pub(crate) fn queue(
    session: &Session,
    ui: &Ui,
    command: QueueCommand,
) -> Result<ExitCode, Failure> {
    match command {
        QueueCommand::List { which } => {
            let jobs: Vec<JobView> = session.query(route::QUEUES, &find(session, which)?)?;
            show(ui, &jobs, "No jobs.");
        }
        QueueCommand::Drain { timeout, which } => {
            let timeout = duration("--timeout", timeout.as_deref())?;
            let body = QueueRequest {
                sandbox: checked(which)?,
                folder: session.folder_text()?,
                retry: None,
                timeout_seconds: timeout.map(|timeout| timeout.as_secs().max(1)),
            };
            let jobs: Vec<JobView> = session.post(route::QUEUES, &session.operation(), &body)?;
            let left: Vec<JobView> =
                jobs.into_iter().filter(|job| job.state != JobState::Completed).collect();
            show(ui, &left, "Every job is done.");
        }
        QueueCommand::Retry { id, which } => {
            let body = QueueRequest {
                sandbox: checked(which)?,
                folder: session.folder_text()?,
                retry: Some(id),
                timeout_seconds: None,
            };
            let jobs: Vec<JobView> = session.post(route::QUEUES, &session.operation(), &body)?;
            match (ui.json, jobs.first()) {
                (true, Some(job)) => ui.print_json(job),
                _ => show(ui, &jobs, ""),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(session: &Session, which: Which) -> Result<FindQuery, Failure> {
    Ok(FindQuery { sandbox: checked(which)?, folder: session.folder_text()? })
}

fn show(ui: &Ui, jobs: &[JobView], none: &str) {
    match ui.json {
        true => ui.print_json(&jobs),
        false if jobs.is_empty() => ui.say(none),
        false => {
            let rows = jobs.iter().map(row).collect();
            ui.print(&table(ui, &["QUEUE", "ID", "NAME", "STATE", "ATTEMPTS", "ERROR"], rows));
        }
    }
}

fn row(job: &JobView) -> Vec<Cell> {
    let tone = match job.state.known() {
        Some(state) if state.is_lost() => Tone::Bad,
        Some(JobState::Completed) => Tone::Good,
        Some(JobState::Active) => Tone::Strong,
        _ => Tone::Faint,
    };
    vec![
        Cell::new(&job.queue),
        Cell::new(cut(&job.id)).tone(Tone::Strong),
        Cell::new(cut(&job.name)),
        Cell::new(job.state.as_str()).tone(tone),
        Cell::new(job.attempts.to_string()),
        Cell::new(cut(job.error.as_deref().unwrap_or("-"))).tone(Tone::Faint),
    ]
}

/// Runs a `cron` command.
pub(crate) fn cron(session: &Session, ui: &Ui, command: CronCommand) -> Result<ExitCode, Failure> {
    match command {
        CronCommand::List { which } => {
            let all: Vec<CronView> = session.query(route::CRONS, &find(session, which)?)?;
            match ui.json {
                true => ui.print_json(&all),
                false if all.is_empty() => ui.say("No schedules."),
                false => {
                    let rows = all.iter().map(|cron| {
                        vec![
                            Cell::new(&cron.name).tone(Tone::Strong),
                            Cell::new(if cron.schedule.is_empty() { "-" } else { &cron.schedule }),
                            Cell::new(cut(&cron.work.replace('\n', "; "))),
                            Cell::new(&cron.source).tone(Tone::Faint),
                        ]
                    });
                    ui.print(&table(ui, &["NAME", "SCHEDULE", "WHAT", "SOURCE"], rows.collect()));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        CronCommand::Run { name, which } => {
            let (sandbox, folder) = (checked(which)?, session.folder_text()?);
            let body = CronRequest { sandbox, folder, name };
            let ran: CronRunView = session.post(route::CRONS, &session.operation(), &body)?;
            match ui.json {
                true => ui.print_json(&ran),
                false => {
                    if !ran.output.trim().is_empty() {
                        ui.print(&crate::render::plain_lines(ran.output.trim_end()));
                    }
                    ui.say(&format!(
                        "{} ended with {} after {} ms.",
                        ran.name, ran.end, ran.duration_ms
                    ));
                }
            }
            Ok(if ran.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
    }
}
