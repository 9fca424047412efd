//! Refunds, and the balance.

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    error::{Done, StripeError},
};

/// Creates a refund.
pub(super) fn create(api: &mut Api<'_, '_>) -> Done {
    let mut charge = charge_of(api)?;
    let left = charge["amount_captured"].as_i64().unwrap_or(0)
        - charge["amount_refunded"].as_i64().unwrap_or(0);
    if charge["refunded"] == true || left <= 0 {
        let message = format!("Charge {} has already been refunded.", id_of(&charge));
        return Err(StripeError::invalid(message).code("charge_already_refunded"));
    }
    let amount = api.integer("amount")?.unwrap_or(left);
    if amount < 1 || amount > left {
        let message = format!(
            "Refund amount ({amount}) is greater than unrefunded amount on charge ({left})."
        );
        return Err(StripeError::invalid(message).param("amount"));
    }
    let refund = json!({
        "id": api.new_id("refund"), "object": "refund", "amount": amount,
        "balance_transaction": null, "charge": charge["id"], "created": api.now,
        "currency": charge["currency"],
        "destination_details": { "card": { "reference_status": "pending", "reference_type": "acquirer_reference_number", "type": "refund" }, "type": "card" },
        "metadata": api.metadata()?, "payment_intent": charge["payment_intent"],
        "reason": api.text("reason"), "receipt_number": null, "source_transfer_reversal": null,
        "status": "succeeded", "transfer_reversal": null,
    });
    api.insert("refund", &refund, Value::Null);
    let refunded = charge["amount_refunded"].as_i64().unwrap_or(0) + amount;
    charge["amount_refunded"] = refunded.into();
    charge["refunded"] = (amount == left).into();
    if let Some(list) = charge["refunds"]["data"].as_array_mut() {
        list.insert(0, refund.clone());
    }
    api.save("charge", &charge);
    api.emit("refund.created", &refund);
    api.emit("charge.refunded", &charge);
    Ok(refund)
}

fn charge_of(api: &Api<'_, '_>) -> Done {
    if let Some(id) = api.text("charge") {
        return api.load("charge", id, "charge");
    }
    let Some(id) = api.text("payment_intent") else {
        let message = "One of the following params should be provided for this request: payment_intent or charge.";
        return Err(StripeError::invalid(message)
            .code("parameter_missing")
            .param("payment_intent"));
    };
    let intent = api.load("payment_intent", id, "payment_intent")?;
    match intent["latest_charge"].as_str().filter(|_| intent["status"] == "succeeded") {
        Some(charge) => api.load("charge", charge, "charge"),
        None => {
            let message =
                format!("This PaymentIntent ({id}) does not have a successful charge to refund.");
            Err(StripeError::invalid(message).param("payment_intent"))
        }
    }
}

/// Refuses to cancel a refund: a completed one cannot be undone.
pub(super) fn cancel(api: &Api<'_, '_>, id: &str) -> Done {
    let refund = api.load("refund", id, "refund")?;
    let status = refund["status"].as_str().unwrap_or_default();
    Err(StripeError::invalid(format!("You cannot cancel a refund with status {status}.")))
}

/// Computes the balance from charges and refunds.
pub(super) fn balance(api: &Api<'_, '_>) -> Value {
    let mut sums: std::collections::BTreeMap<String, i64> = [("usd".to_owned(), 0)].into();
    for charge in api.all("charge") {
        let captured = charge["amount_captured"].as_i64().unwrap_or(0);
        let left = captured - charge["amount_refunded"].as_i64().unwrap_or(0).min(captured);
        *sums.entry(charge["currency"].as_str().unwrap_or("usd").to_owned()).or_default() += left;
    }
    let part = |sums: Vec<(String, i64)>| -> Vec<Value> {
        let entry = |(currency, amount): (String, i64)| json!({ "amount": amount, "currency": currency, "source_types": { "card": amount } });
        sums.into_iter().map(entry).collect()
    };
    let nothing = sums.keys().map(|currency| (currency.clone(), 0)).collect();
    json!({
        "object": "balance", "available": part(nothing), "pending": part(sums.into_iter().collect()),
        "livemode": false,
    })
}
