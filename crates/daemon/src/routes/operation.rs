//! The outcome of an operation.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, State},
};
use hothouse_api::{ErrorBody, OperationView};
use hothouse_model::{Failure, FailureKind, OperationId};
use hothouse_store::{Outcome, PlanRecord};

use super::blocking;
use crate::{
    Daemon,
    failure::{ErrorResponse, usage},
    view,
};

#[utoipa::path(
    get, path = "/v1/operations/{id}", operation_id = "operation_wait", params(("id" = String, Path)),
    description = "Waits until the operation has ended, then returns its outcome.",
    responses((status = 200, body = OperationView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn wait(
    State(daemon): State<Daemon>,
    Path(id): Path<String>,
) -> Result<Json<OperationView>, ErrorResponse> {
    let id: OperationId = id.parse().map_err(|error| usage(&error))?;
    match ended(&daemon, &id).await? {
        Some(plan) => Ok(Json(view::operation(plan))),
        None => Err(Failure::new(FailureKind::NotFound, format!("no operation `{id}`")).into()),
    }
}

/// Waits until an operation has ended; `None` if it was never started.
pub(crate) async fn ended(
    daemon: &Daemon,
    id: &OperationId,
) -> Result<Option<PlanRecord>, ErrorResponse> {
    let mut event_rx = daemon.event_tx.subscribe();
    loop {
        let (engine, id) = (daemon.engine.clone(), id.clone());
        let plan = blocking(move || engine.operation(&id)).await?;
        match plan {
            Some(plan) if plan.outcome == Outcome::Open => {}
            over => return Ok(over),
        }
        // Any event is a reason to check again; the timer covers missed events.
        tokio::time::timeout(Duration::from_secs(1), event_rx.recv()).await.ok();
    }
}
