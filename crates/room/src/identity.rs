//! The identity of a room's PID 1, so that another process with a reused pid is not mistaken for
//! it.

use hothouse_host::files::{self, FileError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A process of this boot, uniquely identified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomIdentity {
    /// The host's pid of room-init.
    pub pid: i32,
    /// In clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
}

/// A process that could not be identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("identify process {pid}")]
    File { pid: i32, source: FileError },
    #[error("the kernel's record of process {pid} has no start time")]
    Record { pid: i32 },
}

impl RoomIdentity {
    /// Identifies the process that has `pid` now.
    pub fn of(pid: i32) -> Result<Self, IdentityError> {
        let file = |source| IdentityError::File { pid, source };
        let stat = files::read_text(&stat_file(pid)).map_err(file)?;
        let Stat { start_time, .. } = parse_stat(&stat).ok_or(IdentityError::Record { pid })?;
        Ok(Self { pid, start_time, boot_id: boot_id().map_err(file)?.to_owned() })
    }

    /// Whether this process is still running. False if it is exiting: a killed PID 1 waits for its
    /// namespace to become empty, which takes forever while a process in it is frozen.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| !stat.exiting)
    }

    /// Whether this process still exists, even if it is exiting.
    pub(super) fn is_there(&self) -> bool {
        self.stat().is_some()
    }

    fn stat(&self) -> Option<Stat> {
        let text = files::read_text(&stat_file(self.pid)).ok()?;
        let stat = parse_stat(&text)?;
        let same = stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X');
        let same_boot = || boot_id().is_ok_and(|boot_id| boot_id == self.boot_id);
        (same && same_boot()).then_some(stat)
    }
}

/// Returns the id of this boot.
fn boot_id() -> Result<&'static str, FileError> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known);
    }
    let text = files::read_text(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(KNOWN.get_or_init(|| text.trim().to_owned()))
}

/// Maps pids in the room to host pids, for those processes that this user may see.
pub fn host_pids(room: &RoomIdentity) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    let Ok(first) = u32::try_from(room.pid) else { return found };
    let mut next = vec![first];
    while let Some(pid) = next.pop() {
        let own = Path::new("/proc").join(pid.to_string());
        let status = files::read_text(&own.join("status")).unwrap_or_default();
        if let Some(inside) = pid_inside(&status) {
            found.insert(inside, pid);
        }
        let children = own.join("task").join(pid.to_string()).join("children");
        let children = files::read_text(&children).unwrap_or_default();
        next.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        next.extend(children_of_threads(&own, pid));
    }
    found
}

/// Children belong to the thread that forked them, which may not be the main thread.
fn children_of_threads(process: &Path, first: u32) -> Vec<u32> {
    let threads = files::list(&process.join("task")).unwrap_or_default().into_iter();
    let others = threads.filter(|path| !path.ends_with(first.to_string()));
    let texts = others.filter_map(|path| files::read_text(&path.join("children")).ok());
    texts
        .flat_map(|text| {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the innermost pid of the `NSpid` line, which starts with the host pid.
fn pid_inside(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut numbers = line.split_whitespace();
    numbers.next()?;
    numbers.next_back()?.parse().ok()
}

/// The name of the process between room-init and a service.
pub const KEEPER: &str = "keeper";

/// The maximum depth to which the process tree is followed.
const DEEPEST: usize = 1000;

/// A child of room-init: a command, or the keeper of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topmost {
    /// Its pid in the room.
    pub pid: u32,
    /// In clock ticks since boot.
    pub started: u64,
    pub name: String,
}

/// Returns the child of room-init from which a process descends, given its host pid.
pub fn topmost(room: &RoomIdentity, outside: u32) -> Option<Topmost> {
    let mut pid = i32::try_from(outside).ok()?;
    for _ in 0..DEEPEST {
        let parent = parent_of(pid)?;
        if parent == room.pid {
            let own = Path::new("/proc").join(pid.to_string());
            let inside = pid_inside(&files::read_text(&own.join("status")).ok()?)?;
            let name = files::read_text(&own.join("comm")).ok()?.trim_end().to_owned();
            let started = parse_stat(&files::read_text(&stat_file(pid)).ok()?)?.start_time;
            return Some(Topmost { pid: inside, started, name });
        }
        pid = parent;
    }
    None
}

fn stat_file(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("stat")
}

/// Returns the parent of a process.
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    let stat = files::read_text(&stat_file(pid)).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    /// `PF_EXITING`, set as soon as it begins to exit.
    exiting: bool,
    start_time: u64,
}

/// The name in the second field may contain anything, so fields are counted after the last bracket.
fn parse_stat(stat: &str) -> Option<Stat> {
    const PF_EXITING: u64 = 0x4;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let start_time = fields.nth(12)?.parse().ok()?;
    Some(Stat { state, exiting: flags & PF_EXITING != 0, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = format!(
            "7 (a) b)) S {} 4242 0",
            (0..18).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
        );
        let parsed = parse_stat(&stat).unwrap();
        assert_eq!((parsed.state, parsed.start_time), ('S', 4242));
        assert!(parsed.exiting, "the flags are 5, which has the bit of an exiting process");
    }

    #[test]
    fn the_number_inside_is_the_innermost() {
        assert_eq!(pid_inside("Name:\tx\nNSpid:\t41210\t41\n"), Some(41));
        assert_eq!(pid_inside("NSpid:\t41210\n"), None);
        assert_eq!(pid_inside(""), None);
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not() {
        let own = RoomIdentity::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());
        assert!(!RoomIdentity { start_time: own.start_time + 1, ..own.clone() }.is_alive());
        assert!(!RoomIdentity { boot_id: "other".into(), ..own }.is_alive());
    }
}
