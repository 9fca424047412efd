//! The sockets on which the kernel reports packets (NFLOG).
//!
//! They are opened and bound here, with the required privileges; the daemon only reads from them.
//! Until it does, the kernel buffers as much as the sockets hold.

use super::netfilter::*;
use super::netlink::{ACK, Message};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink as families;

/// A group of reported packets. Groups belong to one network namespace.
pub(super) struct Book {
    pub(super) group: u16,
    /// How much of a packet is reported.
    pub(super) snap: u32,
}

/// Dropped packets, headers only.
pub(super) const DROPPED: Book = Book { group: 1, snap: 96 };

/// Echo requests that may be answered, complete unless oversized.
pub(super) const ECHOES: Book = Book { group: 2, snap: 9216 };

const CONFIG: u16 = (NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG;

impl Book {
    /// Opens a socket and binds it to the group.
    pub(super) fn open(&self) -> Result<OwnedFd, Errno> {
        let [high, low] = self.group.to_be_bytes();
        let config = |sequence| Message::new(CONFIG, ACK, sequence).raw(&[0, 0, high, low]);
        let bind = config(1).attribute(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]).finish();
        let range = self.snap.to_be_bytes();
        let mode = [&range[..], &[NFULNL_COPY_PACKET, 0]].concat();
        // Report each packet immediately: there are few, and a user may be waiting for the reason.
        let mode = config(2).attribute(NFULA_CFG_MODE, &mode).number(NFULA_CFG_QTHRESH, 1).finish();
        let socket = super::open(Some(families::NETFILTER))?;
        super::talk(&socket, &bind, 1)?;
        super::talk(&socket, &mode, 1)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }
}
