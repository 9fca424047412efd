//! Truncates long results so that a model can read them, with a cursor to continue from.

use serde_json::{Map, Value, json};

/// The approximate maximum size of a result in bytes: some 8,000 tokens.
pub const RESULT: usize = 32 << 10;

/// The maximum length of a text in a truncated result.
const TEXT: usize = 8 << 10;

/// Limits a list to a budget, starting at the item that a cursor names. At least one item is returned, so that a reader
/// always makes progress.
pub fn page(items: &[Value], cursor: Option<&str>, budget: usize) -> Map<String, Value> {
    let first = cursor.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0).min(items.len());
    let (mut kept, mut size) = (Vec::new(), 0);
    for item in &items[first..] {
        let item = short(item, TEXT);
        size += item.to_string().len() + 1;
        if size > budget && !kept.is_empty() {
            break;
        }
        kept.push(item);
    }
    let next = first + kept.len();
    let next = (next < items.len()).then(|| next.to_string());
    let mut page = Map::new();
    page.insert("items".into(), Value::Array(kept));
    page.insert("total".into(), json!(items.len()));
    page.insert("next_cursor".into(), json!(next));
    page
}

/// Limits an object to a budget: shortens long texts first, then long lists.
pub fn object(value: Map<String, Value>, budget: usize) -> Map<String, Value> {
    let whole = Value::Object(value);
    let mut texts = TEXT;
    let mut cut = whole;
    while cut.to_string().len() > budget && texts >= 64 {
        cut = short(&cut, texts);
        if cut.to_string().len() > budget {
            cut = fewer(&cut, texts / 32);
        }
        texts /= 2;
    }
    match cut {
        Value::Object(cut) => cut,
        _ => Map::new(),
    }
}

/// Shortens every text in a value.
fn short(value: &Value, limit: usize) -> Value {
    map(value, &|value| match value {
        Value::String(text) if text.len() > limit => Value::String(cut_text(&text, limit)),
        other => other,
    })
}

/// Keeps the first items of every list in a value.
fn fewer(value: &Value, limit: usize) -> Value {
    map(value, &|value| match value {
        Value::Array(items) if items.len() > limit => {
            Value::Array(items.into_iter().take(limit).collect())
        }
        other => other,
    })
}

fn map(value: &Value, change: &dyn Fn(Value) -> Value) -> Value {
    let inner = match value {
        Value::Array(items) => Value::Array(items.iter().map(|item| map(item, change)).collect()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), map(field, change)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    };
    change(inner)
}

/// Truncates a text, and appends how much is missing.
pub fn cut_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let at = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… [{} bytes more]", &text[..at], text.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_whole_page_by_page() {
        let items: Vec<Value> = (0..100).map(|n| json!({ "n": n, "x": "y".repeat(50) })).collect();
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = page(&items, cursor.as_deref(), 500);
            let part = page["items"].as_array().unwrap();
            assert!(!part.is_empty() && part.len() < 20);
            seen.extend(part.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(seen, items);
        let big = [json!("z".repeat(100_000))];
        assert_eq!(page(&big, None, 10)["items"].as_array().unwrap().len(), 1);
        assert_eq!(page(&items, Some("nonsense"), 10)["items"][0]["n"], 0);
        assert_eq!(page(&items, Some("9999999"), 10)["items"], json!([]));
    }

    #[test]
    fn an_object_fits_its_budget() {
        let lines: Vec<_> =
            (0..5000).map(|n| json!({ "line": n, "text": "t".repeat(99) })).collect();
        let value = json!({ "lines": lines, "diff": "ü".repeat(90_000), "name": "a" });
        let Value::Object(value) = value else { unreachable!() };
        let cut = object(value, RESULT);
        assert!(Value::Object(cut.clone()).to_string().len() <= RESULT);
        assert_eq!(cut["name"], "a");
        assert!(cut["diff"].as_str().unwrap().contains("bytes more]"));
    }
}
