//! Short texts for people.

use std::fmt::Display;

use jiff::Timestamp;
use serde_json::Value;

/// Encodes a text as a part of a URL.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let parts = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    parts.collect()
}

/// Returns the time of day in UTC; a script converts it to the reader's time zone.
pub fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}

/// Returns how long ago a time was.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => "a moment".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

/// Formats a size for people.
pub fn size(bytes: u64) -> String {
    const STEP: u64 = 1024;
    match bytes {
        0..STEP => format!("{bytes} B"),
        _ if bytes < STEP * STEP => format!("{} KB", bytes.div_ceil(STEP)),
        _ if bytes < STEP * STEP * STEP => tenths(bytes, STEP * STEP, "MB"),
        _ => tenths(bytes, STEP * STEP * STEP, "GB"),
    }
}

fn tenths(bytes: u64, unit: u64, name: &str) -> String {
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

/// Shortens a text to one line with a maximum number of characters.
pub fn short(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let is_cut = line.len() < text.trim_end().len() || line.chars().nth(most).is_some();
    let mut shown: String = line.chars().take(most).collect();
    if is_cut {
        shown.push('…');
    }
    shown
}

/// Formats a count of things, with a plural in `s`.
pub fn counted(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Formats a value in one line: a text as it is, everything else as JSON.
pub fn inline(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats a value over several lines.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_no_markup() {
        assert_eq!(encoded("a-b_1.c"), "a-b_1.c");
        assert_eq!(encoded("\"><b"), "%22%3E%3Cb");
    }

    #[test]
    fn sizes_and_ages_are_short() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KB"),
            (1_572_864, "1.5 MB"),
            (5 << 30, "5.0 GB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
        for (number, shown) in [(0, "0 files"), (1, "1 file"), (2, "2 files")] {
            assert_eq!(counted(number, "file"), shown);
        }
        let then = Timestamp::UNIX_EPOCH;
        for (seconds, shown) in [(0, "a moment"), (90, "1 min"), (7200, "2 h"), (200_000, "2 d")] {
            assert_eq!(age(then, Timestamp::from_second(seconds).unwrap()), shown);
        }
        assert_eq!(age(Timestamp::from_second(9).unwrap(), then), "a moment");
    }

    #[test]
    fn a_text_is_cut_to_a_line() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("abcd", 3), "abc…");
        assert_eq!(short("äöü\nx", 3), "äöü…");
        assert_eq!(short("one\n", 9), "one");
    }
}
