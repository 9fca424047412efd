//! The fences of a room, and the state of each.
//!
//! In JSON a state is one text, such as `on`, `v1` or `off: reason`. Only this module writes and reads that text, for
//! `status --json` and for the files of rooms.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{room::DISK_CHECK, words::word_type};

/// All fences of a room.
pub type Fences = BTreeMap<Fence, FenceState>;

word_type! {
    /// Something that confines a room, in alphabetical order.
    Fence {
        Capabilities = "capabilities",
        CoreDumps = "core_dumps",
        Cpu = "cpu",
        Disk = "disk",
        Inotify = "inotify",
        Keyring = "keyring",
        Landlock = "landlock",
        Memory = "memory",
        Net = "net",
        NoNewPrivileges = "no_new_privileges",
        Nproc = "nproc",
        Pids = "pids",
        Seccomp = "seccomp",
        UserNs = "user_ns",
    }
}

impl Fence {
    /// The fences that cgroups enforce.
    pub const OF_CGROUPS: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];
}

/// The state of a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceState {
    On,
    /// Enforced by cgroups of this version.
    Cgroup(CgroupVersion),
    /// Nothing enforces it; the room is paused once it exceeds the limit.
    Watched(DiskWatch),
    Off(OffReason),
    /// A text written by another build.
    Told(String),
}

word_type! {
    /// A version of the kernel's cgroups.
    CgroupVersion { V1 = "v1", V2 = "v2" }
}

/// How a room is kept from filling the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskWatch {
    /// The maximum size of its own files, in bytes.
    pub limit: u64,
    /// Whether a pool also sets a quota on the worktree.
    pub pool: bool,
}

/// Why a fence is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffReason {
    /// Not requested.
    NotAsked,
    /// No cgroup of the host is writable.
    NoCgroup,
    /// Landlock of this version cannot confine signals and abstract sockets.
    NoScopes { abi: i64 },
    /// The kernel's error.
    Kernel(String),
}

impl Default for FenceState {
    fn default() -> Self {
        Self::Off(OffReason::NotAsked)
    }
}

impl FenceState {
    /// Reads what [`Display`](fmt::Display) wrote. A text of another build is kept as it is.
    pub fn parse(text: &str) -> Self {
        let told = || Self::Told(text.to_owned());
        match text.split_once(": ").unwrap_or((text, "")) {
            // Earlier builds wrote details after it, which are not used.
            ("on", _) => Self::On,
            ("off", reason) => Self::Off(OffReason::parse(reason)),
            ("watched", _) => DiskWatch::parse(text).map_or_else(told, Self::Watched),
            _ => CgroupVersion::parse(text).map_or_else(told, Self::Cgroup),
        }
    }
}

impl DiskWatch {
    /// Reads the text of a watched fence. Another build may check at other intervals: its text is kept as it is.
    fn parse(text: &str) -> Option<Self> {
        let mebibytes: u64 = text.strip_suffix(" MiB")?.rsplit(' ').next()?.parse().ok()?;
        let of = |pool| Self { limit: mebibytes << 20, pool };
        [of(true), of(false)].into_iter().find(|one| FenceState::Watched(*one).to_string() == text)
    }
}

impl OffReason {
    /// Reads a reason; an unknown one is an error of the kernel.
    fn parse(text: &str) -> Self {
        if text == "no cgroup that we may write" {
            // Written by earlier builds.
            return Self::NoCgroup;
        }
        let plain = [Self::NotAsked, Self::NoCgroup].into_iter();
        let abi = || text.strip_prefix("ABI ")?.strip_suffix(" has no scopes")?.parse().ok();
        let mut plain = plain.filter(|reason| reason.to_string() == text);
        let known = plain.next().or_else(|| abi().map(|abi| Self::NoScopes { abi }));
        known.unwrap_or_else(|| Self::Kernel(text.to_owned()))
    }
}

impl fmt::Display for FenceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Cgroup(version) => version.fmt(f),
            Self::Watched(watch) => write!(f, "watched: {watch}"),
            Self::Off(reason) => write!(f, "off: {reason}"),
            Self::Told(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for DiskWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = match self.pool {
            true => "the worktree also has a quota in the pool",
            false => "no quota here",
        };
        let (seconds, limit) = (DISK_CHECK.as_secs(), self.limit >> 20);
        write!(
            f,
            "{quota}; every {seconds} s the room is paused if its own files take more than {limit} MiB"
        )
    }
}

impl fmt::Display for OffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("no limit was asked for"),
            Self::NoCgroup => f.write_str("no writable cgroup"),
            Self::NoScopes { abi } => write!(f, "ABI {abi} has no scopes"),
            Self::Kernel(answer) => f.write_str(answer),
        }
    }
}

impl Serialize for FenceState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FenceState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

/// Reads fences as any build wrote them: earlier ones used dashes in the names, and one entry for all cgroups. Unknown
/// fences are skipped.
pub fn read_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fences, D::Error> {
    let written = BTreeMap::<String, FenceState>::deserialize(deserializer)?;
    let mut fences = Fences::new();
    for (name, state) in written {
        match name.as_str() {
            "cgroup" => fences.extend(Fence::OF_CGROUPS.map(|fence| (fence, state.clone()))),
            name => fences.extend(Fence::parse(&name.replace('-', "_")).map(|f| (f, state))),
        }
    }
    Ok(fences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for (state, text) in [
            (FenceState::On, "on"),
            (FenceState::Cgroup(CgroupVersion::V2), "v2"),
            (FenceState::Off(OffReason::NotAsked), "off: no limit was asked for"),
            (FenceState::Off(OffReason::NoCgroup), "off: no writable cgroup"),
            (FenceState::Off(OffReason::NoScopes { abi: 3 }), "off: ABI 3 has no scopes"),
            (FenceState::Off(OffReason::Kernel("of late".into())), "off: of late"),
            (FenceState::Told("half".into()), "half"),
            (FenceState::Told("watched: by a dog".into()), "watched: by a dog"),
        ] {
            assert_eq!(state.to_string(), text);
            assert_eq!(FenceState::parse(text), state);
        }
        let earlier = FenceState::parse("off: no cgroup that we may write");
        assert_eq!(earlier, FenceState::Off(OffReason::NoCgroup));
        for pool in [true, false] {
            let watched = FenceState::Watched(DiskWatch { limit: 1 << 30, pool });
            assert_eq!(FenceState::parse(&watched.to_string()), watched);
        }
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        assert!(Fence::ALL.is_sorted_by_key(|fence| fence.as_str()));
    }

    #[test]
    fn fences_of_an_earlier_build_are_read() {
        let written = r#"{"landlock":"on: ABI 7, signals and abstract sockets","core-dumps":"on",
            "cgroup":"v1","moat":"on"}"#;
        let mut reader = serde_json::Deserializer::from_str(written);
        let fences = read_any(&mut reader).unwrap();
        let v1 = FenceState::Cgroup(CgroupVersion::V1);
        let expected = [
            (Fence::Landlock, FenceState::On),
            (Fence::CoreDumps, FenceState::On),
            (Fence::Memory, v1.clone()),
            (Fence::Cpu, v1.clone()),
            (Fence::Pids, v1),
        ];
        assert_eq!(fences, expected.into());
    }
}
