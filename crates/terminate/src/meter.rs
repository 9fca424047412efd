//! Requests that cost money: reserved before they are sent, settled when their response has ended.

use hyper::{Uri, header::HeaderValue, http::request::Parts};
use percent_encoding::percent_decode_str;

use crate::{gate::Refusal, record::RequestRecord, secrets::Known, text};

/// Where model vendors accept a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
const KEY_PARAMETERS: [&str; 3] = ["key", "api_key", "access_token"];

/// A complete request, as the room sent it; its body is decompressed.
#[derive(Clone, Copy, Debug)]
pub struct Metered<'a> {
    pub host: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
}

/// Meters the cost of requests to a host, and enforces a cap.
pub trait Meter: Send + Sync {
    /// Reserves the maximum cost of a request, or refuses it. `None` if the request is free.
    fn begin(&self, request: &Metered<'_>) -> Result<Option<Box<dyn Charge>>, Refusal>;
}

/// The reservation for one request.
pub trait Charge: Send {
    /// Records the actual cost, based on the response.
    fn settle(self: Box<Self>, record: &RequestRecord);
}

/// Finds a key that is not one of the wall's placeholders; returns its location.
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

/// Returns a request without the wall's placeholders, which look like keys of their vendor.
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
