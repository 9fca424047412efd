//! Evaluates expectations against what is known so far; a failed check reports what was seen instead.
//!
//! [`evaluate`] is called repeatedly while records come in; [`next`] decides whether to wait. Nothing here reads a
//! clock: the elapsed time is passed in.

mod queries;
mod queue;

use std::{collections::BTreeSet, time::Duration};

use hothouse_model::{
    Word,
    config::RowExpectation,
    query::{Near, Query},
    record::{Kind, Record},
    stack::service::ServiceState,
};
use serde::{Deserialize, Serialize};

use crate::{
    expected::{Expected, Limited, Presence, Wanted},
    page::{Cookie, PageSeen},
};

pub use self::queue::QueueSeen;

/// How many records a check names, and how many of the nearest ones.
const NAMED: usize = 20;
const NEAREST: usize = 3;

/// How much of a text a check shows.
const SHOWN: usize = 300;

/// How much of a page is shown around a matching text, in bytes.
const AROUND: usize = 40;

/// How long nothing may happen before an unwanted effect counts as absent.
pub const QUIET: Duration = Duration::from_millis(500);

/// The maximum wait for such a quiet period.
pub const QUIET_LIMIT: Duration = Duration::from_secs(5);

/// The outcome of one expectation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// Such as `mail`, `no-mail`, `row` or `console`.
    pub kind: String,
    /// The query, text or name, as the scenario has it.
    pub query: String,
    /// Such as `at least 1`.
    pub wanted: String,
    pub ok: bool,
    /// The number of matches.
    pub found: u64,
    /// What was found; for a failed check, what was seen instead.
    pub seen: String,
    /// The records that it is based on.
    pub records: Vec<String>,
    /// The closest records.
    pub nearest: Vec<Nearest>,
    /// The command that shows more.
    pub more: Option<String>,
}

/// A record that does not match, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nearest {
    pub id: String,
    pub seq: u64,
    pub summary: String,
    /// The terms that fail.
    pub failed: Vec<String>,
}

/// The result of a database query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowAnswer {
    pub service: String,
    pub query: String,
    /// The output of the client, one line per row; truncated if long.
    pub rows: String,
    /// The error of the client.
    pub failure: Option<String>,
}

/// The state of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSeen {
    pub name: String,
    pub state: Word<ServiceState>,
    pub is_ready: bool,
    /// Restarts since the scenario began.
    pub restarts: u32,
}

/// What is known about a scenario so far.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The records since the mark, oldest first.
    pub records: &'a [Record],
    pub page: Option<&'a PageSeen>,
    pub rows: &'a [RowAnswer],
    pub queues: &'a [QueueSeen],
    pub services: &'a [ServiceSeen],
    /// The run, for commands that show more.
    pub run: &'a str,
    /// The cursor of the mark.
    pub mark: u64,
}

/// What to do after an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The checks are final.
    Done,
    /// Evaluate again when something happens, or after this time.
    Wait(Duration),
}

/// Decides whether the checks are final. Checks that could still pass must be out of time, and unwanted effects need a
/// period in which nothing happened.
pub fn next(all: &[Expected], checks: &[Check], elapsed: Duration, quiet: Duration) -> Next {
    let can_come = |one: &Expected, check: &Check| one.wanted.can_come_true(check.found);
    let open = all.iter().zip(checks).filter(|(one, check)| !check.ok && can_come(one, check));
    let left = open.map(|(one, _)| one.within.saturating_sub(elapsed)).max().unwrap_or_default();
    if !left.is_zero() {
        return Next::Wait(left);
    }
    let can_break = all.iter().zip(checks).any(|(one, check)| check.ok && one.wanted.can_break());
    let longest = all.iter().map(|one| one.within).max().unwrap_or_default() + QUIET_LIMIT;
    if can_break && quiet < QUIET && elapsed < longest {
        return Next::Wait(QUIET - quiet);
    }
    Next::Done
}

/// Checks every expectation.
pub fn evaluate(all: &[Expected], observed: &Observed<'_>) -> Vec<Check> {
    all.iter().map(|one| check(&one.wanted, observed)).collect()
}

fn check(wanted: &Wanted, observed: &Observed<'_>) -> Check {
    match wanted {
        Wanted::Status(status) => of_status(*status, observed),
        Wanted::Page(text, presence) => of_text(text, *presence, observed),
        Wanted::Limit(what, most) => of_limit(*what, *most, observed),
        Wanted::Cookie(text, presence) => of_cookie(text, *presence, observed),
        Wanted::Service(name) => of_service(name, observed),
        Wanted::Row(row) => of_row(row, observed),
        Wanted::Queue(queue) => queue::check(queue, observed),
        Wanted::Records { kind, query, least, most } => {
            of_records(*kind, query, (*least, *most), observed)
        }
        Wanted::NoRecord { kind, query } => {
            let check = of_records(*kind, query, (0, Some(0)), observed);
            Check { kind: format!("no-{kind}"), ..check }
        }
        Wanted::Errors(most) => of_errors(*most, observed),
        Wanted::Unmatched(most) => of_unmatched(*most, observed),
        Wanted::Queries(most) => queries::count(*most, observed),
        Wanted::SlowestQuery(longest) => queries::slowest(*longest, observed),
    }
}

fn of_status(wanted: Option<u16>, observed: &Observed<'_>) -> Check {
    let page = observed.page;
    let failure = page.and_then(|page| page.failure.clone());
    let status = page.and_then(|page| page.status);
    let ok = failure.is_none()
        && match (wanted, status) {
            (Some(wanted), status) => status == Some(wanted),
            (None, Some(status)) => status < 400,
            (None, None) => false,
        };
    let seen = match (failure, status) {
        (Some(failure), _) => failure,
        (None, Some(status)) => format!("status {status}"),
        (None, None) => "the page did not answer".to_owned(),
    };
    Check {
        kind: "status".into(),
        query: page.map(|page| path_of(&page.url)).unwrap_or_default(),
        wanted: wanted.map_or("not an error".into(), |status| format!("status {status}")),
        ok,
        found: u64::from(status.unwrap_or(0)),
        seen: cut(&seen),
        more: (!ok).then(|| timeline(observed, Kind::Browser)),
        ..on_page(observed)
    }
}

/// Returns the path of a URL: its host is the sandbox's own.
fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..]).to_owned()
}

/// Starts a check that is based on the page.
fn on_page(observed: &Observed<'_>) -> Check {
    let record = observed.page.and_then(|page| page.record.clone());
    Check { records: record.into_iter().collect(), ..Check::default() }
}

fn of_text(text: &str, presence: Presence, observed: &Observed<'_>) -> Check {
    let page = observed.page;
    let all = page.map(|page| flat(&format!("{}\n{}", page.title, page.text))).unwrap_or_default();
    let found = all.to_lowercase().matches(&flat(text).to_lowercase()).count() as u64;
    let ok = page.is_some() && (found > 0) == (presence == Presence::Wanted);
    let seen = match (page, found) {
        (None, _) => "no page was opened".to_owned(),
        (Some(_), 0) if ok => "not there".to_owned(),
        (Some(_), 0) => format!("the page shows: {}", cut(&all)),
        (Some(_), _) => around(&all, text),
    };
    Check {
        kind: if presence == Presence::Wanted { "page".into() } else { "no-page".into() },
        query: text.to_owned(),
        wanted: if presence == Presence::Wanted { "shown".into() } else { "not shown".into() },
        ok,
        found,
        seen,
        more: (!ok).then(|| timeline(observed, Kind::Browser)),
        ..on_page(observed)
    }
}

fn of_limit(what: Limited, most: u32, observed: &Observed<'_>) -> Check {
    let page = observed.page;
    let (kind, query, list) = match what {
        Limited::Console => ("console", "errors", page.map(PageSeen::console_errors)),
        Limited::Failed => ("failed", "requests", page.map(PageSeen::failures)),
        Limited::Broken => ("broken", "pictures", page.map(PageSeen::broken)),
    };
    // Without a page, `status` reports it.
    let list = list.unwrap_or_default();
    let ok = list.len() <= most as usize;
    Check {
        kind: kind.into(),
        query: query.into(),
        wanted: at_most(most),
        ok,
        found: list.len() as u64,
        seen: cut(&if list.is_empty() { "none".to_owned() } else { list.join("; ") }),
        more: (!ok).then(|| timeline(observed, Kind::Browser)),
        ..on_page(observed)
    }
}

fn of_cookie(text: &str, presence: Presence, observed: &Observed<'_>) -> Check {
    let cookies = observed.page.and_then(|page| page.cookies.as_ref());
    let count = |all: &Vec<Cookie>| all.iter().filter(|cookie| cookie.name == text).count();
    let found = cookies.map_or(0, count) as u64;
    let ok = cookies.is_some() && (found > 0) == (presence == Presence::Wanted);
    let names: Vec<&str> = cookies.iter().copied().flatten().map(|one| one.name.as_str()).collect();
    let seen = match cookies {
        None => "the browser told no cookies".to_owned(),
        Some(_) if names.is_empty() => "no cookies".to_owned(),
        Some(_) => format!("cookies: {}", names.join(", ")),
    };
    Check {
        kind: if presence == Presence::Wanted { "cookie".into() } else { "no-cookie".into() },
        query: text.to_owned(),
        wanted: if presence == Presence::Wanted { "set".into() } else { "not set".into() },
        ok,
        found,
        seen: cut(&seen),
        more: (!ok).then(|| timeline(observed, Kind::Browser)),
        ..on_page(observed)
    }
}

fn of_service(name: &str, observed: &Observed<'_>) -> Check {
    let service = observed.services.iter().find(|service| service.name == name);
    let seen = match service {
        None => "not running".to_owned(),
        Some(service) if service.restarts > 0 => {
            let times = match service.restarts {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!("{}, restarted {times} meanwhile", service.state)
        }
        Some(service) => service.state.to_string(),
    };
    let ok = service.is_some_and(|service| service.is_ready && service.restarts == 0);
    Check {
        kind: "service".into(),
        query: name.to_owned(),
        wanted: "ready".into(),
        ok,
        found: u64::from(service.is_some()),
        seen,
        more: (!ok).then(|| timeline(observed, Kind::Service)),
        ..Check::default()
    }
}

fn of_row(row: &RowExpectation, observed: &Observed<'_>) -> Check {
    let (service, query) = (row.service.as_str(), row.query.as_str());
    let answer = observed.rows.iter().find(|one| one.service == service && one.query == query);
    let rows = answer.map(|answer| answer.rows.trim_end_matches('\n')).unwrap_or_default();
    let failure = answer.and_then(|answer| answer.failure.as_deref());
    let found = rows.lines().filter(|line| !line.is_empty()).count() as u64;
    let ok = failure.is_none()
        && match &row.equals {
            Some(equals) => rows.trim() == equals.as_str().trim(),
            None => found > 0,
        };
    let seen = match (answer, failure) {
        (None, _) => "not asked yet".to_owned(),
        (_, Some(failure)) => failure.to_owned(),
        (_, None) if found == 0 => "no rows".to_owned(),
        (_, None) => rows.to_owned(),
    };
    Check {
        kind: "row".into(),
        query: format!("{service}: {query}"),
        wanted: row.equals.as_ref().map_or("at least 1 row".into(), |text| text.to_string()),
        ok,
        found,
        seen: cut(&seen),
        more: (!ok).then(|| format!("hothouse db {service}")),
        ..Check::default()
    }
}

/// Returns the matching records; of several with the same id, the last one counts.
pub fn fitting<'a>(records: &'a [Record], kind: Kind, query: &str) -> Vec<&'a Record> {
    let Ok(query) = Query::parse(query, Some(kind)) else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let mut found: Vec<&Record> =
        records.iter().rev().filter(|record| query.matches(record)).collect();
    // Each event of an issue counts, although all have the issue's id.
    found.retain(|record| kind == Kind::Error || seen.insert(record.id.as_str()));
    found.reverse();
    found
}

fn of_records(
    kind: Kind,
    query: &str,
    (least, most): (u32, Option<u32>),
    observed: &Observed<'_>,
) -> Check {
    let found = fitting(observed.records, kind, query);
    let count = found.len() as u64;
    let ok = count >= u64::from(least) && most.is_none_or(|most| count <= u64::from(most));
    let lacking = count < u64::from(least);
    Check {
        kind: kind.to_string(),
        query: query.to_owned(),
        wanted: amount(least, most),
        ok,
        found: count,
        seen: match found.is_empty() && ok {
            true => "none".to_owned(),
            false => seen_records(kind, &found, observed),
        },
        records: ids(&found),
        nearest: if lacking { nearest(kind, query, observed.records) } else { Vec::new() },
        more: (!ok).then(|| timeline(observed, kind)),
    }
}

fn seen_records(kind: Kind, found: &[&Record], observed: &Observed<'_>) -> String {
    if !found.is_empty() {
        let all: Vec<&str> = found.iter().map(|record| record.summary.as_str()).collect();
        return cut(&all.join("; "));
    }
    match observed.records.iter().filter(|record| record.kind == kind).count() {
        0 => format!("no {kind} at all"),
        1 => format!("1 other {kind}"),
        count => format!("{count} others of kind {kind}"),
    }
}

fn of_errors(most: u32, observed: &Observed<'_>) -> Check {
    let all: Vec<&Record> = observed.records.iter().filter(|one| one.kind == Kind::Error).collect();
    let issues: BTreeSet<&str> = all.iter().map(|record| record.id.as_str()).collect();
    limited("errors", "recorded", most, issues.len(), &all, observed, Kind::Error)
}

fn of_unmatched(most: u32, observed: &Observed<'_>) -> Check {
    let is_unmatched = |one: &&Record| one.kind == Kind::Request && one.body["matched"] == false;
    let all: Vec<&Record> = observed.records.iter().filter(is_unmatched).collect();
    let query = "calls";
    limited("unmatched", query, most, all.len(), &all, observed, Kind::Request)
}

fn limited(
    kind: &str,
    query: &str,
    most: u32,
    count: usize,
    all: &[&Record],
    observed: &Observed<'_>,
    of: Kind,
) -> Check {
    let ok = count <= most as usize;
    let summaries: Vec<&str> = all.iter().map(|record| record.summary.as_str()).collect();
    Check {
        kind: kind.into(),
        query: query.into(),
        wanted: at_most(most),
        ok,
        found: count as u64,
        seen: cut(&if all.is_empty() { "none".to_owned() } else { summaries.join("; ") }),
        records: ids(all),
        nearest: Vec::new(),
        more: (!ok).then(|| timeline(observed, of)),
    }
}

fn ids(records: &[&Record]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for record in records {
        if ids.len() < NAMED && !ids.contains(&record.id) {
            ids.push(record.id.clone());
        }
    }
    ids
}

fn nearest(kind: Kind, query: &str, records: &[Record]) -> Vec<Nearest> {
    let Ok(query) = Query::parse(query, Some(kind)) else { return Vec::new() };
    let mut all: Vec<(Near, &Record)> =
        records.iter().filter_map(|record| Some((query.near(record)?, record))).collect();
    all.sort_by_cached_key(|(near, record)| {
        let alike = likeness(&near.failed, &record.summary);
        std::cmp::Reverse((near.held, near.present, alike, record.seq))
    });
    // Several records with the same summary would add nothing.
    let mut told = BTreeSet::new();
    all.retain(|(_, record)| told.insert(record.summary.as_str()));
    all.truncate(NEAREST);
    let told = all.into_iter().map(|(near, record)| Nearest {
        id: record.id.clone(),
        seq: record.seq,
        summary: cut(&record.summary),
        failed: near.failed,
    });
    told.collect()
}

/// Counts the words that the failed terms share with a record.
fn likeness(failed: &[String], summary: &str) -> usize {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        words.map(str::to_lowercase).collect()
    };
    let own = words(summary);
    // Every term contains the field name, so only the values count.
    let values = failed
        .iter()
        .map(|term| term.split_once([':', '=', '~']).map_or(term.as_str(), |(_, value)| value));
    let wanted: BTreeSet<String> = values.flat_map(words).collect();
    wanted.intersection(&own).count()
}

fn timeline(observed: &Observed<'_>, kind: Kind) -> String {
    format!("hothouse timeline --kind {kind} --since {} --run {}", observed.mark, observed.run)
}

fn amount(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, Some(most)) => at_most(most),
        (least, Some(most)) if least == most => format!("exactly {least}"),
        (least, Some(most)) => format!("{least} to {most}"),
        (least, None) => format!("at least {least}"),
    }
}

fn at_most(most: u32) -> String {
    if most == 0 { "none".to_owned() } else { format!("at most {most}") }
}

/// Makes a text one line, with single spaces.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the surroundings of a part of a text.
fn around(all: &str, part: &str) -> String {
    // Lower-casing can change a text's length, so the position is only approximate.
    let at = all.to_lowercase().find(&flat(part).to_lowercase()).unwrap_or(0).min(all.len());
    let at = all.floor_char_boundary(at);
    let from = all.floor_char_boundary(at.saturating_sub(AROUND));
    let end = all.ceil_char_boundary((at + part.len() + AROUND).min(all.len()));
    // Cut at word boundaries where possible.
    let space = all[from..at].find(' ').filter(|_| from > 0);
    let begin = space.map_or(from, |space| from + space + 1);
    let tail = all.floor_char_boundary(end.saturating_sub(AROUND)).max(at);
    let space = all[tail..end].rfind(' ').filter(|_| end < all.len());
    cut(&all[begin..space.map_or(end, |space| tail + space)])
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
