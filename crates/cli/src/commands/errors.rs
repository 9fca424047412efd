//! `errors`: the issues that apps reported.

use std::{collections::BTreeMap, ops::ControlFlow, process::ExitCode};

use hothouse_api::timeline::TimelineQuery;
use hothouse_model::{
    Failure, FailureKind,
    record::{Kind, Record, bodies::ErrorBody, kind_of_id},
};
use jiff::Timestamp;
use serde::Serialize;

use super::timeline::{Budget, cut, of_kind, terms, visit};
use crate::{
    args::ErrorsArgs,
    render::{Cell, plain, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The maximum number of events listed for an issue.
const EVENT_LIMIT: usize = 100;

/// Events from one place in the code.
#[derive(Clone, Debug, Serialize)]
struct Issue {
    id: String,
    #[serde(rename = "type")]
    error_type: String,
    message: String,
    culprit: String,
    level: String,
    count: u64,
    first: Timestamp,
    last: Timestamp,
    new: bool,
    service: Option<String>,
    release: Option<String>,
    environment: Option<String>,
    #[serde(skip)]
    first_seq: u64,
    /// The last event, and the most recent ones with their numbers.
    #[serde(skip)]
    body: ErrorBody,
    #[serde(skip)]
    events: Vec<EventLine>,
}

/// An event in an issue.
#[derive(Clone, Debug, Serialize)]
struct EventLine {
    seq: u64,
    time: Timestamp,
    event_id: String,
    message: String,
}

/// An issue with the details of its last event.
#[derive(Serialize)]
struct IssueView<'a> {
    #[serde(flatten)]
    issue: &'a Issue,
    #[serde(flatten)]
    details: Details<'a>,
    events: &'a [EventLine],
}

/// Further details of an event.
#[derive(Serialize)]
struct Details<'a> {
    frames: &'a [hothouse_model::record::bodies::Frame],
    tags: &'a BTreeMap<String, String>,
    request: &'a Option<hothouse_model::record::bodies::ErrorRequest>,
    breadcrumbs: &'a [hothouse_model::record::bodies::Breadcrumb],
    causes: &'a [hothouse_model::record::bodies::ErrorCause],
    group: &'a hothouse_model::record::bodies::ErrorGroup,
    vendor: &'a str,
    platform: &'a Option<String>,
    handled: Option<bool>,
    files: &'a [hothouse_model::record::bodies::ErrorFile],
}

/// Lists issues, or shows one.
pub(crate) fn run(session: &Session, ui: &Ui, args: ErrorsArgs) -> Result<ExitCode, Failure> {
    let by_id = match &args.query[..] {
        [id] if kind_of_id(id) == Some(Kind::Error) => Some(id.clone()),
        _ => None,
    };
    let query = of_kind(session, Kind::Error, terms(&args.query), args.since, args.run)?;
    let issues = collect(session, query)?;
    match by_id {
        Some(id) => show(ui, issues.first(), &id),
        None => Ok(list(ui, issues, args.budget)),
    }
}

/// Folds events into issues, the one with the latest event first.
fn collect(session: &Session, query: TimelineQuery) -> Result<Vec<Issue>, Failure> {
    let earlier = TimelineQuery { query: String::new(), since: None, ..query.clone() };
    let is_all = query.query.is_empty() && query.since.is_none();
    let mut issues: BTreeMap<String, Issue> = BTreeMap::new();
    visit(session, query, &mut |record| {
        add(&mut issues, &record);
        ControlFlow::Continue(())
    })?;
    if !is_all && !issues.is_empty() {
        // An issue that the run saw before the first listed event is not new.
        visit(session, earlier, &mut |record| {
            if let Some(issue) = issues.get_mut(&record.id) {
                issue.new &= record.seq >= issue.first_seq;
            }
            ControlFlow::Continue(())
        })?;
    }
    let mut issues: Vec<Issue> = issues.into_values().collect();
    issues.sort_by(|a, b| b.last.cmp(&a.last).then(a.id.cmp(&b.id)));
    Ok(issues)
}

fn add(issues: &mut BTreeMap<String, Issue>, record: &Record) {
    let body: ErrorBody = record.body().unwrap_or_default();
    let event = EventLine {
        seq: record.seq,
        time: record.time,
        event_id: body.event_id.clone(),
        message: body.message.clone(),
    };
    let issue = issues.entry(record.id.clone()).or_insert_with(|| Issue {
        id: record.id.clone(),
        error_type: String::new(),
        message: String::new(),
        culprit: String::new(),
        level: String::new(),
        count: 0,
        first: record.time,
        last: record.time,
        new: !body.base,
        service: None,
        release: None,
        environment: None,
        first_seq: record.seq,
        body: ErrorBody::default(),
        events: Vec::new(),
    });
    issue.count += 1;
    issue.last = record.time;
    issue.error_type.clone_from(&body.error_type);
    issue.message.clone_from(&body.message);
    issue.culprit.clone_from(&body.culprit);
    issue.level.clone_from(&body.level);
    issue.service.clone_from(&record.service);
    issue.release.clone_from(&body.release);
    issue.environment.clone_from(&body.environment);
    issue.body = body;
    if issue.events.len() == EVENT_LIMIT {
        issue.events.remove(0);
    }
    issue.events.push(event);
}

fn list(ui: &Ui, issues: Vec<Issue>, tokens: Option<usize>) -> ExitCode {
    let all = issues.len();
    let mut budget = Budget::new(ui, tokens);
    let issues: Vec<Issue> = issues.into_iter().take_while(|issue| budget.takes(issue)).collect();
    match ui.json {
        true => ui.print_json(&issues),
        false if issues.is_empty() => ui.print("0 issues"),
        false => ui.print(&table(
            ui,
            &["ID", "LEVEL", "COUNT", "LAST", "NEW", "ISSUE", "WHERE"],
            issues.iter().map(row).collect(),
        )),
    }
    if issues.len() < all {
        ui.say(&format!("{} more issues: narrow them with a query.", all - issues.len()));
    }
    ExitCode::SUCCESS
}

fn row(issue: &Issue) -> Vec<Cell> {
    vec![
        Cell::new(&issue.id),
        Cell::new(&issue.level).tone(Tone::Bad),
        Cell::new(issue.count.to_string()),
        Cell::new(issue.last.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(if issue.new { "new" } else { "-" }),
        Cell::new(cut(&title(issue))).tone(Tone::Strong),
        Cell::new(cut(&issue.culprit)),
    ]
}

fn title(issue: &Issue) -> String {
    let line = issue.message.lines().next().unwrap_or_default();
    match line {
        "" => issue.error_type.clone(),
        line => format!("{}: {line}", issue.error_type),
    }
}

fn show(ui: &Ui, issue: Option<&Issue>, id: &str) -> Result<ExitCode, Failure> {
    let Some(issue) = issue else {
        let failure =
            Failure::new(FailureKind::NotFound, format!("there is no issue `{id}` in this run"));
        return Err(failure.hint("`hothouse errors` lists the issues"));
    };
    let body = &issue.body;
    match ui.json {
        true => ui.print_json(&IssueView {
            issue,
            details: Details {
                frames: &body.frames,
                tags: &body.tags,
                request: &body.request,
                breadcrumbs: &body.breadcrumbs,
                causes: &body.causes,
                group: &body.group,
                vendor: &body.vendor,
                platform: &body.platform,
                handled: body.handled,
                files: &body.files,
            },
            events: &issue.events,
        }),
        false => ui.print(&page(issue)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Renders an issue for a reader.
fn page(issue: &Issue) -> String {
    let body = &issue.body;
    let times = if issue.count == 1 { "once".to_owned() } else { format!("{} times", issue.count) };
    let mut lines = vec![
        format!("{}: {}", plain(&issue.error_type), plain_lines(&issue.message)),
        format!(
            "issue: {}, {}, {times}, first {}, last {}",
            issue.id,
            plain(&issue.level),
            issue.first,
            issue.last
        ),
    ];
    let mut named = |name: &str, value: Option<String>| {
        lines.extend(
            value
                .filter(|value| !value.is_empty())
                .map(|value| format!("{name}: {}", plain(&value))),
        );
    };
    named("new", issue.new.then(|| "not seen before in this run".to_owned()));
    named("where", Some(issue.culprit.clone()));
    named("release", issue.release.clone());
    named("environment", issue.environment.clone());
    named("handled", body.handled.map(|handled| if handled { "yes" } else { "no" }.to_owned()));
    named(
        "request",
        body.request.as_ref().map(|request| {
            [request.method.as_deref(), request.url.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ")
        }),
    );
    for cause in &body.causes {
        named("caused by", Some(format!("{}: {}", cause.error_type, cause.message)));
    }
    for (name, value) in &body.tags {
        named("tag", Some(format!("{name}={value}")));
    }
    for component in &body.group.components {
        named("grouped by", Some(component.clone()));
    }
    lines.extend(body.frames.iter().rev().map(frame));
    lines.extend(body.breadcrumbs.iter().rev().map(|crumb| {
        let time = crumb.time.as_deref().unwrap_or("-");
        plain(&format!("before: {time} {} {}", crumb.category, crumb.message))
    }));
    lines.join("\n")
}

fn frame(frame: &hothouse_model::record::bodies::Frame) -> String {
    let line = frame.line.map(|line| format!(":{line}")).unwrap_or_default();
    let own = if frame.in_app { "" } else { " (library)" };
    plain(&format!("  at {} in {}{line}{own}", frame.function, frame.file))
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Draft;
    use serde_json::json;

    use super::*;

    fn record(seq: u64, id: &str, message: &str) -> Record {
        let body = json!({ "type": "TypeError", "message": message, "level": "error", "culprit": "pay in shop.py",
            "event_id": format!("e{seq}"), "frames": [{ "file": "shop.py", "function": "pay", "line": 7, "in_app": true }],
            "group": { "key": "k", "components": ["type: TypeError"] } });
        let time = Timestamp::from_second(i64::try_from(seq).unwrap()).unwrap();
        let draft =
            Draft { service: Some("api".into()), ..Draft::new(Kind::Error, time, "", body) };
        Record { seq, ..draft.into_record(id, "a", "run_1") }
    }

    #[test]
    fn events_of_one_id_are_one_issue() {
        let mut issues = BTreeMap::new();
        for (seq, id) in [(1, "err_a"), (2, "err_b"), (3, "err_a")] {
            add(&mut issues, &record(seq, id, &format!("m{seq}")));
        }
        let issue = &issues["err_a"];
        assert_eq!((issue.count, issue.message.as_str(), issue.events.len()), (2, "m3", 2));
        assert_eq!((issue.first.as_second(), issue.last.as_second()), (1, 3));
        let json = serde_json::to_value(issue).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "id",
            "type",
            "message",
            "culprit",
            "level",
            "count",
            "first",
            "last",
            "new",
            "service",
            "release",
            "environment",
        ];
        expected.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }

    #[test]
    fn the_number_of_events_that_are_kept_is_bounded() {
        let mut issues = BTreeMap::new();
        for seq in 1..=250 {
            add(&mut issues, &record(seq, "err_a", "m"));
        }
        let issue = &issues["err_a"];
        assert_eq!((issue.count, issue.events.len(), issue.events[0].seq), (250, EVENT_LIMIT, 151));
    }

    #[test]
    fn an_issue_is_shown_without_what_moves_the_cursor() {
        let mut issues = BTreeMap::new();
        add(&mut issues, &record(1, "err_a", "bad\u{1b}[2J"));
        assert_eq!(
            page(&issues["err_a"]),
            "TypeError: bad\\u{1b}[2J\nissue: err_a, error, once, first 1970-01-01T00:00:01Z, last 1970-01-01T00:00:01Z\n\
             new: not seen before in this run\nwhere: pay in shop.py\ngrouped by: type: TypeError\n  at pay in shop.py:7"
        );
    }
}
