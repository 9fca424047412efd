//! The summary as a single page that works offline, loads nothing and runs no scripts.

use askama::Template;
use base64::{Engine, engine::general_purpose::STANDARD};
use hothouse_model::record::{Kind, Record};

use super::{Summary, Verdict, markdown::short};
use crate::{
    checks::Check,
    coverage::{ChangeCoverage, FileCoverage},
    html,
    judge::ChangedFile,
    outcome::ScenarioOutcome,
    pixels::Picture,
};

/// The maximum number of records listed.
const RECORDS: usize = 1500;

/// The maximum width of an embedded screenshot, and the height at which it is cropped.
const SHOT: (u32, u32) = (760, 1400);

/// The maximum size of images and mails in the page.
const BUDGET: usize = 7 << 20;

/// The maximum size of one record's body, and of all of them.
const BODY: usize = 2000;
const BODIES: usize = 1 << 20;

/// The maximum length of the "seen" texts at the top.
const BRIEF: usize = 110;

/// A screenshot.
#[derive(Clone, Debug, Default)]
pub struct Shot {
    /// The scenario, or what the image shows.
    pub of: String,
    /// The path below the run's folder.
    pub file: String,
    /// The image, as PNG.
    pub bytes: Vec<u8>,
}

/// A mail with its sanitized page.
#[derive(Clone, Debug, Default)]
pub struct MailShown {
    pub id: String,
    pub subject: String,
    pub from: String,
    pub to: String,
    pub page: Option<String>,
    pub text: Option<String>,
}

/// The input of the page.
#[derive(Clone, Debug)]
pub struct PageInput<'a> {
    pub summary: &'a Summary,
    /// The records of its scenarios, oldest first.
    pub records: &'a [&'a Record],
    pub shots: &'a [Shot],
    pub mails: &'a [MailShown],
}

/// Writes the page.
pub fn page(input: &PageInput<'_>) -> String {
    let mut budget = BUDGET;
    let shots: Vec<Embedded> = input.shots.iter().map(|shot| embedded(shot, &mut budget)).collect();
    let mails: Vec<&MailShown> =
        input.mails.iter().filter(|mail| fits(mail, &mut budget)).collect();
    let left_out = input.mails.len() - mails.len();
    let summary = input.summary;
    html::render(&Page {
        summary,
        rows: rows(input.records),
        kinds: kinds(input.records),
        records_left_out: input.records.len().saturating_sub(RECORDS),
        shots,
        mails,
        mails_left_out: left_out,
        files: summary.files.iter().map(|file| FileShown::of(file, &summary.coverage)).collect(),
    })
}

fn fits(mail: &MailShown, budget: &mut usize) -> bool {
    let size =
        mail.page.as_ref().map_or(0, String::len) + mail.text.as_ref().map_or(0, String::len);
    // Escaping makes it longer.
    match budget.checked_sub(size.saturating_mul(2)) {
        Some(rest) => {
            *budget = rest;
            true
        }
        None => false,
    }
}

fn embedded(shot: &Shot, budget: &mut usize) -> Embedded {
    let small = Picture::decode(&shot.bytes).map(|picture| picture.thumbnail(SHOT.0, SHOT.1));
    let size = small.as_ref().map(|picture| (picture.width, picture.height));
    let data = small.map(|picture| STANDARD.encode(picture.encode()));
    let data = data.filter(|data| match budget.checked_sub(data.len()) {
        Some(rest) => {
            *budget = rest;
            true
        }
        None => false,
    });
    Embedded { of: shot.of.clone(), file: shot.file.clone(), data, size: size.unwrap_or_default() }
}

/// A screenshot on the page.
struct Embedded {
    of: String,
    file: String,
    /// `None` if it exceeded the size limit, or is invalid.
    data: Option<String>,
    size: (u32, u32),
}

/// A record on the page, with its position on the time axis, in thousandths.
struct Row<'a> {
    record: &'a Record,
    offset: String,
    left: u64,
    width: u64,
    /// Its duration in milliseconds.
    took: u64,
    /// `None` if it exceeded the size limit.
    body: Option<String>,
}

fn rows<'a>(records: &[&'a Record]) -> Vec<Row<'a>> {
    let shown = &records[..records.len().min(RECORDS)];
    let begin = |record: &Record| record.time.as_millisecond() - duration(record);
    let Some(first) = shown.iter().map(|record| begin(record)).min() else { return Vec::new() };
    let last = shown.iter().map(|record| record.time.as_millisecond()).max().unwrap_or(first);
    let whole = (last - first).max(1);
    let part = |ms: i64| u64::try_from(ms.max(0) * 1000 / whole).unwrap_or(0);
    let mut shown = shown.to_vec();
    shown.sort_by_key(|record| (begin(record), record.seq));
    let mut budget = BODIES;
    shown
        .into_iter()
        .map(|record| Row {
            record,
            offset: seconds(begin(record) - first),
            left: part(begin(record) - first).min(990),
            width: part(duration(record)).clamp(6, 1000),
            took: u64::try_from(duration(record)).unwrap_or(0),
            body: body(record, &mut budget),
        })
        .collect()
}

/// Writes the body of a record, within the limits.
fn body(record: &Record, budget: &mut usize) -> Option<String> {
    let mut text = serde_json::to_string_pretty(&record.body).ok()?;
    if text.len() > BODY {
        text.truncate(text.floor_char_boundary(BODY));
        text.push('…');
    }
    *budget = budget.checked_sub(text.len())?;
    Some(text)
}

/// Returns a record's duration in milliseconds; a record is written at the end.
fn duration(record: &Record) -> i64 {
    let ms = record.body["duration_ms"].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "it is clamped to an hour")]
    let ms = ms.clamp(0.0, 3_600_000.0) as i64;
    ms
}

fn seconds(ms: i64) -> String {
    format!("+{}.{:03}", ms / 1000, ms.rem_euclid(1000))
}

/// Returns the kinds of the records with their counts, in the usual order.
fn kinds(records: &[&Record]) -> Vec<(&'static str, usize)> {
    let count = |kind: Kind| records.iter().filter(|record| record.kind == kind).count();
    let all = Kind::ALL.into_iter().map(|kind| (kind.as_str(), count(kind)));
    all.filter(|(_, count)| *count > 0).collect()
}

/// A failed check, as listed at the top.
struct Failing<'a> {
    scenario: &'a str,
    check: &'a Check,
    seen: String,
}

/// A changed file, with the shares of its bar for added and removed lines.
struct FileShown<'a> {
    file: &'a ChangedFile,
    run: Option<&'a FileCoverage>,
    added: usize,
    removed: usize,
}

impl<'a> FileShown<'a> {
    fn of(file: &'a ChangedFile, coverage: &'a ChangeCoverage) -> Self {
        let blocks = |lines: Option<u64>| match lines.unwrap_or(0) {
            0 => 0,
            lines => usize::try_from(lines.ilog2()).unwrap_or(0).clamp(1, 8),
        };
        let run = coverage.files.iter().find(|one| one.path == file.path);
        Self { file, run, added: blocks(file.added), removed: blocks(file.removed) }
    }
}

#[derive(Template)]
#[template(path = "summary.html")]
struct Page<'a> {
    summary: &'a Summary,
    rows: Vec<Row<'a>>,
    kinds: Vec<(&'static str, usize)>,
    records_left_out: usize,
    shots: Vec<Embedded>,
    mails: Vec<&'a MailShown>,
    mails_left_out: usize,
    files: Vec<FileShown<'a>>,
}

/// Formats a duration.
fn took(ms: &u64) -> String {
    match *ms {
        ms @ 0..1000 => format!("{ms} ms"),
        ms => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// Returns the beginning of a text, up to a word boundary.
fn brief(text: &str) -> String {
    if text.len() <= BRIEF {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(BRIEF);
    let end = text[..end].rfind(' ').unwrap_or(end);
    format!("{}…", &text[..end])
}

/// Splits a sentence into code, which is in backticks, and other text.
fn parts(sentence: &str) -> Vec<(&str, bool)> {
    let pieces: Vec<&str> = sentence.split('`').collect();
    // An unpaired backtick is an ordinary character.
    if pieces.len().is_multiple_of(2) {
        return vec![(sentence, false)];
    }
    let parts = pieces.into_iter().enumerate().map(|(at, piece)| (piece, at % 2 == 1));
    parts.filter(|(piece, _)| !piece.is_empty()).collect()
}

impl Page<'_> {
    fn sign(&self) -> &'static str {
        match self.summary.verdict {
            Verdict::Proved => "✓",
            Verdict::Failed => "✗",
            Verdict::Incomplete | Verdict::Unproved => "!",
        }
    }

    /// Returns whether a check is based on a record.
    fn is_evidence(&self, id: &str) -> bool {
        let mut checks = self.summary.scenarios.iter().flat_map(|one| &one.checks);
        checks.any(|check| check.records.iter().any(|record| record == id))
    }

    fn tone(&self) -> &'static str {
        match self.summary.verdict {
            Verdict::Proved => "good",
            Verdict::Failed => "bad",
            Verdict::Incomplete => "busy",
            Verdict::Unproved => "still",
        }
    }

    fn told(&self) -> &'static str {
        match self.summary.verdict {
            Verdict::Proved => "Proved",
            Verdict::Failed => "Not proved",
            Verdict::Incomplete => "Incomplete",
            Verdict::Unproved => "Nothing proved",
        }
    }

    /// Returns the failed checks.
    fn failing(&self) -> impl Iterator<Item = Failing<'_>> {
        let all = self.summary.scenarios.iter();
        all.flat_map(|one| {
            let scenario = one.scenario.as_str();
            one.failed().map(move |check| Failing { scenario, check, seen: brief(&check.seen) })
        })
    }

    /// Returns the scenarios that failed for another reason than a check, with the reason.
    fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.summary.scenarios.iter().filter_map(|one| Some((one.scenario.as_str(), one.reason()?)))
    }

    fn held(&self) -> usize {
        self.summary.checks().0
    }

    fn checks(&self) -> usize {
        self.summary.checks().1
    }

    fn shots_of<'s>(&'s self, outcome: &'s ScenarioOutcome) -> impl Iterator<Item = &'s Embedded> {
        self.shots.iter().filter(|shot| shot.of == outcome.scenario)
    }

    fn pictures(&self) -> impl Iterator<Item = &Embedded> {
        let is_of = |shot: &&Embedded| {
            !self.summary.scenarios.iter().any(|outcome| outcome.scenario == shot.of)
        };
        self.shots.iter().filter(is_of)
    }

    fn weaker(&self) -> usize {
        self.summary.changed_checks.iter().filter(|one| one.weaker).count()
    }

    fn lines(&self) -> (u64, u64) {
        let sum =
            |of: fn(&ChangedFile) -> Option<u64>| self.summary.files.iter().filter_map(of).sum();
        (sum(|file| file.added), sum(|file| file.removed))
    }
}
