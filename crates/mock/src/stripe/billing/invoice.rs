//! Invoices: draft, open, paid or void.

use serde_json::{Map, Value, json};

use super::super::{
    api::{Api, id_of},
    error::{Done, StripeError},
    intents, list,
};

fn blank(api: &mut Api<'_, '_>, customer: &Value, currency: &Value) -> Value {
    let id = api.new_id("invoice");
    json!({
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Hothouse",
        "amount_due": 0, "amount_paid": 0, "amount_remaining": 0, "attempt_count": 0,
        "attempted": false, "auto_advance": false, "billing_reason": "manual",
        "collection_method": "charge_automatically", "confirmation_secret": null, "created": api.now,
        "currency": currency, "customer": customer["id"], "customer_email": customer["email"],
        "customer_name": customer["name"], "default_payment_method": null, "description": null,
        "discounts": [], "due_date": null, "ending_balance": null, "hosted_invoice_url": null,
        "invoice_pdf": null, "lines": list::of(&format!("/v1/invoices/{id}/lines"), Vec::new(), false),
        "livemode": false, "metadata": {}, "number": null, "paid": false, "payment_intent": null,
        "period_end": api.now, "period_start": api.now, "status": "draft",
        "status_transitions": { "finalized_at": null, "marked_uncollectible_at": null, "paid_at": null, "voided_at": null },
        "subscription": null, "subtotal": 0, "total": 0, "webhooks_delivered_at": null,
    })
}

fn line(
    api: &mut Api<'_, '_>,
    invoice: &str,
    amount: i64,
    currency: &Value,
    description: Value,
) -> Value {
    json!({
        "id": api.id("il_1", 23), "object": "line_item", "amount": amount, "currency": currency,
        "description": description, "discountable": true, "discounts": [], "invoice": invoice,
        "livemode": false, "metadata": {}, "period": { "end": api.now, "start": api.now },
        "quantity": 1,
    })
}

fn total(invoice: &mut Value) {
    let lines = invoice["lines"]["data"].as_array().cloned().unwrap_or_default();
    let sum: i64 = lines.iter().filter_map(|line| line["amount"].as_i64()).sum();
    for name in ["subtotal", "total", "amount_due", "amount_remaining"] {
        invoice[name] = sum.max(0).into();
    }
}

/// Creates a draft for a customer, with the customer's pending items.
pub(in crate::stripe) fn create(api: &mut Api<'_, '_>) -> Done {
    let customer = api.required("customer")?;
    let customer = api.load("customer", &customer, "customer")?;
    let currency = api.text("currency").unwrap_or("usd").to_owned();
    let mut invoice = blank(api, &customer, &currency.into());
    for name in [
        "description",
        "collection_method",
        "auto_advance",
        "due_date",
        "subscription",
        "default_payment_method",
    ] {
        if api.params.contains_key(name) {
            invoice[name] = api.part(name)?;
        }
    }
    invoice["metadata"] = api.metadata()?;
    let waiting = api.all("invoiceitem").into_iter().rev();
    let waiting =
        waiting.filter(|item| item["customer"] == customer["id"] && item["invoice"].is_null());
    let waiting: Vec<Value> = waiting.cloned().collect();
    let id = id_of(&invoice).to_owned();
    for mut item in waiting {
        item["invoice"] = id.clone().into();
        let amount = item["amount"].as_i64().unwrap_or(0);
        let line = line(api, &id, amount, &item["currency"], item["description"].clone());
        if let Some(lines) = invoice["lines"]["data"].as_array_mut() {
            lines.push(line);
        }
        api.save("invoiceitem", &item);
    }
    total(&mut invoice);
    api.insert("invoice", &invoice, Value::Null);
    api.emit("invoice.created", &invoice);
    Ok(invoice)
}

/// Creates the first invoice of a subscription.
pub(super) fn of_subscription(
    api: &mut Api<'_, '_>,
    subscription: &Value,
    is_trial: bool,
) -> Value {
    let customer =
        subscription["customer"].as_str().and_then(|id| api.find("customer", id)).cloned();
    let mut invoice = blank(api, &customer.unwrap_or_default(), &subscription["currency"]);
    invoice["subscription"] = subscription["id"].clone();
    invoice["parent"] = json!({ "type": "subscription_details", "quote_details": null, "subscription_details": { "subscription": subscription["id"], "metadata": subscription["metadata"] } });
    invoice["billing_reason"] = "subscription_create".into();
    let id = id_of(&invoice).to_owned();
    for item in subscription["items"]["data"].as_array().into_iter().flatten() {
        let each = if is_trial { 0 } else { item["price"]["unit_amount"].as_i64().unwrap_or(0) };
        let amount = each.saturating_mul(item["quantity"].as_i64().unwrap_or(1));
        let line = line(api, &id, amount, &subscription["currency"], "Subscription".into());
        if let Some(lines) = invoice["lines"]["data"].as_array_mut() {
            lines.push(line);
        }
    }
    total(&mut invoice);
    api.insert("invoice", &invoice, Value::Null);
    api.emit("invoice.created", &invoice);
    open(api, &mut invoice);
    invoice
}

/// Numbers an invoice and creates the intent that pays it; one of zero is already paid.
fn open(api: &mut Api<'_, '_>, invoice: &mut Value) {
    let number = api.draft.count("stripe/invoices");
    invoice["number"] = format!("HOTHOUSE-{number:04}").into();
    invoice["status"] = "open".into();
    invoice["status_transitions"]["finalized_at"] = api.now.into();
    let amount = invoice["amount_due"].as_i64().unwrap_or(0);
    if amount > 0 {
        let currency = invoice["currency"].as_str().unwrap_or("usd").to_owned();
        let mut intent = intents::blank(api, amount, &currency);
        intent["customer"] = invoice["customer"].clone();
        intent["invoice"] = invoice["id"].clone();
        api.insert("payment_intent", &intent, Value::Null);
        api.emit("payment_intent.created", &intent);
        invoice["payment_intent"] = intent["id"].clone();
        invoice["confirmation_secret"] =
            json!({ "client_secret": intent["client_secret"], "type": "payment_intent" });
    }
    api.save("invoice", invoice);
    api.emit("invoice.finalized", invoice);
    if amount == 0 {
        mark_paid(api, invoice);
    }
}

fn mark_paid(api: &mut Api<'_, '_>, invoice: &mut Value) {
    invoice["status"] = "paid".into();
    invoice["paid"] = true.into();
    invoice["attempted"] = true.into();
    invoice["amount_paid"] = invoice["amount_due"].clone();
    invoice["amount_remaining"] = 0.into();
    invoice["status_transitions"]["paid_at"] = api.now.into();
    api.save("invoice", invoice);
    api.emit("invoice.paid", invoice);
    api.emit("invoice.payment_succeeded", invoice);
}

/// Finalizes a draft.
pub(in crate::stripe) fn finalize(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut invoice = api.load("invoice", id, "invoice")?;
    match invoice["status"].as_str() {
        Some("draft") => open(api, &mut invoice),
        Some("open") => {}
        _ => {
            let message =
                "This invoice is already finalized, you can't re-finalize a non-draft invoice.";
            return Err(StripeError::invalid(message).code("invoice_not_editable"));
        }
    }
    Ok(invoice)
}

/// Pays an invoice with the payment method of the call, the invoice or the customer.
pub(in crate::stripe) fn pay(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut invoice = finalize(api, id)?;
    if invoice["status"] == "paid" {
        return Ok(invoice);
    }
    if api.flag("paid_out_of_band") {
        mark_paid(api, &mut invoice);
        return Ok(invoice);
    }
    let customer = invoice["customer"].as_str().and_then(|id| api.find("customer", id));
    let default = customer
        .and_then(|customer| customer["invoice_settings"]["default_payment_method"].as_str());
    let own = invoice["default_payment_method"].as_str();
    let method = api.text("payment_method").or(own).or(default).map(str::to_owned);
    let Some(method) = method else {
        let message = "There is no default_payment_method set on this Customer or Invoice. Please set either prior to paying the Invoice.";
        return Err(StripeError::invalid(message).code("invoice_payment_intent_requires_action"));
    };
    charge(api, id, &method)
}

/// Charges an open invoice.
pub(super) fn charge(api: &mut Api<'_, '_>, id: &str, method: &str) -> Done {
    let mut invoice = api.load("invoice", id, "invoice")?;
    let intent = invoice["payment_intent"].as_str().unwrap_or_default().to_owned();
    let mut params = Map::new();
    params.insert("payment_method".to_owned(), method.into());
    params.insert("off_session".to_owned(), "true".into());
    std::mem::swap(&mut api.params, &mut params);
    let outcome = intents::confirm(api, &intent);
    std::mem::swap(&mut api.params, &mut params);
    if let Err(refusal) = outcome {
        invoice["attempted"] = true.into();
        api.save("invoice", &invoice);
        api.emit("invoice.payment_failed", &invoice);
        return Err(refusal);
    }
    mark_paid(api, &mut invoice);
    Ok(invoice)
}

/// Voids an open invoice.
pub(in crate::stripe) fn void(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut invoice = api.load("invoice", id, "invoice")?;
    if invoice["status"] != "open" {
        return Err(StripeError::invalid(
            "You can only pass in open invoices. This invoice isn't open.",
        ));
    }
    invoice["status"] = "void".into();
    invoice["status_transitions"]["voided_at"] = api.now.into();
    api.save("invoice", &invoice);
    api.emit("invoice.voided", &invoice);
    Ok(invoice)
}

/// Deletes a draft.
pub(in crate::stripe) fn delete(api: &mut Api<'_, '_>, id: &str) -> Done {
    let invoice = api.load("invoice", id, "invoice")?;
    if invoice["status"] != "draft" {
        let message = "You can only delete draft invoices.";
        return Err(StripeError::invalid(message).code("invoice_not_editable"));
    }
    api.delete("invoice", id);
    api.emit("invoice.deleted", &invoice);
    Ok(json!({ "id": id, "object": "invoice", "deleted": true }))
}
