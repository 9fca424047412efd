//! Checkout sessions: created by the shop, completed on the hosted page ([`super::page`]).

use serde_json::{Value, json};

use super::{
    api::{Api, id_of},
    billing,
    cards::Behaviour,
    error::{Done, StripeError},
    intents, list, methods, resources,
};

const DAY: i64 = 86_400;

/// The token of a card that pays, and could have been authenticated.
const AUTHENTICATED: &str = "threeDSecureOptional";

/// Creates a session.
pub(super) fn create(api: &mut Api<'_, '_>) -> Done {
    let mode = api.required("mode")?;
    if !["payment", "setup", "subscription"].contains(&mode.as_str()) {
        let message = "Invalid mode: must be one of payment, setup, or subscription";
        return Err(StripeError::invalid(message).param("mode"));
    }
    let is_hosted =
        api.text("ui_mode").is_none_or(|mode| mode == "hosted" || mode == "hosted_page");
    for name in ["success_url", "cancel_url", "return_url"] {
        check_url(api, name, is_hosted && name == "success_url")?;
    }
    let lines = if mode == "setup" { Vec::new() } else { lines(api, &mode)? };
    let subtotal: i64 = lines.iter().filter_map(|line| line["amount_subtotal"].as_i64()).sum();
    let discount = discount(api, subtotal)?;
    let currency = lines.first().map_or(Value::Null, |line| line["currency"].clone());
    let id = api.new_id("checkout.session");
    let url = is_hosted.then(|| format!("https://{}/c/pay/{id}", intents::page_host(api)));
    let mut session = blank(api, &id, &mode);
    session["amount_subtotal"] = if mode == "setup" { Value::Null } else { subtotal.into() };
    session["amount_total"] =
        if mode == "setup" { Value::Null } else { (subtotal - discount).into() };
    session["total_details"]["amount_discount"] = discount.into();
    session["currency"] = currency;
    session["url"] = url.into();
    if mode == "setup" || subtotal == discount {
        session["payment_status"] = "no_payment_required".into();
    }
    let taken = [
        "success_url",
        "cancel_url",
        "return_url",
        "customer",
        "customer_email",
        "client_reference_id",
        "locale",
        "metadata",
        "ui_mode",
        "allow_promotion_codes",
        "billing_address_collection",
        "customer_creation",
        "invoice_creation",
        "shipping_address_collection",
        "submit_type",
        "payment_method_types",
        "phone_number_collection",
        "automatic_tax",
        "consent_collection",
    ];
    for name in taken.into_iter().filter(|name| api.params.contains_key(*name)) {
        session[name] = api.part(name)?;
    }
    if let Some(customer) = api.text("customer") {
        let customer = api.load("customer", customer, "customer")?;
        session["customer_details"] = json!({ "email": customer["email"], "name": customer["name"], "phone": null, "address": null, "tax_exempt": "none", "tax_ids": null });
    } else if let Some(email) = api.text("customer_email") {
        session["customer_details"] = json!({ "email": email, "name": null, "phone": null, "address": null, "tax_exempt": "none", "tax_ids": null });
    }
    if let Some(expires) = api.integer("expires_at")? {
        session["expires_at"] = expires.into();
    }
    let private = json!({
        "lines": lines, "payment_intent_data": api.part("payment_intent_data")?,
        "subscription_data": api.part("subscription_data")?,
        "setup_intent_data": api.part("setup_intent_data")?, "intent": null,
    });
    api.insert("checkout.session", &session, private);
    Ok(session)
}

fn blank(api: &Api<'_, '_>, id: &str, mode: &str) -> Value {
    let mut session = json!({
        "id": id, "object": "checkout.session", "created": api.now, "expires_at": api.now + DAY,
        "mode": mode,
    });
    resources::merge(&mut session, &resources::defaults("checkout.session"));
    match mode {
        "payment" => session["customer_creation"] = "if_required".into(),
        "subscription" => session["payment_method_collection"] = "always".into(),
        _ => {}
    }
    session
}

/// Checks a URL that pages link back to: only web addresses are allowed.
fn check_url(api: &Api<'_, '_>, name: &str, is_required: bool) -> Done<()> {
    let Some(url) = api.text(name) else {
        return if is_required { Err(StripeError::missing_param(name)) } else { Ok(()) };
    };
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = !url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\');
    match is_web && is_plain && url.len() <= 5_000 {
        true => Ok(()),
        false => Err(StripeError::invalid("Not a valid URL").code("url_invalid").param(name)),
    }
}

fn lines(api: &mut Api<'_, '_>, mode: &str) -> Done<Vec<Value>> {
    let given = match api.part("line_items")? {
        Value::Array(items) if !items.is_empty() => items,
        _ => return Err(StripeError::missing_param("line_items")),
    };
    let mut lines = Vec::with_capacity(given.len());
    for (at, item) in given.iter().enumerate() {
        let param = format!("line_items[{at}]");
        let price = price(api, item, &param)?;
        if mode == "payment" && price["type"] == "recurring" {
            let message = "You specified `payment` mode but passed a recurring price. Either switch to `subscription` mode or use only one-time prices.";
            return Err(StripeError::invalid(message).param(&param));
        }
        let quantity = item["quantity"].as_i64().unwrap_or(1);
        let amount = price["unit_amount"].as_i64().and_then(|amount| amount.checked_mul(quantity));
        let Some(amount) = amount.filter(|amount| (0..=9_999_999_999).contains(amount)) else {
            return Err(StripeError::invalid("Invalid non-negative integer")
                .param(&format!("{param}[price_data][unit_amount]")));
        };
        let product = price["product"].as_str().and_then(|id| api.find("product", id));
        let name = product.map_or(Value::Null, |product| product["name"].clone());
        lines.push(json!({
            "id": api.id("li_1", 23), "object": "item", "amount_discount": 0,
            "amount_subtotal": amount, "amount_tax": 0, "amount_total": amount,
            "currency": price["currency"], "description": name, "metadata": {}, "price": price,
            "quantity": quantity,
        }));
    }
    Ok(lines)
}

/// Returns the price of a line, or creates one from `price_data`.
pub(super) fn price(api: &mut Api<'_, '_>, item: &Value, param: &str) -> Done {
    if let Some(id) = item["price"].as_str() {
        return api.load("price", id, &format!("{param}[price]"));
    }
    let Value::Object(data) = &item["price_data"] else {
        return Err(StripeError::missing_param(&format!("{param}[price]")));
    };
    let mut params = data.clone();
    std::mem::swap(&mut api.params, &mut params);
    let price = resources::create(api, "price");
    std::mem::swap(&mut api.params, &mut params);
    price
}

fn discount(api: &Api<'_, '_>, subtotal: i64) -> Done<i64> {
    let Value::Array(discounts) = api.part("discounts")? else { return Ok(0) };
    let Some(first) = discounts.first() else { return Ok(0) };
    let coupon = match (first["coupon"].as_str(), first["promotion_code"].as_str()) {
        (Some(id), _) => api.load("coupon", id, "discounts[0][coupon]")?,
        (None, Some(id)) => {
            let code = api.load("promotion_code", id, "discounts[0][promotion_code]")?;
            code["coupon"].clone()
        }
        _ => return Ok(0),
    };
    Ok(reduction(&coupon, subtotal))
}

/// Returns the discount that a coupon gives on an amount.
pub(super) fn reduction(coupon: &Value, amount: i64) -> i64 {
    if let Some(off) = coupon["amount_off"].as_i64() {
        return off.clamp(0, amount.max(0));
    }
    let percent = coupon["percent_off"].as_f64().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "amounts are far below 2^53"
    )]
    let off = (amount as f64 * percent / 100.0).round() as i64;
    off.clamp(0, amount.max(0))
}

/// Returns the lines of a session.
pub(super) fn line_items(api: &Api<'_, '_>, id: &str) -> Done {
    api.load("checkout.session", id, "session")?;
    let lines =
        api.private("checkout.session", id)["lines"].as_array().cloned().unwrap_or_default();
    Ok(list::of(&format!("/v1/checkout/sessions/{id}/line_items"), lines, false))
}

/// Expires an unpaid session.
pub(super) fn expire(api: &mut Api<'_, '_>, id: &str) -> Done {
    let mut session = api.load("checkout.session", id, "session")?;
    if session["status"] != "open" {
        let message = "Only Checkout Sessions with a status in [\"open\"] can be expired.";
        return Err(StripeError::invalid(message));
    }
    session["status"] = "expired".into();
    session["url"] = Value::Null;
    api.save("checkout.session", &session);
    api.emit("checkout.session.expired", &session);
    Ok(session)
}

/// Who pays, and how.
pub(super) struct Payer<'a> {
    pub email: &'a str,
    pub name: &'a str,
    pub card: &'a str,
}

/// Pays a session with a card. The intent may wait for authentication; then the session stays open.
pub(super) fn pay(api: &mut Api<'_, '_>, session: &Value, payer: &Payer<'_>) -> Done<Step> {
    let mut session = session.clone();
    let data = json!({ "type": "card", "card": { "number": payer.card }, "billing_details": { "email": payer.email, "name": payer.name } });
    let method = methods::of_data(api, &data)?;
    session["customer_details"] = json!({ "email": payer.email, "name": payer.name, "phone": null, "address": null, "tax_exempt": "none", "tax_ids": null });
    api.save("checkout.session", &session);
    let method = id_of(&method).to_owned();
    let mode = session["mode"].as_str().unwrap_or_default().to_owned();
    let outcome = match mode.as_str() {
        "payment" if session["amount_total"] != 0 => pay_once(api, &session, &method)?,
        "payment" => Step::Done,
        _ if methods::behaviour(api, &method) == Behaviour::Authenticates => {
            let mut private = api.private("checkout.session", id_of(&session));
            private["waiting_method"] = method.into();
            api.set_private("checkout.session", id_of(&session), private);
            Step::Authenticate
        }
        _ => return keep_method(api, session, &method).map(|_| Step::Done),
    };
    if outcome == Step::Done {
        finish(api, session)?;
    }
    Ok(outcome)
}

/// Saves a card for later: sets it up, or subscribes with it. A declined card leaves the session open.
fn keep_method(api: &mut Api<'_, '_>, mut session: Value, method: &str) -> Done {
    ensure_customer(api, &mut session, method)?;
    match session["mode"].as_str() {
        Some("setup") => set_up(api, &mut session, method)?,
        _ => subscribe(api, &mut session, method)?,
    }
    finish(api, session)
}

/// Returns the card that waits for the customer's authentication, if one is to be saved.
pub(super) fn waiting_method(api: &Api<'_, '_>, session: &Value) -> Option<String> {
    let private = api.private("checkout.session", id_of(session));
    private["waiting_method"].as_str().map(str::to_owned)
}

/// Ends the wait for authentication: the card is saved, or the customer refused.
pub(super) fn end_wait(
    api: &mut Api<'_, '_>,
    session: Value,
    method: &str,
    is_authenticated: bool,
) -> Done {
    let mut private = api.private("checkout.session", id_of(&session));
    private["waiting_method"] = Value::Null;
    api.set_private("checkout.session", id_of(&session), private);
    if !is_authenticated {
        let refused = methods::decline("setup_intent_authentication_failure", None);
        return Err(StripeError { keeps_changes: true, ..refused });
    }
    // From now on it pays without authentication.
    api.set_private("payment_method", method, json!({ "token": AUTHENTICATED }));
    keep_method(api, session, method)
}

/// What the page shows next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    Authenticate,
}

/// Returns the intent of a session, created on the first attempt and used by later ones.
fn pay_once(api: &mut Api<'_, '_>, session: &Value, method: &str) -> Done<Step> {
    let id = id_of(session);
    let mut private = api.private("checkout.session", id);
    let intent = match private["intent"].as_str() {
        Some(intent) => intent.to_owned(),
        None => {
            let intent = intent_of(api, session, &private["payment_intent_data"]);
            private["intent"] = intent["id"].clone();
            api.set_private("checkout.session", id, private);
            id_of(&intent).to_owned()
        }
    };
    let mut params = serde_json::Map::new();
    params.insert("payment_method".to_owned(), method.into());
    std::mem::swap(&mut api.params, &mut params);
    let confirmed = intents::confirm(api, &intent);
    std::mem::swap(&mut api.params, &mut params);
    match confirmed?["status"].as_str() {
        Some("requires_action") => Ok(Step::Authenticate),
        _ => Ok(Step::Done),
    }
}

fn intent_of(api: &mut Api<'_, '_>, session: &Value, data: &Value) -> Value {
    let amount = session["amount_total"].as_i64().unwrap_or(0);
    let currency = session["currency"].as_str().unwrap_or("usd").to_owned();
    let mut intent = intents::blank(api, amount, &currency);
    resources::merge(&mut intent, data);
    if intent["metadata"].is_null() {
        intent["metadata"] = json!({});
    }
    intent["customer"] = session["customer"].clone();
    api.insert("payment_intent", &intent, Value::Null);
    api.emit("payment_intent.created", &intent);
    intent
}

fn ensure_customer(api: &mut Api<'_, '_>, session: &mut Value, method: &str) -> Done<()> {
    if session["customer"].is_null() {
        let details = session["customer_details"].clone();
        let mut params = serde_json::Map::new();
        for name in ["email", "name"] {
            params.insert(name.to_owned(), details[name].clone());
        }
        std::mem::swap(&mut api.params, &mut params);
        let customer = resources::create(api, "customer");
        std::mem::swap(&mut api.params, &mut params);
        session["customer"] = customer?["id"].clone();
        api.save("checkout.session", session);
    }
    let customer = session["customer"].as_str().unwrap_or_default().to_owned();
    methods::attach(api, method, &customer).map(drop)
}

fn set_up(api: &mut Api<'_, '_>, session: &mut Value, method: &str) -> Done<()> {
    let mut params = serde_json::Map::new();
    params.insert("payment_method".to_owned(), method.into());
    params.insert("confirm".to_owned(), "true".into());
    params.insert("customer".to_owned(), session["customer"].clone());
    std::mem::swap(&mut api.params, &mut params);
    let intent = intents::setup::create(api);
    std::mem::swap(&mut api.params, &mut params);
    session["setup_intent"] = intent?["id"].clone();
    Ok(())
}

fn subscribe(api: &mut Api<'_, '_>, session: &mut Value, method: &str) -> Done<()> {
    let private = api.private("checkout.session", id_of(session));
    let lines = private["lines"].as_array().cloned().unwrap_or_default();
    let items: Vec<Value> = lines
        .iter()
        .map(|line| json!({ "price": line["price"]["id"], "quantity": line["quantity"].to_string() }))
        .collect();
    let mut params = private["subscription_data"].as_object().cloned().unwrap_or_default();
    params.insert("customer".to_owned(), session["customer"].clone());
    params.insert("items".to_owned(), Value::Array(items));
    params.insert("default_payment_method".to_owned(), method.into());
    params.insert("payment_behavior".to_owned(), "error_if_incomplete".into());
    std::mem::swap(&mut api.params, &mut params);
    let subscription = billing::subscribe(api);
    std::mem::swap(&mut api.params, &mut params);
    let subscription = subscription?;
    session["subscription"] = subscription["id"].clone();
    session["invoice"] = subscription["latest_invoice"].clone();
    Ok(())
}

/// Completes a paid session.
pub(super) fn finish(api: &mut Api<'_, '_>, mut session: Value) -> Done {
    let private = api.private("checkout.session", id_of(&session));
    session["payment_intent"] = private["intent"].clone();
    session["status"] = "complete".into();
    session["url"] = Value::Null;
    if session["payment_status"] == "unpaid" {
        session["payment_status"] = "paid".into();
    }
    api.save("checkout.session", &session);
    api.emit("checkout.session.completed", &session);
    Ok(session)
}
