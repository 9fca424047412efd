use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Explain,
    record::{Draft, Process},
};

fn record(kind: Kind, body: Value) -> Record {
    let draft = Draft {
        service: Some("worker".into()),
        process: Some(Process { room_pid: 77, command: "node".into() }),
        ..Draft::new(kind, Timestamp::UNIX_EPOCH, "Receipt to Buyer@example.com", body)
    };
    Record { seq: 7, ..draft.into_record(kind.id([1; 8]), "a", "run_1") }
}

fn check(record: &Record, query: &str, expected: bool) {
    let parsed = Query::parse(query, Some(record.kind)).unwrap();
    assert_eq!(parsed.matches(record), expected, "{query}");
}

#[test]
fn terms_are_about_fields_and_all_must_hold() {
    let mail = record(
        Kind::Mail,
        json!({
            "to": ["buyer@example.com", "b@x.org"], "subject": "Your receipt", "size": 12,
            "headers": { "Reply-To": "help@shop.example" },
            "attachments": [{ "name": "a.pdf", "type": "application/pdf" }],
        }),
    );
    for (query, expected) in [
        ("", true),
        ("receipt", true),
        ("RECEIPT buyer@", true),
        ("invoice", false),
        ("-invoice", true),
        ("to:BUYER", true),
        ("to=b@x.org", true),
        ("to=b@x", false),
        ("-to=b@x.org", false),
        ("subject:\"your receipt\"", true),
        ("subject:'your receipt' size=12", true),
        ("\"subject:your\"", false),
        ("subject~^Your\\s", true),
        ("subject~\"^Your re\"", true),
        ("header.reply-to:help@", true),
        ("header.reply-to:zzz", false),
        ("attachments.name=a.pdf", true),
        ("service=worker process.command:NODE kind=mail seq=7", true),
        ("body.attachments.type:pdf", true),
        ("trace:", false),
        ("subject:", true),
        ("to:nobody", false),
    ] {
        check(&mail, query, expected);
    }
}

#[test]
fn values_of_every_kind_have_a_text() {
    let request = record(
        Kind::Request,
        json!({
            "matched": false, "status": 501, "fixture": null,
            "request": { "headers": [["X-A", "1"], ["x-a", "2"]], "text": "{}" },
        }),
    );
    for query in ["matched=false", "status=501", "fixture=null", "header.x-a=2", "request:x-a"] {
        check(&request, query, true);
    }
    let event = record(
        Kind::Event,
        json!({ "properties": { "plan": "pro", "a.b": { "c.d": 1 }, "Plan Name": "x" } }),
    );
    for query in ["properties.plan=pro", "properties.a.b.c.d=1", "properties.\"Plan Name\"=x"] {
        check(&event, query, true);
    }
    check(&event, "properties.plan.x=pro", false);
}

#[test]
fn an_unknown_field_names_the_near_miss_and_is_a_mistake_of_usage() {
    for (query, kind, expected) in [
        ("too:nobody", Some(Kind::Mail), Some("to")),
        ("subjct=x", Some(Kind::Mail), Some("subject")),
        ("propertys.plan=pro", Some(Kind::Event), Some("properties.plan")),
        ("header=x", Some(Kind::Mail), None),
        ("https://a.example", Some(Kind::Log), None),
        ("servce=x", None, Some("service")),
    ] {
        let error = Query::parse(query, kind).unwrap_err();
        let QueryError::Field { near, .. } = &error else { panic!("{error}") };
        if expected.is_some() {
            assert_eq!(near.as_deref(), expected, "{query}");
        }
        assert_eq!(error.failure().kind.exit_code(), 2);
        assert!(!error.hints().is_empty());
    }
    assert!(Query::parse("host=x", Some(Kind::Mail)).is_err(), "a field of another kind");
    assert!(Query::parse("host=x", None).is_ok(), "some kind has it");
}

#[test]
fn what_is_too_long_or_broken_is_refused() {
    for query in [
        "\"open",
        "subject:'open",
        "subject~(",
        &format!("subject~{}", "a".repeat(600)),
        "subject~(a{1000}){1000}",
        &"a ".repeat(33),
        &"a".repeat(5000),
    ] {
        assert!(Query::parse(query, Some(Kind::Mail)).is_err(), "{query}");
    }
    assert_eq!(Query::parse("don't", None).unwrap().terms().len(), 1);
}

#[test]
fn the_nearest_record_holds_most_terms() {
    let query = Query::parse("to:buyer subject:invoice", Some(Kind::Mail)).unwrap();
    let close = record(Kind::Mail, json!({ "to": ["buyer@x"], "subject": "receipt" }));
    let far = record(Kind::Mail, json!({ "to": ["x"] }));
    let (close, far) = (query.near(&close).unwrap(), query.near(&far).unwrap());
    assert!(close > far);
    assert_eq!(close.failed, ["subject:invoice"]);
    assert_eq!(query.near(&record(Kind::Log, json!({}))), None);
}

#[test]
fn since_is_a_cursor_a_mark_a_moment_or_a_span() {
    for (text, expected) in [
        ("41", Since::Seq(41)),
        ("m1", Since::Mark("m1".into())),
        ("before-checkout", Since::Mark("before-checkout".into())),
        ("1970-01-01T00:00:00Z", Since::Moment(Timestamp::UNIX_EPOCH)),
        ("5m", Since::Span(Duration::from_secs(300))),
        ("300ms", Since::Span(Duration::from_millis(300))),
    ] {
        assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        assert_eq!(expected.to_string().parse(), Ok(expected), "{text}");
    }
    for text in ["", "-1", "5 m", "a b", "../x", "1x", &"a".repeat(65)] {
        assert!(text.parse::<Since>().is_err(), "{text}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    let keys = || prop_oneof![Just("headers"), Just("request"), Just("a"), Just("a.b"), Just("b")];
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let map = proptest::collection::vec((keys(), inner.clone()), 0..3);
        let map = map.prop_map(|pairs| {
            Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        });
        prop_oneof![proptest::collection::vec(inner, 0..3).prop_map(Value::from), map]
    })
}

proptest! {
    #[test]
    fn any_text_is_a_query_or_an_error(text in "[a-z:=~\"' \\\\.*(-]{0,40}") {
        if let Ok(query) = Query::parse(&text, None) {
            for term in query.terms() {
                let again = Query::parse(&term.to_string(), None).unwrap();
                prop_assert_eq!(again.terms()[0].to_string(), term.to_string());
            }
        }
    }

    /// Every value that a field finds is also in the index: an index may list too much, but never
    /// too little.
    #[test]
    fn leaves_list_whatever_a_field_finds(
        first in values(),
        second in values(),
        path in "(body|request|header)(\\.(headers|a|a\\.b|b)){1,4}",
    ) {
        let record = record(Kind::Request, json!({ "request": first, "a": second }));
        let field = Field::find(&path, Some(Kind::Request)).unwrap();
        let mut found = Vec::new();
        field.any(&record, &mut |value| {
            found.push(value.to_owned());
            false
        });
        let mut listed = Vec::new();
        fields::leaves(&record, &mut |name, value| {
            if name == field.name() {
                listed.push(value.to_owned());
            }
        });
        let is_listed = |value| listed.contains(value) || listed.iter().any(|one| one == fields::COMPOUND);
        prop_assert!(found.iter().all(is_listed), "{found:?} {listed:?}");
    }
}
