//! What a crash left behind.

use axum::{Json, extract::State};
use hothouse_api::doctor::Leftover;

use super::blocking;
use crate::{Door, failure::Refusal};

#[utoipa::path(get, path = "/v1/doctor", operation_id = "doctor_look", responses((status = 200, body = [Leftover])))]
pub(crate) async fn look(State(door): State<Door>) -> Result<Json<Vec<Leftover>>, Refusal> {
    let found = blocking(move || door.engine.leftovers()).await?;
    Ok(Json(found.into_iter().map(|found| view(found, false)).collect()))
}

#[utoipa::path(post, path = "/v1/doctor/fix", operation_id = "doctor_fix", responses((status = 200, body = [Leftover])))]
pub(crate) async fn fix(State(door): State<Door>) -> Result<Json<Vec<Leftover>>, Refusal> {
    let found = blocking(move || {
        let before = door.engine.leftovers()?;
        door.engine.fix_leftovers()?;
        let after = door.engine.leftovers()?;
        Ok(before.into_iter().map(|found| (!after.contains(&found), found)).collect::<Vec<_>>())
    })
    .await?;
    Ok(Json(found.into_iter().map(|(fixed, found)| view(found, fixed)).collect()))
}

fn view(found: hothouse_engine::Leftover, fixed: bool) -> Leftover {
    Leftover { what: found.what(), why: found.why(), fixed }
}
