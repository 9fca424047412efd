use std::io::Write;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use hothouse_model::record::Kind;
use serde_json::json;

use super::*;
use crate::{
    FlagSet,
    testing::{Sent, each, pinned, tree},
};

const HOST: &str = "us.i.posthog.com";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn sent(sent: &Sent<'_>) -> Taken {
    sent.to(HOST, &FlagSet::new())
}

#[test]
fn an_event_is_read_however_it_is_wrapped() {
    let event =
        r#"{"event":"paid","properties":{"token":"phc_x","distinct_id":"u1","plan":"pro"}}"#;
    let base64 = STANDARD.encode(event);
    let form = format!("data={}", base64.replace('+', "%2B").replace('=', "%3D"));
    let bodies: [(&str, &str, Vec<u8>); 7] = [
        ("/e/", "", event.into()),
        ("/i/v0/e/?compression=gzip-js", "text/plain", gzip(event)),
        ("/e/?compression=base64", "application/x-www-form-urlencoded", form.clone().into()),
        ("/e/", "application/x-www-form-urlencoded", form.into()),
        ("/capture/", "", base64.clone().into()),
        ("/track/", "", STANDARD.encode(gzip(event)).into()),
        (
            "/batch/",
            "application/json",
            format!("{{\"api_key\":\"k\",\"batch\":[{event}]}}").into(),
        ),
    ];
    for (path, kind, body) in bodies {
        let taken = sent(&Sent::post(path, body).header("content-type", kind));
        assert_eq!(taken.answer.status, 200, "{path} {kind}");
        assert_eq!(tree(&taken), json!({ "status": 1 }), "{path}");
        assert_eq!(each(&taken, "/name"), ["paid"], "{path} {kind}");
        assert_eq!(each(&taken, "/distinct_id"), ["u1"], "{path}");
        assert_eq!(each(&taken, "/properties"), [&json!({ "plan": "pro" })], "{path}");
    }
    let query = format!("/e/?data={}", base64.replace('+', "%2B"));
    assert_eq!(each(&sent(&Sent::get(&query)), "/name"), ["paid"]);
}

#[test]
fn lz_string_is_read() {
    let packed = "N4IgpgbmB2AuIC4QEMQBoQAcBOB7TY2sAlmAM6Kiy4DWMiWAFgMYD6AHuiACbFknRmsVsW4NkAI2aTpUmfKkgAvkqA==";
    let body = format!("data={}", packed.replace('+', "%2B").replace('=', "%3D"));
    let taken = sent(&Sent::post("/e/?compression=lz64", body));
    assert_eq!(each(&taken, "/name"), ["a"]);
    assert_eq!(each(&taken, "/distinct_id"), ["abcabcabcabcabcabc"]);
}

#[test]
fn identify_alias_and_group_are_told_apart() {
    let batch = json!({ "batch": [
        { "event": "$identify", "distinct_id": 7, "$set": { "email": "a@b.example" }, "properties": {} },
        { "event": "$create_alias", "distinct_id": "a", "properties": { "alias": "b" } },
        { "event": "$groupidentify", "properties": { "distinct_id": "a", "$group_type": "team" } },
        { "event": "$pageview", "distinct_id": "a", "properties": { "$groups": { "team": "t1" } } },
        "not an event",
    ] });
    let taken = sent(&Sent::json("/batch/", &batch));
    assert_eq!(each(&taken, "/type"), ["identify", "alias", "group", "page"]);
    assert_eq!(each(&taken, "/distinct_id"), ["7", "a", "a", "a"]);
    assert_eq!(taken.records[0].body["properties"]["$set"]["email"], "a@b.example");
    assert_eq!(taken.records[3].body["groups"], json!({ "team": "t1" }));
    let engage = json!([{ "$set": { "plan": "pro" }, "$distinct_id": "u1", "$token": "t" }]);
    let taken = sent(&Sent::json("/engage/", &engage));
    assert_eq!(each(&taken, "/name"), ["$identify"]);
    assert_eq!(each(&taken, "/distinct_id"), ["u1"]);
}

#[test]
fn the_new_protocol_has_a_result_for_each_event() {
    let batch = json!({ "batch": [{ "event": "a", "uuid": "u-1", "distinct_id": "d" }, { "event": "b", "uuid": "u-2" }] });
    let taken = sent(&Sent::json("/i/v1/analytics/events", &batch));
    assert_eq!(tree(&taken)["results"]["u-2"]["result"], "ok");
    assert_eq!(taken.records.len(), 2);
}

#[test]
fn bad_input_is_refused_and_nothing_is_recorded() {
    let many = json!({ "batch": vec![json!({ "event": "x" }); EVENTS + 1] });
    for (body, status) in [
        (b"nonsense \xff".to_vec(), 400),
        (Vec::new(), 400),
        (b"\x1f\x8bbroken".to_vec(), 400),
        ("[".repeat(100_000).into_bytes(), 400),
        (gzip(&" ".repeat(crate::bound::INFLATED + 1)), 400),
        (many.to_string().into_bytes(), 413),
    ] {
        let taken = sent(&Sent::post("/batch/", body));
        assert_eq!((taken.answer.status, taken.records.len()), (status, 0));
    }
}

#[test]
fn flags_have_their_pinned_values_in_every_version() {
    let flags = pinned([
        ("on", json!(true)),
        ("off", json!(false)),
        ("arm", json!("test")),
        ("limit", json!({ "n": 3 })),
    ]);
    let v2 = tree(&Sent::post("/flags/?v=2", "{}").to(HOST, &flags));
    let brief = |key: &str| {
        let flag = &v2["flags"][key];
        json!([flag["enabled"], flag["variant"], flag["metadata"]["payload"]])
    };
    assert_eq!(brief("on"), json!([true, null, null]));
    assert_eq!(brief("off"), json!([false, null, null]));
    assert_eq!(brief("arm"), json!([true, "test", null]));
    assert_eq!(brief("limit"), json!([true, null, "{\"n\":3}"]));
    let v3 = tree(&Sent::post("/decide/?v=3", "{}").to(HOST, &flags));
    assert_eq!(
        v3["featureFlags"],
        json!({ "on": true, "off": false, "arm": "test", "limit": true })
    );
    let v1 = tree(&Sent::post("/decide/", "{}").to(HOST, &flags));
    assert_eq!(v1["featureFlags"], json!(["arm", "limit", "on"]));
    let local = Sent::get("/flags/definitions?token=phc&send_cohorts").to(HOST, &flags);
    assert_eq!(tree(&local)["flags"][0]["filters"]["multivariate"]["variants"][0]["key"], "test");
    let tag = local.answer.headers.iter().find(|(name, _)| name == "etag").unwrap().1.clone();
    let again = Sent::get("/flags/definitions").header("if-none-match", &tag).to(HOST, &flags);
    assert_eq!(again.answer.status, 304);
}

#[test]
fn a_look_at_a_flag_is_a_record_of_its_own() {
    let flags = pinned([("new-ui", json!("test"))]);
    let event = json!({ "event": "$feature_flag_called", "distinct_id": "u", "properties": { "$feature_flag": "new-ui", "$feature_flag_response": "test" } });
    let taken = Sent::json("/e/", &event).to(HOST, &flags);
    assert_eq!(taken.records[1].kind, Kind::Flag);
    let expected = json!({ "key": "new-ui", "value": "test", "default": null, "pinned": true, "vendor": "posthog" });
    assert_eq!(taken.records[1].body, expected);
}

#[test]
fn pages_get_what_they_ask_for() {
    let config = sent(&Sent::get("/array/phc_<x>/config.js"));
    let text = tree(&config);
    let text = text.as_str().unwrap();
    assert!(text.contains("_POSTHOG_REMOTE_CONFIG") && !text.contains('<'), "{text}");
    assert_eq!(tree(&sent(&Sent::get("/array/phc_x/config")))["token"], "phc_x");
    assert_eq!(sent(&Sent::get("/static/recorder.js")).answer.status, 200);
    let library = tree(&sent(&Sent::get("/static/array.js")));
    assert!(library.as_str().unwrap().contains("'/e/'"), "pages that use the snippet send events");
    let origin = Sent { method: "OPTIONS", path: "/e/", ..Sent::default() }
        .header("origin", "https://web.example")
        .header("access-control-request-headers", "x-a");
    let headers = sent(&origin).answer.headers;
    for (name, value) in [
        ("access-control-allow-origin", "https://web.example"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-headers", "x-a"),
    ] {
        assert!(headers.contains(&(name.into(), value.into())), "{headers:?}");
    }
}

#[test]
fn a_recording_of_a_session_is_noted_by_its_size() {
    let replay = json!([{ "event": "$snapshot", "properties": { "distinct_id": "u", "$snapshot_data": ["x"] } }]);
    let taken = sent(&Sent::json("/s/", &replay));
    assert_eq!(each(&taken, "/name"), ["$snapshot"]);
    assert!(taken.records[0].body["properties"].get("$snapshot_data").is_none());
}
