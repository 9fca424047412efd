//! Finds live keys in requests to hosts of class `test-mode`, anywhere in a request. Pure.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hothouse_model::{
    config::LiveKeys,
    live_keys::{self, LiveKey},
};
use hyper::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// A live key, and where in the request it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: LiveKey,
    /// Such as ``header `authorization` ``.
    pub(crate) place: String,
}

/// Finds a live key in a request; the body is decompressed.
pub(crate) fn find(parts: &Parts, body: &[u8], settings: &LiveKeys) -> Option<Found> {
    let headers = parts.headers.iter().find_map(|(name, value)| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let key = in_header(&text, settings)?;
        Some(Found { key, place: format!("header `{name}`") })
    });
    let address = || {
        let key = in_text(&parts.uri.to_string(), settings)?;
        Some(Found { key, place: "the address".to_owned() })
    };
    let body = || {
        let key = in_body(body, settings)?;
        Some(Found { key, place: "the body".to_owned() })
    };
    headers.or_else(address).or_else(body)
}

/// Finds a live key in a WebSocket message; returns its description.
pub(crate) fn in_message(message: &[u8], settings: &LiveKeys) -> Option<String> {
    in_body(message, settings).map(|key| format!("{} of {}", key.what, key.vendor))
}

fn certain(text: &str, settings: &LiveKeys) -> Option<LiveKey> {
    live_keys::find("", text, settings).filter(LiveKey::is_certain)
}

/// Searches a text, both raw and percent-decoded.
fn in_text(text: &str, settings: &LiveKeys) -> Option<LiveKey> {
    let decoded = || percent_decode_str(text).decode_utf8_lossy();
    certain(text, settings).or_else(|| certain(&decoded(), settings).filter(|_| text.contains('%')))
}

fn in_header(text: &str, settings: &LiveKeys) -> Option<LiveKey> {
    let basic = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    let decoded = basic.and_then(|(_, coded)| BASE64_STANDARD.decode(coded.trim()).ok());
    let decoded = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    in_text(text, settings).or_else(|| in_text(&decoded?, settings))
}

/// Searches a body as text, as a form and as JSON, in which letters may be escaped.
fn in_body(body: &[u8], settings: &LiveKeys) -> Option<LiveKey> {
    if body.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(body);
    if let Some(key) = in_text(&text, settings) {
        return Some(key);
    }
    if !text.contains('\\') {
        return None;
    }
    let tree: Value = serde_json::from_slice(body).ok()?;
    let mut open = vec![&tree];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                if let Some(key) = certain(text, settings) {
                    return Some(key);
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.values()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn place(headers: &[(&str, &str)], uri: &str, body: &str) -> Option<String> {
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        find(&parts, body.as_bytes(), &LiveKeys::default()).map(|found| found.place)
    }

    #[test]
    fn a_live_key_is_found_wherever_it_stands() {
        let live = format!("sk_{}_{}", "live", "a1B2c3D4e5F6g7H8i9J0k1L2");
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{live}:")));
        let escaped = live.replace('k', "%6B");
        let unicode = live.replace('k', "\\u006b");
        let (header, address, text) =
            (Some("header `authorization`"), Some("the address"), Some("the body"));
        for (headers, uri, body, expected) in [
            (vec![("authorization", format!("Bearer {live}"))], "/", String::new(), header),
            (vec![("authorization", basic)], "/", String::new(), header),
            (vec![], &*format!("/v1?key={live}"), String::new(), address),
            (vec![], &*format!("/v1?key={escaped}"), String::new(), address),
            (vec![], "/", format!("a=1&key={live}"), text),
            (vec![], "/", format!("key={escaped}"), text),
            (vec![], "/", format!("{{\"key\":\"{unicode}\"}}"), text),
            (
                vec![("authorization", "Bearer sk_test_a1B2c3D4e5F6g7H8i9J0k1L2".to_owned())],
                "/?x=1",
                "{}".to_owned(),
                None,
            ),
        ] {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(place(&headers, uri, &body).as_deref(), expected, "{uri} {body}");
        }
    }
}
