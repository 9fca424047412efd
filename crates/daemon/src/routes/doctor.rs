//! What a crash left behind.

use std::path::PathBuf;

use axum::{
    Json,
    extract::{Query, State},
};
use hothouse_api::doctor::{DoctorQuery, Leftover};

use super::blocking;
use crate::{Door, failure::Refusal};

#[utoipa::path(get, path = "/v1/doctor", operation_id = "doctor_look", params(DoctorQuery), responses((status = 200, body = [Leftover])))]
pub(crate) async fn look(
    State(door): State<Door>,
    Query(query): Query<DoctorQuery>,
) -> Result<Json<Vec<Leftover>>, Refusal> {
    let folder = query.folder.map(PathBuf::from);
    let found = blocking(move || door.engine.leftovers(folder.as_deref())).await?;
    Ok(Json(found.into_iter().map(|found| view(found, false)).collect()))
}

#[utoipa::path(post, path = "/v1/doctor/fix", operation_id = "doctor_fix", request_body = DoctorQuery, responses((status = 200, body = [Leftover])))]
pub(crate) async fn fix(
    State(door): State<Door>,
    Json(query): Json<DoctorQuery>,
) -> Result<Json<Vec<Leftover>>, Refusal> {
    let folder = query.folder.map(PathBuf::from);
    let found = blocking(move || {
        let folder = folder.as_deref();
        let before = door.engine.leftovers(folder)?;
        door.engine.fix_leftovers(folder)?;
        let after = door.engine.leftovers(folder)?;
        Ok(before.into_iter().map(|found| (!after.contains(&found), found)).collect::<Vec<_>>())
    })
    .await?;
    Ok(Json(found.into_iter().map(|(fixed, found)| view(found, fixed)).collect()))
}

fn view(found: hothouse_engine::Leftover, fixed: bool) -> Leftover {
    Leftover { what: found.what(), why: found.why(), fixed }
}
