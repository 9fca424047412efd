//! Feature flags of a sandbox.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    flag::{FlagBody, FlagQuery, FlagView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::flag::{Flag, FlagSet};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/flags", operation_id = "flag_list", params(FlagQuery),
    responses((status = 200, body = [FlagView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<FlagQuery>,
) -> Result<axum::Json<Vec<FlagView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let found = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        Ok(views(&daemon.keepers.flags.of(&sandbox)))
    });
    found.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/flags", operation_id = "flag_set", request_body = FlagBody,
    description = "Pins a flag for the run that the sandbox is in, or lets it go; returns all flags.",
    responses((status = 200, body = [FlagView]), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn set(
    State(daemon): State<Daemon>,
    Json(body): Json<FlagBody>,
) -> Result<axum::Json<Vec<FlagView>>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let set = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(body.folder))?;
        let value = (!body.unset).then_some(body.value);
        daemon.keepers.flags.pin(&sandbox, &body.key, value, HostClock.now())
    });
    let set = set.await?;
    Ok(axum::Json(views(&set)))
}

/// Converts flags, ordered by key.
pub(crate) fn views(set: &FlagSet) -> Vec<FlagView> {
    let view = |(key, flag): (&String, &Flag)| {
        let Flag { value, default, pinned } = flag.clone();
        FlagView { key: key.clone(), value, default, pinned }
    };
    set.iter().map(view).collect()
}
