//! Files of a run.

use std::path::{Component, Path, PathBuf};

use axum::extract::{Query, State};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_api::{
    ErrorBody,
    timeline::{ArtifactQuery, ArtifactView},
};
use hothouse_host::beneath::Folder;
use hothouse_model::{Explain, Failure, FailureKind};

use hothouse_reconcile::webhooks::listen::PRIVATE;

use super::{blocking, timeline::place};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum size of a file.
const LIMIT: u64 = 16 << 20;

#[utoipa::path(
    get, path = "/v1/artifacts", operation_id = "artifact", params(ArtifactQuery),
    description = "Returns one file of a run, such as a mail or a screenshot.",
    responses((status = 200, body = ArtifactView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn one(
    State(daemon): State<Daemon>,
    Query(query): Query<ArtifactQuery>,
) -> Result<axum::Json<ArtifactView>, ErrorResponse> {
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let read = blocking(move || {
        let file = relative(&place.folder, &query.file)?;
        let folder = Folder::open(&place.folder).map_err(|error| error.failure())?;
        let bytes = folder.read_capped(&file, LIMIT).map_err(|_| missing(&query.file))?;
        let file = file.to_string_lossy().into_owned();
        Ok(ArtifactView { file, base64: STANDARD.encode(bytes) })
    });
    read.await.map(axum::Json)
}

/// Returns the path of a file relative to the run's folder; fails for a path outside of it and for a private one.
fn relative(folder: &Path, file: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(file);
    let path = path.strip_prefix(folder).unwrap_or(path);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    match is_plain && !path.as_os_str().is_empty() && !path.starts_with(PRIVATE) {
        true => Ok(path.to_owned()),
        false => Err(missing(file)),
    }
}

fn missing(file: &str) -> Failure {
    let shown: String = file.chars().take(200).collect();
    Failure::new(FailureKind::NotFound, format!("the run has no file `{shown}`"))
        .hint("`hothouse emails --json` and others name the files of their records")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_of_the_run_are_meant() {
        let of = |file: &str| relative(Path::new("/state/runs/a"), file).ok();
        assert_eq!(of("mail/1.eml"), Some("mail/1.eml".into()));
        assert_eq!(of("/state/runs/a/mail/1.eml"), Some("mail/1.eml".into()));
        for bad in [
            "",
            "/etc/passwd",
            "../b/env.sh",
            "mail/../../b/env.sh",
            "/state/runs/a/../b/env.sh",
            "/state/runs/ab/env.sh",
            "/state/runs/a",
            "./x",
            "private/webhook-secret-stripe",
            "/state/runs/a/private/webhook-secret-stripe",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
