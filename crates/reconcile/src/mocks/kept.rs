//! The state of a mock on disk: a line for each change, and from time to time one line for
//! everything.
//!
//! A line is on the disk before the response that depends on it is sent, so neither a killed daemon
//! nor a power cut loses what an app was told.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use hothouse_host::{FileError, files};
use hothouse_mock::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::durable::{DurableFile, Receipt};

/// The maximum size that is read; a mock limits its state to less.
const MOST: u64 = 128 << 20;

/// A file shorter than this is not compacted.
const LEAST: u64 = 1 << 20;

/// How many times larger than the state a file may become.
const FACTOR: u64 = 4;

/// A change of the state.
#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    /// Whether it replaces everything before it.
    #[serde(default)]
    whole: bool,
    set: BTreeMap<String, Option<Value>>,
}

/// The file of one run's mock.
pub(crate) struct StateFile {
    file: Arc<DurableFile>,
    /// The length of the file; `None` if it must be rewritten.
    length: Option<u64>,
}

impl StateFile {
    /// Opens the file, and returns the state that an earlier daemon stored.
    pub(crate) fn open(path: PathBuf) -> (Self, State) {
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
            // A truncated line was never acknowledged.
            let Ok(Line { revision, whole, set }) = serde_json::from_slice(line) else { continue };
            if whole {
                state = State::default();
            }
            state.replay(revision, set);
        }
        let is_sound = bytes.last().is_none_or(|last| *last == b'\n');
        let length = is_sound.then_some(bytes.len() as u64);
        (Self { file: DurableFile::new(path), length }, state)
    }

    /// Stores what has changed; durable after a wait on the receipt, if there is one.
    pub(crate) fn keep(&mut self, state: &mut State) -> Result<Option<Receipt>, FileError> {
        let kept = self.try_keep(state);
        if kept.is_err() {
            self.doubt();
        }
        kept
    }

    /// Forces a rewrite the next time, because a write may be missing.
    pub(crate) fn doubt(&mut self) {
        self.length = None;
    }

    fn try_keep(&mut self, state: &mut State) -> Result<Option<Receipt>, FileError> {
        let set: BTreeMap<_, _> = state.take_changes().into_iter().collect();
        let line = text(&Line { revision: state.revision(), whole: false, set });
        let most = LEAST.max(FACTOR * state.bytes() as u64);
        let length = self.length.map(|length| length + line.len() as u64);
        let Some(length) = length.filter(|length| *length <= most) else {
            self.write_again(state)?;
            return Ok(None);
        };
        let receipt = self.file.append(&line)?;
        self.length = Some(length);
        Ok(Some(receipt))
    }

    fn write_again(&mut self, state: &State) -> Result<(), FileError> {
        let Value::Object(entries) = state.to_value()["entries"].take() else { return Ok(()) };
        let set = entries.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let line = text(&Line { revision: state.revision(), whole: true, set });
        self.file.replace(&line)?;
        self.length = Some(line.len() as u64);
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
    use std::io::Write;

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

    fn keep(file: &mut StateFile, state: &mut State) {
        if let Some(receipt) = file.keep(state).unwrap() {
            receipt.wait().unwrap();
        }
    }

    #[test]
    fn what_was_kept_is_found_again_also_after_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mock-state.jsonl");
        let (mut file, mut state) = StateFile::open(path.clone());
        for (key, value) in [("a", Some(json!(1))), ("b", Some(json!({ "x": 2 }))), ("a", None)] {
            put(&mut state, key, value);
            keep(&mut file, &mut state);
        }
        assert_eq!(StateFile::open(path.clone()).1.to_value(), state.to_value());
        files::open_append(&path).unwrap().write_all(b"{\"revision\":9,\"set\":{\"s/b").unwrap();
        let (mut file, mut again) = StateFile::open(path.clone());
        assert_eq!(again.to_value(), state.to_value());
        put(&mut again, "c", Some(json!(3)));
        keep(&mut file, &mut again);
        assert_eq!(StateFile::open(path).1.to_value(), again.to_value());
    }

    #[test]
    fn a_file_does_not_grow_with_the_number_of_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mock-state.jsonl");
        let (mut file, mut state) = StateFile::open(path.clone());
        for number in 0..300 {
            put(&mut state, "a", Some(json!([number, "x".repeat(10_000)])));
            keep(&mut file, &mut state);
        }
        assert!(files::size(&path).unwrap() <= LEAST);
        assert_eq!(StateFile::open(path).1.to_value(), state.to_value());
    }
}
