//! Setup intents: a card saved for later.

use serde_json::{Value, json};

use super::{
    super::{
        api::{Api, id_of},
        cards::Behaviour,
        error::{Done, StripeError},
        methods,
    },
    given_method,
};

/// Creates a setup intent, and confirms it if requested.
pub(in crate::stripe) fn create(api: &mut Api<'_, '_>) -> Done {
    let id = api.new_id("setup_intent");
    let secret = api.id(&format!("{id}_secret_"), 25);
    let mut intent = json!({
        "id": id, "object": "setup_intent", "application": null, "automatic_payment_methods": null,
        "cancellation_reason": null, "client_secret": secret, "created": api.now, "customer": null,
        "description": null, "flow_directions": null, "last_setup_error": null,
        "latest_attempt": null, "livemode": false, "mandate": null, "metadata": api.metadata()?,
        "next_action": null, "on_behalf_of": null, "payment_method": null,
        "payment_method_options": {}, "payment_method_types": ["card"], "single_use_mandate": null,
        "status": "requires_payment_method", "usage": "off_session",
    });
    for name in ["customer", "description", "usage", "return_url", "automatic_payment_methods"] {
        if api.params.contains_key(name) {
            intent[name] = api.part(name)?;
        }
    }
    if let Some(customer) = api.text("customer") {
        api.load("customer", customer, "customer")?;
    }
    if let Some(method) = given_method(api)? {
        intent["payment_method"] = method["id"].clone();
        intent["status"] = "requires_confirmation".into();
    }
    api.insert("setup_intent", &intent, Value::Null);
    api.emit("setup_intent.created", &intent);
    match api.flag("confirm") {
        true => confirm(api, id_of(&intent)),
        false => Ok(intent),
    }
}

/// Confirms a setup intent.
pub(in crate::stripe) fn confirm(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("setup_intent", id, "intent")?;
    let status = intent["status"].as_str().unwrap_or_default().to_owned();
    if status == "succeeded" || status == "canceled" {
        return Err(StripeError::unexpected_state("SetupIntent", "confirm", &status));
    }
    if let Some(method) = given_method(api)? {
        intent["payment_method"] = method["id"].clone();
    }
    let Some(method) = intent["payment_method"].as_str().map(str::to_owned) else {
        let message = "You cannot confirm this SetupIntent because it's missing a payment method.";
        return Err(StripeError::invalid(message).code("setup_intent_unexpected_state"));
    };
    match methods::behaviour(api, &method) {
        Behaviour::Declines(code, decline_code) => {
            let refusal = methods::decline(code, decline_code).with("setup_intent", intent.clone());
            intent["last_setup_error"] = methods::decline(code, decline_code).fields();
            intent["payment_method"] = Value::Null;
            intent["status"] = "requires_payment_method".into();
            api.save("setup_intent", &intent);
            api.emit("setup_intent.setup_failed", &intent);
            return Err(refusal);
        }
        Behaviour::Authenticates if status != "requires_action" => {
            let page = format!("https://{}/c/authenticate/{id}", super::page_host(api));
            intent["status"] = "requires_action".into();
            intent["next_action"] = json!({ "type": "use_stripe_sdk", "use_stripe_sdk": { "type": "three_d_secure_redirect", "stripe_js": page } });
            api.save("setup_intent", &intent);
            api.emit("setup_intent.requires_action", &intent);
            return Ok(intent);
        }
        _ => {}
    }
    intent["status"] = "succeeded".into();
    intent["next_action"] = Value::Null;
    if let (Some(customer), Some(mut kept)) =
        (intent["customer"].as_str(), api.find("payment_method", &method).cloned())
    {
        kept["customer"] = customer.into();
        api.save("payment_method", &kept);
        api.emit("payment_method.attached", &kept);
    }
    api.save("setup_intent", &intent);
    api.emit("setup_intent.succeeded", &intent);
    Ok(intent)
}

/// Cancels a setup intent.
pub(in crate::stripe) fn cancel(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut intent = api.load("setup_intent", id, "intent")?;
    let status = intent["status"].as_str().unwrap_or_default();
    if status == "succeeded" || status == "canceled" {
        return Err(StripeError::unexpected_state("SetupIntent", "cancel", status));
    }
    intent["status"] = "canceled".into();
    api.save("setup_intent", &intent);
    api.emit("setup_intent.canceled", &intent);
    Ok(intent)
}
