//! Routes calls to their implementation.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{
    api::Api,
    billing, checkout,
    error::{Done, StripeError},
    expand, intents, list, methods, refunds, resources,
};
use crate::{
    path::{PathTemplate, PathTree},
    request::Call,
};

/// Routes other than those of stored resources.
const SPECIAL: [(&str, &str); 44] = [
    ("GET", "/v1/account"),
    ("GET", "/v1/accounts/{id}"),
    ("GET", "/v1/balance"),
    ("GET", "/v1/balance/history"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/payment_methods"),
    ("POST", "/v1/payment_methods/{id}/attach"),
    ("POST", "/v1/payment_methods/{id}/detach"),
    ("GET", "/v1/customers/{id}/payment_methods"),
    ("GET", "/v1/customers/{id}/payment_methods/{method}"),
    ("POST", "/v1/payment_intents"),
    ("POST", "/v1/payment_intents/{id}"),
    ("POST", "/v1/payment_intents/{id}/confirm"),
    ("POST", "/v1/payment_intents/{id}/capture"),
    ("POST", "/v1/payment_intents/{id}/cancel"),
    ("POST", "/v1/setup_intents"),
    ("POST", "/v1/setup_intents/{id}/confirm"),
    ("POST", "/v1/setup_intents/{id}/cancel"),
    ("POST", "/v1/charges"),
    ("POST", "/v1/charges/{id}/capture"),
    ("POST", "/v1/refunds"),
    ("POST", "/v1/refunds/{id}/cancel"),
    ("POST", "/v1/checkout/sessions"),
    ("POST", "/v1/checkout/sessions/{id}/expire"),
    ("GET", "/v1/checkout/sessions/{id}/line_items"),
    ("POST", "/v1/subscriptions"),
    ("POST", "/v1/subscriptions/{id}"),
    ("DELETE", "/v1/subscriptions/{id}"),
    ("GET", "/v1/subscription_items"),
    ("POST", "/v1/invoices"),
    ("DELETE", "/v1/invoices/{id}"),
    ("POST", "/v1/invoices/{id}/finalize"),
    ("POST", "/v1/invoices/{id}/pay"),
    ("POST", "/v1/invoices/{id}/void"),
    ("POST", "/v1/invoices/{id}/send"),
    ("GET", "/v1/invoices/{id}/lines"),
    ("DELETE", "/v1/customers/{id}/discount"),
    ("GET", "/c/pay/{id}"),
    ("POST", "/c/pay/{id}"),
    ("GET", "/c/authenticate/{id}"),
    ("POST", "/c/authenticate/{id}"),
    ("GET", "/c/receipt/{id}"),
    ("GET", "/v1/customers/{id}/balance_transactions"),
    ("GET", "/v1/country_specs"),
];

static TABLE: LazyLock<(Vec<(&'static str, PathTemplate)>, PathTree)> = LazyLock::new(|| {
    let special = SPECIAL.iter().map(|(method, path)| (*method, (*path).to_owned()));
    let mut routes = Vec::new();
    let mut tree = PathTree::default();
    for (method, path) in special.chain(resources::routes()) {
        let path = PathTemplate::parse(&path).expect("a test reads all of them");
        tree.insert(&path, routes.len());
        routes.push((method, path));
    }
    (routes, tree)
});

/// Returns all routes.
pub(super) fn all() -> &'static [(&'static str, PathTemplate)] {
    &TABLE.0
}

/// Returns the template of a call's path, if the path is supported.
pub(super) fn label(call: &Call<'_>) -> Option<&'static PathTemplate> {
    let (routes, tree) = &*TABLE;
    let found = tree.find(&call.segments).into_iter().map(|number| &routes[number]);
    let fitting = found.filter(|(method, _)| *method == call.request.method);
    fitting.max_by_key(|(_, path)| path.weight()).map(|(_, path)| path)
}

/// Performs a call, and expands the answer.
pub(super) fn act(api: &mut Api<'_, '_>, call: &Call<'_>) -> Done {
    let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
    let object = dispatch(api, call.request.method, segments.get(1..).unwrap_or_default())?;
    expand::expand(api, object)
}

fn dispatch(api: &mut Api<'_, '_>, method: &str, path: &[&str]) -> Done {
    match (method, path) {
        ("GET", ["account"]) => Ok(account("acct_1HothouseTest00000")),
        ("GET", ["accounts", id]) => Ok(account(id)),
        ("GET", ["balance"]) => Ok(refunds::balance(api)),
        ("GET", ["balance", "history"]) => list::list(api, "balance_transaction", &[]),
        ("GET", ["country_specs"]) => Ok(list::of("/v1/country_specs", Vec::new(), false)),
        (_, ["tokens" | "payment_methods", ..]) => payment_methods(api, method, path),
        (_, ["payment_intents" | "setup_intents" | "charges", ..]) => intents(api, method, path),
        ("GET", ["customers", id, "payment_methods"]) => {
            api.load("customer", id, "customer")?;
            list::list(api, "payment_method", &[("customer", id)])
        }
        ("GET", ["customers", _, "payment_methods", id]) => {
            api.load("payment_method", id, "payment_method")
        }
        ("GET", ["customers", id, "balance_transactions"]) => {
            api.load("customer", id, "customer")?;
            Ok(list::of(&format!("/v1/customers/{id}/balance_transactions"), Vec::new(), false))
        }
        ("DELETE", ["customers", id, "discount"]) => {
            let mut customer = api.load("customer", id, "customer")?;
            customer["discount"] = Value::Null;
            api.save("customer", &customer);
            Ok(json!({ "object": "discount", "deleted": true }))
        }
        ("POST", ["refunds"]) => refunds::create(api),
        ("POST", ["refunds", id, "cancel"]) => refunds::cancel(api, id),
        ("POST", ["checkout", "sessions"]) => checkout::create(api),
        ("POST", ["checkout", "sessions", id, "expire"]) => checkout::expire(api, id),
        ("GET", ["checkout", "sessions", id, "line_items"]) => checkout::line_items(api, id),
        (_, ["subscriptions" | "subscription_items" | "invoices", ..]) => {
            billing(api, method, path)
        }
        _ => stored(api, method, path),
    }
}

fn payment_methods(api: &mut Api<'_, '_>, method: &str, path: &[&str]) -> Done {
    match (method, path) {
        ("POST", ["tokens"]) => methods::create_token(api),
        ("POST", ["payment_methods"]) => methods::create(api),
        ("POST", ["payment_methods", id, "attach"]) => {
            let customer = api.required("customer")?;
            methods::attach(api, id, &customer)
        }
        ("POST", ["payment_methods", id, "detach"]) => methods::detach(api, id),
        _ => stored(api, method, path),
    }
}

fn intents(api: &mut Api<'_, '_>, method: &str, path: &[&str]) -> Done {
    match (method, path) {
        ("POST", ["payment_intents"]) => intents::create(api),
        ("POST", ["payment_intents", id]) => intents::update(api, id),
        ("POST", ["payment_intents", id, "confirm"]) => intents::confirm(api, id),
        ("POST", ["payment_intents", id, "capture"]) => intents::capture(api, id),
        ("POST", ["payment_intents", id, "cancel"]) => intents::cancel(api, id),
        ("POST", ["setup_intents"]) => intents::setup::create(api),
        ("POST", ["setup_intents", id, "confirm"]) => intents::setup::confirm(api, id),
        ("POST", ["setup_intents", id, "cancel"]) => intents::setup::cancel(api, id),
        ("POST", ["charges"]) => intents::charge::create(api),
        ("POST", ["charges", id, "capture"]) => intents::charge::capture(api, id),
        _ => stored(api, method, path),
    }
}

fn billing(api: &mut Api<'_, '_>, method: &str, path: &[&str]) -> Done {
    match (method, path) {
        ("POST", ["subscriptions"]) => billing::subscribe(api),
        ("POST", ["subscriptions", id]) => billing::update(api, id),
        ("DELETE", ["subscriptions", id]) => billing::cancel(api, id),
        ("GET", ["subscription_items"]) => billing::items(api),
        ("POST", ["invoices"]) => billing::invoice::create(api),
        ("DELETE", ["invoices", id]) => billing::invoice::delete(api, id),
        ("POST", ["invoices", id, "finalize"]) => billing::invoice::finalize(api, id),
        ("POST", ["invoices", id, "pay"]) => billing::invoice::pay(api, id),
        ("POST", ["invoices", id, "void"]) => billing::invoice::void(api, id),
        ("POST", ["invoices", id, "send"]) => billing::invoice::finalize(api, id),
        ("GET", ["invoices", id, "lines"]) => {
            let invoice = api.load("invoice", id, "invoice")?;
            Ok(invoice["lines"].clone())
        }
        _ => stored(api, method, path),
    }
}

/// Handles stored resources: `path`, `path/id`, `path/search`.
fn stored(api: &mut Api<'_, '_>, method: &str, path: &[&str]) -> Done {
    let unknown = || {
        StripeError::invalid(format!(
            "Unrecognized request URL ({method}: /v1/{}).",
            path.join("/")
        ))
    };
    if let Some(kind) = resources::kind_at(&path.join("/")) {
        return match method {
            "POST" if resources::can(kind, "create") => resources::create(api, kind),
            "GET" => list::list(api, kind, &[]),
            _ => Err(unknown()),
        };
    }
    let (id, collection) = path.split_last().ok_or_else(unknown)?;
    let kind = resources::kind_at(&collection.join("/")).ok_or_else(unknown)?;
    match method {
        "GET" if *id == "search" && resources::can(kind, "search") => list::search(api, kind),
        "GET" => api.load(kind, id, "id"),
        "POST" => resources::update(api, kind, id),
        "DELETE" => resources::delete(api, kind, id),
        _ => Err(unknown()),
    }
}

fn account(id: &str) -> Value {
    json!({
        "id": id, "object": "account", "business_type": "company", "charges_enabled": true,
        "country": "US", "default_currency": "usd", "details_submitted": true,
        "email": "owner@example.com", "payouts_enabled": true, "type": "standard",
        "settings": { "dashboard": { "display_name": "Hothouse", "timezone": "Etc/UTC" } },
        "capabilities": { "card_payments": "active", "transfers": "active" }, "metadata": {},
    })
}
