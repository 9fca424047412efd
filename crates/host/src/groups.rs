//! Control groups (version 2): which part of the hierarchy we may use.
//!
//! Under systemd an ordinary user may create groups only below `user@UID.service`, where their own
//! service manager runs. Desktop terminals are below it. A login by ssh or on a console is not: its
//! `session-N.scope` is next to it and belongs to root.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::files;

/// The controllers that a room's limits need.
pub const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The part of the hierarchy in which we may create groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// Its topmost folder.
    pub base: PathBuf,
    /// The controllers available to groups created there.
    pub controllers: Vec<String>,
}

/// Returns a process's own group, from the text of its `/proc/PID/cgroup`.
pub fn group_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Returns the part that we may use around a group's folder, if any. The hierarchy is mounted at `point`.
pub fn delegated(point: &Path, branch: &Path) -> Option<Delegated> {
    // Moving a process between two groups also requires write access to the list of a common ancestor.
    let writable = |folder: &Path| may_write(folder) && may_write(&folder.join("cgroup.procs"));
    let base = branch
        .ancestors()
        .take_while(|folder| folder.starts_with(point) && writable(folder))
        .last()?;
    let words = |name: &str| files::read_text(&base.join(name)).unwrap_or_default();
    // Only the root of the whole hierarchy has no type.
    let is_root = !files::exists(&base.join("cgroup.type"));
    let is_busy = !is_root && !words("cgroup.procs").trim().is_empty();
    let there = files::read_text(&base.join("cgroup.controllers")).ok()?;
    let controllers = usable(&there, &words("cgroup.subtree_control"), is_busy);
    Some(Delegated { base: base.to_owned(), controllers })
}

/// Returns the controllers that a group's children can have. A group that contains processes cannot
/// enable more of them for its children (the "no internal processes" rule).
fn usable(there: &str, given: &str, is_busy: bool) -> Vec<String> {
    let words = if is_busy { given } else { there };
    words.split_whitespace().map(str::to_owned).collect()
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Returns the folder of a group.
pub fn folder(point: &Path, group: &str) -> PathBuf {
    point.join(group.trim_start_matches('/'))
}

/// Returns the group of a user's own service manager.
pub fn of_user_manager(user: u32) -> String {
    format!("/user.slice/user-{user}.slice/user@{user}.service")
}

/// Returns the user whose login session a group belongs to, if it is one.
pub fn session_of(group: &str) -> Option<u32> {
    let (slice, scope) = group.strip_prefix("/user.slice/user-")?.split_once(".slice/")?;
    let scope = scope.split('/').next()?;
    (scope.starts_with("session-") && scope.ends_with(".scope")).then(|| slice.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder that looks like a delegated group; normally the kernel creates these files.
    fn group(at: &Path, files: &[(&str, &str)]) {
        files::make_folder(at).unwrap();
        for (name, text) in files {
            files::write(&at.join(name), text).unwrap();
        }
    }

    #[test]
    fn a_login_session_is_told_from_what_the_user_manager_runs() {
        assert_eq!(session_of("/user.slice/user-1000.slice/session-12.scope"), Some(1000));
        assert_eq!(session_of("/user.slice/user-0.slice/session-c1.scope/x"), Some(0));
        for other in [
            "/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope",
            "/system.slice/cron.service",
            "/user.slice/user-x.slice/session-1.scope",
            "/",
        ] {
            assert_eq!(session_of(other), None, "{other}");
        }
        assert_eq!(group_of("1:name=systemd:/a\n0::/b/c\n"), Some("/b/c"));
        assert_eq!(group_of("4:memory:/a\n"), None);
    }

    #[test]
    fn the_topmost_group_that_is_ours_is_the_base() {
        let point = tempfile::tempdir().unwrap();
        let service = point.path().join("user@7.service");
        let lists = [("cgroup.procs", ""), ("cgroup.controllers", "cpu memory pids\n")];
        group(&service, &[&lists[..], &[("cgroup.type", "domain\n")]].concat());
        group(&service.join("app.slice"), &lists);
        group(&service.join("app.slice/our.scope"), &[("cgroup.procs", "1\n")]);
        // We may not write the mount point's list of processes, so it is not ours.
        let found = delegated(point.path(), &service.join("app.slice/our.scope")).unwrap();
        assert_eq!(found.base, service);
        assert_eq!(found.controllers, ["cpu", "memory", "pids"]);
        assert_eq!(delegated(point.path(), &point.path().join("session-1.scope")), None);
    }

    #[test]
    fn a_group_with_processes_gives_no_controllers_to_its_children() {
        let point = tempfile::tempdir().unwrap();
        let files = [
            ("cgroup.procs", "17\n"),
            ("cgroup.controllers", "cpu memory pids\n"),
            ("cgroup.subtree_control", "\n"),
        ];
        group(&point.path().join("box"), &[&files[..], &[("cgroup.type", "domain\n")]].concat());
        assert_eq!(
            delegated(point.path(), &point.path().join("box")).unwrap().controllers,
            [""; 0]
        );
        // The root of the hierarchy may have both.
        group(&point.path().join("root"), &files);
        let root = point.path().join("root");
        let found = delegated(&root, &folder(&root, "/")).unwrap();
        assert_eq!(found.controllers, ["cpu", "memory", "pids"]);
    }
}
