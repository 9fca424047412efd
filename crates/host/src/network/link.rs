//! A dummy link that makes a room look online. Programs treat a machine with only a loopback interface
//! as offline: browsers report it, and package managers do not even try.
//!
//! ```text
//! eth0  198.51.100.2/24, default route      an address for documentation (RFC 5737): it shadows no host
//! ```
//!
//! No traffic uses it. The local routing table is consulted before its route, and contains every
//! address. Packets from a socket bound to the link are dropped there.

use super::netlink::{ACK, CREATE, EXCLUSIVE, Message};
use super::talk;
use crate::files;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::net::Ipv4Addr;
use std::path::Path;

/// The address that programs in a room find for it.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

const PREFIX: u8 = 24;

const NAME: &str = "eth0";

/// The first interface after loopback in a new namespace, in which nobody else creates any.
const INDEX: u32 = 2;

/// Kinds of links that drop all packets; a kernel may lack some.
const KINDS: [&str; 2] = ["dummy", "ifb"];

/// Creates the link and brings it up.
pub(super) fn add(route: &OwnedFd) -> Result<(), Errno> {
    // IPv6 would send announcements on the link, which the nftables rules would drop and report.
    let by_default = Path::new("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    let disabled = files::write(by_default, "1").is_ok();
    let made = KINDS.iter().try_fold(Errno::OPNOTSUPP, |_, kind| {
        match talk(route, &new_link(kind), 1) {
            // Stops the loop on success.
            Ok(()) => Err(()),
            Err(errno) => Ok(errno),
        }
    });
    if disabled {
        files::write(by_default, "0").ok();
    }
    if let Ok(errno) = made {
        return Err(errno);
    }
    talk(route, &address(), 1)?;
    talk(route, &default_route(), 1)
}

fn new_link(kind: &str) -> Vec<u8> {
    const NEW_LINK: u16 = 16;
    const UP: u32 = 1;
    const INTERFACE_NAME: u16 = 3;
    const LINK_INFO: u16 = 18;
    const INFO_KIND: u16 = 1;
    let head = [0, INDEX, UP, UP].map(u32::to_ne_bytes).concat();
    Message::new(NEW_LINK, ACK | CREATE | EXCLUSIVE, 1)
        .raw(&head)
        .text(INTERFACE_NAME, NAME)
        .nest(LINK_INFO, |m| m.attribute(INFO_KIND, kind.as_bytes()))
        .finish()
}

fn address() -> Vec<u8> {
    const NEW_ADDRESS: u16 = 20;
    const ADDRESS_OF_PEER: u16 = 1;
    const ADDRESS_HERE: u16 = 2;
    const INET: u8 = 2;
    let head = [&[INET, PREFIX, 0, 0], &INDEX.to_ne_bytes()[..]].concat();
    Message::new(NEW_ADDRESS, ACK | CREATE | EXCLUSIVE, 1)
        .raw(&head)
        .attribute(ADDRESS_HERE, &ADDRESS.octets())
        .attribute(ADDRESS_OF_PEER, &ADDRESS.octets())
        .finish()
}

/// Returns a route without a gateway: every address is local, so there are no neighbours.
fn default_route() -> Vec<u8> {
    const NEW_ROUTE: u16 = 24;
    const INET: u8 = 2;
    const TABLE_MAIN: u8 = 254;
    const BY_BOOT: u8 = 3;
    const SCOPE_LINK: u8 = 253;
    const TYPE_UNICAST: u8 = 1;
    const OUTPUT_INTERFACE: u16 = 4;
    let head = [INET, 0, 0, 0, TABLE_MAIN, BY_BOOT, SCOPE_LINK, TYPE_UNICAST, 0, 0, 0, 0];
    Message::new(NEW_ROUTE, ACK | CREATE | EXCLUSIVE, 1)
        .raw(&head)
        .attribute(OUTPUT_INTERFACE, &INDEX.to_ne_bytes())
        .finish()
}
