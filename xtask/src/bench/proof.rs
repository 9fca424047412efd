//! Proofs: what `prove` adds to the example shop's checkout, and how long it takes to compare two runs and to sum one up.

use std::{path::Path, time::Duration};

use hothouse_evidence::{
    compare::{Side, compare},
    outcome::{Progress, ScenarioOutcome},
    summary::{PageInput, Summary, effects, markdown, of_scenarios, page},
};
use hothouse_model::record::{Kind, Record};
use serde_json::json;

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print,
    room::Ground,
    timed,
};

const COMPARED: u64 = 10_000;
const SUMMED_UP: u64 = 5_000;
const ROUNDS: usize = 5;

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/acme");

/// `prove` of the example shop's checkout, against its own steps: the app's start, and the page's time.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    ground.shell(&format!("cp -r '{SHOP}/.' r && cd r && git add -A && git commit -qm shop"))?;
    let proves = || ground.hothouse(&["prove", "checkout", "--json"]).map(drop);
    // The first makes the snapshot of the seed, which later ones start from.
    if let Err(why) = proves() {
        let why = why.lines().next().unwrap_or_default().to_owned();
        print(&format!(
            "proof: prove SKIPPED, it needs the example shop's packages, PostgreSQL and Chromium: {why}"
        ));
        return Ok(());
    }
    let mut overheads = Vec::new();
    for round in 0..ROUNDS {
        let whole = timed(proves)?;
        let name = format!("byhand{round}");
        ground.hothouse(&["fork", &name])?;
        let start = timed(|| ground.hothouse(&["up", "-w", &name, "--seed", "m"]).map(drop))?;
        let script = "hothouse/scenarios/checkout.toml";
        let page = ground.hothouse(&[
            "browse",
            "web",
            "/products/harbour-teapot",
            "--script",
            script,
            "-w",
            &name,
            "--json",
        ])?;
        let page: serde_json::Value =
            serde_json::from_str(&page).map_err(|error| error.to_string())?;
        let page = Duration::from_millis(page["duration_ms"].as_u64().unwrap_or_default());
        ground.hothouse(&["delete", &name, "--force", "--now"])?;
        overheads.push((whole.saturating_sub(start + page), whole, start, page));
    }
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    overheads.sort_unstable();
    let (overhead, whole, start, page) = overheads[ROUNDS / 2];
    print(&format!("proof: prove of the example shop's checkout, median of {ROUNDS}, alternating"));
    print(&format!("  hothouse prove            {:>9.0} ms", milliseconds(whole)));
    print(&format!("  the app's start           {:>9.0} ms", milliseconds(start)));
    print(&format!("  the page's time           {:>9.0} ms", milliseconds(page)));
    figures.add("overhead of prove", milliseconds(overhead), "ms");
    bar("overhead of prove", milliseconds(overhead), "ms", Bar::AtMost(1000.0));
    Ok(())
}

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
