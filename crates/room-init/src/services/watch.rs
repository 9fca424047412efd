//! Files whose change restarts a service.
//!
//! room-init cannot read all of the worktree, and should not. An ordinary process in the room, run
//! as `agent`, watches the files and prints which service is affected.

use crate::boot::Adopted;
use crate::spawn::{self, Program, Streams};
use crate::sys;
use hothouse_room_wire::RoomUser;
use hothouse_service::ServiceSpec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The path of this program in the room.
const PROGRAM: &[u8] = b"/usr/local/bin/sudo";

/// The argument that makes it a watcher.
pub(crate) const ARGUMENT: &str = "--hothouse-watch";

/// How long to wait for more changes after a change.
const QUIET_MS: i64 = 100;

/// How long to wait at most if the changes do not stop.
const LONGEST_MS: u128 = 1_000;

/// How many folders one room watches.
const FOLDER_LIMIT: usize = 8_192;

/// How long to wait before restarting a watcher that ended.
const AGAIN_AFTER: u64 = 5_000;

/// Folders that tools constantly write to.
const IGNORED: [&[u8]; 4] = [b"node_modules", b".git", b"target", b"__pycache__"];

/// room-init's end of the watcher.
#[derive(Default)]
pub(crate) struct Watcher {
    running: Option<Running>,
    wanted: Vec<Vec<u8>>,
    again_at: Option<u64>,
    ended: bool,
}

struct Running {
    pid: i32,
    output: OwnedFd,
    rest: Vec<u8>,
}

impl Watcher {
    /// Starts, replaces or stops the watcher to match the services.
    pub(super) fn tend<'a>(
        &mut self,
        now: u64,
        services: impl Iterator<Item = &'a ServiceSpec>,
        boot: &Adopted,
    ) {
        let pairs = services.flat_map(|service| {
            let name = service.name.clone().into_bytes();
            let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
            service.watch.iter().flat_map(move |pattern| [name.clone(), bytes(pattern)])
        });
        let wanted: Vec<Vec<u8>> = pairs.collect();
        if self.ended {
            return;
        }
        if wanted != self.wanted {
            self.stop();
            self.wanted = wanted;
            self.again_at = (!self.wanted.is_empty()).then_some(now);
        }
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.running = start(boot, &self.wanted).ok();
            if self.running.is_none() {
                self.again_at = Some(now + AGAIN_AFTER);
            }
        }
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.again_at.filter(|_| !self.ended)
    }

    /// Stops it permanently.
    pub(super) fn end(&mut self) {
        self.stop();
        self.ended = true;
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            // Reaped by the loop, like any orphan.
            let _ = sys::kill(running.pid, libc::SIGKILL);
        }
    }

    pub(super) fn interest(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.output.as_fd())
    }

    /// Returns the services whose files changed. Stops a watcher whose output is invalid.
    pub(super) fn changed(&mut self, scratch: &mut [u8]) -> Vec<String> {
        let Some(running) = &mut self.running else { return Vec::new() };
        match rustix::io::read(&running.output, &mut *scratch) {
            Ok(length @ 1..) => running.rest.extend_from_slice(&scratch[..length]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            _ => return Vec::new(),
        }
        let mut names = BTreeSet::new();
        while let Some(end) = running.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = running.rest.drain(..=end).collect();
            names.insert(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        if running.rest.len() > 4096 {
            self.stop();
        }
        names.into_iter().collect()
    }

    /// Records the exit of the watcher; returns false if it was another child.
    pub(super) fn reaped(&mut self, pid: i32, now: u64) -> bool {
        if self.running.as_ref().is_none_or(|running| running.pid != pid) {
            return false;
        }
        self.running = None;
        self.again_at = Some(now + AGAIN_AFTER);
        true
    }
}

fn start(boot: &Adopted, pairs: &[Vec<u8>]) -> io::Result<Running> {
    let (output, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let second = rustix::io::fcntl_dupfd_cloexec(&null, 3)?;
    let own = [PROGRAM.to_vec(), ARGUMENT.as_bytes().to_vec()];
    let argv = own.into_iter().chain(pairs.iter().cloned()).collect();
    let program = Program::new(argv, Vec::new(), b"/".to_vec(), RoomUser::Agent)
        .ok_or_else(|| io::Error::other("a pattern contains NUL bytes"))?;
    let child = spawn::spawn(boot, &program, Streams::Three(null, end, second))?;
    Ok(Running { pid: child.pid, output, rest: Vec::new() })
}

/// A pattern, and the service that it restarts.
struct Rule {
    service: Vec<u8>,
    /// The deepest folder or file that contains everything that can match.
    base: PathBuf,
    pattern: PathBuf,
}

impl Rule {
    fn new(service: Vec<u8>, pattern: Vec<u8>) -> Self {
        let pattern = PathBuf::from(std::ffi::OsString::from_vec(pattern));
        let plain = |part: &std::path::Component<'_>| !is_wild(part.as_os_str().as_bytes());
        let base = pattern.components().take_while(plain).collect();
        Self { service, base, pattern }
    }

    fn matches(&self, path: &Path) -> bool {
        let parts = |path: &Path| -> Vec<Vec<u8>> {
            path.components().map(|part| part.as_os_str().as_bytes().to_vec()).collect()
        };
        fits(&parts(&self.pattern), &parts(path))
    }
}

fn is_wild(part: &[u8]) -> bool {
    part.iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// Whether a path matches a pattern, or is below a match.
fn fits(pattern: &[Vec<u8>], path: &[Vec<u8>]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, _) => true,
        (Some((part, rest)), _) if part == b"**" => {
            fits(rest, path) || path.split_first().is_some_and(|(_, below)| fits(pattern, below))
        }
        (Some((part, rest)), Some((name, below))) => part_fits(part, name) && fits(rest, below),
        (Some(_), None) => false,
    }
}

fn part_fits(part: &[u8], name: &[u8]) -> bool {
    match (part.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            part_fits(rest, name) || name.split_first().is_some_and(|(_, n)| part_fits(part, n))
        }
        (Some((b'?', rest)), Some((_, name))) => part_fits(rest, name),
        (Some((a, rest)), Some((b, name))) if a == b => part_fits(rest, name),
        _ => false,
    }
}

/// Runs the watcher in the room as `agent`, which prints the names of services.
pub(crate) fn main(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let words: Vec<Vec<u8>> = arguments.map(OsStringExt::into_vec).collect();
    let pairs = words.chunks_exact(2).map(|pair| Rule::new(pair[0].clone(), pair[1].clone()));
    let rules: Vec<Rule> = pairs.collect();
    match look(&rules) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn look(rules: &[Rule]) -> io::Result<()> {
    let queue = inotify::init(CreateFlags::CLOEXEC)?;
    let mut folders: BTreeMap<i32, PathBuf> = BTreeMap::new();
    for rule in rules {
        // A base that is not a folder, or does not exist yet, is watched from its parent.
        let around = match rule.base.is_dir() {
            true => &rule.base,
            false => rule.base.parent().unwrap_or(&rule.base),
        };
        let deep = rule.base.is_dir();
        add(&queue, around, deep, &mut folders);
    }
    let mut concerned: BTreeSet<&[u8]> = BTreeSet::new();
    let mut first = std::time::Instant::now();
    loop {
        let waiting = if concerned.is_empty() { None } else { Some(QUIET_MS) };
        let more = wait(&queue, waiting)?;
        if concerned.is_empty() {
            first = std::time::Instant::now();
        }
        if !more || first.elapsed().as_millis() > LONGEST_MS && !concerned.is_empty() {
            for name in std::mem::take(&mut concerned) {
                io::stdout().write_all(&[name, b"\n"].concat())?;
            }
            io::stdout().flush()?;
            continue;
        }
        for (path, is_new_folder) in read(&queue, &folders)? {
            if is_new_folder && rules.iter().any(|rule| path.starts_with(&rule.base)) {
                add(&queue, &path, true, &mut folders);
            }
            let fitting = rules.iter().filter(|rule| rule.matches(&path));
            concerned.extend(fitting.map(|rule| rule.service.as_slice()));
        }
    }
}

fn wait(queue: &OwnedFd, milliseconds: Option<i64>) -> io::Result<bool> {
    let mut entries = [rustix::event::PollFd::new(queue, rustix::event::PollFlags::IN)];
    let timeout = milliseconds
        .map(|ms| rustix::event::Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 });
    match rustix::event::poll(&mut entries, timeout.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Reads waiting events: each changed path, and whether it is a new folder.
fn read(queue: &OwnedFd, folders: &BTreeMap<i32, PathBuf>) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut space = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = inotify::Reader::new(queue, &mut space);
    let mut changed = Vec::new();
    loop {
        let event = reader.next()?;
        if let (Some(folder), Some(name)) = (folders.get(&event.wd()), event.file_name()) {
            let path = folder.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            let made = ReadFlags::CREATE | ReadFlags::MOVED_TO;
            let flags = event.events();
            changed.push((path, flags.contains(ReadFlags::ISDIR) && flags.intersects(made)));
        }
        if reader.is_buffer_empty() {
            return Ok(changed);
        }
    }
}

/// Watches a folder and, optionally, those below it. Skips what cannot be watched.
fn add(queue: &OwnedFd, folder: &Path, deep: bool, folders: &mut BTreeMap<i32, PathBuf>) {
    let flags = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ONLYDIR
        | WatchFlags::DONT_FOLLOW;
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        if folders.len() >= FOLDER_LIMIT {
            return;
        }
        let Ok(number) = inotify::add_watch(queue, &folder, flags) else { continue };
        folders.insert(number, folder.clone());
        let Some(entries) = std::fs::read_dir(&folder).ok().filter(|_| deep) else { continue };
        let below = entries.filter_map(Result::ok).filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && !IGNORED.contains(&entry.file_name().as_bytes())
        });
        next.extend(below.map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str) -> bool {
        Rule::new(b"a".to_vec(), pattern.into()).matches(Path::new(path))
    }

    #[test]
    fn patterns_match_names_and_what_lies_below() {
        assert!(check("/w/src", "/w/src/a/b.rs"));
        assert!(check("/w/src", "/w/src"));
        assert!(!check("/w/src", "/w/srcs/b.rs"));
        assert!(check("/w/src/**", "/w/src/a/b.rs"));
        assert!(check("/w/**/*.ts", "/w/a/b/c.ts") && check("/w/**/*.ts", "/w/c.ts"));
        assert!(!check("/w/**/*.ts", "/w/a/b/c.js"));
        assert!(check("/w/?.ts", "/w/a.ts") && !check("/w/?.ts", "/w/ab.ts"));
        assert_eq!(Rule::new(vec![], b"/w/a/*.ts".to_vec()).base, Path::new("/w/a"));
    }
}
