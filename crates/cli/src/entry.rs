//! Adds, replaces and removes one entry in the configuration of another program, leaving every other byte
//! unchanged. Pure.

use serde_json::Value;

/// Why a configuration cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is not JSON: it may contain comments, or be invalid.
    NotJson,
    /// There is something else where the entry belongs.
    OtherShape,
}

/// Adds the entry `name` to the object at `section`, replacing an earlier one.
pub(crate) fn put_json(
    text: &str,
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<String, Unfit> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let text = take_json(text, section, name)?;
    let shown = indented(entry, 2);
    let top = Object::at(&text, start(&text)).ok_or(Unfit::OtherShape)?;
    match top.value(&text, section) {
        Some(at) => {
            let inner = Object::at(&text, at).ok_or(Unfit::OtherShape)?;
            Ok(insert(&text, &inner, &format!("\n    {}: {shown}", quoted(name)), "\n  "))
        }
        None => {
            let body = format!("{{\n    {}: {shown}\n  }}", quoted(name));
            Ok(insert(&text, &top, &format!("\n  {}: {body}", quoted(section)), "\n"))
        }
    }
}

/// Removes the entry `name` from the object at `section`, and the section if it is empty afterwards.
pub(crate) fn take_json(text: &str, section: &str, name: &str) -> Result<String, Unfit> {
    serde_json::from_str::<Value>(text).map_err(|_| Unfit::NotJson)?;
    let top = Object::at(text, start(text)).ok_or(Unfit::OtherShape)?;
    let Some(at) = top.value(text, section) else { return Ok(text.to_owned()) };
    let inner = Object::at(text, at).ok_or(Unfit::OtherShape)?;
    if !inner.members.iter().any(|member| member.key == name) {
        return Ok(text.to_owned());
    }
    Ok(match inner.members.len() {
        1 => remove(text, &top, section),
        _ => remove(text, &inner, name),
    })
}

/// Appends a TOML table, replacing an earlier one with the same name.
pub(crate) fn put_toml(text: &str, table: &str, lines: &[String]) -> String {
    let rest = take_toml(text, table);
    let gap = if rest.trim().is_empty() { "" } else { "\n" };
    let rest = if rest.is_empty() || rest.ends_with('\n') { rest } else { rest + "\n" };
    format!("{rest}{gap}[{table}]\n{}\n", lines.join("\n"))
}

/// Removes a TOML table, up to the next one.
pub(crate) fn take_toml(text: &str, table: &str) -> String {
    let head = format!("[{table}]");
    let (mut kept, mut is_ours) = (Vec::new(), false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            let was_ours = is_ours;
            is_ours = line.trim() == head;
            // The empty line before it was added with it.
            if is_ours && !was_ours && kept.last().is_some_and(|line: &&str| line.trim().is_empty())
            {
                kept.pop();
            }
        }
        if !is_ours {
            kept.push(line);
        }
    }
    kept.concat()
}

/// The positions of an object's parts in a text.
struct Object {
    /// After its opening brace.
    open: usize,
    members: Vec<Member>,
}

struct Member {
    key: String,
    /// Where its key begins, where its value begins, and where it ends.
    start: usize,
    value: usize,
    end: usize,
}

impl Object {
    /// Parses the object that begins at a position in valid JSON.
    fn at(text: &str, at: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.get(at) != Some(&b'{') {
            return None;
        }
        let mut members = Vec::new();
        let mut place = skip(bytes, at + 1);
        while bytes.get(place) == Some(&b'"') {
            let start = place;
            let key_end = string_end(bytes, start)?;
            let key = serde_json::from_str(&text[start..key_end]).ok()?;
            let value = skip(bytes, skip(bytes, key_end) + 1);
            let end = value_end(bytes, value)?;
            members.push(Member { key, start, value, end });
            place = skip(bytes, end);
            if bytes.get(place) == Some(&b',') {
                place = skip(bytes, place + 1);
            }
        }
        Some(Self { open: at + 1, members })
    }

    fn value(&self, _text: &str, key: &str) -> Option<usize> {
        self.members.iter().find(|member| member.key == key).map(|member| member.value)
    }
}

fn start(text: &str) -> usize {
    skip(text.as_bytes(), 0)
}

fn skip(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return Some(at),
            byte if depth == 0 && byte.is_ascii_whitespace() => return Some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(bytes.get(at - 1), Some(b'"' | b'}' | b']')) {
            return Some(at);
        }
    }
}

/// Inserts a member before the others.
fn insert(text: &str, object: &Object, member: &str, closing: &str) -> String {
    let (before, after) = text.split_at(object.open);
    match object.members.is_empty() {
        true => format!("{before}{member}{closing}{}", after.trim_start()),
        false => format!("{before}{member},{after}"),
    }
}

/// Removes a member and its comma.
fn remove(text: &str, object: &Object, key: &str) -> String {
    let Some(at) = object.members.iter().position(|member| member.key == key) else {
        return text.to_owned();
    };
    let (from, to) = match (object.members.get(at + 1), at.checked_sub(1)) {
        (Some(next), _) => (object.members[at].start, next.start),
        (None, Some(last)) => (object.members[last].end, object.members[at].end),
        (None, None) => (object.open, skip(text.as_bytes(), object.members[at].end)),
    };
    format!("{}{}", &text[..from], &text[to..])
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Renders a value as it looks when nested this many levels deep.
fn indented(value: &Value, steps: usize) -> String {
    let text = format!("{value:#}");
    text.replace('\n', &format!("\n{}", "  ".repeat(steps)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_put_in_is_taken_out_and_nothing_else_changes() {
        let entry = json!({ "command": "hothouse", "args": ["mcp"] });
        for text in [
            "{}\n",
            "{ \"z\": 1, \"a\": [1, 2, {\"b\": \"}\"}] }\n",
            "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  },\n  \"theme\": \"dark\"\n}\n",
            "{\"a\":\"\\\"{\",\"mcpServers\":{\"other\":{}}}",
        ] {
            let put = put_json(text, "mcpServers", "hothouse", &entry).unwrap();
            let value: Value = serde_json::from_str(&put).unwrap_or_else(|e| panic!("{e}: {put}"));
            assert_eq!(value["mcpServers"]["hothouse"], entry, "{put}");
            let again = put_json(&put, "mcpServers", "hothouse", &entry).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), value);
            let taken = take_json(&put, "mcpServers", "hothouse").unwrap();
            let (was, is): (Value, Value) =
                (serde_json::from_str(text).unwrap(), serde_json::from_str(&taken).unwrap());
            assert_eq!(was, is, "{taken}");
        }
        let text = "{\n  \"theme\": \"dark\"\n}\n";
        let put = put_json(text, "mcpServers", "hothouse", &entry).unwrap();
        assert!(put.ends_with("\"theme\": \"dark\"\n}\n"), "{put}");
        assert_eq!(take_json(&put, "mcpServers", "hothouse").unwrap(), text);
        assert!(put_json("", "servers", "hothouse", &entry).unwrap().contains("\"servers\""));
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        let entry = json!({});
        assert_eq!(put_json("// c\n{}", "a", "b", &entry), Err(Unfit::NotJson));
        assert_eq!(put_json("[]", "a", "b", &entry), Err(Unfit::OtherShape));
        assert_eq!(put_json("{\"a\": 1}", "a", "b", &entry), Err(Unfit::OtherShape));
    }

    #[test]
    fn a_table_is_put_in_replaced_and_taken_out() {
        let text = "model = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let lines = |word: &str| vec![format!("command = \"{word}\"")];
        let put = put_toml(text, "mcp_servers.hothouse", &lines("hothouse"));
        assert_eq!(put, format!("{text}\n[mcp_servers.hothouse]\ncommand = \"hothouse\"\n"));
        let again = put_toml(&put, "mcp_servers.hothouse", &lines("z"));
        assert_eq!(again.matches("[mcp_servers.hothouse]").count(), 1);
        assert_eq!(take_toml(&again, "mcp_servers.hothouse"), text);
        let middle = "[mcp_servers.hothouse]\na = 1\n[b]\nc = 2\n";
        assert_eq!(take_toml(middle, "mcp_servers.hothouse"), "[b]\nc = 2\n");
        assert_eq!(put_toml("", "t", &lines("x")), "[t]\ncommand = \"x\"\n");
    }
}
