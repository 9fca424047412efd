//! A room's share of the kernel's per-user resources.
//!
//! If rooms have the user's own uid, all of them and the user share the same limits. The kernel
//! also counts per user namespace, and what is created in a nested namespace counts in all its
//! ancestors. So limits are set on the wall, where the room's root, in its own namespace below,
//! cannot change them.

use hothouse_host::files;
use hothouse_host::system_error::{Context, SystemError};
use rustix::process::{Resource, Rlimit};
use std::path::Path;

/// The limits of a user namespace.
const BOUNDS: &str = "/proc/sys/user";

/// Resources of which a room gets a quarter, with the minimum that programs need.
const QUARTERS: [(&str, u32); 4] = [
    ("max_inotify_instances", 16),
    ("max_inotify_watches", 4096),
    ("max_fanotify_groups", 8),
    ("max_fanotify_marks", 4096),
];

/// The maximum number of namespaces of each kind in a room. A browser uses a few for each of its
/// processes, an image builder a few for each step.
const NAMESPACES: u32 = 512;

const KINDS: [&str; 8] = ["user", "pid", "net", "mnt", "ipc", "uts", "cgroup", "time"];

/// The maximum number of terminals in a room. The host has a few thousand in total.
pub(super) const TERMINALS: u32 = 256;

/// Process limits that the kernel applies to all processes of a user namespace together: pending
/// signals (including timers), bytes of message queues, locked memory.
const TOGETHER: [(Resource, u64); 3] =
    [(Resource::Sigpending, 8192), (Resource::Msgqueue, 400 << 10), (Resource::Memlock, 64 << 20)];

/// The limits of a wall, by their file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares(Vec<(String, u32)>);

impl Shares {
    /// Computes the shares from the host's limits, which are visible only outside.
    pub(super) fn of_host() -> Self {
        Self::of(|name| {
            let text = files::read_text(&Path::new(BOUNDS).join(name)).ok()?;
            // A larger number is as good as no limit.
            Some(text.trim().parse().unwrap_or(u32::MAX))
        })
    }

    /// Skips limits that the kernel does not have.
    fn of(host: impl Fn(&str) -> Option<u32>) -> Self {
        let quarters = QUARTERS.iter().filter_map(|(name, least)| {
            Some(((*name).to_owned(), (host(name)? / 4).max(*least).min(i32::MAX.unsigned_abs())))
        });
        let namespaces = KINDS.iter().filter_map(|kind| {
            let name = format!("max_{kind}_namespaces");
            let most = host(&name)?.min(NAMESPACES);
            Some((name, most))
        });
        Self(quarters.chain(namespaces).collect())
    }

    /// Applies the shares to the current user namespace.
    pub(super) fn apply(&self) -> Result<(), SystemError> {
        for (name, most) in &self.0 {
            let path = Path::new(BOUNDS).join(name);
            files::write(&path, most.to_string()).context_at("bound the room's", name)?;
        }
        Ok(())
    }
}

/// Limits this process, and with it the user namespace that it creates next.
pub(super) fn bound_together() -> Result<(), SystemError> {
    for (resource, most) in TOGETHER {
        let Rlimit { current, maximum } = rustix::process::getrlimit(resource);
        let least = |known: Option<u64>| Some(known.map_or(most, |known| known.min(most)));
        let limit = Rlimit { current: least(current), maximum: least(maximum) };
        rustix::process::setrlimit(resource, limit)
            .context("bound the room's signals, queues and locked memory")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_has_a_part_of_what_the_host_has_and_never_more() {
        let shares = Shares::of(|name| match name {
            "max_inotify_instances" => Some(128),
            "max_inotify_watches" => Some(200_000),
            "max_user_namespaces" => Some(96_000),
            "max_net_namespaces" => Some(100),
            _ => None,
        });
        let expected = [
            ("max_inotify_instances", 32),
            ("max_inotify_watches", 50_000),
            ("max_user_namespaces", NAMESPACES),
            ("max_net_namespaces", 100),
        ];
        assert_eq!(shares.0, expected.map(|(name, most)| (name.to_owned(), most)));
    }
}
