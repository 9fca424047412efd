//! Views of a timeline in the run's folder: one line per record of a kind, for people and tools
//! that want a plain file.
//!
//! They are appended to while the run continues. `views.json` records the valid length of each;
//! anything beyond, left by a writer that died, is truncated before the next line. Deleting
//! `views.json` regenerates all of them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use hothouse_host::{
    files::{self, FileError},
    lock::{Lock, LockError},
};
use hothouse_model::{
    queue::JobState,
    record::{Kind, Record, kind_of_id},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{OWN, ReadError, Reader, derive};

/// A view: its file, and the records it contains.
pub struct View {
    pub file: &'static str,
    shows: fn(&Record) -> bool,
    /// The lines of a record.
    rows: fn(&Record) -> Vec<Value>,
}

const fn view(file: &'static str, shows: fn(&Record) -> bool) -> View {
    View { file, shows, rows: |record| vec![row(record)] }
}

/// Every view.
pub static VIEWS: [View; 6] = [
    view("requests.jsonl", |record| record.kind == Kind::Request),
    view("audit-raw.jsonl", |record| record.kind == Kind::Audit),
    view("webhooks.jsonl", |record| record.kind == Kind::Webhook),
    View { file: "media-requests.jsonl", shows: is_for_media, rows: media_rows },
    view("analytics-events.jsonl", |record| record.kind == Kind::Event),
    view("dead-letters.jsonl", |record| {
        record.kind == Kind::Job && record.body["state"] == JobState::Dead.as_str()
    }),
];

/// The folder with a file for each issue, with its latest state.
const ISSUES: &str = "errors";

/// The maximum number of issue files.
const MOST_ISSUES: usize = 10_000;

const STATE: &str = "views.json";

/// Lists the media on a page, one per line; a request is one line.
fn media_rows(record: &Record) -> Vec<Value> {
    if record.kind != Kind::Browser {
        return vec![row(record)];
    }
    let media = record.body["media"].as_array().into_iter().flatten();
    let rows = media.map(|one| {
        let mut line = one.clone();
        line["page"] = record.body["final_url"].clone();
        line["id"] = json!(record.id);
        line["time"] = json!(record.time);
        line
    });
    rows.collect()
}

/// Returns whether a record is a page with media, or a request whose response was an image, video,
/// audio or font.
fn is_for_media(record: &Record) -> bool {
    if record.kind == Kind::Browser {
        let media = record.body["media"].as_array();
        return media.is_some_and(|media| media.iter().all(Value::is_object));
    }
    if record.kind != Kind::Request {
        return false;
    }
    let headers = record.body["response"]["headers"].as_array();
    let kinds = headers.into_iter().flatten().filter_map(|pair| {
        let is_type = pair[0].as_str()?.eq_ignore_ascii_case("content-type");
        pair[1].as_str().filter(|_| is_type)
    });
    kinds.into_iter().any(is_media)
}

fn is_media(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (family, rest) = kind.split_once('/').unwrap_or((&kind, ""));
    let is_font =
        rest.starts_with("font-") || rest.starts_with("x-font-") || rest == "vnd.ms-fontobject";
    let is_stream = matches!(rest, "vnd.apple.mpegurl" | "x-mpegurl" | "dash+xml");
    matches!(family, "image" | "video" | "audio" | "font")
        || family == "application" && (is_font || is_stream)
}

/// How much of the timeline the views cover.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reach {
    /// The position in the timeline.
    offset: u64,
    /// The length of each file.
    lengths: BTreeMap<String, u64>,
    /// The number of issue files.
    #[serde(default)]
    issues: usize,
}

/// Updates the views of a run.
pub fn write_views(folder: &Path) -> Result<(), ReadError> {
    let length = Reader::open(folder)?.length()?;
    derive::update_views(folder, length)
}

/// Appends records to the views.
pub(crate) struct Writing {
    folder: PathBuf,
    reach: Reach,
    files: Vec<Open>,
    /// The latest event of each issue.
    issues: BTreeMap<String, Record>,
    _lock: Lock,
}

impl Writing {
    /// Opens the views of a run; `None` if another process updates them.
    pub(crate) fn open(folder: &Path, upto: u64) -> Result<Option<Self>, ReadError> {
        let own = folder.join(OWN);
        files::make_private_folder(&own)?;
        let lock = match Lock::try_take(&own.join("views.lock")) {
            Err(LockError::Held { .. }) => return Ok(None),
            Err(LockError::File(error)) => return Err(error.into()),
            Ok(lock) => lock,
        };
        let kept = files::read_text(&own.join(STATE)).ok();
        let kept = kept.and_then(|text| serde_json::from_str(&text).ok());
        let mut reach: Reach = kept.unwrap_or_default();
        if !fits(folder, &reach, upto) {
            reach = Reach::default();
        }
        let files = VIEWS.iter().map(|view| open(folder, view, &reach));
        Ok(Some(Self {
            folder: folder.to_owned(),
            files: files.collect::<Result<_, _>>()?,
            reach,
            issues: BTreeMap::new(),
            _lock: lock,
        }))
    }

    /// Returns how much of the timeline they cover.
    pub(crate) fn end(&self) -> u64 {
        self.reach.offset
    }

    /// Takes the next line, which ends at `end`, and its record if it is one.
    pub(crate) fn take(&mut self, record: Option<Record>, end: u64) -> Result<(), ReadError> {
        self.reach.offset = end;
        let Some(record) = record else { return Ok(()) };
        for (view, file, path) in &mut self.files {
            if (view.shows)(&record) {
                let written = (view.rows)(&record).iter().try_for_each(|row| write(file, row));
                let failed = |source| FileError { attempt: "write", path: path.clone(), source };
                written.map_err(failed)?;
            }
        }
        if record.kind == Kind::Error
            && (self.issues.len() < MOST_ISSUES || self.issues.contains_key(&record.id))
        {
            self.issues.insert(record.id.clone(), record);
        }
        Ok(())
    }

    /// Writes what was taken, and how far it goes.
    pub(crate) fn finish(self) -> Result<(), ReadError> {
        let Self { folder, mut reach, files: open, issues, _lock } = self;
        for (view, mut file, path) in open {
            let failed = |source| FileError { attempt: "write", path: path.clone(), source };
            file.flush().map_err(failed)?;
            let length = file.get_ref().metadata().map_err(failed)?.len();
            reach.lengths.insert(view.file.to_owned(), length);
        }
        reach.issues += write_issues(&folder, issues, MOST_ISSUES.saturating_sub(reach.issues))?;
        let text = serde_json::to_vec(&reach).expect("numbers are JSON");
        Ok(files::write_quick(&folder.join(OWN).join(STATE), &text, 0o600)?)
    }
}

/// Writes a file for each issue that has a new event; returns how many files are new.
fn write_issues(
    folder: &Path,
    issues: BTreeMap<String, Record>,
    most_new: usize,
) -> Result<usize, ReadError> {
    if issues.is_empty() {
        return Ok(0);
    }
    let folder = folder.join(ISSUES);
    files::make_private_folder(&folder)?;
    let mut new = 0;
    for (id, record) in issues.into_iter().filter(|(id, _)| kind_of_id(id) == Some(Kind::Error)) {
        let path = folder.join(format!("{id}.json"));
        let is_new = !files::exists(&path);
        if is_new && new >= most_new {
            continue;
        }
        let text = serde_json::to_vec_pretty(&row(&record)).expect("a value is JSON");
        files::write_quick(&path, &text, 0o600)?;
        new += usize::from(is_new);
    }
    Ok(new)
}

/// Returns whether the timeline and every view are at least as long as recorded.
fn fits(folder: &Path, reach: &Reach, upto: u64) -> bool {
    let is_whole = |view: &View| {
        let length = reach.lengths.get(view.file).copied().unwrap_or(0);
        files::size(&folder.join(view.file)).unwrap_or(0) >= length
    };
    reach.offset <= upto && VIEWS.iter().all(is_whole)
}

/// A view, its file, and where that is.
type Open = (&'static View, BufWriter<File>, PathBuf);

fn open(folder: &Path, view: &'static View, reach: &Reach) -> Result<Open, FileError> {
    let path = folder.join(view.file);
    let file = files::open_append(&path)?;
    let length = reach.lengths.get(view.file).copied().unwrap_or(0);
    let cut = file.set_len(length);
    cut.map_err(|source| FileError { attempt: "cut", path: path.clone(), source })?;
    Ok((view, BufWriter::new(file), path))
}

fn write(file: &mut impl Write, row: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *file, row)?;
    file.write_all(b"\n")
}

/// Converts a record to the JSON that the command for its kind prints: its body, with fields of the
/// envelope.
pub(crate) fn row(record: &Record) -> Value {
    let mut row = record.body.clone();
    row["id"] = json!(record.id);
    row["time"] = json!(record.time);
    row["service"] = json!(record.service);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_known_by_their_type() {
        for media in [
            "image/png",
            "IMAGE/SVG+xml; charset=utf-8",
            "video/mp4",
            "audio/mpeg",
            "font/woff2",
            "application/font-woff",
            "application/vnd.apple.mpegurl",
        ] {
            assert!(is_media(media), "{media}");
        }
        for other in
            ["application/json", "text/html", "", "imagery/png", "application/octet-stream"]
        {
            assert!(!is_media(other), "{other}");
        }
    }
}
