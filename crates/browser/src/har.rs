//! The requests of a page as an HTTP Archive (HAR 1.2), without bodies and credentials.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::capture::{Request, network::whole};

/// Headers whose values are credentials.
const SECRET: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
];

/// Builds an archive.
pub fn har(requests: &[Request], title: &str, url: &str) -> Value {
    let entries: Vec<Value> = requests.iter().map(entry).collect();
    let began = requests.first().map_or(0.0, |request| request.wall);
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "hothouse", "version": env!("CARGO_PKG_VERSION") },
        "pages": [{ "id": "page", "title": title, "startedDateTime": moment(began), "pageTimings": {}, "comment": url }],
        "entries": entries,
    } })
}

fn entry(request: &Request) -> Value {
    let time = request.ended.map_or(0.0, |ended| ((ended - request.begun) * 1000.0).max(0.0));
    let mut entry = json!({
        "pageref": "page",
        "startedDateTime": moment(request.wall),
        "time": time,
        "request": {
            "method": request.method,
            "url": request.url,
            "httpVersion": request.protocol,
            "cookies": [],
            "headers": headers(&request.request_headers),
            "queryString": [],
            "headersSize": -1,
            "bodySize": -1,
        },
        "response": {
            "status": request.status.unwrap_or(0),
            "statusText": request.status_text,
            "httpVersion": request.protocol,
            "cookies": [],
            "headers": headers(&request.response_headers),
            "content": { "size": request.bytes, "mimeType": request.mime },
            "redirectURL": request.redirect.as_deref().unwrap_or_default(),
            "headersSize": -1,
            "bodySize": request.bytes,
        },
        "cache": {},
        "timings": { "send": 0, "wait": time, "receive": 0 },
        "_resourceType": request.kind,
    });
    if let Some(failure) = &request.failure {
        entry["response"]["_error"] = failure.as_str().into();
    }
    if let Some(trace) = &request.trace {
        entry["_trace"] = trace.as_str().into();
    }
    entry
}

fn headers(all: &[(String, String)]) -> Value {
    let shown = all.iter().map(|(name, value)| {
        let is_secret = SECRET.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        let value = if is_secret { "[redacted]" } else { value };
        json!({ "name": name, "value": value })
    });
    shown.collect()
}

/// Formats a time in seconds since 1970.
fn moment(seconds: f64) -> String {
    let millis = i64::try_from(whole(seconds * 1000.0)).unwrap_or_default();
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_no_credentials() {
        let request = Request {
            url: "https://a/".into(),
            request_headers: vec![
                ("Cookie".into(), "sid=1".into()),
                ("Accept".into(), "*/*".into()),
            ],
            wall: 1.5,
            trace: Some("t".into()),
            ..Request::default()
        };
        let archive = har(&[request], "Shop", "https://a/");
        let text = archive.to_string();
        assert!(!text.contains("sid=1") && text.contains("*/*"));
        let entry = &archive["log"]["entries"][0];
        assert_eq!(
            (&entry["startedDateTime"], &entry["_trace"]),
            (&json!("1970-01-01T00:00:01.5Z"), &json!("t"))
        );
    }
}
