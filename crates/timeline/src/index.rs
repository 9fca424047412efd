//! The index of a timeline: finds candidate records without reading the whole file.
//!
//! It is derived from the file, written after it by the process that holds its lock, and never
//! trusted over it: each candidate is read from the file and matched again, records beyond the
//! index are scanned, and an index that does not fit the file is recreated.
//!
//! Values are stored once per field (`value`), with the numbers of their records as delta-encoded
//! lists (`posting`). A term with `:` or `~` is thus tested once per distinct value, not once per
//! record.

mod build;
pub(crate) mod postings;

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use hothouse_host::{files::FileError, lock::LockError};
use hothouse_model::{
    query::{Query, Term},
    record::{Kind, fields},
};
use rusqlite::{Connection, OptionalExtension, params};

pub(crate) use self::build::Builder;
use crate::{OWN, chain};

const INDEX: &str = "index.sqlite";

/// Incremented with the schema: an index of another version is recreated.
const VERSION: i64 = 1;

/// Marks records with more or longer values than are indexed.
const PARTIAL: &str = "\u{0}partial";

/// A term that matches more values than this is not looked up, only matched against records.
const VALUES: usize = 4096;

const SCHEMA: &str = "
    CREATE TABLE place (one INTEGER PRIMARY KEY, seq INTEGER, offset INTEGER, hash BLOB);
    CREATE TABLE record (seq INTEGER PRIMARY KEY, offset INTEGER, length INTEGER, time INTEGER, id TEXT);
    CREATE INDEX record_id ON record (id);
    CREATE INDEX record_time ON record (time);
    CREATE TABLE field (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE value (id INTEGER PRIMARY KEY, field INTEGER, text TEXT, UNIQUE (field, text));
    CREATE TABLE posting (value INTEGER, first INTEGER, seqs BLOB, PRIMARY KEY (value, first)) WITHOUT ROWID;
";

/// An index operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("use the index of the timeline")]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// How much of the file an index covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) offset: u64,
}

/// The location of a record in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

/// An open index.
pub(crate) struct Index {
    sql: Connection,
}

fn path(folder: &Path) -> PathBuf {
    folder.join(OWN).join(INDEX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Index {
    /// Opens an existing index, if it fits the file.
    pub(crate) fn open(folder: &Path, file: &File) -> Option<Self> {
        let found = path(folder);
        if !hothouse_host::files::exists(&found) {
            return None;
        }
        let sql = Connection::open(&found).ok()?;
        sql.busy_timeout(std::time::Duration::from_secs(5)).ok()?;
        let index = Self { sql };
        index.fits(file).then_some(index)
    }

    /// Returns whether the last indexed record is where the index says.
    fn fits(&self, file: &File) -> bool {
        let version = self.sql.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        let Ok(place) = self.place() else { return false };
        if version.ok() != Some(VERSION) {
            return false;
        }
        if place == Place::default() {
            return true;
        }
        let Ok(Some(spot)) = self.spot(place.seq) else { return false };
        let mut line = vec![0; spot.length];
        file.read_exact_at(&mut line, spot.offset).is_ok()
            && spot.offset + spot.length as u64 + 1 == place.offset
            && chain::check(&line)
                .is_ok_and(|link| link.seq == place.seq && self.ends_with(&link.hash))
    }

    fn ends_with(&self, hash: &chain::Hash) -> bool {
        let kept = self.sql.query_row("SELECT hash FROM place", [], |row| row.get::<_, Vec<u8>>(0));
        kept.is_ok_and(|kept| kept == hash)
    }

    /// Returns how much of the file it covers.
    pub(crate) fn place(&self) -> rusqlite::Result<Place> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Place { seq: unsigned(row.get(0)?), offset: unsigned(row.get(1)?) })
        };
        let found = self.sql.query_row("SELECT seq, offset FROM place", [], read).optional()?;
        Ok(found.unwrap_or_default())
    }

    /// Returns the location of a record.
    pub(crate) fn spot(&self, seq: u64) -> rusqlite::Result<Option<Spot>> {
        let mut found =
            self.sql.prepare_cached("SELECT offset, length FROM record WHERE seq = ?1")?;
        found.query_row([signed(seq)], read_spot).optional()
    }

    /// Lists the numbers of records with an id.
    pub(crate) fn by_id(&self, id: &str) -> rusqlite::Result<Vec<u64>> {
        let mut found =
            self.sql.prepare_cached("SELECT seq FROM record WHERE id = ?1 ORDER BY seq")?;
        found.query_map([id], |row| Ok(unsigned(row.get(0)?)))?.collect()
    }

    /// Lists the ids with a prefix, which ends in `_`, and the number of the first record of each.
    pub(crate) fn first_of_ids(&self, prefix: &str) -> rusqlite::Result<Vec<(String, u64)>> {
        // The character after `_`.
        let end = format!("{}`", prefix.trim_end_matches('_'));
        let mut found = self.sql.prepare_cached(
            "SELECT id, min(seq) FROM record WHERE id >= ?1 AND id < ?2 GROUP BY id",
        )?;
        let rows = found.query_map([prefix, &end], |row| Ok((row.get(0)?, unsigned(row.get(1)?))));
        rows?.collect()
    }

    /// Returns the number of the first record at or after a time.
    pub(crate) fn first_from(&self, time: jiff::Timestamp) -> rusqlite::Result<Option<u64>> {
        let found = "SELECT min(seq) FROM record WHERE time >= ?1";
        let seq: Option<i64> =
            self.sql.query_row(found, [time.as_microsecond()], |row| row.get(0))?;
        Ok(seq.map(unsigned))
    }

    /// Returns the numbers of records after `after` that may match, in order; `None` if all may.
    pub(crate) fn candidates(
        &self,
        query: &Query,
        after: u64,
    ) -> rusqlite::Result<Option<Vec<u64>>> {
        let mut found: Option<Vec<u64>> = None;
        let mut meet = |list: Vec<u64>| {
            found = Some(match found.take() {
                Some(other) => postings::intersect(&other, &list),
                None => list,
            });
        };
        if let Some(kind) = query.kind() {
            meet(self.of_kind(kind, after)?);
        }
        for term in query.terms().iter().filter(|term| !term.is_negated()) {
            match (term.field().as_ref(), term.exact()) {
                ("id", Some(id)) => meet(postings::beyond(self.by_id(id)?, after)),
                (field, _) if fields::is_listed(field) => {
                    if let Some(list) = self.of_term(term, after)? {
                        meet(list);
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Lists the records of a kind.
    pub(crate) fn of_kind(&self, kind: Kind, after: u64) -> rusqlite::Result<Vec<u64>> {
        self.having("kind", kind.as_str(), after)
    }

    /// Lists the records that have exactly this value in a field.
    pub(crate) fn having(&self, field: &str, text: &str, after: u64) -> rusqlite::Result<Vec<u64>> {
        self.seqs(&self.values(field, &|_| true, Some(text))?, after)
    }

    fn of_term(&self, term: &Term, after: u64) -> rusqlite::Result<Option<Vec<u64>>> {
        let mut values = self.values(&term.field(), &|text| term.fits(text), term.exact())?;
        if values.len() > VALUES {
            return Ok(None);
        }
        values.extend(self.values(&term.field(), &|_| true, Some(fields::COMPOUND))?);
        values.extend(self.values(PARTIAL, &|_| true, Some(""))?);
        Ok(Some(self.seqs(&values, after)?))
    }

    /// Lists the ids and texts of a field's values.
    pub(crate) fn texts(&self, field: &str) -> rusqlite::Result<Vec<(i64, String)>> {
        let found =
            "SELECT value.id, text FROM value JOIN field ON field.id = value.field WHERE name = ?1";
        let mut found = self.sql.prepare_cached(found)?;
        found.query_map([field], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Lists the values of a field that match; with `exact`, at most that one.
    fn values(
        &self,
        field: &str,
        fits: &dyn Fn(&str) -> bool,
        exact: Option<&str>,
    ) -> rusqlite::Result<Vec<i64>> {
        let field = self
            .sql
            .query_row("SELECT id FROM field WHERE name = ?1", [field], |row| row.get::<_, i64>(0));
        let Some(field) = field.optional()? else { return Ok(Vec::new()) };
        if let Some(text) = exact {
            let mut found =
                self.sql.prepare_cached("SELECT id FROM value WHERE field = ?1 AND text = ?2")?;
            return found.query_map(params![field, text], |row| row.get(0))?.collect();
        }
        let mut found = self.sql.prepare_cached("SELECT id, text FROM value WHERE field = ?1")?;
        let mut rows = found.query([field])?;
        let mut values = Vec::new();
        while let Some(row) = rows.next()? {
            if row.get_ref(1)?.as_str().is_ok_and(fits) {
                values.push(row.get(0)?);
            }
        }
        Ok(values)
    }

    /// Lists the records after `after` that have one of some values, in order.
    pub(crate) fn seqs(&self, values: &[i64], after: u64) -> rusqlite::Result<Vec<u64>> {
        let mut found = self
            .sql
            .prepare_cached("SELECT first, seqs FROM posting WHERE value = ?1 ORDER BY first")?;
        let mut list = Vec::new();
        for value in values {
            let mut rows = found.query([value])?;
            while let Some(row) = rows.next()? {
                let first = unsigned(row.get(0)?);
                postings::unpack(first, row.get_ref(1)?.as_blob().unwrap_or_default(), &mut list);
            }
        }
        list.retain(|seq| *seq > after);
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }

    /// Visits the locations of records, in ascending or descending order, until the visitor stops.
    pub(crate) fn spots(
        &self,
        after: u64,
        newest_first: bool,
        visit: &mut dyn FnMut(Spot) -> bool,
    ) -> rusqlite::Result<()> {
        let order = if newest_first { "DESC" } else { "ASC" };
        let found =
            format!("SELECT offset, length FROM record WHERE seq > ?1 ORDER BY seq {order}");
        let mut found = self.sql.prepare_cached(&found)?;
        let mut rows = found.query([signed(after)])?;
        while let Some(row) = rows.next()? {
            if !visit(read_spot(row)?) {
                break;
            }
        }
        Ok(())
    }
}

fn read_spot(row: &rusqlite::Row<'_>) -> rusqlite::Result<Spot> {
    let length = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0).min(chain::LINE_LIMIT);
    Ok(Spot { offset: unsigned(row.get(0)?), length })
}
