//! Vendor payloads, built from data files in `fixtures/webhooks`.
//!
//! A file has what all webhooks of its vendor share (`scheme`, `headers`, `wrap`), objects by name,
//! and the types: each is a body, or an object of the file with some fields set. References in
//! texts are resolved by [`Fill`].

mod fill;

use hothouse_model::config::rules::nearest;
use serde_json::{Map, Value};

pub use fill::Fill;

use super::Scheme;

/// The data files, by vendor.
const FILES: [(&str, &str); 12] = [
    ("clerk", include_str!("../../fixtures/webhooks/clerk.json")),
    ("discord", include_str!("../../fixtures/webhooks/discord.json")),
    ("github", include_str!("../../fixtures/webhooks/github.json")),
    ("gitlab", include_str!("../../fixtures/webhooks/gitlab.json")),
    ("resend", include_str!("../../fixtures/webhooks/resend.json")),
    ("sendgrid", include_str!("../../fixtures/webhooks/sendgrid.json")),
    ("shopify", include_str!("../../fixtures/webhooks/shopify.json")),
    ("slack", include_str!("../../fixtures/webhooks/slack.json")),
    ("standard", include_str!("../../fixtures/webhooks/standard.json")),
    ("stripe", include_str!("../../fixtures/webhooks/stripe.json")),
    ("svix", include_str!("../../fixtures/webhooks/svix.json")),
    ("twilio", include_str!("../../fixtures/webhooks/twilio.json")),
];

/// A webhook that can be signed and delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub vendor: String,
    /// Such as `payment_intent.succeeded`.
    pub kind: String,
    pub scheme: Scheme,
    /// The vendor's headers besides the signature, including the content type.
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

/// A vendor or a type without a fixture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownFixture {
    #[error("there are no webhooks of `{typed}`")]
    Vendor { typed: String, near: Option<&'static str> },
    #[error("there is no webhook `{vendor}/{typed}`")]
    Kind { vendor: String, typed: String, near: Option<String> },
}

impl hothouse_model::Explain for UnknownFixture {
    fn kind(&self) -> hothouse_model::FailureKind {
        hothouse_model::FailureKind::NotFound
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Vendor { near: Some(near), .. } => vec![format!("did you mean `{near}`?")],
            Self::Vendor { .. } => vec![format!("vendors: {}", vendors().join(", "))],
            Self::Kind { vendor, near: Some(near), .. } => {
                vec![format!("did you mean `{vendor}/{near}`?")]
            }
            Self::Kind { vendor, .. } => {
                vec![format!("webhooks of {vendor}: {}", kinds(vendor).join(", "))]
            }
        }
    }
}

/// Returns the vendors with fixtures.
pub fn vendors() -> Vec<&'static str> {
    FILES.iter().map(|(vendor, _)| *vendor).collect()
}

/// Returns the types of a vendor's webhooks, in order.
pub fn kinds(vendor: &str) -> Vec<String> {
    let file = read(vendor).unwrap_or_default();
    file["types"].as_object().map(|types| types.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the signature scheme of a vendor.
pub fn scheme(vendor: &str) -> Option<Scheme> {
    Scheme::find(read(vendor)?["scheme"].as_str()?)
}

/// Builds the webhook of a vendor. `set` overrides fields of its object, as in `status=paid`.
pub fn fixture(
    vendor: &str,
    kind: &str,
    set: &[(String, Value)],
    fill: &Fill<'_>,
) -> Result<Payload, UnknownFixture> {
    let file = read(vendor).ok_or_else(|| unknown_vendor(vendor))?;
    let entry = file["types"].get(kind).ok_or_else(|| unknown_kind(vendor, kind))?;
    let mut object = entry.get("body").cloned().unwrap_or_else(|| object_of(&file, entry));
    if let Some(over) = entry.get("set") {
        merge(&mut object, over);
    }
    let mut object = fill.value(&object, kind);
    for (path, value) in set {
        put(&mut object, path, value.clone());
    }
    let wrap = entry.get("wrap").or_else(|| file.get("wrap")).filter(|wrap| !wrap.is_null());
    let body = match wrap {
        Some(wrap) => wrapped(&fill.value(wrap, kind), &object),
        None => object,
    };
    let mut headers = texts(&fill.value(&file["headers"], kind));
    headers.extend(texts(&fill.value(&entry["headers"], kind)));
    let form = entry["form"] == true;
    Ok(of_body(vendor, kind, &file, headers, (&body, form)))
}

/// Builds a webhook from an existing body, such as a vendor mock's.
pub fn of_tree(vendor: &str, kind: &str, body: &Value, fill: &Fill<'_>) -> Option<Payload> {
    let file = read(vendor)?;
    let entry = &file["types"][kind];
    let mut headers = texts(&fill.value(&file["headers"], kind));
    headers.extend(texts(&fill.value(&entry["headers"], kind)));
    Some(of_body(vendor, kind, &file, headers, (body, entry["form"] == true)))
}

fn of_body(
    vendor: &str,
    kind: &str,
    file: &Value,
    mut headers: Vec<(String, String)>,
    (body, form): (&Value, bool),
) -> Payload {
    let content_type = if form { "application/x-www-form-urlencoded" } else { "application/json" };
    headers.insert(0, ("content-type".into(), content_type.into()));
    let bytes = if form { form_bytes(body) } else { body.to_string().into_bytes() };
    let scheme = file["scheme"].as_str().and_then(Scheme::find);
    let scheme = scheme.expect("a test reads every file");
    Payload { vendor: vendor.into(), kind: kind.into(), scheme, headers, bytes }
}

fn read(vendor: &str) -> Option<Value> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == vendor)?;
    Some(serde_json::from_str(text).expect("a test reads every file"))
}

fn object_of(file: &Value, entry: &Value) -> Value {
    let name = entry["object"].as_str().unwrap_or_default();
    file["objects"][name].clone()
}

/// Merges fields into others, recursively for objects.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// Replaces `{{object}}` in the wrapper with the object.
fn wrapped(around: &Value, object: &Value) -> Value {
    match around {
        Value::String(text) if text == "{{object}}" => object.clone(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), wrapped(value, object))).collect()
        }
        Value::Array(items) => items.iter().map(|item| wrapped(item, object)).collect(),
        other => other.clone(),
    }
}

/// Sets the value at a dotted path; missing objects are created, and list items are addressed by
/// number.
fn put(tree: &mut Value, path: &str, value: Value) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let place = match (&mut *tree, step.parse::<usize>()) {
        (Value::Array(items), Ok(at)) if at < items.len() => &mut items[at],
        (Value::Object(map), _) => map.entry(step).or_insert(Value::Null),
        _ => {
            *tree = Value::Object(Map::new());
            return put(tree, path, value);
        }
    };
    match rest {
        Some(rest) => put(place, rest, value),
        None => *place = value,
    }
}

fn texts(value: &Value) -> Vec<(String, String)> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn form_bytes(body: &Value) -> Vec<u8> {
    let entries = body.as_object().into_iter().flatten();
    let pair = |(key, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", escape(key), escape(&text))
    };
    entries.map(pair).collect::<Vec<_>>().join("&").into_bytes()
}

fn escape(text: &str) -> String {
    const KEPT: percent_encoding::AsciiSet =
        percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(text, &KEPT).to_string()
}

fn unknown_vendor(typed: &str) -> UnknownFixture {
    UnknownFixture::Vendor { typed: typed.to_owned(), near: nearest(typed, vendors()) }
}

fn unknown_kind(vendor: &str, typed: &str) -> UnknownFixture {
    let kinds = kinds(vendor);
    let near = nearest(typed, kinds.iter().map(String::as_str)).map(str::to_owned);
    UnknownFixture::Kind { vendor: vendor.to_owned(), typed: typed.to_owned(), near }
}

#[cfg(test)]
mod tests;
