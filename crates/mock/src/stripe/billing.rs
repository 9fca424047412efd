//! Simplified subscriptions: the first period is billed, later ones never come, because a mock has
//! no clock. Trials, cancellations and changes of items are stored as requested.

pub(super) mod invoice;

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    checkout,
    error::{Done, StripeError},
    list, resources,
};

const DAY: i64 = 86_400;

/// Starts a subscription, and bills its first period.
pub(super) fn subscribe(api: &mut Api<'_, '_>) -> Done {
    let customer = api.required("customer")?;
    let customer = api.load("customer", &customer, "customer")?;
    let id = api.new_id("subscription");
    let items = read_items(api, &id)?;
    let price = &items[0]["price"];
    let (start, end) = (api.now, api.now + period(price));
    let trial = api.integer("trial_period_days")?.map(|days| api.now + days.clamp(0, 3650) * DAY);
    let trial = trial.or(api.integer("trial_end").ok().flatten());
    let method = api.text("default_payment_method").map(Value::from);
    let mut subscription = json!({
        "id": id, "object": "subscription", "application": null, "automatic_tax": { "enabled": false },
        "billing_cycle_anchor": start, "cancel_at": null, "cancel_at_period_end": false,
        "canceled_at": null, "collection_method": api.text("collection_method").unwrap_or("charge_automatically"),
        "created": start, "currency": price["currency"], "current_period_end": trial.unwrap_or(end),
        "current_period_start": start, "customer": customer["id"], "days_until_due": null,
        "default_payment_method": method, "description": null, "discounts": [], "ended_at": null,
        "items": list::of(&format!("/v1/subscription_items?subscription={id}"), items, false),
        "latest_invoice": null, "livemode": false, "metadata": api.metadata()?,
        "pending_setup_intent": null, "schedule": null, "start_date": start, "status": "active",
        "test_clock": null, "trial_end": trial, "trial_start": trial.map(|_| start),
    });
    if trial.is_some() {
        subscription["status"] = "trialing".into();
    }
    api.insert("subscription", &subscription, Value::Null);
    let bill = invoice::of_subscription(api, &subscription, trial.is_some());
    subscription["latest_invoice"] = bill["id"].clone();
    settle(api, &mut subscription, &bill, &customer)?;
    api.save("subscription", &subscription);
    api.emit("customer.subscription.created", &subscription);
    Ok(subscription)
}

/// Pays the first invoice, or leaves it open, as the call requests.
fn settle(
    api: &mut Api<'_, '_>,
    subscription: &mut Value,
    bill: &Value,
    customer: &Value,
) -> Done<()> {
    if bill["amount_due"] == 0 || subscription["collection_method"] == "send_invoice" {
        return Ok(());
    }
    let behaviour = api.text("payment_behavior").unwrap_or("allow_incomplete").to_owned();
    if behaviour == "default_incomplete" {
        subscription["status"] = "incomplete".into();
        return Ok(());
    }
    let own = subscription["default_payment_method"].as_str();
    let method = own.or(customer["invoice_settings"]["default_payment_method"].as_str());
    let Some(method) = method.map(str::to_owned) else {
        let message = "This customer has no attached payment source or default payment method. Please consider adding a default payment method.";
        return Err(StripeError::invalid(message).code("resource_missing"));
    };
    match invoice::charge(api, id_of(bill), &method) {
        Ok(_) => Ok(()),
        Err(refusal) if behaviour == "error_if_incomplete" => {
            Err(StripeError { keeps_changes: false, ..refusal })
        }
        Err(_) => {
            subscription["status"] = "incomplete".into();
            Ok(())
        }
    }
}

fn read_items(api: &mut Api<'_, '_>, subscription: &str) -> Done<Vec<Value>> {
    let given = match api.part("items")? {
        Value::Array(items) if !items.is_empty() => items,
        _ => return Err(StripeError::missing_param("items")),
    };
    let mut items = Vec::with_capacity(given.len());
    for (at, item) in given.iter().enumerate() {
        let price = checkout::price(api, item, &format!("items[{at}]"))?;
        let end = api.now + period(&price);
        items.push(json!({
            "id": api.id("si_", 14), "object": "subscription_item", "created": api.now,
            "current_period_end": end, "current_period_start": api.now, "discounts": [],
            "metadata": {}, "price": price, "plan": null, "subscription": subscription,
            "quantity": item["quantity"].as_i64().unwrap_or(1), "tax_rates": [],
        }));
    }
    Ok(items)
}

fn period(price: &Value) -> i64 {
    let days = match price["recurring"]["interval"].as_str() {
        Some("day") => 1,
        Some("week") => 7,
        Some("year") => 365,
        _ => 30,
    };
    days * DAY * price["recurring"]["interval_count"].as_i64().unwrap_or(1).clamp(1, 36)
}

/// Updates a subscription.
pub(super) fn update(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut subscription = api.load("subscription", id, "subscription")?;
    if let Value::Array(changes) = api.part("items")? {
        change_items(api, &mut subscription, &changes)?;
    }
    let items = api.params.remove("items");
    resources::apply(api, &mut subscription)?;
    api.params.extend(items.map(|items| ("items".to_owned(), items)));
    if subscription["cancel_at_period_end"] == true && subscription["canceled_at"].is_null() {
        subscription["canceled_at"] = api.now.into();
        subscription["cancel_at"] = subscription["current_period_end"].clone();
    } else if subscription["cancel_at_period_end"] == false {
        subscription["canceled_at"] = Value::Null;
        subscription["cancel_at"] = Value::Null;
    }
    api.save("subscription", &subscription);
    api.emit("customer.subscription.updated", &subscription);
    Ok(subscription)
}

fn change_items(api: &mut Api<'_, '_>, subscription: &mut Value, changes: &[Value]) -> Done<()> {
    for (at, change) in changes.iter().enumerate() {
        let has_price = change["price"].is_string() || change["price_data"].is_object();
        let price = match has_price {
            true => Some(checkout::price(api, change, &format!("items[{at}]"))?),
            false => None,
        };
        let Some(items) = subscription["items"]["data"].as_array_mut() else { return Ok(()) };
        let place =
            items.iter().position(|item| change["id"].is_string() && item["id"] == change["id"]);
        let Some(place) = place else {
            return Err(StripeError::invalid("No such subscription_item in this subscription.")
                .param("items"));
        };
        if change["deleted"] == "true" {
            items.remove(place);
            continue;
        }
        if let Some(price) = price {
            items[place]["price"] = price;
        }
        if let Some(quantity) = change["quantity"].as_i64() {
            items[place]["quantity"] = quantity.into();
        }
    }
    Ok(())
}

/// Cancels a subscription.
pub(super) fn cancel(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut subscription = api.load("subscription", id, "subscription")?;
    if subscription["status"] == "canceled" {
        return Err(StripeError::not_found("subscription", id, "id"));
    }
    subscription["status"] = "canceled".into();
    subscription["canceled_at"] = api.now.into();
    subscription["ended_at"] = api.now.into();
    api.save("subscription", &subscription);
    api.emit("customer.subscription.deleted", &subscription);
    Ok(subscription)
}

/// Returns the items of a subscription.
pub(super) fn items(api: &Api<'_, '_>) -> Done {
    let id = api.required("subscription")?;
    Ok(api.load("subscription", &id, "subscription")?["items"].clone())
}
