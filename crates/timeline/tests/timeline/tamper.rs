//! Every modification of the file is detected and reported.

use std::{fs, path::Path};

use hothouse_timeline::{Anchor, FILE, Timeline, genesis};

use crate::{Kept, RUN, check, log, order, text, written};

/// Modifies the lines of a timeline with six records and verifies it.
fn changed(change: impl FnOnce(&mut Vec<String>), anchors: &[Anchor]) -> (Option<u64>, String) {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 6);
    let mut lines: Vec<String> = text(folder.path()).lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(folder.path().join(FILE), lines.join("\n") + "\n").unwrap();
    let found = check(folder.path(), anchors);
    assert_eq!(found.ok, found.broken_at.is_none());
    (found.broken_at, found.why.unwrap_or_default())
}

#[test]
fn an_untouched_timeline_is_valid() {
    assert_eq!(changed(|_| {}, &[]), (None, String::new()));
}

#[test]
fn changed_removed_swapped_and_inserted_lines_are_named() {
    let broken = |change: fn(&mut Vec<String>)| changed(change, &[]);
    let change = broken(|lines| lines[2] = lines[2].replace("line 2", "line 9"));
    assert_eq!(change, (Some(3), "the record was changed".into()));
    let removed = broken(|lines| drop(lines.remove(2)));
    assert_eq!(removed, (Some(3), "record 3 was removed".into()));
    let removed = broken(|lines| drop(lines.drain(1..4)));
    assert_eq!(removed, (Some(2), "records 2 to 4 were removed".into()));
    let swapped = broken(|lines| lines.swap(2, 3));
    assert_eq!(swapped, (Some(3), "records 3 and 4 are swapped".into()));
    let twice = broken(|lines| lines.push(lines[5].clone()));
    assert_eq!(twice.0, Some(7));
    let junk = broken(|lines| lines.push("{}".into()));
    assert_eq!(junk, (Some(7), "the line is not a record".into()));
    let empty = broken(|lines| lines.insert(3, String::new()));
    assert_eq!(empty.0, Some(4));
    let long = broken(|lines| lines.insert(3, "x".repeat(2 << 20)));
    assert_eq!(long, (Some(4), "the line is longer than any record".into()));
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 3);
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() - 1 {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let found = check(folder.path(), &[]);
        let line = 1 + whole[..at].iter().filter(|c| **c == b'\n').count() as u64;
        assert!(!found.ok, "byte {at}");
        assert_eq!(found.broken_at, Some(line), "byte {at}");
    }
}

fn ended(folder: &Path, run: &str, count: usize) -> Vec<Anchor> {
    let kept = Kept::default();
    let (timeline, _) = Timeline::open(folder, order(run, &kept)).unwrap();
    (0..count).for_each(|at| drop(timeline.append(log(&format!("{at}"))).unwrap()));
    timeline.end();
    let kept = kept.lock().unwrap().clone();
    assert!(kept.last().unwrap().ended);
    kept
}

#[test]
fn a_chain_that_was_computed_again_differs_from_its_anchors() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let anchors = ended(folder.path(), RUN, 3);
    assert!(check(folder.path(), &anchors).ok);
    written(other.path(), 3);
    fs::copy(other.path().join(FILE), folder.path().join(FILE)).unwrap();
    assert!(check(folder.path(), &[]).ok, "by itself it is valid");
    let found = check(folder.path(), &anchors);
    assert_eq!(found.broken_at, Some(3));
}

#[test]
fn what_is_cut_off_or_appended_after_the_end_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let anchors = ended(folder.path(), RUN, 3);
    let whole = text(folder.path());
    let path = folder.path().join(FILE);
    let two: String = whole.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    fs::write(&path, two).unwrap();
    let found = check(folder.path(), &anchors);
    assert_eq!(found.broken_at, Some(3));
    assert!(found.why.unwrap().contains("record 3 was kept"));
    fs::remove_file(&path).unwrap();
    assert_eq!(check(folder.path(), &anchors).broken_at, Some(1));
    fs::write(&path, &whole).unwrap();
    drop(Timeline::open(folder.path(), order(RUN, &Kept::default())).unwrap().0.append(log("x")));
    let found = check(folder.path(), &anchors);
    assert_eq!(found.broken_at, Some(4));
    assert!(found.why.unwrap().contains("appended after the run ended"));
    fs::write(&path, whole + "torn").unwrap();
    assert_eq!(check(folder.path(), &anchors).broken_at, Some(4));
}

#[test]
fn a_timeline_of_another_run_is_not_valid_for_this_one() {
    let folder = tempfile::tempdir().unwrap();
    ended(folder.path(), "run_2", 2);
    assert_eq!(check(folder.path(), &[]).broken_at, Some(1));
    assert!(Timeline::open(folder.path(), order(RUN, &Kept::default())).is_err());
    assert_ne!(genesis("run_1"), genesis("run_2"));
}
