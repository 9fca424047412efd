//! Feature flags: from the worktree's config, with values that each run has pinned.
//!
//! The pins of a run are in `flags.json` of its artifacts, which is replaced atomically before a
//! pin is acknowledged.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_engine::Engine;
use hothouse_host::files;
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    config::MailFault,
    flag::{self, FLAG_LIMIT, FlagSet, KEY_LIMIT, VALUE_LIMIT},
    record::{Draft, bodies::FlagBody, is_shallow},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timelines;

/// Where a run keeps its flags.
const FILE: &str = "flags.json";

/// The maximum size of that file.
const FILE_MOST: u64 = 128 << 20;

/// How often the worktree's config is read.
const LOOK: Duration = Duration::from_secs(1);

/// A line of the file, and of `flags --json`.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Value,
    default: Value,
    pinned: bool,
}

/// Recently read state of a sandbox.
struct Known {
    run: String,
    looked: Instant,
    set: Arc<FlagSet>,
}

/// The flags of all sandboxes.
pub struct Flags {
    engine: Arc<Engine>,
    timelines: Arc<Timelines>,
    known: Mutex<HashMap<String, Known>>,
    /// Ensures one pin at a time.
    pinning: Mutex<()>,
}

impl Flags {
    pub(crate) fn new(engine: Arc<Engine>, timelines: Arc<Timelines>) -> Arc<Self> {
        let (known, pinning) = (Mutex::default(), Mutex::default());
        Arc::new(Self { engine, timelines, known, pinning })
    }

    /// Returns the flags of a sandbox, as apps see them.
    pub fn of(&self, sandbox: &SandboxRecord) -> Arc<FlagSet> {
        let (id, run) = (sandbox.id.to_string(), run_of(sandbox));
        if let Some(known) = self.known().get(&id)
            && known.run == run
            && known.looked.elapsed() < LOOK
        {
            return known.set.clone();
        }
        let set = Arc::new(self.read(sandbox));
        self.known().insert(id, Known { run, looked: Instant::now(), set: set.clone() });
        set
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the faults that the config injects into the mail of a sandbox.
    pub(crate) fn mail_faults(&self, sandbox: &SandboxRecord) -> Vec<MailFault> {
        self.engine.mail_faults(sandbox)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, sandbox: &SandboxRecord) -> FlagSet {
        let pins = file_of(sandbox).map(|path| pins(&path)).unwrap_or_default();
        flag::effective(&self.config(sandbox), &pins)
    }

    fn config(&self, sandbox: &SandboxRecord) -> BTreeMap<String, Value> {
        let flags = self.engine.flags(sandbox).unwrap_or_default();
        flags.into_iter().map(|(key, value)| (key.into(), value)).collect()
    }

    /// Pins a flag for the current run of a sandbox, or unpins it; returns all flags.
    pub fn pin(
        &self,
        sandbox: &SandboxRecord,
        key: &str,
        value: Option<Value>,
        now: Timestamp,
    ) -> Result<Arc<FlagSet>, Failure> {
        check(key, value.as_ref())?;
        let _one = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = file_of(sandbox) else {
            let failure =
                Failure::new(FailureKind::Conflict, format!("`{}` is not up", sandbox.name));
            return Err(failure.hint(format!("start it with `hothouse up -w {}`", sandbox.name)));
        };
        let before = pins(&path);
        let mut after = before.clone();
        match value {
            Some(value) => drop(after.insert(key.to_owned(), value)),
            None if after.remove(key).is_none() => return Err(not_pinned(key)),
            None => {}
        }
        if after.len() > FLAG_LIMIT {
            let message = format!("a sandbox can pin at most {FLAG_LIMIT} flags");
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let config = self.config(sandbox);
        let set = flag::effective(&config, &after);
        keep(&path, &set)?;
        if let Err(failure) = self.timelines.append_now(sandbox, draft(key, &set, now)) {
            // A pin that is not on the timeline is reverted.
            keep(&path, &flag::effective(&config, &before))?;
            return Err(failure);
        }
        self.known().remove(&sandbox.id.to_string());
        Ok(Arc::new(set))
    }
}

impl Flags {
    /// Writes the flags of a sandbox to the folder of its run, for queries after it is gone.
    pub fn write_down(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let _one = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        match file_of(sandbox) {
            Some(path) => keep(&path, &self.read(sandbox)),
            None => Ok(()),
        }
    }
}

fn run_of(sandbox: &SandboxRecord) -> String {
    sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default()
}

fn file_of(sandbox: &SandboxRecord) -> Option<PathBuf> {
    sandbox.room.as_ref().map(|room| room.run.artifacts.join(FILE))
}

fn check(key: &str, value: Option<&Value>) -> Result<(), Failure> {
    if !flag::is_key(key) {
        let shown: String = key.chars().take(80).collect();
        let failure = Failure::new(FailureKind::Usage, format!("`{shown}` is not a key of a flag"));
        let hint = format!("a key has at most {KEY_LIMIT} bytes and no control characters");
        return Err(failure.hint(hint));
    }
    let fits = |value: &Value| is_shallow(value) && value.to_string().len() <= VALUE_LIMIT;
    if value.is_some_and(|value| !fits(value)) {
        let message = format!("the value of a flag has at most {VALUE_LIMIT} bytes");
        return Err(Failure::new(FailureKind::Usage, message));
    }
    Ok(())
}

fn not_pinned(key: &str) -> Failure {
    let failure = Failure::new(FailureKind::NotFound, format!("flag `{key}` is not pinned"));
    failure.hint("`hothouse flags` lists the flags of a sandbox")
}

fn draft(key: &str, set: &FlagSet, now: Timestamp) -> Draft {
    let flag = set.get(key).cloned().unwrap_or_default();
    let summary = match flag.pinned {
        true => format!("{key} pinned to {}", flag.value),
        false => format!("{key} no longer pinned"),
    };
    let (key, vendor) = (key.to_owned(), None);
    let body =
        FlagBody { key, value: flag.value, default: flag.default, pinned: flag.pinned, vendor };
    Draft::of(now, summary, &body)
}

/// Reads the pins of a run.
fn pins(path: &Path) -> BTreeMap<String, Value> {
    let bytes = match files::read_capped(path, FILE_MOST) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return BTreeMap::new(),
        Err(error) => {
            tracing::warn!(%error, "the flags of a run cannot be read");
            return BTreeMap::new();
        }
    };
    let lines: Vec<Line> = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, "the flags of a run are broken");
        Vec::new()
    });
    lines.into_iter().filter(|line| line.pinned).map(|line| (line.key, line.value)).collect()
}

fn keep(path: &Path, set: &FlagSet) -> Result<(), Failure> {
    let lines: Vec<Line> = set
        .iter()
        .map(|(key, flag)| Line {
            key: key.clone(),
            value: flag.value.clone(),
            default: flag.default.clone(),
            pinned: flag.pinned,
        })
        .collect();
    let text = serde_json::to_string_pretty(&lines).expect("lines have text as keys");
    if files::read_capped(path, FILE_MOST).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    files::replace(path, text.as_bytes(), 0o600)
        .map_err(|error| Failure::of(FailureKind::Host, &error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_is_read_again_without_what_the_config_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(pins(&path), BTreeMap::new());
        let config = BTreeMap::from([("a".to_owned(), json!(1)), ("b".to_owned(), json!(2))]);
        let pinned = BTreeMap::from([("b".to_owned(), json!({ "x": [true] }))]);
        keep(&path, &flag::effective(&config, &pinned)).unwrap();
        assert_eq!(pins(&path), pinned);
        files::write(&path, "[{").unwrap();
        assert_eq!(pins(&path), BTreeMap::new());
    }

    #[test]
    fn keys_and_values_are_bounded() {
        assert!(check("new-ui", Some(&json!("x"))).is_ok());
        let long = "x".repeat(VALUE_LIMIT);
        for (key, value) in [("", json!(1)), ("a\nb", json!(1)), ("a", json!(long))] {
            assert!(check(key, Some(&value)).is_err(), "{key}");
        }
        assert!(check(&"k".repeat(KEY_LIMIT + 1), None).is_err());
    }
}
