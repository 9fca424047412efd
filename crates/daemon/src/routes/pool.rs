//! Pools.

use axum::extract::State;
use hothouse_api::{ErrorBody, PoolView, pool::PoolBody};
use hothouse_engine::{Pool, PoolSpec};
use hothouse_model::config::ByteSize;

use super::{Json, Operation, blocking, sandbox::already};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(get, path = "/v1/pools", operation_id = "pool_list", responses((status = 200, body = [PoolView])))]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
) -> Result<axum::Json<Vec<PoolView>>, ErrorResponse> {
    let pools = blocking(move || daemon.engine.pools()).await?;
    Ok(axum::Json(pools.into_iter().map(view).collect()))
}

#[utoipa::path(
    post, path = "/v1/pools", operation_id = "pool_create", request_body = PoolBody,
    responses((status = 200, body = PoolView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn create(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<PoolBody>,
) -> Result<axum::Json<PoolView>, ErrorResponse> {
    let known = already(&daemon, &id).await?;
    let spec = PoolSpec {
        folder: body.folder.into(),
        size: body.size.map(ByteSize::from_bytes),
        variables: body.variables.into_iter().collect(),
    };
    let made = blocking(move || match known {
        true => daemon.engine.pool_of(&spec),
        false => daemon.engine.create_pool(&spec, id),
    });
    Ok(axum::Json(view(made.await?)))
}

fn view(pool: Pool) -> PoolView {
    PoolView {
        folder: pool.folder.display().to_string(),
        image: pool.image.display().to_string(),
        mounted: pool.free.is_some(),
        size: pool.size,
        used: pool.used,
        free: pool.free,
    }
}
