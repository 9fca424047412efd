//! Secrets.

use std::path::Path;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    secret::{SecretBody, SecretQuery, SecretRemoveBody, SecretView},
};
use hothouse_engine::{Engine, SecretLine, SecretSpec};
use hothouse_model::{
    Failure, FailureKind,
    reach::Reach,
    record::bodies::{PolicyAction, PolicyArea},
    secret::Origin,
};

use super::{
    Json, blocking,
    decision::{self, Concerned},
};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/secrets", operation_id = "secret_list", params(SecretQuery),
    description = "Lists the secrets of the project around a folder, and those for every project.",
    responses((status = 200, body = [SecretView]))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<SecretQuery>,
) -> Result<axum::Json<Vec<SecretView>>, ErrorResponse> {
    let lines = blocking(move || daemon.engine.secrets(Path::new(&query.folder))).await?;
    Ok(axum::Json(lines.into_iter().map(view).collect()))
}

#[utoipa::path(
    post, path = "/v1/secrets", operation_id = "secret_set", request_body = SecretBody,
    responses((status = 200, body = SecretView), (status = 400, body = ErrorBody))
)]
pub(crate) async fn set(
    State(daemon): State<Daemon>,
    Json(body): Json<SecretBody>,
) -> Result<axum::Json<SecretView>, ErrorResponse> {
    let spec = SecretSpec {
        name: parsed("the name", &body.name)?,
        folder: body.folder.into(),
        source: body.from.as_deref().map(|text| parsed("--from", text)).transpose()?,
        value: body.value.map(|value| value.0),
        everywhere: body.everywhere,
        hosts: body.hosts.iter().map(|text| parsed("--host", text)).collect::<Result<_, _>>()?,
    };
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let set = blocking(move || {
        let (folder, everywhere) = (spec.folder.clone(), spec.everywhere);
        let set = engine.set_secret(spec)?;
        let decided = (PolicyArea::Secret, set.name.as_str(), PolicyAction::Set);
        decision::note(&engine, &timelines, &concerned(&engine, &folder, everywhere), decided);
        Ok(set)
    });
    let set = set.await?;
    daemon.keepers.renew_walls().await;
    Ok(axum::Json(view(set)))
}

#[utoipa::path(
    post, path = "/v1/secrets/remove", operation_id = "secret_remove", request_body = SecretRemoveBody,
    responses((status = 200), (status = 404, body = ErrorBody))
)]
pub(crate) async fn remove(
    State(daemon): State<Daemon>,
    Json(body): Json<SecretRemoveBody>,
) -> Result<axum::Json<()>, ErrorResponse> {
    let name = parsed("the name", &body.name)?;
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let removed = blocking(move || {
        let folder = Path::new(&body.folder);
        engine.remove_secret(folder, &name, body.everywhere)?;
        let decided = (PolicyArea::Secret, name.as_str(), PolicyAction::Removed);
        decision::note(&engine, &timelines, &concerned(&engine, folder, body.everywhere), decided);
        Ok(())
    });
    removed.await?;
    daemon.keepers.renew_walls().await;
    Ok(axum::Json(()))
}

/// Returns which runs a secret set in a folder affects.
fn concerned(engine: &Engine, folder: &Path, everywhere: bool) -> Concerned {
    match engine.project_folder(folder).filter(|_| !everywhere) {
        Some(project) => Concerned::Project(project),
        None => Concerned::Everybody,
    }
}

/// Parses a user's value; the error shows no more of it than its type allows.
fn parsed<T>(what: &str, text: &str) -> Result<T, ErrorResponse>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let wrong = |error| {
        Failure::new(FailureKind::Usage, format!("{what} {error}"))
            .hint("such as `hothouse secret set API_TOKEN --from env:NAME --host api.example.com`")
    };
    text.parse().map_err(|error| ErrorResponse(wrong(error)))
}

fn view(line: SecretLine) -> SecretView {
    SecretView {
        name: line.name.to_string(),
        scope: if line.everywhere { Reach::Everywhere } else { Reach::Project },
        source: Origin::from(&line.source),
        hosts: line.hosts.iter().map(ToString::to_string).collect(),
        set: line.set,
        declared: line.declared,
        missing: line.missing,
    }
}
