//! CPU and memory usage of rooms, summed over the descendants of their first processes. Works
//! without cgroups.
//!
//! The time of an ended process is included in its parent's if the parent waited for it. Orphans
//! are reparented to PID 1, which does.

use std::{collections::BTreeMap, path::Path};

use hothouse_host::files;
use hothouse_model::room::RoomUsage;

/// Usage of one process, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    parent: i32,
    /// In ticks, including children that have ended.
    time: u64,
    pages: u64,
}

/// Returns the usage of each room, given their first processes. Reads all processes of the host
/// once.
pub fn of_rooms(roots: &[i32]) -> Vec<RoomUsage> {
    sums(roots, &processes(), ticks_per_second(), page_size())
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

fn processes() -> BTreeMap<i32, Taken> {
    let entries = files::list(Path::new("/proc")).unwrap_or_default();
    let pids = entries.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<i32>().ok());
    let read = |pid: i32| {
        let stat = files::read_text(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
        Some((pid, parse(&stat)?))
    };
    pids.filter_map(read).collect()
}

/// The name in the second field may contain anything, so fields are counted after the last bracket.
fn parse(stat: &str) -> Option<Taken> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // utime, stime, cutime, cstime
    let time = (11..15).filter_map(number).sum();
    Some(Taken { parent: fields.get(1)?.parse().ok()?, time, pages: number(21)? })
}

fn sums(roots: &[i32], all: &BTreeMap<i32, Taken>, ticks: u64, page: u64) -> Vec<RoomUsage> {
    let mut sums = vec![RoomUsage::default(); roots.len()];
    for (pid, taken) in all {
        let Some(root) = root_of(*pid, roots, all) else { continue };
        let sum = &mut sums[root];
        sum.processes += 1;
        sum.cpu_ms += taken.time.saturating_mul(1000) / ticks;
        sum.memory_bytes += taken.pages.saturating_mul(page);
    }
    sums
}

/// Returns the root that a process is or descends from.
fn root_of(pid: i32, roots: &[i32], all: &BTreeMap<i32, Taken>) -> Option<usize> {
    let chain = std::iter::successors(Some(pid), |pid| all.get(pid).map(|taken| taken.parent));
    // The table may change while it is read, so it may contain a cycle.
    chain.take(all.len() + 1).find_map(|pid| roots.iter().position(|root| *root == pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name_is() {
        let stat = "7 (a) b) (c) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 4096 5 18446744073709551615";
        assert_eq!(parse(stat), Some(Taken { parent: 3, time: 100, pages: 5 }));
        assert_eq!(parse("7 (a) S"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn each_room_has_what_is_below_it() {
        let taken = |parent| Taken { parent, time: 50, pages: 2 };
        let all = BTreeMap::from([
            (1, taken(0)),
            (10, taken(1)),
            (11, taken(10)),
            (12, taken(11)),
            (20, taken(1)),
            (30, taken(31)),
            (31, taken(30)),
        ]);
        let found = sums(&[10, 20, 99], &all, 100, 4096);
        let counts: Vec<_> = found.iter().map(|one| (one.processes, one.cpu_ms)).collect();
        assert_eq!(counts, [(3, 1500), (1, 500), (0, 0)]);
        assert_eq!(found[0].memory_bytes, 3 * 2 * 4096);
    }

    #[test]
    fn this_very_process_takes_something() {
        let own = i32::try_from(std::process::id()).unwrap();
        let usage = of_rooms(&[own])[0];
        assert!(usage.processes >= 1 && usage.memory_bytes > 0, "{usage:?}");
    }
}
