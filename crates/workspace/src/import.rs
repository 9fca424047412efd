//! Imports an agent's commits into the user's repository without trusting any of their bytes.
//!
//! ```text
//! room: upload-pack --pipes, counted--> host: git fetch, every object checked
//!   refs/heads/*  ->  refs/hothouse/in/NAME/*      staging, removed at the end
//!   checked: no commit may touch the folder of the sandboxes
//!   BRANCH        ->  refs/heads/BRANCH            unless the user moved it
//!   BRANCH        ->  refs/heads/hothouse/NAME/head            if the user did
//!   other         ->  refs/heads/hothouse/NAME/other
//! then the host's index of the worktree follows, with submodules marked as skipped
//! ```
//!
//! upload-pack runs in the room: run by the host in the agent's git directory, it would follow
//! planted alternates and links to other repositories. Every step can be repeated after a crash;
//! the caller stores the returned tip, and passes it as `known` the next time.

mod follow;
mod refs;
mod staged;

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use hothouse_host::{
    FileError, Lock, Program, RunError, files,
    relay::{Pipes, RelayEnd, relay},
};
use hothouse_model::{Explain, FailureKind, SandboxName};

pub use self::{
    follow::IndexOutcome,
    staged::{StagedCommits, Version, Versions},
};
use crate::{
    Repository, WorktreeError, git,
    pack_stream::{PackWatch, Refused, Stall},
};

/// The time limit of a fetch.
const FETCH_LIMIT: Duration = Duration::from_secs(600);
/// How long the git in a room may be silent. A real one sends something every five seconds while it
/// packs (`uploadpack.keepAlive`), but the agent may have replaced it.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// How long the git in a room may send something other than pack data. A real one may count and
/// compress for a while; one that is blocked on a pipe in its folder sends keep-alives forever.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// The maximum number of branches imported at once.
pub const BRANCH_LIMIT: usize = 256;

/// What to import, and how to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    pub sandbox: &'a SandboxName,
    /// The sandbox's branch, in the room and in the user's repository.
    pub branch: &'a str,
    pub worktree: &'a Path,
    /// The tip that the last import returned, or the commit of the fork.
    pub known: &'a str,
    /// The maximum number of bytes read from the room.
    pub limit: u64,
    /// The memory limit of the git that reads them: a few hundred bytes can expand to gigabytes.
    pub memory: u64,
    /// The maximum number of objects in one import: each costs time and space forever.
    pub objects: u32,
    /// The maximum length of delta chains: reading the last object reconstructs all before it.
    pub depth: u32,
    /// Which of the agent's branches to import.
    pub wanted: Wanted<'a>,
    /// Paths in the user's checkout that contain sandboxes. No commit may touch them: once merged,
    /// it would make the checkout's own `git status` enter a repository created by an agent.
    pub reserved: &'a [PathBuf],
}

/// Which branches of an agent are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    All,
    /// A single branch, after git refused all of them together.
    Only(&'a str),
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The tip of the sandbox's branch in the room, to be passed as `known` the next time.
    pub tip: String,
    pub branch: BranchOutcome,
    pub index: IndexOutcome,
    /// The agent's other branches, by their names in the user's repository.
    pub others: Vec<String>,
    /// The agent's branches whose names are not allowed there.
    pub left_out: Vec<String>,
}

/// What happened to the sandbox's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchOutcome {
    Unchanged,
    Updated {
        from: String,
    },
    /// The user has moved it: it stays, and the agent's tip is on another branch.
    UserMoved {
        user: String,
        agent_branch: String,
    },
    /// The user has removed it: the agent's tip is on another branch.
    UserRemoved {
        agent_branch: String,
    },
    /// The agent has removed or renamed it: the user's stays.
    AgentRemoved,
}

/// An import that failed. Either nothing of it is visible, or the next import completes it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("fetch the commits of `{sandbox}`")]
    Fetch {
        sandbox: SandboxName,
        #[source]
        source: RunError,
    },
    #[error("the commits of `{sandbox}` are more than {limit} bytes")]
    TooLarge { sandbox: SandboxName, limit: u64 },
    #[error(
        "the commits of `{sandbox}` need more than {} MiB of memory to be read", .limit >> 20
    )]
    TooMuchMemory { sandbox: SandboxName, limit: u64 },
    #[error("the commits of `{sandbox}` bring more than {limit} objects")]
    TooManyObjects { sandbox: SandboxName, limit: u32 },
    #[error(
        "the commits of `{sandbox}` are packed in chains of more than {limit} deltas, and could not be packed again"
    )]
    TooDeep {
        sandbox: SandboxName,
        limit: u32,
        #[source]
        source: RunError,
    },
    #[error("read the packs that hold the commits of `{sandbox}`")]
    Packs {
        sandbox: SandboxName,
        #[source]
        source: io::Error,
    },
    #[error("the git in the room of `{sandbox}` does not speak git's protocol")]
    Malformed { sandbox: SandboxName },
    #[error("the history of `{sandbox}` is cut short in its room")]
    CutShort { sandbox: SandboxName },
    #[error("the git in the room of `{sandbox}` does not answer")]
    Silent { sandbox: SandboxName },
    #[error("fetch from the git in the room of `{sandbox}`")]
    Relay {
        sandbox: SandboxName,
        #[source]
        source: io::Error,
    },
    #[error(
        "commit {commit} of `{sandbox}` has files in `{}`, where your checkout keeps its sandboxes",
        .path.display()
    )]
    Reserved { sandbox: SandboxName, commit: String, path: PathBuf },
    #[error("check the commits of `{sandbox}`")]
    Look {
        sandbox: SandboxName,
        #[source]
        source: RunError,
    },
    #[error("`{sandbox}` has more than {BRANCH_LIMIT} branches")]
    TooManyBranches { sandbox: SandboxName },
    #[error("import the branches of `{sandbox}`")]
    Refs {
        sandbox: SandboxName,
        #[source]
        source: RunError,
    },
    #[error("bring the index of {} up to date", .worktree.display())]
    Index {
        worktree: PathBuf,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    Worktree(Box<WorktreeError>),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for ImportError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::TooManyBranches { .. }
            | Self::TooLarge { .. }
            | Self::TooMuchMemory { .. }
            | Self::TooManyObjects { .. }
            | Self::TooDeep { .. }
            | Self::CutShort { .. }
            | Self::Reserved { .. } => FailureKind::Conflict,
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Fetch { source, .. }
            | Self::Look { source, .. }
            | Self::Refs { source, .. }
            | Self::Index { source, .. } => source.hints(),
            Self::Reserved { sandbox, path, .. } => vec![format!(
                "remove it from the commits: `hothouse exec -w {sandbox} -- git rm -r --cached {}`, and amend or rebase",
                path.display()
            )],
            Self::TooManyBranches { sandbox } => {
                vec![format!("delete some: `hothouse exec -w {sandbox} -- git branch -D …`")]
            }
            Self::TooLarge { .. } => {
                vec!["remove large files from the commits, or raise the limit".into()]
            }
            Self::TooManyObjects { .. } => {
                vec!["commit fewer files, or what they are made from instead of them".into()]
            }
            Self::TooMuchMemory { .. } => {
                vec!["take what is large, or very deeply packed, out of the commits".into()]
            }
            Self::TooDeep { sandbox, .. } => {
                vec![format!("pack them again: `hothouse exec -w {sandbox} -- git repack -adF`")]
            }
            Self::CutShort { sandbox } => vec![format!(
                "complete it: `hothouse exec -w {sandbox} -- git fetch --unshallow`; a file `shallow` in the room's git folder that cuts nothing off can be removed"
            )],
            Self::Silent { sandbox } | Self::Malformed { sandbox } => {
                vec![format!("see its state: `hothouse exec -w {sandbox} -- git log -1`")]
            }
            Self::Relay { .. } | Self::Packs { .. } => Vec::new(),
            Self::Worktree(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

impl Repository {
    /// Returns the command that serves the commits of a room's git directory when run in the room.
    ///
    /// A `shallow` file in that folder would keep git from serving what depends on the listed
    /// commits, so it is used only if the user's own repository is shallow. Commits whose parents
    /// are really missing are refused with that reason. The option applies to this git, the
    /// variable to the one that it starts for packing: a pipe with that name would block it.
    pub fn offer(&self, git_dir: &Path) -> Vec<OsString> {
        let is_cut_short = files::exists(&self.place.common_dir.join("shallow"));
        let whole: &[&str] = match is_cut_short {
            true => &["git"],
            false => &["env", "GIT_SHALLOW_FILE=", "git", "--shallow-file", ""],
        };
        let words = whole.iter().chain(&["upload-pack", "--timeout=120"]);
        words.map(OsString::from).chain([git_dir.into()]).collect()
    }

    /// Imports an agent's commits. `room` is connected to a `git upload-pack` that runs in the
    /// room, on the room's git directory; `own` is a lock that excludes other imports of the same
    /// sandbox.
    ///
    /// `look` inspects the fetched commits before any branch is moved. If it fails, none is moved.
    ///
    /// `shared` takes the repository's lock. It is held while branches are moved, but not while
    /// waiting for the room or reading its files: an agent could delay that, and others need the lock.
    pub fn import_commits(
        &self,
        own: &Lock,
        shared: impl FnOnce() -> Result<Lock, FileError>,
        import: &Import<'_>,
        room: Pipes,
        look: impl FnOnce(&StagedCommits<'_>) -> Result<(), ImportError>,
    ) -> Result<Imported, ImportError> {
        let refs = |source| ImportError::Refs { sandbox: import.sandbox.clone(), source };
        // The config of the worktree if there is one: an include may depend on its branch or folder.
        let admin = self.admin_dir(import.worktree)?;
        let git_dir = admin.as_deref().unwrap_or(&self.place.common_dir);
        let quiet = git::Config::of(git_dir).map_err(refs)?.quiet();
        let work = Work { repository: self, import, quiet, lock: own };
        work.clear_staging()?;
        let outcome = work.fetch(room).and_then(|()| {
            work.flatten()?;
            work.check_reserved()?;
            look(&StagedCommits(&work))?;
            let shared = shared()?;
            Work { lock: &shared, quiet: work.quiet.clone(), ..work }.take_over()
        });
        // Even after a failure, because staged refs keep unwanted objects alive.
        work.clear_staging()?;
        let imported = outcome?;
        if imported.index == IndexOutcome::Followed {
            work.refresh()?;
        }
        Ok(imported)
    }
}

/// Whether git or a process that it started ran out of memory.
fn is_out_of_memory(error: &RunError) -> bool {
    let RunError::Failed { said, .. } = error else { return false };
    let said = said.to_lowercase();
    ["out of memory", "cannot allocate memory", "malloc failed"]
        .iter()
        .any(|word| said.contains(word))
}

/// An import in progress.
struct Work<'a> {
    repository: &'a Repository,
    import: &'a Import<'a>,
    quiet: git::Quiet,
    lock: &'a Lock,
}

impl Work<'_> {
    /// Fetches through a socket pair, and counts the room's bytes on the way.
    fn fetch(&self, room: Pipes) -> Result<(), ImportError> {
        let about = |source| ImportError::Fetch { sandbox: self.import.sandbox.clone(), source };
        let relayed = |source| ImportError::Relay { sandbox: self.import.sandbox.clone(), source };
        let (ours, for_git) = UnixStream::pair().map_err(relayed)?;
        let git = self.fetch_command(for_git)?;
        let (mut watch, mut refused) = (PackWatch::new(self.import.objects), None);
        let mut stall = Stall::new(Instant::now(), STALL_LIMIT);
        let (fetched, end) = thread::scope(|scope| {
            let fetch = scope.spawn(|| git.output_within(FETCH_LIMIT));
            let end = relay(&ours, room, self.import.limit, SILENCE_LIMIT, &mut |part| {
                refused = watch.read(part).err();
                if stall.is_over(Instant::now(), watch.received()) {
                    refused = Some(Refused::Stalled);
                }
                refused.is_none()
            });
            // If git is still waiting for more, it gets the end of the stream.
            drop(ours);
            (fetch.join().expect("a fetch does not panic"), end)
        });
        match (fetched, end) {
            (Ok(_), _) => Ok(()),
            (Err(_), Ok(RelayEnd::OverLimit)) => Err(ImportError::TooLarge {
                sandbox: self.import.sandbox.clone(),
                limit: self.import.limit,
            }),
            (Err(_), Ok(RelayEnd::Silent)) => {
                Err(ImportError::Silent { sandbox: self.import.sandbox.clone() })
            }
            (Err(_), Ok(RelayEnd::Refused)) => Err(match refused {
                Some(Refused::TooMany) => ImportError::TooManyObjects {
                    sandbox: self.import.sandbox.clone(),
                    limit: self.import.objects,
                },
                Some(Refused::Stalled) => {
                    ImportError::Silent { sandbox: self.import.sandbox.clone() }
                }
                _ => ImportError::Malformed { sandbox: self.import.sandbox.clone() },
            }),
            (Err(source), Ok(RelayEnd::Closed)) if is_out_of_memory(&source) => {
                Err(ImportError::TooMuchMemory {
                    sandbox: self.import.sandbox.clone(),
                    limit: self.import.memory,
                })
            }
            (Err(source), Ok(RelayEnd::Closed)) => Err(about(source)),
            (Err(_), Err(source)) => Err(relayed(source)),
        }
    }

    fn fetch_command(&self, socket: UnixStream) -> Result<Program, ImportError> {
        let settings = [
            "fetch.fsckObjects=true",
            "transfer.fsckObjects=true",
            "transfer.bundleURI=false",
            "fetch.writeCommitGraph=false",
            "fetch.recurseSubmodules=false",
            // Each thread keeps its own objects in memory, and larger ones are not cached at all.
            "pack.threads=2",
            "core.deltaBaseCacheLimit=64m",
            "core.bigFileThreshold=64m",
        ];
        let git = self.git().args(settings.iter().flat_map(|setting| ["-c", setting]));
        let git = git.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="]);
        let git = git.args(["--no-auto-maintenance", "--no-recurse-submodules", "--no-prune"]);
        // Overrides the config. A server can name addresses of packs, which git would fetch unasked: with the user's
        // settings, from wherever this machine reaches.
        let git = git.env("GIT_ALLOW_PROTOCOL", "fd");
        let socket = OwnedFd::from(socket);
        // git-remote-fd(1): a server behind a descriptor that git inherits.
        let git = git.arg(format!("fd::{}", socket.as_raw_fd())).pass(socket);
        let name = match self.import.wanted {
            Wanted::All => "*",
            Wanted::Only(branch) => branch,
        };
        let git = git.arg(format!("+refs/heads/{name}:{}{name}", self.staging()));
        let git = git.memory(self.import.memory);
        Ok(git.stdin(self.lock.share_as_stdin()?))
    }

    /// Returns the ref namespace for fetched branches.
    fn staging(&self) -> String {
        format!("refs/hothouse/in/{}/", self.import.sandbox)
    }

    fn git(&self) -> Program {
        self.quiet.apply(self.repository.git())
    }
}
