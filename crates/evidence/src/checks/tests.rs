use hothouse_model::{config::Scenario, stack::service::ServiceState};
use serde_json::json;

use super::*;
use crate::{
    expected,
    page::{ConsoleLine, Cookie, Media},
    testing::record,
};

fn scenario(expect: serde_json::Value) -> Vec<Expected> {
    let scenario = json!({ "path": "/", "within": "10s", "expect": expect });
    expected::of(&serde_json::from_value::<Scenario>(scenario).unwrap())
}

fn page() -> PageSeen {
    PageSeen {
        url: "https://web/".into(),
        final_url: "https://web/".into(),
        status: Some(200),
        title: "Shop".into(),
        text: "Thank\n you, Ann".into(),
        cookies: Some(vec![Cookie { name: "session".into() }]),
        ..PageSeen::default()
    }
}

fn mail(seq: u64, to: &str, subject: &str) -> Record {
    let body = json!({ "to": [to], "subject": subject });
    record(seq, Kind::Mail, &format!("{subject} to {to}"), body)
}

/// Returns the kinds of failed checks.
fn failing(expect: serde_json::Value, page: &PageSeen, records: &[Record]) -> Vec<String> {
    let all = scenario(expect);
    let observed = Observed {
        records,
        page: Some(page),
        rows: &[RowAnswer {
            service: "db".into(),
            query: "select count(*) from orders".into(),
            rows: "1\n".into(),
            failure: None,
        }],
        services: &[ServiceSeen {
            name: "web".into(),
            state: ServiceState::Ready.into(),
            is_ready: true,
            restarts: 0,
        }],
        queues: &[],
        run: "run_1",
        mark: 7,
    };
    let checks = evaluate(&all, &observed);
    checks.into_iter().filter(|check| !check.ok).map(|check| check.kind).collect()
}

#[test]
fn each_fault_is_named_and_nothing_else() {
    let expect = json!({
        "page": ["thank you"], "no-page": ["Sorry"],
        "row": [{ "service": "db", "query": "select count(*) from orders", "equals": "1" }],
        "mail": [{ "query": "to:ann subject:Receipt", "count": 1 }], "no-mail": ["-to:ann"],
        "event": [{ "query": "Paid" }], "cookie": ["session"], "no-cookie": ["debug"],
        "service": ["web"], "errors": 0, "unmatched": 0,
    });
    let receipt = || mail(8, "ann@example.com", "Receipt");
    let paid = || record(9, Kind::Event, "Paid", json!({ "name": "Paid" }));
    let fails = |page: &PageSeen, records: &[Record]| failing(expect.clone(), page, records);
    assert!(fails(&page(), &[receipt(), paid()]).is_empty());

    assert_eq!(fails(&page(), &[receipt()]), ["event"]);
    assert_eq!(fails(&page(), &[paid()]), ["mail"]);
    let twice = [receipt(), mail(10, "ann@example.com", "Receipt"), paid()];
    assert_eq!(fails(&page(), &twice), ["mail"]);
    assert_eq!(fails(&page(), &[receipt(), paid(), mail(10, "eve@x.y", "Hi")]), ["no-mail"]);
    let error = record(11, Kind::Error, "TypeError", json!({ "type": "TypeError" }));
    assert_eq!(fails(&page(), &[receipt(), paid(), error]), ["errors"]);
    let call = record(12, Kind::Request, "GET x", json!({ "matched": false, "host": "x" }));
    assert_eq!(fails(&page(), &[receipt(), paid(), call]), ["unmatched"]);

    let good = [receipt(), paid()];
    let with = |change: fn(&mut PageSeen)| {
        let mut page = page();
        change(&mut page);
        fails(&page, &good)
    };
    assert_eq!(with(|page| page.status = Some(500)), ["status"]);
    assert_eq!(with(|page| page.text = "Thank you. Sorry".into()), ["no-page"]);
    assert_eq!(with(|page| page.text = "Hello".into()), ["page"]);
    assert_eq!(with(|page| page.cookies = Some(Vec::new())), ["cookie"]);
    assert_eq!(with(|page| page.page_errors = vec!["TypeError".into()]), ["console"]);
    let line = |page: &mut PageSeen| {
        page.console.push(ConsoleLine { level: "error".into(), text: "x".into() });
    };
    assert_eq!(with(line), ["console"]);
    assert_eq!(with(|page| page.media.push(Media::default())), ["broken"]);
    assert_eq!(with(|page| page.failure = Some("crashed".into())), ["status"]);
}

#[test]
fn queries_are_counted_by_request_and_timed_and_untraced_ones_prove_nothing() {
    let span = |seq: u64, root: &str, ms: f64| {
        let body = json!({
            "span_id": format!("s{seq}"), "parent_id": root, "name": "SELECT", "duration_ms": ms,
            "attributes": { "db.statement": "select * from carts" },
        });
        record(seq, Kind::Trace, "SELECT", body)
    };
    let request = |seq: u64, id: &str| {
        let body = json!({ "span_id": id, "name": "GET /cart", "span_kind": "server", "duration_ms": 900 });
        record(seq, Kind::Trace, "GET /cart", body)
    };
    let expect = json!({ "queries": 2, "slowest-query": "200ms" });
    let fails = |records: &[Record]| failing(expect.clone(), &page(), records);
    let both = ["queries", "slowest-query"];
    assert_eq!(fails(&[]), both, "nothing is known");
    assert_eq!(fails(&[request(1, "r")]), both, "a request without queries tells nothing either");
    let quick =
        |count: u64, root: &str| (0..count).map(|n| span(10 + n, root, 3.0)).collect::<Vec<_>>();
    let two = [vec![request(1, "r")], quick(2, "r")].concat();
    assert!(fails(&two).is_empty());
    // Two queries in each of two requests count as two.
    let of_other = (0..2).map(|n| span(30 + n, "other", 3.0));
    let more: Vec<_> = two.iter().cloned().chain([request(2, "other")]).chain(of_other).collect();
    assert!(fails(&more).is_empty());
    assert_eq!(fails(&[vec![request(1, "r")], quick(3, "r")].concat()), ["queries"]);
    assert_eq!(fails(&[request(1, "r"), span(9, "r", 812.0)]), ["slowest-query"]);

    let all = scenario(json!({ "slowest-query": "200ms" }));
    let observed = Observed {
        records: &[request(1, "r"), span(9, "r", 812.0)],
        page: None,
        rows: &[],
        queues: &[],
        services: &[],
        run: "run_1",
        mark: 0,
    };
    let checks = evaluate(&all, &observed);
    let check = checks.last().unwrap();
    assert_eq!(check.seen, "812 ms: select * from carts (of GET /cart)");
    assert_eq!(check.records.len(), 1);
    // A slow query stays slow: waiting cannot help.
    let slow =
        all.iter().zip(&checks).filter(|(one, _)| matches!(one.wanted, Wanted::SlowestQuery(_)));
    let (one, check): (Vec<_>, Vec<_>) =
        slow.map(|(one, check)| (one.clone(), check.clone())).unzip();
    assert_eq!(next(&one, &check, Duration::ZERO, QUIET), Next::Done);
}

#[test]
fn a_row_that_is_lost_or_cannot_be_read_is_reported() {
    let row = |rows: &str, failure: Option<&str>, equals: Option<&str>| {
        let mut wanted = json!({ "service": "db", "query": "select 1" });
        if let Some(equals) = equals {
            wanted["equals"] = equals.into();
        }
        let rows = [RowAnswer {
            service: "db".into(),
            query: "select 1".into(),
            rows: rows.into(),
            failure: failure.map(str::to_owned),
        }];
        let observed = Observed {
            records: &[],
            page: None,
            rows: &rows,
            queues: &[],
            services: &[],
            run: "run_1",
            mark: 0,
        };
        let all: Vec<_> = scenario(json!({ "row": [wanted] }));
        let one: Vec<_> =
            all.into_iter().filter(|one| matches!(one.wanted, Wanted::Row(_))).collect();
        evaluate(&one, &observed).remove(0)
    };
    for (rows, failure, equals, ok, seen) in [
        ("1\n", None, Some("1"), true, "1"),
        ("0\n", None, Some("1"), false, "0"),
        ("", None, None, false, "no rows"),
        ("a\nb\n", None, None, true, "a\nb"),
        ("", Some("no table orders"), None, false, "no table orders"),
    ] {
        let check = row(rows, failure, equals);
        assert_eq!((check.ok, check.seen.as_str()), (ok, seen), "{rows:?}");
    }
}

#[test]
fn a_failed_check_says_what_was_seen_and_how_to_see_more() {
    let records = [mail(8, "ann@example.com", "Welcome"), mail(9, "bob@example.com", "Receipt")];
    let (page, all) =
        (page(), scenario(json!({ "mail": [{ "query": "to:ann subject:Receipt" }] })));
    let observed = Observed {
        records: &records,
        page: Some(&page),
        rows: &[],
        queues: &[],
        services: &[],
        run: "run_1",
        mark: 7,
    };
    let checks = evaluate(&all, &observed);
    let check = checks.iter().find(|check| check.kind == "mail").unwrap();
    assert_eq!((check.found, check.seen.as_str()), (0, "2 others of kind mail"));
    let near: Vec<_> = check.nearest.iter().map(|near| near.failed.join(" ")).collect();
    assert_eq!(near, ["to:ann", "subject:Receipt"]);
    // Of equally bad matches the most similar text comes first, and each text only once.
    let event = |seq: u64, name: &str| record(seq, Kind::Event, name, json!({ "name": name }));
    let records = [
        event(1, "Checkout Started"),
        event(2, "Page Left"),
        event(3, "Page Viewed"),
        event(4, "Page Left"),
        event(5, "Product Added"),
    ];
    let near = nearest(Kind::Event, "name='Checkout Completed'", &records);
    let near: Vec<_> = near.iter().map(|near| near.summary.as_str()).collect();
    assert_eq!(near, ["Checkout Started", "Product Added", "Page Left"]);
    let more = check.more.as_deref().unwrap();
    assert_eq!(more, "hothouse timeline --kind mail --since 7 --run run_1");
}

#[test]
fn effects_have_their_time_and_absence_needs_quiet() {
    let second = Duration::from_secs;
    let all = scenario(json!({ "mail": [{ "query": "to:ann", "within": "3s" }], "errors": 0 }));
    let checks = |mail: bool| -> Vec<Check> {
        let ok = |one: &Expected| mail || !one.wanted.is_awaited();
        all.iter().map(|one| Check { ok: ok(one), ..Check::default() }).collect()
    };
    for (has_mail, elapsed, quiet, expected) in [
        (false, second(0), second(9), Next::Wait(second(3))),
        (false, second(2), second(9), Next::Wait(second(1))),
        (false, second(3), second(9), Next::Done),
        (true, second(0), second(0), Next::Wait(QUIET)),
        (true, second(0), QUIET, Next::Done),
        // A room that is never quiet cannot keep the check from ending.
        (true, second(60), second(0), Next::Done),
    ] {
        assert_eq!(next(&all, &checks(has_mail), elapsed, quiet), expected);
    }
}

#[test]
fn a_text_is_shown_with_whole_words_around_it_whatever_its_script() {
    let long = "Everything Light Table Living Study Search Log in Cart Thank you for your order We have received your payment and are packing";
    assert_eq!(
        around(long, "thank you"),
        "Table Living Study Search Log in Cart Thank you for your order We have received your"
    );
    assert_eq!(around("Thank you", "thank you"), "Thank you");
    // These are longer in lower case.
    for odd in ["İ".repeat(300) + " thank you", "ẞ".repeat(100) + "thank you" + &"İ".repeat(90)]
    {
        assert!(!around(&odd, "thank you").is_empty());
    }
}

proptest::proptest! {
    #[test]
    fn any_text_has_something_around_it(all in ".*", part in ".{0,20}") {
        around(&flat(&all), &part);
    }
}
