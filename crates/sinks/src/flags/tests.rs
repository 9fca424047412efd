use serde_json::json;

use super::*;
use crate::testing::{Sent, each, pinned, tree};

fn flags() -> FlagSet {
    pinned([
        ("on", json!(true)),
        ("off", json!(false)),
        ("arm", json!("test")),
        ("size", json!({ "n": 3 })),
    ])
}

fn got(host: &str, sent: &Sent<'_>) -> Value {
    let taken = sent.to(host, &flags());
    assert_eq!(taken.answer.status, 200, "{host}{}", sent.path);
    tree(&taken)
}

/// Returns the keys and values of the flags recorded from a report.
fn reported(host: &str, path: &str, report: &Value) -> Vec<(Value, Value)> {
    let taken = Sent::json(path, report).to(host, &flags());
    assert!(taken.answer.status < 300, "{host}{path}");
    let pairs = each(&taken, "/key").into_iter().zip(each(&taken, "/value"));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn launchdarkly_streams_polls_and_reports() {
    let stream = Sent::get("/all").to("stream.launchdarkly.com", &flags());
    let hothouse_mock::Body::Pieces(pieces) = &stream.answer.body else { panic!() };
    let first = String::from_utf8(pieces[0].bytes.clone()).unwrap();
    let data = first.strip_prefix("event: put\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["data"]["flags"]["arm"]["variations"], json!(["test"]));
    assert!(pieces.len() > 1 && pieces[1].bytes.starts_with(b":"));
    let all = got("sdk.launchdarkly.com", &Sent::get("/sdk/latest-all"));
    assert_eq!(all["flags"]["off"]["variations"], json!([false]));
    let client = got("clientsdk.launchdarkly.com", &Sent::get("/sdk/evalx/env/contexts/e30"));
    assert_eq!(client["size"]["value"], json!({ "n": 3 }));
    let report = json!([
        { "kind": "summary", "features": { "arm": { "counters": [{ "value": "test", "count": 2 }] }, "lost": { "counters": [{ "value": 1, "unknown": true }] } } },
        { "kind": "identify" },
    ]);
    let seen = reported("events.launchdarkly.com", "/bulk", &report);
    assert_eq!(seen, [(json!("arm"), json!("test")), (json!("lost"), json!(1))]);
    let custom = json!([{ "kind": "custom", "key": "paid", "contextKeys": { "user": "u1" }, "data": { "n": 1 } }]);
    let taken = Sent::json("/bulk", &custom).to("events.launchdarkly.com", &flags());
    assert_eq!(each(&taken, "/name"), ["paid"]);
}

#[test]
fn configcat_has_both_documents() {
    let host = "cdn-global.configcat.com";
    let sixth = got(host, &Sent::get("/configuration-files/sdk/key/config_v6.json"));
    assert_eq!(sixth["f"]["arm"]["v"], json!({ "s": "test" }));
    assert_eq!(
        (&sixth["f"]["on"]["t"], &sixth["f"]["on"]["v"]),
        (&json!(0), &json!({ "b": true }))
    );
    let fifth = got(host, &Sent::get("/configuration-files/key/config_v5.json"));
    assert_eq!(fifth["f"]["off"]["v"], false);
    assert_eq!(Sent::get("/other").to(host, &flags()).answer.status, 404);
}

#[test]
fn unleash_has_features_toggles_and_metrics() {
    let host = "eu.app.unleash-hosted.com";
    for path in ["/api/client/features", "/demo/api/client/features"] {
        let features = got(host, &Sent::get(path));
        let arm = &features["features"][0];
        assert_eq!((&arm["name"], &arm["enabled"]), (&json!("arm"), &json!(true)));
        assert_eq!(arm["variants"][0]["payload"]["value"], "test");
        assert_eq!(features["features"][1]["enabled"], false);
    }
    let toggles = got(host, &Sent::get("/api/frontend"));
    let names: Vec<_> =
        toggles["toggles"].as_array().unwrap().iter().map(|toggle| &toggle["name"]).collect();
    assert_eq!(names, ["arm", "on", "size"]);
    let report = json!({ "bucket": { "toggles": { "arm": { "yes": 2, "no": 0, "variants": { "test": 2 } }, "off": { "yes": 0, "no": 1 } } } });
    let seen = reported(host, "/api/client/metrics", &report);
    assert_eq!(
        seen,
        [(json!("arm"), json!(true)), (json!("arm"), json!("test")), (json!("off"), json!(false))]
    );
    let first = Sent::get("/api/client/features").to(host, &flags());
    let tag = first.answer.headers.iter().find(|(name, _)| name == "etag").unwrap().1.clone();
    let again = Sent::get("/api/client/features").header("if-none-match", &tag).to(host, &flags());
    assert_eq!(again.answer.status, 304);
}

#[test]
fn flagsmith_has_flags_identities_and_a_document() {
    let host = "edge.api.flagsmith.com";
    let states = got(host, &Sent::get("/api/v1/flags/"));
    assert_eq!(states[0]["feature_state_value"], "test");
    assert_eq!(
        (&states[1]["feature"]["name"], &states[1]["enabled"]),
        (&json!("off"), &json!(false))
    );
    let person = got(host, &Sent::json("/api/v1/identities/", &json!({ "identifier": "u1" })));
    assert_eq!(
        (&person["identifier"], person["flags"].as_array().unwrap().len()),
        (&json!("u1"), 4)
    );
    let document = got(host, &Sent::get("/api/v1/environment-document/"));
    assert_eq!(document["feature_states"][3]["feature_state_value"], "{\"n\":3}");
    let seen = reported(host, "/api/v1/analytics/flags/", &json!({ "arm": 3 }));
    assert_eq!(seen, [(json!("arm"), json!("test"))]);
}

#[test]
fn statsig_has_gates_and_configs() {
    let lists = got("api.statsigcdn.com", &Sent::get("/v1/get_id_lists/secret-x.json"));
    assert_eq!(lists, json!({}));
    let specs = got("api.statsigcdn.com", &Sent::get("/v2/download_config_specs/secret-x.json"));
    assert_eq!(specs["feature_gates"][0]["name"], "off");
    assert_eq!(specs["feature_gates"][0]["rules"][0]["returnValue"], false);
    assert_eq!(specs["dynamic_configs"][1]["rules"][0]["returnValue"], json!({ "n": 3 }));
    let initial = got("featureassets.org", &Sent::json("/v1/initialize", &json!({})));
    assert_eq!(initial["feature_gates"]["on"]["value"], true);
    assert_eq!(initial["dynamic_configs"]["arm"]["value"], json!({ "value": "test" }));
    let report = json!({ "events": [
        { "eventName": "statsig::gate_exposure", "metadata": { "gate": "on", "gateValue": "true" } },
        { "eventName": "statsig::diagnostics" },
    ] });
    assert_eq!(reported("statsigapi.net", "/v1/rgstr", &report), [(json!("on"), json!(true))]);
    let gate = got("api.statsig.com", &Sent::json("/v1/check_gate", &json!({ "gateName": "on" })));
    assert_eq!(gate["value"], true);
}

#[test]
fn ofrep_evaluates_one_or_all() {
    let ask = |path: &str| {
        Sent::json(path, &json!({ "context": {} })).taken_by("f.example", GENERIC.take, &flags())
    };
    let one = ask("/ofrep/v1/evaluate/flags/arm");
    assert_eq!(tree(&one)["value"], "test");
    assert_eq!(each(&one, "/key"), ["arm"]);
    let unknown = ask("/flags/ofrep/v1/evaluate/flags/nothing");
    assert_eq!(
        (unknown.answer.status, &tree(&unknown)["errorCode"]),
        (404, &json!("FLAG_NOT_FOUND"))
    );
    assert_eq!(each(&unknown, "/value"), [&Value::Null]);
    assert_eq!(tree(&ask("/ofrep/v1/evaluate/flags"))["flags"].as_array().unwrap().len(), 4);
}

#[test]
fn hostile_reports_change_nothing() {
    for body in [
        "",
        "[]",
        "{}",
        "null",
        "[1,2]",
        "{\"events\":3}",
        "{\"bucket\":{\"toggles\":[1]}}",
        "[{\"kind\":\"summary\",\"features\":[]}]",
    ] {
        for (host, path) in [
            ("events.launchdarkly.com", "/bulk"),
            ("x.getunleash.io", "/api/client/metrics"),
            ("api.flagsmith.com", "/api/v1/analytics/flags/"),
            ("statsigapi.net", "/v1/rgstr"),
        ] {
            let taken = Sent::post(path, body)
                .header("content-type", "application/json")
                .to(host, &flags());
            assert!(taken.answer.status < 500, "{host} {body}");
        }
    }
}
