//! The kernel: version, security features and limits.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{
    Finding, is_root,
    parse::{Cgroups, Version, parse_cgroups, parse_version, user_name},
    sys, text_of,
};
use crate::{groups, login};

/// With fewer, a larger repository runs out of watches.
const ENOUGH_WATCHES: u64 = 65_536;
const ENOUGH_INSTANCES: u64 = 128;

pub(super) fn version() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    decide_version(&release)
}

/// Linux 5.11 added `userxattr` to overlayfs, 5.13 added Landlock; idmapped mounts came shortly before.
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
    decide_landlock(sys::landlock_version().map_err(|error| error.to_string()))
}

/// Namespaces isolate files. What rooms use of Landlock came with its version 6: nothing in a room
/// signals a process outside, or reaches its abstract sockets.
fn decide_landlock(version: Result<i64, String>) -> Finding {
    const SCOPES: i64 = 6;
    let (id, title) = ("landlock", "Landlock");
    let costs =
        "rooms lack their second fence around signals and sockets; namespaces still isolate them";
    match version {
        Ok(version) if version >= SCOPES => {
            Finding::works(id, title, format!("version {version} of its interface"))
        }
        Ok(version) => {
            let detail = format!("version {version} of its interface; rooms use version {SCOPES}");
            Finding::limited(id, title, detail, costs).fixed_by("run Linux 6.12 or newer")
        }
        Err(error) => Finding::missing(id, title, error, costs)
            .fixed_by("run Linux 6.12 or newer, with `landlock` in the kernel parameter `lsm=`"),
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

/// Inspects the control group of the daemon, which starts the rooms; without a daemon, the group in
/// which it would be started.
pub(super) fn cgroups(daemon: Option<u32>) -> Finding {
    let process = process(daemon);
    let own = text_of(process.join("cgroup"));
    let mut usable = Vec::new();
    let version = match parse_cgroups(&text_of("/proc/self/mountinfo"), &own) {
        Cgroups::None => return decide_cgroups(None, &[], &own, &way_out(daemon)),
        Cgroups::V2 { root, own } => {
            let branch = match daemon.is_none() && login::will_leave_session_group() {
                true => groups::folder(&root, &groups::of_user_manager(user())),
                false => own,
            };
            let found = groups::delegated(&root, &branch);
            usable.extend(found.into_iter().flat_map(|found| found.controllers));
            usable.retain(|name| groups::CONTROLLERS.contains(&name.as_str()));
            2
        }
        Cgroups::V1(groups) => {
            let writable = groups.into_iter().filter(|(_, group)| is_writable(group));
            usable.extend(writable.map(|(name, _)| name));
            1
        }
    };
    decide_cgroups(Some(version), &usable, &own, &way_out(daemon))
}

fn process(daemon: Option<u32>) -> PathBuf {
    PathBuf::from("/proc").join(daemon.map_or("self".to_owned(), |pid| pid.to_string()))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_writable(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK).is_ok()
}

/// The facts that decide how a user's rooms can get limits.
struct WayOut {
    user: u32,
    name: String,
    has_systemd: bool,
    /// Whether the user's own systemd is running.
    has_manager: bool,
    has_daemon: bool,
}

fn way_out(daemon: Option<u32>) -> WayOut {
    let user = user();
    let passwd = text_of("/etc/passwd");
    WayOut {
        user,
        name: user_name(&passwd, user).unwrap_or("$USER").to_owned(),
        has_systemd: Path::new("/run/systemd/system").exists(),
        has_manager: Path::new(&format!("/run/user/{user}/bus")).exists(),
        has_daemon: daemon.is_some(),
    }
}

impl WayOut {
    /// Returns the commands that give rooms limits.
    fn commands(&self) -> String {
        if !self.has_systemd {
            return "run the daemon as root, or in a control group of version 2 that you own and that has no other \
                    processes"
                .to_owned();
        }
        let linger = format!("sudo loginctl enable-linger {}", self.name);
        let stop = "hothouse daemon stop".to_owned();
        let start = format!(
            "XDG_RUNTIME_DIR=/run/user/{} systemd-run --user --scope hothouse daemon start",
            self.user
        );
        let steps =
            [(!self.has_manager, linger), (self.has_daemon, stop), (true, start)].into_iter();
        steps.filter(|(wanted, _)| *wanted).map(|(_, step)| step).collect::<Vec<_>>().join(" && ")
    }
}

fn decide_cgroups(version: Option<u8>, usable: &[String], own: &str, way_out: &WayOut) -> Finding {
    let (id, title) = ("cgroups", "limits by control groups");
    let costs = "a room's limits apply per process instead of to the whole room";
    let Some(version) = version else {
        return Finding::missing(id, title, "no control groups are mounted", costs)
            .fixed_by("mount /sys/fs/cgroup");
    };
    let missing: Vec<&str> = groups::CONTROLLERS
        .into_iter()
        .filter(|name| !usable.iter().any(|usable| usable == name))
        .collect();
    match (usable.is_empty(), missing.is_empty()) {
        (_, true) => Finding::works(id, title, format!("version {version}: {}", usable.join(", "))),
        (true, _) => {
            let group = groups::group_of(own).filter(|_| version == 2);
            let which = group.map(|group| format!(" ({group})")).unwrap_or_default();
            let detail = format!("version {version}, but we may make none in ours{which}");
            Finding::limited(id, title, detail, costs).fixed_by(way_out.commands())
        }
        _ => {
            let detail =
                format!("version {version}: {}; without {}", usable.join(", "), missing.join(", "));
            let finding = Finding::limited(id, title, detail, costs);
            match version {
                // Before version 252 systemd delegates no `cpu` controller to users.
                2 => finding.fixed_by(format!(
                    "as root: add `Delegate={}` below `[Service]` by `systemctl edit user@.service`, then log in again",
                    groups::CONTROLLERS.join(" ")
                )),
                _ => finding.fixed_by(way_out.commands()),
            }
        }
    }
}

/// Whether rooms keep running when the user logs out.
pub(super) fn logout(daemon: Option<u32>) -> Finding {
    let user = user();
    let own = text_of(process(daemon).join("cgroup"));
    let group = groups::group_of(&own).unwrap_or_default();
    let moves = daemon.is_none() && login::will_leave_session_group();
    let place = match groups::session_of(group) {
        Some(_) if moves => Place::Manager { keeps_session: true },
        Some(_) => Place::Session,
        None if group.starts_with(&groups::of_user_manager(user)) => {
            Place::Manager { keeps_session: daemon.is_some_and(login::keeps_session) }
        }
        None => Place::Elsewhere,
    };
    // By default, logind exempts root.
    let sessions_take_all = || user != 0 && login::sessions_take_all();
    decide_logout(place, login::lingers(user), sessions_take_all)
}

/// Where the daemon runs.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a login session.
    Session,
    /// Below the user's own systemd.
    Manager {
        keeps_session: bool,
    },
    Elsewhere,
}

fn decide_logout(place: Place, lingers: bool, sessions_take_all: impl Fn() -> bool) -> Finding {
    let (id, title) = ("logout", "rooms after you log out");
    let go_on = match place {
        Place::Manager { keeps_session } => lingers || keeps_session && !sessions_take_all(),
        Place::Session => !sessions_take_all(),
        Place::Elsewhere => true,
    };
    if go_on {
        return Finding::works(id, title, "they go on");
    }
    Finding::limited(
        id,
        title,
        "systemd ends what you started with your last session",
        "processes in rooms end when you log out; files and data stay",
    )
    .fixed_by("loginctl enable-linger && hothouse daemon stop")
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
        let way = way(true, true, true);
        let decide = |version, usable: &[&str]| {
            decide_cgroups(version, &own(usable), "0::/user.slice/x\n", &way)
        };
        check(&decide(Some(2), &["memory", "pids", "cpu"]), Works, "version 2: memory, pids, cpu");
        check(&decide(Some(1), &["memory"]), Limited, "version 1: memory; without pids, cpu");
        check(
            &decide(Some(2), &[]),
            Limited,
            "version 2, but we may make none in ours (/user.slice/x)",
        );
        check(&decide(None, &[]), Missing, "no control groups are mounted");
        let partly = decide(Some(2), &["memory", "pids"]);
        check(&partly, Limited, "version 2: memory, pids; without cpu");
        assert!(partly.fix.unwrap().contains("`Delegate=memory pids cpu`"));
    }

    fn way(has_systemd: bool, has_manager: bool, has_daemon: bool) -> WayOut {
        WayOut { user: 1000, name: "dev".into(), has_systemd, has_manager, has_daemon }
    }

    #[test]
    fn the_way_to_limits_is_a_command_that_can_be_pasted() {
        let start =
            "XDG_RUNTIME_DIR=/run/user/1000 systemd-run --user --scope hothouse daemon start";
        assert_eq!(way(true, true, false).commands(), start);
        assert_eq!(
            way(true, false, true).commands(),
            format!("sudo loginctl enable-linger dev && hothouse daemon stop && {start}")
        );
        assert!(!way(false, false, true).commands().contains("systemd"));
    }

    #[test]
    fn rooms_that_end_at_logout_are_said() {
        let manager = |keeps_session| Place::Manager { keeps_session };
        for (place, lingers, takes_all, state) in [
            (Place::Elsewhere, false, true, Works),
            (Place::Session, false, false, Works),
            (Place::Session, false, true, Limited),
            (manager(false), false, false, Limited),
            (manager(false), true, true, Works),
            (manager(true), false, false, Works),
            (manager(true), false, true, Limited),
        ] {
            let finding = decide_logout(place, lingers, || takes_all);
            assert_eq!(finding.state, state, "{place:?} {lingers} {takes_all}");
        }
    }

    #[test]
    fn a_landlock_without_scopes_is_no_fence() {
        check(&decide_landlock(Ok(7)), Works, "version 7 of its interface");
        check(&decide_landlock(Ok(2)), Limited, "version 2 of its interface; rooms use version 6");
        check(&decide_landlock(Err("not there".into())), Missing, "not there");
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
