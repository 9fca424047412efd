//! Requests of SDKs, and the resulting records.

use hothouse_mock::Request;
use hothouse_model::record::bodies::ErrorBody;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{Context, FlagSet, Recorded};

fn taken(
    host: &str,
    method: &str,
    path: &str,
    query: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Taken {
    let headers: Vec<(String, Vec<u8>)> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let request = Request { method, host, path, query, headers: &headers, body };
    let mut random = || [7; 16];
    let flags = FlagSet::new();
    let mut context = Context {
        now: Timestamp::UNIX_EPOCH,
        random: &mut random,
        flags: &flags,
        mails: &crate::no_mails,
    };
    (find(host).expect("the host is known").take)(&Call::read(request), &mut context)
}

const SENTRY: &str = "o1.ingest.us.sentry.io";
const AUTH: (&str, &str) = ("X-Sentry-Auth", "Sentry sentry_version=7, sentry_key=abc");

fn sent(body: &str) -> Taken {
    taken(SENTRY, "POST", "/api/42/envelope/", "", &[AUTH], body.as_bytes())
}

fn body(recorded: &Recorded) -> ErrorBody {
    serde_json::from_value(recorded.body.clone()).unwrap()
}

fn tree(taken: &Taken) -> Value {
    serde_json::from_slice(&taken.answer.body.bytes()).unwrap_or_default()
}

fn event() -> Value {
    json!({
        "event_id": "a".repeat(32), "level": "error", "platform": "python", "release": "1.0", "environment": "dev",
        "timestamp": "2026-11-17T08:00:00Z", "transaction": "/checkout",
        "exception": { "values": [
            { "type": "KeyError", "value": "'plan'" },
            { "type": "ValueError", "value": "bad plan 7", "mechanism": { "handled": false }, "stacktrace": { "frames": [
                { "filename": "flask/app.py", "function": "dispatch", "in_app": false, "lineno": 1 },
                { "filename": "shop/pay.py", "module": "shop.pay", "function": "charge", "in_app": true, "lineno": 7, "context_line": "  raise" },
            ] } },
        ] },
        "tags": [["a", "b"]], "contexts": { "trace": { "trace_id": "0123456789abcdef0123456789abcdef" } },
        "breadcrumbs": { "values": [{ "category": "http", "message": "GET /", "timestamp": 1.5 }] },
        "request": { "url": "https://x.example/checkout", "method": "POST", "query_string": "a=1", "headers": { "Host": "x" } },
    })
}

#[test]
fn an_event_becomes_a_record_of_its_issue() {
    let event = event();
    let envelope = format!(
        "{{\"event_id\":\"{}\"}}\n{{\"type\":\"event\"}}\n{event}\n{{\"type\":\"session\"}}\n{{}}\n{{\"type\":\"new_thing\",\"length\":1}}\nx\n",
        "a".repeat(32)
    );
    let taken = sent(&envelope);
    assert_eq!((taken.answer.status, tree(&taken)), (200, json!({ "id": "a".repeat(32) })));
    assert_eq!(
        taken.answer.matched,
        Match::Vendor("sentry (event 1, new_thing 1, session 1)".into())
    );
    let [recorded] = &taken.records[..] else { panic!("{:?}", taken.records) };
    assert_eq!(recorded.summary, "ValueError: bad plan 7");
    assert_eq!(recorded.trace.as_deref(), Some("0123456789abcdef0123456789abcdef"));
    assert!(recorded.id.as_deref().is_some_and(|id| id.starts_with("err_")));
    let body = body(recorded);
    assert_eq!(body.culprit, "charge in shop/pay.py");
    assert_eq!((body.causes[0].error_type.as_str(), body.handled), ("KeyError", Some(false)));
    assert_eq!(body.group.components, ["type: ValueError", "frame: charge in shop.pay"]);
    assert_eq!(body.tags["a"], "b");
    assert_eq!(body.breadcrumbs[0].category, "http");
    assert_eq!(body.request.unwrap().url.as_deref(), Some("https://x.example/checkout?a=1"));
}

#[test]
fn events_of_one_issue_share_its_id() {
    let id = |event: &Value| {
        sent(&format!("{{}}\n{{\"type\":\"event\"}}\n{event}\n")).records[0].id.clone()
    };
    let mut other = event();
    other["exception"]["values"][1]["value"] = json!("bad plan 8");
    assert_eq!(id(&event()), id(&other));
    other["fingerprint"] = json!(["{{ default }}", "pro"]);
    assert_ne!(id(&event()), id(&other));
}

#[test]
fn every_form_of_key_is_taken_and_none_is_refused() {
    let body = "{}\n{\"type\":\"event\"}\n{\"message\":\"hi\"}\n";
    let with_dsn = "{\"dsn\":\"https://k@o1.ingest.sentry.io/42\"}\n{\"type\":\"event\"}\n{\"message\":\"hi\"}\n";
    let path = "/api/42/envelope/";
    for (query, headers, body, status) in [
        ("", vec![AUTH], body, 200),
        ("", vec![("Authorization", "Sentry sentry_key=abc")], body, 200),
        ("sentry_version=7&sentry_key=abc", vec![], body, 200),
        ("", vec![], with_dsn, 200),
        ("", vec![], body, 403),
    ] {
        let taken = taken(SENTRY, "POST", path, query, &headers, body.as_bytes());
        assert_eq!(
            (taken.answer.status, taken.records.len()),
            (status, usize::from(status == 200)),
            "{query} {headers:?}"
        );
    }
    let spotlight = taken("sentry.io", "POST", "/stream", "", &[], body.as_bytes());
    assert_eq!((spotlight.answer.status, spotlight.records.len()), (200, 1));
}

#[test]
fn browsers_may_ask_first_and_read_every_answer() {
    let origin =
        [("Origin", "https://x.localhost"), ("Access-Control-Request-Headers", "sentry-trace")];
    let asked = taken(SENTRY, "OPTIONS", "/api/42/envelope/", "", &origin, b"");
    assert!(
        asked
            .answer
            .headers
            .contains(&("access-control-allow-headers".into(), "sentry-trace".into()))
    );
    let refused = taken(SENTRY, "POST", "/api/42/envelope/", "", &[AUTH], b"nonsense");
    assert_eq!(refused.answer.status, 400);
    assert!(refused.answer.headers.contains(&("access-control-allow-origin".into(), "*".into())));
}

#[test]
fn what_is_not_an_error_makes_no_record() {
    for kind in [
        "transaction",
        "session",
        "sessions",
        "client_report",
        "check_in",
        "replay_event",
        "profile",
        "span",
        "log",
    ] {
        let taken = sent(&format!("{{}}\n{{\"type\":\"{kind}\"}}\n{{\"event_id\":\"x\"}}\n"));
        assert_eq!((taken.answer.status, taken.records.len()), (200, 0), "{kind}");
    }
}

#[test]
fn files_come_with_their_event_and_crashes_are_errors() {
    let envelope = "{}\n{\"type\":\"event\"}\n{\"message\":\"hi\"}\n{\"type\":\"attachment\",\"length\":3,\"filename\":\"../../x\"}\na\nb\n";
    let recorded = &sent(envelope).records[0];
    assert_eq!(
        recorded.body["files"],
        json!([{ "name": "../../x", "type": "", "size": 3, "file": null }])
    );
    assert_eq!(
        (recorded.files[0].bytes.as_slice(), recorded.files[0].pointer),
        (&b"a\nb"[..], Some("/files/0/file"))
    );
    assert!(recorded.files[0].path.starts_with("error-files/0707"), "{}", recorded.files[0].path);
    let crash =
        "{}\n{\"type\":\"attachment\",\"length\":4,\"attachment_type\":\"event.minidump\"}\nMDMP\n";
    assert_eq!(sent(crash).records[0].summary, "Minidump: native crash");
    let form = b"--x\r\nContent-Disposition: form-data; name=\"upload_file_minidump\"; filename=\"m.dmp\"\r\n\r\nMDMP\r\n--x--\r\n";
    let headers = [AUTH, ("Content-Type", "multipart/form-data; boundary=x")];
    let taken = taken(SENTRY, "POST", "/api/42/minidump/", "", &headers, form);
    assert_eq!((taken.answer.status, taken.records[0].files.len()), (200, 1));
}

#[test]
fn messages_threads_and_reports_are_events_too() {
    let store = |body: &Value| {
        taken(SENTRY, "POST", "/api/42/store/", "sentry_key=a", &[], body.to_string().as_bytes())
    };
    let message = store(
        &json!({ "logentry": { "message": "hi %s", "formatted": "hi you" }, "level": "info", "logger": "app" }),
    );
    assert_eq!(message.records[0].summary, "app: hi you");
    let thread = store(&json!({ "message": "hang", "threads": { "values": [
        { "current": true, "stacktrace": { "frames": [{ "function": "loop", "filename": "a.c", "in_app": true }] } }] } }));
    assert_eq!(body(&thread.records[0]).culprit, "loop in a.c");
    let report = json!({ "csp-report": { "document-uri": "https://x", "blocked-uri": "https://evil.example", "effective-directive": "script-src" } });
    let report = taken(
        "sentry.io",
        "POST",
        "/api/42/security/",
        "sentry_key=a",
        &[],
        report.to_string().as_bytes(),
    );
    assert_eq!(report.records[0].summary, "csp: blocked `https://evil.example` by `script-src`");
}

#[test]
fn other_vendors_end_in_the_same_list() {
    let json_type = [("Content-Type", "application/json")];
    let post = |host: &str, path: &str, body: Value| {
        taken(host, "POST", path, "", &json_type, body.to_string().as_bytes())
    };
    let bugsnag = post(
        "notify.bugsnag.com",
        "/",
        json!({ "apiKey": "k", "events": [{
        "exceptions": [{ "errorClass": "TypeError", "message": "x is 7", "type": "nodejs", "stacktrace": [
            { "file": "src/pay.js", "method": "charge", "lineNumber": 7, "inProject": true },
            { "file": "node_modules/x.js", "method": "run", "lineNumber": 1, "inProject": false }] }],
        "severity": "warning", "unhandled": true, "app": { "version": "1.0", "releaseStage": "dev" } }] }),
    );
    let rollbar = post(
        "api.rollbar.com",
        "/api/1/item/",
        json!({ "access_token": "t", "data": { "environment": "dev", "level": "warning",
        "code_version": "1.0", "body": { "trace": { "exception": { "class": "TypeError", "message": "x is 7" },
        "frames": [{ "filename": "node_modules/x.js", "method": "run" }, { "filename": "src/pay.js", "method": "charge", "lineno": 7 }] } } } }),
    );
    let honeybadger = post(
        "api.honeybadger.io",
        "/v1/notices",
        json!({ "error": { "class": "TypeError", "message": "x is 7", "backtrace": [
        { "file": "src/pay.js", "method": "charge", "number": "7", "context": "app" },
        { "file": "node_modules/x.js", "method": "run", "number": "1" }] },
        "server": { "environment_name": "dev", "revision": "1.0" } }),
    );
    let mut ids = std::collections::BTreeSet::new();
    for (taken, status, vendor) in
        [(bugsnag, 202, "bugsnag"), (rollbar, 200, "rollbar"), (honeybadger, 201, "honeybadger")]
    {
        assert_eq!(taken.answer.status, status);
        let body = body(&taken.records[0]);
        assert_eq!((body.vendor.as_str(), body.culprit.as_str()), (vendor, "charge in src/pay.js"));
        assert_eq!(
            (body.release.as_deref(), body.environment.as_deref()),
            (Some("1.0"), Some("dev"))
        );
        ids.insert(taken.records[0].id.clone());
    }
    assert_eq!(ids.len(), 1, "one place is one issue, whoever tells of it");
    for (host, path, status) in [
        ("notify.bugsnag.com", "/", 400),
        ("api.rollbar.com", "/api/1/item/", 422),
        ("api.honeybadger.io", "/v1/notices", 422),
    ] {
        let taken = post(host, path, json!({}));
        assert_eq!((taken.answer.status, taken.records.len()), (status, 0), "{host}");
    }
    assert_eq!(post("sessions.bugsnag.com", "/", json!({})).answer.status, 202);
}

#[test]
fn payloads_of_any_shape_are_taken() {
    for shape in [
        json!({ "exception": 7, "tags": 7, "breadcrumbs": [7], "request": [], "fingerprint": "x", "threads": {} }),
        json!({ "exception": { "type": "A", "value": "b" } }),
        json!({ "exception": [null, { "stacktrace": null }] }),
        json!({ "exception": { "values": [{ "type": "A", "stacktrace": { "frames": [null, {}, { "lineno": -1 }] } }] } }),
        json!([]),
        json!(null),
    ] {
        let taken = sent(&format!("{{}}\n{{\"type\":\"event\"}}\n{shape}\n"));
        assert_eq!((taken.answer.status, taken.records.len()), (200, 1), "{shape}");
    }
}

#[test]
fn an_event_without_an_id_gets_one_and_crash_reporters_are_told_it() {
    let header = "b".repeat(32);
    let named = sent(&format!("{{\"event_id\":\"{header}\"}}\n{{\"type\":\"event\"}}\n{{}}\n"));
    assert_eq!(tree(&named), json!({ "id": header }));
    let made = sent("{}\n{\"type\":\"event\"}\n{}\n");
    assert_eq!(tree(&made), json!({ "id": "07".repeat(16) }));
    assert_eq!(body(&made.records[0]).event_id, "07".repeat(16));
    let form = "--b\r\nContent-Disposition: form-data; name=\"upload_file_minidump\"; filename=\"a.dmp\"\r\n\r\nMDMP\r\n--b--\r\n";
    let headers = [AUTH, ("content-type", "multipart/form-data; boundary=b")];
    let crash = taken(SENTRY, "POST", "/api/42/minidump/", "", &headers, form.as_bytes());
    let told = String::from_utf8(crash.answer.body.bytes()).unwrap();
    assert_eq!(told, "07070707-0707-0707-0707-070707070707");
}

#[test]
fn a_message_that_was_cut_inside_an_emoji_is_recorded() {
    let event = r#"{"event_id":"1","message":"cut \ud83d"}"#;
    let taken = sent(&format!("{{}}\n{{\"type\":\"event\"}}\n{event}\n"));
    assert_eq!(body(&taken.records[0]).message, "cut \u{fffd}");
}
