//! Exports requests as an HTTP Archive (HAR 1.2), which browsers and proxies can open.

use base64::{Engine, engine::general_purpose::STANDARD};
use hothouse_model::record::{
    Kind, Record,
    bodies::{BlobRef, Message, RequestBody},
};
use serde_json::{Value, json};

/// Builds an archive of the requests among some records. `blobs` returns the stored part of a body.
pub fn har(records: &[Record], blobs: impl Fn(&BlobRef) -> Option<Vec<u8>>) -> Value {
    let entries: Vec<Value> = records
        .iter()
        .filter(|record| record.kind == Kind::Request)
        .filter_map(|record| Some(entry(record, &record.body().ok()?, &blobs)))
        .collect();
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "hothouse", "version": env!("CARGO_PKG_VERSION") },
        "entries": entries,
    } })
}

fn entry(
    record: &Record,
    body: &RequestBody,
    blobs: &dyn Fn(&BlobRef) -> Option<Vec<u8>>,
) -> Value {
    let scheme = if body.tls { "https" } else { "http" };
    let port = match (body.tls, body.port) {
        (_, 0) | (true, 443) | (false, 80) => String::new(),
        (_, port) => format!(":{port}"),
    };
    let version = format!("HTTP/{}", body.version);
    let mut request = json!({
        "method": body.method,
        "url": format!("{scheme}://{}{port}{}", body.host, body.path),
        "httpVersion": version,
        "cookies": [],
        "headers": headers(&body.request),
        "queryString": query(&body.path),
        "headersSize": -1,
        "bodySize": body.request.bytes,
    });
    if body.request.bytes > 0 {
        request["postData"] = content(&body.request, blobs);
    }
    let mut response_content = content(&body.response, blobs);
    response_content["size"] = json!(body.response.bytes);
    json!({
        "_id": record.id,
        "startedDateTime": record.time,
        "time": body.duration_ms,
        "request": request,
        "response": {
            "status": body.status.unwrap_or(0),
            "statusText": "",
            "httpVersion": version,
            "cookies": [],
            "headers": headers(&body.response),
            "content": response_content,
            "redirectURL": header(&body.response, "location").unwrap_or_default(),
            "headersSize": -1,
            "bodySize": body.response.bytes,
        },
        "cache": {},
        "timings": { "send": 0, "wait": body.duration_ms, "receive": 0 },
        "comment": record.summary,
    })
}

fn headers(message: &Message) -> Vec<Value> {
    let pairs = message.headers.iter();
    pairs.map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

fn header<'a>(message: &'a Message, wanted: &str) -> Option<&'a str> {
    let found = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(_, value)| value.as_str())
}

fn query(path: &str) -> Vec<Value> {
    let pairs = path.split_once('?').map_or("", |(_, query)| query);
    let pairs = pairs.split('&').filter(|pair| !pair.is_empty());
    let split = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        json!({ "name": name, "value": value })
    };
    pairs.map(split).collect()
}

fn content(message: &Message, blobs: &dyn Fn(&BlobRef) -> Option<Vec<u8>>) -> Value {
    let kind = header(message, "content-type").unwrap_or("application/octet-stream");
    let bytes = message.blob.as_ref().and_then(blobs);
    let shown = |text: &str| json!({ "mimeType": kind, "text": text });
    match (&message.text, bytes.map(String::from_utf8)) {
        (Some(text), _) => shown(text),
        (None, Some(Ok(text))) => shown(&text),
        (None, Some(Err(bytes))) => {
            let text = STANDARD.encode(bytes.as_bytes());
            json!({ "mimeType": kind, "text": text, "encoding": "base64" })
        }
        (None, None) => json!({ "mimeType": kind }),
    }
}
