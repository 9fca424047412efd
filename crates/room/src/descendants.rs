//! Finds the processes of a room from the host: the descendants of its PID 1.
//!
//! Orphans are reparented to PID 1, so everything that a room starts stays below it. So the process
//! tree identifies the room even without cgroups.

use super::identity::parent_of;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::{BTreeMap, BTreeSet};

/// Kills everything below `root`, but not `root` itself. Misses processes that are forked in the
/// meantime: call it until none is left.
pub(super) fn kill(root: i32) {
    for pid in below(root, &parents()) {
        end(pid, root);
    }
}

/// Kills one process through a pidfd, after checking that it still belongs to the room: its pid may
/// have been reused.
fn end(pid: i32, root: i32) {
    let Some(process) = Pid::from_raw(pid) else { return };
    let Ok(held) = rustix::process::pidfd_open(process, PidfdFlags::empty()) else { return };
    if !below(root, &parents()).contains(&pid) {
        return;
    }
    match rustix::process::pidfd_send_signal(&held, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => tracing::warn!(%error, pid, "a process of a room cannot be killed"),
    }
}

/// Reads the parent of every process on this host.
fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect()
}

/// Returns all descendants of `root`.
fn below(root: i32, parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
    let belongs = |pid: i32| {
        let chain = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        // The table may change while it is read, so it may contain a cycle.
        chain.take(parents.len() + 1).skip(1).any(|above| above == root)
    };
    parents.keys().copied().filter(|pid| belongs(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_are_below_and_strangers_are_not() {
        let parents =
            BTreeMap::from([(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (30, 31), (31, 30)]);
        assert_eq!(below(10, &parents), BTreeSet::from([11, 12]));
        assert_eq!(below(12, &parents), BTreeSet::new());
        assert_eq!(below(40, &parents), BTreeSet::new());
    }
}
