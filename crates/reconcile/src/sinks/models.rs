//! Language models: answered by fixtures first, then by an echo; both are recorded.

use std::sync::Arc;

use hothouse_mock::{Answer, Body, Match};
use hothouse_sinks::{FlagSet, Recorded, llm, no_mails};
use hothouse_terminate::{StandInAnswer, StandInRequest};
use serde_json::json;

use super::{RunSinks, call, down, with_context, with_trace};
use crate::mocks;

impl RunSinks {
    /// Answers for a model. `fixtures` is the answer of the worktree's fixtures, if any was
    /// requested.
    pub(crate) async fn answer_model(
        self: Arc<Self>,
        request: StandInRequest,
        fixtures: Option<StandInAnswer>,
    ) -> StandInAnswer {
        let process = request.process.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let (answer, records) = answered(&request, fixtures);
            (answer, with_trace(records, &request.headers))
        });
        let answered = answered.await;
        let Ok((answer, records)) = answered else {
            return mocks::told(down("the model failed; the daemon's log has the reason"), &[]);
        };
        match self.keep(records, process).await {
            Ok(_) => answer,
            Err(why) => mocks::told(down(&why.to_string()), &[]),
        }
    }
}

fn answered(
    request: &StandInRequest,
    fixtures: Option<StandInAnswer>,
) -> (StandInAnswer, Vec<Recorded>) {
    let call = call(request);
    if let Some(answer) = fixtures.as_ref().filter(|answer| answer.matched) {
        let fixture = answer.fixture.clone().unwrap_or_default();
        let seen = llm::observed(&call, &whole(answer, &fixture), &fixture);
        return (answer.clone(), seen.into_iter().collect());
    }
    match (with_context(&FlagSet::new(), &no_mails, |context| llm::echo(&call, context)), fixtures)
    {
        (Some(taken), _) => (mocks::told(taken.answer, &[]), taken.records),
        (None, Some(unmatched)) => (unmatched, Vec::new()),
        (None, None) => (mocks::told(unknown(request), &[]), Vec::new()),
    }
}

/// Returns the answer for a path that the mock of the model does not know.
fn unknown(request: &StandInRequest) -> Answer {
    let StandInRequest { method, host, path, .. } = request;
    let tree = json!({ "error": {
        "type": "unmatched_request",
        "message": format!("Hothouse mocks the model at {host}, and has no answer to {method} {path}"),
        "hints": ["set `class = \"mock\"` for this integration and write a fixture; docs/models.md shows one"],
        "from": "hothouse",
    }});
    Answer::json(501, &tree, Match::Unmatched { nearest: Vec::new(), stub: String::new() })
}

/// Returns the complete form of an answer.
fn whole(answer: &StandInAnswer, fixture: &str) -> Answer {
    let bytes = answer.pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
    let matched = Match::Fixture(fixture.to_owned());
    Answer { body: Body::Whole(bytes), ..Answer::empty(answer.status, matched) }
}
