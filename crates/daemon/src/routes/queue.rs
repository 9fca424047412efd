//! Queues and schedules.

use std::{path::PathBuf, time::Duration};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    queue::{CronRequest, CronRunView, CronView, JobView, QueueRequest},
    sandbox::FindQuery,
};
use hothouse_model::{SandboxRecord, cron::ScheduledWork, queue::Job};
use hothouse_reconcile::sleep;

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// How long draining a queue may take.
const DRAIN: Duration = Duration::from_secs(60);

#[utoipa::path(
    get, path = "/v1/queues", operation_id = "queue_list", params(FindQuery),
    responses((status = 200, body = [JobView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<JobView>>, ErrorResponse> {
    let sandbox = awake(&daemon, query.sandbox, query.folder).await?;
    let jobs = daemon.keepers.queues.list(&sandbox).await.map_err(ErrorResponse)?;
    Ok(axum::Json(jobs.into_iter().map(view).collect()))
}

#[utoipa::path(
    post, path = "/v1/queues", operation_id = "queue_act", request_body = QueueRequest,
    description = "Puts a dead job back, or lets all jobs be done; returns the job, or those that are left.",
    responses((status = 200, body = [JobView]), (status = 404, body = ErrorBody), (status = 412, body = ErrorBody))
)]
pub(crate) async fn act(
    State(daemon): State<Daemon>,
    Json(body): Json<QueueRequest>,
) -> Result<axum::Json<Vec<JobView>>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox, body.folder).await?;
    let queues = &daemon.keepers.queues;
    let done = match &body.retry {
        Some(id) => queues.retry(&sandbox, id).await.map(|job| vec![job]),
        None => {
            queues.drain(&sandbox, body.timeout_seconds.map_or(DRAIN, Duration::from_secs)).await
        }
    };
    Ok(axum::Json(done.map_err(ErrorResponse)?.into_iter().map(view).collect()))
}

#[utoipa::path(
    get, path = "/v1/crons", operation_id = "cron_list", params(FindQuery),
    responses((status = 200, body = [CronView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn crons(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<CronView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let all = daemon.engine.crons(&sandbox)?.into_iter().map(|entry| CronView {
            name: entry.schedule.name,
            schedule: entry.schedule.schedule,
            source: entry.schedule.source,
            work: match entry.schedule.work {
                ScheduledWork::Command(command) => command,
                ScheduledWork::Call(path) => format!("GET {path}"),
            },
        });
        Ok(all.collect())
    });
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/crons", operation_id = "cron_run", request_body = CronRequest,
    responses((status = 200, body = CronRunView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn run_cron(
    State(daemon): State<Daemon>,
    Json(body): Json<CronRequest>,
) -> Result<axum::Json<CronRunView>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox, body.folder).await?;
    let ran = daemon.keepers.queues.run_cron(&sandbox, &body.name).await.map_err(ErrorResponse)?;
    Ok(axum::Json(CronRunView {
        name: ran.schedule.name,
        source: ran.schedule.source,
        ok: ran.ok,
        end: ran.end,
        output: ran.output,
        duration_ms: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
    }))
}

async fn awake(
    daemon: &Daemon,
    sandbox: Option<String>,
    folder: String,
) -> Result<SandboxRecord, ErrorResponse> {
    let wanted = sandbox.as_deref().map(reference).transpose()?;
    let engine = daemon.engine.clone();
    let found = blocking(move || engine.find(wanted.as_ref(), &PathBuf::from(folder))).await?;
    sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)
}

fn view(job: Job) -> JobView {
    let Job { queue, id, name, state, attempts, error } = job;
    JobView { queue, id, name, state, attempts, error }
}
