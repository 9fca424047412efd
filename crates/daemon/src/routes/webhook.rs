//! Webhooks to apps.

use std::{path::PathBuf, time::Duration};

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    webhook::{WebhookBody, WebhookView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, FailureKind};
use hothouse_reconcile::{
    sleep,
    webhooks::{Attempt, ByHand, Expected, holds, word},
};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// How long the first attempts may take, all together.
const PATIENCE: Duration = Duration::from_secs(120);

#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "webhook_send", request_body = WebhookBody,
    description = "Signs a webhook as its vendor does and delivers it to the app; returns the first attempts.",
    responses((status = 200, body = [WebhookView]), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn send(
    State(daemon): State<Daemon>,
    Json(body): Json<WebhookBody>,
) -> Result<axum::Json<Vec<WebhookView>>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(body.folder.clone()));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    // The services of a sandbox that sleeps are known when it is awake.
    let sandbox = sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)?;
    let webhooks = daemon.keepers.webhooks.clone();
    let sent = blocking(move || {
        let WebhookBody { what, payload, vendor, set, adversary, to, .. } = body;
        let by_hand = ByHand { what, payload, vendor, set, adversary, to };
        webhooks.send_by_hand(&sandbox, &by_hand, HostClock.now())
    })
    .await?;
    let mut views = Vec::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for (expected, attempt_rx) in sent {
        let attempt = tokio::time::timeout_at(deadline, attempt_rx).await;
        let attempt = attempt.ok().and_then(Result::ok).ok_or_else(unsettled)?;
        views.push(view(attempt, expected));
    }
    Ok(axum::Json(views))
}

fn unsettled() -> ErrorResponse {
    let failure = Failure::new(FailureKind::Backend, "the webhook was not delivered in time");
    ErrorResponse(failure.hint("`hothouse webhooks` lists what was delivered since"))
}

fn view(attempt: Attempt, expected: Expected) -> WebhookView {
    let ok = holds(expected, attempt.status);
    WebhookView {
        id: attempt.id,
        time: attempt.time,
        fixture: attempt.fixture,
        vendor: attempt.vendor,
        kind: attempt.kind,
        to: attempt.to,
        status: attempt.status,
        attempt: attempt.attempt,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        adversary: attempt.adversary.map(str::to_owned),
        error: attempt.error,
        expected: word(expected).to_owned(),
        ok,
    }
}
