//! Who a room's PID 1 is, so that a number used again by another process is not mistaken for it.

use crate::files::{self, FileError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A process of this boot, beyond doubt.
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
        let boot_id =
            files::read_text(Path::new("/proc/sys/kernel/random/boot_id")).map_err(file)?;
        let (_, start_time) = state_and_start(&stat).ok_or(IdentityError::Record { pid })?;
        Ok(Self { pid, start_time, boot_id: boot_id.trim().to_owned() })
    }

    /// Returns whether that very process still runs.
    pub fn is_alive(&self) -> bool {
        let Ok(now) = Self::of(self.pid) else { return false };
        let state = files::read_text(&stat_file(self.pid))
            .ok()
            .and_then(|stat| Some(state_and_start(&stat)?.0));
        now == *self && !matches!(state, None | Some('Z' | 'X'))
    }
}

fn stat_file(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("stat")
}

/// Returns the parent of a process.
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    let stat = files::read_text(&stat_file(pid)).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The name in the second field may hold anything, so fields are counted from its last bracket.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
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
        assert_eq!(state_and_start(&stat), Some(('S', 4242)));
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not() {
        let own = RoomIdentity::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());
        assert!(!RoomIdentity { start_time: own.start_time + 1, ..own.clone() }.is_alive());
        assert!(!RoomIdentity { boot_id: "other".into(), ..own }.is_alive());
    }
}
