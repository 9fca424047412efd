//! What rooms require: namespaces, ids, overlays, nftables rules.

use super::{
    Finding, FindingState, ProbeSpec,
    child::Report,
    is_root,
    parse::{subordinate_ids, user_name},
    programs, text_of,
    trees::Ground,
};

/// As many ids as a Debian system uses.
const ENOUGH_IDS: u64 = 65_536;

pub(super) fn user_namespaces(report: &Report) -> Finding {
    let (id, title) = ("user-namespaces", "user namespaces");
    let costs = "native rooms cannot be made";
    match (&report.user, &report.network) {
        (Some(Ok(())), Some(Ok(()))) => {
            Finding::works(id, title, "created one, with a network namespace inside")
        }
        (Some(Ok(())), Some(Err(reason))) => Finding::missing(
            id,
            title,
            format!("created one, but no network namespace: {reason}"),
            costs,
        )
        .fixed_by(why_refused()),
        (Some(Err(reason)), _) => {
            Finding::missing(id, title, reason.as_str(), costs).fixed_by(why_refused())
        }
        _ => untried(id, title, costs),
    }
}

/// Names the setting that forbids namespaces, in the order in which the kernel checks them.
fn why_refused() -> &'static str {
    if text_of("/proc/sys/user/max_user_namespaces").trim() == "0" {
        return "sudo sysctl -w user.max_user_namespaces=15000";
    }
    if text_of("/proc/sys/kernel/unprivileged_userns_clone").trim() == "0" {
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
    }
    if text_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() == "1" {
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
    }
    "allow user namespaces: in a container, start it with `--security-opt seccomp=unconfined`"
}

pub(super) fn uid_ranges(spec: &ProbeSpec) -> Finding {
    let user = rustix::process::geteuid().as_raw();
    let passwd = text_of("/etc/passwd");
    let name = user_name(&passwd, user);
    let ids = |path: &str| subordinate_ids(&text_of(path), name, user);
    let count = ids("/etc/subuid").min(ids("/etc/subgid"));
    let helpers = ["newuidmap", "newgidmap"]
        .iter()
        .all(|helper| programs::find(&spec.search_path, &[helper]).is_some());
    decide_uid_ranges(is_root(), count, helpers, name.unwrap_or("$USER"))
}

fn decide_uid_ranges(root: bool, count: u64, helpers: bool, user: &str) -> Finding {
    let (id, title) = ("uid-ranges", "uid ranges");
    let costs = "one user per room: no `apt install` and no `sudo` inside";
    if root {
        return Finding::works(id, title, "root needs none");
    }
    let ranges =
        format!("sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}");
    match (count >= ENOUGH_IDS, helpers) {
        (true, true) => Finding::works(id, title, format!("{count} ids, with newuidmap")),
        (true, false) => {
            Finding::limited(id, title, format!("{count} ids, but no newuidmap"), costs)
                .fixed_by("sudo apt install uidmap")
        }
        (false, true) => Finding::limited(
            id,
            title,
            format!("{count} ids in /etc/subuid and /etc/subgid"),
            costs,
        )
        .fixed_by(ranges),
        (false, false) => Finding::limited(id, title, "no ids, and no newuidmap", costs)
            .fixed_by(format!("sudo apt install uidmap && {ranges}")),
    }
}

pub(super) fn overlay(report: &Report, ground: &Ground) -> Finding {
    let (id, title) = ("overlay", "overlay file systems without root");
    let costs = "system folders and trees are copied instead of shared";
    match &report.overlay {
        Some(Ok(())) => {
            Finding::works(id, title, format!("mounted one with `userxattr` in {}", ground.shown()))
        }
        Some(Err(reason)) => {
            Finding::missing(id, title, format!("in {}: {reason}", ground.shown()), costs)
                .fixed_by("put sandboxes on ext4, xfs or btrfs, and run Linux 5.11 or newer")
        }
        None if ground.folder().is_none() => Finding::limited(
            id,
            title,
            format!("not tested: {} is not writable", ground.shown()),
            costs,
        )
        .fixed_by("make the folder writable, or choose another place for sandboxes"),
        None => untried(id, title, costs),
    }
}

pub(super) fn idmapped_mounts(report: &Report) -> Finding {
    let (id, title) = ("idmapped-mounts", "idmapped mounts");
    let costs = "rooms made by root copy folders whose owners must change";
    match &report.idmap {
        Some(Ok(())) => Finding::works(id, title, "mapped one"),
        Some(Err(reason)) => Finding::missing(id, title, reason.as_str(), costs)
            .fixed_by("put sandboxes on ext4, xfs, btrfs or tmpfs, and run Linux 5.12 or newer"),
        None if is_root() => untried(id, title, costs),
        None => Finding::limited(
            id,
            title,
            "only root can use them",
            "nothing, as long as rooms are made without root",
        ),
    }
}

pub(super) fn packet_rules(report: &Report) -> Finding {
    let (id, title) = ("packet-rules", "nftables rules in a room");
    let costs = "rooms do not start: nothing would filter their traffic";
    match &report.rules {
        Some(Ok(())) => Finding::works(id, title, "set a room's rules in a new namespace"),
        Some(Err(reason)) => Finding::missing(id, title, reason.as_str(), costs)
            .fixed_by("sudo modprobe -a nf_tables nft_chain_nat nft_redir nft_ct nft_limit nf_nat"),
        None => untried(id, title, costs),
    }
}

pub(super) fn link(report: &Report) -> Finding {
    let (id, title) = ("room-link", "a network link in a room");
    let costs = "programs in rooms that look at the interfaces, such as browsers and yarn, think that they are offline";
    match &report.link {
        Some(Ok(())) => Finding::works(id, title, "made one in a new namespace"),
        Some(Err(reason)) => Finding::limited(id, title, reason.as_str(), costs)
            .fixed_by("sudo modprobe -a dummy ifb"),
        None => untried(id, title, costs),
    }
}

pub(super) fn ping() -> Finding {
    let (id, title) = ("ping", "echo requests for rooms");
    let costs = "rules such as `example.com/icmp` have no effect";
    match crate::ping::is_allowed() {
        true => Finding::works(id, title, "allowed"),
        false => {
            let range = text_of("/proc/sys/net/ipv4/ping_group_range");
            let range: Vec<&str> = range.split_whitespace().collect();
            let why = format!("the sysctl net.ipv4.ping_group_range is `{}`", range.join(" "));
            Finding::limited(id, title, why, costs)
                .fixed_by("sudo sysctl -w net.ipv4.ping_group_range='0 2147483647'")
        }
    }
}

fn untried(id: &str, title: &str, costs: &str) -> Finding {
    Finding {
        state: FindingState::Limited,
        ..Finding::missing(id, title, "could not be tested", costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_ranges_say_what_is_to_be_done() {
        for (root, count, helpers, state, fix) in [
            (true, 0, false, FindingState::Works, None),
            (false, 65_536, true, FindingState::Works, None),
            (false, 65_536, false, FindingState::Limited, Some("sudo apt install uidmap")),
            (
                false,
                0,
                true,
                FindingState::Limited,
                Some("sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 alice"),
            ),
        ] {
            let finding = decide_uid_ranges(root, count, helpers, "alice");
            assert_eq!((finding.state, finding.fix.as_deref()), (state, fix));
        }
    }

    #[test]
    fn a_refusal_is_a_missing_feature_with_its_reason() {
        let report = Report { user: Some(Err("not permitted".into())), ..Report::default() };
        let finding = user_namespaces(&report);
        assert_eq!(
            (finding.state, finding.detail.as_str()),
            (FindingState::Missing, "not permitted")
        );
        assert!(finding.fix.is_some());
    }
}
