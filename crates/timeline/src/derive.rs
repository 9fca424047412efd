//! Derives index and views from the file, both in one read of it.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use hothouse_host::files::FileError;

use crate::{
    FILE, ReadError, chain,
    index::{Builder, IndexError},
    reader::lines::{Line, next_line},
    views::Writing,
};

/// How much of the file is read at once.
const BUFFER: usize = 1 << 16;

/// Updates index and views, except for those that another process is updating.
pub(crate) fn update(folder: &Path, upto: u64) -> Result<(), ReadError> {
    let (index, views) = (Builder::open(folder)?, Writing::open(folder, upto)?);
    read(folder, upto, index, views)
}

/// Updates the index alone.
pub(crate) fn update_index(folder: &Path, upto: u64) -> Result<(), ReadError> {
    read(folder, upto, Builder::open(folder)?, None)
}

/// Updates the views alone.
pub(crate) fn update_views(folder: &Path, upto: u64) -> Result<(), ReadError> {
    read(folder, upto, None, Writing::open(folder, upto)?)
}

/// Reads the file from the earlier of both positions.
fn read(
    folder: &Path,
    upto: u64,
    mut index: Option<Builder>,
    mut views: Option<Writing>,
) -> Result<(), ReadError> {
    let ends = [index.as_ref().map(Builder::end), views.as_ref().map(Writing::end)];
    let Some(from) = ends.into_iter().flatten().min() else { return Ok(()) };
    let failed = |source| FileError { attempt: "read", path: folder.join(FILE), source };
    let mut file = File::open(folder.join(FILE)).map_err(failed)?;
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let left = upto.saturating_sub(from);
    let mut lines = BufReader::with_capacity(BUFFER, file.take(left));
    let (mut line, mut at) = (Vec::new(), from);
    // Readers scan what follows a line that is torn or too long, until the file is repaired.
    while next_line(&mut lines, &mut line).map_err(failed)? == Line::Whole {
        let record = chain::read(&line).ok();
        if let Some(builder) = index.as_mut().filter(|builder| builder.end() <= at) {
            let taken = builder.take(record.as_ref(), line.len());
            drop_if_damaged(&mut index, taken)?;
        }
        at += line.len() as u64 + 1;
        if let Some(views) = views.as_mut().filter(|views| views.end() < at) {
            views.take(record, at)?;
        }
    }
    let committed = index.as_mut().map_or(Ok(()), Builder::commit);
    drop_if_damaged(&mut index, committed)?;
    views.map_or(Ok(()), Writing::finish)
}

/// Removes an index that cannot be written: the next one starts from scratch.
fn drop_if_damaged(
    index: &mut Option<Builder>,
    outcome: Result<(), IndexError>,
) -> Result<(), ReadError> {
    let Err(error) = outcome else { return Ok(()) };
    index.take().map_or(Ok(()), Builder::remove)?;
    Err(error.into())
}
