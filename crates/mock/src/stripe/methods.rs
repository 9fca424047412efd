//! Payment methods and tokens. Only the parts of a card that Stripe shows are kept, never its
//! number.

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    cards::{self, Behaviour, Card},
    error::{Done, StripeError},
};

/// Creates a payment method from the call's parameters.
pub(super) fn create(api: &mut Api<'_, '_>) -> Done {
    let kind = api.required("type")?;
    let details = api.part("card")?;
    let billing = api.part("billing_details")?;
    let metadata = api.metadata()?;
    make(api, &kind, &details, &billing, metadata)
}

/// Creates a payment method from `payment_method_data`.
pub(super) fn of_data(api: &mut Api<'_, '_>, data: &Value) -> Done {
    let kind = data["type"].as_str().unwrap_or("card").to_owned();
    make(api, &kind, &data["card"], &data["billing_details"], json!({}))
}

fn make(api: &mut Api<'_, '_>, kind: &str, card: &Value, billing: &Value, metadata: Value) -> Done {
    let mut method = blank(api, kind);
    method["metadata"] = metadata;
    if let Value::Object(given) = billing {
        given.iter().for_each(|(name, value)| method["billing_details"][name] = value.clone());
    }
    let mut token = "visa";
    if kind == "card" {
        let found = read_card(api, card)?;
        method["card"] = shown(&found, card);
        token = found.token;
    } else {
        method[kind] = json!({});
    }
    api.insert("payment_method", &method, json!({ "token": token }));
    Ok(method)
}

fn blank(api: &mut Api<'_, '_>, kind: &str) -> Value {
    let address = json!({ "city": null, "country": null, "line1": null, "line2": null, "postal_code": null, "state": null });
    json!({
        "id": api.new_id("payment_method"), "object": "payment_method", "allow_redisplay": "unspecified",
        "billing_details": { "address": address, "email": null, "name": null, "phone": null },
        "created": api.now, "customer": null, "livemode": false, "metadata": {}, "type": kind,
    })
}

fn read_card(api: &Api<'_, '_>, card: &Value) -> Done<Card> {
    if let Some(token) = card["token"].as_str() {
        let stored =
            api.private("token", token)["token"].as_str().map(|name| format!("tok_{name}"));
        let known = cards::by_token(stored.as_deref().unwrap_or(token));
        return known.ok_or_else(|| StripeError::not_found("token", token, "card[token]"));
    }
    let Some(number) = card["number"].as_str() else {
        return Err(StripeError::missing_param("card[number]"));
    };
    match cards::by_number(number) {
        Some(card) => Ok(card),
        None if cards::is_plausible(number) => {
            let message = "Your card was declined. Your request was in test mode, but used a non test card. For a list of valid test cards, visit: https://stripe.com/docs/testing.";
            Err(StripeError::card("card_declined", Some("test_mode_live_card"), message))
        }
        None => Err(StripeError::card("incorrect_number", None, "Your card number is incorrect.")
            .param("number")),
    }
}

fn shown(card: &Card, given: &Value) -> Value {
    let last = card.number.len() - 4;
    json!({
        "brand": card.brand, "display_brand": card.brand, "country": "US", "funding": "credit",
        "checks": { "address_line1_check": null, "address_postal_code_check": null, "cvc_check": "pass" },
        "exp_month": given["exp_month"].as_i64().unwrap_or(12),
        "exp_year": given["exp_year"].as_i64().unwrap_or(2034),
        "fingerprint": format!("{:016x}", hothouse_model::id::fnv1a(&[card.number.as_bytes()])),
        "generated_from": null, "last4": &card.number[last..],
        "networks": { "available": [card.brand], "preferred": null },
        "three_d_secure_usage": { "supported": true }, "wallet": null,
    })
}

/// Creates a token for a card.
pub(super) fn create_token(api: &mut Api<'_, '_>) -> Done {
    let details = api.part("card")?;
    let card = read_card(api, &details)?;
    let token = json!({
        "id": api.new_id("token"), "object": "token", "card": shown(&card, &details), "client_ip": null,
        "created": api.now, "livemode": false, "type": "card", "used": false,
    });
    api.insert("token", &token, json!({ "token": card.token }));
    Ok(token)
}

/// Returns a payment method by its id, or creates one from a test token such as `pm_card_visa`.
pub(super) fn resolve(api: &mut Api<'_, '_>, id: &str, param: &str) -> Done {
    if let Some(method) = api.find("payment_method", id) {
        return Ok(method.clone());
    }
    let stored = api.private("token", id)["token"].as_str().map(|name| format!("tok_{name}"));
    let Some(card) = cards::by_token(stored.as_deref().unwrap_or(id)) else {
        let refusal = StripeError::not_found("PaymentMethod", id, param);
        return Err(StripeError { status: if param == "id" { 404 } else { 400 }, ..refusal });
    };
    let mut method = blank(api, "card");
    method["card"] = shown(&card, &Value::Null);
    api.insert("payment_method", &method, json!({ "token": card.token }));
    Ok(method)
}

/// Returns how a payment method behaves when it is used.
pub(super) fn behaviour(api: &Api<'_, '_>, id: &str) -> Behaviour {
    let private = api.private("payment_method", id);
    let token = format!("tok_{}", private["token"].as_str().unwrap_or("visa"));
    cards::by_token(&token).map_or(Behaviour::Pays, |card| card.behaviour)
}

/// Returns the error for a declined card.
pub(super) fn decline(code: &str, decline_code: Option<&str>) -> StripeError {
    StripeError::card(code, decline_code, cards::message(code, decline_code))
}

/// Attaches a payment method to a customer.
pub(super) fn attach(api: &mut Api<'_, '_>, id: &str, customer: &str) -> Done {
    if api.find("customer", customer).is_none() && api.text("customer").is_some() {
        return Err(StripeError::not_found("customer", customer, "customer"));
    }
    let mut method = resolve(api, id, "id")?;
    if let Behaviour::Declines(code, decline_code) = behaviour(api, id_of(&method)) {
        return Err(decline(code, decline_code));
    }
    match method["customer"].as_str() {
        Some(owner) if owner != customer => {
            let message =
                "The payment method you provided has already been attached to a customer.";
            return Err(StripeError::invalid(message).code("payment_method_unexpected_state"));
        }
        _ => method["customer"] = customer.into(),
    }
    api.save("payment_method", &method);
    api.emit("payment_method.attached", &method);
    Ok(method)
}

/// Detaches a payment method.
pub(super) fn detach(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut method = api.load("payment_method", id, "payment_method")?;
    if method["customer"].is_null() {
        let message = "The payment method you provided is not attached to a customer so detachment is impossible.";
        return Err(StripeError::invalid(message));
    }
    method["customer"] = Value::Null;
    api.save("payment_method", &method);
    api.emit("payment_method.detached", &method);
    Ok(method)
}
