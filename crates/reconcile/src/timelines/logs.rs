//! The logs of a run's services as plain text in its folder, which outlives the sandbox:
//! `logs/SERVICE.log`, with lines `TIME TEXT`, redacted like records.
//!
//! They are copied from the logs of the sandbox. The position is stored beside them, so that the
//! next daemon continues there.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use hothouse_host::{
    files::{self, FileError},
    logs::{self, Cursor, Line, Since, Stream, Wanted},
};
use hothouse_timeline::Redactor;
use jiff::Timestamp;

/// The folder of the logs in a run's folder.
pub(super) const FOLDER: &str = "logs";

/// The file with the position.
const CURSOR: &str = ".timeline/logs";

/// Approximately how many bytes are read at once, and how often in a row.
const PAGE: usize = 1 << 20;
const PAGES: usize = 16;

/// The maximum size of a service's log in a run; later output is only in the sandbox's own log.
const MOST: u64 = 64 << 20;

/// The logs to copy, and from which time on.
pub(super) struct Followed {
    pub(super) streams: Vec<Stream>,
    pub(super) started: Timestamp,
    pub(super) run: PathBuf,
}

/// Appends what services have written since the last call.
pub(super) fn follow(followed: &Followed, redactor: &Redactor) -> Result<(), FileError> {
    if followed.streams.is_empty() {
        return Ok(());
    }
    let kept = followed.run.join(CURSOR);
    let known = files::read_text(&kept).ok().and_then(|text| text.trim().parse::<Cursor>().ok());
    let started = u64::try_from(followed.started.as_nanosecond().max(0)).unwrap_or(u64::MAX);
    let mut since = known.map_or(Since::Time(started), Since::Cursor);
    for _ in 0..PAGES {
        let wanted = Wanted { since: Some(since.clone()), limit: PAGE, ..Wanted::default() };
        let page = logs::read(&followed.streams, &wanted);
        let is_over = page.lines.is_empty() || !page.more;
        append(&followed.run, &page.lines, redactor)?;
        if page.cursor.0.is_empty() {
            return Ok(());
        }
        files::write_quick(&kept, page.cursor.to_string().as_bytes(), 0o600)?;
        since = Since::Cursor(page.cursor);
        if is_over {
            break;
        }
    }
    Ok(())
}

fn append(run: &Path, lines: &[Line], redactor: &Redactor) -> Result<(), FileError> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for line in lines {
        let text = texts.entry(&line.service).or_default();
        writeln!(text, "{} {}", moment(line.time), redactor.text(&line.text)).ok();
    }
    let folder = run.join(FOLDER);
    files::make_private_folder(&folder)?;
    for (service, text) in texts {
        let path = folder.join(format!("{service}.log"));
        let length = files::size(&path).unwrap_or(0);
        if length >= MOST {
            continue;
        }
        let text = match length + text.len() as u64 > MOST {
            true => text + "[the rest is not kept: a run keeps 64 MiB of a service's log]\n",
            false => text,
        };
        let mut file = files::open_append(&path)?;
        let failed = |source| FileError { attempt: "write", path: path.clone(), source };
        file.write_all(text.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

fn moment(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(service: &str, text: &str) -> Line {
        let (service, text) = (service.to_owned(), text.to_owned());
        Line { service, number: 0, time: 1_000_000_000, text, matched: true }
    }

    #[test]
    fn lines_are_kept_by_service_without_what_nobody_may_see() {
        let run = tempfile::tempdir().unwrap();
        let redactor = Redactor::new([("WORDS", "correct horse")], [0; 16]);
        let lines = [line("web", "hello correct horse"), line("db", "ready"), line("web", "again")];
        append(run.path(), &lines, &redactor).unwrap();
        append(run.path(), &[line("web", "later")], &redactor).unwrap();
        let text = |service: &str| {
            files::read_text(&run.path().join("logs").join(format!("{service}.log"))).unwrap()
        };
        let at = "1970-01-01T00:00:01Z";
        assert_eq!(text("web"), format!("{at} hello [secret WORDS]\n{at} again\n{at} later\n"));
        assert_eq!(text("db"), format!("{at} ready\n"));
    }
}
