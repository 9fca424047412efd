//! The id maps of a wall: which ones apply, and how a process gets them.

use crate::command::bare;
use crate::files;
use crate::ids::{self, AGENT_ID, Extent, Mode, Range};
use crate::owners::Owner;
use crate::sys::{self, Fork};
use crate::system_error::{Context, SystemError};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::LazyLock;

/// The id maps of a wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    pub uids: Vec<Extent>,
    pub gids: Vec<Extent>,
}

impl Wall {
    /// Returns the agent's ids on the host, unless they are the user's.
    pub fn agent(&self, mode: Mode) -> Option<Owner> {
        let (uids, gids) = (&self.uids, &self.gids);
        let user = ids::outside(uids, AGENT_ID).filter(|_| mode != Mode::Single)?;
        Some(Owner { user, group: ids::outside(gids, AGENT_ID)? })
    }

    /// Returns the map with which a tree of `user` and `group` belongs to a room's agent.
    pub fn of_owner(user: u32, group: u32, base: u32) -> Self {
        Self { uids: ids::worktree(user, base), gids: ids::worktree(group, base) }
    }
}

/// Returns the host ids of our rooms' agent, if rooms have their own ids. With a single uid, agent
/// and user are the same.
///
/// Also returns `None` for root in a container that does not map the ids of rooms.
pub fn agent() -> Option<Owner> {
    let (mode, wall) = ids_here().ok()?;
    wall.agent(mode).filter(|agent| mode != Mode::Root || is_known(agent.user))
}

/// Whether an id is mapped in the current user namespace.
fn is_known(id: u32) -> bool {
    static MAP: LazyLock<String> =
        LazyLock::new(|| files::read_text(Path::new("/proc/self/uid_map")).unwrap_or_default());
    let holds = |line: &str| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first..first + count).contains(&u64::from(id)))
    };
    MAP.lines().any(|line| holds(line).unwrap_or_default())
}

/// Returns the id mapping of our rooms.
pub(crate) fn ids_here() -> Result<(Mode, Wall), SystemError> {
    walls(None, ids::SHIFTED_BASE)
}

/// Determines the id maps.
pub fn walls(forced: Option<Mode>, base: u32) -> Result<(Mode, Wall), SystemError> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let ranged = || {
        Some(Wall {
            uids: ids::ranged(uid, &ranges("/etc/subuid", uid)?)?,
            gids: ids::ranged_groups(gid, &ranges("/etc/subgid", uid)?)?,
        })
    };
    let single = || Wall { uids: ids::single(uid), gids: ids::single(gid) };
    let shifted = || Wall { uids: ids::shifted(base), gids: ids::shifted(base) };
    match forced {
        Some(Mode::Root) if uid != 0 => {
            Err(SystemError::because("map ids", None, "root mode needs root"))
        }
        Some(Mode::Range | Mode::Single) if uid == 0 => Err(SystemError::because(
            "map ids",
            None,
            "root makes rooms in root mode: its own uid is never mapped",
        )),
        Some(Mode::Range) => match ranged() {
            Some(wall) => Ok((Mode::Range, wall)),
            None => Err(SystemError::because(
                "map ids",
                None,
                "no 65536 subordinate ids, or no newuidmap",
            )),
        },
        Some(Mode::Single) => Ok((Mode::Single, single())),
        Some(Mode::Root) | None if uid == 0 => Ok((Mode::Root, shifted())),
        _ => Ok(ranged().map_or_else(|| (Mode::Single, single()), |wall| (Mode::Range, wall))),
    }
}

fn ranges(table: &str, uid: u32) -> Option<Vec<Range>> {
    let found = |name: &str| {
        ["/usr/bin", "/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(name).exists())
    };
    if !found("newuidmap") || !found("newgidmap") {
        return None;
    }
    let table = files::read_text(Path::new(table)).ok()?;
    let name = user_name(uid).unwrap_or_default();
    Some(ids::subordinate(&table, &name, uid))
}

fn user_name(uid: u32) -> Option<String> {
    let users = files::read_text(Path::new("/etc/passwd")).ok()?;
    let uid = uid.to_string();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&uid))?;
    line.split(':').next().map(str::to_owned)
}

/// Writes the id maps of a process in a new user namespace.
pub fn write_maps(pid: i32, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    let own = Path::new("/proc").join(pid.to_string());
    let (uids, gids) = (ids::text(&wall.uids), ids::text(&wall.gids));
    match mode {
        Mode::Range => map_by_program(pid, wall),
        Mode::Root | Mode::Single => {
            if mode == Mode::Single {
                // Without this, the kernel lets only root map a group.
                files::write(&own.join("setgroups"), "deny").context("map groups")?;
            }
            files::write(&own.join("uid_map"), uids).context("map users")?;
            files::write(&own.join("gid_map"), gids).context("map groups")
        }
    }
}

/// Runs both setuid programs in parallel: each takes about a millisecond.
fn map_by_program(pid: i32, wall: &Wall) -> Result<(), SystemError> {
    let start = |program: &str, map: &[Extent]| {
        let numbers = map.iter().flat_map(|extent| [extent.inside, extent.outside, extent.count]);
        let arguments = numbers.map(|number| number.to_string());
        bare(program).arg(pid.to_string()).args(arguments).spawn().context_at("run", program)
    };
    let running = [("newuidmap", &wall.uids), ("newgidmap", &wall.gids)];
    let running = running.map(|(program, map)| (program, start(program, map)));
    for (program, child) in running {
        let status = child?.wait().context_at("wait for", program)?;
        if !status.success() {
            return Err(SystemError::because(
                "map ids with",
                Some(Path::new(program)),
                status.to_string(),
            ));
        }
    }
    Ok(())
}

pub fn user_namespace(pid: i32) -> Result<OwnedFd, SystemError> {
    let path = Path::new("/proc").join(pid.to_string()).join("ns/user");
    rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty())
        .context_at("open", path)
}

/// Creates a user namespace just for its map. The process that held it is about to exit; [`reap`]
/// it when convenient.
pub fn namespace_with(wall: &Wall) -> Result<(OwnedFd, i32), SystemError> {
    let (held, holder) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("open a pipe")?;
    match sys::fork_into(libc::CLONE_NEWUSER).context("make a user namespace")? {
        Fork::Child => {
            drop(holder);
            // Exits once the parent has opened the namespace.
            let _ = rustix::io::read(&held, &mut [0_u8; 1]);
            sys::exit_now(0)
        }
        Fork::Parent(pid) => {
            let namespace = write_maps(pid, Mode::Root, wall).and_then(|()| user_namespace(pid));
            drop(holder);
            Ok((namespace?, pid))
        }
    }
}

/// Waits for a child that is about to exit.
pub fn reap(pid: i32) {
    if let Some(process) = Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(process), WaitOptions::empty());
    }
}
