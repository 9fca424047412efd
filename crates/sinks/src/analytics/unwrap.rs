//! Wrapped bodies: gzip, base64, lz-string, and forms with a field `data`.

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use hothouse_mock::{form, json};
use serde_json::Value;

use super::lz;
use crate::{Call, bound};

/// The maximum number of layers.
const LAYERS: usize = 5;

const LOOSE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A body that contains no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Broken,
    TooLarge,
}

impl Unreadable {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "the body is not JSON, nor gzip, base64 or a form around it",
            Self::TooLarge => "the body is too large when it is decompressed",
        }
    }
}

/// Returns the JSON of a request: its body, or `data` of the query.
pub(super) fn json(call: &Call<'_>) -> Result<Value, Unreadable> {
    let lz64 = call.query("compression") == Some("lz64");
    let body = call.request.body;
    if body.is_empty() {
        let data = call.query("data").ok_or(Unreadable::Broken)?;
        return unwrapped(data.as_bytes(), lz64);
    }
    unwrapped(body, lz64)
}

/// Removes layers until there is JSON.
pub(super) fn unwrapped(bytes: &[u8], mut lz64: bool) -> Result<Value, Unreadable> {
    let mut bytes = Cow::Borrowed(bytes);
    for _ in 0..LAYERS {
        if bound::is_gzip(&bytes) {
            bytes = bound::gunzip(&bytes).map_err(unreadable)?.into();
            continue;
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| Unreadable::Broken)?.trim();
        if let Some(tree) = tree(text) {
            return Ok(tree);
        }
        let next = if let Some((data, is_lz64)) = form_data(text) {
            lz64 |= is_lz64;
            data.into_bytes()
        } else if lz64 {
            lz::decompress(text).ok_or(Unreadable::Broken)?.into_bytes()
        } else {
            base64(text).ok_or(Unreadable::Broken)?
        };
        bytes = next.into();
    }
    Err(Unreadable::Broken)
}

/// Parses JSON, except a bare word or number, which base64 can look like.
fn tree(text: &str) -> Option<Value> {
    let tree: Value = json::parse(text.as_bytes()).ok()?;
    if let Value::String(inner) = &tree {
        return json::parse(inner.as_bytes()).ok();
    }
    (tree.is_object() || tree.is_array()).then_some(tree)
}

fn form_data(text: &str) -> Option<(String, bool)> {
    if !text.starts_with("data=") && !text.contains("&data=") {
        return None;
    }
    let pairs = form::pairs(text);
    let lz64 = pairs.contains(&("compression".into(), "lz64".into()));
    let (_, data) = pairs.into_iter().find(|(name, _)| name == "data")?;
    Some((data, lz64))
}

/// Decodes base64 of either alphabet; a `+` that became a space in a form is restored.
fn base64(text: &str) -> Option<Vec<u8>> {
    let plain = |c: u8| match c {
        b'-' | b' ' => b'+',
        b'_' => b'/',
        other => other,
    };
    LOOSE.decode(text.bytes().map(plain).collect::<Vec<u8>>()).ok()
}

fn unreadable(why: bound::NotInflated) -> Unreadable {
    match why {
        bound::NotInflated::Broken => Unreadable::Broken,
        bound::NotInflated::TooLarge => Unreadable::TooLarge,
    }
}
