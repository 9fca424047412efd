//! The programs running in a room, read from the host's `/proc` below the room's first process.
//!
//! This is a snapshot: programs that start and end between two snapshots are missed. The kernel
//! reports every start only to processes that may trace the whole machine, which rooms of an
//! ordinary user could not use.

use std::path::PathBuf;

use hothouse_host::files;
use hothouse_model::room::RunningProgram;

/// The maximum number of programs in a snapshot, and the maximum length of a command line.
const MOST: usize = 1000;
const ARGUMENTS: u64 = 4 << 10;
const WORDS: usize = 64;

/// Returns the programs below a process of the host.
pub fn below(root: i32) -> Vec<RunningProgram> {
    let mut found = Vec::new();
    let mut open = vec![(root, 1)];
    while let Some((pid, own)) = open.pop() {
        for child in children(pid) {
            if found.len() >= MOST {
                return found;
            }
            let Some(program) = look(child, own) else { continue };
            open.push((child, program.pid));
            found.push(program);
        }
    }
    found
}

/// Returns the children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let threads = files::list(&PathBuf::from(format!("/proc/{pid}/task"))).unwrap_or_default();
    let lists = threads.iter().filter_map(|task| files::read_text(&task.join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn look(pid: i32, parent: i32) -> Option<RunningProgram> {
    let read = |name: &str| files::read_text(&PathBuf::from(format!("/proc/{pid}/{name}"))).ok();
    let own = inner_pid(&read("status")?)?;
    let started = start(&read("stat")?)?;
    let line =
        files::read_capped(&PathBuf::from(format!("/proc/{pid}/cmdline")), ARGUMENTS).ok()?;
    Some(RunningProgram { pid: own, parent, started, argv: words(&line) })
}

/// Returns the pid in the innermost namespace: `NSpid: 4321 40 7`.
fn inner_pid(status: &str) -> Option<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// Returns the start time. The name in the second field may contain anything, so fields are counted
/// after the last bracket.
fn start(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn words(line: &[u8]) -> Vec<String> {
    let parts = line.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.take(WORDS).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(inner_pid("Name:\tx\nNSpid:\t4321\t40\t7\n"), Some(7));
        assert_eq!(inner_pid("Name:\tx\n"), None);
        let stat = "7 (a) b) (c) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 4096 5";
        assert_eq!(start(stat), Some(99));
        assert_eq!(start(""), None);
        assert_eq!(words(b"a\0b c\0\xff\0"), ["a", "b c", "\u{fffd}"]);
    }

    #[test]
    fn a_child_of_this_process_is_seen() {
        let mut child = hothouse_host::command::bare("sleep").arg("1000").spawn().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let found = below(own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().any(|one| one.argv == ["sleep", "1000"]), "{found:?}");
    }
}
