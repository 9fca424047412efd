//! Payment intents.
//!
//! ```text
//! requires_payment_method ─► requires_confirmation ─confirm─► succeeded | requires_capture ─► succeeded
//!            ▲                                        │
//!            └────────────── declined ────────────────┤
//!                                                     └─► requires_action ─authenticated─► as above
//! ```

pub(super) mod charge;
pub(super) mod setup;

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    cards::Behaviour,
    error::{Done, StripeError},
    methods,
};

/// Fields that are copied unchanged.
const TAKEN: [&str; 14] = [
    "customer",
    "description",
    "receipt_email",
    "setup_future_usage",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "shipping",
    "transfer_data",
    "transfer_group",
    "on_behalf_of",
    "application_fee_amount",
    "automatic_payment_methods",
    "payment_method_options",
    "return_url",
];

/// Creates an intent, and confirms it if requested.
pub(super) fn create(api: &mut Api<'_, '_>) -> Done {
    let amount = api.required_integer("amount")?;
    let currency = currency(api)?;
    check_amount(amount, &currency)?;
    if let Some(customer) = api.text("customer") {
        let found = api.load("customer", customer, "customer");
        found.map_err(|refusal| StripeError { status: 400, ..refusal })?;
    }
    let mut intent = blank(api, amount, &currency);
    take(api, &mut intent)?;
    intent["metadata"] = api.metadata()?;
    if let Some(method) = given_method(api)? {
        intent["payment_method"] = method["id"].clone();
        intent["status"] = "requires_confirmation".into();
    }
    api.insert("payment_intent", &intent, Value::Null);
    api.emit("payment_intent.created", &intent);
    match api.flag("confirm") {
        true => confirm(api, id_of(&intent)),
        false => Ok(intent),
    }
}

/// Creates an intent with only an amount.
pub(super) fn blank(api: &mut Api<'_, '_>, amount: i64, currency: &str) -> Value {
    let id = api.new_id("payment_intent");
    let secret = api.id(&format!("{id}_secret_"), 25);
    json!({
        "id": id, "object": "payment_intent", "amount": amount, "amount_capturable": 0,
        "amount_details": { "tip": {} }, "amount_received": 0, "application": null,
        "application_fee_amount": null, "automatic_payment_methods": null, "canceled_at": null,
        "cancellation_reason": null, "capture_method": "automatic_async", "client_secret": secret,
        "confirmation_method": "automatic", "created": api.now, "currency": currency,
        "customer": null, "description": null, "last_payment_error": null, "latest_charge": null,
        "livemode": false, "metadata": {}, "next_action": null, "on_behalf_of": null,
        "payment_method": null, "payment_method_options": {}, "payment_method_types": ["card"],
        "processing": null, "receipt_email": null, "review": null, "setup_future_usage": null,
        "shipping": null, "source": null, "statement_descriptor": null,
        "statement_descriptor_suffix": null, "status": "requires_payment_method",
        "transfer_data": null, "transfer_group": null,
    })
}

fn take(api: &Api<'_, '_>, intent: &mut Value) -> Done<()> {
    for name in TAKEN {
        if api.params.contains_key(name) {
            intent[name] = api.part(name)?;
        }
    }
    for name in ["capture_method", "confirmation_method"] {
        if let Some(text) = api.text(name) {
            intent[name] = text.into();
        }
    }
    if let Value::Array(types) = api.part("payment_method_types")? {
        intent["payment_method_types"] = Value::Array(types);
    }
    Ok(())
}

pub(super) fn currency(api: &Api<'_, '_>) -> Done<String> {
    let currency = api.required("currency")?.to_lowercase();
    match currency.len() == 3 && currency.chars().all(|c| c.is_ascii_lowercase()) {
        true => Ok(currency),
        false => {
            let shown: String = currency.chars().take(30).collect();
            let message =
                format!("Invalid currency: {shown}. Stripe takes three-letter ISO codes.");
            Err(StripeError::invalid(message).param("currency"))
        }
    }
}

pub(super) fn check_amount(amount: i64, currency: &str) -> Done<()> {
    let least = match currency {
        "usd" | "eur" | "cad" | "aud" | "chf" => 50,
        "gbp" => 30,
        _ => 1,
    };
    let refuse = |message: &str, code: &str| {
        Err(StripeError::invalid(message.to_owned()).code(code).param("amount"))
    };
    match amount {
        ..1 => {
            refuse("This value must be greater than or equal to 1.", "parameter_invalid_integer")
        }
        _ if amount < least => refuse(
            "Amount must be at least the minimum charge amount of the currency.",
            "amount_too_small",
        ),
        100_000_000.. => refuse("Amount must be no more than 99999999.", "amount_too_large"),
        _ => Ok(()),
    }
}

/// Returns the payment method that a call names or describes.
pub(super) fn given_method(api: &mut Api<'_, '_>) -> Done<Option<Value>> {
    if let Some(id) = api.text("payment_method").map(str::to_owned) {
        return methods::resolve(api, &id, "payment_method").map(Some);
    }
    match api.part("payment_method_data")? {
        Value::Null => Ok(None),
        data => methods::of_data(api, &data).map(Some),
    }
}

/// Updates an intent that is not completed.
pub(super) fn update(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("payment_intent", id, "intent")?;
    expect_state(
        &intent,
        "update",
        &["requires_payment_method", "requires_confirmation", "requires_action"],
    )
    .or_else(|refusal| if only_metadata(api) { Ok(()) } else { Err(refusal) })?;
    take(api, &mut intent)?;
    if let Some(amount) = api.integer("amount")? {
        check_amount(amount, intent["currency"].as_str().unwrap_or_default())?;
        intent["amount"] = amount.into();
    }
    if let Some(method) = given_method(api)? {
        intent["payment_method"] = method["id"].clone();
        intent["status"] = "requires_confirmation".into();
    }
    let given = api.params.get("metadata").and_then(Value::as_object).cloned();
    for (key, value) in given.unwrap_or_default() {
        match value.as_str() {
            Some("") => drop(intent["metadata"].as_object_mut().and_then(|m| m.remove(&key))),
            _ => intent["metadata"][key] = value,
        }
    }
    api.save("payment_intent", &intent);
    Ok(intent)
}

fn only_metadata(api: &Api<'_, '_>) -> bool {
    api.params.keys().all(|name| ["metadata", "description", "expand"].contains(&name.as_str()))
}

/// Confirms an intent: pays, asks for authentication, or is declined.
///
/// An intent that waits for authentication is confirmed as if the customer had authenticated: a
/// program has no other way to say so.
pub(super) fn confirm(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("payment_intent", id, "intent")?;
    let open = ["requires_payment_method", "requires_confirmation", "requires_action"];
    expect_state(&intent, "confirm", &open)?;
    let is_authenticated = intent["status"] == "requires_action";
    take(api, &mut intent)?;
    if let Some(method) = given_method(api)? {
        intent["payment_method"] = method["id"].clone();
    }
    let Some(method) = intent["payment_method"].as_str().map(str::to_owned) else {
        let message = "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method or ConfirmationToken.";
        return Err(StripeError::invalid(message).code("payment_intent_unexpected_state"));
    };
    api.save("payment_intent", &intent);
    match methods::behaviour(api, &method) {
        Behaviour::Authenticates if api.flag("off_session") => {
            declined(api, intent, "authentication_required", Some("authentication_required"))
        }
        Behaviour::Authenticates if !is_authenticated => Ok(ask(api, intent)),
        Behaviour::Pays | Behaviour::Authenticates => succeed(api, intent),
        Behaviour::Declines(code, decline_code) => declined(api, intent, code, decline_code),
        Behaviour::FailsLater => declined(api, intent, "card_declined", Some("generic_decline")),
    }
}

/// Requires the customer's authentication.
fn ask(api: &mut Api<'_, '_>, mut intent: Value) -> Value {
    let page = format!("https://{}/c/authenticate/{}", page_host(api), id_of(&intent));
    intent["status"] = "requires_action".into();
    intent["next_action"] = match intent["return_url"].as_str().map(str::to_owned) {
        Some(back) => {
            json!({ "type": "redirect_to_url", "redirect_to_url": { "return_url": back, "url": page } })
        }
        None => {
            json!({ "type": "use_stripe_sdk", "use_stripe_sdk": { "type": "three_d_secure_redirect", "stripe_js": page } })
        }
    };
    api.save("payment_intent", &intent);
    api.emit("payment_intent.requires_action", &intent);
    intent
}

/// Returns the host of customer-facing pages.
pub(super) fn page_host(api: &Api<'_, '_>) -> String {
    let pages = api.hosts.iter().find(|host| host.starts_with("checkout."));
    pages.cloned().unwrap_or_else(|| "checkout.stripe.com".to_owned())
}

/// Completes a payment.
pub(super) fn succeed(api: &mut Api<'_, '_>, mut intent: Value) -> Done {
    let captures = intent["capture_method"] != "manual";
    let charge = charge::of_intent(api, &intent, captures);
    intent["latest_charge"] = charge["id"].clone();
    intent["next_action"] = Value::Null;
    intent["last_payment_error"] = Value::Null;
    if captures {
        intent["status"] = "succeeded".into();
        intent["amount_received"] = intent["amount"].clone();
    } else {
        intent["status"] = "requires_capture".into();
        intent["amount_capturable"] = intent["amount"].clone();
    }
    api.save("payment_intent", &intent);
    api.emit("charge.succeeded", &charge);
    let event = if captures { "succeeded" } else { "amount_capturable_updated" };
    api.emit(&format!("payment_intent.{event}"), &intent);
    Ok(intent)
}

/// Records a decline on the intent; the error carries it, as with Stripe.
pub(super) fn declined(
    api: &mut Api<'_, '_>,
    mut intent: Value,
    code: &str,
    decline_code: Option<&str>,
) -> Done {
    let refusal = methods::decline(code, decline_code);
    let charge = charge::failed(api, &intent, &refusal, code);
    let method =
        intent["payment_method"].as_str().and_then(|id| api.find("payment_method", id)).cloned();
    let refusal = refusal.with("charge", charge["id"].clone());
    let mut error = refusal.fields();
    error["payment_method"] = method.clone().unwrap_or_default();
    intent["last_payment_error"] = error;
    intent["latest_charge"] = charge["id"].clone();
    intent["payment_method"] = Value::Null;
    intent["next_action"] = Value::Null;
    intent["status"] = "requires_payment_method".into();
    api.save("payment_intent", &intent);
    api.emit("charge.failed", &charge);
    api.emit("payment_intent.payment_failed", &intent);
    Err(refusal.with("payment_intent", intent).with("payment_method", method.unwrap_or_default()))
}

/// Captures the authorized amount.
pub(super) fn capture(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("payment_intent", id, "intent")?;
    expect_state(&intent, "capture", &["requires_capture"])?;
    let reserved = intent["amount_capturable"].as_i64().unwrap_or(0);
    let amount = api.integer("amount_to_capture")?.unwrap_or(reserved);
    if amount < 1 || amount > reserved {
        let message = "The amount to capture is greater than the remaining capturable amount.";
        return Err(StripeError::invalid(message)
            .code("amount_too_large")
            .param("amount_to_capture"));
    }
    let charge = intent["latest_charge"].as_str().unwrap_or_default().to_owned();
    let charge = charge::take(api, &charge, amount)?;
    intent["status"] = "succeeded".into();
    intent["amount_capturable"] = 0.into();
    intent["amount_received"] = amount.into();
    api.save("payment_intent", &intent);
    api.emit("charge.captured", &charge);
    api.emit("payment_intent.succeeded", &intent);
    Ok(intent)
}

/// Cancels an intent.
pub(super) fn cancel(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("payment_intent", id, "intent")?;
    let open = [
        "requires_payment_method",
        "requires_confirmation",
        "requires_action",
        "requires_capture",
        "processing",
    ];
    expect_state(&intent, "cancel", &open)?;
    intent["status"] = "canceled".into();
    intent["canceled_at"] = api.now.into();
    intent["amount_capturable"] = 0.into();
    intent["next_action"] = Value::Null;
    intent["cancellation_reason"] = api.text("cancellation_reason").into();
    api.save("payment_intent", &intent);
    api.emit("payment_intent.canceled", &intent);
    Ok(intent)
}

fn expect_state(intent: &Value, doing: &str, allowed: &[&str]) -> Done<()> {
    let status = intent["status"].as_str().unwrap_or_default();
    match allowed.contains(&status) {
        true => Ok(()),
        false => {
            let refusal = StripeError::unexpected_state("PaymentIntent", doing, status);
            let mut refusal = refusal.with("payment_intent", intent.clone());
            refusal.keeps_changes = false;
            Err(refusal)
        }
    }
}
