//! Adopts and checks the descriptors that the setup helper passed on.

use crate::sys;
use hothouse_room_wire::boot::BOOT_FD;
use hothouse_room_wire::{Boot, decode};
use rustix::fd::{OwnedFd, RawFd};
use rustix::process::DumpableBehavior;
use std::io::{self, Read};

/// The room's settings and sockets, owned.
pub(crate) struct Adopted {
    pub(crate) token: Vec<u8>,
    pub(crate) peer_uid: u32,
    pub(crate) has_root: bool,
    pub(crate) dropped_capabilities: u64,
    pub(crate) ephemeral: bool,
    pub(crate) control: OwnedFd,
    pub(crate) ready: Option<OwnedFd>,
    pub(crate) user_namespace: OwnedFd,
    pub(crate) mount_namespace: OwnedFd,
    pub(crate) cgroups: Vec<OwnedFd>,
    pub(crate) tcp: Vec<OwnedFd>,
    pub(crate) dns_datagram: Vec<OwnedFd>,
    pub(crate) dns_stream: Vec<OwnedFd>,
    pub(crate) dropped: Vec<OwnedFd>,
    pub(crate) datagrams: Vec<OwnedFd>,
    pub(crate) echoes: Vec<OwnedFd>,
    pub(crate) raw: Vec<OwnedFd>,
    pub(crate) rules: OwnedFd,
    pub(crate) elevate: OwnedFd,
    pub(crate) api: OwnedFd,
    pub(crate) views: Vec<OwnedFd>,
    /// Held open, never used.
    _base_layer: OwnedFd,
    /// Held open, never used.
    _claim: OwnedFd,
}

/// Reads the boot record and takes ownership of every descriptor listed in it.
pub(crate) fn adopt() -> io::Result<Adopted> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_name(c"room-init")?;
    sys::keep_the_heap_small();
    let mut bytes = Vec::new();
    std::fs::File::from(sys::adopt(BOOT_FD)?).read_to_end(&mut bytes)?;
    let boot = decode::<Boot>(&bytes).map_err(io::Error::other)?;
    if boot.has_root {
        // The kernel assigns the `/proc` files of an undumpable process to the root of its
        // namespace. The room has that root too, and could write `/proc/1/oom_score_adj`. The files
        // of a dumpable process belong to us, and nobody in the room has our uid. Commands become
        // undumpable before they enter the room (`spawn`).
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    let all = |fds: Vec<RawFd>| fds.into_iter().map(sys::adopt).collect::<io::Result<Vec<_>>>();
    Ok(Adopted {
        token: boot.token,
        peer_uid: boot.peer_uid,
        has_root: boot.has_root,
        dropped_capabilities: boot.dropped_capabilities,
        ephemeral: boot.ephemeral,
        control: sys::adopt(boot.control)?,
        ready: Some(sys::adopt(boot.ready)?),
        user_namespace: sys::adopt(boot.user_namespace)?,
        mount_namespace: sys::adopt(boot.mount_namespace)?,
        cgroups: all(boot.cgroups)?,
        tcp: all(boot.tcp)?,
        dns_datagram: all(boot.dns_datagram)?,
        dns_stream: all(boot.dns_stream)?,
        dropped: all(boot.dropped)?,
        datagrams: all(boot.datagrams)?,
        echoes: all(boot.echoes)?,
        raw: all(boot.raw)?,
        rules: sys::adopt(boot.rules)?,
        elevate: sys::adopt(boot.elevate)?,
        api: sys::adopt(boot.api)?,
        views: all(boot.views)?,
        _base_layer: sys::adopt(boot.base_layer)?,
        _claim: sys::adopt(boot.claim)?,
    })
}
