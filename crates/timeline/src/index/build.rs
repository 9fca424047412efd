//! Builds an index from the file.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use hothouse_host::{
    files::{self, FileError},
    lock::{Lock, LockError},
};
use hothouse_model::record::{Record, fields};
use rusqlite::{Connection, Transaction, params};

use super::{INDEX, Index, IndexError, PARTIAL, Place, SCHEMA, VERSION, postings, signed};
use crate::{
    OWN, chain,
    reader::lines::{Line, next_line},
};

/// The maximum number of records in one transaction, and of their bytes.
const BATCH: usize = 4096;
const BATCH_BYTES: u64 = 8 << 20;

/// The maximum number of indexed values of a record, and the maximum length of each.
const LEAVES: usize = 64;
const LONGEST: usize = 512;

pub(super) fn catch_up(folder: &Path, file: &Path, upto: u64) -> Result<(), IndexError> {
    let own = folder.join(OWN);
    files::make_private_folder(&own)?;
    let _lock = match Lock::try_take(&own.join("index.lock")) {
        // Another process is updating it.
        Err(LockError::Held { .. }) => return Ok(()),
        other => other?,
    };
    let failed = |source| FileError { attempt: "read", path: file.to_owned(), source };
    let mut read = File::open(file).map_err(failed)?;
    let mut index = match Index::open(folder, &read) {
        Some(index) => index,
        None => make(folder)?,
    };
    tune(&index.sql)?;
    let mut place = index.place()?;
    read.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
    let left = upto.saturating_sub(place.offset);
    let mut lines = BufReader::with_capacity(1 << 18, read.take(left));
    loop {
        let taken = batch(&mut index.sql, &mut lines, &mut place, &failed);
        match taken {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // A damaged index is useless: remove it, and the next one starts from scratch.
                drop(index);
                remove(folder)?;
                return Err(error);
            }
        }
    }
}

/// Creates an empty index, replacing any existing one.
fn make(folder: &Path) -> Result<Index, IndexError> {
    remove(folder)?;
    let sql = Connection::open(super::path(folder))?;
    sql.execute_batch("PRAGMA journal_mode = WAL")?;
    sql.execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"))?;
    Ok(Index { sql })
}

/// With WAL and `NORMAL`, a power cut leaves an older index, never a broken one.
fn tune(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192;")?;
    sql.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn remove(folder: &Path) -> Result<(), FileError> {
    ["", "-wal", "-shm", "-journal"]
        .iter()
        .try_for_each(|end| files::remove_file(&folder.join(OWN).join(format!("{INDEX}{end}"))))
}

/// Indexes one batch; returns whether there may be more.
fn batch(
    sql: &mut Connection,
    lines: &mut impl std::io::BufRead,
    place: &mut Place,
    failed: &dyn Fn(std::io::Error) -> FileError,
) -> Result<bool, IndexError> {
    let transaction = sql.transaction()?;
    let mut found = Found::default();
    let (mut line, mut taken, begun) = (Vec::new(), 0, place.offset);
    let mut hash = None;
    let more = loop {
        if taken == BATCH || place.offset - begun > BATCH_BYTES {
            break true;
        }
        match next_line(lines, &mut line).map_err(failed)? {
            Line::Whole => {}
            // Readers scan the rest, until the file is repaired.
            Line::Torn(_) | Line::Long => break false,
        }
        taken += 1;
        if let Ok(record) = chain::read(&line) {
            insert(&transaction, &record, place.offset, line.len())?;
            found.add(&record);
            place.seq = record.seq;
            hash = chain::parse_hash(&record.hash);
        }
        place.offset += line.len() as u64 + 1;
    };
    if taken > 0 {
        found.write(&transaction)?;
        let put = "INSERT OR REPLACE INTO place VALUES (1, ?1, ?2, ?3)";
        transaction.execute(put, params![signed(place.seq), signed(place.offset), hash])?;
        transaction.commit()?;
    }
    Ok(more)
}

fn insert(
    sql: &Transaction<'_>,
    record: &Record,
    offset: u64,
    length: usize,
) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO record VALUES (?1, ?2, ?3, ?4, ?5)";
    let (seq, time) = (signed(record.seq), record.time.as_microsecond());
    sql.prepare_cached(put)?.execute(params![
        seq,
        signed(offset),
        signed(length as u64),
        time,
        record.id
    ])?;
    Ok(())
}

/// The values of a batch with their records, sorted so that tables grow at their ends.
#[derive(Default)]
struct Found {
    fields: HashMap<String, BTreeMap<String, Vec<u64>>>,
}

impl Found {
    fn add(&mut self, record: &Record) {
        let (mut count, mut partial) = (0, false);
        fields::leaves(record, &mut |field, text| {
            count += 1;
            if count > LEAVES || text.len() > LONGEST || field.len() > LONGEST {
                partial = true;
            } else {
                self.put(field, text, record.seq);
            }
        });
        if partial {
            self.put(PARTIAL, "", record.seq);
        }
    }

    fn put(&mut self, field: &str, text: &str, seq: u64) {
        if !self.fields.contains_key(field) {
            self.fields.insert(field.to_owned(), BTreeMap::new());
        }
        let values = self.fields.get_mut(field).expect("it was just put in");
        match values.get_mut(text) {
            // Numbers increase in an unmodified file, and the encoding requires it.
            Some(seqs) if seqs.last().is_some_and(|last| *last >= seq) => {}
            Some(seqs) => seqs.push(seq),
            None => drop(values.insert(text.to_owned(), vec![seq])),
        }
    }

    fn write(&self, sql: &Transaction<'_>) -> rusqlite::Result<()> {
        let same = "ON CONFLICT DO UPDATE SET id = id RETURNING id";
        let mut field =
            sql.prepare_cached(&format!("INSERT INTO field (name) VALUES (?1) {same}"))?;
        let mut value =
            sql.prepare_cached(&format!("INSERT INTO value (field, text) VALUES (?1, ?2) {same}"))?;
        let mut posting =
            sql.prepare_cached("INSERT OR REPLACE INTO posting VALUES (?1, ?2, ?3)")?;
        for (name, values) in &self.fields {
            let field: i64 = field.query_row([name], |row| row.get(0))?;
            for (text, seqs) in values {
                let value: i64 = value.query_row(params![field, text], |row| row.get(0))?;
                posting.execute(params![value, signed(seqs[0]), postings::pack(seqs)])?;
            }
        }
        Ok(())
    }
}
