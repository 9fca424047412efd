//! `expand[]=customer`, `expand[]=data.payment_intent.latest_charge`.

use serde_json::Value;

use super::{
    api::{Api, id_of},
    checkout,
    error::{Done, StripeError},
    resources,
};

/// The maximum depth, as with Stripe.
const DEPTH: usize = 4;

/// Replaces ids with the objects that they name, where the call requests it.
pub(super) fn expand(api: &mut Api<'_, '_>, mut object: Value) -> Done {
    let paths = match api.params.get("expand") {
        Some(Value::Array(paths)) => paths.clone(),
        Some(Value::String(path)) => vec![Value::String(path.clone())],
        _ => return Ok(object),
    };
    for path in paths.iter().filter_map(Value::as_str).take(100) {
        let steps: Vec<&str> = path.split('.').collect();
        let depth = if steps.first() == Some(&"data") { DEPTH + 1 } else { DEPTH };
        if steps.len() > depth {
            let message = "You cannot expand more than 4 levels of a property.";
            return Err(StripeError::invalid(message).param("expand"));
        }
        walk(api, &mut object, &steps);
    }
    Ok(object)
}

fn walk(api: &Api<'_, '_>, object: &mut Value, steps: &[&str]) {
    let Some((step, rest)) = steps.split_first() else { return };
    if let Value::Array(items) = object {
        return items.iter_mut().for_each(|item| walk(api, item, steps));
    }
    if !object.is_object() {
        return;
    }
    if *step == "line_items" && object["object"] == "checkout.session" {
        let lines = checkout::line_items(api, id_of(object));
        object["line_items"] = lines.unwrap_or_default();
    }
    let Some(value) = object.get_mut(*step) else { return };
    if let Value::String(id) = value
        && let Some(found) = find(api, step, id)
    {
        *value = found;
    }
    walk(api, value, rest);
}

fn find(api: &Api<'_, '_>, name: &str, id: &str) -> Option<Value> {
    let kind = resources::kind_of_id(id).or((name == "coupon").then_some("coupon"))?;
    api.find(kind, id).cloned()
}
