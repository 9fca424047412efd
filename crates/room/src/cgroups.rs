//! A room's cgroups: v2 if we may write to it, otherwise v1, otherwise none and a caveat.
//!
//! room-init and all commands are in the cgroups with limits. Only commands are in the cgroup that
//! is frozen, so a paused room still answers.

use super::spec::Limits;
use hothouse_host::files;
use hothouse_host::groups::{self, Delegated};
use hothouse_model::caveat::Caveat;
use hothouse_model::fence::{CgroupVersion, Fence, FenceState, Fences, OffReason};
use hothouse_model::room::MemoryKills;
use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cgroups of a room, with what is needed to freeze, thaw and remove them later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Which cgroup version enforces the limits.
    pub version: FenceState,
    /// The created folders, children first.
    pub folders: Vec<PathBuf>,
    /// How to freeze the commands.
    pub freezer: Option<Freezer>,
}

/// A freezer's control file, with the values to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freezer {
    pub switch: PathBuf,
    pub frozen: String,
    pub thawed: String,
    pub state: PathBuf,
    pub state_when_frozen: String,
}

/// An operation on a room's cgroups that failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("this room has no freezer")]
    NoFreezer,
    #[error("the room did not freeze in time")]
    NotFrozen,
    #[error("change the room's cgroup")]
    File(#[from] files::FileError),
    #[error("remove the room's cgroup `{}`", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// The planned operations, computed before any is performed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) groups: Groups,
    /// Parents to create and controllers to enable in them, in this order.
    enable: Vec<(PathBuf, Vec<&'static str>)>,
    limits: Vec<(PathBuf, String)>,
    /// Limits that some kernels do not have.
    more_limits: Vec<(PathBuf, String)>,
    /// Files to which the first process writes `0` as soon as it knows its room.
    pub(super) join: Vec<PathBuf>,
    /// Files to which each command writes `0`.
    pub(super) join_commands: Vec<PathBuf>,
    /// The file to which PID 1 writes `0`, so that freezing the commands does not stop it.
    pub(super) join_init: Option<PathBuf>,
    pub(super) caveats: Vec<Caveat>,
}

/// The cgroups that the host offers.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer {
    /// The v2 folder below which we may create cgroups.
    unified: Option<Delegated>,
    /// The writable v1 hierarchies, by controller.
    legacy: Vec<(String, PathBuf)>,
}

/// Detects what the host offers.
pub(super) fn look() -> Offer {
    let mounts = files::read_text(Path::new("/proc/self/mounts")).unwrap_or_default();
    let own = files::read_text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mut offer = Offer::default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(point), Some(kind), Some(options)) =
            (fields.nth(1), fields.next(), fields.next())
        else {
            continue;
        };
        match kind {
            "cgroup2" if offer.unified.is_none() => {
                let point = Path::new(point);
                let branch = groups::group_of(&own).map(|group| groups::folder(point, group));
                offer.unified = branch.and_then(|branch| groups::delegated(point, &branch));
            }
            "cgroup" => {
                let wanted = options
                    .split(',')
                    .filter(|option| ["memory", "cpu", "pids", "freezer"].contains(option));
                let found = wanted.map(|option| (option.to_owned(), PathBuf::from(point)));
                offer.legacy.extend(found.filter(|(_, point)| may_write(point)));
            }
            _ => {}
        }
    }
    offer
}

/// Returns the ids of all rooms with cgroups on this host, whoever their user is.
pub fn group_ids() -> Vec<String> {
    let offer = look();
    let points = offer.legacy.into_iter().map(|(_, point)| point);
    let points = points.chain(offer.unified.map(|unified| unified.base));
    let rooms = points.flat_map(|point| files::list(&point.join("hothouse")).unwrap_or_default());
    let folders = rooms.filter(|path| files::is_folder(path));
    let ids = folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    ids.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Kills all processes in the cgroups of a room, and removes them.
pub fn clear_groups(id: &str) -> Result<(), CgroupError> {
    let all = Limits { memory: Some(0), cpus: Some(1.0), pids: Some(1), disk: None };
    plan(&look(), id, &all).groups.clear()
}

fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK).is_ok()
}

/// Plans the cgroups of room `id`, with the version that supports more of the limits. A limit
/// without an available controller becomes a caveat.
pub(super) fn plan(offer: &Offer, id: &str, limits: &Limits) -> Plan {
    let wanted = wanted(limits);
    let kept = |has: &dyn Fn(&str) -> bool| wanted.iter().filter(|name| has(name)).count();
    let in_unified = |name: &str| {
        offer.unified.iter().any(|found| found.controllers.iter().any(|known| known == name))
    };
    let in_legacy = |name: &str| offer.legacy.iter().any(|(known, _)| known == name);
    let (of_unified, of_legacy) = (kept(&in_unified), kept(&in_legacy));
    let mut plan = match &offer.unified {
        Some(Delegated { base, .. })
            if offer.legacy.is_empty() || of_unified >= of_legacy.max(1) =>
        {
            let usable: Vec<_> = wanted.iter().copied().filter(|name| in_unified(name)).collect();
            unified_plan(base, id, limits, &usable)
        }
        _ if !offer.legacy.is_empty() => legacy_plan(&offer.legacy, id, limits),
        _ => Plan {
            groups: Groups { version: FenceState::Off(OffReason::NoCgroup), ..Groups::default() },
            ..Plan::default()
        },
    };
    for fence in Fence::OF_CGROUPS.into_iter().filter(|fence| wanted.contains(&fence.as_str())) {
        if !plan.limits.iter().any(|(file, _)| {
            file.file_name().is_some_and(|file| file.to_string_lossy().starts_with(fence.as_str()))
        }) {
            plan.caveats.push(Caveat::Unlimited(fence));
        }
    }
    if plan.groups.freezer.is_none() {
        plan.caveats.push(Caveat::NoFreezer);
    }
    plan
}

fn wanted(limits: &Limits) -> Vec<&'static str> {
    let all = [
        ("memory", limits.memory.is_some()),
        ("cpu", limits.cpus.is_some()),
        ("pids", limits.pids.is_some()),
    ];
    all.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect()
}

fn quota(cpus: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie between 0.01 and 4096"
    )]
    let quota = (cpus * 100_000.0).round() as u64;
    quota.max(1000)
}

/// `usable` lists the controllers of the requested limits that are available.
fn unified_plan(base: &Path, id: &str, limits: &Limits, usable: &[&'static str]) -> Plan {
    let parent = base.join("hothouse");
    let room = parent.join(id);
    let (init, commands) = (room.join("init"), room.join("commands"));
    let limited = [
        ("memory", "memory.max", limits.memory.map(|bytes| bytes.to_string())),
        ("cpu", "cpu.max", limits.cpus.map(|cpus| format!("{} 100000", quota(cpus)))),
        ("pids", "pids.max", limits.pids.map(|pids| pids.to_string())),
    ];
    let limited = limited.into_iter().filter(|(name, ..)| usable.contains(name));
    let writes: Vec<_> =
        limited.filter_map(|(_, file, value)| Some((room.join(file), value?))).collect();
    // Without a limit on swap, the room would continue in the host's swap.
    let swap = writes.iter().any(|(file, _)| file.ends_with("memory.max"));
    let more_limits = swap.then(|| (room.join("memory.swap.max"), "0".to_owned()));
    Plan {
        groups: Groups {
            version: FenceState::Cgroup(CgroupVersion::V2),
            folders: vec![init.clone(), commands.clone(), room.clone()],
            freezer: Some(Freezer {
                switch: commands.join("cgroup.freeze"),
                frozen: "1".into(),
                thawed: "0".into(),
                state: commands.join("cgroup.events"),
                state_when_frozen: "frozen 1".into(),
            }),
        },
        enable: vec![(base.to_owned(), usable.to_vec()), (parent, usable.to_vec()), (room, vec![])],
        limits: writes,
        more_limits: more_limits.into_iter().collect(),
        join: vec![commands.join("cgroup.procs")],
        join_commands: vec![commands.join("cgroup.procs")],
        join_init: Some(init.join("cgroup.procs")),
        caveats: vec![],
    }
}

fn legacy_plan(hierarchies: &[(String, PathBuf)], id: &str, limits: &Limits) -> Plan {
    let folder = |name: &str| {
        let point =
            hierarchies.iter().find(|(known, _)| known == name)?.1.join("hothouse").join(id);
        Some(point)
    };
    let mut plan = Plan {
        groups: Groups { version: FenceState::Cgroup(CgroupVersion::V1), ..Groups::default() },
        ..Plan::default()
    };
    let limited = [
        ("memory", "memory.limit_in_bytes", limits.memory.map(|bytes| bytes.to_string())),
        ("cpu", "cpu.cfs_quota_us", limits.cpus.map(|cpus| quota(cpus).to_string())),
        ("pids", "pids.max", limits.pids.map(|pids| pids.to_string())),
    ];
    for (name, file, value) in limited {
        if let (Some(folder), Some(value)) = (folder(name), value) {
            plan.limits.push((folder.join(file), value));
            // `tasks`, not `cgroup.procs`: moving a single thread avoids a lock that blocks every
            // fork on the machine.
            plan.join.push(folder.join("tasks"));
            plan.groups.folders.push(folder);
        }
    }
    // Limits memory and swap together. Written after the memory limit, because it cannot be lower.
    if let (Some(folder), Some(bytes)) = (folder("memory"), limits.memory) {
        let file = folder.join("memory.memsw.limit_in_bytes");
        plan.more_limits.push((file, bytes.to_string()));
    }
    if let Some(folder) = folder("freezer") {
        plan.join_commands.push(folder.join("tasks"));
        plan.groups.freezer = Some(Freezer {
            switch: folder.join("freezer.state"),
            frozen: "FROZEN".into(),
            thawed: "THAWED".into(),
            state: folder.join("freezer.state"),
            state_when_frozen: "FROZEN".into(),
        });
        plan.groups.folders.push(folder);
    }
    plan
}

impl Plan {
    /// Creates the cgroups and sets the limits.
    pub(super) fn apply(&self) -> Result<(), files::FileError> {
        for (folder, controllers) in &self.enable {
            files::make_folder(folder)?;
            for controller in controllers {
                files::write(&folder.join("cgroup.subtree_control"), format!("+{controller}"))?;
            }
        }
        for folder in &self.groups.folders {
            files::make_folder(folder)?;
        }
        for (file, value) in &self.limits {
            files::write(file, value)?;
        }
        for (file, value) in self.more_limits.iter().filter(|(file, _)| files::exists(file)) {
            files::write(file, value)?;
        }
        Ok(())
    }

    /// Returns the state of the fences that cgroups enforce. A fence is off if its limit was
    /// requested but could not be set.
    pub(super) fn fences(&self) -> Fences {
        let off = |fence: Fence| self.caveats.contains(&Caveat::Unlimited(fence));
        let state = |fence: Fence| match off(fence) {
            true => FenceState::Off(OffReason::NoCgroup),
            false => self.groups.version.clone(),
        };
        Fence::OF_CGROUPS.into_iter().map(|fence| (fence, state(fence))).collect()
    }
}

impl Groups {
    /// Puts the calling process under the room's memory and CPU limits, but not into the cgroup
    /// that is frozen: work done for a room counts against its limits.
    pub(super) fn enter(&self) {
        for file in self.working_files() {
            // If this fails, the work runs with the daemon's limits.
            files::write(&file, "0").ok();
        }
    }

    /// Returns the files through which a process joins the cgroups with limits, except the pids
    /// limit, which the room may have exhausted.
    fn working_files(&self) -> Vec<PathBuf> {
        let frozen = self.freezer.as_ref().and_then(|freezer| freezer.switch.parent());
        let free = self.folders.iter().filter(|folder| Some(folder.as_path()) != frozen);
        match self.version {
            FenceState::Cgroup(CgroupVersion::V2) => free
                .filter(|folder| folder.ends_with("init"))
                .map(|folder| folder.join("cgroup.procs"))
                .collect(),
            _ => {
                let counts = |folder: &Path| files::exists(&folder.join("pids.max"));
                free.filter(|folder| !counts(folder)).map(|folder| folder.join("tasks")).collect()
            }
        }
    }

    /// Whether the room is currently frozen.
    pub fn is_frozen(&self) -> bool {
        let state = self.freezer.as_ref().and_then(|freezer| {
            let text = files::read_text(&freezer.state).ok()?;
            Some(text.lines().any(|line| line == freezer.state_when_frozen))
        });
        state.unwrap_or(false)
    }

    /// Returns how often the kernel killed a process because the room had used up its memory, if ever.
    pub fn memory_kills(&self) -> Option<MemoryKills> {
        // The v2 counter, then the v1 counter.
        let counters =
            [("memory.events", "memory.max"), ("memory.oom_control", "memory.limit_in_bytes")];
        let all = self.folders.iter().flat_map(|folder| counters.map(|pair| (folder, pair)));
        let found = all.filter_map(|(folder, (events, limit))| {
            let number = |name: &str| files::read_text(&folder.join(name)).ok();
            let limit = number(limit)?.trim().parse().ok()?;
            Some(MemoryKills { kills: kills_of(&number(events)?)?, limit })
        });
        found.filter(|found| found.kills > 0).max_by_key(|found| found.kills)
    }

    /// Freezes every command of the room.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        let freezer = self.freezer.as_ref().ok_or(CgroupError::NoFreezer)?;
        for _ in 0..500 {
            // v1 needs another write if it could not freeze all processes at once.
            files::write(&freezer.switch, &freezer.frozen)?;
            if files::read_text(&freezer.state)?.contains(&freezer.state_when_frozen) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.thaw()?;
        Err(CgroupError::NotFrozen)
    }

    /// Lets the commands continue.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        let freezer = self.freezer.as_ref().ok_or(CgroupError::NoFreezer)?;
        Ok(files::write(&freezer.switch, &freezer.thawed)?)
    }

    /// Kills every process in the room atomically, where supported (v2 since Linux 5.14).
    pub(super) fn kill(&self) {
        for folder in &self.folders {
            let switch = folder.join("cgroup.kill");
            if files::exists(&switch) {
                // If this fails, the processes are killed one by one.
                files::write(&switch, "1").ok();
            }
        }
    }

    /// Kills all remaining processes in the cgroups, and removes them.
    pub(super) fn clear(&self) -> Result<(), CgroupError> {
        if !self.folders.iter().any(|folder| files::exists(folder)) {
            return Ok(());
        }
        // A frozen process cannot die (v1), so thaw it first.
        if self.freezer.is_some() {
            let _ = self.thaw();
        }
        self.kill();
        for folder in self.folders.iter().flat_map(|folder| with_groups_below(folder)) {
            kill_members(&folder);
        }
        self.remove()
    }

    /// Removes the cgroups of a room that has ended. Its last processes may need a moment to exit.
    pub fn remove(&self) -> Result<(), CgroupError> {
        for folder in self.folders.iter().flat_map(|folder| with_groups_below(folder)) {
            remove(&folder).map_err(|source| CgroupError::Remove { path: folder, source })?;
        }
        Ok(())
    }
}

/// Parses the number of kills from a memory controller's file.
fn kills_of(events: &str) -> Option<u64> {
    let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

/// Returns a cgroup and its descendants, innermost first.
fn with_groups_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = found.get(next) {
        let below = files::list(folder).unwrap_or_default();
        found.extend(below.into_iter().filter(|path| files::is_folder(path)));
        next += 1;
    }
    found.reverse();
    found
}

/// Kills the members of a cgroup one by one, for kernels without `cgroup.kill`.
fn kill_members(folder: &Path) {
    let members = files::read_text(&folder.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?))
    {
        // It may already have exited.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Removes a cgroup once its killed processes have exited, which takes a while on a busy host.
fn remove(folder: &Path) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let begun = std::time::Instant::now();
    loop {
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Limits =
        Limits { memory: Some(1 << 30), cpus: Some(0.5), pids: Some(64), disk: None };

    fn legacy() -> Vec<(String, PathBuf)> {
        ["memory", "cpu", "pids", "freezer"]
            .map(|name| (name.to_owned(), Path::new("/cg").join(name)))
            .into()
    }

    fn unified(base: impl Into<PathBuf>, controllers: Vec<String>) -> Option<Delegated> {
        Some(Delegated { base: base.into(), controllers })
    }

    #[test]
    fn groups_in_groups_are_removed_too() {
        let top = tempfile::tempdir().unwrap();
        let group = top.path().join("r1");
        for below in ["a/b/c", "a/d", "e"] {
            files::make_folder(&group.join(below)).unwrap();
        }
        let groups = Groups { folders: vec![group.clone()], ..Groups::default() };
        groups.clear().unwrap();
        assert!(!group.exists());
    }

    #[test]
    fn whoever_works_for_a_room_is_neither_frozen_nor_counted_with_it() {
        let controllers = ["cpu", "memory", "pids"].map(str::to_owned).to_vec();
        let v2 = Offer { unified: unified("/cg", controllers), legacy: Vec::new() };
        let files = plan(&v2, "r1", &ALL).groups.working_files();
        assert_eq!(files, [PathBuf::from("/cg/hothouse/r1/init/cgroup.procs")]);
        let top = tempfile::tempdir().unwrap();
        let legacy = legacy().into_iter();
        let legacy = legacy.map(|(name, _)| (name.clone(), top.path().join(name))).collect();
        let groups = plan(&Offer { unified: None, legacy }, "r1", &ALL).groups;
        let pids = top.path().join("pids/hothouse/r1");
        files::make_folder(&pids).unwrap();
        files::write(&pids.join("pids.max"), "64").unwrap();
        let expected =
            ["memory", "cpu"].map(|name| top.path().join(name).join("hothouse/r1/tasks"));
        assert_eq!(groups.working_files(), expected);
    }

    #[test]
    fn v1_limits_what_was_asked_and_freezes_commands_alone() {
        let plan = plan(&Offer { unified: None, legacy: legacy() }, "r1", &ALL);
        assert_eq!(plan.groups.version, FenceState::Cgroup(CgroupVersion::V1));
        assert_eq!(plan.limits[1], ("/cg/cpu/hothouse/r1/cpu.cfs_quota_us".into(), "50000".into()));
        assert_eq!(plan.join.len(), 3);
        assert_eq!(plan.join_commands, [PathBuf::from("/cg/freezer/hothouse/r1/tasks")]);
        assert_eq!(plan.caveats, []);
    }

    #[test]
    fn without_limits_only_the_freezer_is_made() {
        let plan = plan(&Offer { unified: None, legacy: legacy() }, "r1", &Limits::default());
        assert_eq!(plan.groups.folders, [PathBuf::from("/cg/freezer/hothouse/r1")]);
    }

    #[test]
    fn v2_is_taken_when_it_has_every_controller() {
        let controllers = ["cpu", "memory", "pids"].map(str::to_owned).to_vec();
        let offer = Offer { unified: unified("/cg", controllers), legacy: legacy() };
        let plan = plan(&offer, "r1", &ALL);
        assert_eq!(plan.groups.version, FenceState::Cgroup(CgroupVersion::V2));
        assert_eq!(plan.join_init, Some("/cg/hothouse/r1/init/cgroup.procs".into()));
        assert_eq!(plan.groups.folders.last(), Some(&PathBuf::from("/cg/hothouse/r1")));
    }

    #[test]
    fn what_v2_has_is_limited_and_the_rest_is_said() {
        // Before version 252 systemd delegates no `cpu` controller to users.
        let offer = Offer {
            unified: unified("/cg", ["memory", "pids"].map(str::to_owned).to_vec()),
            legacy: Vec::new(),
        };
        let planned = plan(&offer, "r1", &ALL);
        let files: Vec<_> = planned.limits.iter().map(|(file, _)| file.clone()).collect();
        assert_eq!(
            files,
            ["memory.max", "pids.max"].map(|file| Path::new("/cg/hothouse/r1").join(file))
        );
        assert_eq!(planned.enable[0].1, ["memory", "pids"]);
        assert_eq!(planned.caveats, [Caveat::Unlimited(Fence::Cpu)]);
        let fences = planned.fences();
        assert_eq!(fences[&Fence::Memory], FenceState::Cgroup(CgroupVersion::V2));
        assert_eq!(fences[&Fence::Cpu], FenceState::Off(OffReason::NoCgroup));
        // A cgroup that contains processes cannot delegate controllers, but it can still freeze.
        let busy = Offer { unified: unified("/cg", Vec::new()), legacy: Vec::new() };
        let planned = plan(&busy, "r1", &ALL);
        assert!(planned.limits.is_empty() && planned.groups.freezer.is_some());
        assert_eq!(planned.fences()[&Fence::Memory], FenceState::Off(OffReason::NoCgroup));
        // On a hybrid host, v1 has the controllers.
        let hybrid = Offer { legacy: legacy(), ..busy };
        assert_eq!(plan(&hybrid, "r1", &ALL).groups.version, FenceState::Cgroup(CgroupVersion::V1));
    }

    #[test]
    fn kills_are_read_with_their_limit() {
        let top = tempfile::tempdir().unwrap();
        let groups = Groups {
            folders: vec![top.path().join("init"), top.path().into()],
            ..Groups::default()
        };
        assert_eq!(groups.memory_kills(), None);
        files::write(&top.path().join("memory.max"), "268435456\n").unwrap();
        let events = |kills: u64| {
            let text = format!("max 343\noom 16\noom_kill {kills}\noom_group_kill 0\n");
            files::write(&top.path().join("memory.events"), text).unwrap();
        };
        events(0);
        assert_eq!(groups.memory_kills(), None);
        events(2);
        assert_eq!(groups.memory_kills(), Some(MemoryKills { kills: 2, limit: 256 << 20 }));
        assert_eq!(kills_of("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
    }

    #[test]
    fn v2_is_written_as_its_files_want_it() {
        // A folder that looks like a delegated branch; normally the kernel creates these files.
        let base = tempfile::tempdir().unwrap();
        let controllers = ["cpu", "memory", "pids"].map(str::to_owned).to_vec();
        let unified = unified(base.path(), controllers);
        let plan = plan(&Offer { unified, legacy: vec![] }, "r1", &ALL);
        let room = base.path().join("hothouse/r1");
        files::make_folder(&room).unwrap();
        files::write(&room.join("memory.swap.max"), "max").unwrap();
        plan.apply().unwrap();
        let room = base.path().join("hothouse/r1");
        for (file, content) in [
            ("memory.max", "1073741824"),
            ("memory.swap.max", "0"),
            ("cpu.max", "50000 100000"),
            ("pids.max", "64"),
            ("../cgroup.subtree_control", "+pids"),
            ("../../cgroup.subtree_control", "+pids"),
        ] {
            assert_eq!(files::read_text(&room.join(file)).unwrap(), content, "{file}");
        }
        assert_eq!(plan.join, [room.join("commands/cgroup.procs")]);
        // A cgroup that contains processes cannot enable controllers for its children, so the
        // room's does not.
        assert!(!files::exists(&room.join("cgroup.subtree_control")));
        files::write(&room.join("commands/cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        assert!(plan.groups.is_frozen());
        files::write(&room.join("commands/cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        assert!(!plan.groups.is_frozen());
        plan.groups.thaw().unwrap();
        assert_eq!(files::read_text(&room.join("commands/cgroup.freeze")).unwrap(), "0");
    }

    #[test]
    fn a_real_v2_freezes_thaws_and_kills() {
        let Some(Delegated { base, .. }) = look().unified else {
            return hothouse_testkit::skip("freezing by cgroup v2", "one that this user may write");
        };
        let id = format!("test-{}", std::process::id());
        let plan = unified_plan(&base, &id, &Limits::default(), &[]);
        for folder in plan.enable.iter().map(|(folder, _)| folder).chain(&plan.groups.folders) {
            files::make_folder(folder).unwrap();
        }
        let mut child = hothouse_host::command::bare("sleep").arg("1000").spawn().unwrap();
        files::write(&plan.join_commands[0], child.id().to_string()).unwrap();
        assert!(!plan.groups.is_frozen());
        plan.groups.freeze().unwrap();
        assert!(plan.groups.is_frozen());
        plan.groups.thaw().unwrap();
        assert!(!plan.groups.is_frozen());
        // A frozen process can be killed this way too.
        plan.groups.freeze().unwrap();
        plan.groups.kill();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        plan.groups.remove().unwrap();
        assert!(!files::exists(&base.join("hothouse").join(&id)));
    }

    #[test]
    fn every_limit_that_is_not_available_is_a_caveat() {
        let codes: Vec<String> = plan(&Offer::default(), "r1", &ALL)
            .caveats
            .iter()
            .map(|c| c.area().to_string())
            .collect();
        assert_eq!(codes, ["no-memory-cgroup", "no-cpu-cgroup", "no-pids-cgroup", "no-freezer"]);
    }
}
