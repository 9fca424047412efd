//! The timeline: durable records against plain group commit, memory, waiting and queries.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use hothouse_host::{
    clock::{Clock, HostClock},
    files,
};
use hothouse_model::{
    query::{Query, Since},
    record::{Draft, Kind, bodies::MarkBody},
};
use hothouse_timeline::{
    Direction, Identity, NoAnchors, Reader, Redactor, Selection, Timeline, TimelineOrder,
};
use serde_json::json;

use super::{
    bars::{Bar, bar},
    median, milliseconds, print, timed,
};

const WRITERS: usize = 32;
const ROUNDS: usize = 5;
const PER_WRITER: usize = 200;
const MANY: usize = 1_000_000;
const QUERIED: usize = 200_000;
const QUERIES: usize = 21;
const WAITS: usize = 101;

/// Measures the four bars.
pub(crate) fn run() -> Result<(), String> {
    // Next to the target folder rather than in /tmp, which may be in memory.
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let folder = tempfile::Builder::new().prefix(".bench-timeline").tempdir_in(here);
    let folder = folder.map_err(|error| error.to_string())?;
    durable(folder.path())?;
    waiting(&folder.path().join("wait"))?;
    queries(&folder.path().join("many"))?;
    memory(&folder.path().join("memory"))
}

fn open(folder: &Path) -> Result<Timeline, String> {
    let order = TimelineOrder {
        identity: Identity { sandbox: "bench".into(), run: "run_bench".into() },
        redactor: Redactor::new([("KEY", "placeholder-of-a-key")], [0; 16]),
        anchors: Box::new(NoAnchors),
        now: HostClock.now(),
    };
    Timeline::open(folder, order).map(|(timeline, _)| timeline).map_err(|error| error.to_string())
}

fn draft(at: usize) -> Draft {
    let host = ["api.stripe.com", "api.vendor.example", "us.i.posthog.com"][at % 3];
    let method = if at.is_multiple_of(2) { "POST" } else { "GET" };
    let path = format!("/v1/things/{at}");
    let summary = format!("{method} {host}{path}");
    let body = json!({
        "host": host, "port": 443, "tls": true, "version": "1.1", "method": method, "path": path, "status": 200,
        "integration": "mock", "class": "mock", "matched": !at.is_multiple_of(10), "fixture": null, "duration_ms": 3,
        "request": { "headers": [["accept", "*/*"], ["user-agent", "bench"]], "bytes": 0 },
        "response": { "headers": [["content-type", "application/json"]], "bytes": 2, "text": "{}" },
    });
    Draft::new(Kind::Request, HostClock.now(), summary, body)
}

/// Plain group commit: appenders put bytes into a buffer, one of them writes and syncs for all.
struct Plain {
    state: Mutex<State>,
    done: Condvar,
}

struct State {
    waiting: Vec<u8>,
    /// How many groups have been started, and how many are on disk.
    begun: u64,
    durable: u64,
    writing: bool,
    file: Option<File>,
}

impl Plain {
    fn append(&self, line: &[u8]) {
        let mut state = self.state.lock().expect("no appender panics");
        state.waiting.extend_from_slice(line);
        let mine = state.begun + 1;
        while state.durable < mine {
            if state.writing {
                state = self.done.wait(state).expect("no appender panics");
                continue;
            }
            state.writing = true;
            state.begun += 1;
            let (group, bytes) = (state.begun, std::mem::take(&mut state.waiting));
            let mut file = state.file.take().expect("one writes at a time");
            drop(state);
            file.write_all(&bytes).and_then(|()| file.sync_data()).expect("the disk works");
            state = self.state.lock().expect("no appender panics");
            (state.file, state.writing, state.durable) = (Some(file), false, group);
            self.done.notify_all();
        }
    }
}

fn durable(folder: &Path) -> Result<(), String> {
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    let line = vec![b'x'; 700];
    for round in 0..ROUNDS {
        let file = files::open_append(&folder.join(format!("plain-{round}")))
            .map_err(|error| error.to_string())?;
        let state =
            State { waiting: Vec::new(), begun: 0, durable: 0, writing: false, file: Some(file) };
        let peer = Plain { state: Mutex::new(state), done: Condvar::new() };
        plain.push(rate(&|_| peer.append(&line))?);
        let timeline = open(&folder.join(format!("ours-{round}")))?;
        ours.push(rate(&|at| drop(timeline.append(draft(at)).expect("the disk works")))?);
    }
    let (plain, ours) = (middle(plain), middle(ours));
    print(&format!(
        "timeline: durable records per second, {WRITERS} writers, median of {ROUNDS}, alternating"
    ));
    print(&format!("  write and fdatasync {plain:>10.0}"));
    print(&format!("  hothouse            {ours:>10.0}"));
    bar("durable records, ratio", ours / plain, "", Bar::AtLeast(0.5));
    Ok(())
}

/// Returns the appends per second of all writers together.
fn rate(append: &(dyn Fn(usize) + Sync)) -> Result<f64, String> {
    let time = timed(|| {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    (0..PER_WRITER).for_each(|at| append(writer * PER_WRITER + at));
                });
            }
        });
        Ok(())
    })?;
    let count = u32::try_from(WRITERS * PER_WRITER).expect("a small number");
    Ok(f64::from(count) / time.as_secs_f64())
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn select(query: &str, since: Option<Since>, limit: usize) -> Selection {
    let query = Query::parse(query, Some(Kind::Request)).expect("the queries are valid");
    Selection { query, since, now: HostClock.now(), limit, direction: Direction::NewestFirst }
}

/// Measures the time from when the appender returns until the waiter has the record.
fn waiting(folder: &Path) -> Result<(), String> {
    let timeline = open(folder)?;
    let mut times = Vec::new();
    for at in 0..WAITS {
        let reader = timeline.reader().map_err(|error| error.to_string())?;
        let query = select(&format!("path=/v1/things/{at}"), None, 1);
        let mut tail = reader.tail(&query).map_err(|error| error.to_string())?;
        let waiter = std::thread::spawn(move || {
            let found = tail.wait(Instant::now() + Duration::from_secs(10));
            (found.is_ok_and(|found| found.is_some()), Instant::now())
        });
        timeline.append(draft(at)).map_err(|error| error.to_string())?;
        let written = Instant::now();
        let (found, seen) = waiter.join().map_err(|_| "a waiter panicked")?;
        if !found {
            return Err("`wait` did not find its record".into());
        }
        times.push(seen.saturating_duration_since(written));
    }
    let worst = times.iter().max().copied().unwrap_or_default();
    print(&format!("timeline: wait, after the record, {WAITS} times"));
    print(&format!("  median {:>8.2} ms", milliseconds(median(times))));
    bar("wait, worst", milliseconds(worst), "ms", Bar::AtMost(20.0));
    Ok(())
}

fn fill(timeline: &Timeline, count: usize) -> Result<(), String> {
    for at in 0..count {
        // Waiting now and then keeps the queue from overflowing.
        let put = match at % 1000 {
            0 => timeline.append(draft(at)).map(drop),
            _ => timeline.append_later(draft(at)),
        };
        put.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn queries(folder: &Path) -> Result<(), String> {
    let timeline = open(folder)?;
    timeline
        .append(Draft::of(HostClock.now(), "begin", &MarkBody { mark: "begin".into() }))
        .map_err(|error| error.to_string())?;
    fill(&timeline, QUERIED)?;
    timeline.close();
    let reader = Reader::open(folder).map_err(|error| error.to_string())?;
    print(&format!("timeline: reads over {QUERIED} records, median of {QUERIES}"));
    let since = || reader.since("begin", 100).map(drop).map_err(|error| error.to_string());
    measure("since begin", &since)?;
    for query in [
        "host:stripe method=POST",
        "path=/v1/things/777",
        "matched=false host=us.i.posthog.com",
        "path:things/1234 status=200",
        "path:nowhere",
    ] {
        let select = select(query, None, 100);
        let read = || reader.records(&select).map(drop).map_err(|error| error.to_string());
        measure(query, &read)?;
    }
    Ok(())
}

fn measure(name: &str, read: &dyn Fn() -> Result<(), String>) -> Result<(), String> {
    let times = (0..QUERIES).map(|_| timed(read)).collect::<Result<Vec<_>, _>>()?;
    bar(name, milliseconds(median(times)), "ms", Bar::AtMost(50.0));
    Ok(())
}

fn memory(folder: &Path) -> Result<(), String> {
    let timeline = open(folder)?;
    fill(&timeline, MANY / 10)?;
    let first = resident()?;
    fill(&timeline, MANY - MANY / 10)?;
    let last = resident()?;
    timeline.close();
    print(&format!("timeline: memory of the process over {MANY} records"));
    print(&format!("  after the first tenth {first:>8.1} MB"));
    print(&format!("  at the end            {last:>8.1} MB"));
    bar("memory, ratio", last / first, "", Bar::AtMost(1.2));
    Ok(())
}

/// Returns the memory of this process in megabytes.
fn resident() -> Result<f64, String> {
    let text =
        files::read_text(Path::new("/proc/self/status")).map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u32>().ok());
    kilobytes.map(|count| f64::from(count) / 1024.0).ok_or_else(|| "no VmRSS".to_owned())
}
