//! The state of a mock: one flat map, changed by drafts that apply completely or not at all.
//!
//! Each change increments the revision, so that the caller can store the state before it answers;
//! [`State::take_changes`] returns only the changes, for when the whole would be too much.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum number of entries of one mock.
pub const MAX_ENTRIES: usize = 20_000;

/// The maximum size of one mock in bytes, keys and values as JSON.
pub const MAX_BYTES: usize = 16 << 20;

/// Everything that is kept between calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    revision: u64,
    entries: BTreeMap<String, Value>,
    #[serde(skip)]
    bytes: usize,
    #[serde(skip)]
    changed: BTreeSet<String>,
}

/// An entry that was set, or removed (`None`).
pub type Change = (String, Option<Value>);

/// A state that would exceed its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl State {
    /// Parses a state from the output of [`State::to_value`].
    pub fn from_value(value: Value) -> Result<Self, serde_json::Error> {
        let mut state: Self = serde_json::from_value(value)?;
        state.bytes = state.entries.iter().map(|(key, value)| size(key, value)).sum();
        Ok(state)
    }

    /// Returns the state as one value.
    pub fn to_value(&self) -> Value {
        serde_json::json!({ "revision": self.revision, "entries": self.entries })
    }

    /// Returns a number that grows with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Applies stored changes again.
    pub fn replay(&mut self, revision: u64, changes: impl IntoIterator<Item = Change>) {
        for (key, value) in changes {
            let old = match value {
                Some(value) => {
                    self.bytes += size(&key, &value);
                    self.entries.insert(key.clone(), value)
                }
                None => self.entries.remove(&key),
            };
            self.bytes -= old.map_or(0, |old| size(&key, &old));
        }
        self.revision = revision;
    }

    /// Returns what has changed since the last call, for callers that store entries one by one.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let keys = std::mem::take(&mut self.changed);
        keys.into_iter().map(|key| (key.clone(), self.entries.get(&key).cloned())).collect()
    }

    /// Applies a draft completely, or not at all.
    fn apply(&mut self, changes: BTreeMap<String, Option<Value>>) -> Result<(), Full> {
        if changes.is_empty() {
            return Ok(());
        }
        let (mut bytes, mut count) = (self.bytes, self.entries.len());
        for (key, value) in &changes {
            if let Some(old) = self.entries.get(key) {
                bytes -= size(key, old);
                count -= 1;
            }
            if let Some(new) = value {
                bytes += size(key, new);
                count += 1;
            }
        }
        // A change that shrinks the state is always accepted.
        if bytes > MAX_BYTES.max(self.bytes) || count > MAX_ENTRIES.max(self.entries.len()) {
            return Err(Full);
        }
        for (key, value) in changes {
            self.changed.insert(key.clone());
            match value {
                Some(value) => self.entries.insert(key, value),
                None => self.entries.remove(&key),
            };
        }
        self.bytes = bytes;
        self.revision += 1;
        Ok(())
    }
}

fn size(key: &str, value: &Value) -> usize {
    key.len() + weight(value)
}

/// Estimates the size of a value without serializing it.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 24,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 24,
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| key.len() + 32 + weight(value)).sum::<usize>() + 24
        }
        _ => 16,
    }
}

/// Uncommitted changes to a state. Keys are below the name of one integration.
#[derive(Debug)]
pub struct Draft<'a> {
    state: &'a mut State,
    scope: &'a str,
    seed: u64,
    changes: BTreeMap<String, Option<Value>>,
}

impl<'a> Draft<'a> {
    /// Starts a draft for an integration; two runs with the same `seed` generate the same ids.
    pub fn new(state: &'a mut State, scope: &'a str, seed: u64) -> Self {
        Self { state, scope, seed, changes: BTreeMap::new() }
    }

    fn full(&self, key: &str) -> String {
        format!("{}/{key}", self.scope)
    }

    /// Returns an entry.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let key = self.full(key);
        match self.changes.get(&key) {
            Some(changed) => changed.as_ref(),
            None => self.state.entries.get(&key),
        }
    }

    /// Sets an entry.
    pub fn put(&mut self, key: &str, value: Value) {
        self.changes.insert(self.full(key), Some(value));
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &str) {
        self.changes.insert(self.full(key), None);
    }

    /// Returns the entries whose key starts with a prefix.
    pub fn scan<'s>(&'s self, prefix: &str) -> impl Iterator<Item = &'s Value> + use<'s, 'a> {
        let prefix = self.full(prefix);
        let end = prefix.clone();
        let old = self.state.entries.range(prefix.clone()..);
        let old = old.take_while(move |(key, _)| key.starts_with(&end));
        let old = old.filter(|(key, _)| !self.changes.contains_key(*key)).map(|(_, value)| value);
        let end = prefix.clone();
        let new = self.changes.range(prefix..).take_while(move |(key, _)| key.starts_with(&end));
        old.chain(new.filter_map(|(_, value)| value.as_ref()))
    }

    /// Increments a counter and returns it; the first value is 1.
    pub fn count(&mut self, name: &str) -> u64 {
        let key = format!("counter/{name}");
        let next = self.get(&key).and_then(Value::as_u64).unwrap_or(0).saturating_add(1);
        self.put(&key, next.into());
        next
    }

    /// Returns the id for a number: `length` letters and digits after the prefix.
    ///
    /// It is derived from the seed, so two runs that do the same have the same ids.
    pub fn id(&self, prefix: &str, number: u64, length: usize) -> String {
        const LETTERS: &[u8; 62] =
            b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut dice = self.dice(prefix, number);
        let letter = |_| char::from(LETTERS[usize::try_from(dice.roll() % 62).unwrap_or(0)]);
        prefix.chars().chain((0..length).map(letter)).collect()
    }

    /// Returns `length` hexadecimal digits for a number.
    pub fn hex(&self, prefix: &str, number: u64, length: usize) -> String {
        let mut dice = self.dice(prefix, number);
        let digit = |_| char::from_digit(u32::try_from(dice.roll() % 16).unwrap_or(0), 16);
        (0..length).filter_map(digit).collect()
    }

    fn dice(&self, prefix: &str, number: u64) -> Dice {
        let scope = hothouse_model::id::fnv1a(&[self.scope.as_bytes(), prefix.as_bytes()]);
        Dice(self.seed ^ scope.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Discards all changes.
    pub fn reset(&mut self) {
        self.changes.clear();
    }

    /// Applies the changes, all or none.
    pub fn commit(self) -> Result<(), Full> {
        self.state.apply(self.changes)
    }
}

/// SplitMix64: mixes numbers; not cryptographic, and need not be.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 3
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_draft_that_is_dropped_changes_nothing() {
        let mut state = State::default();
        let mut draft = Draft::new(&mut state, "stripe", 1);
        assert_eq!(draft.count("a"), 1);
        assert_eq!(draft.count("a"), 2);
        drop(draft);
        assert_eq!(state.revision(), 0);
        let mut draft = Draft::new(&mut state, "stripe", 1);
        draft.put("x/1", json!(1));
        draft.put("x/2", json!(2));
        draft.commit().unwrap();
        let mut draft = Draft::new(&mut state, "stripe", 1);
        draft.remove("x/1");
        assert_eq!(draft.scan("x/").collect::<Vec<_>>(), [&json!(2)]);
        draft.commit().unwrap();
        assert_eq!(state.revision(), 2);
        assert_eq!(
            state.take_changes(),
            [("stripe/x/1".to_owned(), None), ("stripe/x/2".to_owned(), Some(json!(2)))]
        );
        assert!(state.take_changes().is_empty());
        let mut other = State::default();
        other.replay(1, [("stripe/x/1".to_owned(), Some(json!(1)))]);
        other.replay(
            2,
            [("stripe/x/1".to_owned(), None), ("stripe/x/2".to_owned(), Some(json!(2)))],
        );
        assert_eq!((other.bytes, other.to_value()), (state.bytes, state.to_value()));
        let again = State::from_value(state.to_value()).unwrap();
        assert_eq!((again.bytes, again.to_value()), (state.bytes, state.to_value()));
    }

    #[test]
    fn a_state_has_bounds() {
        let mut state = State::default();
        let mut draft = Draft::new(&mut state, "a", 1);
        draft.put("big", json!("x".repeat(MAX_BYTES)));
        assert_eq!(draft.commit(), Err(Full));
        let mut draft = Draft::new(&mut state, "a", 1);
        (0..=MAX_ENTRIES).for_each(|number| draft.put(&number.to_string(), json!(1)));
        assert_eq!(draft.commit(), Err(Full));
        assert_eq!(state.revision(), 0);
    }

    #[test]
    fn ids_follow_from_the_seed() {
        let mut state = State::default();
        let mut ids = |seed, number| Draft::new(&mut state, "s", seed).id("cus_", number, 14);
        assert_eq!(ids(1, 1), ids(1, 1));
        assert_ne!(ids(1, 1), ids(2, 1));
        assert_ne!(ids(1, 1), ids(1, 2));
        assert_eq!(ids(1, 1).len(), 18);
    }
}
