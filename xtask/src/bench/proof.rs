//! Proofs: how long it takes to compare two runs, and to sum one up.

use std::time::Duration;

use hothouse_evidence::{
    compare::{Side, compare},
    outcome::{Progress, ScenarioOutcome},
    summary::{PageInput, Summary, effects, markdown, of_scenarios, page},
};
use hothouse_model::record::{Kind, Record};
use serde_json::json;

use super::{
    bars::{Bar, bar},
    median, milliseconds, print, timed,
};

const COMPARED: u64 = 10_000;
const SUMMED_UP: u64 = 5_000;
const ROUNDS: usize = 5;

/// Measures both.
pub(crate) fn run() -> Result<(), String> {
    let sides = [side("agent-a"), side("agent-b")];
    let compared = rounds(|| match compare(&sides).differences.as_slice() {
        [] => Ok(()),
        some => Err(format!("{} differences between equal runs", some.len())),
    })?;
    print(&format!("proof: compare two runs of {COMPARED} records"));
    bar("median", milliseconds(compared), "ms", Bar::AtMost(1000.0));
    let records = records("agent-a", SUMMED_UP);
    let outcome = ScenarioOutcome {
        scenario: "checkout".into(),
        progress: Progress::Done,
        upto: SUMMED_UP,
        ..ScenarioOutcome::default()
    };
    let summary =
        Summary { effects: effects(&records), scenarios: vec![outcome], ..Summary::default() };
    let summed_up = rounds(|| {
        let shown = of_scenarios(&summary.scenarios, &records);
        let input = PageInput { summary: &summary, records: &shown, shots: &[], mails: &[] };
        match markdown(&summary).len() + page(&input).len() {
            0 => Err("an empty summary".into()),
            _ => Ok(()),
        }
    })?;
    print(&format!("proof: sum up {SUMMED_UP} records"));
    bar("median", milliseconds(summed_up), "ms", Bar::AtMost(1000.0));
    Ok(())
}

fn rounds(mut work: impl FnMut() -> Result<(), String>) -> Result<Duration, String> {
    let times = (0..ROUNDS).map(|_| timed(&mut work)).collect::<Result<Vec<_>, _>>()?;
    Ok(median(times))
}

fn side(name: &str) -> Side {
    Side {
        name: name.into(),
        sandbox: name.into(),
        run: format!("run_{name}"),
        records: records(name, COMPARED),
        ..Side::default()
    }
}

/// Generates the records of a busy app: requests, events, mail.
fn records(sandbox: &str, count: u64) -> Vec<Record> {
    let url = format!("https://web.{sandbox}.shop.localhost:8443/orders/ord_{sandbox}1B2c3D4");
    let one = |seq: u64| {
        let (kind, body) = match seq % 10 {
            0 => (
                Kind::Mail,
                json!({ "to": ["ann@example.com"], "subject": format!("Order {seq}"), "text": format!("{url}\n").repeat(20) }),
            ),
            1..=4 => (
                Kind::Event,
                json!({ "vendor": "posthog", "name": format!("Event {}", seq % 50), "properties": { "url": url, "number": seq } }),
            ),
            _ => (
                Kind::Request,
                json!({ "method": "POST", "host": "api.pay.example", "path": format!("/v1/things/{seq}"), "status": 200, "duration_ms": 3 }),
            ),
        };
        Record {
            seq,
            id: kind.id(seq.to_be_bytes()),
            kind,
            time: jiff::Timestamp::UNIX_EPOCH,
            sandbox: sandbox.into(),
            run: format!("run_{sandbox}"),
            service: None,
            process: None,
            trace: None,
            summary: format!("record {seq}"),
            prev: String::new(),
            hash: String::new(),
            body,
        }
    };
    (1..=count).map(one).collect()
}
