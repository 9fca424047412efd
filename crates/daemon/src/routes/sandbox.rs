//! Sandboxes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody, SandboxView,
    sandbox::{
        DeleteBody, DeletedView, FindQuery, ForkBody, SetupBody, SetupView, UpBody, WantedSetup,
    },
};
use hothouse_config::in_words;
use hothouse_edge::ledger;
use hothouse_engine::{Engine, ForkSpec, Losses, RemoteRepository, SetupOutcome, UpSpec};
use hothouse_model::{
    Failure, FailureKind, OperationId, SandboxRecord, SandboxRef,
    caveat::{Caveat, Several},
    ledger::LedgerRecord,
};
use hothouse_store::Outcome;

use super::{Json, Operation, blocking, operation, seed, service::START_TIMEOUT};
use crate::{
    Daemon,
    failure::{ErrorResponse, usage},
    room_api::Shown,
    view,
};

#[utoipa::path(get, path = "/v1/sandboxes", operation_id = "sandbox_list", responses((status = 200, body = [SandboxView])))]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    shown: Shown,
) -> Result<axum::Json<Vec<SandboxView>>, ErrorResponse> {
    let all = blocking(move || {
        let all = daemon.engine.sandboxes()?.into_iter();
        let all = all.filter(|sandbox| shown.includes(sandbox.key));
        Ok(all.map(|sandbox| view::sandbox(&daemon, sandbox)).collect())
    })
    .await?;
    Ok(axum::Json(all))
}

#[utoipa::path(
    get, path = "/v1/sandboxes/find", operation_id = "sandbox_find", params(FindQuery),
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn find(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let found = blocking(move || {
        let found = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        Ok(view::sandbox(&daemon, found))
    });
    found.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/sandboxes", operation_id = "sandbox_fork", request_body = ForkBody,
    responses((status = 200, body = SandboxView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn fork(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<ForkBody>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let spec = ForkSpec {
        name: body.name.parse().map_err(|error| usage(&error))?,
        folder: body.folder.into(),
        base: body.base,
        branch: body.branch,
        task: body.task,
        context: body.context,
        from: body.from.as_deref().map(str::parse).transpose().map_err(|error| usage(&error))?,
        repository: body.repository.map(|url| RemoteRepository {
            url,
            environment: body.environment.into_iter().collect(),
        }),
        tree: body.tree,
        stack: body.stack,
        setup: body.setup,
        variables: body.variables.into_iter().collect(),
    };
    if already(&daemon, &id).await? {
        let wanted = SandboxRef { project: None, name: spec.name };
        let found = blocking(move || {
            let found = daemon.engine.find(Some(&wanted), &spec.folder)?;
            Ok(view::sandbox(&daemon, found))
        });
        return found.await.map(axum::Json);
    }
    let made = blocking(move || {
        let made = daemon.engine.fork(&spec, id)?;
        // This takes seconds for the first room of a host, so it begins before anyone waits for it.
        let engine = daemon.engine.clone();
        tokio::task::spawn_blocking(move || engine.prepare_rooms());
        Ok(view::sandbox(&daemon, made))
    });
    made.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/sandboxes/up", operation_id = "sandbox_up", request_body = UpBody,
    description = "Starts the room; a room that is already up is left alone.",
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn up(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<UpBody>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    to_its_end(bring_up(daemon, id, body)).await
}

/// Completes work even if the client disconnects: a start that was interrupted at the terminal still finishes.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ErrorResponse>> + Send + 'static,
) -> Result<T, ErrorResponse> {
    let done = tokio::spawn(work).await;
    done.map_err(|error| ErrorResponse(Failure::of(FailureKind::Internal, &error)))?
}

async fn bring_up(
    daemon: Daemon,
    id: OperationId,
    body: UpBody,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    already(&daemon, &id).await?;
    if body.sandbox.is_none() {
        let (engine, folder) = (daemon.engine.clone(), PathBuf::from(&body.folder));
        blocking(move || engine.adopt_around(&folder)).await?;
    }
    let spec = UpSpec {
        ttl: body.ttl_seconds.map(Duration::from_secs),
        profile: body.profile,
        reuse: body.reuse,
        restrict: body.restrict_domains,
        seed: body.seed.clone(),
        only_running: body.only_running,
        measured: false,
    };
    let timeout = body.timeout_seconds.map(Duration::from_secs);
    let find = FindQuery { sandbox: body.sandbox, folder: body.folder };
    let seeding = (!body.no_wait).then(|| (find.clone(), body.seed, id.clone()));
    let (activities, all) = (daemon.keepers.activities.clone(), daemon.clone());
    let shown = act(daemon, find, move |engine, sandbox| {
        // Meanwhile, clients of its ports wait for the services.
        let stands = engine.room_of(sandbox).is_some();
        let _starting = (!stands).then(|| activities.of(sandbox.key).begin_starting());
        engine
            .up(sandbox, &spec, id.clone())
            .map_err(|failure| with_pending(engine, sandbox, failure))?;
        if body.no_wait {
            return Ok(());
        }
        let now = engine.sandbox(sandbox.key)?;
        let sandbox = now.as_ref().unwrap_or(sandbox);
        let awaited = match timeout {
            Some(timeout) => engine.await_services(sandbox, timeout, &id),
            None => engine.await_tasks_and_services(sandbox, START_TIMEOUT, &id),
        };
        awaited
            .map_err(|failure| with_denials(engine, sandbox, failure))
            .map_err(|failure| with_pending(engine, sandbox, failure))
            .map_err(|failure| with_tools(engine, sandbox, failure))
    })
    .await?;
    match seeding {
        None => Ok(shown),
        Some((find, names, id)) => seed::after_up(&all, find, names, &id, shown).await,
    }
}

/// Adds programs that the room does not show to a failed start, since they are often the reason.
fn with_tools(engine: &Engine, sandbox: &SandboxRecord, failure: Failure) -> Failure {
    let wall = engine.wall_of(&engine.places(sandbox).runtime);
    let outside = wall.caveats.iter().filter(|c| matches!(c, Caveat::ToolOutside { .. }));
    outside.fold(failure, |failure, caveat| failure.hint(caveat.to_string()))
}

/// Adds denied connections of this run to a failed start, since they are often the reason.
fn with_denials(engine: &Engine, sandbox: &SandboxRecord, failure: Failure) -> Failure {
    let Some(room) = &sandbox.room else { return failure };
    let denied = |record: &LedgerRecord| !record.allowed && record.time >= room.run.started;
    let count = ledger::read(&engine.ledger_of(sandbox)).iter().filter(|r| denied(r)).count();
    let told = match count {
        0 => return failure,
        1 => "a connection of the room was denied".to_owned(),
        count => format!("{count} connections of the room were denied"),
    };
    failure.hint(format!("{told}: `hothouse egress log --denied -w {}` shows why", sandbox.name))
}

/// Adds the unapproved settings of the worktree's config to a failed start.
fn with_pending(engine: &Engine, sandbox: &SandboxRecord, failure: Failure) -> Failure {
    let pending = engine.pending_config(sandbox).map(|pending| in_words(&pending.changes));
    match Several::of(pending.unwrap_or_default()) {
        Some(changes) => failure.hint(format!(
            "the worktree's hothouse.toml asks for what is not approved: {changes}; `hothouse config approve -w {}` applies it",
            sandbox.name
        )),
        None => failure,
    }
}

#[utoipa::path(
    post, path = "/v1/sandboxes/down", operation_id = "sandbox_down", request_body = FindQuery,
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn down(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(query): Json<FindQuery>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    already(&daemon, &id).await?;
    act(daemon, query, |engine, sandbox| engine.down(sandbox, id)).await
}

#[utoipa::path(
    post, path = "/v1/sandboxes/pause", operation_id = "sandbox_pause", request_body = FindQuery,
    responses((status = 200, body = SandboxView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn pause(
    State(daemon): State<Daemon>,
    Json(query): Json<FindQuery>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    act(daemon, query, |engine, sandbox| engine.pause(sandbox)).await
}

#[utoipa::path(
    post, path = "/v1/sandboxes/resume", operation_id = "sandbox_resume", request_body = FindQuery,
    responses((status = 200, body = SandboxView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn resume(
    State(daemon): State<Daemon>,
    Json(query): Json<FindQuery>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    act(daemon, query, |engine, sandbox| engine.resume_room(sandbox)).await
}

/// Finds a sandbox, performs an action on it, and returns its new state.
pub(super) async fn act(
    daemon: Daemon,
    query: FindQuery,
    action: impl FnOnce(&Engine, &SandboxRecord) -> Result<(), Failure> + Send + 'static,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    to_its_end(act_on(daemon, query, action)).await
}

async fn act_on(
    daemon: Daemon,
    query: FindQuery,
    action: impl FnOnce(&Engine, &SandboxRecord) -> Result<(), Failure> + Send + 'static,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let (done, now) = blocking({
        let daemon = daemon.clone();
        move || {
            let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
            let done = action(&daemon.engine, &sandbox);
            let now = daemon.engine.sandbox(sandbox.key)?.unwrap_or(sandbox);
            Ok((done, now))
        }
    })
    .await?;
    // Also after a failure: services that started before it are reachable.
    daemon.keepers.refresh_urls_of(&now).await;
    let shown = blocking(move || {
        if let Err(failure) = daemon.engine.write_metadata(&now, daemon.keepers.url_port()) {
            tracing::warn!(?failure, "metadata of the run was not written");
        }
        write_flags(&daemon, &now);
        done.map(|()| view::sandbox(&daemon, now))
    });
    shown.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/sandboxes/delete", operation_id = "sandbox_delete", request_body = DeleteBody,
    responses((status = 200, body = DeletedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<DeleteBody>,
) -> Result<axum::Json<DeletedView>, ErrorResponse> {
    let wanted = reference(&body.sandbox)?;
    if already(&daemon, &id).await? {
        let deleted = vec![body.sandbox];
        return Ok(axum::Json(DeletedView { deleted, branches: Vec::new(), until: None }));
    }
    let keepers = daemon.keepers.clone();
    let deleted = blocking(move || {
        let sandbox = daemon.engine.find(Some(&wanted), &PathBuf::from(body.folder))?;
        let losses = if body.force { Losses::Accepted } else { Losses::Refused };
        // The logs of its services are deleted with it; those of its run stay.
        daemon.keepers.timelines.follow_logs(std::slice::from_ref(&sandbox));
        write_flags(&daemon, &sandbox);
        match body.now {
            true => daemon.engine.delete_now(&sandbox, losses, id)?,
            false => daemon.engine.delete(&sandbox, losses, id)?,
        }
        empty_trash(&daemon, &sandbox.sandboxes);
        let dropped = body.branch && daemon.engine.drop_merged_branch(&sandbox)?;
        let kept = daemon.engine.kept_of(&sandbox)?;
        Ok((sandbox, dropped, kept.map(|kept| kept.expires)))
    })
    .await?;
    // Its ports are free immediately.
    keepers.refresh_urls().await;
    let (sandbox, dropped, until) = deleted;
    let mut gone = DeletedView { until, ..gone(&[sandbox]) };
    if dropped {
        gone.branches.clear();
    }
    Ok(axum::Json(gone))
}

#[utoipa::path(
    post, path = "/v1/sandboxes/setup", operation_id = "sandbox_setup", request_body = SetupBody,
    description = "Keeps what the install of a new sandbox made, for forks with the same inputs.",
    responses((status = 200, body = SetupView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn setup(
    State(daemon): State<Daemon>,
    Json(body): Json<SetupBody>,
) -> Result<axum::Json<SetupView>, ErrorResponse> {
    let wanted = reference(&body.sandbox)?;
    let kept = blocking(move || {
        let sandbox = daemon.engine.find(Some(&wanted), &PathBuf::from(body.folder))?;
        daemon.engine.keep_setup(&sandbox, &body.command)
    });
    Ok(axum::Json(match kept.await? {
        SetupOutcome::Kept => SetupView { kept: true, reason: None },
        SetupOutcome::NotKept(reason) => SetupView { kept: false, reason: Some(reason) },
    }))
}

#[utoipa::path(
    get, path = "/v1/sandboxes/setup", operation_id = "sandbox_wanted_setup", params(FindQuery),
    description = "Returns the install that is to run before a new sandbox starts, if its result can be kept.",
    responses((status = 200, body = WantedSetup), (status = 404, body = ErrorBody))
)]
pub(crate) async fn wanted_setup(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<WantedSetup>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let command = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        daemon.engine.wanted_setup(&sandbox)
    });
    Ok(axum::Json(WantedSetup { command: command.await? }))
}

/// Writes the flags of a run to its artifacts.
fn write_flags(daemon: &Daemon, sandbox: &SandboxRecord) {
    if let Err(failure) = daemon.keepers.flags.write_down(sandbox) {
        tracing::warn!(?failure, "the flags of the run were not written");
    }
}

/// Removes the files of a deleted sandbox in the background.
pub(super) fn empty_trash(daemon: &Daemon, sandboxes: &Path) {
    let (engine, folder) = (daemon.engine.clone(), sandboxes.to_owned());
    std::thread::spawn(move || {
        if let Err(failure) = engine.empty_trash(&folder) {
            tracing::warn!(?failure, "the trash could not be emptied");
        }
    });
}

#[utoipa::path(post, path = "/v1/nuke", operation_id = "nuke", responses((status = 200, body = DeletedView)))]
pub(crate) async fn nuke(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
) -> Result<axum::Json<DeletedView>, ErrorResponse> {
    if already(&daemon, &id).await? {
        return Ok(axum::Json(gone(&[])));
    }
    let deleted = blocking(move || daemon.engine.nuke(id)).await?;
    Ok(axum::Json(gone(&deleted)))
}

/// Whether this operation was already done; one that failed returns the same failure again.
pub(super) async fn already(daemon: &Daemon, id: &OperationId) -> Result<bool, ErrorResponse> {
    match operation::ended(daemon, id).await?.map(|plan| plan.outcome) {
        None => Ok(false),
        Some(Outcome::Undone(failure) | Outcome::Failed(failure)) => Err(ErrorResponse(failure)),
        Some(Outcome::Done | Outcome::Open) => Ok(true),
    }
}

pub(super) fn reference(text: &str) -> Result<SandboxRef, ErrorResponse> {
    text.parse().map_err(|error| {
        let ErrorResponse(failure) = usage(&error);
        ErrorResponse(Failure::hint(failure, "`hothouse list` shows their names"))
    })
}

fn gone(sandboxes: &[SandboxRecord]) -> DeletedView {
    DeletedView {
        deleted: sandboxes.iter().map(|s| format!("{}/{}", s.project, s.name)).collect(),
        branches: sandboxes.iter().map(|s| s.branch.clone()).collect(),
        until: None,
    }
}
