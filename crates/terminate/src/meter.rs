//! Requests that cost money: counted before they leave, paid for when their answer has ended.

use hyper::{Uri, header::HeaderValue, http::request::Parts};
use percent_encoding::percent_decode_str;

use crate::{gate::Refusal, record::RequestRecord, secrets::Known, text};

/// Where a vendor of models looks for a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
const KEY_PARAMETERS: [&str; 3] = ["key", "api_key", "access_token"];

/// A whole request, as the room sent it; its body is decompressed.
#[derive(Clone, Copy, Debug)]
pub struct Metered<'a> {
    pub host: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
}

/// Counts what requests to a host cost, and lets none pass beyond a cap.
pub trait Meter: Send + Sync {
    /// Sets aside what a request may cost at most, or says why it must not be made. None for one that is free.
    fn begin(&self, request: &Metered<'_>) -> Result<Option<Box<dyn Charge>>, Refusal>;
}

/// What was set aside for one request.
pub trait Charge: Send {
    /// Counts what it has cost, by its answer.
    fn settle(self: Box<Self>, record: &RequestRecord);
}

/// Finds a key that is none of the wall's placeholders; returns where it stands.
pub(crate) fn own_key(parts: &Parts, known: &[Known]) -> Option<String> {
    let is_placeholder = |text: &str| known.iter().any(|one| text.contains(&one.placeholder));
    let header = KEY_HEADERS.iter().find(|name| {
        let values = parts.headers.get_all(**name).iter();
        values.into_iter().any(|value| !value.to_str().is_ok_and(is_placeholder))
    });
    if let Some(name) = header {
        return Some(format!("header `{name}`"));
    }
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    let own = pairs.find(|(name, value)| {
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        KEY_PARAMETERS.contains(&plain(name).to_ascii_lowercase().as_str())
            && !is_placeholder(&plain(value))
    });
    own.map(|_| "the address".to_owned())
}

/// Returns a request without the placeholders of the wall, which look like keys of their vendor.
pub(crate) fn without_placeholders(
    parts: &Parts,
    body: &[u8],
    known: &[Known],
) -> (Parts, Vec<u8>) {
    let without = |bytes: &[u8]| {
        known.iter().fold(bytes.to_vec(), |bytes, one| {
            let clean = text::replaced(&bytes, one.placeholder.as_bytes(), b"");
            clean.map_or(bytes, |clean| clean.to_vec())
        })
    };
    let mut clean = parts.clone();
    for value in clean.headers.values_mut() {
        if let Ok(text) = HeaderValue::from_bytes(&without(value.as_bytes())) {
            *value = text;
        }
    }
    let address = without(clean.uri.to_string().as_bytes());
    if let Ok(uri) = Uri::try_from(address.as_slice()) {
        clean.uri = uri;
    }
    (clean, without(body))
}

/// Returns the headers of a request, for a meter.
pub(crate) fn headers(parts: &Parts) -> Vec<(String, Vec<u8>)> {
    let all = parts.headers.iter();
    all.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}
