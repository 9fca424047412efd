//! Limits for input of a room: sizes after decompression, and what fits in a record.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use hothouse_model::record::discard;
use serde_json::{Map, Value};

/// The maximum size of a decompressed body.
pub(crate) const INFLATED: usize = 20 << 20;

/// The maximum size of one record's free part, as JSON. A line of the timeline can be a megabyte.
pub(crate) const FREE_PART: usize = 256 << 10;

/// The maximum depth of a value inside a body. The body itself adds a few levels.
const DEPTH: usize = 48;

/// The maximum length of a name, an id or another short text of a record.
const SHORT: usize = 500;

/// A body that is not valid gzip, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInflated {
    Broken,
    TooLarge,
}

/// Returns whether bytes start like gzip.
pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Decompresses gzip, up to the limit.
pub(crate) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, NotInflated> {
    let mut inflated = Vec::new();
    let limit = INFLATED as u64 + 1;
    let read = MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut inflated);
    match read {
        Ok(_) if inflated.len() > INFLATED => Err(NotInflated::TooLarge),
        Ok(_) => Ok(inflated),
        Err(_) => Err(NotInflated::Broken),
    }
}

/// Truncates a text that should be short.
pub(crate) fn short(text: &str) -> String {
    match text.len() > SHORT {
        true => format!("{}…", &text[..text.floor_char_boundary(SHORT)]),
        false => text.to_owned(),
    }
}

/// Makes an object fit in a record: parts that are too large or too deep are replaced with a note.
pub(crate) fn fitting(value: Value) -> Value {
    let Value::Object(map) = value else {
        return if fits(&value, FREE_PART) { value } else { left_out(value) };
    };
    let (mut kept, mut room, mut lost) = (Map::new(), FREE_PART, Vec::new());
    for (key, value) in map {
        let size = size(&value) + key.len();
        if size <= room && depth_fits(&value) {
            room -= size;
            kept.insert(key, value);
        } else {
            discard(value);
            lost.push(Value::from(short(&key)));
        }
    }
    if !lost.is_empty() {
        lost.truncate(100);
        kept.insert("$left_out".into(), lost.into());
    }
    Value::Object(kept)
}

fn left_out(value: Value) -> Value {
    let size = size(&value);
    discard(value);
    format!("[left out: {size} bytes]").into()
}

fn fits(value: &Value, room: usize) -> bool {
    size(value) <= room && depth_fits(value)
}

/// Measures without encoding, and without recursion: the value may have any depth.
fn size(value: &Value) -> usize {
    let (mut open, mut total) = (vec![value], 0);
    while let Some(value) = open.pop() {
        total += 4;
        match value {
            Value::String(text) => total += written(text),
            Value::Array(values) => open.extend(values),
            Value::Object(map) => {
                total += map.keys().map(|key| written(key)).sum::<usize>();
                open.extend(map.values());
            }
            _ => total += 8,
        }
    }
    total
}

/// Returns the maximum length of a text in JSON, where some characters are escaped.
fn written(text: &str) -> usize {
    let escaped = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f);
    text.len() + 5 * text.bytes().filter(escaped).count()
}

/// Keeps the first values of a list that fit in a record together.
pub(crate) fn first_fitting(values: Vec<Value>, most: usize) -> Vec<Value> {
    let mut room = FREE_PART / 2;
    let fits = |value: &Value| {
        let size = size(value);
        let fits = size <= room && depth_fits(value);
        room = room.saturating_sub(size);
        fits
    };
    values.into_iter().take(most).take_while(fits).collect()
}

fn depth_fits(value: &Value) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        let inner: &mut dyn Iterator<Item = &Value> = match value {
            Value::Array(values) => &mut values.iter(),
            Value::Object(map) => &mut map.values(),
            _ => continue,
        };
        if depth > DEPTH {
            return false;
        }
        open.extend(inner.map(|value| (value, depth + 1)));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_bomb_is_refused_and_a_body_is_not() {
        assert_eq!(gunzip(&gzip(b"hello")), Ok(b"hello".to_vec()));
        assert_eq!(gunzip(&gzip(&vec![0; INFLATED + 1])), Err(NotInflated::TooLarge));
        assert_eq!(gunzip(b"\x1f\x8bnonsense"), Err(NotInflated::Broken));
    }

    #[test]
    fn what_does_not_fit_is_left_out_by_name() {
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let value = json!({ "a": 1, "long": "x".repeat(FREE_PART), "deep": deep });
        let fitted = fitting(value);
        assert_eq!(fitted["a"], 1);
        assert_eq!(fitted["$left_out"], json!(["deep", "long"]));
        assert_eq!(fitting(json!({ "a": [1, { "b": 2 }] })), json!({ "a": [1, { "b": 2 }] }));
        let text = fitting(json!("x".repeat(FREE_PART + 1)));
        assert!(text.as_str().unwrap().starts_with("[left out: "));
    }
}
