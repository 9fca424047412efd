use serde_json::json;

use super::*;
use crate::{request::Request, state::State};

fn fill(text: &str) -> Result<Value, String> {
    let template = Template::parse(text, &["id"]).map_err(|error| error.message)?;
    let headers = [("content-type".to_owned(), b"application/json".to_vec())];
    let body = br#"{"email":"a@b.example","n":2.5,"items":[{"sku":"x"}]}"#;
    let request = Request {
        method: "POST",
        host: "h",
        path: "/things/7",
        query: "q=1",
        headers: &headers,
        body,
    };
    let (call, parameters) = (Call::read(request), vec![("id".to_owned(), "7".to_owned())]);
    let mut state = State::default();
    let mut draft = Draft::new(&mut state, "i", 1);
    draft.put("set/thing.7", json!({ "name": "lamp" }));
    let seed = json!({ "customer": { "id": "c1" } });
    let now = Timestamp::UNIX_EPOCH;
    let mut context = Context::new(&call, &parameters, &seed, now, &mut draft);
    template.value(&mut context).map_err(|error| error.to_string())
}

#[test]
fn references_lead_to_values() {
    for (text, expected) in [
        ("plain", json!("plain")),
        ("{{request.json.email}}", json!("a@b.example")),
        ("to {{ request.json.email }}!", json!("to a@b.example!")),
        ("{{request.json.n}}", json!(2.5)),
        ("{{request.json.items.0.sku}}", json!("x")),
        ("{{request.json.items}}", json!([{ "sku": "x" }])),
        ("{{request.method}} {{request.path}} {{request.query.q}}", json!("POST /things/7 1")),
        ("{{path.id | number}}", json!(7)),
        ("{{seed.customer.id}}", json!("c1")),
        ("{{state.thing.(path.id).name}}", json!("lamp")),
        ("{{request.json.none | default \"x\"}}", json!("x")),
        ("{{request.json.none | default path.id | pad 3}}", json!("007")),
        ("{{request.json.n | times 0.1 | round 2}}", json!(0.25)),
        ("{{request.json.n | plus request.json.n}}", json!(5)),
        ("{{request.json.items | length}}", json!(1)),
        ("{{request.json.email | url}}", json!("a%40b%2Eexample")),
        ("{{now}} {{now.unix}} {{now.date}}", json!("1970-01-01T00:00:00Z 0 1970-01-01")),
        ("{{counter.a}}{{counter.a}}{{counter.b}}", json!("111")),
        ("{{\"{{\"}}", json!("{{")),
    ] {
        assert_eq!(fill(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_with_every_request_is_found_immediately() {
    for (text, expected) in [
        ("{{reqest.json}}", "the reference `reqest` is not known"),
        ("{{request.jsn.a}}", "the part of `request` `jsn` is not known"),
        ("{{path.other}}", "the part of `path` `other` is not known"),
        ("{{now | shout}}", "the filter `shout` is not known"),
        ("{{now", "`{{` has no `}}`"),
        ("{{}}", "a reference is expected"),
        ("{{now now}}", "`now` is unexpected"),
        ("{{(now)}}", "a reference begins with a word"),
    ] {
        let error = fill(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(
        Template::parse("{{reqest.a}}", &[]).unwrap_err().suggestion.as_deref(),
        Some("request")
    );
    assert!(fill(&format!("{{{{{}", "state.(".repeat(10_000))).is_err());
}

#[test]
fn a_reference_to_nothing_is_named() {
    let error = fill("{{request.json.nobody}}").unwrap_err();
    assert_eq!(
        error,
        "the template refers to `request.json.nobody`, which this request does not have"
    );
    assert!(fill("{{request.json.email | times 2}}").unwrap_err().contains("`times`"));
}

#[test]
fn an_answer_has_a_largest_size() {
    let error = fill(&"{{request.body}}".repeat(MAX_OUTPUT / 50)).unwrap_err();
    assert!(error.starts_with("the answer would be larger"), "{error}");
}

#[test]
fn filters_that_make_texts_longer_and_longer_are_stopped_on_the_way() {
    for (filter, times) in [("base64", 100), ("json", 60)] {
        let text = format!("{{{{counter {} | length}}}}", format!("| {filter} ").repeat(times));
        assert!(fill(&text).unwrap_err().contains("larger than"), "{text}");
    }
    // Intermediate values count as well, however short the result.
    let (long, steps) = ("x".repeat(10_000), "| text ".repeat(20));
    let again = format!("{{{{\"{long}\" {steps} | length}}}}");
    assert!(fill(&again.repeat(10)).is_ok());
    assert!(fill(&again.repeat(200)).unwrap_err().contains("larger than"));
}
