//! Pages that a customer sees: the hosted checkout, authentication, a receipt.
//!
//! No key is required: as with Stripe, whoever knows the session may pay it. All markup comes from
//! templates, which escape what they show.

use askama::Template;
use serde_json::Value;

use super::{
    api::{Api, id_of},
    checkout::{self, Payer, Step},
    error::StripeError,
    intents,
};
use crate::{
    answer::{Answer, Body, Match},
    request::Call,
};

const CARD: &str = "4242 4242 4242 4242";

/// The payment page.
#[derive(Template)]
#[template(path = "checkout.html")]
struct CheckoutPage<'a> {
    lines: Vec<Line>,
    total: String,
    email: &'a str,
    card: &'a str,
    problem: Option<&'a str>,
    can_cancel: bool,
    button: &'a str,
}

struct Line {
    name: String,
    quantity: i64,
    amount: String,
}

/// The bank's authentication page.
#[derive(Template)]
#[template(path = "authenticate.html")]
struct AuthenticationPage {
    amount: String,
}

/// A page with only a message.
#[derive(Template)]
#[template(path = "note.html")]
struct NotePage<'a> {
    title: &'a str,
    text: &'a str,
}

/// Answers a request for a page.
pub(super) fn answer(api: &mut Api<'_, '_>, call: &Call<'_>) -> Answer {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    match (call.request.method, segments.as_slice()) {
        (method, ["c", "pay", id]) => match api.find("checkout.session", id).cloned() {
            None => note(404, "Page not found", "There is no such payment page."),
            Some(session) => session_page(api, method, &session),
        },
        (method, ["c", "authenticate", id]) => authentication(api, method, id),
        (_, ["c", "receipt", id]) => match api.find("charge", id) {
            None => note(404, "Page not found", "There is no such receipt."),
            Some(charge) => note(
                200,
                "Receipt",
                &format!("Paid: {}", money(&charge["amount"], &charge["currency"])),
            ),
        },
        _ => note(404, "Page not found", "There is no such page."),
    }
}

fn session_page(api: &mut Api<'_, '_>, method: &str, session: &Value) -> Answer {
    let is_late = session["expires_at"].as_i64().is_some_and(|end| end <= api.now);
    match session["status"].as_str() {
        Some("complete") => return back(session, "success_url"),
        Some("open") if !is_late => {}
        _ => return note(410, "This page has expired", "The payment page is no longer open."),
    }
    let waits = waits_for_authentication(api, session);
    if method != "POST" {
        return if waits { bank(session) } else { form(api, session, None) };
    }
    let action = api.text("action").unwrap_or("pay").to_owned();
    match action.as_str() {
        "cancel" => back(session, "cancel_url"),
        "authenticate" | "refuse" if waits => authenticated(api, session, action == "authenticate"),
        _ => pay(api, session),
    }
}

fn waits_for_authentication(api: &Api<'_, '_>, session: &Value) -> bool {
    let private = api.private("checkout.session", id_of(session));
    let intent = private["intent"].as_str().and_then(|id| api.find("payment_intent", id));
    intent.is_some_and(|intent| intent["status"] == "requires_action")
        || checkout::waiting_method(api, session).is_some()
}

fn pay(api: &mut Api<'_, '_>, session: &Value) -> Answer {
    let email = api.text("email").map(str::to_owned);
    let email = email.or_else(|| session["customer_details"]["email"].as_str().map(str::to_owned));
    let Some(email) = email.filter(|email| email.contains('@')) else {
        return form(api, session, Some("Your email is missing."));
    };
    let card = api.text("card").unwrap_or(CARD).to_owned();
    let name = api.text("name").unwrap_or("Test Buyer").to_owned();
    let payer = Payer { email: &email, name: &name, card: &card };
    match checkout::pay(api, session, &payer) {
        Ok(Step::Done) => {
            let session = api.find("checkout.session", id_of(session)).cloned().unwrap_or_default();
            back(&session, "success_url")
        }
        Ok(Step::Authenticate) => bank(session),
        Err(refusal) => declined(api, session, &refusal),
    }
}

/// Shows the form again with the bank's message. The attempt is kept, unless nothing was started.
fn declined(api: &mut Api<'_, '_>, session: &Value, refusal: &StripeError) -> Answer {
    if !refusal.keeps_changes {
        api.roll_back();
    }
    form(api, session, Some(refusal.message()))
}

fn authenticated(api: &mut Api<'_, '_>, session: &Value, is_done: bool) -> Answer {
    if let Some(method) = checkout::waiting_method(api, session) {
        api.params.clear();
        return match checkout::end_wait(api, session.clone(), &method, is_done) {
            Ok(session) => back(&session, "success_url"),
            Err(refusal) => declined(api, session, &refusal),
        };
    }
    let private = api.private("checkout.session", id_of(session));
    let intent = private["intent"].as_str().unwrap_or_default();
    let intent = api.find("payment_intent", intent).cloned().unwrap_or_default();
    api.params.clear();
    if !is_done {
        let refused = refuse(api, intent);
        return form(api, session, Some(refused.message()));
    }
    let session = api.find("checkout.session", id_of(session)).cloned().unwrap_or_default();
    let paid = intents::succeed(api, intent).and_then(|_| checkout::finish(api, session.clone()));
    match paid {
        Ok(session) => back(&session, "success_url"),
        Err(refusal) => declined(api, &session, &refusal),
    }
}

/// Records that the customer did not authenticate.
fn refuse(api: &mut Api<'_, '_>, intent: Value) -> StripeError {
    let code = "payment_intent_authentication_failure";
    match intents::declined(api, intent, code, None) {
        Err(refusal) => refusal,
        Ok(_) => StripeError::invalid("The payment was not authenticated."),
    }
}

/// Answers with the bank's page for an intent that a program confirmed.
fn authentication(api: &mut Api<'_, '_>, method: &str, id: &str) -> Answer {
    let kind = if id.starts_with("seti_") { "setup_intent" } else { "payment_intent" };
    let Some(intent) = api.find(kind, id).cloned() else {
        return note(404, "Page not found", "There is no such payment.");
    };
    if intent["status"] != "requires_action" {
        return note(200, "Nothing to do", "This payment does not wait for authentication.");
    }
    if method != "POST" {
        return bank(&intent);
    }
    let is_done = api.text("action") != Some("refuse");
    api.params.clear();
    let status = match (is_done, kind) {
        (true, "setup_intent") => intents::setup::confirm(api, id).map(drop),
        (true, _) => intents::succeed(api, intent.clone()).map(drop),
        (false, _) => Err(refuse(api, intent.clone())),
    };
    let word = if status.is_ok() { "succeeded" } else { "failed" };
    let Some(url) = intent["return_url"].as_str() else {
        return note(200, "Done", "You can go back to the shop.");
    };
    let joint = if url.contains('?') { '&' } else { '?' };
    let secret = intent["client_secret"].as_str().unwrap_or_default();
    redirect(&format!(
        "{url}{joint}{kind}={id}&{kind}_client_secret={secret}&redirect_status={word}"
    ))
}

fn form(api: &Api<'_, '_>, session: &Value, problem: Option<&str>) -> Answer {
    let private = api.private("checkout.session", id_of(session));
    let line = |line: &Value| Line {
        name: line["description"].as_str().unwrap_or("Item").to_owned(),
        quantity: line["quantity"].as_i64().unwrap_or(1),
        amount: money(&line["amount_total"], &line["currency"]),
    };
    let page = CheckoutPage {
        lines: private["lines"].as_array().into_iter().flatten().map(line).collect(),
        total: money(&session["amount_total"], &session["currency"]),
        email: api
            .text("email")
            .or(session["customer_details"]["email"].as_str())
            .unwrap_or_default(),
        card: api.text("card").unwrap_or(CARD),
        problem,
        can_cancel: session["cancel_url"].is_string(),
        button: match session["mode"].as_str() {
            Some("setup") => "Save card",
            Some("subscription") => "Subscribe",
            _ => "Pay",
        },
    };
    html(200, &page)
}

fn bank(about: &Value) -> Answer {
    let amount =
        if about["amount_total"].is_i64() { &about["amount_total"] } else { &about["amount"] };
    html(200, &AuthenticationPage { amount: money(amount, &about["currency"]) })
}

/// Redirects back to the shop.
fn back(session: &Value, name: &str) -> Answer {
    match session[name].as_str() {
        Some(url) => redirect(&url.replace("{CHECKOUT_SESSION_ID}", id_of(session))),
        None => note(200, "Done", "You can close this page."),
    }
}

fn redirect(url: &str) -> Answer {
    let mut answer = Answer::empty(303, Match::Vendor(String::new()));
    // Addresses were checked when they were stored.
    let url = url.chars().filter(|c| !c.is_control()).collect();
    answer.headers.push(("location".to_owned(), url));
    answer
}

fn note(status: u16, title: &str, text: &str) -> Answer {
    html(status, &NotePage { title, text })
}

fn html(status: u16, page: &impl Template) -> Answer {
    let mut answer = Answer::empty(status, Match::Vendor(String::new()));
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("content-security-policy", policy),
    ] {
        answer.headers.push((name.to_owned(), value.to_owned()));
    }
    let text = page.render().expect("a string takes all text");
    answer.body = Body::Whole(text.into_bytes());
    answer
}

fn money(amount: &Value, currency: &Value) -> String {
    let amount = amount.as_i64().unwrap_or(0);
    let currency = currency.as_str().unwrap_or("usd").to_uppercase();
    match currency.as_str() {
        "JPY" | "KRW" | "VND" | "CLP" => format!("{amount} {currency}"),
        _ => format!("{}.{:02} {currency}", amount / 100, amount % 100),
    }
}
