//! The logs of a run's services, as stored in its folder; available even after its sandbox is gone.

use std::path::Path;

use hothouse_api::log::{LogLine, LogPage};
use hothouse_host::{
    files,
    logs::{Cursor, Since, Wanted},
};
use hothouse_model::{Explain, Failure, FailureKind};
use jiff::Timestamp;

/// The folder of the logs in a run's folder, and the file extension.
const FOLDER: &str = "logs";
const ENDING: &str = ".log";

/// How much of a log is read; no run stores more.
const MOST: u64 = 65 << 20;

/// Reads the logs of a run.
pub(super) fn read(run: &Path, names: &[String], wanted: &Wanted) -> Result<LogPage, Failure> {
    let mut cursor = Cursor::default();
    let mut all = Vec::new();
    for (service, text) in texts(run, names)? {
        let lines = lines(&service, &text);
        cursor.0.insert(service, lines.len() as u64);
        all.extend(select(lines, wanted));
    }
    // A stable sort: the lines of one log keep their order.
    all.sort_by_key(|line| line.time);
    if let Some(tail) = wanted.tail {
        all.drain(..all.len().saturating_sub(tail));
    }
    let mut size = 0;
    let fits = all.iter().take_while(|line| {
        size += line.text.len() + 1;
        size <= wanted.limit
    });
    let rest = all.split_off(fits.count().max(1).min(all.len()));
    for line in rest.iter().rev() {
        cursor.0.insert(line.service.clone(), line.seq);
    }
    Ok(LogPage { lines: all, cursor: cursor.to_string(), more: !rest.is_empty() })
}

/// Returns the named logs, or all, each with its service.
fn texts(run: &Path, names: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let files = files::list(&run.join(FOLDER)).unwrap_or_default();
    let service = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(ENDING)?.to_owned());
    let known: Vec<_> = files.iter().filter_map(|path| Some((service(path)?, path))).collect();
    if let Some(name) = names.iter().find(|name| !known.iter().any(|(known, _)| known == *name)) {
        let all: Vec<_> = known.iter().map(|(known, _)| known.as_str()).collect();
        let hint = match all.is_empty() {
            true => "this run has no logs of services".to_owned(),
            false => format!("available: {}", all.join(", ")),
        };
        let message = format!("service `{name}` has no log in this run");
        return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
    }
    let wanted = known.into_iter().filter(|(known, _)| names.is_empty() || names.contains(known));
    let read = |(service, path): (String, &std::path::PathBuf)| {
        let bytes = files::read_capped(path, MOST).map_err(|error| error.failure())?;
        Ok((service, String::from_utf8_lossy(&bytes).into_owned()))
    };
    wanted.map(read).collect()
}

/// Parses stored lines: `TIME TEXT`.
fn lines(service: &str, text: &str) -> Vec<LogLine> {
    let mut last = Timestamp::UNIX_EPOCH;
    let mut read = |(seq, line): (usize, &str)| {
        let (time, text) = line.split_once(' ').unwrap_or((line, ""));
        let (time, text) = match time.parse() {
            Ok(time) => (time, text),
            Err(_) => (last, line),
        };
        last = time;
        let (service, text) = (service.to_owned(), text.to_owned());
        LogLine { service, seq: seq as u64, time, text, matched: true }
    };
    text.lines().enumerate().map(&mut read).collect()
}

/// Selects the requested lines of one log, and those around them.
fn select(mut lines: Vec<LogLine>, wanted: &Wanted) -> Vec<LogLine> {
    let is_late = |line: &LogLine| match &wanted.since {
        None => true,
        Some(Since::Time(from)) => line.time.as_nanosecond() >= i128::from(*from),
        Some(Since::Cursor(cursor)) => {
            line.seq >= cursor.0.get(&line.service).copied().unwrap_or(0)
        }
    };
    lines.retain(is_late);
    let Some(pattern) = &wanted.pattern else { return lines };
    let found: Vec<bool> =
        lines.iter().map(|line| pattern.is_match(line.text.as_bytes())).collect();
    let near = |at: usize| {
        let from = at.saturating_sub(wanted.after);
        let to = (at + wanted.before + 1).min(found.len());
        found[from..to].contains(&true)
    };
    let kept = lines.into_iter().enumerate().filter(|(at, _)| near(*at));
    kept.map(|(at, line)| LogLine { matched: found[at], ..line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> tempfile::TempDir {
        let run = tempfile::tempdir().unwrap();
        files::make_private_folder(&run.path().join(FOLDER)).unwrap();
        let at = |second: u32, text: &str| format!("2026-01-01T00:00:{second:02}Z {text}\n");
        let web = at(1, "one") + &at(3, "an error here") + &at(4, "four") + "no time at all\n";
        files::write_quick(&run.path().join("logs/web.log"), web.as_bytes(), 0o600).unwrap();
        let db = at(2, "two");
        files::write_quick(&run.path().join("logs/db.log"), db.as_bytes(), 0o600).unwrap();
        run
    }

    fn texts_of(page: &LogPage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn logs_of_a_run_are_read_by_time_and_with_what_is_asked_for() {
        let run = run();
        let read = |names: &[&str], wanted: Wanted| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            super::read(run.path(), &names, &Wanted { limit: 1000, ..wanted }).unwrap()
        };
        let all = read(&[], Wanted::default());
        assert_eq!(texts_of(&all), ["one", "two", "an error here", "four", "no time at all"]);
        assert_eq!((all.cursor.as_str(), all.more), ("db:1,web:4", false));
        assert_eq!(texts_of(&read(&["db"], Wanted::default())), ["two"]);
        let pattern = Some(regex::bytes::Regex::new("error").unwrap());
        let found = read(&[], Wanted { pattern, before: 1, after: 1, ..Wanted::default() });
        assert_eq!(texts_of(&found), ["one", "an error here", "four"]);
        assert_eq!(found.lines.iter().filter(|line| line.matched).count(), 1);
        let since = Some(Since::Cursor("web:2,db:1".parse().unwrap()));
        let later = read(&[], Wanted { since, ..Wanted::default() });
        assert_eq!(texts_of(&later), ["four", "no time at all"]);
        let tail = read(&[], Wanted { tail: Some(1), ..Wanted::default() });
        assert_eq!(texts_of(&tail), ["no time at all"]);
        assert_eq!(
            super::read(run.path(), &["x".into()], &Wanted::default()).unwrap_err().kind,
            FailureKind::NotFound
        );
    }

    #[test]
    fn a_page_that_is_full_says_where_to_continue() {
        let run = run();
        let mut wanted = Wanted { limit: 4, ..Wanted::default() };
        let mut seen = Vec::new();
        loop {
            let page = read(run.path(), &[], &wanted).unwrap();
            seen.extend(page.lines.iter().map(|line| line.text.clone()));
            if !page.more {
                break;
            }
            wanted.since = Some(Since::Cursor(page.cursor.parse().unwrap()));
        }
        assert_eq!(seen, ["one", "two", "an error here", "four", "no time at all"]);
    }
}
