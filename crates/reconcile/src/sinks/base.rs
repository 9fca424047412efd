//! Known issues and events of a base commit, observed while a sandbox was unmodified.
//!
//! Two files per repository and commit in the state folder: one issue id per line, and the
//! properties of events. Sandboxes of the same base use them to decide whether an issue is new, and
//! what an event lost.

mod shape;

use std::{
    collections::HashSet,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_engine::Engine;
use hothouse_host::files;
use hothouse_model::{SandboxRecord, id::fnv1a};
use serde_json::Value;

use self::shape::Shapes;

/// The folder in the state folder.
const FOLDER: &str = "base-issues";
const EVENTS_FOLDER: &str = "base-events";

/// How often to check whether a sandbox is unmodified.
const LOOK: Duration = Duration::from_secs(5);

/// The size limit of a file, and the maximum number of issues.
const FILE_MOST: u64 = 1 << 20;
const ISSUES: usize = 10_000;

/// What is known of a sandbox's base.
pub(super) struct Base {
    file: PathBuf,
    events: PathBuf,
    looked: Mutex<Option<(Instant, bool)>>,
    /// The events as last read.
    shapes: Mutex<Option<(Instant, Shapes)>>,
}

impl Base {
    pub(super) fn of(state: &Path, sandbox: &SandboxRecord) -> Self {
        let place = sandbox.repository.common_dir.as_os_str().as_encoded_bytes();
        let commit: String =
            sandbox.base_commit.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        let name = format!("{:016x}-{commit}", fnv1a(&[place]));
        Self {
            file: state.join(FOLDER).join(&name),
            events: state.join(EVENTS_FOLDER).join(&name),
            looked: Mutex::default(),
            shapes: Mutex::default(),
        }
    }

    /// Marks on an analytics event what it lost and gained compared with the base. Events of an
    /// unmodified sandbox count as the base's.
    pub(super) fn compare_event(
        &self,
        engine: &Engine,
        sandbox: &SandboxRecord,
        event: &mut Value,
    ) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = shapes.as_ref().is_some_and(|(at, _)| at.elapsed() < LOOK);
        if !fresh {
            *shapes = Some((Instant::now(), self.read_events()));
        }
        let Some((_, known)) = shapes.as_mut() else { return };
        if !self.is_base(engine, sandbox) {
            return known.mark(event);
        }
        if known.note(event) {
            // Another sandbox of the same base may have added some meanwhile.
            known.merge(self.read_events());
            if let Err(error) = self.keep_events(known) {
                tracing::warn!(%error, "what events of the base have is not kept");
            }
        }
    }

    fn read_events(&self) -> Shapes {
        let bytes = files::read_capped(&self.events, FILE_MOST).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn keep_events(&self, shapes: &Shapes) -> Result<(), files::FileError> {
        files::make_private_folder(self.events.parent().unwrap_or(&self.events))?;
        let text = serde_json::to_vec(shapes).expect("plain values are JSON");
        files::write_quick(&self.events, &text, 0o600)
    }

    /// Whether the base has an issue. Issues of an unmodified sandbox count as the base's from now
    /// on.
    pub(super) fn has(&self, engine: &Engine, sandbox: &SandboxRecord, issue: &str) -> bool {
        let known = self.known();
        if known.contains(issue) {
            // For the sandbox that found it, it is new.
            return !self.is_base(engine, sandbox);
        }
        if self.is_base(engine, sandbox)
            && known.len() < ISSUES
            && let Err(error) = self.add(issue)
        {
            tracing::warn!(%error, "an issue of the base is not kept");
        }
        false
    }

    fn known(&self) -> HashSet<String> {
        let bytes = files::read_capped(&self.file, FILE_MOST).unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }

    fn add(&self, issue: &str) -> Result<(), files::FileError> {
        files::make_private_folder(self.file.parent().unwrap_or(&self.file))?;
        let mut file = files::open_append(&self.file)?;
        let failed =
            |source| files::FileError { attempt: "write", path: self.file.clone(), source };
        writeln!(file, "{issue}").map_err(failed)
    }

    fn is_base(&self, engine: &Engine, sandbox: &SandboxRecord) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = *looked
            && at.elapsed() < LOOK
        {
            return found;
        }
        let found = engine.is_as_base(sandbox);
        *looked = Some((Instant::now(), found));
        found
    }
}
