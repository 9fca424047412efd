//! The ledger of one sandbox: JSON lines in two files used alternately, so that its size is
//! bounded.

use std::{
    collections::HashMap,
    fmt,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hothouse_host::{FileError, files, random};
use hothouse_model::{id::hex, ledger::LedgerRecord};

const FILE: &str = "egress.jsonl";
const OLDER: &str = "egress.1.jsonl";
/// The size limit of one file.
const FILE_LIMIT: u64 = 8 << 20;

/// Receives a copy of every record, for more permanent storage. It must not block.
#[derive(Clone)]
pub struct Mirror(pub Arc<dyn Fn(&LedgerRecord) + Send + Sync>);

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mirror")
    }
}

/// The ledger, open for writing.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    mirror: Option<Mirror>,
    /// Held open so that no other folder gets its inode.
    held: File,
    state: Mutex<State>,
    /// Records that could not be written, most likely because the disk is full.
    lost: AtomicU64,
}

#[derive(Debug)]
struct State {
    file: Option<File>,
    length: u64,
    seq: u64,
}

impl Ledger {
    /// Opens the ledger in a folder, creating it if necessary.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        files::make_private_folder(folder)?;
        let last = [FILE, OLDER].iter().find_map(|name| last_seq(&folder.join(name)));
        let seq = last.unwrap_or_else(|| {
            // The last record is longer than what was searched, or there is none.
            read(folder).iter().map(|record| record.seq).max().unwrap_or(0)
        });
        let state = State { file: None, length: 0, seq };
        let about = |source| FileError { attempt: "open", path: folder.to_owned(), source };
        let held = File::open(folder).map_err(about)?;
        let (state, lost) = (Mutex::new(state), AtomicU64::new(0));
        Ok(Self { folder: folder.to_owned(), mirror: None, held, state, lost })
    }

    /// Sends a copy of every record to a mirror.
    pub fn mirrored(self, mirror: Mirror) -> Self {
        Self { mirror: Some(mirror), ..self }
    }

    /// Returns whether its folder is still at its path: a new sandbox with the same name may have
    /// replaced a deleted one whose last connections are still being recorded.
    pub fn is_current(&self) -> bool {
        let now = std::fs::symlink_metadata(&self.folder).map(|stat| (stat.dev(), stat.ino()));
        let own = self.held.metadata().map(|stat| (stat.dev(), stat.ino()));
        matches!((now, own), (Ok(now), Ok(own)) if now == own)
    }

    /// Writes a record, assigning its number. Failures are counted.
    pub fn append(&self, record: &mut LedgerRecord) {
        self.write_down(record);
        if let Some(Mirror(mirror)) = &self.mirror {
            mirror(record);
        }
    }

    fn write_down(&self, record: &mut LedgerRecord) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seq += 1;
        record.seq = state.seq;
        let Ok(mut line) = serde_json::to_vec(record) else { return };
        line.push(b'\n');
        if self.write(&mut state, &line).is_err() {
            // Reopened for the next record: the disk may have free space by then.
            state.file = None;
            if self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::error!(folder = %self.folder.display(), "the ledger cannot be written");
            }
        }
    }

    /// Returns a path in the folder that was opened, whatever is at its path by now.
    fn own(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.held.as_raw_fd().to_string()).join(name)
    }

    fn write(&self, state: &mut State, line: &[u8]) -> std::io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if state.file.is_some() && state.length.saturating_add(length) > FILE_LIMIT {
            std::fs::rename(self.own(FILE), self.own(OLDER))?;
            state.file = None;
        }
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                let path = self.own(FILE);
                let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
                state.length = file.metadata()?.len();
                // Start a new line, in case a crash cut off the last one.
                let mut file = file;
                if state.length > 0 {
                    file.write_all(b"\n")?;
                }
                state.file.insert(file)
            }
        };
        file.write_all(line)?;
        state.length += length;
        Ok(())
    }
}

/// How much of a file's end is searched for its last record.
const TAIL: u64 = 256 << 10;

/// Returns the number of the last record of a file.
fn last_seq(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| Some(serde_json::from_slice::<LedgerRecord>(line).ok()?.seq))
}

/// Generates an id for a record.
pub fn record_id() -> String {
    format!("eg_{}", hex(&random::bytes::<5>()))
}

/// Reads the ledger in a folder, oldest first, with the last record of each attempt.
pub fn read(folder: &Path) -> Vec<LedgerRecord> {
    let mut found: Vec<LedgerRecord> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for name in [OLDER, FILE] {
        let Ok(bytes) = files::read_capped(&folder.join(name), 2 * FILE_LIMIT) else { continue };
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<LedgerRecord>(line) else { continue };
            match places.get(&record.id) {
                Some(at) => found[*at] = record,
                None => {
                    places.insert(record.id.clone(), found.len());
                    found.push(record);
                }
            }
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use hothouse_model::ledger::AttemptKind;

    use super::*;

    pub(crate) fn record(id: &str, open: bool) -> LedgerRecord {
        LedgerRecord {
            seq: 0,
            id: id.into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            run: "run_1".into(),
            kind: AttemptKind::Connection,
            allowed: true,
            rule: "mode = \"web\"".into(),
            code: None,
            reason: None,
            host: Some("a.example".into()),
            address: None,
            port: Some(443),
            protocol: None,
            sent: 0,
            received: 0,
            duration_ms: 0,
            process: None,
            open,
            inspected: false,
            error: None,
            request: None,
            bodies: None,
        }
    }

    #[test]
    fn the_last_word_on_an_attempt_counts_and_numbers_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        ledger.append(&mut record("a", true));
        ledger.append(&mut record("b", true));
        ledger.append(&mut record("a", false));
        let shown = |records: Vec<LedgerRecord>| {
            records.iter().map(|r| format!("{}{}{}", r.seq, r.id, r.open)).collect::<Vec<_>>()
        };
        assert_eq!(shown(read(folder.path())), ["3afalse", "2btrue"]);
        drop(ledger);
        // A crash in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(folder.path().join(FILE)).unwrap();
        file.write_all(b"{\"seq\":").unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        ledger.append(&mut record("c", false));
        assert_eq!(shown(read(folder.path())), ["3afalse", "2btrue", "4cfalse"]);
    }

    #[test]
    fn a_ledger_whose_folder_was_replaced_is_not_taken_for_the_new_one() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("a");
        let (old, unused) = (Ledger::open(&folder).unwrap(), Ledger::open(&folder).unwrap());
        old.append(&mut record("old", false));
        assert!(old.is_current());
        files::remove_tree(&folder).unwrap();
        assert!(!old.is_current());
        let new = Ledger::open(&folder).unwrap();
        assert!(!old.is_current() && new.is_current());
        // Records of the old ledger are discarded.
        old.append(&mut record("late", false));
        unused.append(&mut record("first", false));
        new.append(&mut record("new", false));
        let ids: Vec<_> = read(&folder).into_iter().map(|record| (record.seq, record.id)).collect();
        assert_eq!(ids, [(1, "new".to_owned())]);
    }

    #[test]
    fn a_flood_does_not_grow_the_ledger_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let mut large = record("x", false);
        large.host = Some("h".repeat(250));
        large.error = Some("e".repeat(60_000));
        for number in 0..400 {
            large.id = format!("x{number}");
            ledger.append(&mut large);
        }
        let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(size(FILE) <= FILE_LIMIT && size(OLDER) <= FILE_LIMIT);
        assert_eq!(read(folder.path()).last().unwrap().seq, 400);
    }
}
