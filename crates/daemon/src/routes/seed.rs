//! Seeds.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody, SandboxView,
    sandbox::FindQuery,
    seed::{BundleView, SeedRequest, SeedSnapshotView, SeedsView},
};
use hothouse_model::{
    Failure, OperationId, SandboxRecord,
    seed::{BundleState, SeedSnapshotState, SeedSummary, radii},
};
use hothouse_reconcile::{SeedWish, sleep};

use super::{Json, Operation, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse, view};

#[utoipa::path(
    get, path = "/v1/seeds", operation_id = "seed_list", params(FindQuery),
    responses((status = 200, body = SeedsView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<SeedsView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let config = daemon.engine.seed_config(&sandbox)?;
        let state = daemon.engine.seed_files(&sandbox)?.state;
        let bundles = config.seed.bundles.iter().map(|(name, bundle)| {
            let key = config.keys.get(name).map_or("", String::as_str);
            let state = state.of(name.as_str(), key);
            BundleView {
                name: name.to_string(),
                needs: bundle.needs.iter().map(ToString::to_string).collect(),
                state,
                why: (state == BundleState::Stale).then(|| STALE.to_owned()),
            }
        });
        let snapshots =
            daemon.engine.seed_snapshots(&sandbox)?.into_iter().map(|one| SeedSnapshotView {
                key: one.key,
                profile: one.manifest.profile,
                bundles: one.manifest.bundles,
                created: one.manifest.created,
                state: match one.outdated {
                    Some(_) => SeedSnapshotState::Stale,
                    None => SeedSnapshotState::Usable,
                },
                why: one.outdated,
            });
        Ok(SeedsView {
            bundles: bundles.collect(),
            radii: radii(&config.seed),
            snapshots: snapshots.collect(),
        })
    });
    listed.await.map(axum::Json)
}

const STALE: &str = "it, what it needs or a file that it names has changed since it was seeded";

#[utoipa::path(
    post, path = "/v1/seeds", operation_id = "seed", request_body = SeedRequest,
    description = "Seeds a sandbox that is up; returns what its run was seeded with.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 412, body = ErrorBody))
)]
pub(crate) async fn seed(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<SeedRequest>,
) -> Result<axum::Json<SeedSummary>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(body.folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    let sandbox = sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)?;
    let wish = SeedWish { names: body.names, again: true };
    let summary = perform(&daemon, &sandbox, wish, id).await;
    describe(&daemon, sandbox).await?;
    Ok(axum::Json(summary?))
}

/// Seeds what `up` requested, or else the profile's seeds, and returns the sandbox as it is then.
pub(super) async fn after_up(
    daemon: &Daemon,
    find: FindQuery,
    names: Vec<String>,
    id: &OperationId,
    shown: axum::Json<SandboxView>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let wanted = find.sandbox.as_deref().map(reference).transpose()?;
    let (all, profile, asked) = (daemon.clone(), shown.profile.clone(), names);
    let (sandbox, names) = blocking(move || {
        let sandbox = all.engine.find(wanted.as_ref(), &PathBuf::from(find.folder))?;
        all.keepers.seeds.carry(&sandbox);
        let names = match asked.is_empty() {
            true => all.engine.profile_seed(&sandbox, &profile)?,
            false => asked,
        };
        Ok((sandbox, names))
    })
    .await?;
    if names.is_empty() {
        daemon.keepers.seeds.keep_migrated(&sandbox).await;
        return match shown.run.as_ref().is_some_and(|run| run.seed.is_some()) {
            true => Ok(shown),
            false => describe(daemon, sandbox).await.map(axum::Json),
        };
    }
    let seeded = perform(daemon, &sandbox, SeedWish { names, again: false }, id.clone()).await;
    let shown = describe(daemon, sandbox).await?;
    seeded.map(|_| axum::Json(shown))
}

/// Seeds in a separate task: it continues if the client disconnects.
async fn perform(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    wish: SeedWish,
    id: OperationId,
) -> Result<SeedSummary, ErrorResponse> {
    let (seeds, sandbox) = (daemon.keepers.seeds.clone(), sandbox.clone());
    let _used = daemon.keepers.activities.of(sandbox.key).enter();
    let done = tokio::spawn(async move { seeds.seed(&sandbox, &wish, &id).await }).await;
    let failed = |error| Err(Failure::of(hothouse_model::FailureKind::Internal, &error));
    done.unwrap_or_else(failed).map_err(ErrorResponse)
}

/// Rewrites the metadata of a run, and returns the sandbox.
async fn describe(daemon: &Daemon, sandbox: SandboxRecord) -> Result<SandboxView, ErrorResponse> {
    let daemon = daemon.clone();
    blocking(move || {
        if let Err(failure) = daemon.engine.write_metadata(&sandbox, daemon.keepers.url_port()) {
            tracing::warn!(?failure, "metadata of the run was not written");
        }
        Ok(view::sandbox(&daemon, sandbox))
    })
    .await
}
