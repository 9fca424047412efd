use serde_json::json;

use super::*;
use crate::{
    FlagSet,
    testing::{Sent, each, tree},
};

/// Checks a request: its status, and the type, name and person of each record.
fn check(
    host: &str,
    sent: &Sent<'_>,
    status: u16,
    expected: &[(&str, &str, Option<&str>)],
) -> Taken {
    let taken = sent.to(host, &FlagSet::new());
    assert_eq!(taken.answer.status, status, "{host}{}: {}", sent.path, tree(&taken));
    let found: Vec<_> = taken
        .records
        .iter()
        .map(|record| {
            let text = |name: &str| record.body[name].as_str();
            (text("type").unwrap(), text("name").unwrap(), text("distinct_id"))
        })
        .collect();
    assert_eq!(found, expected, "{host}{}", sent.path);
    taken
}

#[test]
fn hosts_lead_to_vendors() {
    for (host, vendor) in [
        ("us.i.posthog.com", Some("posthog")),
        ("us-assets.i.posthog.com", Some("posthog")),
        ("app.posthog.com", Some("posthog")),
        ("api.segment.io", Some("segment")),
        ("acme.dataplane.rudderstack.com", Some("rudderstack")),
        ("api.eu.amplitude.com", Some("amplitude")),
        ("api-js.mixpanel.com", Some("mixpanel")),
        ("region1.google-analytics.com", Some("google-analytics")),
        ("plausible.io", Some("plausible")),
        ("posthog.com.example", None),
        ("notposthog.com", None),
    ] {
        assert_eq!(find(host).map(|sink| sink.vendor), vendor, "{host}");
    }
}

#[test]
fn segment_and_those_like_it() {
    let batch = json!({ "batch": [
        { "type": "track", "event": "Paid", "userId": "u1", "properties": { "total": 3 }, "timestamp": "2026-01-01T00:00:00Z" },
        { "type": "identify", "userId": "u1", "anonymousId": "a1", "traits": { "email": "a@b.example" } },
        { "type": "alias", "previousId": "a1", "userId": "u1" },
        { "type": "group", "userId": "u1", "groupId": "g1", "traits": { "name": "Acme" } },
        { "type": "page", "anonymousId": "a1", "name": "Home", "properties": { "url": "/" } },
        { "type": "screen", "anonymousId": "a1", "name": "Main" },
        { "type": "unknown" },
    ] });
    let expected = [
        ("track", "Paid", Some("u1")),
        ("identify", "$identify", Some("u1")),
        ("alias", "$create_alias", Some("a1")),
        ("group", "$groupidentify", Some("u1")),
        ("page", "$pageview", Some("a1")),
        ("screen", "$screen", Some("a1")),
    ];
    let taken = check("api.segment.io", &Sent::json("/v1/batch", &batch), 200, &expected);
    assert_eq!(taken.records[0].body["timestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(taken.records[1].body["properties"]["$set"]["email"], "a@b.example");
    assert_eq!(taken.records[2].body["properties"]["alias"], "u1");
    assert_eq!(taken.records[3].body["properties"]["$group_set"]["name"], "Acme");
    let rudder = check("hosted.rudderlabs.com", &Sent::json("/v1/batch", &batch), 200, &expected);
    assert_eq!(tree(&rudder), "OK");
    let one = json!({ "event": "Paid", "userId": "u1" });
    check("api.segment.io", &Sent::json("/v1/t", &one), 200, &expected[..1]);
    // A text that JavaScript cut inside an emoji.
    let cut = Sent::post("/v1/t", r#"{"event":"Paid","userId":"u1","properties":{"a":"\ud83d"}}"#);
    let cut = check("api.segment.io", &cut, 200, &expected[..1]);
    assert_eq!(cut.records[0].body["properties"]["a"], "\u{fffd}");
    check("api.segment.io", &Sent::json("/v1/nothing", &one), 404, &[]);
    check("api.segment.io", &Sent::post("/v1/track", "{"), 400, &[]);
    let settings = Sent::get("/v1/projects/key/settings").to("cdn.segment.com", &FlagSet::new());
    assert_eq!(tree(&settings)["integrations"]["Segment.io"]["apiKey"], "key");
}

#[test]
fn amplitude() {
    let body = json!({ "api_key": "k", "events": [
        { "event_type": "Paid", "user_id": "u1", "event_properties": { "total": 3 }, "groups": { "team": "t" }, "time": 5 },
        { "event_type": "$identify", "device_id": "d1", "user_properties": { "$set": { "plan": "pro" } } },
    ] });
    let expected = [("track", "Paid", Some("u1")), ("identify", "$identify", Some("d1"))];
    for path in ["/2/httpapi", "/batch"] {
        let taken = check("api2.amplitude.com", &Sent::json(path, &body), 200, &expected);
        assert_eq!(tree(&taken)["events_ingested"], 2);
        assert_eq!(taken.records[1].body["properties"]["$set"]["plan"], "pro");
    }
    let form = "api_key=k&identification=%5B%7B%22user_id%22%3A%22u1%22%2C%22user_properties%22%3A%7B%22plan%22%3A%22pro%22%7D%7D%5D";
    let taken = check(
        "api.amplitude.com",
        &Sent::post("/identify", form),
        200,
        &[("identify", "$identify", Some("u1"))],
    );
    assert_eq!(taken.records[0].body["properties"]["$set"]["plan"], "pro");
}

#[test]
fn mixpanel() {
    let event = r#"[{"event":"Paid","properties":{"token":"t","distinct_id":"u1","total":3}}]"#;
    let expected = [("track", "Paid", Some("u1"))];
    let base64 = "data=W3siZXZlbnQiOiJQYWlkIiwicHJvcGVydGllcyI6eyJ0b2tlbiI6InQiLCJkaXN0aW5jdF9pZCI6InUxIiwidG90YWwiOjN9fV0%3D";
    for body in [event, base64] {
        let taken =
            check("api.mixpanel.com", &Sent::post("/track?verbose=1", body), 200, &expected);
        assert_eq!(tree(&taken)["status"], 1);
        assert_eq!(each(&taken, "/properties"), [&json!({ "total": 3 })]);
    }
    assert_eq!(tree(&check("api.mixpanel.com", &Sent::post("/track", event), 200, &expected)), 1);
    let lines = "{\"event\":\"a\",\"properties\":{}}\n{\"event\":\"b\",\"properties\":{}}\n";
    let taken = check(
        "api.mixpanel.com",
        &Sent::post("/import", lines),
        200,
        &[("track", "a", None), ("track", "b", None)],
    );
    assert_eq!(tree(&taken)["num_records_imported"], 2);
    let person = r#"[{"$token":"t","$distinct_id":"u1","$set":{"plan":"pro"}}]"#;
    check(
        "api.mixpanel.com",
        &Sent::post("/engage", person),
        200,
        &[("identify", "$identify", Some("u1"))],
    );
    let group = r#"[{"$token":"t","$group_key":"team","$group_id":"g1","$set":{}}]"#;
    check(
        "api.mixpanel.com",
        &Sent::post("/groups", group),
        200,
        &[("group", "$groupidentify", None)],
    );
}

#[test]
fn google() {
    let host = "www.google-analytics.com";
    let body = json!({ "client_id": "c1", "events": [{ "name": "purchase", "params": { "value": 3 } }, { "name": "page_view" }] });
    let expected = [("track", "purchase", Some("c1")), ("page", "page_view", Some("c1"))];
    check(host, &Sent::json("/mp/collect?measurement_id=G-1&api_secret=x", &body), 204, &expected);
    let debug = check(host, &Sent::json("/debug/mp/collect", &body), 200, &[]);
    assert_eq!(tree(&debug)["validationMessages"], json!([]));
    let one = Sent::post(
        "/g/collect?v=2&cid=c1&en=scroll&epn.percent=90&ep.where=home&dl=https%3A%2F%2Fa",
        "",
    );
    let taken = check(host, &one, 204, &[("track", "scroll", Some("c1"))]);
    let expected = json!({ "percent": 90.0, "where": "home", "page_location": "https://a" });
    assert_eq!(each(&taken, "/properties"), [&expected]);
    let two = Sent::post("/g/collect?v=2&cid=c1", "en=a&ep.x=1\r\nen=b\r\n");
    check(host, &two, 204, &[("track", "a", Some("c1")), ("track", "b", Some("c1"))]);
}

#[test]
fn plausible() {
    let long = json!({ "name": "Signup", "url": "https://a.example/", "domain": "a.example", "props": { "plan": "pro" } });
    let short = json!({ "n": "Signup", "u": "https://a.example/", "d": "a.example", "p": "{\"plan\":\"pro\"}" });
    for body in [long, short] {
        let taken = check(
            "plausible.io",
            &Sent::json("/api/event", &body),
            202,
            &[("track", "Signup", None)],
        );
        assert_eq!(taken.records[0].body["properties"]["plan"], "pro");
        assert_eq!(taken.records[0].body["properties"]["domain"], "a.example");
    }
}

#[test]
fn whatever_looks_like_events_becomes_events() {
    let names = |body: &str| {
        let taken =
            Sent::post("/collect", body).taken_by("x.example", GENERIC.take, &FlagSet::new());
        each(&taken, "/name")
            .into_iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(r#"{"event":"a"}"#), ["a"]);
    assert_eq!(names(r#"[{"name":"a"},{"type":"b"}]"#), ["a", "b"]);
    assert_eq!(names(r#"{"events":[{"event_name":"a"},{"x":1}]}"#), ["a", "collect"]);
    assert_eq!(names("no json"), ["collect"]);
}
