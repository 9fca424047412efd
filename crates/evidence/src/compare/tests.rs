use hothouse_model::record::Kind;
use serde_json::{Value, json};

use super::*;
use crate::{checks::RowAnswer, testing::record};

fn side(name: &str, records: Vec<Record>) -> Side {
    let run = format!("run_{name}0123456789");
    let outcome = ScenarioOutcome { page: Some(page(name)), ..ScenarioOutcome::default() };
    Side {
        name: name.into(),
        sandbox: format!("agent-{name}"),
        run,
        records,
        outcome: Some(outcome),
        ..Side::default()
    }
}

fn page(name: &str) -> PageSeen {
    PageSeen {
        final_url: format!(
            "https://web.agent-{name}.acme.localhost:8443/done?id=pi_{name}1B2c3D4e5"
        ),
        status: Some(200),
        title: "Thank you".into(),
        text: format!("Your order of agent-{name}, 10 euro"),
        ..PageSeen::default()
    }
}

fn mail(seq: u64, text: &str) -> Record {
    let body =
        json!({ "to": ["ann@example.com"], "subject": "Receipt", "text": text, "html": text });
    record(seq, Kind::Mail, "Receipt to ann", body)
}

fn request(seq: u64, path: &str, status: u16) -> Record {
    let body =
        json!({ "method": "POST", "host": "api.stripe.com", "path": path, "status": status });
    record(seq, Kind::Request, path, body)
}

fn kinds(comparison: &Comparison) -> Vec<&str> {
    comparison.differences.iter().map(|one| one.kind.as_str()).collect()
}

fn full(name: &str) -> Vec<Record> {
    let paid = json!({ "name": "Paid", "vendor": "posthog", "properties": { "amount": 10, "at": "2026-11-17T11:12:04Z" } });
    vec![
        mail(1, &format!("10 euro, agent-{name}")),
        request(2, &format!("/v1/charges/ch_{name}1B2c3D4e5"), 200),
        record(3, Kind::Event, "Paid", paid),
    ]
}

#[test]
fn two_runs_of_the_same_code_are_the_same_with_numbers() {
    let found = compare(&[side("a", full("a")), side("b", full("b"))]);
    assert_eq!(found.differences, []);
    let same: Vec<_> = found.same.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(
        same,
        [
            ("broken", 1),
            ("console", 1),
            ("event", 1),
            ("failed", 1),
            ("mail", 1),
            ("page", 4),
            ("request", 1)
        ]
    );
}

#[test]
fn each_fault_is_named_and_nothing_else() {
    let check = |change: &dyn Fn(&mut Side), expected: &[&str]| {
        let mut broken = side("b", full("b"));
        change(&mut broken);
        let found = compare(&[side("a", full("a")), broken]);
        assert_eq!(kinds(&found), expected, "{:?}", found.differences);
        found
    };
    let missing = check(&|side| drop(side.records.remove(0)), &["mail"]);
    assert_eq!(missing.differences[0].left.as_deref(), Some("once"));
    assert_eq!(missing.differences[0].right, None);
    check(&|side| side.records.push(mail(9, "Hello")), &["mail"]);
    let amount = check(&|side| side.records[0] = mail(1, "12 euro, agent-b"), &["mail"]);
    assert_eq!(amount.differences[0].what, "\"Receipt\" to ann@example.com: text");
    assert_eq!(amount.differences[0].right.as_deref(), Some("12 euro, SANDBOX"));
    check(&|side| drop(side.records.remove(2)), &["event"]);
    check(&|side| side.records[1] = request(2, "/v1/charges/ch_b1B2c3D4e5", 500), &["request"]);
    check(
        &|side| side.records.push(record(9, Kind::Error, "x", json!({ "type": "E" }))),
        &["error"],
    );
    let page = |change: fn(&mut PageSeen)| {
        move |side: &mut Side| {
            if let Some(page) = side.outcome.as_mut().and_then(|outcome| outcome.page.as_mut()) {
                change(page);
            }
        }
    };
    check(&page(|page| page.status = Some(500)), &["page"]);
    check(&page(|page| page.page_errors.push("TypeError".into())), &["console"]);
    check(
        &page(|page| {
            page.media.push(crate::page::Media { src: "a.png".into(), ..Default::default() })
        }),
        &["broken"],
    );
    check(&page(|page| page.duration_ms = 900), &["timing"]);
}

#[test]
fn rows_and_query_counts_are_compared() {
    let span = |seq: u64, id: &str, parent: Option<&str>, attributes: Value| {
        let kind = if parent.is_some() { "client" } else { "server" };
        let body = json!({
            "span_id": id, "parent_id": parent, "span_kind": kind, "attributes": attributes,
            "name": if parent.is_some() { "SELECT" } else { "GET /cart" },
        });
        record(seq, Kind::Trace, id, body)
    };
    let traced = |queries: u64| {
        let mut all = vec![span(1, "root", None, json!({}))];
        for seq in 0..queries {
            let id = format!("q{seq}");
            all.push(span(10 + seq, &id, Some("root"), json!({ "db.system": "postgresql" })));
        }
        all
    };
    let mut sides = [side("a", traced(2)), side("b", traced(40))];
    for (side, rows) in sides.iter_mut().zip(["1", "0"]) {
        let row =
            RowAnswer { service: "db".into(), query: "q".into(), rows: rows.into(), failure: None };
        side.outcome.as_mut().unwrap().rows.push(row);
    }
    let found = compare(&sides);
    assert_eq!(kinds(&found), ["queries", "row"]);
    assert_eq!(found.differences[0].what, "queries of GET /cart");
    assert_eq!(found.differences[0].right.as_deref(), Some("40"));
}

#[test]
fn a_slow_query_is_named_once_and_not_what_waits_for_it() {
    let span = |seq: u64, id: &str, parent: Option<&str>, name: &str, ms: f64| {
        let attributes = match name.starts_with("SELECT") {
            true => json!({ "db.system": "postgresql", "db.statement": name }),
            false => json!({}),
        };
        let body = json!({
            "span_id": id, "parent_id": parent, "name": name, "duration_ms": ms,
            "span_kind": if parent.is_some() { "internal" } else { "server" }, "attributes": attributes,
        });
        record(seq, Kind::Trace, id, body)
    };
    let traced = |query: &str, ms: f64| {
        vec![
            span(1, "q", Some("inner"), query, ms),
            span(2, "inner", Some("root"), "load cart", ms + 5.0),
            span(3, "root", None, "GET /cart", ms + 9.0),
        ]
    };
    let shown = |left: Vec<Record>, right: Vec<Record>, page: u64| {
        let mut sides = [side("a", left), side("b", right)];
        let seen = sides[1].outcome.as_mut().and_then(|outcome| outcome.page.as_mut());
        seen.unwrap().duration_ms = page;
        compare(&sides).differences.into_iter().map(|one| (one.kind, one.what)).collect::<Vec<_>>()
    };
    let query = "SELECT * FROM carts WHERE id = $1";
    let named = ("query".to_owned(), format!("{query} (of GET /cart)"));
    assert_eq!(shown(traced(query, 3.0), traced(query, 4.0), 0), []);
    assert_eq!(shown(traced(query, 3.0), traced(query, 900.0), 950), [named]);
    // Another query, just as slow: one is gone, the other is new and slow.
    let other = ("query".to_owned(), "SELECT pg_sleep(1) (of GET /cart)".to_owned());
    assert_eq!(shown(traced(query, 3.0), traced("SELECT pg_sleep(1)", 900.0), 950), [other]);
    // A page that is slow beyond its queries is reported.
    let kinds: Vec<String> = shown(traced(query, 3.0), traced(query, 900.0), 3000)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(kinds, ["query", "timing"]);
    // A cycle of parents terminates.
    let circle =
        vec![span(1, "a", Some("b"), "SELECT 1", 900.0), span(2, "b", Some("a"), "x", 1.0)];
    assert_eq!(shown(circle.clone(), circle, 0), []);
}

#[test]
fn of_several_sides_each_is_compared_with_the_first() {
    let found = compare(&[side("a", full("a")), side("b", full("b")), side("c", Vec::new())]);
    let sides: Vec<_> = found.differences.iter().map(|one| one.side.as_deref()).collect();
    assert_eq!(sides, [Some("c"); 3]);
    assert_eq!(found.same.get("mail"), None);
    let found = compare(&[side("a", full("a")), side("b", full("b")), side("c", full("c"))]);
    assert_eq!((found.differences.len(), found.same.get("mail")), (0, Some(&1)));
}

#[test]
fn only_what_differs_of_a_long_text_is_shown() {
    let long = "x".repeat(400);
    let (left, right) = differing(&format!("{long} 10 {long}"), &format!("{long} 12 {long}"));
    assert!(left.len() < 120 && left.contains(" 10 ") && right.contains(" 12 "), "{left}");
    assert_eq!(differing("", "a"), (String::new(), "a".into()));
    assert_eq!(differing("aa", "aaa"), ("aa".into(), "aaa".into()));
    assert_eq!(differing("ä", "ö"), ("ä".into(), "ö".into()));
}

#[test]
fn what_the_sides_were_asked_is_compared_too() {
    let declared = |expect: serde_json::Value| {
        serde_json::from_value(json!({ "path": "/buy", "within": "10s", "expect": expect }))
            .unwrap()
    };
    let mail = json!({ "mail": [{ "query": "to:ann" }], "errors": 0 });
    let with = |expect: &serde_json::Value, fixtures: &[(&str, &str)]| {
        let mut side = side("a", full("a"));
        side.outcome.as_mut().unwrap().declared = Some(declared(expect.clone()));
        let fixtures = fixtures.iter().map(|(name, hash)| ((*name).into(), (*hash).into()));
        side.fixtures = Some(fixtures.collect());
        side
    };
    let one = with(&mail, &[("pay/charge.toml", "sha256:aa")]);
    let found = compare(&[one.clone(), one.clone()]);
    assert_eq!(found.differences, []);
    assert_eq!((found.same["scenario"], found.same["fixture"]), (1, 1));

    let weaker = with(&json!({ "errors": 0 }), &[("pay/charge.toml", "sha256:aa")]);
    let found = compare(&[one.clone(), weaker]);
    assert_eq!(kinds(&found), ["scenario"]);
    assert_eq!(found.differences[0].what, "no longer expects mail `to:ann`");
    assert_eq!(found.differences[0].right.as_deref(), Some("weaker"));

    let other = with(&mail, &[("pay/charge.toml", "sha256:bb"), ("pay/more.toml", "sha256:cc")]);
    let found = compare(&[one, other]);
    let told: Vec<_> = found
        .differences
        .iter()
        .map(|one| (one.kind.as_str(), one.what.as_str(), one.left.is_some(), one.right.is_some()))
        .collect();
    assert_eq!(
        told,
        [("fixture", "pay/charge.toml", true, true), ("fixture", "pay/more.toml", false, true)]
    );
}
