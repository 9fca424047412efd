//! OTLP requests in both encodings, as spans.
//!
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto>

use hothouse_model::id::hex;
use serde_json::{Map, Value};

use super::wire::{Field, Malformed, fields};

/// The maximum depth of an attribute's value.
const DEPTH: usize = 16;

/// The content of an export.
#[derive(Debug, Default)]
pub struct Export {
    pub spans: Vec<Span>,
    /// How many spans exceeded the limit.
    pub rejected: u64,
}

/// A span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    /// Empty for the first span of a trace.
    pub parent_id: String,
    pub name: String,
    pub kind: u64,
    pub status: u64,
    pub message: String,
    /// In nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    pub attributes: Map<String, Value>,
    pub resource: Map<String, Value>,
    pub events: Vec<Value>,
}

impl Export {
    fn add(&mut self, span: Span, most: usize) {
        match self.spans.len() < most {
            true => self.spans.push(span),
            false => self.rejected += 1,
        }
    }
}

/// Parses a protobuf export; `None` if it is not valid.
pub fn from_protobuf(bytes: &[u8], most: usize) -> Option<Export> {
    read_export(bytes, most).ok()
}

fn read_export(bytes: &[u8], most: usize) -> Result<Export, Malformed> {
    let mut export = Export::default();
    for field in fields(bytes) {
        let (1, group) = field? else { continue };
        let mut resource = Map::new();
        for field in fields(group.bytes()) {
            match field? {
                (1, found) => resource = attributes(found.bytes(), 1)?,
                (2, scope) => {
                    for field in fields(scope.bytes()) {
                        let (2, span) = field? else { continue };
                        let span = Span { resource: resource.clone(), ..read_span(span.bytes())? };
                        export.add(span, most);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(export)
}

fn read_span(bytes: &[u8]) -> Result<Span, Malformed> {
    let mut span = Span::default();
    for field in fields(bytes) {
        let (number, field) = field?;
        match number {
            1 => span.trace_id = hex(short(field, 16)?),
            2 => span.span_id = hex(short(field, 8)?),
            4 => span.parent_id = hex(short(field, 8)?),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            9 => drop(attribute(field.bytes(), &mut span.attributes)?),
            11 => span.events.push(event(field.bytes())?),
            15 => (span.status, span.message) = span_status(field.bytes())?,
            _ => {}
        }
    }
    Ok(span)
}

/// Returns bytes up to a maximum length.
fn short(field: Field<'_>, most: usize) -> Result<&[u8], Malformed> {
    Some(field.bytes()).filter(|bytes| bytes.len() <= most).ok_or(Malformed)
}

fn span_status(bytes: &[u8]) -> Result<(u64, String), Malformed> {
    let mut status = (0, String::new());
    for field in fields(bytes) {
        match field? {
            (2, message) => status.1 = message.text(),
            (3, code) => status.0 = code.number(),
            _ => {}
        }
    }
    Ok(status)
}

fn event(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut event = Map::new();
    let mut inner = Map::new();
    for field in fields(bytes) {
        match field? {
            (1, time) => drop(event.insert("time_unix_nano".into(), time.number().into())),
            (2, name) => drop(event.insert("name".into(), name.text().into())),
            (3, found) => attribute(found.bytes(), &mut inner)?,
            _ => {}
        }
    }
    event.insert("attributes".into(), inner.into());
    Ok(event.into())
}

/// Parses the attributes of a message, given their field number.
fn attributes(bytes: &[u8], number: u64) -> Result<Map<String, Value>, Malformed> {
    let mut map = Map::new();
    for field in fields(bytes) {
        let (found, field) = field?;
        if found == number {
            attribute(field.bytes(), &mut map)?;
        }
    }
    Ok(map)
}

fn attribute(bytes: &[u8], to: &mut Map<String, Value>) -> Result<(), Malformed> {
    pair(bytes, to, DEPTH)
}

fn pair(bytes: &[u8], to: &mut Map<String, Value>, depth: usize) -> Result<(), Malformed> {
    let (mut key, mut value) = (String::new(), Value::Null);
    for field in fields(bytes) {
        match field? {
            (1, found) => key = found.text(),
            (2, found) => value = any(found.bytes(), depth)?,
            _ => {}
        }
    }
    to.insert(key, value);
    Ok(())
}

fn any(bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let deeper = depth.checked_sub(1).ok_or(Malformed)?;
    let mut value = Value::Null;
    for field in fields(bytes) {
        let (number, field) = field?;
        value = match number {
            1 => field.text().into(),
            2 => (field.number() != 0).into(),
            3 => field.number().cast_signed().into(),
            4 => f64::from_bits(field.number()).into(),
            5 => list(field.bytes(), deeper)?,
            6 => {
                let mut map = Map::new();
                for field in fields(field.bytes()) {
                    let (1, field) = field? else { continue };
                    pair(field.bytes(), &mut map, deeper)?;
                }
                map.into()
            }
            7 => hex(field.bytes()).into(),
            _ => continue,
        };
    }
    Ok(value)
}

fn list(bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut items = Vec::new();
    for field in fields(bytes) {
        let (1, field) = field? else { continue };
        items.push(any(field.bytes(), depth)?);
    }
    Ok(items.into())
}

/// Parses a JSON export; `None` if it is not valid.
pub fn from_json(tree: &Value, most: usize) -> Option<Export> {
    let groups = tree.get("resourceSpans")?.as_array()?;
    let mut export = Export::default();
    for group in groups {
        let resource = json_attributes(&group["resource"]["attributes"]);
        let scopes = group["scopeSpans"].as_array().into_iter().flatten();
        for span in scopes.flat_map(|scope| scope["spans"].as_array().into_iter().flatten()) {
            export.add(Span { resource: resource.clone(), ..json_span(span)? }, most);
        }
    }
    Some(export)
}

fn json_span(span: &Value) -> Option<Span> {
    let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let id = |name: &str, most: usize| {
        let id = text(name).to_ascii_lowercase();
        let proper = id.len() <= most && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        proper.then_some(id)
    };
    let event = |event: &Value| {
        let mut map = Map::new();
        map.insert("name".into(), event["name"].clone());
        map.insert("time_unix_nano".into(), json_number(&event["timeUnixNano"]).into());
        map.insert("attributes".into(), json_attributes(&event["attributes"]).into());
        Value::Object(map)
    };
    Some(Span {
        trace_id: id("traceId", 32)?,
        span_id: id("spanId", 16)?,
        parent_id: id("parentSpanId", 16)?,
        name: text("name"),
        kind: json_number(&span["kind"]),
        status: json_number(&span["status"]["code"]),
        message: span["status"]["message"].as_str().unwrap_or_default().to_owned(),
        start: json_number(&span["startTimeUnixNano"]),
        end: json_number(&span["endTimeUnixNano"]),
        attributes: json_attributes(&span["attributes"]),
        resource: Map::new(),
        events: span["events"].as_array().into_iter().flatten().map(event).collect(),
    })
}

/// Reads a 64-bit number, which is a string in JSON; some clients send a number.
fn json_number(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| value.as_u64()).unwrap_or_default()
}

fn json_attributes(list: &Value) -> Map<String, Value> {
    let pairs = list.as_array().into_iter().flatten();
    let pair =
        |pair: &Value| Some((pair["key"].as_str()?.to_owned(), json_any(&pair["value"], DEPTH)));
    pairs.filter_map(pair).collect()
}

fn json_any(value: &Value, depth: usize) -> Value {
    let Some(deeper) = depth.checked_sub(1) else { return Value::Null };
    let Some((kind, inner)) = value.as_object().and_then(|map| map.iter().next()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "intValue" => {
            let text = inner.as_str().and_then(|text| text.parse::<i64>().ok());
            text.map_or_else(|| inner.clone(), Value::from)
        }
        "arrayValue" => {
            let items = inner["values"].as_array().into_iter().flatten();
            items.map(|item| json_any(item, deeper)).collect()
        }
        "kvlistValue" => {
            let pairs = inner["values"].as_array().into_iter().flatten();
            let pair = |pair: &Value| {
                Some((pair["key"].as_str()?.to_owned(), json_any(&pair["value"], deeper)))
            };
            pairs.filter_map(pair).collect::<Map<_, _>>().into()
        }
        _ => inner.clone(),
    }
}

/// Counts the metrics or logs of a protobuf export. Both have the same nesting: resource, scope,
/// item.
pub fn count_protobuf(bytes: &[u8]) -> Option<u64> {
    let mut count = 0;
    for field in fields(bytes) {
        let (1, group) = field.ok()? else { continue };
        for field in fields(group.bytes()) {
            let (2, scope) = field.ok()? else { continue };
            for field in fields(scope.bytes()) {
                count += u64::from(field.ok()?.0 == 2);
            }
        }
    }
    Some(count)
}

/// Counts the metrics or logs of a JSON export.
pub fn count_json(tree: &Value, kind: &str) -> u64 {
    let (outer, middle, inner) = match kind {
        "logs" => ("resourceLogs", "scopeLogs", "logRecords"),
        _ => ("resourceMetrics", "scopeMetrics", "metrics"),
    };
    let groups = tree[outer].as_array().into_iter().flatten();
    let scopes = groups.flat_map(|group| group[middle].as_array().into_iter().flatten());
    scopes.map(|scope| scope[inner].as_array().map_or(0, |items| items.len() as u64)).sum()
}
