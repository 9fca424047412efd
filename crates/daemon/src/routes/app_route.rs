//! The routes of apps.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    routes::{RouteView, RoutesQuery},
};

use hothouse_model::routes::told;

use super::{blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/routes", operation_id = "route_list", params(RoutesQuery),
    responses((status = 200, body = [RouteView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<RoutesQuery>,
) -> Result<axum::Json<Vec<RouteView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let (engine, app) = (daemon.engine.clone(), query.app.clone());
    let (sandbox, mut routes) = blocking(move || {
        let sandbox = engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let routes = engine.routes(&sandbox, app.as_deref())?;
        Ok((sandbox, routes))
    })
    .await?;
    if query.ask {
        let asked =
            hothouse_reconcile::routes::ask(&daemon.keepers, &sandbox, query.app.as_deref());
        told::merge(&mut routes, asked.await.map_err(ErrorResponse)?);
    }
    let view = |route: hothouse_model::routes::Route| RouteView {
        app: route.app,
        path: route.path,
        methods: route.methods,
        source: route.source,
    };
    Ok(axum::Json(routes.into_iter().map(view).collect()))
}
