//! Queries, marks, waiting, the negative proof, views and archives.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use hothouse_model::{
    query::{Query, Since},
    record::{
        Draft, Kind,
        bodies::{GapKind, MarkBody},
    },
};
use hothouse_timeline::{
    Direction, ReadError, Reader, Selection, Timeline, VIEWS, gap, har, write_views,
};
use serde_json::{Value, json};

use crate::{Kept, RUN, at, log, open, order, request};

fn select(query: &str, kind: Option<Kind>) -> Selection {
    let query = Query::parse(query, kind).unwrap();
    Selection { query, since: None, now: at(100), limit: 100, direction: Direction::OldestFirst }
}

fn seqs(reader: &Reader, selection: &Selection) -> Vec<u64> {
    reader.records(selection).unwrap().iter().map(|record| record.seq).collect()
}

fn mark(timeline: &Timeline, name: &str) -> u64 {
    timeline.append(Draft::of(at(1), name, &MarkBody { mark: name.into() })).unwrap().seq
}

/// Runs a check with the index in every possible state.
fn in_every_state(folder: &Path, check: impl Fn(&Reader)) {
    check(&Reader::open(folder).unwrap());
    let own = folder.join(".timeline");
    let index = own.join("index.sqlite");
    fs::write(&index, b"SQLite format 3\0 and then nothing of the kind").unwrap();
    check(&Reader::open(folder).unwrap());
    let gone: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in gone {
        if path.file_name().unwrap().to_string_lossy().starts_with("index.") {
            fs::remove_file(path).unwrap();
        }
    }
    check(&Reader::open(folder).unwrap());
    // Recreated by the next owner.
    open(folder).0.close();
    assert!(fs::metadata(&index).unwrap().len() > 100);
    check(&Reader::open(folder).unwrap());
}

#[test]
fn queries_find_the_same_with_and_without_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    timeline.append(request("api.stripe.com", "/v1/customers", Some(true))).unwrap();
    timeline.append(request("api.vendor.example", "/v1/things/7", Some(false))).unwrap();
    timeline.append(log("Stripe is mentioned")).unwrap();
    let mut late = log("later");
    late.time = at(50);
    let late = timeline.append(late).unwrap();
    let mut wide = log("many fields");
    wide.body["z"] =
        (0..100).map(|at| (format!("k{at}"), json!(at))).collect::<serde_json::Map<_, _>>().into();
    timeline.append(wide).unwrap();
    timeline.close();
    in_every_state(folder.path(), |reader| {
        for (query, kind, expected) in [
            ("host:STRIPE", Some(Kind::Request), vec![1]),
            ("host:stripe -method=GET", Some(Kind::Request), vec![]),
            ("matched=false", Some(Kind::Request), vec![2]),
            ("path~things/\\d$", Some(Kind::Request), vec![2]),
            ("stripe", None, vec![1, 3]),
            ("-stripe", None, vec![2, 4, 5]),
            ("kind=log", None, vec![3, 4, 5]),
            ("body.z.k99=99", None, vec![5]),
            ("body.z:k98", None, vec![5]),
            (&format!("id={}", late.id), None, vec![4]),
            ("", None, vec![1, 2, 3, 4, 5]),
        ] {
            assert_eq!(seqs(reader, &select(query, kind)), expected, "{query}");
            let newest =
                Selection { direction: Direction::NewestFirst, limit: 1, ..select(query, kind) };
            let expected: Vec<u64> = expected.last().copied().into_iter().collect();
            assert_eq!(seqs(reader, &newest), expected, "{query}, the newest");
        }
        for (since, expected) in [
            (Since::Seq(3), vec![4, 5]),
            (Since::Moment(at(10)), vec![4]),
            (Since::Span(Duration::from_secs(60)), vec![4]),
            (Since::Span(Duration::from_secs(1)), vec![]),
        ] {
            let selection = Selection { since: Some(since), ..select("", None) };
            assert_eq!(seqs(reader, &selection), expected);
        }
        assert_eq!(reader.get(&late.id).unwrap(), Some(late.clone()));
        assert_eq!(reader.get("log_0000000000000000").unwrap(), None);
        assert_eq!(reader.last().unwrap().unwrap().seq, 5);
        let misses = reader.nearest(&select("host:vendor path:nothing", Some(Kind::Request)), 1);
        let (near, record) = misses.unwrap().remove(0);
        assert_eq!((record.seq, near.failed), (2, vec!["path:nothing".to_owned()]));
    });
}

#[test]
fn since_counts_every_kind_and_names_the_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let connection = |host: &str, transport: &str, inspected: bool, open: bool| {
        let body = json!({
            "host": host, "transport": transport, "allowed": true, "inspected": inspected, "open": open,
        });
        Draft::new(Kind::Connection, at(0), host, body)
    };
    let error = |digit: &str| {
        let id = format!("err_{}", digit.repeat(16));
        Draft { id: Some(id), ..Draft::new(Kind::Error, at(0), "TypeError", json!({})) }
    };
    timeline.append(request("a", "/", Some(false))).unwrap();
    timeline.append(error("a")).unwrap();
    // One cut off by the end of a daemon, one that ended, and one that is open the whole time.
    timeline.append(connection("gone.example", "tcp", false, true)).unwrap();
    timeline.append(gap(GapKind::Absent, 3, "no daemon ran".into(), at(0))).unwrap();
    for open in [true, false] {
        timeline.append(connection("over.example", "tcp", false, open)).unwrap();
    }
    timeline.append(connection("long.example", "tcp", false, true)).unwrap();
    mark(&timeline, "m1");
    let mark = mark(&timeline, "m1");
    timeline.append(request("a", "/", Some(false))).unwrap();
    timeline.append(request("a", "/", Some(true))).unwrap();
    timeline.append(request("a", "/", None)).unwrap();
    // Two events of a known issue, and three of two new ones.
    for issue in ["a", "a", "b", "b", "c"] {
        timeline.append(error(issue)).unwrap();
    }
    for open in [true, false] {
        timeline.append(connection("tls.example", "tcp", false, open)).unwrap();
    }
    timeline.append(connection("tls.example", "tcp", false, true)).unwrap();
    timeline.append(connection("opened.example", "tcp", true, false)).unwrap();
    timeline.append(connection("time.example", "udp", false, false)).unwrap();
    let live = timeline.reader().unwrap().since("m1", 2).unwrap();
    timeline.close();
    in_every_state(folder.path(), |reader| {
        let report = reader.since("m1", 2).unwrap();
        assert_eq!(report, live);
        assert_eq!(report.seq, mark);
        assert_eq!(report.counts.len(), Kind::ALL.len());
        let counts =
            ["request", "error", "connection", "mail", "mark"].map(|kind| report.counts[kind]);
        assert_eq!(counts, [3, 5, 5, 0, 0]);
        assert_eq!((report.new_errors, report.unmatched), (2, 1));
        let seqs: Vec<_> = report.records.iter().map(|record| record.seq).collect();
        assert_eq!(seqs, [mark + 1, mark + 2]);
        let gaps: Vec<_> = report
            .gaps
            .iter()
            .map(|gap| (gap.kind.as_str(), gap.what.as_str(), gap.count))
            .collect();
        let not_opened = |host, count| ("not-opened", host, count);
        let expected = [
            not_opened("long.example", 1),
            not_opened("tls.example", 2),
            ("udp", "time.example", 1),
        ];
        assert_eq!(gaps, expected);
        match reader.since("m11", 0).unwrap_err() {
            ReadError::NoMark { near, .. } => assert_eq!(near.as_deref(), Some("m1")),
            other => panic!("{other}"),
        }
        assert_eq!(reader.marks().unwrap().len(), 2);
    });
}

#[test]
fn what_a_seeding_made_is_not_counted_since_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let seed = |id: u8, state: &str| Draft {
        id: Some(Kind::Seed.id([id; 8])),
        ..Draft::new(Kind::Seed, at(0), state, json!({ "state": state }))
    };
    mark(&timeline, "m");
    timeline.append(request("a", "/", Some(false))).unwrap();
    timeline.append(seed(1, "begun")).unwrap();
    timeline.append(request("a", "/", Some(false))).unwrap();
    timeline.append(log("of the seeding")).unwrap();
    timeline.append(seed(1, "done")).unwrap();
    let after = timeline.append(request("b", "/", None)).unwrap().seq;
    // A seeding whose daemon was killed ends with its own last record.
    timeline.append(seed(2, "begun")).unwrap();
    let last = timeline.append(log("after it")).unwrap().seq;
    timeline.close();
    in_every_state(folder.path(), |reader| {
        let report = reader.since("m", 10).unwrap();
        assert_eq!((report.seeding, report.unmatched), (2, 1));
        let counts = ["request", "log", "seed"].map(|kind| report.counts[kind]);
        assert_eq!(counts, [2, 1, 3]);
        let seqs: Vec<_> = report.records.iter().map(|record| record.seq).collect();
        assert!(seqs.contains(&after) && seqs.contains(&last), "{seqs:?}");
        assert_eq!(seqs.len(), 6);
        assert_eq!(reader.since("m", 1).unwrap().records.len(), 1);
    });
}

#[test]
fn waiting_returns_what_is_there_and_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    for at in 0..200 {
        timeline.append_later(log(&format!("old {at}"))).unwrap();
    }
    timeline.append(log("there")).unwrap();
    let until = || Instant::now() + Duration::from_secs(30);
    let mut tail = timeline.reader().unwrap().tail(&select("there", Some(Kind::Log))).unwrap();
    assert_eq!(tail.wait(until()).unwrap().unwrap().seq, 201);
    assert_eq!(tail.poll().unwrap(), None);
    // Without a signal, as in another process.
    let mut beside = Reader::open(folder.path()).unwrap().tail(&select("there", None)).unwrap();
    assert_eq!(beside.wait(until()).unwrap().unwrap().seq, 201);
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || tail.wait(until()).unwrap().unwrap().seq);
        let polls = scope.spawn(move || beside.wait(until()).unwrap().unwrap().seq);
        timeline.append(log("something else")).unwrap();
        let seq = timeline.append(log("also there")).unwrap().seq;
        assert_eq!((waits.join().unwrap(), polls.join().unwrap()), (seq, seq));
    });
    let mut all = timeline.reader().unwrap().tail(&select("", None)).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = all.poll().unwrap() {
        seen.push(record.seq);
    }
    assert_eq!(seen, (1..=203).collect::<Vec<_>>(), "each once, in order");
    assert_eq!(all.wait(Instant::now()).unwrap(), None);
}

#[tokio::test]
async fn a_task_awaits_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let mut tail = timeline.reader().unwrap().tail(&select("wanted", None)).unwrap();
    let waits = tokio::spawn(async move { tail.next().await.unwrap().seq });
    tokio::task::yield_now().await;
    timeline.append_async(log("x")).await.unwrap();
    let seq = timeline.append_async(log("wanted")).await.unwrap().seq;
    assert_eq!(waits.await.unwrap(), seq);
}

#[test]
fn views_follow_the_timeline_and_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let view = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (timeline, _) = open(folder.path());
    timeline.append(request("a.example", "/1", None)).unwrap();
    timeline.close();
    assert_eq!(view("requests.jsonl").len(), 1);
    let (timeline, _) = Timeline::open(folder.path(), order(RUN, &Kept::default())).unwrap();
    let second = timeline.append(request("a.example", "/2", None)).unwrap();
    for state in ["dead", "done"] {
        let body = json!({ "queue": "q", "state": state });
        timeline.append(Draft::new(Kind::Job, at(0), "job", body)).unwrap();
    }
    let mut picture = request("cdn.example", "/logo", None);
    picture.body["response"] = json!({ "headers": [["Content-Type", "image/png"]] });
    timeline.append(picture).unwrap();
    for message in ["first", "second"] {
        let id = Some("err_0123456789abcdef".to_owned());
        let body = json!({ "message": message });
        timeline.append(Draft { id, ..Draft::new(Kind::Error, at(0), "error", body) }).unwrap();
    }
    timeline.close();
    let media = view("media-requests.jsonl");
    assert_eq!((media.len(), &media[0]["path"]), (1, &json!("/logo")));
    let issue = fs::read(folder.path().join("errors/err_0123456789abcdef.json")).unwrap();
    let issue: Value = serde_json::from_slice(&issue).unwrap();
    assert_eq!(issue["message"], "second", "the last event counts");
    let rows = view("requests.jsonl");
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[1]["id"], &rows[1]["path"]), (&json!(second.id), &json!("/2")));
    assert_eq!(view("dead-letters.jsonl").len(), 1);
    // A writer that died after writing the lines, before recording them.
    let path = folder.path().join("requests.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"half\":"].concat()).unwrap();
    write_views(folder.path()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    for view in &VIEWS {
        fs::remove_file(folder.path().join(view.file)).unwrap();
    }
    write_views(folder.path()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn requests_become_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let blob = timeline.put_blob(Kind::Request, b"\xff\x00picture", 100).unwrap();
    let mut draft = request("a.example", "/x?q=1&r", None);
    draft.body["version"] = json!("1.1");
    draft.body["request"] = json!({ "headers": [["accept", "*/*"]], "bytes": 2, "text": "hi" });
    draft.body["response"] =
        json!({ "headers": [["content-type", "image/png"]], "bytes": 9, "blob": blob });
    timeline.append(draft).unwrap();
    timeline.append(log("not a request")).unwrap();
    let records = timeline.reader().unwrap().records(&select("", None)).unwrap();
    let har = har(&records, |blob| hothouse_timeline::read_blob(folder.path(), blob));
    let entries = har["log"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["request"]["url"], "https://a.example/x?q=1&r");
    assert_eq!(entries[0]["request"]["queryString"][1], json!({ "name": "r", "value": "" }));
    assert_eq!(entries[0]["request"]["postData"]["text"], "hi");
    assert_eq!(entries[0]["response"]["content"]["encoding"], "base64");
    assert_eq!(entries[0]["response"]["content"]["size"], 9);
}
