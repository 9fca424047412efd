//! The socket on which the kernel tells what the packet rules dropped (NFLOG).
//!
//! It is opened and bound here, where there is the right to; the daemon only reads from it. While
//! nobody does, the kernel keeps as much as the socket holds.

use super::netlink::{ACK, Message};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink as families;

/// The group of our rules. Groups belong to one network namespace.
pub(super) const GROUP: u16 = 1;

/// How much of a packet is told: its headers.
pub(super) const SNAP: u32 = 96;

const SUBSYSTEM: u16 = 4;
const CONFIG: u16 = (SUBSYSTEM << 8) | 1;

/// Opens the socket and binds it to the group.
pub(super) fn open() -> Result<OwnedFd, Errno> {
    const COMMAND: u16 = 1;
    const MODE: u16 = 2;
    const THRESHOLD: u16 = 5;
    const BIND: u8 = 1;
    const COPY_PACKET: u8 = 2;
    let [high, low] = GROUP.to_be_bytes();
    let config = |sequence| Message::new(CONFIG, ACK, sequence).raw(&[0, 0, high, low]);
    let bind = config(1).attribute(COMMAND, &[BIND]).finish();
    let range = SNAP.to_be_bytes();
    let mode = [&range[..], &[COPY_PACKET, 0]].concat();
    // Each packet is told at once: there are few, and somebody may ask why.
    let mode = config(2).attribute(MODE, &mode).number(THRESHOLD, 1).finish();
    let socket = super::open(Some(families::NETFILTER))?;
    super::talk(&socket, &bind, 1)?;
    super::talk(&socket, &mode, 1)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}
