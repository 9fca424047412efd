//! Parsers for small texts from the host.

use std::path::PathBuf;

use super::child::Report;

/// The first two numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u32, pub u32);

/// Finds the first version in a text such as `git version 2.39.5` or `6.18.0-rc1`.
pub(super) fn parse_version(text: &str) -> Option<Version> {
    let begins = text.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = text[begins..].split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some(Version(major, minor)),
        (Some(Ok(major)), _) => Some(Version(major, 0)),
        _ => None,
    }
}

/// Finds the name of a user in the text of `/etc/passwd`.
pub(crate) fn user_name(passwd: &str, id: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })
}

/// Counts the ids that `/etc/subuid` or `/etc/subgid` grants a user, who is named or numbered there.
pub(super) fn subordinate_ids(text: &str, name: Option<&str>, id: u32) -> u64 {
    let number = id.to_string();
    let counts = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let count: u64 = fields.nth(1)?.trim().parse().ok()?;
        (Some(owner) == name || owner == number).then_some(count)
    });
    counts.fold(0, u64::saturating_add)
}

/// The cgroups of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cgroups {
    None,
    /// The folder of the single hierarchy, and our own group in it.
    V2 {
        root: PathBuf,
        own: PathBuf,
    },
    /// Each mounted controller, with the folder of our own cgroup.
    V1(Vec<(String, PathBuf)>),
}

/// Combines `/proc/self/mountinfo` and `/proc/self/cgroup`.
///
/// If both versions are mounted, version 1 wins because it has the controllers.
pub(super) fn parse_cgroups(mountinfo: &str, own: &str) -> Cgroups {
    let mounts: Vec<CgroupMount> = mountinfo.lines().filter_map(parse_mount).collect();
    let first = mounts.iter().filter(|mount| mount.version == 1).flat_map(|mount| {
        let known = ["memory", "pids", "cpu"]
            .into_iter()
            .filter(|name| mount.options.iter().any(|o| o == name));
        known.map(|name| (name.to_owned(), mount.folder_of(&group_of(own, name))))
    });
    let controllers: Vec<(String, PathBuf)> = first.collect();
    if !controllers.is_empty() {
        return Cgroups::V1(controllers);
    }
    match mounts.iter().find(|mount| mount.version == 2) {
        Some(mount) => {
            Cgroups::V2 { root: mount.point.clone(), own: mount.folder_of(&group_of(own, "")) }
        }
        None => Cgroups::None,
    }
}

struct CgroupMount {
    version: u8,
    /// The cgroup at the root of the mount.
    top: String,
    point: PathBuf,
    options: Vec<String>,
}

impl CgroupMount {
    fn folder_of(&self, group: &str) -> PathBuf {
        let below = group.strip_prefix(self.top.trim_end_matches('/')).unwrap_or(group);
        self.point.join(below.trim_start_matches('/'))
    }
}

/// Parses a line such as `30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw`
/// (proc_pid_mountinfo(5)).
fn parse_mount(line: &str) -> Option<CgroupMount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let version = match *right.first()? {
        "cgroup" => 1,
        "cgroup2" => 2,
        _ => return None,
    };
    let options = right.get(2)?.split(',').map(str::to_owned).collect();
    Some(CgroupMount {
        version,
        top: (*left.get(3)?).to_owned(),
        point: PathBuf::from(left.get(4)?),
        options,
    })
}

/// Finds our group for a controller, or our version 2 group if the name is empty.
fn group_of(own: &str, controller: &str) -> String {
    let group = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let hit = if controller.is_empty() {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|c| c == controller)
        };
        fields.next().filter(|_| hit)
    });
    group.unwrap_or("/").to_owned()
}

/// Parses the child's report, one line per probe: `NAME ok` or `NAME reason`.
pub(super) fn parse_report(said: &str) -> Report {
    let mut report = Report::default();
    for line in said.lines() {
        let Some((name, answer)) = line.split_once(' ') else { continue };
        let answer = if answer == "ok" { Ok(()) } else { Err(answer.to_owned()) };
        match name {
            "user" => report.user = Some(answer),
            "overlay" => report.overlay = Some(answer),
            "network" => report.network = Some(answer),
            "rules" => report.rules = Some(answer),
            "link" => report.link = Some(answer),
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, expected) in [
            ("git version 2.39.5 (Apple)", Some(Version(2, 39))),
            ("6.18.0-rc1+", Some(Version(6, 18))),
            ("nftables v1.0.6 (Lester Gooch #5)", Some(Version(1, 0))),
            ("7", Some(Version(7, 0))),
            ("99999999999.1", None),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    #[test]
    fn a_users_ranges_are_added_up() {
        let text = "alice:100000:65536\n1000:300000:1000\nbob:1:2\nbroken\nalice:x:y\n";
        assert_eq!(subordinate_ids(text, Some("alice"), 1000), 66536);
        assert_eq!(subordinate_ids(text, Some("bob"), 1001), 2);
        assert_eq!(subordinate_ids(text, None, 7), 0);
        assert_eq!(subordinate_ids("", Some("alice"), 1000), 0);
    }

    #[test]
    fn a_user_is_found_by_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbad\n";
        assert_eq!(user_name(text, 1000), Some("alice"));
        assert_eq!(user_name(text, 5), None);
    }

    #[test]
    fn version_2_is_one_hierarchy() {
        let mounts =
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let expected = Cgroups::V2 {
            root: "/sys/fs/cgroup".into(),
            own: "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope".into(),
        };
        assert_eq!(parse_cgroups(mounts, own), expected);
    }

    #[test]
    fn version_1_wins_where_both_are_mounted() {
        let mounts = "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      33 30 0:29 /box /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let own = "4:memory:/mine\n3:cpu,cpuacct:/box/a\n0::/x\n";
        let expected = vec![
            ("memory".to_owned(), PathBuf::from("/sys/fs/cgroup/memory/mine")),
            ("cpu".to_owned(), PathBuf::from("/sys/fs/cgroup/cpu/a")),
        ];
        assert_eq!(parse_cgroups(mounts, own), Cgroups::V1(expected));
    }

    #[test]
    fn without_a_mount_there_are_no_cgroups() {
        assert_eq!(
            parse_cgroups("1 2 3 / / rw - ext4 /dev/sda rw\nbroken - line\n", ""),
            Cgroups::None
        );
    }

    #[test]
    fn a_report_keeps_the_reasons() {
        let report = parse_report(
            "user ok\noverlay Operation not permitted (os error 1)\nnoise\nelse what\n",
        );
        assert_eq!(report.user, Some(Ok(())));
        assert_eq!(report.overlay, Some(Err("Operation not permitted (os error 1)".into())));
        assert_eq!(report.rules, None);
    }
}
