//! Leftovers of a crash.

use std::path::PathBuf;

use axum::{
    Json,
    extract::{Query, State},
};
use hothouse_api::doctor::{DoctorQuery, Leftover};

use super::blocking;
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(get, path = "/v1/doctor", operation_id = "doctor_look", params(DoctorQuery), responses((status = 200, body = [Leftover])))]
pub(crate) async fn look(
    State(daemon): State<Daemon>,
    Query(query): Query<DoctorQuery>,
) -> Result<Json<Vec<Leftover>>, ErrorResponse> {
    let folder = query.folder.map(PathBuf::from);
    let found = blocking(move || daemon.engine.leftovers(folder.as_deref())).await?;
    Ok(Json(found.into_iter().map(|found| view(found, false)).collect()))
}

#[utoipa::path(post, path = "/v1/doctor/fix", operation_id = "doctor_fix", request_body = DoctorQuery, responses((status = 200, body = [Leftover])))]
pub(crate) async fn fix(
    State(daemon): State<Daemon>,
    Json(query): Json<DoctorQuery>,
) -> Result<Json<Vec<Leftover>>, ErrorResponse> {
    let folder = query.folder.map(PathBuf::from);
    let found = blocking(move || {
        let folder = folder.as_deref();
        let before = daemon.engine.leftovers(folder)?;
        daemon.engine.fix_leftovers(folder)?;
        let after = daemon.engine.leftovers(folder)?;
        Ok(before.into_iter().map(|found| (!after.contains(&found), found)).collect::<Vec<_>>())
    })
    .await?;
    Ok(Json(found.into_iter().map(|(fixed, found)| view(found, fixed)).collect()))
}

fn view(found: hothouse_engine::Leftover, fixed: bool) -> Leftover {
    Leftover { what: found.what(), why: found.why(), fixed }
}
