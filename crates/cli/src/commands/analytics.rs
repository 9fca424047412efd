//! `analytics` and `llm`: events that apps sent to analytics vendors, and calls of language models.

use std::{collections::BTreeSet, process::ExitCode};

use hothouse_model::{
    Failure, FailureKind,
    record::{
        Kind, Record,
        bodies::{EventBody, LlmBody},
    },
};
use serde::Serialize;
use serde_json::Value;

use super::timeline::{cut, fetch, go_on, of_kind, terms};
use crate::{
    args::{AnalyticsArgs, LlmArgs},
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// How many names are listed when a required one is missing.
const NAMES: usize = 20;

/// An event in the list.
#[derive(Serialize)]
struct EventLine<'a> {
    id: &'a str,
    time: jiff::Timestamp,
    vendor: String,
    name: String,
    distinct_id: Option<String>,
    properties: Value,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gained: Vec<String>,
    service: Option<&'a str>,
}

impl<'a> EventLine<'a> {
    fn of(record: &'a Record) -> Self {
        let body: EventBody = record.body().unwrap_or_default();
        Self {
            id: &record.id,
            time: record.time,
            vendor: body.vendor,
            name: body.name,
            distinct_id: body.distinct_id,
            properties: body.properties,
            r#type: body.r#type,
            groups: body.groups,
            lost: body.lost,
            gained: body.gained,
            service: record.service.as_deref(),
        }
    }
}

/// Lists analytics events.
pub(crate) fn events(session: &Session, ui: &Ui, args: AnalyticsArgs) -> Result<ExitCode, Failure> {
    let query = of_kind(session, Kind::Event, terms(&args.query), args.part.since, args.part.run)?;
    let (records, next) = match args.latest || !args.require.is_empty() {
        // Only all of them show which is the latest and which is missing.
        true => (super::timeline::fetch_all(session, query)?, None),
        false => fetch(session, ui, query, args.part.budget)?,
    };
    if let Some(failure) = missing(&args.require, &records) {
        return Err(failure);
    }
    let from = if args.latest { records.len().saturating_sub(1) } else { 0 };
    let lines: Vec<_> = records[from..].iter().map(EventLine::of).collect();
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such events."),
        false => ui.print(&table(
            ui,
            &["TIME", "VENDOR", "NAME", "WHO", "PROPERTIES"],
            lines.iter().map(event_row).collect(),
        )),
    }
    if !ui.json {
        against_base(&lines).iter().for_each(|line| ui.say(line));
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

/// Returns how events differ from those of the base, without duplicates.
fn against_base(lines: &[EventLine<'_>]) -> BTreeSet<String> {
    let one = |line: &EventLine<'_>, verb: &str, property: &str| {
        plain(&format!("Event `{}` {verb} property `{property}` against the base.", line.name))
    };
    let all = lines.iter().flat_map(|line| {
        let lost = line.lost.iter().map(move |property| one(line, "lost", property));
        lost.chain(line.gained.iter().map(move |property| one(line, "gained", property)))
    });
    all.collect()
}

/// Returns the failure that names the required events that are missing, if any.
fn missing(required: &[String], records: &[Record]) -> Option<Failure> {
    let names: BTreeSet<&str> =
        records.iter().filter_map(|record| record.body.get("name")?.as_str()).collect();
    let missing: Vec<String> = required
        .iter()
        .filter(|name| !names.contains(name.as_str()))
        .map(|name| format!("`{}`", plain(name)))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let failure =
        Failure::new(FailureKind::Unmet, format!("no event {} was sent", missing.join(", ")));
    let seen: Vec<String> = names.iter().take(NAMES).map(|name| plain(name)).collect();
    Some(failure.hint(match seen.is_empty() {
        true => "there are no events at all".to_owned(),
        false => format!("events that were sent: {}", seen.join(", ")),
    }))
}

fn event_row(line: &EventLine<'_>) -> Vec<Cell> {
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(&line.vendor),
        Cell::new(&line.name).tone(Tone::Strong),
        Cell::new(line.distinct_id.as_deref().unwrap_or("-")),
        Cell::new(cut(&line.properties.to_string())),
    ]
}

/// A model call in the list.
#[derive(Serialize)]
struct LlmLine<'a> {
    id: &'a str,
    time: jiff::Timestamp,
    provider: String,
    model: String,
    endpoint: String,
    stream: bool,
    matched: bool,
    fixture: Option<String>,
    real: bool,
    status: Option<u16>,
    cost: Option<f64>,
    refused: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    service: Option<&'a str>,
}

impl<'a> LlmLine<'a> {
    fn of(record: &'a Record) -> Self {
        let body: LlmBody = record.body().unwrap_or_default();
        Self {
            id: &record.id,
            time: record.time,
            provider: body.provider,
            model: body.model,
            endpoint: body.endpoint,
            stream: body.stream,
            matched: body.matched,
            fixture: body.fixture,
            real: body.real,
            status: body.status,
            cost: body.cost,
            refused: body.refused,
            input_tokens: body.input_tokens,
            output_tokens: body.output_tokens,
            service: record.service.as_deref(),
        }
    }
}

/// Lists calls of language models.
pub(crate) fn models(session: &Session, ui: &Ui, args: LlmArgs) -> Result<ExitCode, Failure> {
    let query = of_kind(session, Kind::Llm, terms(&args.query), args.part.since, args.part.run)?;
    let (records, next) = fetch(session, ui, query, args.part.budget)?;
    let lines: Vec<_> = records.iter().map(LlmLine::of).collect();
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such calls."),
        false => ui.print(&table(
            ui,
            &["TIME", "PROVIDER", "MODEL", "ENDPOINT", "BY", "IN", "OUT", "COST"],
            lines.iter().map(llm_row).collect(),
        )),
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

fn llm_row(line: &LlmLine<'_>) -> Vec<Cell> {
    let endpoint = match line.stream {
        true => format!("{} (stream)", line.endpoint),
        false => line.endpoint.clone(),
    };
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(&line.provider),
        Cell::new(&line.model),
        Cell::new(endpoint),
        Cell::new(answered_by(line)),
        Cell::new(line.input_tokens.to_string()),
        Cell::new(line.output_tokens.to_string()),
        Cell::new(line.cost.map_or_else(|| "-".to_owned(), |cost| format!("${cost:.6}"))),
    ]
}

fn answered_by<'l>(line: &'l LlmLine<'_>) -> &'l str {
    match (&line.fixture, line.real, &line.refused) {
        (Some(fixture), _, _) => fixture,
        (None, true, Some(_)) => "refused",
        (None, true, None) => "the model",
        (None, false, _) => "echo",
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Draft;
    use serde_json::json;

    use super::*;

    fn event(name: &str) -> Record {
        let draft =
            Draft::new(Kind::Event, jiff::Timestamp::UNIX_EPOCH, name, json!({ "name": name }));
        draft.into_record("evt_0", "a", "run_1")
    }

    #[test]
    fn what_is_missing_is_named_with_what_is_there() {
        let records = [event("signed_up"), event("paid")];
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(missing(&names(&["paid", "signed_up"]), &records).is_none());
        assert!(missing(&[], &[]).is_none());
        let failure = missing(&names(&["paid", "refunded"]), &records).unwrap();
        assert_eq!(failure.message, "no event `refunded` was sent");
        assert_eq!(failure.hints, ["events that were sent: paid, signed_up"]);
        assert_eq!(missing(&names(&["x"]), &[]).unwrap().hints, ["there are no events at all"]);
    }
}
