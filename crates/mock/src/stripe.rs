//! A stateful mock of Stripe: sufficient for the official SDKs and for a shop's checkout.
//!
//! Resources that are only stored are data (`vendors/stripe/resources.json`, [`resources`]); money
//! moves in [`intents`], [`refunds`], [`checkout`] and [`billing`]. Every change emits Stripe's events.
//! Only test keys are accepted: a live key is always refused.

mod api;
mod billing;
mod cards;
mod checkout;
mod endpoints;
mod error;
mod expand;
mod intents;
mod list;
mod methods;
mod page;
mod refunds;
mod resources;
mod route;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    answer::{Answer, Effect, Match},
    path::PathTemplate,
    request::{Call, Content},
    state::Draft,
};
use api::Api;
use error::StripeError;

/// The API version for clients that name none.
const VERSION: &str = "2025-09-30.clover";

/// How many answers are kept for idempotency keys.
const KEPT_ANSWERS: u64 = 1_000;

/// Returns method and path of all supported calls, for near misses.
pub(crate) fn routes() -> impl Iterator<Item = (&'static str, PathTemplate)> {
    route::all().iter().map(|(method, path)| (*method, path.clone()))
}

/// Answers a call, or `None` if Stripe's package does not support it.
pub(crate) fn answer(
    call: &Call<'_>,
    draft: &mut Draft<'_>,
    now: Timestamp,
    integration: &str,
    hosts: &[String],
) -> Option<Answer> {
    let label = route::label(call)?;
    let mut api = Api::new(call, draft, now, hosts);
    let mut answer = match call.segments.first().map(AsRef::as_ref) {
        Some("c") => page::answer(&mut api, call),
        _ => answer_api(&mut api, call),
    };
    for payload in std::mem::take(&mut api.events) {
        let kind = payload["type"].as_str().unwrap_or_default().to_owned();
        let registered = endpoints::of(&api, &kind).into_iter().map(Some);
        let to = std::iter::once(None).chain(registered);
        answer.effects.extend(to.map(|endpoint| Effect::Webhook {
            integration: integration.to_owned(),
            kind: kind.clone(),
            payload: payload.clone(),
            endpoint,
        }));
    }
    answer.matched = Match::Vendor(format!("stripe: {} {label}", call.request.method));
    Some(answer)
}

fn answer_api(api: &mut Api<'_, '_>, call: &Call<'_>) -> Answer {
    let outcome = authenticate(call).and_then(|()| match &call.content {
        Content::Broken(why) => Err(StripeError::invalid(why.clone())),
        _ => once(api, call),
    });
    let (status, tree, replayed) = match outcome {
        Ok(Outcome { status, tree, replayed }) => (status, tree, replayed),
        Err(refusal) => {
            if !refusal.keeps_changes {
                api.roll_back();
            }
            (refusal.status, refusal.tree(&api.request_id), false)
        }
    };
    let mut answer = Answer::json(status, &tree, Match::Vendor(String::new()));
    answer.headers.push(("request-id".to_owned(), api.request_id.clone()));
    answer.headers.push(("stripe-version".to_owned(), api.version.clone()));
    if let Some(key) = &api.idempotency_key {
        answer.headers.push(("idempotency-key".to_owned(), key.clone()));
        answer.headers.push(("original-request".to_owned(), api.request_id.clone()));
    }
    if replayed {
        answer.headers.push(("idempotent-replayed".to_owned(), "true".to_owned()));
    }
    answer
}

struct Outcome {
    status: u16,
    tree: Value,
    replayed: bool,
}

/// Performs a call, unless its idempotency key was used before: then the first answer is repeated.
fn once(api: &mut Api<'_, '_>, call: &Call<'_>) -> Result<Outcome, StripeError> {
    let key = api.idempotency_key.clone().filter(|_| call.request.method == "POST");
    let Some(key) = key else {
        let tree = route::act(api, call)?;
        return Ok(Outcome { status: 200, tree, replayed: false });
    };
    let print = hothouse_model::id::fnv1a(&[call.request.path.as_bytes(), call.request.body]);
    let print = Value::from(format!("{print:016x}"));
    let place = format!("stripe/answers/{key}");
    if let Some(kept) = api.draft.get(&place) {
        if kept["print"] != print {
            return Err(StripeError::reused_key(&key));
        }
        let status = kept["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        return Ok(Outcome {
            status: status.unwrap_or(200),
            tree: kept["tree"].clone(),
            replayed: true,
        });
    }
    let (status, tree) = match route::act(api, call) {
        Ok(tree) => (200, tree),
        // As with Stripe, a call that failed before it changed anything may be retried with the same key.
        Err(refusal) if refusal.keeps_changes => (refusal.status, refusal.tree(&api.request_id)),
        Err(refusal) => return Err(refusal),
    };
    let number = api.draft.count("stripe/answers");
    if let Some(old) = number.checked_sub(KEPT_ANSWERS) {
        let slot = format!("stripe/answer-keys/{old}");
        if let Some(Value::String(key)) = api.draft.get(&slot).cloned() {
            api.draft.remove(&format!("stripe/answers/{key}"));
            api.draft.remove(&slot);
        }
    }
    api.draft.put(&format!("stripe/answer-keys/{number}"), Value::String(key));
    let kept = serde_json::json!({ "print": print, "status": status, "tree": tree });
    api.draft.put(&place, kept);
    Ok(Outcome { status, tree, replayed: false })
}

/// Accepts test keys, as Basic or Bearer. No key is ever echoed.
fn authenticate(call: &Call<'_>) -> Result<(), StripeError> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let Some(header) = call.request.header("authorization") else {
        return Err(StripeError::no_key());
    };
    let (scheme, value) = header.split_once(' ').unwrap_or((header, ""));
    let key = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => value.trim().to_owned(),
        "basic" => {
            let decoded = BASE64_STANDARD.decode(value.trim()).unwrap_or_default();
            let text = String::from_utf8_lossy(&decoded).into_owned();
            text.split(':').next().unwrap_or_default().to_owned()
        }
        _ => return Err(StripeError::no_key()),
    };
    let is_test = ["sk_test_", "rk_test_", "pk_test_"].iter().any(|start| key.starts_with(start));
    let is_live = ["sk_live_", "rk_live_", "pk_live_"].iter().any(|start| key.starts_with(start));
    match (key.is_empty(), is_live, is_test) {
        (true, ..) => Err(StripeError::no_key()),
        (_, true, _) => Err(StripeError::live_key()),
        (_, _, true) => Ok(()),
        _ => Err(StripeError::wrong_key()),
    }
}
