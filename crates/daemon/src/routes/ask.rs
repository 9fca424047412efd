//! Requests from agents to their user.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    ask::{AnswerBody, AskBody, AskView, AsksQuery},
};
use hothouse_engine::Notice;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    ask::{AskRecord, AskState, TEXT_LIMIT, Wanted},
    record::{Draft, bodies},
};

use super::{Json, blocking, decision, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/asks", operation_id = "ask_list", params(AsksQuery),
    responses((status = 200, body = [AskView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<AsksQuery>,
) -> Result<axum::Json<Vec<AskView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let engine = &daemon.engine;
        let all = match wanted {
            Some(_) => vec![engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?],
            None => engine.sandboxes()?,
        };
        let one = all.first().filter(|_| wanted.is_some()).map(|sandbox| sandbox.key);
        let asks = engine.asks(one)?.into_iter();
        let asks = asks.filter(|ask| query.all || ask.state == AskState::Open);
        let of = |ask: AskRecord| {
            let sandbox = all.iter().find(|sandbox| sandbox.key == ask.sandbox)?;
            Some(view(sandbox, ask))
        };
        Ok(asks.filter_map(of).collect())
    });
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/asks", operation_id = "ask", request_body = AskBody,
    description = "Asks the user for something; the answer comes as a record of kind `ask` with the same id.",
    responses((status = 200, body = AskView), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn ask(
    State(daemon): State<Daemon>,
    Json(body): Json<AskBody>,
) -> Result<axum::Json<AskView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let asked = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(body.folder))?;
        let AskBody { text, host, secret, limit, .. } = body;
        let (ask, is_new) = daemon.engine.ask(&sandbox, text, Wanted { host, secret, limit })?;
        // The user was already notified of a pending one.
        if !is_new {
            return Ok(view(&sandbox, ask));
        }
        daemon.keepers.timelines.append(&sandbox, noted(&ask, bodies::Party::Agent));
        let notice = Notice {
            sandbox: sandbox.name.to_string(),
            text: ask.text.clone(),
            id: ask.id.clone(),
        };
        daemon.engine.tell_user(&notice);
        Ok(view(&sandbox, ask))
    });
    asked.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/asks/answer", operation_id = "ask_answer", request_body = AnswerBody,
    description = "Answers an agent. A host that was asked for is allowed for its sandbox; effective immediately.",
    responses((status = 200, body = AskView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn answer(
    State(daemon): State<Daemon>,
    Json(body): Json<AnswerBody>,
) -> Result<axum::Json<AskView>, ErrorResponse> {
    if body.answer.as_ref().is_some_and(|answer| answer.len() > TEXT_LIMIT) {
        let message = format!("an answer has at most {TEXT_LIMIT} bytes");
        return Err(ErrorResponse(Failure::new(FailureKind::Usage, message)));
    }
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let answered = blocking(move || {
        let (sandbox, ask) = engine.answer_ask(&body.id, body.allow, body.answer.as_deref())?;
        if let Some(host) = ask.wanted.host.as_ref().filter(|_| body.allow) {
            decision::append(
                &timelines,
                &sandbox,
                (bodies::PolicyArea::Egress, host, bodies::PolicyAction::Allowed),
            );
        }
        // The record of the answer has the id of the request: that is what the agent waits for.
        let note = Draft { id: Some(ask.id.clone()), ..noted(&ask, bodies::Party::User) };
        timelines.append(&sandbox, note);
        Ok(view(&sandbox, ask))
    });
    let answered = answered.await?;
    daemon.keepers.renew_walls().await;
    Ok(axum::Json(answered))
}

fn noted(ask: &AskRecord, by: bodies::Party) -> Draft {
    let AskRecord { id, text, wanted, state, answer, .. } = ask.clone();
    let summary = match state {
        AskState::Open => format!("asks: {}", short(&text)),
        state => format!("{}: {}", state.as_str(), short(&text)),
    };
    let Wanted { host, secret, limit } = wanted;
    let (state, by) = (state.into(), by.into());
    let body = bodies::AskBody { ask: id, text, state, answer, by, host, secret, limit };
    Draft::of(HostClock.now(), summary, &body)
}

fn short(text: &str) -> String {
    text.chars().take(120).collect()
}

pub(crate) fn view(sandbox: &SandboxRecord, ask: AskRecord) -> AskView {
    let AskRecord { id, asked, text, wanted, state, answer, answered, .. } = ask;
    AskView {
        id,
        project: sandbox.project.to_string(),
        sandbox: sandbox.name.to_string(),
        time: asked,
        text,
        host: wanted.host,
        secret: wanted.secret,
        limit: wanted.limit,
        state,
        answer,
        answered,
    }
}
