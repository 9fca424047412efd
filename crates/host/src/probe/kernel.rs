//! The kernel: version, security features and limits.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{
    Finding, is_root,
    parse::{Cgroups, Version, parse_cgroups, parse_version},
    sys, text_of,
};

/// The controllers that a room's limits need.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// With less, a repository of some size runs out of watches.
const ENOUGH_WATCHES: u64 = 65_536;
const ENOUGH_INSTANCES: u64 = 128;

pub(super) fn version() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    decide_version(&release)
}

/// 5.11 brought `userxattr` to overlayfs, 5.13 Landlock and, shortly before, idmapped mounts.
fn decide_version(release: &str) -> Finding {
    let (id, title) = ("kernel", "Linux kernel");
    match parse_version(release) {
        Some(version) if version >= Version(5, 13) => Finding::works(id, title, release),
        Some(version) if version >= Version(5, 11) => {
            Finding::limited(id, title, release, "no Landlock and no idmapped mounts")
                .fixed_by("run Linux 5.13 or newer")
        }
        _ => Finding::missing(id, title, release, "rooms without root cannot be made")
            .fixed_by("run Linux 5.13 or newer"),
    }
}

pub(super) fn landlock() -> Finding {
    let (id, title) = ("landlock", "Landlock");
    let costs = "rooms lack their second fence around files; namespaces still isolate them";
    match sys::landlock_version() {
        Ok(version) => Finding::works(id, title, format!("version {version} of its interface")),
        Err(error) => Finding::missing(id, title, error.to_string(), costs)
            .fixed_by("boot with `landlock` in the kernel parameter `lsm=`"),
    }
}

pub(super) fn seccomp() -> Finding {
    let (id, title) = ("seccomp", "seccomp filters");
    let actions = text_of("/proc/sys/kernel/seccomp/actions_avail");
    if actions.split_whitespace().any(|action| action == "errno") {
        return Finding::works(id, title, format!("actions: {}", actions.trim()));
    }
    Finding::missing(
        id,
        title,
        "the kernel offers no filters",
        "dangerous system calls cannot be refused in rooms",
    )
    .fixed_by("run a kernel with CONFIG_SECCOMP_FILTER")
}

pub(super) fn apparmor() -> Finding {
    let restricted = text_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    decide_apparmor(restricted.trim(), is_root())
}

fn decide_apparmor(restricted: &str, root: bool) -> Finding {
    let (id, title) = ("apparmor", "AppArmor's rule on user namespaces");
    match restricted {
        "1" if root => Finding::works(id, title, "on, but root is exempt"),
        "1" => Finding::limited(
            id,
            title,
            "on: a program without a profile gets no rights in its namespace",
            "rooms cannot be made without root",
        )
        .fixed_by("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        _ => Finding::works(id, title, "off"),
    }
}

pub(super) fn inotify() -> Finding {
    let number =
        |name: &str| text_of(format!("/proc/sys/fs/inotify/{name}")).trim().parse().unwrap_or(0);
    decide_inotify(number("max_user_watches"), number("max_user_instances"))
}

fn decide_inotify(watches: u64, instances: u64) -> Finding {
    let (id, title) = ("inotify", "file watching");
    let detail = format!("{watches} watches, {instances} instances per user");
    if watches >= ENOUGH_WATCHES && instances >= ENOUGH_INSTANCES {
        return Finding::works(id, title, detail);
    }
    Finding::limited(
        id,
        title,
        detail,
        "dev servers of large repositories may not see every change",
    )
    .fixed_by("sudo sysctl -w fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512")
}

pub(super) fn cgroups() -> Finding {
    let found = parse_cgroups(&text_of("/proc/self/mountinfo"), &text_of("/proc/self/cgroup"));
    let mut usable = Vec::new();
    let version = match found {
        Cgroups::None => return decide_cgroups(None, &[]),
        Cgroups::V2 { root, own } => {
            usable = candidates(&root, own)
                .iter()
                .map(|group| delegated(group))
                .max_by_key(Vec::len)
                .unwrap_or_default();
            2
        }
        Cgroups::V1(groups) => {
            let writable = groups.into_iter().filter(|(_, group)| is_writable(group));
            usable.extend(writable.map(|(name, _)| name));
            1
        }
    };
    decide_cgroups(Some(version), &usable)
}

/// Our own cgroup, and the one that systemd delegates to the user.
fn candidates(root: &Path, own: PathBuf) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    vec![own, root.join(format!("user.slice/user-{user}.slice/user@{user}.service"))]
}

/// Lists the controllers of a cgroup in which we may create others.
fn delegated(group: &Path) -> Vec<String> {
    if !is_writable(group) {
        return Vec::new();
    }
    let controllers = text_of(group.join("cgroup.controllers"));
    controllers
        .split_whitespace()
        .filter(|name| CONTROLLERS.contains(name))
        .map(str::to_owned)
        .collect()
}

fn is_writable(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK).is_ok()
}

fn decide_cgroups(version: Option<u8>, usable: &[String]) -> Finding {
    let (id, title) = ("cgroups", "limits by control groups");
    let costs = "a room's limits apply per process instead of to the whole room";
    let fix = "run under `systemd-run --user --scope -p Delegate=yes`, or as root";
    let Some(version) = version else {
        return Finding::missing(id, title, "no control groups are mounted", costs)
            .fixed_by("mount /sys/fs/cgroup");
    };
    let missing: Vec<&str> = CONTROLLERS
        .into_iter()
        .filter(|name| !usable.iter().any(|usable| usable == name))
        .collect();
    match (usable.is_empty(), missing.is_empty()) {
        (_, true) => Finding::works(id, title, format!("version {version}: {}", usable.join(", "))),
        (true, _) => Finding::limited(
            id,
            title,
            format!("version {version}, but not writable for us"),
            costs,
        )
        .fixed_by(fix),
        _ => {
            let detail =
                format!("version {version}: {}; without {}", usable.join(", "), missing.join(", "));
            Finding::limited(id, title, detail, costs).fixed_by(fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::FindingState::{self, Limited, Missing, Works};

    #[track_caller]
    fn check(finding: &Finding, state: FindingState, detail: &str) {
        assert_eq!((finding.state, finding.detail.as_str()), (state, detail));
    }

    #[test]
    fn old_kernels_cost_fences() {
        check(&decide_version("6.18.0"), Works, "6.18.0");
        check(&decide_version("5.12.1-arch"), Limited, "5.12.1-arch");
        check(&decide_version("4.19.0"), Missing, "4.19.0");
        check(&decide_version("odd"), Missing, "odd");
    }

    #[test]
    fn cgroups_name_what_is_missing() {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        check(
            &decide_cgroups(Some(2), &own(&["memory", "pids", "cpu"])),
            Works,
            "version 2: memory, pids, cpu",
        );
        check(
            &decide_cgroups(Some(1), &own(&["memory"])),
            Limited,
            "version 1: memory; without pids, cpu",
        );
        check(&decide_cgroups(Some(2), &[]), Limited, "version 2, but not writable for us");
        check(&decide_cgroups(None, &[]), Missing, "no control groups are mounted");
    }

    #[test]
    fn apparmor_matters_without_root_only() {
        check(&decide_apparmor("1", true), Works, "on, but root is exempt");
        check(&decide_apparmor("0", false), Works, "off");
        check(&decide_apparmor("", false), Works, "off");
        assert_eq!(decide_apparmor("1", false).state, Limited);
    }

    #[test]
    fn too_few_watches_are_reported() {
        check(&decide_inotify(524_288, 512), Works, "524288 watches, 512 instances per user");
        check(&decide_inotify(8192, 128), Limited, "8192 watches, 128 instances per user");
    }
}
