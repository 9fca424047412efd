//! Records as a table, with columns that depend on their kind.

use hothouse_model::{
    ask::AskState,
    queue::JobState,
    record::{Kind, Record, bodies::*},
    stack::service::ServiceState,
};
use serde_json::Value;

use crate::{
    Section,
    text::{clock, inline, short, size},
};

/// The tone of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Busy,
    Bad,
    Still,
}

impl Tone {
    /// Returns its CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Bad => "bad",
            Self::Still => "still",
        }
    }

    /// Returns the tone of a response status.
    pub fn of_status(status: Option<u16>) -> Self {
        match status {
            Some(..400) => Self::Good,
            Some(400..500) => Self::Busy,
            _ => Self::Bad,
        }
    }
}

/// The style of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Plain,
    /// Identifies the row, and carries its link.
    Name,
    Faint,
    Number,
    /// A time, which is in `Cell::time`.
    Time,
    Pill(Tone),
}

/// One cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub look: Look,
    /// The full time.
    pub time: Option<String>,
}

/// A record in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The id of the record, or of the trace.
    pub id: String,
    /// The number of its newest record.
    pub seq: u64,
    pub section: Section,
    pub cells: Vec<Cell>,
    /// The host of a denied connection.
    pub denied: Option<String>,
}

/// Returns the columns of a section.
pub fn columns(section: Section) -> &'static [&'static str] {
    match section {
        Section::Mail => &["Time", "Subject", "To", "From", "Via", "Service"],
        Section::Errors => &["Last seen", "Error", "Message", "Where", "Events", ""],
        Section::Events => &["Time", "Event", "Who", "Properties", "Vendor"],
        Section::Requests => &["Time", "Method", "Request", "Status", "ms", "Fixture", "Service"],
        Section::Webhooks => &["Time", "Type", "To", "Status", "Attempt", "ms"],
        Section::Objects => &["Time", "", "Object", "Type", "Size"],
        Section::Flags => &["Time", "Flag", "Value", "Default", "Asked by"],
        Section::Models => &["Time", "Model", "Prompt", "In", "Out", "Fixture"],
        Section::Traces => &["Time", "Trace", "Spans", "ms", ""],
        Section::Network => &["Time", "Host", "", "Rule", "Sent", "Received", "Process"],
        Section::Browser => &["Time", "Page", "Title", "Status", "Console", ""],
        Section::Jobs => &["Time", "Job", "Queue", "State", "Attempts", "Error"],
        _ => &["Time", "Kind", "What happened", "Service"],
    }
}

/// Makes the rows of a section, newest first. Of several records with the same id the last one counts.
pub fn rows(section: Section, records: &[Record]) -> Vec<Row> {
    match section {
        Section::Errors => grouped(records, |record| &record.id, issue),
        Section::Traces => grouped(records, trace_of, trace),
        Section::Network => by_time(section, newest_of_each(records)),
        _ => by_time(section, records.iter()),
    }
}

/// Makes a row of each record, sorted by the displayed time. Records are in the order in which they were written, and
/// that of something long is written at its end.
fn by_time<'a>(section: Section, records: impl Iterator<Item = &'a Record>) -> Vec<Row> {
    let mut records: Vec<_> = records.collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.time));
    records.into_iter().map(|record| row(section, record)).collect()
}

/// Returns the newest record of each id, keeping their order.
fn newest_of_each(records: &[Record]) -> impl Iterator<Item = &Record> {
    let mut seen = std::collections::HashSet::new();
    records.iter().filter(move |record| seen.insert(&record.id))
}

/// Groups records with the same key into one row, at the position of the newest.
fn grouped<'a>(
    records: &'a [Record],
    key: impl Fn(&'a Record) -> &'a str,
    row: impl Fn(&[&'a Record]) -> Row,
) -> Vec<Row> {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: std::collections::HashMap<&str, Vec<&Record>> = Default::default();
    for record in records {
        let key = key(record);
        let group = groups.entry(key).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(record);
    }
    order.into_iter().filter_map(|key| groups.get(key)).map(|group| row(group)).collect()
}

fn trace_of(record: &Record) -> &str {
    record.body["trace_id"].as_str().or(record.trace.as_deref()).unwrap_or(&record.id)
}

fn cell(text: impl Into<String>, look: Look) -> Cell {
    Cell { text: text.into(), look, time: None }
}

fn plain(text: impl Into<String>) -> Cell {
    cell(text, Look::Plain)
}

fn name(text: impl Into<String>) -> Cell {
    cell(text, Look::Name)
}

fn faint(text: impl Into<String>) -> Cell {
    cell(text, Look::Faint)
}

fn number(value: impl ToString) -> Cell {
    cell(value.to_string(), Look::Number)
}

fn pill(text: impl Into<String>, tone: Tone) -> Cell {
    cell(text, Look::Pill(tone))
}

fn time(record: &Record) -> Cell {
    Cell { text: clock(record.time), look: Look::Time, time: Some(record.time.to_string()) }
}

fn status(status: Option<u16>) -> Cell {
    let text = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    pill(text, Tone::of_status(status))
}

fn service(record: &Record) -> Cell {
    faint(record.service.clone().unwrap_or_default())
}

/// Parses a body; one that does not fit its kind is empty.
fn body<T: for<'de> serde::Deserialize<'de> + Default>(record: &Record) -> T {
    record.body().unwrap_or_default()
}

fn row(section: Section, record: &Record) -> Row {
    let cells = match section {
        Section::Mail => mail(record),
        Section::Events => event(record),
        Section::Requests => request(record),
        Section::Webhooks => webhook(record),
        Section::Objects => object(record),
        Section::Flags => flag(record),
        Section::Models => model(record),
        Section::Network => connection(record),
        Section::Browser => page(record),
        Section::Jobs => job(record),
        _ => any(record),
    };
    let mut cells = cells;
    cells.insert(0, time(record));
    let denied = (record.kind == Kind::Connection && record.body["allowed"] == false)
        .then(|| record.body["host"].as_str().map(str::to_owned))
        .flatten();
    Row {
        id: record.id.clone(),
        seq: record.seq,
        section: Section::of_kind(record.kind),
        cells,
        denied,
    }
}

fn mail(record: &Record) -> Vec<Cell> {
    let mail: MailBody = body(record);
    let to: Vec<String> = mail.to.into_iter().chain(mail.cc).chain(mail.bcc).collect();
    let subject = if mail.subject.is_empty() {
        short(mail.text.as_deref().unwrap_or("(no subject)"), 90)
    } else {
        short(&mail.subject, 90)
    };
    vec![
        name(subject),
        plain(short(&to.join(", "), 60)),
        plain(short(&mail.from, 60)),
        faint(mail.via),
        service(record),
    ]
}

fn issue(events: &[&Record]) -> Row {
    let newest = events[0];
    let error: ErrorBody = body(newest);
    let is_new = events.iter().any(|event| event.body["new"] == true);
    let cells = vec![
        time(newest),
        name(short(&error.error_type, 60)),
        plain(short(&error.message, 120)),
        faint(short(&error.culprit, 70)),
        number(events.len()),
        if is_new { pill("new", Tone::Bad) } else { faint("") },
    ];
    Row { id: newest.id.clone(), seq: newest.seq, section: Section::Errors, cells, denied: None }
}

fn trace(spans: &[&Record]) -> Row {
    let newest = spans[0];
    let root = spans.iter().find(|span| span.body["parent_id"].is_null()).unwrap_or(&newest);
    let span: TraceBody = body(root);
    let failed = spans.iter().any(|span| span.body["status"] == "error");
    let cells = vec![
        time(root),
        name(short(&span.name, 90)),
        number(spans.len()),
        number(format!("{:.1}", span.duration_ms)),
        if failed { pill("error", Tone::Bad) } else { faint("") },
    ];
    let id = trace_of(newest).to_owned();
    Row { id, seq: newest.seq, section: Section::Traces, cells, denied: None }
}

fn event(record: &Record) -> Vec<Cell> {
    let event: EventBody = body(record);
    vec![
        name(short(&event.name, 80)),
        faint(short(event.distinct_id.as_deref().unwrap_or("–"), 16)),
        plain(short(&properties(&event.properties), 120)),
        faint(event.vendor),
    ]
}

/// Formats the properties of an event in one line, with those of libraries last.
fn properties(value: &Value) -> String {
    let Value::Object(map) = value else { return inline(value) };
    let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| key.starts_with('$'));
    let pairs = pairs.into_iter().map(|(key, value)| format!("{key}={}", inline(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

fn request(record: &Record) -> Vec<Cell> {
    let call: RequestBody = body(record);
    let fixture = match (call.matched, &call.fixture) {
        (_, Some(fixture)) => faint(short(fixture, 50)),
        (Some(false), None) => pill("no fixture", Tone::Bad),
        _ => faint(call.class.clone().unwrap_or_default().to_string()),
    };
    vec![
        plain(call.method.clone()),
        name(short(&format!("{}{}", call.host, call.path), 110)),
        status(call.status),
        number(call.duration_ms),
        fixture,
        service(record),
    ]
}

fn webhook(record: &Record) -> Vec<Cell> {
    let hook: WebhookBody = body(record);
    let what = hook.fixture.unwrap_or_else(|| format!("{}/{}", hook.vendor, hook.r#type));
    vec![
        name(short(&what, 70)),
        plain(short(&hook.to, 80)),
        status(hook.status),
        number(hook.attempt),
        number(hook.duration_ms),
    ]
}

fn object(record: &Record) -> Vec<Cell> {
    let object: ObjectBody = body(record);
    let is_put = object.operation == ObjectOperation::Put;
    vec![
        pill(object.operation.as_str(), if is_put { Tone::Good } else { Tone::Still }),
        name(short(&format!("{}/{}", object.bucket, object.key), 110)),
        faint(object.r#type),
        number(size(object.size)),
    ]
}

fn flag(record: &Record) -> Vec<Cell> {
    let flag: FlagBody = body(record);
    vec![
        name(flag.key),
        plain(short(&inline(&flag.value), 60)),
        faint(short(&inline(&flag.default), 60)),
        faint(flag.vendor.unwrap_or_else(|| "pinned".to_owned())),
    ]
}

fn model(record: &Record) -> Vec<Cell> {
    let call: LlmBody = body(record);
    let fixture = match call.fixture {
        Some(fixture) => faint(short(&fixture, 50)),
        None if call.refused.is_some() => pill("refused", Tone::Busy),
        None if call.matched => faint(""),
        None => pill("echo", Tone::Busy),
    };
    vec![
        name(short(&format!("{} {}", call.provider, call.model), 60)),
        plain(short(&call.prompt.begins, 100)),
        number(call.input_tokens),
        number(call.output_tokens),
        fixture,
    ]
}

fn connection(record: &Record) -> Vec<Cell> {
    let to: ConnectionBody = body(record);
    let host = to.host.or_else(|| to.address.map(|address| address.to_string()));
    let host = host.unwrap_or_else(|| "–".to_owned());
    let port = to.port.map(|port| format!(":{port}")).unwrap_or_default();
    let verdict = match (to.allowed, to.open) {
        (false, _) => pill("denied", Tone::Bad),
        (true, true) => pill("open", Tone::Busy),
        (true, false) => pill("allowed", Tone::Good),
    };
    let process = record.process.as_ref().map(|process| process.command.clone());
    vec![
        name(short(&format!("{host}{port}"), 80)),
        verdict,
        faint(short(&to.reason.unwrap_or(to.rule), 90)),
        number(size(to.sent)),
        number(size(to.received)),
        faint(short(&process.or_else(|| record.service.clone()).unwrap_or_default(), 40)),
    ]
}

fn page(record: &Record) -> Vec<Cell> {
    let page = &record.body;
    let text = |key: &str| page[key].as_str().unwrap_or_default().to_owned();
    let count = |key: &str| page[key].as_array().map_or(0, Vec::len);
    let ok = page["ok"] == true;
    let code = page["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    vec![
        name(short(&text("final_url"), 90)),
        plain(short(&text("title"), 60)),
        status(code),
        number(count("console")),
        pill(if ok { "ok" } else { "problems" }, if ok { Tone::Good } else { Tone::Bad }),
    ]
}

fn job(record: &Record) -> Vec<Cell> {
    let job: JobBody = body(record);
    let tone = match job.state.known() {
        Some(JobState::Completed) => Tone::Good,
        Some(state) if state.is_lost() => Tone::Bad,
        _ => Tone::Busy,
    };
    let title = if job.name.is_empty() { job.job } else { job.name };
    vec![
        name(short(&title, 80)),
        faint(job.queue),
        pill(job.state.as_str(), tone),
        number(job.attempts),
        plain(short(job.error.as_deref().unwrap_or_default(), 100)),
    ]
}

fn any(record: &Record) -> Vec<Cell> {
    vec![
        pill(record.kind.as_str(), tone_of(record)),
        name(short(&record.summary, 160)),
        service(record),
    ]
}

fn job_is_lost(record: &Record) -> bool {
    self::body::<JobBody>(record).state.known().is_some_and(JobState::is_lost)
}

/// Returns the tone of a record.
pub fn tone_of(record: &Record) -> Tone {
    let body = &record.body;
    match record.kind {
        Kind::Error => Tone::Bad,
        Kind::Connection if body["allowed"] == false => Tone::Bad,
        Kind::Request | Kind::Webhook => match body["status"].as_u64() {
            Some(..400) => Tone::Good,
            Some(400..500) => Tone::Busy,
            _ => Tone::Bad,
        },
        Kind::Browser if body["ok"] == false => Tone::Bad,
        Kind::Service if body["state"] == ServiceState::Failed.as_str() => Tone::Bad,
        Kind::Job if job_is_lost(record) => Tone::Bad,
        Kind::Test if body["outcome"] == TestOutcome::Unexpected.as_str() => Tone::Bad,
        Kind::Exec if body["exit"].as_i64().is_some_and(|code| code != 0) => Tone::Bad,
        Kind::Ask if body["state"] == AskState::Open.as_str() => Tone::Busy,
        _ => Tone::Still,
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Draft;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_times_that_are_shown() {
        let record = |seq: u64, second: i64| {
            let time = Timestamp::from_second(second).unwrap();
            let draft = Draft::new(Kind::Exec, time, "", Value::Null);
            Record { seq, ..draft.into_record(format!("exec_{seq}"), "a", "run_1") }
        };
        // The third record is about the end of what began first.
        let newest_first = [record(3, 1), record(2, 5), record(1, 1)];
        let shown = rows(Section::Timeline, &newest_first);
        assert_eq!(shown.iter().map(|row| row.seq).collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn a_job_that_failed_for_good_looks_like_it() {
        for (state, tone) in [
            ("dead", Tone::Bad),
            ("failed", Tone::Bad),
            ("completed", Tone::Good),
            ("waiting", Tone::Busy),
            ("snoozed", Tone::Busy),
        ] {
            let body = json!({ "queue": "mail", "job": "1", "name": "send", "state": state });
            let draft = Draft::new(Kind::Job, Timestamp::UNIX_EPOCH, "", body);
            let record = draft.into_record("job_1", "a", "run_1");
            assert_eq!(job(&record)[2], pill(state, tone));
            let is_bad = tone == Tone::Bad;
            assert_eq!(tone_of(&record) == Tone::Bad, is_bad, "{state}");
        }
    }
}
