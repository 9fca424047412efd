//! Scenarios, proofs, comparisons and summaries.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    proof::{
        CompareBody, FolderQuery, ProofView, ProveBody, ScenarioView, SmokeBody, SummaryBody,
        SummaryFiles, SummaryView,
    },
    sandbox::FindQuery,
    timeline::VerifyView,
};
use hothouse_evidence::{compare::Comparison, expected, summary::markdown};
use hothouse_model::{Failure, FailureKind, OperationId, SandboxRecord};
use hothouse_reconcile::{
    proofs::{self, Asker, CompareWish, Files, Judge, Proof, ProveWish},
    sleep,
};
use tokio::sync::watch;

use super::{
    Json, Operation, blocking,
    sandbox::reference,
    timeline::{place, verified},
};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/scenarios", operation_id = "scenario_list", params(FindQuery),
    responses((status = 200, body = [ScenarioView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn scenarios(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<ScenarioView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let config = daemon.engine.scenario_config(&sandbox)?;
        let shown = config.scenarios.iter().map(|(name, scenario)| ScenarioView {
            name: name.to_string(),
            about: scenario.about.as_ref().map(ToString::to_string),
            app: scenario.app.as_ref().map(ToString::to_string),
            path: scenario.path.to_string(),
            seed: scenario.seed.iter().map(ToString::to_string).collect(),
            auth: scenario.auth.as_ref().map(ToString::to_string),
            checks: expected::of(scenario).len(),
        });
        Ok(shown.collect())
    });
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/smoke", operation_id = "smoke", request_body = SmokeBody,
    description = "Carries out a scenario in a sandbox that is up; `ok` tells the outcome.",
    responses((status = 200, body = ProofView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn smoke(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<SmokeBody>,
) -> Result<axum::Json<ProofView>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox.as_deref(), body.folder).await?;
    let proof = asked(id, move |asker| async move {
        proofs::smoke(&daemon.keepers, &sandbox, &body.scenario, &asker).await
    });
    Ok(axum::Json(proof_view(proof.await?)))
}

#[utoipa::path(
    post, path = "/v1/prove", operation_id = "prove", request_body = ProveBody,
    description = "Carries out scenarios in fresh sandboxes of a commit, which are removed afterwards.",
    responses((status = 200, body = [ProofView]), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn prove(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<ProveBody>,
) -> Result<axum::Json<Vec<ProofView>>, ErrorResponse> {
    let wish = ProveWish {
        sandbox: body.sandbox.as_deref().map(reference).transpose()?,
        folder: body.folder.into(),
        scenarios: body.scenarios,
        dirty: body.dirty,
        times: body.times,
        judge: if body.judged_by_base { Judge::Base } else { Judge::Own },
        against_base: body.against_base,
    };
    let proofs =
        asked(id, move |asker| async move { proofs::prove(&daemon.keepers, wish, &asker).await });
    Ok(axum::Json(proofs.await?.into_iter().map(proof_view).collect()))
}

#[utoipa::path(
    post, path = "/v1/compare", operation_id = "compare", request_body = CompareBody,
    description = "Compares the first side with each of the others.",
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn compare(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<CompareBody>,
) -> Result<axum::Json<Comparison>, ErrorResponse> {
    let wish =
        CompareWish { sides: body.sides, folder: body.folder.into(), scenario: body.scenario };
    let compared =
        asked(id, move |asker| async move { proofs::compare(&daemon.keepers, wish, &asker).await });
    compared.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/summary", operation_id = "summary", request_body = SummaryBody,
    description = "Sums a run up, and writes the summary beside its timeline.",
    responses((status = 200, body = SummaryView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn summary(
    State(daemon): State<Daemon>,
    Json(body): Json<SummaryBody>,
) -> Result<axum::Json<SummaryView>, ErrorResponse> {
    let place = place(&daemon, body.run, body.sandbox.as_deref(), body.folder).await?;
    let made = blocking(move || {
        let all = daemon.engine.sandboxes()?;
        let of_run = |sandbox: &&SandboxRecord| {
            sandbox.room.as_ref().is_some_and(|room| room.run.id == place.run)
        };
        let sandbox = all.iter().find(of_run);
        let (summary, files) = proofs::summarize(&daemon.keepers, sandbox, &place)?;
        Ok(SummaryView { files: files_view(&files), markdown: markdown(&summary), summary })
    });
    made.await.map(axum::Json)
}

#[utoipa::path(
    get, path = "/v1/verify", operation_id = "verify_folder", params(FolderQuery),
    description = "Checks the folder of a run, also of another machine; `ok` tells the outcome.",
    responses((status = 200, body = VerifyView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn verify(
    Query(query): Query<FolderQuery>,
) -> Result<axum::Json<VerifyView>, ErrorResponse> {
    let path = PathBuf::from(query.path);
    if !path.is_absolute() {
        return Err(ErrorResponse(Failure::new(FailureKind::Usage, "the path must be absolute")));
    }
    let found = blocking(move || proofs::verify_folder(&path, query.head.as_deref())).await?;
    Ok(axum::Json(verified(found.chain.clone(), Some(found))))
}

/// Finds a sandbox, and wakes it if it is asleep.
async fn awake(
    daemon: &Daemon,
    sandbox: Option<&str>,
    folder: String,
) -> Result<SandboxRecord, ErrorResponse> {
    let wanted = sandbox.map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)
}

/// Signals, when dropped, that nobody waits for the result any longer.
struct Waiting(watch::Sender<bool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Runs work in a separate task: if the client disconnects, the work stops and cleans up by itself.
pub(super) async fn asked<T, F>(
    operation: OperationId,
    work: impl FnOnce(Asker) -> F,
) -> Result<T, ErrorResponse>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let (left_tx, left) = watch::channel(false);
    let _waiting = Waiting(left_tx);
    let done = tokio::spawn(work(Asker { operation, left })).await;
    let failed = |error| Err(Failure::of(FailureKind::Internal, &error));
    done.unwrap_or_else(failed).map_err(ErrorResponse)
}

fn proof_view(proof: Proof) -> ProofView {
    let Proof { outcome, summary, place, files } = proof;
    let flaky = outcome.flaky().into_iter().map(|(name, _)| name).collect();
    ProofView {
        ok: outcome.ok,
        run: place.run,
        verdict: summary.verdict,
        judged_by: outcome.judged_by,
        flaky,
        commit: outcome.commit,
        scenario: outcome.scenario,
        checks: outcome.checks,
        not_covered: summary.not_covered,
        changed_checks: summary.changed_checks,
        attempts: outcome.attempts,
        comparison: summary.comparison,
        failure: outcome.failure,
        took_ms: outcome.took_ms,
        artifacts: place.folder.to_string_lossy().into_owned(),
        summary: files_view(&files),
    }
}

fn files_view(files: &Files) -> SummaryFiles {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    SummaryFiles { md: text(&files.md), html: text(&files.html), json: text(&files.json) }
}
