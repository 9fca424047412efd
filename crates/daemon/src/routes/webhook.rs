//! Webhooks to apps.

use std::{path::PathBuf, time::Duration};

use axum::extract::{DefaultBodyLimit, State};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_api::{
    ErrorBody,
    webhook::{ForwardBody, ForwardView, ListenBody, ListenView, WebhookBody, WebhookView},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, FailureKind, SandboxRecord};
use hothouse_reconcile::{
    sleep,
    webhooks::{
        Attempt, ByHand, Expected, holds,
        listen::{self, Forwarded, Listen, Taken},
    },
};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// The time limit for all first attempts together.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the body limit: payloads of 4 MiB, as text or base64.
pub(crate) fn limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(8 << 20)
}

#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "webhook_send", request_body = WebhookBody,
    description = "Signs a webhook as its vendor does and delivers it to the app; returns the first attempts.",
    responses((status = 200, body = [WebhookView]), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn send(
    State(daemon): State<Daemon>,
    Json(body): Json<WebhookBody>,
) -> Result<axum::Json<Vec<WebhookView>>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox.as_deref(), &body.folder).await?;
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

/// Finds a sandbox and wakes it: its services are known only then.
async fn awake(
    daemon: &Daemon,
    sandbox: Option<&str>,
    folder: &str,
) -> Result<SandboxRecord, ErrorResponse> {
    let wanted = sandbox.map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)
}

#[utoipa::path(
    post, path = "/v1/webhooks/listen", operation_id = "webhook_listen", request_body = ListenBody,
    description = "Prepares a listener for deliveries of a real vendor: keeps the secret that they are verified with.",
    responses((status = 200, body = ListenView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn listen(
    State(daemon): State<Daemon>,
    Json(body): Json<ListenBody>,
) -> Result<axum::Json<ListenView>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox.as_deref(), &body.folder).await?;
    let webhooks = daemon.keepers.webhooks.clone();
    let ListenBody { vendor, secret, to, .. } = body;
    let asked = Listen { vendor, secret: secret.map(|hidden| hidden.0), to };
    let name = sandbox.name.to_string();
    let made = blocking(move || webhooks.listen(&sandbox, &asked)).await?;
    Ok(axum::Json(ListenView {
        sandbox: name,
        vendor: made.vendor,
        to: made.to,
        secret_file: made.file.to_string_lossy().into_owned(),
        made: made.is_made,
        signed: made.is_signed,
    }))
}

#[utoipa::path(
    post, path = "/v1/webhooks/forward", operation_id = "webhook_forward", request_body = ForwardBody,
    description = "Verifies a delivery of a real vendor, signs it again, and hands it to the app.",
    responses((status = 200, body = ForwardView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn forward(
    State(daemon): State<Daemon>,
    Json(body): Json<ForwardBody>,
) -> Result<axum::Json<ForwardView>, ErrorResponse> {
    let sandbox = awake(&daemon, body.sandbox.as_deref(), &body.folder).await?;
    let ForwardBody { vendor, to, headers, base64, url, .. } = body;
    let bytes = STANDARD
        .decode(base64)
        .map_err(|error| ErrorResponse(Failure::of(FailureKind::Usage, &error)))?;
    let listen = Listen { vendor, secret: None, to };
    let taken = Taken { listen, headers, body: bytes, url };
    let sent = listen::forward(&daemon.keepers, sandbox, taken).await.map_err(ErrorResponse)?;
    Ok(axum::Json(forwarded(sent)))
}

fn forwarded(Forwarded { attempt, refused }: Forwarded) -> ForwardView {
    let mut headers = attempt.response.headers.into_iter();
    ForwardView {
        id: attempt.id,
        time: attempt.time,
        vendor: attempt.vendor,
        kind: attempt.kind,
        to: attempt.to,
        status: attempt.status,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        error: attempt.error,
        refused: refused.is_some(),
        content_type: headers.find(|(name, _)| name == "content-type").map(|(_, value)| value),
        text: attempt.response.text,
    }
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
        fixture: attempt.fixture.unwrap_or_default(),
        vendor: attempt.vendor,
        kind: attempt.kind,
        to: attempt.to,
        status: attempt.status,
        attempt: attempt.attempt,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        adversary: attempt.adversary.map(str::to_owned),
        error: attempt.error,
        expected,
        ok,
    }
}
