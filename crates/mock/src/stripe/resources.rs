//! Resources that are only stored, as `vendors/stripe/resources.json` describes them.

use std::sync::LazyLock;

use hothouse_model::config::rules::nearest;
use serde_json::{Map, Value, json};

use super::{
    api::{Api, id_of, integer},
    error::{Done, StripeError},
};
use crate::vendor;

static RESOURCES: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let bytes = vendor::file("stripe", "resources.json").unwrap_or_default();
    serde_json::from_slice(bytes).expect("a test reads it")
});

/// Integer parameters, wherever they occur.
const INTEGERS: [&str; 24] = [
    "amount",
    "unit_amount",
    "quantity",
    "amount_off",
    "duration_in_months",
    "max_redemptions",
    "redeem_by",
    "expires_at",
    "interval_count",
    "trial_period_days",
    "trial_end",
    "exp_month",
    "exp_year",
    "days_until_due",
    "application_fee_amount",
    "amount_to_capture",
    "minimum_amount",
    "balance",
    "limit",
    "cancel_at",
    "billing_cycle_anchor",
    "minimum",
    "maximum",
    "due_date",
];

/// Boolean parameters.
const SWITCHES: [&str; 19] = [
    "active",
    "confirm",
    "off_session",
    "enabled",
    "inclusive",
    "shippable",
    "cancel_at_period_end",
    "auto_advance",
    "discountable",
    "allow_promotion_codes",
    "capture",
    "first_time_transaction",
    "adjustable",
    "collection_enabled",
    "invoice_now",
    "prorate",
    "paid",
    "proration",
    "valid",
];

/// Parameters that control the API, and are not stored.
const NOT_STORED: [&str; 5] = ["expand", "limit", "starting_after", "ending_before", "id"];

/// Returns the prefix and the length of a kind's ids.
pub(super) fn shape(kind: &str) -> (&'static str, usize) {
    let resource = RESOURCES.get(kind);
    let prefix = resource.and_then(|resource| resource["prefix"].as_str()).unwrap_or("obj_");
    let length = resource.and_then(|resource| resource["length"].as_u64()).unwrap_or(14);
    (prefix, usize::try_from(length).unwrap_or(14))
}

/// Returns the default fields of a kind.
pub(super) fn defaults(kind: &str) -> Value {
    RESOURCES.get(kind).map_or(Value::Null, |resource| resource["defaults"].clone())
}

/// Returns the kind whose ids have the same prefix.
pub(super) fn kind_of_id(id: &str) -> Option<&'static str> {
    let fits = |resource: &Value| {
        let prefix = resource["prefix"].as_str().unwrap_or_default();
        // In `price_1` and `pi_3`, the digit belongs to the id, not to the kind.
        let prefix = prefix.trim_end_matches(|c: char| c != '_');
        !prefix.is_empty() && id.starts_with(prefix)
    };
    let found = RESOURCES.iter().filter(|(_, resource)| fits(resource));
    found
        .max_by_key(|(_, resource)| resource["prefix"].as_str().map(str::len))
        .map(|(kind, _)| kind.as_str())
}

/// Returns the kind that is stored at a path such as `checkout/sessions`.
pub(super) fn kind_at(path: &str) -> Option<&'static str> {
    let found = RESOURCES.iter().find(|(_, resource)| resource["path"].as_str() == Some(path));
    found.map(|(kind, _)| kind.as_str())
}

pub(super) fn path_of(kind: &str) -> &'static str {
    RESOURCES.get(kind).and_then(|resource| resource["path"].as_str()).unwrap_or_default()
}

/// Returns whether a kind supports an operation.
pub(super) fn can(kind: &str, operation: &str) -> bool {
    let list = RESOURCES.get(kind).and_then(|resource| resource["operations"].as_array());
    list.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(operation)))
}

/// Returns method and path of all stored resources.
pub(super) fn routes() -> Vec<(&'static str, String)> {
    let mut routes = Vec::new();
    for kind in RESOURCES.keys() {
        let path = format!("/v1/{}", path_of(kind));
        for (operation, method, end) in [
            ("create", "POST", ""),
            ("list", "GET", ""),
            ("search", "GET", "/search"),
            ("retrieve", "GET", "/{id}"),
            ("update", "POST", "/{id}"),
            ("delete", "DELETE", "/{id}"),
        ] {
            if can(kind, operation) {
                routes.push((method, format!("{path}{end}")));
            }
        }
    }
    routes
}

/// Converts a parameter to its type; forms only have text. An empty text unsets.
pub(super) fn typed(name: &str, value: Value) -> Done {
    Ok(match value {
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Object(entries) if name == "metadata" => {
            // Metadata is text, and an empty value removes an entry.
            let kept = entries.into_iter().filter(|(_, value)| value.as_str() != Some(""));
            Value::Object(kept.collect())
        }
        Value::Object(entries) => {
            let typed = entries.into_iter().map(|(name, value)| {
                let value = typed(&name, value)?;
                Ok((name, value))
            });
            Value::Object(typed.collect::<Done<_>>()?)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| typed("", item)).collect::<Done<_>>()?)
        }
        text @ Value::String(_) if INTEGERS.contains(&name) => integer(name, &text)?.into(),
        Value::String(text) if SWITCHES.contains(&name) && (text == "true" || text == "false") => {
            Value::Bool(text == "true")
        }
        Value::String(text) if name == "percent_off" || name == "percentage" => {
            let number = text.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
            let wrong = || StripeError::invalid(format!("Invalid decimal: {name}")).param(name);
            number.map(Value::from).ok_or_else(wrong)?
        }
        other => other,
    })
}

/// Refuses parameters that Stripe does not know, for kinds whose parameters are listed.
fn check_params(api: &Api<'_, '_>, kind: &str) -> Done<()> {
    let listed = RESOURCES.get(kind).and_then(|resource| resource["params"].as_array());
    let Some(listed) = listed else { return Ok(()) };
    let known = || listed.iter().filter_map(Value::as_str);
    let is_known = |name: &str| NOT_STORED.contains(&name) || known().any(|listed| listed == name);
    match api.params.keys().find(|name| !is_known(name)) {
        Some(name) => Err(StripeError::unknown_param(name, nearest(name, known()))),
        None => Ok(()),
    }
}

/// Creates an object of a kind.
pub(super) fn create(api: &mut Api<'_, '_>, kind: &str) -> Done {
    check_params(api, kind)?;
    let resource = RESOURCES.get(kind).cloned().unwrap_or_default();
    for name in resource["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if api.params.get(name).is_none_or(|value| value.as_str() == Some("")) {
            return Err(StripeError::missing_param(name));
        }
    }
    let chosen = api.text("id").map(str::to_owned);
    let id = match chosen.filter(|_| kind == "coupon" || kind == "product") {
        Some(id) if api.find(kind, &id).is_some() => {
            let message = format!("{kind} already exists.");
            return Err(StripeError::invalid(message).code("resource_already_exists"));
        }
        Some(id) => id,
        None => api.new_id(kind),
    };
    let mut object = json!({ "id": id, "object": kind, "created": api.now, "livemode": false });
    merge(&mut object, &resource["defaults"]);
    apply(api, &mut object)?;
    complete(api, kind, &mut object)?;
    api.insert(kind, &object, Value::Null);
    if let Some(event) = resource["event"].as_str() {
        api.emit(&format!("{event}.created"), &object);
    }
    Ok(object)
}

/// Updates an object.
pub(super) fn update(api: &mut Api<'_, '_>, kind: &str, id: &str) -> Done {
    let mut object = api.load(kind, id, "id")?;
    check_params(api, kind)?;
    let before = object.clone();
    apply(api, &mut object)?;
    complete(api, kind, &mut object)?;
    api.save(kind, &object);
    let event = RESOURCES.get(kind).and_then(|resource| resource["event"].as_str());
    if let Some(event) = event.filter(|_| object != before) {
        api.emit(&format!("{event}.updated"), &object);
    }
    Ok(object)
}

/// Deletes an object.
pub(super) fn delete(api: &mut Api<'_, '_>, kind: &str, id: &str) -> Done {
    let object = api.load(kind, id, "id")?;
    api.delete(kind, id);
    if let Some(event) = RESOURCES.get(kind).and_then(|resource| resource["event"].as_str()) {
        api.emit(&format!("{event}.deleted"), &object);
    }
    Ok(json!({ "id": id, "object": kind, "deleted": true }))
}

/// Stores all parameters except those that control the API.
pub(super) fn apply(api: &Api<'_, '_>, object: &mut Value) -> Done<()> {
    for (name, value) in api.params.clone() {
        if NOT_STORED.contains(&name.as_str()) {
            continue;
        }
        // Metadata is merged, and an empty value removes an entry.
        if let (true, Value::Object(new)) = (name == "metadata", &value) {
            let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
            for (key, value) in new {
                match value.as_str() {
                    Some("") => drop(metadata.remove(key)),
                    _ => drop(metadata.insert(key.clone(), value.clone())),
                }
            }
            object["metadata"] = Value::Object(metadata);
            continue;
        }
        let value = typed(&name, value)?;
        match (&mut object[&name], value) {
            (old @ Value::Object(_), Value::Object(new)) => merge(old, &Value::Object(new)),
            (place, value) => *place = value,
        }
    }
    Ok(())
}

pub(super) fn merge(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// Adds what some kinds need besides their parameters.
fn complete(api: &mut Api<'_, '_>, kind: &str, object: &mut Value) -> Done<()> {
    match kind {
        "customer" => {
            // The token of an old integration, or an initial payment method.
            if let Some(method) = api.text("payment_method").map(str::to_owned) {
                let method = super::methods::attach(api, &method, id_of(object))?;
                object["payment_method"] = method["id"].clone();
            }
            for gone in ["source", "payment_method"] {
                object.as_object_mut().and_then(|entries| entries.remove(gone));
            }
            if object["invoice_prefix"].is_null() {
                let prefix: String = id_of(object).chars().rev().take(8).collect();
                object["invoice_prefix"] = prefix.to_uppercase().into();
            }
        }
        "price" => complete_price(api, object)?,
        "promotion_code" => {
            // Since 2025-09-30 the coupon is named by `promotion`.
            let named = &object["promotion"]["coupon"];
            let coupon = match if named.is_string() { named } else { &object["coupon"] } {
                Value::String(id) => api.load("coupon", id, "coupon")?,
                Value::Object(_) => object["coupon"].clone(),
                _ => return Err(StripeError::missing_param("promotion")),
            };
            object["promotion"] = json!({ "type": "coupon", "coupon": coupon["id"] });
            object["coupon"] = coupon;
            if object["code"].is_null() {
                object["code"] = api.id("", 8).to_uppercase().into();
            }
        }
        "coupon" if object["percent_off"].is_null() && object["amount_off"].is_null() => {
            let message = "You must pass either `percent_off` or `amount_off`.";
            return Err(StripeError::invalid(message)
                .code("parameter_missing")
                .param("percent_off"));
        }
        "webhook_endpoint" if object["secret"].is_null() => {
            object["secret"] = api.id("whsec_", 32).into();
        }
        _ => {}
    }
    Ok(())
}

fn complete_price(api: &mut Api<'_, '_>, price: &mut Value) -> Done<()> {
    if let Some(entries) = price.as_object_mut()
        && let Some(product) = entries.remove("product_data")
    {
        let mut params = product.as_object().cloned().unwrap_or_default();
        std::mem::swap(&mut api.params, &mut params);
        let product = create(api, "product");
        std::mem::swap(&mut api.params, &mut params);
        price["product"] = product?["id"].clone();
    }
    let product = price["product"].as_str().map(str::to_owned);
    let Some(product) = product else { return Err(StripeError::missing_param("product")) };
    api.load("product", &product, "product")?;
    if let Value::Object(recurring) = &mut price["recurring"] {
        for (name, value) in [("interval_count", json!(1)), ("usage_type", json!("licensed"))] {
            recurring.entry(name).or_insert(value);
        }
        price["type"] = "recurring".into();
    }
    if let Some(amount) = price["unit_amount"].as_i64() {
        price["unit_amount_decimal"] = amount.to_string().into();
    }
    let currency = price["currency"].as_str().unwrap_or_default().to_lowercase();
    price["currency"] = currency.into();
    Ok(())
}
