//! Sockets for sending echo requests from this host.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// An ICMP socket for one address.
#[derive(Debug)]
pub struct PingSocket {
    pub socket: OwnedFd,
    /// Raw sockets receive every reply from the address, with IP headers for IPv4. For other
    /// sockets the kernel assigns the identifier and delivers only matching replies.
    pub is_raw: bool,
}

/// Opens a socket for echo requests to an address: an unprivileged one if the host allows it
/// (`net.ipv4.ping_group_range`), otherwise a raw one, which requires root.
pub fn open(target: IpAddr) -> io::Result<PingSocket> {
    let (family, protocol) = match target {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let (socket, is_raw) = match socket(family, SocketType::DGRAM, protocol) {
        Ok(socket) => (socket, false),
        Err(_) => (socket(family, SocketType::RAW, protocol)?, true),
    };
    rustix::net::connect(&socket, &SocketAddr::new(target, 0))?;
    Ok(PingSocket { socket, is_raw })
}

/// Whether this process may send echo requests.
pub fn is_allowed() -> bool {
    open(IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok()
}

fn socket(family: AddressFamily, kind: SocketType, protocol: Protocol) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, Some(protocol))
}
