//! The files of a proof in the folder of a run. The folder may be a copy from elsewhere, so no link
//! in it is followed and nothing is trusted.

use std::path::Path;

use hothouse_evidence::{
    outcome::{self, ScenarioOutcome},
    summary::{self, MailShown, PageInput, Shot, Summary},
};
use hothouse_host::{FileError, beneath::Folder, files};
use hothouse_model::{
    Explain, Failure, FailureKind,
    record::{Kind, Record, bodies::MailBody},
};
use hothouse_timeline::{FILE, LINE_LIMIT, digest};

use crate::timelines::RunPlace;

/// The maximum size of a file that is shown or hashed.
pub(super) const FILE_LIMIT: u64 = 32 << 20;

/// The maximum size of a timeline that is read at once.
const TIMELINE_LIMIT: u64 = 1 << 30;

/// The maximum number of outcomes.
const OUTCOMES: usize = 256;

/// The folder for images of differences.
pub(super) const PICTURES: &str = "compare";

/// Writes the outcome of a scenario.
pub(super) fn write_outcome(folder: &Path, outcome: &ScenarioOutcome) -> Result<(), Failure> {
    let below = folder.join(outcome::FOLDER);
    files::make_private_folder(&below).map_err(|error| error.failure())?;
    let text = serde_json::to_vec_pretty(outcome).expect("an outcome has text as keys");
    let path = below.join(format!("{}.json", outcome.scenario));
    files::replace(&path, &text, 0o600).map_err(|error| error.failure())
}

/// Reads the outcomes of a run's scenarios, in the order in which they started.
pub(super) fn outcomes(folder: &Folder) -> Vec<ScenarioOutcome> {
    let below = Path::new(outcome::FOLDER);
    let names = folder.list(below).unwrap_or_default();
    let read = |name: &std::ffi::OsStr| {
        let bytes = folder.read_capped(&below.join(name), FILE_LIMIT).ok()?;
        serde_json::from_slice::<ScenarioOutcome>(&bytes).ok()
    };
    let mut all: Vec<ScenarioOutcome> =
        names.iter().take(OUTCOMES).filter_map(|entry| read(entry.name.as_ref())).collect();
    all.sort_by_key(|outcome| (outcome.mark, outcome.started));
    all
}

/// Reads the outcomes of a run's scenarios, if it has any.
pub fn outcomes_of(place: &RunPlace) -> Vec<ScenarioOutcome> {
    Folder::open(&place.folder).map(|folder| outcomes(&folder)).unwrap_or_default()
}

/// Reads the records of a run without an index, which only its writer may update.
pub(super) fn records(folder: &Folder) -> Result<Vec<Record>, Failure> {
    let bytes =
        folder.read_capped(Path::new(FILE), TIMELINE_LIMIT).map_err(|error| no_timeline(&error))?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.filter(|line| line.len() <= LINE_LIMIT);
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn no_timeline(error: &FileError) -> Failure {
    let kind = if error.is_not_found() { FailureKind::NotFound } else { FailureKind::Host };
    Failure::of(kind, error).hint("the folder of a run has `timeline.jsonl` and `summary.json`")
}

/// Reads a regular file below the folder.
pub(super) fn read(folder: &Folder, path: &str) -> Option<Vec<u8>> {
    folder.read_capped(Path::new(path), FILE_LIMIT).ok()
}

/// Lists the files besides the timeline that a summary depends on.
pub(super) fn evidence(outcomes: &[ScenarioOutcome], records: &[&Record]) -> Vec<String> {
    let shots = outcomes.iter().filter_map(|one| one.page.as_ref());
    let mut all: Vec<String> = shots.flat_map(|page| page.screenshots.iter().cloned()).collect();
    for record in records.iter().filter(|record| record.kind == Kind::Mail) {
        let Ok(mail) = record.body::<MailBody>() else { continue };
        let files = mail.files;
        all.extend([files.eml, files.html, files.text, files.json].into_iter().flatten());
    }
    all.sort();
    all.dedup();
    all
}

/// Whether a record of the run has the hash of a summary.
pub(super) fn is_sealed(summary: &Summary, records: &[Record]) -> bool {
    summary::seal_of(records) == Some(digest(&summary::sealed(summary)))
}

/// Renders the two texts of a summary, only from the summary and the folder.
pub(super) fn render(folder: &Folder, summary: &Summary, records: &[Record]) -> (String, String) {
    let shown = summary::of_scenarios(&summary.scenarios, records);
    let input = PageInput {
        summary,
        records: &shown,
        shots: &shots(folder, summary),
        mails: &mails(folder, &shown),
    };
    (summary::markdown(summary), summary::page(&input))
}

fn shots(folder: &Folder, summary: &Summary) -> Vec<Shot> {
    let mut all = Vec::new();
    for outcome in &summary.scenarios {
        for file in outcome.page.iter().flat_map(|page| &page.screenshots) {
            let bytes = read(folder, file).unwrap_or_default();
            all.push(Shot { of: outcome.scenario.clone(), file: file.clone(), bytes });
        }
    }
    let differences = summary.comparison.iter().flat_map(|one| &one.differences);
    for (one, picture) in differences.filter_map(|one| Some((one, one.picture.as_ref()?))) {
        let file = format!("{PICTURES}/{picture}");
        let bytes = read(folder, &file).unwrap_or_default();
        all.push(Shot { of: format!("{}: what differs is red", one.what), file, bytes });
    }
    all
}

fn mails(folder: &Folder, records: &[&Record]) -> Vec<MailShown> {
    let mails = records.iter().filter(|record| record.kind == Kind::Mail);
    let shown = mails.filter_map(|record| {
        let mail: MailBody = record.body().ok()?;
        let text = |file: &Option<String>| {
            let bytes = read(folder, file.as_deref()?)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        Some(MailShown {
            id: record.id.clone(),
            page: text(&mail.files.html),
            text: text(&mail.files.text).or(mail.text),
            subject: mail.subject,
            from: mail.from,
            to: mail.to.join(", "),
        })
    });
    shown.collect()
}
