//! The specification of a room, and its problems.

use hothouse_host::ids::{self, Mode};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The complete specification of a room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoomSpec {
    /// Names the room on the host: letters, digits and dashes.
    pub id: String,
    pub hostname: String,
    /// Additional names that resolve to the room's loopback.
    #[serde(default)]
    pub names: Vec<String>,
    /// Bound read-write, at the same absolute path inside.
    pub worktree: PathBuf,
    /// Additional paths in the room that show the worktree.
    pub aliases: Vec<PathBuf>,
    /// A folder (0700) on the sandbox's file system for layers and `$HOME`.
    pub storage: PathBuf,
    /// A folder for base layers, shared by all rooms of the host's user.
    pub base_layer: PathBuf,
    /// A folder (0700) for the control socket and its token.
    pub runtime: PathBuf,
    /// Folders of the host that are bound read-only at their own path.
    pub tools: Vec<PathBuf>,
    /// Additional folders or files, read-write or read-only.
    pub mounts: Vec<Bind>,
    /// Read-only binds made after all others, such as a `.git` pointer on every alias.
    pub readonly_binds: Vec<Bind>,
    /// Files and folders below the worktree (on every alias) or in a tool or mount that appear
    /// empty in the room.
    pub masks: Vec<PathBuf>,
    pub limits: Limits,
    /// Keeps layers and `$HOME` in memory and discards them with the room, which ends with the
    /// first command whose exit has been reported.
    pub ephemeral: bool,
    /// Overrides what [`Mode::detect`](Mode) would choose.
    pub mode: Option<Mode>,
    /// In root mode, the first host uid of the range that rooms share.
    pub shifted_base: u32,
    /// A PEM certificate that the room's system trusts in addition to the host's.
    #[serde(default)]
    pub ca: Option<String>,
    /// The lock file with which PID 1 claims the sandbox's files for as long as the room is
    /// running. Without it the files can be shared with other rooms.
    #[serde(default)]
    pub claim: Option<PathBuf>,
    /// The layers of the worktree, if the host has only an empty folder in its place.
    #[serde(default)]
    pub layers: Option<WorktreeLayers>,
    /// Read-only layers created by stack builds, between the room's own and the base layer,
    /// uppermost first.
    #[serde(default)]
    pub stack: Vec<PathBuf>,
}

/// The layers of a worktree that is mounted as an overlay only in the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeLayers {
    /// Contains `upper` for changes and `work` for the kernel.
    pub private: PathBuf,
    /// The read-only layers, uppermost first.
    pub lowers: Vec<PathBuf>,
}

impl RoomSpec {
    /// The first host uid of rooms created by root.
    pub const DEFAULT_SHIFTED_BASE: u32 = ids::SHIFTED_BASE;
}

/// One bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    pub target: PathBuf,
    pub access: Access,
}

/// How a room may access a bind mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A folder that belongs to the room: the owner on disk is the agent.
    Write,
    /// A folder that stays the user's. In root mode the owner on disk is the agent; otherwise the
    /// agent gets access through ACLs.
    WriteShared,
    /// With the owners on disk, so that only world-readable files can be read, and with locks that
    /// do not reach the host.
    Read,
    /// Like `Read` but bound directly: a file of ours, which no program on the host locks.
    ReadOwn,
    /// Read-only, and the owner on disk is the agent.
    ReadAsOwner,
}

/// The resource limits of a room; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Cores; half a core is 0.5.
    pub cpus: Option<f64>,
    pub pids: Option<u32>,
    /// The size limit of its files on disk, in bytes. Not enforced here: it limits the in-memory
    /// folders, and whoever monitors the room can query it.
    #[serde(default)]
    pub disk: Option<u64>,
}

/// A spec that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    #[error("room id `{0}` is not 1 to 64 letters, digits and dashes")]
    Id(String),
    #[error("hostname `{0}` is not 1 to 63 letters, digits, dots and dashes")]
    Hostname(String),
    #[error("{what} `{}` is not an absolute path without `..`", path.display())]
    Path { what: &'static str, path: PathBuf },
    #[error("mask `{}` is not below the worktree or what is granted", .0.display())]
    Mask(PathBuf),
    #[error("a memory limit of {0} bytes is below 16 MiB")]
    Memory(u64),
    #[error("a limit of {0} cores is not between 0.01 and 4096")]
    Cpus(String),
    #[error("a limit of {0} bytes of disk space is below 1 MiB")]
    Disk(u64),
    #[error("a limit of {0} processes is below 8")]
    Pids(u32),
    #[error("the shifted base {0} does not leave room for 65536 uids, or overlaps the host's own")]
    ShiftedBase(u32),
}

impl RoomSpec {
    /// Checks everything that does not depend on the host.
    pub fn check(&self) -> Result<(), SpecProblem> {
        let word = |text: &str, most: usize, more: &[char]| {
            (1..=most).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
        };
        if !word(&self.id, 64, &['-']) {
            return Err(SpecProblem::Id(self.id.clone()));
        }
        if !word(&self.hostname, 63, &['-', '.']) {
            return Err(SpecProblem::Hostname(self.hostname.clone()));
        }
        if let Some(name) = self.names.iter().find(|name| !word(name, 253, &['-', '.'])) {
            return Err(SpecProblem::Hostname(name.clone()));
        }
        for (what, path) in self.paths() {
            if !is_plain_absolute(path) {
                return Err(SpecProblem::Path { what, path: path.to_owned() });
            }
        }
        if let Some(mask) = self.masks.iter().find(|mask| !self.shows(mask)) {
            return Err(SpecProblem::Mask(mask.clone()));
        }
        if !(100_000..=u32::MAX - 131_072).contains(&self.shifted_base) {
            return Err(SpecProblem::ShiftedBase(self.shifted_base));
        }
        self.limits.check()
    }

    /// Whether a path of the host is visible in the room: below the worktree, or in a granted
    /// folder.
    fn shows(&self, path: &Path) -> bool {
        let granted = self.tools.iter().chain(self.mounts.iter().map(|mount| &mount.source));
        let below_worktree = path != self.worktree && path.starts_with(&self.worktree);
        below_worktree || granted.into_iter().any(|folder| path.starts_with(folder))
    }

    fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let own: [(&'static str, &Path); 4] = [
            ("worktree", &self.worktree),
            ("storage", &self.storage),
            ("base layer", &self.base_layer),
            ("runtime folder", &self.runtime),
        ];
        let stack = self.stack.iter().map(|path| ("stack", path.as_path()));
        let lists = [("alias", &self.aliases), ("tool", &self.tools), ("mask", &self.masks)];
        let lists = lists
            .into_iter()
            .flat_map(|(what, list)| list.iter().map(move |path| (what, path.as_path())));
        let binds = self.mounts.iter().chain(&self.readonly_binds);
        let binds = binds
            .flat_map(|bind| [("mount", bind.source.as_path()), ("mount", bind.target.as_path())]);
        own.into_iter().chain(stack).chain(lists).chain(binds)
    }
}

impl Limits {
    fn check(&self) -> Result<(), SpecProblem> {
        const LEAST_MEMORY: u64 = 16 << 20;
        match *self {
            Self { memory: Some(bytes), .. } if bytes < LEAST_MEMORY => {
                Err(SpecProblem::Memory(bytes))
            }
            Self { cpus: Some(cores), .. } if !(0.01..=4096.0).contains(&cores) => {
                Err(SpecProblem::Cpus(cores.to_string()))
            }
            Self { disk: Some(bytes), .. } if bytes < 1 << 20 => Err(SpecProblem::Disk(bytes)),
            Self { pids: Some(pids), .. } if pids < 8 => Err(SpecProblem::Pids(pids)),
            _ => Ok(()),
        }
    }
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && path.components().nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RoomSpec {
        RoomSpec {
            id: "r1".into(),
            hostname: "blue".into(),
            names: vec![],
            worktree: "/w/a".into(),
            aliases: vec![],
            storage: "/s".into(),
            base_layer: "/b".into(),
            runtime: "/r".into(),
            tools: vec![],
            mounts: vec![],
            readonly_binds: vec![],
            masks: vec![],
            limits: Limits::default(),
            ephemeral: false,
            mode: None,
            shifted_base: RoomSpec::DEFAULT_SHIFTED_BASE,
            ca: None,
            claim: None,
            layers: None,
            stack: vec![],
        }
    }

    #[test]
    fn a_plain_spec_is_fine() {
        assert_eq!(spec().check(), Ok(()));
    }

    #[test]
    fn paths_that_could_mean_something_else_are_refused() {
        for path in ["relative", "/", "/a/../b"] {
            let spec = RoomSpec { worktree: path.into(), ..spec() };
            assert!(
                matches!(spec.check(), Err(SpecProblem::Path { what: "worktree", .. })),
                "{path}"
            );
        }
    }

    #[test]
    fn a_mask_must_lie_where_the_room_can_see_it() {
        for (mask, good) in [
            ("/w/a/.env", true),
            ("/w/a", false),
            ("/etc/passwd", false),
            ("/home/u/.cargo/credentials.toml", true),
        ] {
            let tools = vec!["/home/u/.cargo".into()];
            let spec = RoomSpec { masks: vec![mask.into()], tools, ..spec() };
            assert_eq!(spec.check().is_ok(), good, "{mask}");
        }
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let with = |limits| RoomSpec { limits, ..spec() }.check();
        assert!(with(Limits { memory: Some(4096), ..Limits::default() }).is_err());
        assert!(with(Limits { cpus: Some(0.0), ..Limits::default() }).is_err());
        assert!(with(Limits { cpus: Some(f64::NAN), ..Limits::default() }).is_err());
        assert!(with(Limits { pids: Some(1), ..Limits::default() }).is_err());
        assert!(with(Limits { disk: Some(4096), ..Limits::default() }).is_err());
        let good = Limits { memory: Some(1 << 30), cpus: Some(0.5), pids: Some(64), disk: None };
        assert!(with(good).is_ok());
    }

    #[test]
    fn the_hosts_own_uids_are_never_a_base() {
        let spec = RoomSpec { shifted_base: 0, ..spec() };
        assert_eq!(spec.check(), Err(SpecProblem::ShiftedBase(0)));
    }
}
