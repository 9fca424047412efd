//! Kills the writer at any byte.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use hothouse_timeline::FILE;

use crate::{check, log, open, text, written};

/// Passes the folder to the child that is killed.
const CHILD: &str = "HOTHOUSE_TEST_TIMELINE";

const WRITES: usize = 10_000;
const THREADS: usize = 8;

/// Runs in a separate process: appends from several threads and prints what was acknowledged.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Some(folder) = env::var_os(CHILD) else { return };
    let (timeline, _) = open(Path::new(&folder));
    let (next, out) = (AtomicUsize::new(0), Mutex::new(std::io::stdout()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < WRITES {
                    let record = timeline.append(log("written")).unwrap();
                    let mut out = out.lock().unwrap();
                    writeln!(out, "acknowledged {} {}", record.seq, record.hash).unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn nothing_that_was_acknowledged_is_missing_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    // Killed after ever more acknowledgements, until all writes are done.
    for round in 0..4_usize {
        let me = env::current_exe().unwrap();
        let name = "crash::child_that_appends_until_it_is_killed";
        let mut child = Command::new(me)
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            let Some((_, said)) = line.split_once("acknowledged ") else { continue };
            acknowledged.push(said.to_owned());
            seen += 1;
            if round < 3 && seen == 700 * (round + 1) {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(acknowledged.len() >= WRITES + 4000, "{}", acknowledged.len());
    let (timeline, _) = open(folder.path());
    timeline.append(log("goes on")).unwrap();
    timeline.close();
    let found = check(folder.path(), &[]);
    assert!(found.ok, "{found:?}");
    let kept: std::collections::HashSet<String> = text(folder.path())
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", record["seq"], record["hash"].as_str().unwrap())
        })
        .collect();
    let missing = acknowledged.iter().filter(|said| !kept.contains(*said)).count();
    assert_eq!(missing, 0, "of {}", acknowledged.len());
}

#[test]
fn a_tail_that_is_torn_at_any_byte_is_cut_and_the_chain_continues() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 3);
    let whole = fs::read(folder.path().join(FILE)).unwrap();
    let last = 1 + whole[..whole.len() - 1].iter().rposition(|c| *c == b'\n').unwrap();
    for end in last..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), &whole[..end]).unwrap();
        let (timeline, recovery) = open(folder.path());
        let torn = if end == whole.len() { 0 } else { end - last };
        assert_eq!(recovery.cut_bytes, torn as u64, "cut at {end}");
        let record = timeline.append(log("goes on")).unwrap();
        let before = if end == whole.len() { 3 } else { 2 };
        assert_eq!(record.seq, before + u64::from(torn > 0) + 1);
        timeline.close();
        let found = check(folder.path(), &[]);
        assert!(found.ok && found.torn == 0, "{found:?}");
        assert_eq!(text(folder.path()).contains("\"gap\":\"recovered\""), torn > 0);
        if torn > 0 {
            let aside = fs::read(folder.path().join(".timeline/torn")).unwrap();
            assert_eq!(aside, &whole[last..end]);
        }
    }
}

#[test]
fn zeros_that_a_loss_of_power_left_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 3);
    let path = folder.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let (length, line) = (bytes.len(), text(folder.path()).lines().last().unwrap().to_owned());
    bytes.extend([0; 4096]);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    fs::write(&path, &bytes).unwrap();
    let (timeline, recovery) = open(folder.path());
    assert_eq!(recovery.cut_bytes, (bytes.len() - length) as u64);
    assert_eq!(recovery.records, 3);
    timeline.close();
    assert!(check(folder.path(), &[]).ok);
}

#[test]
fn a_line_that_was_damaged_stays_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 3);
    let damaged = text(folder.path()).replace("line 2", "line 9");
    fs::write(folder.path().join(FILE), damaged).unwrap();
    let (timeline, recovery) = open(folder.path());
    assert_eq!((recovery.cut_bytes, recovery.damaged_lines), (0, 1));
    assert_eq!(timeline.append(log("goes on")).unwrap().seq, 4);
    timeline.close();
    assert_eq!(check(folder.path(), &[]).broken_at, Some(3));
}
