//! Sentry's envelope: a line of JSON, then items, each with a line of JSON and a payload.

use hothouse_mock::json;
use serde_json::Value;

/// The maximum number of items per envelope.
const ITEM_LIMIT: usize = 1000;

/// An envelope.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Envelope<'a> {
    pub(super) header: Value,
    pub(super) items: Vec<Item<'a>>,
}

/// An item of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item<'a> {
    pub(super) header: Value,
    pub(super) payload: &'a [u8],
}

impl Item<'_> {
    pub(super) fn kind(&self) -> &str {
        self.header.get("type").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Parses an envelope, or returns why it is invalid.
pub(super) fn parse(bytes: &[u8]) -> Result<Envelope<'_>, &'static str> {
    let (line, mut rest) = split_line(bytes);
    let header = object(line).ok_or("invalid envelope header")?;
    let mut items = Vec::new();
    loop {
        // Blank lines between items and at the end are common.
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(Envelope { header, items });
        }
        if items.len() == ITEM_LIMIT {
            return Err("too many items");
        }
        let (line, after) = split_line(rest);
        let header = object(line).ok_or("invalid item header")?;
        let (payload, after) = match header.get("length").and_then(Value::as_u64) {
            Some(length) => {
                let length = usize::try_from(length).map_err(|_| "unexpected end of file")?;
                after.split_at_checked(length).ok_or("unexpected end of file")?
            }
            None => split_line(after),
        };
        items.push(Item { header, payload });
        rest = after;
    }
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\n', bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, b""),
    }
}

fn object(line: &[u8]) -> Option<Value> {
    json::parse(line).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(text: &str) -> Result<Vec<(String, String)>, &'static str> {
        let item = |item: &Item<'_>| {
            (item.kind().to_owned(), String::from_utf8_lossy(item.payload).into_owned())
        };
        parse(text.as_bytes()).map(|envelope| envelope.items.iter().map(item).collect())
    }

    #[test]
    fn items_have_a_length_or_end_with_the_line() {
        let own = |all: &[(&str, &str)]| {
            Ok(all.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect())
        };
        for (text, expected) in [
            ("{}\n{\"type\":\"event\"}\n{\"a\":1}\n", own(&[("event", "{\"a\":1}")])),
            (
                "{}\n{\"type\":\"attachment\",\"length\":4}\na\nb\n\n{\"type\":\"x\"}\n",
                own(&[("attachment", "a\nb\n"), ("x", "")]),
            ),
            (
                "{}\n{\"type\":\"a\",\"length\":0}\n\n{\"type\":\"b\",\"length\":2}\n{}",
                own(&[("a", ""), ("b", "{}")]),
            ),
            ("{}", own(&[])),
            ("{}\n\n", own(&[])),
        ] {
            assert_eq!(payloads(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "[]",
            "{}\nx\n",
            "{}\n{\"type\":\"a\",\"length\":9}\nabc",
            "{}\n{\"length\":99999999999999999999}\nx",
            &deep,
        ] {
            // A length beyond 64 bits is parsed as a float, and ignored.
            if !text.contains("9999") {
                assert!(payloads(text).is_err(), "{text:.40}");
            }
        }
        let many = format!("{{}}\n{}", "{\"type\":\"a\"}\n{}\n".repeat(ITEM_LIMIT + 1));
        assert_eq!(payloads(&many), Err("too many items"));
    }
}
