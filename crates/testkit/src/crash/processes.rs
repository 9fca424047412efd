//! The processes, mounts and control groups that belong to one run, found without asking it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A process of this host.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) words: Vec<String>,
}

impl Process {
    /// Returns whether its arguments contain these, one after the other.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        self.words.windows(words.len()).any(|part| part.iter().zip(words).all(|(a, b)| a == b))
    }

    /// Returns whether it works in a folder.
    pub(super) fn is_in(&self, folder: &Path) -> bool {
        fs::read_link(self.file("cwd")).is_ok_and(|at| at == folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// Returns whether it sees a folder from its own mount namespace, as everything in a room does.
    fn mounts(&self, folder: &str) -> bool {
        let own = fs::read_link("/proc/self/ns/mnt").ok();
        let its = fs::read_link(self.file("ns/mnt")).ok();
        its.is_some()
            && its != own
            && fs::read_to_string(self.file("mountinfo")).is_ok_and(|text| text.contains(folder))
    }
}

/// Returns all running processes; a zombie is not running.
pub(super) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(look).collect()
}

fn look(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    if state == "Z" || state == "X" {
        return None;
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    Some(Process { pid, parent, words })
}

/// Returns the daemon of a state folder, by the lock that it holds.
pub(super) fn daemon(state: &Path) -> Option<Process> {
    let text = fs::read_to_string(state.join("daemon.lock")).ok()?;
    let pid = text.strip_prefix("pid ")?.split(',').next()?.trim().parse().ok()?;
    look(pid).filter(|process| process.says(&["daemon", "run"]))
}

/// Returns the launchers of a daemon, which create rooms.
pub(super) fn launchers(daemon: u32) -> Vec<Process> {
    let all = all();
    let launcher = |process: &&Process| process.says(&["room-launcher"]);
    let first: Vec<u32> = all
        .iter()
        .filter(launcher)
        .filter(|process| process.parent == daemon)
        .map(|process| process.pid)
        .collect();
    let ours = |process: &&Process| process.parent == daemon || first.contains(&process.parent);
    all.iter().filter(launcher).filter(ours).cloned().collect()
}

/// Returns the first processes of rooms that mount a folder.
pub(super) fn room_inits(folder: &Path) -> Vec<Process> {
    let folder = folder.to_string_lossy();
    let all = all().into_iter().filter(|process| process.words == ["room-init"]);
    all.filter(|process| process.mounts(&folder)).collect()
}

/// Returns the ledgers of all runs.
pub(super) fn ledgers() -> Vec<Process> {
    let serves = |process: &Process| process.says(&["ledger.py", "serve"]);
    let python = |process: &Process| process.words.first().is_some_and(|w| w.contains("python"));
    all().into_iter().filter(|process| serves(process) && python(process)).collect()
}

/// Returns everything that belongs to a run: what was started for it, and what is in its rooms.
pub(super) fn of_run(root: &Path) -> Vec<Process> {
    let text = root.to_string_lossy().into_owned();
    let own = std::process::id();
    let belongs = |process: &Process| {
        let environment = fs::read(process.file("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        let folder = fs::read_link(process.file("cwd")).unwrap_or_default();
        environment.contains(&text) || folder.starts_with(root) || process.mounts(&text)
    };
    all().into_iter().filter(|process| process.pid != own && belongs(process)).collect()
}

/// Returns the mounts below a folder.
pub(super) fn mounts_below(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = text.lines().filter_map(|line| line.split_whitespace().nth(4)).map(PathBuf::from);
    places.filter(|place| place.starts_with(root) && place != root).collect()
}

/// Returns the control groups of rooms whose names have a prefix.
pub(super) fn control_groups(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in folders {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            let ours = path.components().any(|part| part.as_os_str() == "hothouse");
            if ours && name.contains(prefix) {
                found.push(path.clone());
            }
            open.push(path);
        }
    }
    found
}

/// Sends SIGKILL without waiting.
pub(super) fn kill(pid: u32) {
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).output().ok();
}
