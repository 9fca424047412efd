//! Stacks: the root file systems of rooms, built once and shared by all rooms.
//!
//! ```text
//! stacks/NAME.KEY.NONCE.new    being built; never used, removed by the next build
//! stacks/NAME.KEY.NONCE        complete: `stack.json`, and `layers` as a build room left them
//! ```
//!
//! A stack consists of the layers that a script wrote in a build room. They are mounted between the
//! base layer and the own layers of every room of that stack, read-only, so a room starts with them
//! instantly and cannot change them. The script runs as root of a room that has nothing of the
//! user's, and can only reach registries.

mod build;
mod image;
mod script;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hothouse_host::{FileError, Lock, files, hands};
use hothouse_images::{BadReference, ImageError};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, SandboxRecord,
    id::SandboxKey,
    room::{Capability, StackState},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::script::Recipe;
use crate::{Engine, project::ProjectError, run::StepError};

/// The host's own system, which rooms use without a stack.
pub(crate) const HOST: &str = "host";

/// The file that describes a stack; its presence marks the stack as complete.
const NOTE: &str = "stack.json";

/// The maximum size of that file.
const NOTE_LIMIT: u64 = 4 << 20;

/// The description of a built stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    name: String,
    source: String,
    /// Derived from all inputs.
    digest: String,
    built: Timestamp,
    bytes: u64,
    /// The folders of its parent stacks, uppermost first.
    #[serde(default)]
    below: Vec<String>,
    #[serde(default)]
    changes: StackChanges,
}

/// What a stack adds to its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackChanges {
    /// Packages of the distribution, with their versions.
    pub packages: Vec<String>,
    /// Programs on the search path.
    pub programs: Vec<String>,
}

/// A stack in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLine {
    pub name: String,
    pub source: String,
    pub state: StackState,
    pub digest: Option<String>,
    pub bytes: u64,
    pub built: Option<Timestamp>,
}

/// A user of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackUser {
    /// The room of a sandbox.
    Room(String),
    Stack(String),
}

impl std::fmt::Display for StackUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Room(name) => write!(f, "the room of `{name}`"),
            Self::Stack(name) => write!(f, "the stack `{name}`"),
        }
    }
}

/// A stack that is not available.
#[derive(Debug, thiserror::Error)]
pub enum RoomStackError {
    #[error("there is no stack `{name}`")]
    Unknown { name: String, known: Vec<String> },
    #[error("stack `{name}`: {source}")]
    Image { name: String, source: ImageError },
    #[error("stack `{name}`: {source}")]
    Reference { name: String, source: BadReference },
    #[error("stack `{name}`: {why}")]
    Devcontainer { name: String, why: String },
    #[error(
        "stack `{name}` needs rooms with several uids, and those of this user have a single one"
    )]
    SingleUid { name: String },
    #[error("could not build stack `{name}`: cannot reach {}", .addresses.join(", "))]
    Unreachable { name: String, addresses: Vec<String>, said: String },
    #[error("could not build stack `{name}`: its script ended with {code}")]
    Script { name: String, code: String, said: String },
    #[error("stack `{name}` is in use by {by}")]
    InUse { name: String, by: StackUser },
    #[error("stack `{name}` is not built")]
    NotBuilt { name: String },
    #[error("`{HOST}` is the system of this machine: it is neither built nor removed")]
    Host,
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Step(#[from] Box<StepError>),
    #[error(transparent)]
    File(#[from] FileError),
}

hothouse_model::explain! {
    RoomStackError passes on Project, Step, File;
    kind {
        Self::Unknown { .. } | Self::NotBuilt { .. } => FailureKind::NotFound,
        Self::Reference { .. } | Self::Devcontainer { .. } => FailureKind::Config,
        Self::Image { source, .. } => source.kind(),
        Self::SingleUid { .. } | Self::Unreachable { .. } | Self::Script { .. } => FailureKind::Host,
        Self::InUse { .. } => FailureKind::Conflict,
        Self::Host => FailureKind::Usage,
    }
    causes {
        Self::Unreachable { said, .. } | Self::Script { said, .. } if !said.is_empty() => vec![said.clone()],
    }
    hints {
        Self::Unknown { known, .. } => vec![
            format!("available: {}", known.join(", ")),
            "a script `stacks/NAME.sh` in the repository is one too; see docs/stacks.md".into(),
        ],
        Self::SingleUid { .. } => vec![
            "give this user a range in /etc/subuid and /etc/subgid; `hothouse doctor` shows how".into(),
        ],
        Self::Unreachable { name, .. } => vec![
            format!("once the address can be reached from this machine: `hothouse stack build {name}`"),
        ],
        Self::InUse { by: StackUser::Room(name), .. } => {
            vec![format!("stop it first: `hothouse down {name}`")]
        }
        Self::InUse { by: StackUser::Stack(name), .. } => {
            vec![format!("remove that first: `hothouse stack rm {name}`")]
        }
        Self::NotBuilt { name } => vec![format!("build it: `hothouse stack build {name}`")],
        Self::Image { source, .. } => source.hints(),
        Self::Script { name, .. } => {
            vec![format!("mend the script, then: `hothouse stack build {name}`")]
        }
        Self::Host => vec!["`hothouse stack list` shows those that are built".into()],
        Self::Reference { .. } | Self::Devcontainer { .. } => Vec::new(),
    }
}

impl From<StepError> for RoomStackError {
    fn from(error: StepError) -> Self {
        Self::Step(Box::new(error))
    }
}

/// Records for rooms in which stacks are being built. They are not in the database: if a daemon
/// dies, the next one ends the room.
#[derive(Debug, Default)]
pub(crate) struct Builders(Mutex<BTreeMap<i64, SandboxRecord>>);

impl Builders {
    fn add(&self, record: SandboxRecord) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(record.key.0, record);
    }

    fn remove(&self, key: SandboxKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.0);
    }

    pub(crate) fn find(&self, key: SandboxKey) -> Option<SandboxRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key.0).cloned()
    }
}

/// Whether an existing stack is built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    Yes,
    IfMissing,
}

impl Engine {
    fn stacks_folder(&self) -> PathBuf {
        self.with.repositories.with_file_name("stacks")
    }

    /// Lists the stacks that rooms of a repository can use, and other built ones.
    pub fn stacks(&self, folder: &Path) -> Result<Vec<StackLine>, Failure> {
        let list = || -> Result<Vec<StackLine>, RoomStackError> {
            let root = self.checkout_around(folder);
            let notes = self.notes()?;
            let mut lines = vec![StackLine {
                name: HOST.into(),
                source: "this machine".into(),
                state: StackState::Ready,
                digest: None,
                bytes: 0,
                built: None,
            }];
            let known = script::names(root.as_deref(), &self.user_stacks());
            let built = notes.iter().map(|(_, note)| note.name.clone());
            for name in known.into_iter().chain(built) {
                if !lines.iter().any(|line| line.name == name) {
                    lines.push(self.stack_line(name, root.as_deref(), &notes));
                }
            }
            Ok(lines)
        };
        list().map_err(|error| error.failure())
    }

    /// Returns the state of one stack, given all built ones.
    fn stack_line(
        &self,
        name: String,
        root: Option<&Path>,
        notes: &[(PathBuf, Note)],
    ) -> StackLine {
        let found = self.stack_recipe(&name, root);
        let wanted = found.as_ref().ok().map(|chain| script::digest(chain));
        let own = || notes.iter().map(|(_, note)| note).filter(|note| note.name == name);
        let current = own().rfind(|note| Some(&note.digest) == wanted.as_ref());
        let (state, note) = match (current, own().next_back()) {
            (Some(note), _) => (StackState::Ready, Some(note)),
            // A stack whose script is gone stays valid.
            (None, Some(note)) if found.is_err() => (StackState::Ready, Some(note)),
            (None, Some(note)) => (StackState::Outdated, Some(note)),
            (None, None) => (StackState::NotBuilt, None),
        };
        let source = found.ok().and_then(|chain| Some(chain.first()?.source()));
        StackLine {
            source: source.or_else(|| Some(note?.source.clone())).unwrap_or_default(),
            state,
            digest: note.map(|note| note.digest.clone()),
            bytes: note.map_or(0, |note| note.bytes),
            built: note.map(|note| note.built),
            name,
        }
    }

    /// Builds a stack, and its parents.
    pub fn build_stack(
        &self,
        name: &str,
        folder: &Path,
        rebuild: Rebuild,
        operation: &OperationId,
    ) -> Result<StackLine, Failure> {
        let root = self.checkout_around(folder);
        let built = || -> Result<(), RoomStackError> {
            if name == HOST {
                return Err(RoomStackError::Host);
            }
            self.ensure_stack(name, root.as_deref(), rebuild, Some(operation)).map(drop)
        };
        built().map_err(|error| error.failure())?;
        let lines = self.stacks(folder)?;
        let line = lines.into_iter().find(|line| line.name == name);
        line.ok_or_else(|| RoomStackError::NotBuilt { name: name.to_owned() }.failure())
    }

    /// Returns what a stack changed.
    pub fn stack_changes(&self, name: &str) -> Result<StackChanges, Failure> {
        let find = || -> Result<StackChanges, RoomStackError> {
            let note = self.notes()?.into_iter().rfind(|(_, note)| note.name == name);
            let not = || RoomStackError::NotBuilt { name: name.to_owned() };
            Ok(note.ok_or_else(not)?.1.changes)
        };
        find().map_err(|error| error.failure())
    }

    /// Removes the builds of a stack.
    pub fn remove_stack(&self, name: &str) -> Result<u64, Failure> {
        let remove = || -> Result<u64, RoomStackError> {
            if name == HOST {
                return Err(RoomStackError::Host);
            }
            let notes = self.notes()?;
            let own: Vec<_> = notes.iter().filter(|(_, note)| note.name == name).collect();
            if own.is_empty() {
                return Err(RoomStackError::NotBuilt { name: name.to_owned() });
            }
            for (folder, _) in &own {
                if let Some(by) = self.stack_user(folder, &notes) {
                    return Err(RoomStackError::InUse { name: name.to_owned(), by });
                }
            }
            let bytes = own.iter().map(|(_, note)| note.bytes).sum();
            for (folder, _) in own {
                discard(folder)?;
            }
            Ok(bytes)
        };
        remove().map_err(|error| error.failure())
    }

    /// Removes every stack. All rooms have ended.
    pub(crate) fn remove_stacks(&self) -> Result<(), FileError> {
        let folder = self.stacks_folder();
        for stack in files::list(&folder).unwrap_or_default() {
            hands::remove_tree(&stack)?;
        }
        match files::exists(&folder) {
            true => files::remove_tree(&folder),
            false => Ok(()),
        }
    }

    /// Removes builds that were replaced and that no room uses.
    pub(crate) fn prune_stacks(&self) -> Result<(), FileError> {
        let notes = self.notes()?;
        for (at, (folder, note)) in notes.iter().enumerate() {
            let later = notes[at + 1..].iter().any(|(_, other)| other.name == note.name);
            if later && self.stack_user(folder, &notes).is_none() {
                discard(folder)?;
            }
        }
        Ok(())
    }

    /// Returns what uses a stack: a sandbox's room, or another stack.
    fn stack_user(&self, folder: &Path, notes: &[(PathBuf, Note)]) -> Option<StackUser> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let above = notes.iter().find(|(_, note)| note.below.iter().any(|below| *below == name));
        if let Some((_, note)) = above {
            return Some(StackUser::Stack(note.name.clone()));
        }
        let layers = folder.join(build::LAYERS);
        let rooms = self.with.rooms.list(&self.with.runtime).unwrap_or_default();
        let mut using = rooms.iter().filter(|runtime| {
            self.with.rooms.wall(runtime).stack.contains(&layers)
                && self.with.rooms.look(runtime).is_some()
        });
        let runtime = using.next()?;
        let sandboxes = self.sandboxes().unwrap_or_default();
        let own = sandboxes.iter().find(|sandbox| self.places(sandbox).runtime == *runtime);
        let name = own.map(|sandbox| sandbox.name.to_string());
        Some(StackUser::Room(name.unwrap_or_else(|| "another".to_owned())))
    }

    /// Returns the layers of a stack, uppermost first, building missing ones.
    pub(crate) fn ensure_stack(
        &self,
        name: &str,
        root: Option<&Path>,
        rebuild: Rebuild,
        operation: Option<&OperationId>,
    ) -> Result<Vec<PathBuf>, RoomStackError> {
        if name == HOST {
            return Ok(Vec::new());
        }
        let chain = self.stack_recipe(name, root)?;
        if !self.capabilities().has(Capability::Root) {
            return Err(RoomStackError::SingleUid { name: name.to_owned() });
        }
        files::make_private_folder(&self.stacks_folder())?;
        let mut below: Vec<PathBuf> = Vec::new();
        // Lowest first.
        for at in (0..chain.len()).rev() {
            let recipe = &chain[at];
            let _lock = Lock::take(&self.stacks_folder().join(format!(".{}.lock", recipe.slug())))?;
            let digest = script::digest(&chain[at..]);
            let known = self
                .notes()?
                .into_iter()
                .rfind(|(_, note)| note.name == recipe.name && note.digest == digest);
            let folder = match known {
                // Only the requested stack is built again, not its parents.
                Some((folder, _)) if rebuild == Rebuild::IfMissing || at > 0 => folder,
                _ => self.build(recipe, &digest, &below, operation)?,
            };
            below.insert(0, folder);
        }
        self.prune_stacks()?;
        Ok(below.into_iter().map(|folder| folder.join(build::LAYERS)).collect())
    }

    /// Returns the recipes of a stack: itself, then its parents.
    fn stack_recipe(&self, name: &str, root: Option<&Path>) -> Result<Vec<Recipe>, RoomStackError> {
        script::chain(name, root, &self.user_stacks())
    }

    /// Returns the existing stacks, oldest first.
    fn notes(&self) -> Result<Vec<(PathBuf, Note)>, FileError> {
        let folder = self.stacks_folder();
        if !files::exists(&folder) {
            return Ok(Vec::new());
        }
        let mut notes = Vec::new();
        for path in files::list(&folder)? {
            let text = files::read_capped(&path.join(NOTE), NOTE_LIMIT).unwrap_or_default();
            let is_whole = path.extension().is_some_and(|end| end != "new");
            if let (true, Ok(note)) = (is_whole, serde_json::from_slice::<Note>(&text)) {
                notes.push((path, note));
            }
        }
        notes.sort_by_key(|(_, note)| note.built);
        Ok(notes)
    }

    /// Returns the folder of the user's own scripts.
    fn user_stacks(&self) -> PathBuf {
        self.with.user_config.with_file_name("stacks")
    }

    /// Returns the user's own checkout around a folder, never that of a sandbox.
    fn checkout_around(&self, folder: &Path) -> Option<PathBuf> {
        Some(self.repository_around(folder).ok()?.place.root)
    }

    /// Returns the stack of a sandbox: chosen by `fork --stack`, else from the approved config.
    pub fn stack_name(&self, sandbox: &SandboxRecord) -> String {
        let of_config = || self.pinned_config(sandbox).map(|config| config.room.stack.to_string());
        sandbox.stack.clone().unwrap_or_else(|| of_config().unwrap_or_else(|_| HOST.into()))
    }

    /// Fails if rooms cannot use a stack with this name.
    pub(crate) fn check_stack(&self, name: &str, root: &Path) -> Result<(), RoomStackError> {
        match name {
            HOST => Ok(()),
            name => self.stack_recipe(name, Some(root)).map(drop),
        }
    }
}

/// Removes an unused stack. Without its description it no longer counts as one.
fn discard(folder: &Path) -> Result<(), FileError> {
    files::remove_file(&folder.join(NOTE))?;
    hands::remove_tree(folder)
}
