//! Resources that are the same for every room: prepared once by the launcher and inherited by its
//! helpers.

use super::early::{Cloned, Early};
use super::shares::Shares;
use super::spec::RoomSpec;
use super::{cgroups, filter};
use crate::sys::Instruction;
use hothouse_host::ids::{AGENT_ID, Mode};
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::{Wall, namespace_with, reap, walls};
use hothouse_room_wire::boot::BOOT_FD;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode as FileMode, OFlags};
use std::io;

type Filters = Vec<Vec<Instruction>>;

/// What helpers inherit instead of preparing it themselves.
pub(super) struct Ahead {
    /// Reserves the descriptor number on which room-init expects its boot record.
    _boot: OwnedFd,
    /// Owners of trees, each with the user namespace that maps their files to the agent.
    owners: Vec<((u32, u32), OwnedFd)>,
    filters: Option<(Mode, Filters)>,
    /// The id maps of rooms, if a first process can be created before its room is known.
    wall: Option<Wall>,
    /// The host's cgroups; cached because the mount table is long when there are many rooms.
    cgroups: cgroups::Offer,
}

impl Ahead {
    /// Prepares what most rooms of this user need. Failures are ignored here: the room that needs
    /// the resource tries again and reports them.
    pub(super) fn make() -> io::Result<Self> {
        let mut ahead = Self::nothing(reserve_boot_fd()?);
        let base = RoomSpec::DEFAULT_SHIFTED_BASE;
        let Ok((mode, wall)) = walls(None, base) else { return Ok(ahead) };
        // Without root, the process must see the host's files as they are once its room is known.
        ahead.wall = (mode == Mode::Root).then_some(wall);
        ahead.filters = filter::compile(mode).ok().map(|filters| (mode, filters));
        // Root's own trees, and those created for an agent.
        let owners = [0, base + AGENT_ID].into_iter().filter(|_| mode == Mode::Root);
        for owner in owners {
            if let Ok((namespace, holder)) = namespace_with(&Wall::of_owner(owner, owner, base)) {
                reap(holder);
                ahead.owners.push(((owner, owner), namespace));
            }
        }
        Ok(ahead)
    }

    /// Prepares nothing, for a helper without a launcher.
    pub(super) fn nothing(boot: OwnedFd) -> Self {
        Self {
            _boot: boot,
            owners: Vec::new(),
            filters: None,
            wall: None,
            cgroups: cgroups::look(),
        }
    }

    /// Returns the namespace that maps a tree to a room's agent, if it was prepared.
    pub(super) fn ids_of(
        &self,
        user: u32,
        group: u32,
        base: u32,
    ) -> Result<Option<OwnedFd>, SystemError> {
        let known = self.owners.iter().find(|(owner, _)| *owner == (user, group));
        match known.filter(|_| base == RoomSpec::DEFAULT_SHIFTED_BASE) {
            Some((_, namespace)) => namespace.try_clone().context("map the worktree").map(Some),
            None => Ok(None),
        }
    }

    /// Clones a first process for a room that is not known yet, if possible.
    pub(super) fn first_process(&self) -> Option<Result<Cloned<'_>, SystemError>> {
        let wall = self.wall.as_ref()?;
        Some(Early::clone(Mode::Root, wall, self, Shares::of_host()))
    }

    /// Returns the cgroups that the host offers.
    pub(super) fn cgroups(&self) -> &cgroups::Offer {
        &self.cgroups
    }

    /// Returns the seccomp filters of a room.
    pub(super) fn filters(&self, mode: Mode) -> Result<Filters, SystemError> {
        match &self.filters {
            Some((known, filters)) if *known == mode => Ok(filters.clone()),
            _ => filter::compile(mode)
                .map_err(io::Error::other)
                .context("compile the seccomp filter"),
        }
    }
}

/// Reserves the number of the boot record's descriptor before another descriptor gets it.
pub(super) fn reserve_boot_fd() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let reserved = rustix::fs::open("/dev/null", flags, FileMode::empty())?;
    match reserved.as_raw_fd() {
        BOOT_FD => Ok(reserved),
        other => Err(io::Error::other(format!("descriptor {other} instead of {BOOT_FD}"))),
    }
}
