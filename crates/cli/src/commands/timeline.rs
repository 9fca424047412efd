//! `timeline`, `mark`, `since`, `wait`, `verify`: what happened in a run.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    proof::FolderQuery,
    route,
    timeline::{
        MarkBody, MarkView, NearView, SinceQuery, SinceView, TimelinePage, TimelineQuery,
        VerifyQuery, VerifyView, WaitQuery, WaitView,
    },
    workspace::RunLineView,
};
use hothouse_model::{
    Failure, FailureKind,
    record::{Kind, Record, kind_of_id},
};

use serde::Serialize;

use super::{given::required_duration, sandbox::check_reference, sign, waterfall};
use crate::{
    args::{MarkArgs, SinceArgs, TimelineArgs, VerifyArgs, WaitArgs, Which, WhichRun},
    render::{self, Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The approximate number of bytes in a token.
const TOKEN_BYTES: usize = 4;

/// How many records one request returns.
const PAGE: usize = 500;

/// How many records are shown at once on a terminal.
const SHOWN: usize = 200;

/// How long one request waits.
const STEP: Duration = Duration::from_secs(10);

/// The maximum length of a summary in a table.
const SUMMARY: usize = 101;

/// Builds the query for the records of a run, optionally of one kind.
fn of_run(
    session: &Session,
    kind: Option<String>,
    query: String,
    since: Option<String>,
    run: WhichRun,
) -> Result<TimelineQuery, Failure> {
    Ok(TimelineQuery {
        sandbox: checked(run.which)?,
        folder: session.folder_text()?,
        run: run.run,
        kind,
        query,
        since,
        ..TimelineQuery::default()
    })
}

/// Builds the query for the records of one kind.
pub(super) fn of_kind(
    session: &Session,
    kind: Kind,
    query: String,
    since: Option<String>,
    run: WhichRun,
) -> Result<TimelineQuery, Failure> {
    of_run(session, Some(kind.to_string()), query, since, run)
}

/// Lists records.
pub(crate) fn list(session: &Session, ui: &Ui, args: TimelineArgs) -> Result<ExitCode, Failure> {
    let terms = of_trace(terms(&args.query), args.trace.as_deref());
    let query = of_run(session, args.kind, terms, args.part.since, args.part.run)?;
    let (records, next) = fetch(session, ui, query, args.part.budget)?;
    match ui.json {
        true => ui.print_json(&records),
        false if records.is_empty() => ui.say("No such records."),
        false if args.trace.is_some() => ui.print(&waterfall::table(ui, &records)),
        false => ui.print(&table(
            ui,
            &["SEQ", "TIME", "KIND", "WHO", "SUMMARY"],
            records.iter().map(row).collect(),
        )),
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

/// Fetches records page by page: all for JSON, some for a terminal, and no more than the budget.
pub(super) fn fetch(
    session: &Session,
    ui: &Ui,
    query: TimelineQuery,
    budget: Option<usize>,
) -> Result<(Vec<Record>, Option<u64>), Failure> {
    fetch_where(session, ui, query, budget, &|_| true)
}

/// Fetches the records that `is_wanted` chooses; only these count for the budget.
pub(super) fn fetch_where(
    session: &Session,
    ui: &Ui,
    query: TimelineQuery,
    budget: Option<usize>,
    is_wanted: &dyn Fn(&Record) -> bool,
) -> Result<(Vec<Record>, Option<u64>), Failure> {
    let mut budget = Budget::new(ui, budget);
    let mut all = Vec::new();
    let (_, next) = visit(session, query, &mut |record| {
        if !is_wanted(&record) {
            return ControlFlow::Continue(());
        }
        if !budget.takes(&record) {
            return ControlFlow::Break(());
        }
        all.push(record);
        ControlFlow::Continue(())
    })?;
    Ok((all, next))
}

/// How much a list may still print.
pub(super) struct Budget {
    lines: usize,
    bytes: usize,
    is_first: bool,
}

impl Budget {
    /// Allows everything for JSON, some for a terminal, and at most this many tokens.
    pub(super) fn new(ui: &Ui, tokens: Option<usize>) -> Self {
        let lines = if ui.json { usize::MAX } else { SHOWN };
        let bytes = tokens.map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES));
        Self { lines, bytes, is_first: true }
    }

    /// Whether one more line fits. The first always does, because a reader could never get past it otherwise.
    pub(super) fn takes(&mut self, line: &impl Serialize) -> bool {
        let size = serde_json::to_string(line).map_or(0, |text| text.len());
        let fits = self.is_first || self.lines > 0 && self.bytes >= size;
        self.is_first = false;
        self.lines = self.lines.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        fits
    }
}

/// Visits records page by page until the visitor stops; returns the folder of the run, and where to continue.
pub(super) fn visit(
    session: &Session,
    mut query: TimelineQuery,
    visitor: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> Result<(String, Option<u64>), Failure> {
    query.limit = Some(PAGE);
    let mut last = None;
    loop {
        let TimelinePage { records, next, artifacts } = session.query(route::TIMELINE, &query)?;
        for record in records {
            let seq = record.seq;
            if visitor(record).is_break() {
                return Ok((artifacts, last));
            }
            last = Some(seq);
        }
        match next {
            Some(seq) => query.since = Some(seq.to_string()),
            None => return Ok((artifacts, None)),
        }
    }
}

/// Fetches all records, however many there are.
pub(super) fn fetch_all(
    session: &Session,
    mut query: TimelineQuery,
) -> Result<Vec<Record>, Failure> {
    let mut all = Vec::new();
    loop {
        query.limit = Some(PAGE);
        let TimelinePage { records, next, .. } = session.query(route::TIMELINE, &query)?;
        all.extend(records);
        match next {
            Some(seq) => query.since = Some(seq.to_string()),
            None => return Ok(all),
        }
    }
}

pub(super) fn go_on(ui: &Ui, next: Option<u64>) {
    if let Some(next) = next {
        ui.say(&format!("More: continue with `--since {next}`."));
    }
}

fn row(record: &Record) -> Vec<Cell> {
    let process = record.process.as_ref();
    let process = process.map(|process| format!("{}[{}]", process.command, process.room_pid));
    let who = record.service.clone().or(process).unwrap_or_else(|| "-".into());
    vec![
        Cell::new(record.seq.to_string()),
        Cell::new(record.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(record.kind.as_str()).tone(Tone::Strong),
        Cell::new(who),
        Cell::new(cut(&record.summary)),
    ]
}

/// Cuts a summary to fit in a table line.
pub(super) fn cut(text: &str) -> String {
    render::cut(text, SUMMARY)
}

/// Sets a mark.
pub(crate) fn mark(session: &Session, ui: &Ui, args: MarkArgs) -> Result<ExitCode, Failure> {
    let sandbox = checked(args.which)?;
    let body = MarkBody { sandbox, folder: session.folder_text()?, name: args.name };
    let mark: MarkView = session.post(route::TIMELINE_MARK, &session.operation(), &body)?;
    match ui.json {
        true => ui.print_json(&mark),
        false => ui.say(&format!(
            "Marked `{}`; `hothouse since {0}` counts what happens from here.",
            mark.mark
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts what happened since a mark.
pub(crate) fn since(session: &Session, ui: &Ui, args: SinceArgs) -> Result<ExitCode, Failure> {
    let query = SinceQuery {
        sandbox: checked(args.run.which)?,
        folder: session.folder_text()?,
        run: args.run.run,
        mark: args.name,
        limit: (!ui.json).then_some(0),
    };
    let since: SinceView = session.query(route::TIMELINE_SINCE, &query)?;
    if ui.json {
        ui.print_json(&since);
        return Ok(ExitCode::SUCCESS);
    }
    let (some, none): (Vec<_>, Vec<_>) = Kind::ALL
        .iter()
        .map(|kind| (kind.as_str(), since.counts.get(kind.as_str()).copied().unwrap_or(0)))
        .partition(|(_, count)| *count > 0);
    if !some.is_empty() {
        let cells = |(kind, count): &(&str, u64)| {
            vec![Cell::new(kind).tone(Tone::Strong), Cell::new(count.to_string())]
        };
        ui.print(&table(ui, &["KIND", "RECORDS"], some.iter().map(cells).collect()));
    }
    let none: Vec<_> = none.iter().map(|(kind, _)| *kind).collect();
    ui.print(&format!("none: {}", none.join(", ")));
    if since.seeding > 0 {
        ui.print(&format!("made by seeding, and not counted: {}", since.seeding));
    }
    if since.unmatched > 0 {
        ui.print(&format!("requests that no fixture matched: {}", since.unmatched));
    }
    for gap in &since.gaps {
        ui.print(&format!(
            "not seen: {} ({}, {})",
            plain(&gap.what),
            plain(gap.kind.as_str()),
            gap.count
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for a record.
pub(crate) fn wait(session: &Session, ui: &Ui, args: WaitArgs) -> Result<ExitCode, Failure> {
    let timeout = required_duration("--timeout", &args.timeout)?;
    let until = Instant::now() + timeout;
    let first = WaitQuery {
        sandbox: checked(args.run.which)?,
        folder: session.folder_text()?,
        run: args.run.run,
        kind: args.kind,
        query: terms(&args.query),
        since: args.since,
        wait_ms: 0,
    };
    let mut query = first.clone();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        query.wait_ms = u64::try_from(left.min(STEP).as_millis()).unwrap_or(u64::MAX);
        let answer: WaitView = session.query(route::TIMELINE_WAIT, &query)?;
        if let Some(record) = answer.record {
            match ui.json {
                true => ui.print_json(&record),
                false => ui.print(&table(
                    ui,
                    &["SEQ", "TIME", "KIND", "WHO", "SUMMARY"],
                    vec![row(&record)],
                )),
            }
            return Ok(ExitCode::SUCCESS);
        }
        if left <= STEP {
            // The nearest misses are searched from the beginning.
            let nearest = match query == first_with(&first, query.wait_ms) {
                true => answer.nearest,
                false => session.query::<WaitView>(route::TIMELINE_WAIT, &first)?.nearest,
            };
            return Err(timed_out(&first, &args.timeout, &nearest));
        }
        query.since = Some(answer.cursor.to_string());
    }
}

fn first_with(first: &WaitQuery, wait_ms: u64) -> WaitQuery {
    WaitQuery { wait_ms, ..first.clone() }
}

fn timed_out(query: &WaitQuery, timeout: &str, nearest: &[NearView]) -> Failure {
    let what = match query.query.as_str() {
        "" => format!("no {} came", query.kind),
        terms => format!("no {} with `{}` came", query.kind, plain(terms)),
    };
    let failure = Failure::new(FailureKind::Unmet, format!("{what} within {timeout}"));
    let mut hints: Vec<String> = nearest
        .iter()
        .map(|near| {
            let NearView { failed, record } = near;
            let failed: Vec<String> =
                failed.iter().map(|term| format!("`{}`", plain(term))).collect();
            format!(
                "near: record {}, {}: {} does not hold",
                record.seq,
                plain(&cut(&record.summary)),
                failed.join(", ")
            )
        })
        .collect();
    if hints.is_empty() {
        hints.push(format!("there is no record of kind `{}` there", query.kind));
    }
    hints.into_iter().fold(failure, Failure::hint)
}

/// Verifies the timeline of a run.
pub(crate) fn verify(session: &Session, ui: &Ui, args: VerifyArgs) -> Result<ExitCode, Failure> {
    let signers = args.signers.clone();
    let (mut found, place): (VerifyView, _) = match folder_of(session, &args)? {
        Some(query) => (session.query(route::VERIFY_FOLDER, &query)?, Some(query.path.into())),
        None => {
            let place = run_folder(session, &args.run)?;
            let query = VerifyQuery { run: args.run, head: args.head };
            (session.query(route::TIMELINE_VERIFY, &query)?, place)
        }
    };
    check_signature(session, &mut found, place, signers.as_deref())?;
    let code =
        if found.ok { ExitCode::SUCCESS } else { ExitCode::from(FailureKind::Unmet.exit_code()) };
    if ui.json {
        ui.print_json(&found);
        return Ok(code);
    }
    let VerifyView { run, records, head, broken_at, why, problems, summary, .. } = &found;
    for problem in problems {
        ui.print(&format!("{}: {}", ui.paint(Tone::Bad, "false"), plain(problem)));
    }
    if let Some(signature) = found.signature.as_ref().filter(|it| it.problem.is_none()) {
        ui.print(&plain(&sign::told(signature)));
    }
    match broken_at {
        None if found.ok => ui.print(&format!(
            "{}: {} is as it was written: {records} records, head {}; {}",
            ui.paint(Tone::Good, "ok"),
            plain(run),
            plain(head),
            if *summary { "its summary follows from them" } else { "it has no summary" }
        )),
        None => ui.print(&format!(
            "{}: of {} only the {records} records are as they were written, head {}",
            ui.paint(Tone::Bad, "failed"),
            plain(run),
            plain(head),
        )),
        Some(line) => ui.print(&format!(
            "{}: line {line} of the timeline of {}: {}",
            ui.paint(Tone::Bad, "broken"),
            plain(run),
            plain(why.as_deref().unwrap_or("it is not as it was written"))
        )),
    }
    Ok(code)
}

/// Returns the folder of a run that the daemon knows.
fn run_folder(session: &Session, run: &str) -> Result<Option<PathBuf>, Failure> {
    // A room does not see folders of the host.
    if session.is_inside() {
        return Ok(None);
    }
    let all: Vec<RunLineView> = session.get(route::RUNS)?;
    Ok(all.into_iter().find(|one| one.id == run).map(|one| one.artifacts.into()))
}

/// Adds who signed the summary, and any problem with the signature.
fn check_signature(
    session: &Session,
    found: &mut VerifyView,
    place: Option<PathBuf>,
    signers: Option<&str>,
) -> Result<(), Failure> {
    found.signature = match place {
        Some(place) => sign::check(session, &place, signers)?,
        None => None,
    };
    let problem = match &found.signature {
        Some(signature) => signature.problem.clone(),
        None => signers.map(|_| "the summary is not signed".to_owned()),
    };
    found.ok &= problem.is_none();
    found.problems.extend(problem);
    Ok(())
}

/// Returns the folder if the argument is one: everything that does not look like a run's id.
fn folder_of(session: &Session, args: &VerifyArgs) -> Result<Option<FolderQuery>, Failure> {
    if args.run.starts_with("run_") && !args.run.contains('/') {
        return Ok(None);
    }
    let path = session.folder.join(&args.run);
    let text = path.to_str().map(str::to_owned);
    let path = text.ok_or_else(|| {
        Failure::new(FailureKind::Usage, "the path of the folder is not valid UTF-8")
    })?;
    Ok(Some(FolderQuery { path, head: args.head.clone() }))
}

/// Adds the term for a trace. Keeps only characters of an id, so that the text cannot add other terms.
fn of_trace(mut terms: String, trace: Option<&str>) -> String {
    if let Some(trace) = trace {
        let digits = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let id: String = trace.chars().filter(digits).collect();
        terms.push_str(&format!(" trace={}", id.to_ascii_lowercase()));
    }
    terms
}

/// Joins the words of a query. A word in the form of an id selects that record.
pub(super) fn terms(words: &[String]) -> String {
    let term = |word: &String| match kind_of_id(word) {
        Some(_) => format!("id={word}"),
        None => word.clone(),
    };
    words.iter().map(term).collect::<Vec<_>>().join(" ")
}

pub(super) fn checked(which: Which) -> Result<Option<String>, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    Ok(which.sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_term_and_words_are_joined() {
        let words =
            |all: &[&str]| terms(&all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["req_0123456789abcdef"]), "id=req_0123456789abcdef");
        assert_eq!(words(&["host:stripe", "method=POST"]), "host:stripe method=POST");
        assert_eq!(words(&[]), "");
    }

    #[test]
    fn a_long_summary_is_cut_at_a_character() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ä".repeat(150)), format!("{}…", "ä".repeat(SUMMARY - 1)));
    }
}
