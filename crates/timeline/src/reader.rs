//! Reads a timeline, while it is written or afterwards.

pub(crate) mod lines;

use std::{
    cmp::Reverse,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hothouse_host::files::FileError;
use hothouse_model::{
    Explain, FailureKind,
    config::rules::nearest,
    query::{Near, Query, Since},
    record::{Kind, Record, bodies::MarkBody},
};
use jiff::Timestamp;

use crate::{
    FILE, chain, derive,
    index::{Index, IndexError, Place, Spot},
    writer::Signal,
};
use lines::{Line, next_line};

/// If more bytes than this are not indexed, a reader updates the index first.
const BEHIND: u64 = 2 << 20;

/// How many of the newest records are searched for near misses.
const MISSES: usize = 5000;

/// A timeline could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the timeline has no mark `{name}`")]
    NoMark { name: String, near: Option<String> },
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error.into())
    }
}

impl Explain for ReadError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::File(error) if error.is_not_found() => FailureKind::NotFound,
            Self::File(_) => FailureKind::Host,
            Self::Index(_) => FailureKind::Internal,
            Self::NoMark { .. } => FailureKind::NotFound,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoMark { near: Some(near), .. } => vec![format!("did you mean `{near}`?")],
            Self::NoMark { .. } => vec!["`hothouse timeline --kind mark` lists the marks".into()],
            _ => Vec::new(),
        }
    }
}

/// The order of returned records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// Selects records.
#[derive(Clone, Debug)]
pub struct Selection {
    pub query: Query,
    pub since: Option<Since>,
    /// The current time, to which durations are relative.
    pub now: Timestamp,
    pub limit: usize,
    pub direction: Direction,
}

/// Where a selection starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    pub(crate) after: u64,
    pub(crate) from: Option<Timestamp>,
}

/// Reads the timeline of one run.
pub struct Reader {
    folder: PathBuf,
    file: File,
    signal: Option<Arc<Signal>>,
    index: Mutex<Option<Index>>,
}

impl Reader {
    /// Opens the timeline in a run's folder. If another process is writing it, all complete lines
    /// are visible.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        Self::over(folder, None)
    }

    pub(crate) fn live(folder: &Path, signal: Arc<Signal>) -> Result<Self, ReadError> {
        Self::over(folder, Some(signal))
    }

    fn over(folder: &Path, signal: Option<Arc<Signal>>) -> Result<Self, ReadError> {
        let path = folder.join(FILE);
        let file = File::open(&path).map_err(|source| FileError {
            attempt: "open",
            path: path.clone(),
            source,
        })?;
        Ok(Self { folder: folder.to_owned(), file, signal, index: Mutex::default() })
    }

    pub(crate) fn signal(&self) -> Option<&Arc<Signal>> {
        self.signal.as_ref()
    }

    fn failed(&self, source: io::Error) -> ReadError {
        FileError { attempt: "read", path: self.folder.join(FILE), source }.into()
    }

    /// Returns the readable length of the file.
    pub(crate) fn length(&self) -> Result<u64, ReadError> {
        match &self.signal {
            Some(signal) => Ok(signal.head().offset),
            None => Ok(self.file.metadata().map_err(|error| self.failed(error))?.len()),
        }
    }

    /// Returns the last record.
    pub fn last(&self) -> Result<Option<Record>, ReadError> {
        let length = self.length()?;
        let window = length.min(chain::LINE_LIMIT as u64 * 2);
        let mut bytes = vec![0; usize::try_from(window).expect("a window is small")];
        self.file.read_exact_at(&mut bytes, length - window).map_err(|error| self.failed(error))?;
        Ok(bytes.split(|c| *c == b'\n').rev().find_map(|line| chain::read(line).ok()))
    }

    /// Returns records that match.
    pub fn records(&self, selection: &Selection) -> Result<Vec<Record>, ReadError> {
        let start = self.start(selection.since.as_ref(), selection.now)?;
        let Selection { query, limit, direction, .. } = selection;
        self.select(query, start, *limit, *direction, self.length()?)
    }

    /// Returns the last record with an id.
    pub fn get(&self, id: &str) -> Result<Option<Record>, ReadError> {
        let query = Query::parse(&format!("id=\"{}\"", id.replace(['"', '\\'], "")), None);
        let Ok(query) = query else { return Ok(None) };
        let length = self.length()?;
        let found = self.select(&query, Start::default(), 1, Direction::NewestFirst, length)?;
        Ok(found.into_iter().next())
    }

    /// Returns every mark: its name and its record.
    pub fn marks(&self) -> Result<Vec<(String, Record)>, ReadError> {
        let query = Query::of_kind(Kind::Mark);
        let found = self.select(
            &query,
            Start::default(),
            usize::MAX,
            Direction::OldestFirst,
            self.length()?,
        )?;
        let named = |record: Record| {
            let name = record.body::<MarkBody>().map(|body| body.mark).unwrap_or_default();
            (name, record)
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// Returns the records closest to a query without matches, closest first.
    pub fn nearest(
        &self,
        selection: &Selection,
        count: usize,
    ) -> Result<Vec<(Near, Record)>, ReadError> {
        let start = self.start(selection.since.as_ref(), selection.now)?;
        let all = selection.query.kind().map(Query::of_kind).unwrap_or_default();
        let recent = self.select(&all, start, MISSES, Direction::NewestFirst, self.length()?)?;
        let mut found: Vec<_> = recent
            .into_iter()
            .filter_map(|record| Some((selection.query.near(&record)?, record)))
            .collect();
        found.sort_by_key(|(near, record)| Reverse((near.held, near.present, record.seq)));
        found.truncate(count);
        Ok(found)
    }

    /// Resolves where a selection starts.
    pub(crate) fn start(&self, since: Option<&Since>, now: Timestamp) -> Result<Start, ReadError> {
        Ok(match since {
            None => Start::default(),
            Some(Since::Seq(seq)) => Start { after: *seq, from: None },
            Some(Since::Mark(name)) => Start { after: self.mark(name)?.seq, from: None },
            Some(Since::Moment(from)) => Start { after: 0, from: Some(*from) },
            Some(Since::Span(span)) => {
                let from = now.checked_sub(*span).unwrap_or(Timestamp::MIN);
                Start { after: 0, from: Some(from) }
            }
        })
    }

    /// Returns the last mark with a name.
    pub fn mark(&self, name: &str) -> Result<Record, ReadError> {
        let missing = |reader: &Self| -> Result<ReadError, ReadError> {
            let marks = reader.marks()?;
            let near = nearest(name, marks.iter().map(|(name, _)| name.as_str()));
            Ok(ReadError::NoMark { name: name.to_owned(), near: near.map(str::to_owned) })
        };
        let plain = name.replace(['"', '\\'], "");
        let query = Query::parse(&format!("mark=\"{plain}\""), Some(Kind::Mark));
        let Ok(query) = query else { return Err(missing(self)?) };
        let length = self.length()?;
        let found = self.select(&query, Start::default(), 1, Direction::NewestFirst, length)?;
        match found.into_iter().next() {
            Some(record) if plain == name => Ok(record),
            _ => Err(missing(self)?),
        }
    }

    /// Opens the index, updating it if it is far behind.
    pub(crate) fn index(&self, upto: u64) -> (MutexGuard<'_, Option<Index>>, Place) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let place = |index: &Option<Index>| {
            index.as_ref().and_then(|index| index.place().ok()).unwrap_or_default()
        };
        if index.is_none() {
            *index = Index::open(&self.folder, &self.file);
        }
        if upto.saturating_sub(place(&index).offset) > BEHIND {
            // An index of another process may not fit; if it cannot be written, do without.
            *index = None;
            derive::update_index(&self.folder, upto).ok();
            *index = Index::open(&self.folder, &self.file);
        }
        let mut reach = place(&index);
        if reach.offset > upto {
            // The index covers more than is readable, so the file was truncated.
            *index = None;
            reach = Place::default();
        }
        (index, reach)
    }

    /// Selects records from the file up to a length.
    pub(crate) fn select(
        &self,
        query: &Query,
        start: Start,
        limit: usize,
        direction: Direction,
        upto: u64,
    ) -> Result<Vec<Record>, ReadError> {
        let wanted = |record: &Record| {
            record.seq > start.after
                && start.from.is_none_or(|from| record.time >= from)
                && query.matches(record)
        };
        let (index, reach) = self.index(upto);
        let mut found = Vec::new();
        let newest = direction == Direction::NewestFirst;
        if newest {
            // The unindexed end is read forwards, so surplus records are at its beginning.
            self.scan(reach.offset, upto, &mut |record| {
                if wanted(&record) {
                    found.push(record);
                }
                true
            })?;
            found.reverse();
            found.truncate(limit);
        }
        if let Some(index) = index.as_ref().filter(|_| found.len() < limit) {
            let mut visit = |spot: Spot| {
                found.extend(self.at(spot).filter(&wanted));
                found.len() < limit
            };
            walk(index, query, start, newest, &mut visit)?;
        }
        if !newest && found.len() < limit {
            self.scan(reach.offset, upto, &mut |record| {
                if wanted(&record) {
                    found.push(record);
                }
                found.len() < limit
            })?;
        }
        Ok(found)
    }

    /// Reads one record; `None` if it is not where the index says.
    fn at(&self, spot: Spot) -> Option<Record> {
        let mut line = vec![0; spot.length];
        self.file.read_exact_at(&mut line, spot.offset).ok()?;
        chain::read(&line).ok()
    }

    /// Reads the records of a part of the file until the visitor stops; returns where the last line
    /// ends. Lines that are not records are skipped: `verify` reports them.
    pub(crate) fn scan(
        &self,
        from: u64,
        upto: u64,
        visit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<u64, ReadError> {
        if from >= upto {
            return Ok(from);
        }
        // A separate descriptor, because the position of a shared one is shared too.
        let path = self.folder.join(FILE);
        let mut file = File::open(path).map_err(|error| self.failed(error))?;
        file.seek(SeekFrom::Start(from)).map_err(|error| self.failed(error))?;
        let mut reader = BufReader::with_capacity(1 << 16, file.take(upto - from));
        let (mut line, mut at) = (Vec::new(), from);
        while let Line::Whole =
            next_line(&mut reader, &mut line).map_err(|error| self.failed(error))?
        {
            at += line.len() as u64 + 1;
            if let Ok(record) = chain::read(&line)
                && !visit(record)
            {
                break;
            }
        }
        Ok(at)
    }
}

/// Visits indexed records, in order.
fn walk(
    index: &Index,
    query: &Query,
    start: Start,
    newest: bool,
    visit: &mut dyn FnMut(Spot) -> bool,
) -> Result<(), ReadError> {
    let mut after = start.after;
    if let Some(from) = start.from {
        let Some(first) = index.first_from(from)? else { return Ok(()) };
        after = after.max(first.saturating_sub(1));
    }
    let Some(mut seqs) = index.candidates(query, after)? else {
        return Ok(index.spots(after, newest, visit)?);
    };
    if newest {
        seqs.reverse();
    }
    for seq in seqs {
        if let Some(spot) = index.spot(seq)?
            && !visit(spot)
        {
            break;
        }
    }
    Ok(())
}
