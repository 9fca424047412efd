//! JSON as apps send it: with halves of surrogate pairs, which JavaScript writes for a text that was cut inside an
//! emoji, and which vendors accept.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON. Halves of surrogate pairs become U+FFFD.
pub fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| match whole_pairs(bytes) {
        Cow::Owned(mended) => serde_json::from_slice(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Replaces escapes of single surrogates.
fn whole_pairs(bytes: &[u8]) -> Cow<'_, [u8]> {
    let (mut mended, mut kept, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        let Some(unit) = escaped(&bytes[at..]) else {
            // The next byte is escaped, even if it is a backslash.
            at = (at + 2).min(bytes.len());
            continue;
        };
        let low = escaped(&bytes[at + 6..]).is_some_and(|low| (0xdc00..0xe000).contains(&low));
        match unit {
            0xd800..0xdc00 if low => at += 12,
            0xd800..0xe000 => {
                mended.extend_from_slice(&bytes[kept..at]);
                mended.extend_from_slice(b"\\ufffd");
                at += 6;
                kept = at;
            }
            _ => at += 6,
        }
    }
    if kept == 0 {
        return bytes.into();
    }
    mended.extend_from_slice(&bytes[kept..]);
    mended.into()
}

/// Returns the UTF-16 unit of an escape such as `\ud83d`.
fn escaped(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|c| c.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        for (sent, expected) in [
            (r#"["a"]"#, Some(json!(["a"]))),
            (r#"["\ud83d"]"#, Some(json!(["\u{fffd}"]))),
            (r#"["cut \ud83d","\ude00 off"]"#, Some(json!(["cut \u{fffd}", "\u{fffd} off"]))),
            (r#"["\ud83d\ud83d\ude00"]"#, Some(json!(["\u{fffd}😀"]))),
            (r#"["\ud83d\ude00", "\uD83D"]"#, Some(json!(["😀", "\u{fffd}"]))),
            (r#"["\\ud83d"]"#, Some(json!(["\\ud83d"]))),
            (r#"["\\\ud83d"]"#, Some(json!(["\\\u{fffd}"]))),
            (r#"{"\udc00": 1}"#, Some(json!({ "\u{fffd}": 1 }))),
            (r#"["\ud83"]"#, None),
            (r#"["\ud83d"#, None),
            (r#"["\"#, None),
            (r#"["\u+123\ud83d"]"#, None),
        ] {
            assert_eq!(parse(sent.as_bytes()).ok(), expected, "{sent}");
        }
        assert!(parse(b"[\"\xff\"]").is_err());
    }
}
