use hothouse_model::config::Scenario;
use serde_json::json;

use super::*;
use crate::{
    checks::{self, Observed},
    confirm::confirm,
    expected,
    page::PageSeen,
    pixels::Picture,
    testing::record,
};

fn records() -> Vec<Record> {
    let mail = json!({ "to": ["ann@example.com"], "subject": "Receipt", "text": "10 euro" });
    vec![
        record(1, Kind::Mark, "begin", json!({ "mark": "begin" })),
        record(2, Kind::Mail, "Receipt to ann@example.com", mail),
        record(
            3,
            Kind::Request,
            "POST api.stripe.com",
            json!({ "matched": true, "duration_ms": 800 }),
        ),
    ]
}

fn outcome(records: &[Record], expect: Value) -> ScenarioOutcome {
    let declared: Scenario =
        serde_json::from_value(json!({ "path": "/buy", "within": "10s", "expect": expect }))
            .unwrap();
    let page = PageSeen { status: Some(200), text: "Thank you".into(), ..PageSeen::default() };
    let observed = Observed {
        records: &records[1..],
        page: Some(&page),
        rows: &[],
        queues: &[],
        services: &[],
        run: "run_1",
        mark: 1,
    };
    let checks = checks::evaluate(&expected::of(&declared), &observed);
    ScenarioOutcome {
        scenario: "buy".into(),
        about: Some("a buyer gets a receipt".into()),
        ok: checks.iter().all(|check| check.ok),
        declared: Some(declared),
        progress: Progress::Done,
        mark: 1,
        upto: 3,
        checks,
        page: Some(page),
        ..ScenarioOutcome::default()
    }
}

fn summary(expect: Value) -> Summary {
    let records = records();
    let scenarios = vec![outcome(&records, expect)];
    Summary {
        format: FORMAT,
        run: "run_1".into(),
        verdict: Verdict::of(&scenarios, ""),
        effects: effects(&records[1..]),
        not_covered: not_covered(
            &Coverage {
                scenarios: &scenarios,
                declared: &["buy".into(), "refund".into()],
                ..Coverage::default()
            },
            &Code::default(),
        ),
        scenarios,
        ..Summary::default()
    }
}

fn good() -> Summary {
    summary(json!({ "page": ["Thank you"], "mail": [{ "query": "to:ann" }], "errors": 0 }))
}

#[test]
fn a_verdict_needs_every_scenario_to_hold_and_to_end() {
    let one = |ok: bool, progress: Progress| ScenarioOutcome {
        ok,
        progress,
        ..ScenarioOutcome::default()
    };
    let (held, failed, cut) =
        (one(true, Progress::Done), one(false, Progress::Done), one(true, Progress::Begun));
    let on = |commit: &str| ScenarioOutcome { commit: commit.into(), ..held.clone() };
    for (scenarios, expected) in [
        (vec![], Verdict::Unproved),
        (vec![held.clone()], Verdict::Proved),
        (vec![held.clone(), failed.clone()], Verdict::Failed),
        (vec![failed, cut.clone()], Verdict::Incomplete),
        (vec![held.clone(), cut], Verdict::Incomplete),
        // An outcome of another commit does not count.
        (vec![on("a1")], Verdict::Proved),
        (vec![on("a1"), on("b2")], Verdict::Incomplete),
    ] {
        assert_eq!(Verdict::of(&scenarios, "a1"), expected);
    }
}

#[test]
fn what_proves_little_is_reported() {
    let told =
        |expect: Value, change: fn(&mut ScenarioOutcome), code: &Code, catch_all: &[String]| {
            let mut outcome = outcome(&records(), expect);
            change(&mut outcome);
            let scenarios = [outcome];
            let facts = Coverage { scenarios: &scenarios, catch_all, ..Coverage::default() };
            not_covered(&facts, code).join("\n")
        };
    let fresh = Code { fresh: true, commit: "b2".into(), ..Code::default() };
    let checked = json!({ "page": ["Thank you"], "errors": 0 });
    let nothing = told(checked.clone(), |_| {}, &fresh, &[]);
    for part in
        ["expects no effect", "already up", "answer any call", "another commit", "another host"]
    {
        assert!(!nothing.contains(part), "{nothing}");
    }
    for (expect, says) in [
        (json!({}), true),
        (json!({ "errors": 0, "no-mail": ["-to:ann"], "no-page": ["Sorry"] }), true),
        (json!({ "mail": [{ "query": "to:ann", "at-most": 3 }], "status": 200 }), true),
        (json!({ "mail": [{ "query": "to:ann" }] }), false),
    ] {
        let found = told(expect.clone(), |_| {}, &fresh, &[]);
        assert_eq!(found.contains("scenario buy expects no effect"), says, "{expect}: {found}");
    }
    let used = Code { commit: "b2".into(), ..Code::default() };
    assert!(told(checked.clone(), |_| {}, &used, &[]).contains("a sandbox that was already up"));
    let stale = told(checked.clone(), |one| one.commit = "a1".into(), &fresh, &[]);
    assert!(stale.contains("scenario buy ran on another commit, a1"), "{stale}");
    let swallows = told(checked.clone(), |_| {}, &fresh, &["pay/all.toml".into()]);
    assert!(swallows.contains("answer any call, so that none is unmatched: pay/all.toml"));
    let led = |one: &mut ScenarioOutcome| {
        let page = one.page.as_mut().unwrap();
        page.url = "https://web.a.shop.localhost:8443/buy".into();
        page.final_url = "https://evil.example/thanks".into();
    };
    assert!(
        told(checked, led, &fresh, &[]).contains("another host than it began on: evil.example")
    );
}

#[test]
fn the_markdown_has_verdict_claims_and_what_is_not_covered() {
    let text = markdown(&good());
    for part in [
        "## ✅ buy: proved",
        "| ✅ | mail `to:ann` | `at least 1` | `Receipt to ann@example.com` | `mail_0000000000000002` |",
        "**Not covered**",
        "scenarios that were not run: refund",
        "1 mail",
        "0 errors",
        "<details><summary>What was run, and how to check it</summary>",
        "**Changed checks:** none",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    let failed = markdown(&summary(json!({ "mail": [{ "query": "to:bob" }] })));
    assert!(failed.contains("## ❌ buy: not proved"), "{failed}");
    assert!(failed.contains("`to:bob` does not hold"), "{failed}");
    assert!(text.lines().count() < 40, "it is to be short");
    // Failures come before what passed.
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at(&text, "**Not covered**") < at(&text, "| ✅"), "{text}");
    let some = json!({ "page": ["Thank you"], "mail": [{ "query": "to:bob" }] });
    let failed = markdown(&summary(some));
    assert!(at(&failed, "| ❌ | mail") < at(&failed, "checks hold</summary>"), "{failed}");
    assert!(at(&failed, "checks hold</summary>") < at(&failed, "| ✅ | page"), "{failed}");
}

#[test]
fn the_page_begins_with_what_a_reader_must_not_miss() {
    let mut summary = summary(json!({ "mail": [{ "query": "to:bob" }] }));
    summary.changed_checks.push(ChangedCheck {
        weaker: true,
        area: crate::judge::CheckArea::Scenario,
        name: "buy".into(),
        how: "no longer expects mail `to:ann`".into(),
    });
    let seen = summary.scenarios[0].page.as_mut().unwrap();
    seen.steps = vec![crate::page::StepSeen {
        step: "click button 'Pay'".into(),
        error: Some("button 'Pay' is not there".into()),
        near: vec!["button 'Buy' e4".into()],
        duration_ms: 10_200,
        ..crate::page::StepSeen::default()
    }];
    let all = records();
    let shown: Vec<&Record> = all.iter().collect();
    let mail = |id: &str| MailShown { id: id.into(), subject: id.into(), ..MailShown::default() };
    let mails = [mail("mail_0000000000000002"), mail("mail_other")];
    let input = PageInput { summary: &summary, records: &shown, shots: &[], mails: &mails };
    let text = page(&input);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let order = [
        "✗ Not proved",
        "class=failing",
        "<b>1</b> check weaker than the base's",
        "not covered</a>",
        "id=changed",
        "no longer expects mail <code>to:ann</code>",
        "id=gaps",
        "<ul class=checks>",
        "10.2 s",
        "is not there; there are <code>",
        "class=timeline",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    // The mail that the failed check did not find is not evidence, so both are folded.
    assert!(!text.contains("<details open>"), "{text}");
    // A record can be expanded in place.
    assert!(text.contains("&quot;subject&quot;: &quot;Receipt&quot;"), "{text}");

    let summary = good();
    let input = PageInput { summary: &summary, records: &shown, shots: &[], mails: &mails };
    let text = page(&input);
    assert!(text.contains("<details open><summary>mail_0000000000000002"), "{text}");
    assert!(text.contains("<details><summary>mail_other"), "{text}");
}

#[test]
fn the_page_loads_nothing_and_shows_the_text_of_a_room_as_text() {
    let mut summary = good();
    summary.scenarios[0].checks[0].seen = "<script>alert(1)</script>".into();
    let all = records();
    let shown: Vec<&Record> = all.iter().collect();
    let white = Picture::decode(&Picture::blank(4, 4).encode()).unwrap();
    let input = PageInput {
        summary: &summary,
        records: &shown,
        shots: &[Shot { of: "buy".into(), file: "browser/1/a.png".into(), bytes: white.encode() }],
        mails: &[MailShown {
            subject: "\"><img src=\"https://evil/x\">".into(),
            page: Some("<img src=\"https://evil/y\">".into()),
            ..MailShown::default()
        }],
    };
    let text = page(&input);
    assert!(!text.contains("<script"), "a script");
    assert!(!text.contains("src=\"http"), "something from outside");
    assert!(text.contains("default-src 'none'"));
    assert!(text.contains("data:image/png;base64,"));
    assert!(text.contains("id=only-mail"));
    assert!(text.contains("&lt;script&gt;"));
}

#[test]
fn a_summary_is_confirmed_by_its_records_and_by_no_others() {
    let (good, all) = (good(), records());
    assert_eq!(confirm(&good, &all), Vec::<String>::new());
    let read: Summary = serde_json::from_str(&good.json()).unwrap();
    assert_eq!(confirm(&read, &all), Vec::<String>::new());

    assert!(!confirm(&good, &all[..1]).is_empty(), "without its mail");
    let mut forged = good.clone();
    forged.verdict = Verdict::Failed;
    assert_eq!(confirm(&forged, &all).len(), 1);
    let mut forged = summary(json!({ "mail": [{ "query": "to:bob" }] }));
    for check in &mut forged.scenarios[0].checks {
        check.ok = true;
    }
    forged.scenarios[0].ok = true;
    forged.verdict = Verdict::Proved;
    let wrong = confirm(&forged, &all);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("mail to:bob"), "{wrong:?}");
    // What could not be written is not there to be judged.
    let gap = json!({ "source": "hothouse", "gap": "dropped", "count": 2 });
    let mut all = records();
    all[2] = record(3, Kind::Log, "2 records could not be written", gap);
    let mut hidden = summary(json!({ "mail": [{ "query": "to:ann" }] }));
    hidden.effects = effects(&all[1..]);
    let wrong = confirm(&hidden, &all);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("does not say that 2 records could not be written"), "{wrong:?}");
    hidden.scenarios[0].failure = Some("not every record could be judged".into());
    hidden.scenarios[0].ok = false;
    hidden.verdict = Verdict::Failed;
    assert_eq!(confirm(&hidden, &all), Vec::<String>::new());
    // All checks hold, so the reason is what a reader must not miss.
    let input = PageInput { summary: &hidden, records: &[], shots: &[], mails: &[] };
    for (text, next) in [(markdown(&hidden), "**Not covered**"), (page(&input), "id=gaps")] {
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("not every record could be judged") < at(next), "{text}");
    }
}
