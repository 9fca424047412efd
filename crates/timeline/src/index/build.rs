//! Builds an index from the file.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};

use hothouse_host::{
    files::{self, FileError},
    lock::{Lock, LockError},
};
use hothouse_model::record::{Record, fields};
use rusqlite::{Connection, params};

use super::{INDEX, Index, IndexError, PARTIAL, Place, SCHEMA, VERSION, postings, signed};
use crate::{FILE, OWN, chain};

/// The maximum number of records in one transaction, and of their bytes.
const BATCH: usize = 4096;
const BATCH_BYTES: u64 = 8 << 20;

/// The maximum number of indexed values of a record, and the maximum length of each.
const LEAVES: usize = 64;
const LONGEST: usize = 512;

/// Adds records to an index, in the order of the file. What is not committed is lost with it.
pub(crate) struct Builder {
    folder: PathBuf,
    index: Index,
    place: Place,
    /// The last record.
    hash: Option<chain::Hash>,
    found: Found,
    /// How many lines the transaction has, and where it began.
    taken: usize,
    begun: u64,
    _lock: Lock,
}

impl Builder {
    /// Opens the index of a run, recreating it if it does not fit; `None` if another process updates
    /// it.
    pub(crate) fn open(folder: &Path) -> Result<Option<Self>, IndexError> {
        let own = folder.join(OWN);
        files::make_private_folder(&own)?;
        let lock = match Lock::try_take(&own.join("index.lock")) {
            Err(LockError::Held { .. }) => return Ok(None),
            other => other?,
        };
        let file = folder.join(FILE);
        let failed = |source| FileError { attempt: "read", path: file.clone(), source };
        let index = match Index::open(folder, &File::open(&file).map_err(failed)?) {
            Some(index) => index,
            None => make(folder)?,
        };
        tune(&index.sql)?;
        let place = index.place()?;
        Ok(Some(Self {
            folder: folder.to_owned(),
            index,
            place,
            hash: None,
            found: Found::default(),
            taken: 0,
            begun: place.offset,
            _lock: lock,
        }))
    }

    /// Returns how much of the file it covers.
    pub(crate) fn end(&self) -> u64 {
        self.place.offset
    }

    /// Takes the next line, and its record if it is one.
    pub(crate) fn take(
        &mut self,
        record: Option<&Record>,
        length: usize,
    ) -> Result<(), IndexError> {
        if self.taken == 0 {
            self.index.sql.execute_batch("BEGIN IMMEDIATE")?;
        }
        self.taken += 1;
        if let Some(record) = record {
            insert(&self.index.sql, record, self.place.offset, length)?;
            self.found.add(record);
            self.place.seq = record.seq;
            self.hash = chain::parse_hash(&record.hash);
        }
        self.place.offset += length as u64 + 1;
        if self.taken == BATCH || self.place.offset - self.begun > BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    /// Writes what was taken.
    pub(crate) fn commit(&mut self) -> Result<(), IndexError> {
        if self.taken == 0 {
            return Ok(());
        }
        let sql = &self.index.sql;
        std::mem::take(&mut self.found).write(sql)?;
        let put = "INSERT OR REPLACE INTO place VALUES (1, ?1, ?2, ?3)";
        let Place { seq, offset } = self.place;
        sql.execute(put, params![signed(seq), signed(offset), self.hash])?;
        sql.execute_batch("COMMIT")?;
        (self.taken, self.begun) = (0, offset);
        Ok(())
    }

    /// Removes a damaged index.
    pub(crate) fn remove(self) -> Result<(), FileError> {
        let Self { folder, index, _lock, .. } = self;
        drop(index);
        remove(&folder)
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

/// Tunes a connection. With WAL and `NORMAL`, a power cut leaves an older index, never a broken one.
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

fn insert(sql: &Connection, record: &Record, offset: u64, length: usize) -> rusqlite::Result<()> {
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

/// The values of a batch with their records.
#[derive(Default)]
struct Found {
    fields: HashMap<String, HashMap<String, Vec<u64>>>,
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
            self.fields.insert(field.to_owned(), HashMap::new());
        }
        let values = self.fields.get_mut(field).expect("it was just put in");
        match values.get_mut(text) {
            // Numbers increase in an unmodified file, and the encoding requires it.
            Some(seqs) if seqs.last().is_some_and(|last| *last >= seq) => {}
            Some(seqs) => seqs.push(seq),
            None => drop(values.insert(text.to_owned(), vec![seq])),
        }
    }

    /// Writes all values, sorted so that tables grow at their ends.
    fn write(self, sql: &Connection) -> rusqlite::Result<()> {
        let same = "ON CONFLICT DO UPDATE SET id = id RETURNING id";
        let mut field =
            sql.prepare_cached(&format!("INSERT INTO field (name) VALUES (?1) {same}"))?;
        let mut value =
            sql.prepare_cached(&format!("INSERT INTO value (field, text) VALUES (?1, ?2) {same}"))?;
        let mut posting =
            sql.prepare_cached("INSERT OR REPLACE INTO posting VALUES (?1, ?2, ?3)")?;
        for (name, values) in &self.fields {
            let field: i64 = field.query_row([name], |row| row.get(0))?;
            let mut values: Vec<(&String, &Vec<u64>)> = values.iter().collect();
            values.sort_unstable();
            for (text, seqs) in values {
                let value: i64 = value.query_row(params![field, text], |row| row.get(0))?;
                posting.execute(params![value, signed(seqs[0]), postings::pack(seqs)])?;
            }
        }
        Ok(())
    }
}
