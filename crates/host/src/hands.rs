//! Operations on trees whose files belong to ids of rooms instead of the user.
//!
//! Root works on them directly. An ordinary user with subordinate ids needs a user namespace that
//! maps these ids: this program is started under [`HANDS_ARGUMENT`], reads one [`Work`], does it in
//! such a namespace and answers. It keeps the user's identity, so the same folder permissions
//! apply, and it has power only over the user's files and those of the user's rooms. With a single
//! uid there are no such trees.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::{
    pipe::PipeFlags,
    process::{Pid, WaitOptions},
};
use serde::{Deserialize, Serialize};

use crate::{
    beneath::Folder,
    btrfs,
    command::bare,
    copy::{self, Content, Copied, Owners, Tree},
    files::{self, FileError, about},
    ids::{AGENT_ID, AGENT_INSIDE, Mode},
    owners::{self, Gift, Give, Owner},
    process, remove,
    sys::{self, Fork},
    usage::{self, Blocks, Usage},
    walls::{self, Wall},
};

/// The hidden subcommand under which a program must call [`hands_main`].
pub const HANDS_ARGUMENT: &str = "tree-hands";

/// The maximum size of an answer.
const ANSWER_LIMIT: u64 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
enum Work {
    Copy {
        source: PathBuf,
        target: PathBuf,
        content: Content,
        tree: Tree,
    },
    Remove {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Give {
        path: PathBuf,
        give: Give,
    },
    /// Names are bytes because an agent chose them.
    GiveSome {
        path: PathBuf,
        names: Vec<Vec<u8>>,
    },
    TakeBack {
        path: PathBuf,
    },
    OpenTo {
        path: PathBuf,
    },
    Snapshot {
        source: PathBuf,
        target: PathBuf,
    },
    Read {
        folder: PathBuf,
        name: PathBuf,
        limit: u64,
    },
    Write {
        folder: PathBuf,
        name: PathBuf,
        bytes: Vec<u8>,
        mode: u32,
    },
    Measure {
        folder: PathBuf,
        blocks: Blocks,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Copied(Copied),
    Given(u64),
    Read(Vec<u8>),
    Measured(Usage),
    Failed { attempt: String, path: PathBuf, errno: Option<i32>, text: String },
}

/// Copies a tree including the owners of its files, as [`copy::copy_tree`] does for root.
pub fn copy_tree(
    source: &Path,
    target: &Path,
    content: Content,
    tree: Tree,
) -> Result<Copied, FileError> {
    if !are_needed() {
        return copy::copy_tree(source, target, content, tree);
    }
    let work = Work::Copy { source: source.to_owned(), target: target.to_owned(), content, tree };
    match ask(&work, source)? {
        Answer::Copied(copied) => Ok(copied),
        _ => Err(unexpected(source)),
    }
}

/// Removes a folder and its content, even if a room owns it. A missing one is not an error.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    match remove::remove_tree(path) {
        Err(error) if is_refused(&error) && are_needed() => {
            ask(&Work::Remove { path: path.to_owned() }, path).map(drop)
        }
        other => other,
    }
}

/// Renames a folder that may belong to a room: moving a folder requires write access to it.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    match files::rename(from, to) {
        Err(error) if is_refused(&error) && are_needed() => {
            ask(&Work::Rename { from: from.to_owned(), to: to.to_owned() }, from).map(drop)
        }
        other => other,
    }
}

/// Gives everything of ours in a tree to the agent of our rooms. Does nothing if agent and user
/// have the same uid.
pub fn give_tree(path: &Path, give: &Give) -> Result<(), FileError> {
    match walls::agent() {
        Some(agent) if process::is_root() => {
            owners::give_tree(path, &Gift { agent, by_group: false }, give).map(drop)
        }
        Some(_) => give_tree_apart(path, give),
        None => Ok(()),
    }
}

/// Like [`give_tree`], but in a separate process, for one that must stay single-threaded.
pub fn give_tree_apart(path: &Path, give: &Give) -> Result<(), FileError> {
    ask(&Work::Give { path: path.to_owned(), give: give.clone() }, path).map(drop)
}

/// Gives a worktree back from the agent of our rooms to the user, including everything that rooms
/// created in it. Does nothing if the worktree was not given.
pub fn take_back(path: &Path) -> Result<(), FileError> {
    match walls::agent() {
        Some(agent) if owners::is_shared(path, agent)? => {
            ask(&Work::TakeBack { path: path.to_owned() }, path).map(drop)
        }
        _ => Ok(()),
    }
}

/// Gives some paths in a tree to the agent of our rooms: those that are ours and that everybody may
/// read. Returns how many were given.
pub fn give_some(path: &Path, names: Vec<PathBuf>) -> Result<u64, FileError> {
    let Some(agent) = walls::agent().filter(|_| !names.is_empty()) else { return Ok(0) };
    if process::is_root() {
        return owners::give_some(path, &Gift { agent, by_group: false }, &names);
    }
    let names = names.into_iter().map(|name| name.into_os_string().into_vec()).collect();
    match ask(&Work::GiveSome { path: path.to_owned(), names }, path)? {
        Answer::Given(count) => Ok(count),
        _ => Err(unexpected(path)),
    }
}

/// Lets the agent of our rooms write to a folder that the user keeps.
pub fn open_to_agent(path: &Path) -> Result<(), FileError> {
    match are_needed() {
        true => ask(&Work::OpenTo { path: path.to_owned() }, path).map(drop),
        false => Ok(()),
    }
}

/// Creates a snapshot of a subvolume that may belong to a room.
pub fn snapshot(source: &Path, target: &Path) -> Result<(), FileError> {
    match btrfs::snapshot(source, target) {
        Err(error) if is_refused(&error) && are_needed() => {
            let work = Work::Snapshot { source: source.to_owned(), target: target.to_owned() };
            ask(&work, source).map(drop)
        }
        other => other,
    }
}

/// Reads at most `limit` bytes of a regular file below a folder that may belong to a room.
pub fn read_capped(folder: &Path, name: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    match Folder::open(folder).and_then(|open| open.read_capped(name, limit)) {
        Err(error) if is_refused(&error) && are_needed() => {
            let work = Work::Read { folder: folder.to_owned(), name: name.to_owned(), limit };
            match ask(&work, folder)? {
                Answer::Read(bytes) => Ok(bytes),
                _ => Err(unexpected(folder)),
            }
        }
        other => other,
    }
}

/// Writes a whole file into a folder that may belong to a room; the file gets the folder's owner.
pub fn write(folder: &Path, name: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    if !are_needed() {
        return write_as_owner(folder, name, bytes, mode);
    }
    let work = Work::Write {
        folder: folder.to_owned(),
        name: name.to_owned(),
        bytes: bytes.to_owned(),
        mode,
    };
    ask(&work, folder).map(drop)
}

/// Measures a tree, including what only its room may read.
pub fn measure(folder: &Path, blocks: Blocks) -> Result<Usage, FileError> {
    if !are_needed() {
        return usage::usage(folder, blocks);
    }
    match ask(&Work::Measure { folder: folder.to_owned(), blocks }, folder)? {
        Answer::Measured(usage) => Ok(usage),
        _ => Err(unexpected(folder)),
    }
}

/// Whether files of rooms can be changed only from a user namespace.
fn are_needed() -> bool {
    !process::is_root() && walls::agent().is_some()
}

fn is_refused(error: &FileError) -> bool {
    error.source.kind() == io::ErrorKind::PermissionDenied
}

fn unexpected(path: &Path) -> FileError {
    about("work on", path)(io::Error::other("the answer is about something else"))
}

fn ask(work: &Work, path: &Path) -> Result<Answer, FileError> {
    let ask = || -> io::Result<Answer> {
        let mut program = bare("/proc/self/exe");
        program.arg(HANDS_ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.stderr(Stdio::null()).spawn()?;
        let sent = child.stdin.take().map(|mut stdin| stdin.write_all(&serde_json::to_vec(work)?));
        let mut bytes = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(ANSWER_LIMIT).read_to_end(&mut bytes)?;
        }
        child.wait()?;
        sent.transpose()?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match ask().map_err(about("work on", path))? {
        Answer::Failed { attempt, path: named, errno, text } => {
            // Without a path, the failure does not concern a single file.
            let path = if named.as_os_str().is_empty() { path.to_owned() } else { named };
            let source = errno.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error);
            Err(FileError { attempt: lasting(attempt), path, source })
        }
        answer => Ok(answer),
    }
}

/// Interns a text forever. Bounded by the number of distinct attempts in our code.
fn lasting(text: String) -> &'static str {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(same) = known.get(text.as_str()) {
        return same;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    known.insert(text);
    text
}

/// Runs the work read from standard input, with power over the ids of our rooms.
pub fn hands_main() -> ExitCode {
    let answer = sys::die_with_parent()
        .and_then(|()| read_work())
        .and_then(|work| with_ids(&work))
        .unwrap_or_else(|error| Answer::Failed {
            attempt: "work with the ids of rooms in".into(),
            path: PathBuf::new(),
            // Omitted, because it would be mistaken for an error about the file, such as
            // "permission denied".
            errno: None,
            text: format!("{error}; `hothouse doctor` says what this host lacks"),
        });
    let bytes = serde_json::to_vec(&answer).unwrap_or_default();
    match io::stdout().write_all(&bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read_work() -> io::Result<Work> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Runs the work as root, or in a user namespace with the ids of our rooms.
fn with_ids(work: &Work) -> io::Result<Answer> {
    let (mode, wall) = walls::ids_here().map_err(io::Error::other)?;
    match (mode, walls::agent()) {
        (Mode::Root, Some(agent)) => Ok(answer(do_work(work, &Gift { agent, by_group: false }))),
        (Mode::Range, _) => in_namespace(work, mode, &wall),
        _ => Err(io::Error::other("no subordinate ids for rooms")),
    }
}

/// Forks into a user namespace with the ids of our rooms, and runs the work there.
fn in_namespace(work: &Work, mode: Mode, wall: &Wall) -> io::Result<Answer> {
    let (wait, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (answer, teller) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match sys::fork_into(libc::CLONE_NEWUSER)? {
        Fork::Child => {
            drop((go, answer));
            let bytes = serde_json::to_vec(&work_when_mapped(work, &wait)).unwrap_or_default();
            let told = std::fs::File::from(teller).write_all(&bytes);
            sys::exit_now(i32::from(told.is_err()))
        }
        Fork::Parent(pid) => {
            drop((wait, teller));
            let mapped = walls::write_maps(pid, mode, wall).map_err(io::Error::other);
            let mapped = mapped.and_then(|()| Ok(rustix::io::write(&go, b"g")?));
            drop(go);
            let mut bytes = Vec::new();
            std::fs::File::from(answer).take(ANSWER_LIMIT).read_to_end(&mut bytes)?;
            rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
            mapped?;
            Ok(serde_json::from_slice(&bytes)?)
        }
    }
}

fn work_when_mapped(work: &Work, wait: &OwnedFd) -> Answer {
    let mut word = [0_u8; 1];
    let mapped = rustix::io::read(wait, &mut word).is_ok_and(|length| length == 1)
        && sys::die_with_parent().is_ok();
    let error = || about("map the ids of rooms for", Path::new(""))(io::ErrorKind::Other.into());
    let gift = Gift { agent: AGENT_INSIDE, by_group: true };
    answer(if mapped { do_work(work, &gift) } else { Err(error()) })
}

fn answer(done: Result<Answer, FileError>) -> Answer {
    done.unwrap_or_else(|FileError { attempt, path, source }| Answer::Failed {
        attempt: attempt.to_owned(),
        path,
        errno: source.raw_os_error(),
        text: source.to_string(),
    })
}

fn do_work(work: &Work, gift: &Gift) -> Result<Answer, FileError> {
    match work {
        Work::Copy { source, target, content, tree } => {
            copy::copy_tree_with(source, target, *content, *tree, Owners::Kept).map(Answer::Copied)
        }
        Work::Remove { path } => remove::remove_tree(path).map(|()| Answer::Done),
        Work::Rename { from, to } => files::rename(from, to).map(|()| Answer::Done),
        Work::Give { path, give } => owners::give_tree(path, gift, give).map(Answer::Given),
        Work::GiveSome { path, names } => {
            let names: Vec<_> =
                names.iter().map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect();
            owners::give_some(path, gift, &names).map(Answer::Given)
        }
        Work::TakeBack { path } => {
            // The uid of the room's root: the agent's uid minus the agent's uid in the room.
            let first = gift.agent.user - AGENT_ID;
            owners::take_back(path, gift.agent, first).map(|()| Answer::Done)
        }
        Work::OpenTo { path } => owners::open_to(path, gift).map(|()| Answer::Done),
        Work::Snapshot { source, target } => btrfs::snapshot(source, target).map(|()| Answer::Done),
        Work::Read { folder, name, limit } => {
            Folder::open(folder)?.read_capped(name, *limit).map(Answer::Read)
        }
        Work::Write { folder, name, bytes, mode } => {
            write_as_owner(folder, name, bytes, *mode).map(|()| Answer::Done)
        }
        Work::Measure { folder, blocks } => usage::usage(folder, *blocks).map(Answer::Measured),
    }
}

/// Writes a file that gets the owner of its folder.
fn write_as_owner(folder: &Path, name: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let owner = Owner::at(folder)?;
    Folder::open(folder)?.write(name, bytes, mode)?;
    owners::give(&folder.join(name), owner, mode)
}
