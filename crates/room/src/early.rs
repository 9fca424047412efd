//! The first process of a room, before and after its room is known.
//!
//! Namespaces, ids, network and an empty root are the same for every room. In root mode they are
//! created while the helper still waits for a job, so that the next room finds them ready.

use super::ahead::Ahead;
use super::inside::{self, MAPPED, ORDER, Order};
use super::shares::Shares;
use crate::sys::{self, Fork};
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::{Wall, reap, write_maps};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, Signal};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;

/// The namespaces of the wall. The cgroup namespace follows once the room has cgroups.
const WALL: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// The helper's handle to a first process, which is killed on drop unless kept.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) pid: i32,
    pub(super) channel: OwnedFd,
    mode: Mode,
    /// Its id maps.
    wall: Wall,
    kept: bool,
}

/// The two sides of a clone.
pub(super) enum Cloned<'a> {
    Helper(Early),
    /// In the new process, which must call [`inside::run`] and close what it does not use.
    First(First<'a>),
}

/// The initial state of the new process.
pub(super) struct First<'a> {
    pub(super) mode: Mode,
    pub(super) channel: OwnedFd,
    pub(super) ahead: &'a Ahead,
    pub(super) shares: Shares,
}

impl Early {
    /// Clones the first process of a room with these maps.
    pub(super) fn clone<'a>(
        mode: Mode,
        wall: &Wall,
        ahead: &'a Ahead,
        shares: Shares,
    ) -> Result<Cloned<'a>, SystemError> {
        let (channel, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .context("open a channel")?;
        match sys::fork_into(WALL)
            .context("make the wall's namespaces (are user namespaces allowed here?)")?
        {
            Fork::Child => {
                drop(channel);
                Ok(Cloned::First(First { mode, channel: theirs, ahead, shares }))
            }
            Fork::Parent(pid) => {
                drop(theirs);
                let early = Self { pid, channel, mode, wall: wall.clone(), kept: false };
                write_maps(pid, mode, wall)?;
                rustix::net::send(&early.channel, MAPPED, SendFlags::NOSIGNAL)
                    .context("start the room")?;
                Ok(Cloned::Helper(early))
            }
        }
    }

    /// Clones the first process of a known room. Does not return in the new process.
    pub(super) fn now(
        mode: Mode,
        wall: &Wall,
        ahead: &Ahead,
        shares: Shares,
    ) -> Result<Self, SystemError> {
        match Self::clone(mode, wall, ahead, shares)? {
            Cloned::Helper(early) => Ok(early),
            Cloned::First(first) => inside::run(first),
        }
    }

    /// Whether a room with these ids can use it. If it has failed in the meantime it cannot, and
    /// the room's own attempt reports the reason.
    pub(super) fn fits(&self, mode: Mode, wall: &Wall) -> bool {
        let mut channel = [PollFd::new(&self.channel, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waits = rustix::event::poll(&mut channel, Some(&now)) == Ok(0);
        waits && (self.mode, &self.wall) == (mode, wall)
    }

    /// Sends it the order for its room.
    pub(super) fn tell(&self, order: &Order, descriptors: &[OwnedFd]) -> Result<(), SystemError> {
        let step = "tell the room what it is";
        // An order may exceed the maximum message size.
        let paper = rustix::fs::memfd_create(c"room-order", MemfdFlags::CLOEXEC).context(step)?;
        let bytes = serde_json::to_vec(order).map_err(std::io::Error::from).context(step)?;
        let mut file = std::fs::File::from(paper);
        file.write_all(&bytes).context(step)?;
        let mut all = vec![file.as_fd()];
        all.extend(descriptors.iter().map(AsFd::as_fd));
        send_descriptors(&self.channel, ORDER, &all).context(step)
    }

    /// Prevents it from being killed on drop.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Some(process) = Pid::from_raw(self.pid) {
            // It may already have exited.
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
        reap(self.pid);
    }
}

/// Sends a message with at most 64 descriptors.
pub(super) fn send_descriptors(
    channel: &OwnedFd,
    word: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(descriptors));
    rustix::net::sendmsg(channel, &[IoSlice::new(word)], &mut control, SendFlags::NOSIGNAL)
        .map(drop)
}
