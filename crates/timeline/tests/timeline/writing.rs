//! Drafts, acknowledgements and blobs.

use hothouse_model::record::{Draft, Kind, Process};
use hothouse_timeline::{AppendError, Timeline, read_blob};
use serde_json::{Value, json};

use crate::{Kept, RUN, at, check, log, open, order, text};

#[test]
fn what_is_written_is_what_the_appender_gets() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let mut draft = log("hello");
    draft.service = Some("worker".into());
    draft.process = Some(Process { room_pid: 7, command: "node".into() });
    draft.trace = Some("t".into());
    let record = timeline.append(draft).unwrap();
    let last = timeline.append(log("more")).unwrap();
    assert_eq!(last.prev, record.hash);
    let text = text(folder.path());
    let line = text.lines().next().unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), line);
    assert!(check(folder.path(), &[timeline.anchor()]).ok);
}

#[test]
fn drafts_that_no_line_can_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let deep = (0..10_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let deep = Value::Object([("a".to_owned(), deep)].into_iter().collect());
    let draft = |body| Draft::new(Kind::Log, at(0), "", body);
    assert!(matches!(timeline.append(draft(deep)), Err(AppendError::Deep)));
    let many: Vec<String> = (0..60_000).map(|at| format!("item number {at}")).collect();
    assert!(matches!(timeline.append(draft(json!({ "a": many }))), Err(AppendError::Long)));
    assert!(matches!(timeline.append(draft(json!([]))), Err(AppendError::Body)));
    let mut named = log("x");
    named.id = Some("mail_0123456789abcdef".into());
    assert!(matches!(timeline.append(named), Err(AppendError::Id(_))));
    let mut lines = log("two\nlines\u{7}");
    lines.id = Some(timeline.mint(Kind::Log));
    assert_eq!(timeline.append(lines).unwrap().summary, "two lines ");
    let long = timeline.append(log(&"ä".repeat(4000))).unwrap();
    assert!(long.summary.len() <= 500 && long.summary.ends_with('…'));
    assert_eq!(long.seq, 2, "what was refused has no number");
}

#[test]
fn no_key_reaches_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let body = json!({
        "host": "api.stripe.com", "path": "/v1/x?key=sk_test_123",
        "request": {
            "headers": [["authorization", "Basic c2tfdGVzdF8xMjM6"]],
            "text": "a=1&key=sk_test_123",
        },
    });
    let mut draft = Draft::new(Kind::Request, at(0), "POST with sk_test_123", body);
    draft.process = Some(Process { room_pid: 1, command: "curl -u sk_test_123:".into() });
    timeline.append(draft).unwrap();
    timeline.put_blob(Kind::Request, b"{\"key\":\"sk_test_123\"}", 1000).unwrap();
    timeline.close();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("sk_test_123"), "{}", path.display());
            assert!(!text.contains("c2tfdGVzdF8xMjM6"), "{}", path.display());
        }
    }
}

#[test]
fn blobs_are_kept_once_and_cut_with_their_length() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let blob = timeline.put_blob(Kind::Request, b"some bytes", 1000).unwrap();
    assert_eq!((blob.bytes, blob.kept), (10, 10));
    assert_eq!(blob.file, format!("blobs/{}/{}", &blob.sha256[..2], blob.sha256));
    assert_eq!(timeline.put_blob(Kind::Request, b"some bytes", 1000).unwrap(), blob);
    let cut = timeline.put_blob(Kind::Request, b"some bytes", 4).unwrap();
    assert_eq!((cut.bytes, cut.kept, &cut.sha256), (10, 4, &blob.sha256));
    assert_eq!(read_blob(folder.path(), &cut).unwrap(), b"some");
    timeline.append(log("names them")).unwrap();
    let path = folder.path().join(&blob.file);
    std::fs::write(&path, b"other byte").unwrap();
    assert_eq!(read_blob(folder.path(), &blob), None, "it is checked against its name");
    timeline.put_blob(Kind::Request, b"some bytes", 1000).unwrap();
    assert_eq!(read_blob(folder.path(), &blob).unwrap(), b"some bytes", "and mended");
    let mut escaping = blob;
    escaping.file = "../../etc/passwd".into();
    assert_eq!(read_blob(folder.path(), &escaping), None);
}

#[test]
fn files_of_a_record_are_all_there_or_none_and_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let files: [(&str, &[u8]); 2] =
        [("mail/a/text.txt", b"link?token=abc sk_test_123"), ("mail/a/parts/1.bin", b"\xff\x00")];
    timeline.put_files(Kind::Mail, files).unwrap();
    let text = std::fs::read_to_string(folder.path().join("mail/a/text.txt")).unwrap();
    assert!(text.contains("token=abc") && !text.contains("sk_test_123"), "{text}");
    assert_eq!(std::fs::read(folder.path().join("mail/a/parts/1.bin")).unwrap(), b"\xff\x00");
    timeline.append(log("names them")).unwrap();
    for outside in ["../x", "/tmp/x", "mail/../../x", "."] {
        let files: [(&str, &[u8]); 2] = [("mail/b/first", b"1"), (outside, b"2")];
        timeline.put_files(Kind::Mail, files).unwrap_err();
        assert!(!folder.path().join("mail/b").exists(), "{outside}");
    }
    timeline.append(log("nobody waits for what was taken back")).unwrap();
}

#[tokio::test]
async fn tasks_append_without_blocking_their_thread() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let timeline = std::sync::Arc::new(timeline);
    let tasks: Vec<_> = (0..200)
        .map(|at| {
            let timeline = timeline.clone();
            tokio::spawn(async move { timeline.append_async(log(&format!("{at}"))).await })
        })
        .collect();
    let mut seqs = Vec::new();
    for task in tasks {
        seqs.push(task.await.unwrap().unwrap().seq);
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
    assert!(check(folder.path(), &[]).ok);
}

#[test]
fn anchors_are_kept_on_the_way_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::default();
    let (timeline, _) = Timeline::open(folder.path(), order(RUN, &kept)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..150).for_each(|_| drop(timeline.append(log("x")).unwrap())));
        }
    });
    timeline.close();
    let anchors = kept.lock().unwrap().clone();
    assert!(anchors.len() >= 2, "{anchors:?}");
    assert_eq!(anchors.last().unwrap().seq, 2400);
    assert!(!anchors.last().unwrap().ended, "the run may go on");
    assert!(check(folder.path(), &anchors).ok);
}

#[test]
fn many_timelines_share_the_thread_that_indexes() {
    let folders: Vec<_> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
    let timelines: Vec<_> = folders.iter().map(|folder| open(folder.path()).0).collect();
    timelines.iter().for_each(|timeline| drop(timeline.append(log("hello")).unwrap()));
    let index = |folder: &tempfile::TempDir| folder.path().join(".timeline/views.json");
    while !folders.iter().all(|folder| index(folder).exists()) {
        std::thread::yield_now();
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    let names: Vec<String> = tasks.map(name).collect();
    assert_eq!(names.iter().filter(|name| name.trim() == "timeline-index").count(), 1, "{names:?}");
}
