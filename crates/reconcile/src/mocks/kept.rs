//! What a mock remembers, on the disk: a line for each change, and from time to time one line for all.
//!
//! A line is written before the answer that rests on it is sent, so a killed daemon loses none. It is not synced: a power
//! cut ends the room as well.

use std::{collections::BTreeMap, fs::File, io::Write, path::PathBuf};

use hothouse_host::{FileError, files};
use hothouse_mock::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most that is read; a mock bounds what it remembers to less.
const MOST: u64 = 128 << 20;

/// A file shorter than this is not written anew.
const LEAST: u64 = 1 << 20;

/// How many times as long as what is remembered a file becomes.
const FACTOR: u64 = 4;

/// A change of what is remembered.
#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    /// Whether nothing before it counts.
    #[serde(default)]
    whole: bool,
    set: BTreeMap<String, Option<Value>>,
}

/// The file of one run's mock.
pub(super) struct StateFile {
    path: PathBuf,
    file: Option<File>,
    /// How long it is; none if it must be written anew.
    length: Option<u64>,
}

impl StateFile {
    /// Opens the file, and returns what an earlier daemon kept in it.
    pub(super) fn open(path: PathBuf) -> (Self, State) {
        let bytes = match files::read_capped(&path, MOST) {
            Ok(bytes) => bytes,
            Err(error) => {
                if !error.is_not_found() {
                    tracing::warn!(%error, "what the mocks remembered cannot be read");
                }
                Vec::new()
            }
        };
        let mut state = State::default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // A line that was cut short was never acknowledged.
            let Ok(Line { revision, whole, set }) = serde_json::from_slice(line) else { continue };
            if whole {
                state = State::default();
            }
            state.replay(revision, set);
        }
        let is_sound = bytes.last().is_none_or(|last| *last == b'\n');
        let length = is_sound.then_some(bytes.len() as u64);
        (Self { path, file: None, length }, state)
    }

    /// Keeps what has changed.
    pub(super) fn keep(&mut self, state: &mut State) -> Result<(), FileError> {
        let kept = self.try_keep(state);
        if kept.is_err() {
            // What was to be written is missing in it.
            (self.file, self.length) = (None, None);
        }
        kept
    }

    fn try_keep(&mut self, state: &mut State) -> Result<(), FileError> {
        let set: BTreeMap<_, _> = state.take_changes().into_iter().collect();
        let line = text(&Line { revision: state.revision(), whole: false, set });
        let most = LEAST.max(FACTOR * state.bytes() as u64);
        let length = self.length.map(|length| length + line.len() as u64);
        let Some(length) = length.filter(|length| *length <= most) else {
            return self.write_anew(state);
        };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(files::open_append(&self.path)?),
        };
        let written = file.write_all(&line);
        self.length = Some(length);
        written.map_err(|source| FileError { attempt: "write", path: self.path.clone(), source })
    }

    fn write_anew(&mut self, state: &State) -> Result<(), FileError> {
        let Value::Object(entries) = state.to_value()["entries"].take() else { return Ok(()) };
        let set = entries.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let line = text(&Line { revision: state.revision(), whole: true, set });
        files::replace(&self.path, &line, 0o600)?;
        (self.file, self.length) = (None, Some(line.len() as u64));
        Ok(())
    }
}

fn text(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a line has text as keys");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use hothouse_mock::state::Draft;
    use serde_json::json;

    use super::*;

    fn put(state: &mut State, key: &str, value: Option<Value>) {
        let mut draft = Draft::new(state, "s", 1);
        match value {
            Some(value) => draft.put(key, value),
            None => draft.remove(key),
        }
        draft.commit().unwrap();
    }

    #[test]
    fn what_was_kept_is_found_again_also_after_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mock-state.jsonl");
        let (mut file, mut state) = StateFile::open(path.clone());
        for (key, value) in [("a", Some(json!(1))), ("b", Some(json!({ "x": 2 }))), ("a", None)] {
            put(&mut state, key, value);
            file.keep(&mut state).unwrap();
        }
        assert_eq!(StateFile::open(path.clone()).1.to_value(), state.to_value());
        files::open_append(&path).unwrap().write_all(b"{\"revision\":9,\"set\":{\"s/b").unwrap();
        let (mut file, mut again) = StateFile::open(path.clone());
        assert_eq!(again.to_value(), state.to_value());
        put(&mut again, "c", Some(json!(3)));
        file.keep(&mut again).unwrap();
        assert_eq!(StateFile::open(path).1.to_value(), again.to_value());
    }

    #[test]
    fn a_file_does_not_grow_with_the_number_of_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mock-state.jsonl");
        let (mut file, mut state) = StateFile::open(path.clone());
        for number in 0..300 {
            put(&mut state, "a", Some(json!([number, "x".repeat(10_000)])));
            file.keep(&mut state).unwrap();
        }
        assert!(files::size(&path).unwrap() <= LEAST);
        assert_eq!(StateFile::open(path).1.to_value(), state.to_value());
    }
}
