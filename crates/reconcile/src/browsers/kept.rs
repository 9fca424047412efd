//! Stores a page: its files among the artifacts of the run, then its record.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_browser::har::har;
use hothouse_host::{Clock, clock::HostClock, files};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    browse::{BrowseReport, FailedRequest},
    config::HostName,
    query::{Query, Since},
    record::{Draft, Kind},
};
use hothouse_timeline::{Direction, Selection, Timeline};

use super::{Browsers, Visit};
use crate::timelines::unreported::suspect;

/// The folder of pages among the artifacts of a run.
const FOLDER: &str = "browser";

/// The total size limit of page files in a run.
const FILES_LIMIT: u64 = 2 << 30;

/// A connection may be made, and denied, before the page is timed.
const DENIED_BEFORE: Duration = Duration::from_secs(1);

/// How many hosts get a hint.
const HINTS: usize = 3;

/// How many records are matched with requests.
const RECORDS: usize = 1000;

/// The number of pages of each run, and the bytes of their files.
#[derive(Default)]
pub(super) struct Numbers(Mutex<HashMap<String, (u64, u64)>>);

impl Numbers {
    /// Returns a unique number for a run's next page.
    fn next(&self, run: &str, artifacts: &Path, bytes: u64) -> Result<u64, Failure> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(run.to_owned()).or_insert_with(|| (last(&artifacts.join(FOLDER)), 0));
        if known.1 + bytes > FILES_LIMIT {
            let failure =
                Failure::new(FailureKind::Conflict, "this run has kept as many pages as a run may");
            return Err(failure.hint("`hothouse down` and `hothouse up` begin a new run"));
        }
        *known = (known.0 + 1, known.1 + bytes);
        Ok(known.0)
    }
}

fn last(folder: &Path) -> u64 {
    let names = files::list(folder).unwrap_or_default();
    let numbers = names.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<u64>().ok());
    numbers.max().unwrap_or(0)
}

impl Browsers {
    /// Writes files and record, and returns the report with their paths.
    pub(super) async fn keep(
        &self,
        sandbox: &SandboxRecord,
        visit: Visit,
        trace_prefix: &str,
    ) -> Result<BrowseReport, Failure> {
        let (timelines, owned) = (self.timelines.clone(), sandbox.clone());
        let opened = tokio::task::spawn_blocking(move || timelines.of(&owned)).await;
        let timeline = opened.ok().flatten().ok_or_else(|| {
            Failure::new(
                FailureKind::Conflict,
                format!("no run of `{}` is being recorded", sandbox.name),
            )
        })?;
        let room = sandbox.room.as_ref();
        let run = room.map(|room| room.run.id.clone()).unwrap_or_default();
        let pictures =
            visit.pictures.iter().chain(visit.step_pictures.iter().map(|(_, bytes)| bytes));
        let files = visit.downloads.iter().map(|(_, bytes)| bytes).chain(&visit.trace);
        let bytes = pictures.chain(&visit.video).chain(files).map(|bytes| bytes.len() as u64).sum();
        let number = self.numbers.next(&run, timeline.folder(), bytes)?;
        let prefix = trace_prefix.to_owned();
        let writing = tokio::task::spawn_blocking(move || write(&timeline, number, visit, &prefix));
        let kept = writing.await.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        if let Some(error) = kept.page_errors.first() {
            let what = format!("a page broke ({})", cut(error));
            suspect(&self.engine, &self.timelines, sandbox, what);
        }
        Ok(kept)
    }
}

/// Truncates console output of a page to the maximum length of a line.
fn cut(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

fn write(
    timeline: &Arc<Timeline>,
    number: u64,
    visit: Visit,
    trace_prefix: &str,
) -> Result<BrowseReport, Failure> {
    let Visit { mut report, pictures, step_pictures, requests, video, trace, downloads, run: _ } =
        visit;
    let folder = format!("{FOLDER}/{number}");
    join(timeline, &mut report, trace_prefix);
    explain_denials(timeline, &mut report);
    let mut named: Vec<(String, Vec<u8>)> = Vec::new();
    for (at, picture) in pictures.into_iter().enumerate() {
        let name = if at == 0 { "page.png".to_owned() } else { format!("page-{}.png", at + 1) };
        report.screenshots.push(format!("{folder}/{name}"));
        named.push((format!("{folder}/{name}"), picture));
    }
    for (at, (name, picture)) in step_pictures.into_iter().enumerate() {
        // Steps may use a name twice.
        let name = format!("{folder}/step-{}-{name}.png", at + 1);
        report.screenshots.push(name.clone());
        named.push((name, picture));
    }
    if let Some(video) = video {
        report.video = Some(format!("{folder}/page.avi"));
        named.push((format!("{folder}/page.avi"), video));
    }
    if let Some(trace) = trace {
        report.trace_file = Some(format!("{folder}/trace.json"));
        named.push((format!("{folder}/trace.json"), trace));
    }
    if let Some(requests) = requests {
        let archive = har(&requests, &report.title, &report.final_url);
        report.har = Some(format!("{folder}/page.har"));
        named.push((format!("{folder}/page.har"), archive.to_string().into_bytes()));
    }
    for (at, bytes) in downloads {
        let Some(download) = report.downloads.get_mut(at) else { continue };
        let name =
            format!("{folder}/download-{}-{}", at + 1, super::downloads::plain(&download.name));
        download.file = Some(name.clone());
        named.push((name, bytes));
    }
    report.artifacts = folder.clone();
    let record = report.for_record();
    let whole = placed(report, timeline.folder());
    let text = serde_json::to_vec_pretty(&BrowseReport { script: None, ..whole.clone() });
    let text = text.unwrap_or_default();
    named.push((format!("{folder}/result.json"), text));
    let files = named.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    timeline
        .put_files(Kind::Browser, files)
        .map_err(|error| Failure::of(FailureKind::Host, &error))?;
    let trace = whole.traces.first().map(|request| request.trace.clone());
    let draft = Draft { trace, ..Draft::of(HostClock.now(), record.summary(), &record) };
    timeline.append(draft).map_err(|error| Failure::of(FailureKind::Host, &error))?;
    Ok(whole)
}

/// Returns a report with absolute paths.
fn placed(mut report: BrowseReport, folder: &Path) -> BrowseReport {
    let whole = |path: &String| folder.join(path).display().to_string();
    report.screenshots = report.screenshots.iter().map(whole).collect();
    report.har = report.har.as_ref().map(whole);
    report.video = report.video.as_ref().map(whole);
    report.trace_file = report.trace_file.as_ref().map(whole);
    for download in &mut report.downloads {
        download.file = download.file.as_ref().map(whole);
    }
    report.artifacts = whole(&report.artifacts);
    report
}

/// Adds the server-side records to their requests; requests without one are left out.
fn join(timeline: &Arc<Timeline>, report: &mut BrowseReport, trace_prefix: &str) {
    let Ok(query) = Query::parse(&format!("trace:{trace_prefix}"), None) else { return };
    let (now, limit, direction) = (HostClock.now(), RECORDS, Direction::OldestFirst);
    let selection = Selection { query, since: None, now, limit, direction };
    let found = timeline.reader().and_then(|reader| reader.records(&selection));
    let records = match found {
        Ok(records) => records,
        Err(error) => {
            report.notes.push(format!(
                "records of the server could not be joined: {}",
                error.failure().message
            ));
            Vec::new()
        }
    };
    for request in &mut report.traces {
        let own = records.iter().filter(|record| record.trace.as_deref() == Some(&request.trace));
        request.records = own.map(|record| record.id.clone()).collect();
    }
}

/// Adds to requests without an answer that the wall denied them, and why: the browser only knows that a handshake failed.
fn explain_denials(timeline: &Arc<Timeline>, report: &mut BrowseReport) {
    let is_open = |request: &&mut FailedRequest| request.status.is_none();
    if !report.failed_requests.iter_mut().any(|request| is_open(&request)) {
        return;
    }
    let Ok(query) = Query::parse("allowed=false", Some(Kind::Connection)) else { return };
    let span = Duration::from_millis(report.duration_ms) + DENIED_BEFORE;
    let (now, direction) = (HostClock.now(), Direction::OldestFirst);
    let selection =
        Selection { query, since: Some(Since::Span(span)), now, limit: RECORDS, direction };
    let denied = timeline.reader().and_then(|reader| reader.records(&selection));
    let denied: HashMap<String, String> = denied
        .unwrap_or_default()
        .iter()
        .filter_map(|record| {
            let text = |name: &str| record.body[name].as_str().map(str::to_owned);
            Some((text("host")?, text("reason")?))
        })
        .collect();
    let mut hosts = BTreeSet::new();
    for request in report.failed_requests.iter_mut().filter(is_open) {
        let host = host_of(&request.url);
        if let Some(why) = denied.get(host) {
            request.reason = format!("{}, denied by the wall: {why}", request.reason);
            hosts.insert(host.to_owned());
        }
    }
    // Hints are copied into a shell, and a page chooses its hosts.
    let is_plain = |host: &String| host.parse::<HostName>().is_ok();
    let shown = hosts.into_iter().filter(is_plain).take(HINTS);
    report.hints.extend(shown.map(|host| format!("`hothouse egress why {host}` shows the rule")));
}

/// Returns the host of a URL, without a port.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit_once(':').map_or(host, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_continue_where_an_earlier_daemon_ended_and_are_given_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1", "7", "not a number"] {
            files::make_folder(&folder.path().join(FOLDER).join(name)).unwrap();
        }
        let numbers = Numbers::default();
        let next = |run: &str, bytes| numbers.next(run, folder.path(), bytes);
        assert_eq!((next("a", 1).unwrap(), next("a", 1).unwrap()), (8, 9));
        assert!(next("a", FILES_LIMIT).is_err());
        assert_eq!(next("b", 1).unwrap(), 8, "each run has its own");
    }
}
