//! Issues that the base has as well: what was reported while a sandbox was as its base is.
//!
//! One file per repository and commit in the state folder, an id per line. Sandboxes of the same base look there whether
//! an issue is new.

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

/// The folder in the state folder.
const FOLDER: &str = "base-issues";

/// How often it is checked whether a sandbox is as its base is.
const LOOK: Duration = Duration::from_secs(5);

/// The most that is read of a file, and how many issues it may have.
const FILE_MOST: u64 = 1 << 20;
const ISSUES: usize = 10_000;

/// The issues of a sandbox's base.
pub(super) struct BaseIssues {
    file: PathBuf,
    looked: Mutex<Option<(Instant, bool)>>,
}

impl BaseIssues {
    pub(super) fn of(state: &Path, sandbox: &SandboxRecord) -> Self {
        let place = sandbox.repository.common_dir.as_os_str().as_encoded_bytes();
        let commit: String =
            sandbox.base_commit.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        let file = state.join(FOLDER).join(format!("{:016x}-{commit}", fnv1a(&[place])));
        Self { file, looked: Mutex::default() }
    }

    /// Returns whether the base has an issue. What a sandbox reports that is as its base is, the base has from now on.
    pub(super) fn has(&self, engine: &Engine, sandbox: &SandboxRecord, issue: &str) -> bool {
        let known = self.known();
        if known.contains(issue) {
            // The sandbox that found it has it as new.
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
