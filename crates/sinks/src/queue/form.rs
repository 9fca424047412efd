//! The protocol of older clients: numbered parameters in, XML out. Pure.

use serde_json::{Map, Value, json};

/// Lists with numbered parameters, and their names in a tree.
const LISTS: [(&str, &str); 5] = [
    ("AttributeName", "AttributeNames"),
    ("MessageAttributeName", "MessageAttributeNames"),
    ("MessageSystemAttributeName", "MessageSystemAttributeNames"),
    ("TagKey", "TagKeys"),
    ("ActionName", "Actions"),
];

type Parameters = Vec<(String, String)>;

/// Converts parameters to a tree, as in the newer protocol.
pub(super) fn tree(parameters: &[(String, String)]) -> Value {
    let mut tree = Map::new();
    let mut groups: Vec<(String, u32, Parameters)> = Vec::new();
    for (name, value) in parameters.iter().take(2000) {
        let mut words = name.splitn(3, '.');
        let (head, number, rest) = (words.next().unwrap_or_default(), words.next(), words.next());
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            tree.insert(name.clone(), json!(value));
            continue;
        };
        let inner = (rest.unwrap_or_default().to_owned(), value.clone());
        match groups.iter_mut().find(|(other, at, _)| other == head && *at == number) {
            Some((_, _, all)) => all.push(inner),
            None => groups.push((head.to_owned(), number, vec![inner])),
        }
    }
    groups.sort_by_key(|(_, number, _)| *number);
    for (head, _, inner) in groups {
        add(&mut tree, &head, &inner);
    }
    Value::Object(tree)
}

fn add(tree: &mut Map<String, Value>, head: &str, inner: &[(String, String)]) {
    let of = |name: &str| inner.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    if let Some((_, list)) = LISTS.iter().find(|(name, _)| *name == head) {
        let value = of("").cloned().unwrap_or_default();
        push(tree, list, json!(value));
    } else if head.ends_with("BatchRequestEntry") {
        push(tree, "Entries", self::tree(inner));
    } else if head == "MessageAttribute" {
        let value: Map<String, Value> = inner
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("Value.")?, value)))
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        put(tree, "MessageAttributes", of("Name"), Value::Object(value));
    } else if head == "Attribute" || head == "Tag" {
        let (map, name) = if head == "Tag" { ("Tags", "Key") } else { ("Attributes", "Name") };
        put(tree, map, of(name), json!(of("Value").cloned().unwrap_or_default()));
    }
}

fn push(tree: &mut Map<String, Value>, list: &str, value: Value) {
    let known = tree.entry(list).or_insert_with(|| json!([]));
    if let Value::Array(all) = known {
        all.push(value);
    }
}

fn put(tree: &mut Map<String, Value>, map: &str, key: Option<&String>, value: Value) {
    let known = tree.entry(map).or_insert_with(|| json!({}));
    if let (Value::Object(all), Some(key)) = (known, key) {
        all.insert(key.clone(), value);
    }
}

/// Formats a result.
pub(super) fn answer(action: &str, result: &Value, id: &str) -> String {
    let inner = fields(action, result);
    let result = match inner.is_empty() {
        true => String::new(),
        false => format!("<{action}Result>{inner}</{action}Result>"),
    };
    format!(
        "<?xml version=\"1.0\"?><{action}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">{result}\
         <ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>"
    )
}

/// Formats an error.
pub(super) fn error(code: &str, message: &str, id: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</Type>\
         <Code>{}</Code><Message>{}</Message></Error><RequestId>{id}</RequestId></ErrorResponse>",
        escaped(code),
        escaped(message)
    )
}

fn fields(action: &str, tree: &Value) -> String {
    let Value::Object(map) = tree else { return String::new() };
    map.iter().map(|(name, value)| field(action, name, value)).collect()
}

fn field(action: &str, name: &str, value: &Value) -> String {
    let each = |name: &str, items: &[Value]| -> String {
        items.iter().map(|item| element(name, &inner(action, item))).collect()
    };
    let pairs = |name: &str, key: &str, map: &Map<String, Value>| -> String {
        let pair = |(own, value): (&String, &Value)| {
            let told = element(key, &escaped(own)) + &element("Value", &inner(action, value));
            element(name, &told)
        };
        map.iter().map(pair).collect()
    };
    match (name, value) {
        ("QueueUrls" | "queueUrls", Value::Array(items)) => each("QueueUrl", items),
        ("Messages", Value::Array(items)) => each("Message", items),
        ("Successful", Value::Array(items)) => each(&format!("{action}ResultEntry"), items),
        ("Failed", Value::Array(items)) => each("BatchResultErrorEntry", items),
        ("Results", Value::Array(items)) => each("Result", items),
        ("Attributes", Value::Object(map)) => pairs("Attribute", "Name", map),
        ("MessageAttributes", Value::Object(map)) => pairs("MessageAttribute", "Name", map),
        ("Tags", Value::Object(map)) => pairs("Tag", "Key", map),
        (_, value) => element(name, &inner(action, value)),
    }
}

fn inner(action: &str, value: &Value) -> String {
    match value {
        Value::Object(_) => fields(action, value),
        Value::String(text) => escaped(text),
        other => escaped(&other.to_string()),
    }
}

fn element(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// Escapes text for XML. Control characters are not allowed in XML, and SQS refuses them.
fn escaped(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control() || "\n\r\t".contains(*c)).collect();
    // A parser would normalize it to a line feed.
    quick_xml::escape::escape(&plain).replace('\r', "&#13;")
}
