//! Records how long no daemon wrote a timeline: it was killed, or stopped for a newer one.
//!
//! Meanwhile the wall of the room was closed, so nothing can have left it. What happened inside was
//! not observed.

use std::path::Path;

use hothouse_host::files;
use hothouse_model::record::{Draft, bodies::GapKind};
use hothouse_timeline::gap;
use jiff::Timestamp;

/// The file with the last time that the timeline was being written, beside its index.
const FILE: &str = ".timeline/alive";

/// Records that the timeline of a folder is being written.
pub(super) fn note(folder: &Path, now: Timestamp) {
    // On failure the gap is reported without its length.
    files::write_quick(&folder.join(FILE), now.to_string().as_bytes(), 0o600).ok();
}

/// Drafts the gap record when a timeline with records is opened again.
pub(super) fn draft(folder: &Path, records: u64, now: Timestamp) -> Option<Draft> {
    let last = files::read_text(&folder.join(FILE)).ok();
    let last = last.and_then(|text| text.trim().parse::<Timestamp>().ok());
    (records > 0).then(|| since(last, now))
}

fn since(last: Option<Timestamp>, now: Timestamp) -> Draft {
    let seconds = last.map(|last| now.duration_since(last).as_secs().unsigned_abs() + 1);
    let span = seconds.map_or("a while".to_owned(), |seconds| format!("{seconds} s"));
    let text = format!(
        "no daemon ran for {span}: nothing could leave the room, and what happened in it was not seen"
    );
    gap(GapKind::Absent, seconds.unwrap_or(1), text, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_timeline_that_continues_has_an_absence_and_it_has_a_length() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".timeline")).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(draft(folder.path(), 0, at(5)), None);
        let summary = |now| draft(folder.path(), 3, now).unwrap().summary;
        assert!(summary(at(5)).starts_with("no daemon ran for a while: "));
        note(folder.path(), at(100));
        let found = draft(folder.path(), 3, at(107)).unwrap();
        assert!(found.summary.starts_with("no daemon ran for 8 s: "), "{}", found.summary);
        assert_eq!((&found.body["gap"], &found.body["count"]), (&"absent".into(), &8.into()));
    }
}
