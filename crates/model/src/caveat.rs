//! Caveats: what a reader must know before trusting what a sandbox shows.
//!
//! A caveat is a value with an area, a class and its own data; only `text` makes the sentence.

mod text;

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    config::IntegrationClass,
    fence::Fence,
    name::SandboxName,
    room::{DiskUse, MemoryKills},
    words::word_type,
};

word_type! {
    /// What a caveat is about. Each limit of a room is its own area.
    Area {
        Config = "config",
        Dependencies = "dependencies",
        Disk = "disk",
        Files = "files",
        Fixtures = "fixtures",
        Git = "git",
        HostGroups = "host-groups",
        KeyNames = "key-names",
        Memory = "memory",
        Network = "network",
        NoCpuCgroup = "no-cpu-cgroup",
        NoFreezer = "no-freezer",
        NoIpv6 = "no-ipv6",
        NoLink = "no-link",
        NoMemoryCgroup = "no-memory-cgroup",
        NoPidsCgroup = "no-pids-cgroup",
        NoSys = "no-sys",
        Plan = "plan",
        Room = "room",
        RoomFiles = "room-files",
        Secrets = "secrets",
        SharedFiles = "shared-files",
        SharedLocks = "shared-locks",
        SharedUid = "shared-uid",
        SingleUid = "single-uid",
        Sleep = "sleep",
        Tree = "tree",
        Unreadable = "unreadable",
        Urls = "urls",
    }
}

word_type! {
    /// The kind of caveat, for programs; for an integration, its class.
    Class {
        Asleep = "asleep",
        Closed = "closed",
        Died = "died",
        Disable = "disable",
        Diverged = "diverged",
        LeftOut = "left-out",
        Limited = "limited",
        LiveKey = "live-key",
        Local = "local",
        LookClosely = "look-closely",
        Masked = "masked",
        Mock = "mock",
        NoIntegration = "no-integration",
        NotImported = "not-imported",
        NotLoaded = "not-loaded",
        NotMasked = "not-masked",
        NotReadable = "not-readable",
        Outside = "outside",
        Pending = "pending",
        Question = "question",
        ReadOnly = "read-only",
        RoomOnly = "room-only",
        Seam = "seam",
        SecretMissing = "secret-missing",
        SecretNarrowed = "secret-narrowed",
        Shim = "shim",
        Sink = "sink",
        TestMode = "test-mode",
        VariableMissing = "variable-missing",
    }
}

impl From<IntegrationClass> for Class {
    fn from(class: IntegrationClass) -> Self {
        match class {
            IntegrationClass::Local => Self::Local,
            IntegrationClass::ReadOnly => Self::ReadOnly,
            IntegrationClass::TestMode => Self::TestMode,
            IntegrationClass::Mock => Self::Mock,
            IntegrationClass::Shim => Self::Shim,
            IntegrationClass::Sink => Self::Sink,
            IntegrationClass::Disable => Self::Disable,
            IntegrationClass::Seam => Self::Seam,
        }
    }
}

/// A limitation of a sandbox, or something a reader should know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caveat {
    /// Files made by the room belong to another uid of the host.
    RoomFiles {
        uid: u32,
    },
    SingleUid,
    SharedUid,
    HostGroups,
    SharedFiles,
    /// A granted folder or file that shares its locks with the host.
    SharedLocks {
        path: PathBuf,
    },
    /// The room can list the names of the user's keys.
    KeyNames,
    /// A granted folder that the agent's own uid cannot read.
    Unreadable {
        path: PathBuf,
    },
    /// No cgroup enforces the limit.
    Unlimited(Fence),
    NoFreezer,
    NoSys,
    NoIpv6,
    NoLink,
    /// The room was paused because its own files take too much space.
    Full(DiskUse),
    /// The kernel killed processes of the room.
    OutOfMemory(MemoryKills),
    /// The room ended unexpectedly.
    Died,
    /// The room's wall is closed.
    Closed {
        problem: String,
    },
    NoDatagrams,
    NoEcho,
    /// The wall refused connections recently because the room has more than its share.
    OverBudget {
        refused: u64,
    },
    /// The worktree's config asks for something that is not approved.
    Pending {
        changes: Several,
        sandbox: SandboxName,
    },
    /// The files of the worktree are visible only in the room.
    Hidden,
    /// A pattern of dependency folders that matches nothing.
    LeftOut {
        problem: String,
    },
    /// A program that the project needs is not on the room's search path.
    ToolOutside {
        program: String,
        path: PathBuf,
        /// The line of `[room]` that makes it visible.
        setting: String,
    },
    /// Forks share no disk blocks.
    FullCopies,
    Diverged {
        branch: String,
        agent_branch: String,
    },
    NotImported {
        reason: String,
    },
    /// The commits add something other than regular files.
    LookClosely {
        found: Several,
    },
    Asleep {
        since: Timestamp,
    },
    /// The ports of its apps are not known.
    NoApps {
        problem: String,
    },
    NoUrls {
        problem: String,
    },
    NoResolver,
    /// A port of the host that leads nowhere.
    PortHeld {
        port: u16,
        pid: u32,
    },
    PortClosed {
        port: u16,
        problem: String,
    },
    /// A service of the host that is not available in the room.
    NotInRoom {
        service: String,
        problem: String,
    },
    NoUrlsInside {
        problem: String,
    },
    SecretMissing {
        problem: String,
        hint: String,
    },
    SecretNarrowed {
        name: String,
    },
    VariableMissing {
        name: String,
        source: String,
    },
    LiveKey {
        finding: String,
        why: String,
    },
    /// Files that appear empty in the room.
    Masked {
        files: Several,
    },
    NotReadable {
        files: Several,
    },
    NotMasked {
        files: Several,
    },
    /// An outside service is not the real one, or only in part.
    Integration {
        name: String,
        class: IntegrationClass,
        /// What that does not cover, in the words of the vendor's entry.
        limits: String,
    },
    /// In pages, a shim replaces a third-party script.
    Shimmed {
        name: String,
        /// The address or the vendor of the script.
        script: ShimmedScript,
    },
    /// The room asked for a host that no integration covers.
    Uncovered {
        vendor: String,
        title: String,
        host: String,
        sdks: Vec<String>,
        /// The class that fits.
        class: IntegrationClass,
    },
    /// A fixture of a mock that cannot be used.
    NotLoaded {
        problem: String,
    },
    /// A question that `init` could not answer.
    Question {
        id: String,
        text: String,
    },
    /// A text written by another build.
    Told {
        area: Area,
        class: Class,
        text: String,
    },
}

/// A third-party script that a shim replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShimmedScript {
    Url(String),
    Vendor(String),
    None,
}

/// The first few of many items, and the number of the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Several {
    pub shown: Vec<String>,
    pub more: usize,
}

impl Several {
    /// Keeps the first few items; `None` if there are none.
    pub fn of(all: impl IntoIterator<Item = String>) -> Option<Self> {
        const SHOWN: usize = 5;
        let mut all = all.into_iter();
        let shown: Vec<_> = all.by_ref().take(SHOWN).collect();
        (!shown.is_empty()).then(|| Self { shown, more: all.count() })
    }
}

impl Caveat {
    /// Returns the word for its subject: an area, or the name of an integration, a shim or a vendor.
    pub fn area(&self) -> &str {
        match self {
            Self::Integration { name, .. }
            | Self::Shimmed { name, .. }
            | Self::Uncovered { vendor: name, .. } => name,
            other => other.own_area().map_or("", Area::as_str),
        }
    }

    /// Returns its area, unless its subject has a name of its own.
    pub fn own_area(&self) -> Option<Area> {
        Some(match self {
            Self::RoomFiles { .. } => Area::RoomFiles,
            Self::SingleUid => Area::SingleUid,
            Self::SharedUid => Area::SharedUid,
            Self::HostGroups => Area::HostGroups,
            Self::SharedFiles => Area::SharedFiles,
            Self::SharedLocks { .. } => Area::SharedLocks,
            Self::KeyNames => Area::KeyNames,
            Self::Unreadable { .. } => Area::Unreadable,
            Self::Unlimited(Fence::Memory) => Area::NoMemoryCgroup,
            Self::Unlimited(Fence::Cpu) => Area::NoCpuCgroup,
            Self::Unlimited(_) => Area::NoPidsCgroup,
            Self::NoFreezer => Area::NoFreezer,
            Self::NoSys => Area::NoSys,
            Self::NoIpv6 => Area::NoIpv6,
            Self::NoLink => Area::NoLink,
            Self::Full(_) => Area::Disk,
            Self::OutOfMemory(_) => Area::Memory,
            Self::Died => Area::Room,
            Self::Closed { .. } | Self::NoDatagrams | Self::NoEcho | Self::OverBudget { .. } => {
                Area::Network
            }
            Self::Pending { .. } => Area::Config,
            Self::Hidden | Self::FullCopies => Area::Tree,
            Self::LeftOut { .. } | Self::ToolOutside { .. } => Area::Dependencies,
            Self::Diverged { .. } | Self::NotImported { .. } => Area::Git,
            Self::LookClosely { .. } => Area::Files,
            Self::Asleep { .. } => Area::Sleep,
            Self::NoApps { .. }
            | Self::NoUrls { .. }
            | Self::NoResolver
            | Self::PortHeld { .. }
            | Self::PortClosed { .. }
            | Self::NotInRoom { .. }
            | Self::NoUrlsInside { .. } => Area::Urls,
            Self::SecretMissing { .. }
            | Self::SecretNarrowed { .. }
            | Self::VariableMissing { .. }
            | Self::LiveKey { .. }
            | Self::Masked { .. }
            | Self::NotReadable { .. }
            | Self::NotMasked { .. } => Area::Secrets,
            Self::Integration { .. } | Self::Shimmed { .. } | Self::Uncovered { .. } => {
                return None;
            }
            Self::Question { .. } => Area::Plan,
            Self::NotLoaded { .. } => Area::Fixtures,
            Self::Told { area, .. } => *area,
        })
    }

    /// Returns the kind of caveat.
    pub fn class(&self) -> Class {
        match self {
            Self::Died => Class::Died,
            Self::Closed { .. } => Class::Closed,
            Self::Pending { .. } => Class::Pending,
            Self::Hidden => Class::RoomOnly,
            Self::LeftOut { .. } => Class::LeftOut,
            Self::ToolOutside { .. } => Class::Outside,
            Self::Diverged { .. } => Class::Diverged,
            Self::NotImported { .. } => Class::NotImported,
            Self::LookClosely { .. } => Class::LookClosely,
            Self::Asleep { .. } => Class::Asleep,
            Self::SecretMissing { .. } => Class::SecretMissing,
            Self::SecretNarrowed { .. } => Class::SecretNarrowed,
            Self::VariableMissing { .. } => Class::VariableMissing,
            Self::LiveKey { .. } => Class::LiveKey,
            Self::Masked { .. } => Class::Masked,
            Self::NotReadable { .. } => Class::NotReadable,
            Self::NotMasked { .. } => Class::NotMasked,
            Self::Integration { class, .. } => (*class).into(),
            Self::Shimmed { .. } => Class::Shim,
            Self::Uncovered { .. } => Class::NoIntegration,
            Self::NotLoaded { .. } => Class::NotLoaded,
            Self::Question { .. } => Class::Question,
            Self::Told { class, .. } => *class,
            _ => Class::Limited,
        }
    }
}

/// A caveat as any build wrote it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Now(Caveat),
    /// In the file of a room.
    OfRoom {
        code: String,
        message: String,
    },
    /// In the file of a wall.
    OfWall(String, String),
}

impl From<Written> for Caveat {
    fn from(written: Written) -> Self {
        match written {
            Written::Now(caveat) => caveat,
            Written::OfRoom { code, message } => {
                let area = Area::parse(&code).unwrap_or(Area::Room);
                Self::Told { area, class: Class::Limited, text: message }
            }
            Written::OfWall(class, text) => {
                let class = Class::parse(&class).unwrap_or(Class::Limited);
                Self::Told { area: Area::Secrets, class, text }
            }
        }
    }
}

/// Reads caveats as any build wrote them: a room outlives the build that started it.
pub fn read_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Caveat>, D::Error> {
    let written = Vec::<Written>::deserialize(deserializer)?;
    Ok(written.into_iter().map(Caveat::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File(#[serde(deserialize_with = "read_any")] Vec<Caveat>);

    #[test]
    fn a_caveat_keeps_its_data_on_the_disk() {
        let all = File(vec![
            Caveat::RoomFiles { uid: 101_000 },
            Caveat::SingleUid,
            Caveat::Unlimited(Fence::Memory),
            Caveat::Full(DiskUse { used: 3 << 20, limit: 2 << 20, beyond: false }),
            Caveat::Full(DiskUse { used: 0, limit: 2 << 20, beyond: true }),
            Caveat::OutOfMemory(MemoryKills { kills: 2, limit: 2 << 20 }),
            Caveat::VariableMissing { name: "A".into(), source: "B".into() },
            Caveat::Integration {
                name: "stripe".into(),
                class: IntegrationClass::Mock,
                limits: "fixtures".into(),
            },
            Caveat::Shimmed { name: "map".into(), script: ShimmedScript::Url("https://a".into()) },
        ]);
        let written = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<File>(&written).unwrap(), all, "{written}");
    }

    #[test]
    fn an_integration_is_named_with_its_class() {
        for word in IntegrationClass::WORDS {
            let class: IntegrationClass = serde_json::from_value((*word).into()).unwrap();
            let caveat = Caveat::Integration { name: "stripe".into(), class, limits: "x".into() };
            assert_eq!((caveat.area(), caveat.class().as_str()), ("stripe", *word));
        }
    }

    #[test]
    fn caveats_of_earlier_builds_say_what_they_said() {
        let written = r#"[{"code":"no-sys","message":"it has none"},{"code":"root-files","message":"old"},
            ["masked","seen empty"],["bygone","gone"]]"#;
        let File(all) = serde_json::from_str(written).unwrap();
        let said = all.iter().map(|c| format!("{} {} {c}", c.area(), c.class()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "no-sys limited it has none",
                "room limited old",
                "secrets masked seen empty",
                "secrets limited gone"
            ]
        );
    }

    #[test]
    fn of_many_things_a_few_are_named() {
        let of = |count: usize| {
            Several::of((0..count).map(|n| n.to_string())).map(|some| some.to_string())
        };
        assert_eq!((of(0), of(2).as_deref()), (None, Some("0, 1")));
        assert_eq!(of(7).as_deref(), Some("0, 1, 2, 3, 4 and 2 more"));
    }
}
