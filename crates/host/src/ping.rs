//! Sockets by which this host sends echo requests.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A socket that speaks ICMP with one address.
#[derive(Debug)]
pub struct PingSocket {
    pub socket: OwnedFd,
    /// Whether it is given every answer of the address, and those of IPv4 with their headers;
    /// otherwise the kernel gives the requests a number of their own and their answers alone.
    pub is_raw: bool,
}

/// Opens a socket for echo requests to an address: one of the kinds that the host allows its users
/// (`net.ipv4.ping_group_range`), else a raw one, for which root is needed.
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
