//! Coding agents in rooms, their audit, and races.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    agent::{
        AgentLogView, AgentQuery, AgentStartBody, AuditBody, AuditCall, AuditQuery, PROMPT_LIMIT,
        RaceBody, RaceQuery,
    },
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    agent::{AgentRecord, AuditReport, RaceView},
    record::{Draft, bodies},
};
use hothouse_reconcile::{
    agents::{self, AgentWish, AuditWish, RaceWish, visible_text},
    sleep,
};

use super::{Json, Operation, blocking, sandbox::reference, timeline::place};
use crate::{Daemon, failure::ErrorResponse, room_api::Shown};

/// How much of an agent's output is returned.
const LOG_SHOWN: usize = 512 << 10;

/// The maximum number of calls in a report, and the maximum length of a text in it.
const CALLS: usize = 64;
const TEXT: usize = 2000;

async fn found(
    daemon: &Daemon,
    sandbox: Option<&str>,
    folder: String,
) -> Result<SandboxRecord, ErrorResponse> {
    let wanted = sandbox.map(reference).transpose()?;
    let engine = daemon.engine.clone();
    blocking(move || engine.find(wanted.as_ref(), &PathBuf::from(folder))).await
}

#[utoipa::path(
    get, path = "/v1/agents", operation_id = "agent_list", params(AgentQuery),
    description = "The agents of one sandbox, or of all: each as it is now.",
    responses((status = 200, body = [Object]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    shown: Shown,
    Query(query): Query<AgentQuery>,
) -> Result<axum::Json<Vec<AgentRecord>>, ErrorResponse> {
    let all = match &query.sandbox {
        Some(name) => vec![found(&daemon, Some(name), query.folder).await?],
        None => {
            let engine = daemon.engine.clone();
            blocking(move || engine.sandboxes()).await?
        }
    };
    let all = all.into_iter().filter(|sandbox| shown.includes(sandbox.key)).collect();
    Ok(axum::Json(daemon.keepers.agents.list(all).await))
}

#[utoipa::path(
    post, path = "/v1/agents", operation_id = "agent_start", request_body = AgentStartBody,
    description = "Starts an agent in the room of a sandbox, on a terminal that outlives the daemon and its viewers.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn start(
    State(daemon): State<Daemon>,
    Json(body): Json<AgentStartBody>,
) -> Result<axum::Json<AgentRecord>, ErrorResponse> {
    check(&body)?;
    let sandbox = found(&daemon, body.sandbox.as_deref(), body.folder).await?;
    let sandbox = sleep::awake(&daemon.keepers, sandbox.key).await.map_err(ErrorResponse)?;
    let wish = AgentWish {
        tool: body.tool,
        prompt: body.prompt,
        task: body.task,
        model: body.model,
        unattended: body.unattended,
        no_guard: body.no_guard,
        rounds: body.rounds,
        seconds: None,
        rows: body.rows,
        columns: body.columns,
        resumed: false,
        unseen_hooks: false,
    };
    // In a separate task: a client that disconnects does not undo it.
    let started = tokio::spawn(async move { daemon.keepers.agents.start(&sandbox, wish).await });
    let started =
        started.await.map_err(|error| ErrorResponse(Failure::of(FailureKind::Internal, &error)))?;
    started.map(axum::Json).map_err(ErrorResponse)
}

fn check(body: &AgentStartBody) -> Result<(), ErrorResponse> {
    let usage = |message: String| Err(ErrorResponse(Failure::new(FailureKind::Usage, message)));
    for (what, text) in [("prompt", &body.prompt), ("task", &body.task)] {
        let length = text.as_ref().map_or(0, String::len);
        if length > PROMPT_LIMIT {
            return usage(format!("the {what} has {length} bytes; the most is {PROMPT_LIMIT}"));
        }
    }
    match &body.tool {
        Some(tool) if tool.trim().is_empty() || tool.len() > 64 << 10 || tool.contains('\0') => {
            usage("the tool is empty, too long, or has NUL bytes".to_owned())
        }
        _ => Ok(()),
    }
}

#[utoipa::path(
    post, path = "/v1/agents/stop", operation_id = "agent_stop", request_body = AgentQuery,
    responses((status = 200, body = Object), (status = 404, body = ErrorBody))
)]
pub(crate) async fn stop(
    State(daemon): State<Daemon>,
    Json(body): Json<AgentQuery>,
) -> Result<axum::Json<AgentRecord>, ErrorResponse> {
    let sandbox = found(&daemon, body.sandbox.as_deref(), body.folder).await?;
    daemon.keepers.agents.stop(&sandbox).await.map(axum::Json).map_err(ErrorResponse)
}

#[utoipa::path(
    post, path = "/v1/agents/resume", operation_id = "agent_resume", request_body = AgentQuery,
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn resume(
    State(daemon): State<Daemon>,
    Json(body): Json<AgentQuery>,
) -> Result<axum::Json<AgentRecord>, ErrorResponse> {
    let sandbox = found(&daemon, body.sandbox.as_deref(), body.folder).await?;
    let sandbox = sleep::awake(&daemon.keepers, sandbox.key).await.map_err(ErrorResponse)?;
    daemon.keepers.agents.resume(&sandbox).await.map(axum::Json).map_err(ErrorResponse)
}

#[utoipa::path(
    get, path = "/v1/agents/log", operation_id = "agent_log", params(AgentQuery),
    responses((status = 200, body = AgentLogView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn log(
    State(daemon): State<Daemon>,
    Query(query): Query<AgentQuery>,
) -> Result<axum::Json<AgentLogView>, ErrorResponse> {
    let sandbox = found(&daemon, query.sandbox.as_deref(), query.folder).await?;
    let (agent, bytes, file) = daemon.keepers.agents.log(&sandbox).await.map_err(ErrorResponse)?;
    let from = bytes.len().saturating_sub(LOG_SHOWN);
    let view = AgentLogView {
        sandbox: agent.sandbox,
        tool: agent.tool,
        text: visible_text(&bytes[from..]),
        cut: from > 0,
        file: file.map(|file| file.to_string_lossy().into_owned()),
    };
    Ok(axum::Json(view))
}

#[utoipa::path(
    post, path = "/v1/audit", operation_id = "audit_report", request_body = AuditBody,
    description = "Takes what a guard has judged; each call becomes a record of the run.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody))
)]
pub(crate) async fn report(
    State(daemon): State<Daemon>,
    Json(body): Json<AuditBody>,
) -> Result<axum::Json<serde_json::Value>, ErrorResponse> {
    let sandbox = found(&daemon, body.sandbox.as_deref(), body.folder).await?;
    let calls: Vec<_> = body.calls.into_iter().take(CALLS).collect();
    let count = calls.len();
    for call in calls {
        daemon.keepers.timelines.append(&sandbox, drafted(call));
    }
    Ok(axum::Json(serde_json::json!({ "recorded": count })))
}

fn drafted(call: AuditCall) -> Draft {
    let cut = |text: String| -> String { text.chars().take(TEXT).collect() };
    let body = bodies::AuditBody {
        agent: cut(call.agent),
        tool: cut(call.tool),
        target: cut(call.target),
        decision: call.decision.into(),
        severity: call.severity.into(),
        confidence: call.confidence.into(),
        reason: cut(call.reason),
        seen: None,
        input: cut(call.input),
        session: call.session.map(cut),
    };
    let summary: String =
        format!("{} {}: {}", body.decision, body.tool, body.target).chars().take(200).collect();
    Draft::of(HostClock.now(), summary, &body)
}

#[utoipa::path(
    get, path = "/v1/audit", operation_id = "audit", params(AuditQuery),
    description = "What the agents of a run said they would do, joined with what the room did.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody))
)]
pub(crate) async fn audit(
    State(daemon): State<Daemon>,
    Query(query): Query<AuditQuery>,
) -> Result<axum::Json<AuditReport>, ErrorResponse> {
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let made = blocking(move || {
        let all = engine.sandboxes()?;
        let sandbox = all
            .into_iter()
            .find(|sandbox| sandbox.room.as_ref().is_some_and(|room| room.run.id == place.run));
        agents::audit(
            &engine,
            &timelines,
            &AuditWish { place, sandbox, suspicious: query.suspicious },
        )
    });
    made.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/race", operation_id = "race", request_body = RaceBody,
    description = "Runs several agents on one task, each in its own sandbox from the same start, and judges them by the base's checks.",
    responses((status = 200, body = Object), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn race(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<RaceBody>,
) -> Result<axum::Json<RaceView>, ErrorResponse> {
    body.sandbox.as_deref().map(reference).transpose()?;
    let wish = RaceWish {
        sandbox: body.sandbox,
        folder: body.folder.into(),
        task: body.task,
        with: body.with,
        times: body.times,
        seconds: body.seconds,
        scenarios: body.scenarios,
        check: body.check,
        variables: Vec::new(),
    };
    // In a separate task: it continues without its client.
    let raced = tokio::spawn(async move { agents::race(&daemon.keepers, wish, id).await });
    let raced =
        raced.await.map_err(|error| ErrorResponse(Failure::of(FailureKind::Internal, &error)))?;
    raced.map(axum::Json).map_err(ErrorResponse)
}

#[utoipa::path(
    get, path = "/v1/race", operation_id = "race_result", params(RaceQuery),
    description = "How a race went, as it was told when it ended.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody))
)]
pub(crate) async fn race_result(
    State(daemon): State<Daemon>,
    Query(query): Query<RaceQuery>,
) -> Result<axum::Json<RaceView>, ErrorResponse> {
    let ended = daemon.keepers.agents.race_of(&query.race).unwrap_or_else(|| {
        let message = format!("no race `{}` has ended here", query.race);
        Err(Failure::new(FailureKind::NotFound, message))
    });
    ended.map(axum::Json).map_err(ErrorResponse)
}
