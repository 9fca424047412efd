//! Charges: created by intents, or directly by old integrations.

use serde_json::{Value, json};

use super::{
    super::{
        api::{Api, id_of},
        cards::Behaviour,
        error::{Done, StripeError},
        list, methods,
    },
    check_amount, currency,
};

fn blank(api: &mut Api<'_, '_>, amount: i64, currency: &Value, method: Option<&Value>) -> Value {
    let id = api.new_id("charge");
    let host = super::page_host(api);
    let details = method.map(|method| {
        let kind = method["type"].as_str().unwrap_or("card");
        json!({ kind: method[kind], "type": kind })
    });
    json!({
        "id": id, "object": "charge", "amount": amount, "amount_captured": 0, "amount_refunded": 0,
        "application": null, "application_fee": null, "application_fee_amount": null,
        "balance_transaction": null,
        "billing_details": method.map(|method| method["billing_details"].clone()),
        "calculated_statement_descriptor": "HOTHOUSE", "captured": false, "created": api.now,
        "currency": currency, "customer": null, "description": null, "disputed": false,
        "failure_balance_transaction": null, "failure_code": null, "failure_message": null,
        "fraud_details": {}, "invoice": null, "livemode": false, "metadata": {}, "outcome": null,
        "paid": false, "payment_intent": null,
        "payment_method": method.map(|method| method["id"].clone()),
        "payment_method_details": details, "receipt_email": null, "receipt_number": null,
        "receipt_url": format!("https://{host}/c/receipt/{id}"), "refunded": false,
        "refunds": list::of(&format!("/v1/charges/{id}/refunds"), Vec::new(), false),
        "review": null, "shipping": null, "source": null, "statement_descriptor": null,
        "status": "pending", "transfer_data": null, "transfer_group": null,
    })
}

/// Creates the charge of an intent that is paid.
pub(in crate::stripe) fn of_intent(api: &mut Api<'_, '_>, intent: &Value, captures: bool) -> Value {
    let mut charge = shared(api, intent);
    charge["paid"] = true.into();
    charge["status"] = "succeeded".into();
    charge["outcome"] = json!({
        "network_status": "approved_by_network", "reason": null, "risk_level": "normal",
        "risk_score": 32, "seller_message": "Payment complete.", "type": "authorized",
    });
    if captures {
        settle(api, &mut charge, intent["amount"].as_i64().unwrap_or(0));
    }
    api.insert("charge", &charge, Value::Null);
    charge
}

/// Creates the charge of an intent that is declined.
pub(super) fn failed(
    api: &mut Api<'_, '_>,
    intent: &Value,
    refusal: &StripeError,
    code: &str,
) -> Value {
    let mut charge = shared(api, intent);
    charge["status"] = "failed".into();
    charge["failure_code"] = code.into();
    charge["failure_message"] = refusal.message().into();
    charge["outcome"] = json!({
        "network_status": "declined_by_network", "reason": refusal.fields()["decline_code"],
        "risk_level": "normal", "seller_message": "The bank did not return any further details with this decline.",
        "type": "issuer_declined",
    });
    api.insert("charge", &charge, Value::Null);
    charge
}

fn shared(api: &mut Api<'_, '_>, intent: &Value) -> Value {
    let method =
        intent["payment_method"].as_str().and_then(|id| api.find("payment_method", id)).cloned();
    let amount = intent["amount"].as_i64().unwrap_or(0);
    let mut charge = blank(api, amount, &intent["currency"], method.as_ref());
    charge["payment_intent"] = intent["id"].clone();
    for name in [
        "customer",
        "description",
        "metadata",
        "receipt_email",
        "shipping",
        "statement_descriptor",
        "transfer_group",
    ] {
        charge[name] = intent[name].clone();
    }
    charge
}

/// Captures an amount, and books it.
fn settle(api: &mut Api<'_, '_>, charge: &mut Value, amount: i64) {
    let fee = amount * 29 / 1000 + 30;
    let transaction = json!({
        "id": api.new_id("balance_transaction"), "object": "balance_transaction", "amount": amount,
        "available_on": api.now + 2 * 86_400, "created": api.now, "currency": charge["currency"],
        "description": charge["description"], "exchange_rate": null, "fee": fee,
        "fee_details": [{ "amount": fee, "application": null, "currency": charge["currency"], "description": "Stripe processing fees", "type": "stripe_fee" }],
        "net": amount - fee, "reporting_category": "charge", "source": charge["id"],
        "status": "pending", "type": "charge",
    });
    api.insert("balance_transaction", &transaction, Value::Null);
    charge["balance_transaction"] = transaction["id"].clone();
    charge["captured"] = true.into();
    charge["amount_captured"] = amount.into();
}

/// Captures a charge.
pub(super) fn take(api: &mut Api<'_, '_>, id: &str, amount: i64) -> Done {
    let mut charge = api.load("charge", id, "charge")?;
    settle(api, &mut charge, amount);
    let rest = charge["amount"].as_i64().unwrap_or(0) - amount;
    charge["amount_refunded"] = rest.into();
    api.save("charge", &charge);
    Ok(charge)
}

/// Captures a charge that was made without an intent.
pub(in crate::stripe) fn capture(api: &mut Api<'_, '_>, id: &str) -> Done {
    let charge = api.load("charge", id, "charge")?;
    if charge["captured"] == true {
        let message = format!("Charge {id} has already been captured.");
        return Err(StripeError::invalid(message).code("charge_already_captured"));
    }
    let amount = api.integer("amount")?.unwrap_or(charge["amount"].as_i64().unwrap_or(0));
    let charge = take(api, id, amount)?;
    api.emit("charge.captured", &charge);
    Ok(charge)
}

/// Creates a charge from a token, as integrations did before intents.
pub(in crate::stripe) fn create(api: &mut Api<'_, '_>) -> Done {
    let amount = api.required_integer("amount")?;
    let currency = currency(api)?;
    check_amount(amount, &currency)?;
    let source = api.required("source")?;
    let method = methods::resolve(api, &source, "source")?;
    let mut charge = blank(api, amount, &currency.into(), Some(&method));
    charge["metadata"] = api.metadata()?;
    for name in ["description", "customer", "receipt_email", "shipping"] {
        charge[name] = api.part(name)?;
    }
    let refused = match methods::behaviour(api, id_of(&method)) {
        Behaviour::Pays => None,
        Behaviour::Authenticates => {
            Some(("authentication_required", Some("authentication_required")))
        }
        Behaviour::Declines(code, decline_code) => Some((code, decline_code)),
        Behaviour::FailsLater => Some(("card_declined", Some("generic_decline"))),
    };
    if let Some((code, decline_code)) = refused {
        let refusal = methods::decline(code, decline_code);
        charge["status"] = "failed".into();
        charge["failure_code"] = code.into();
        charge["failure_message"] = refusal.message().into();
        api.insert("charge", &charge, Value::Null);
        api.emit("charge.failed", &charge);
        return Err(refusal.with("charge", charge["id"].clone()));
    }
    charge["paid"] = true.into();
    charge["status"] = "succeeded".into();
    if api.text("capture") != Some("false") {
        settle(api, &mut charge, amount);
    }
    api.insert("charge", &charge, Value::Null);
    api.emit("charge.succeeded", &charge);
    Ok(charge)
}
