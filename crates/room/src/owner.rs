//! Finds the process in a room that owns a connection, through the kernel's socket tables.

use super::identity::{RoomIdentity, host_pids};
use hothouse_host::files;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A process in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// Its pid in the room.
    pub pid: u32,
    /// Its pid on the host.
    pub outside: u32,
    pub name: String,
}

/// Returns the process with the connection from `client` to `target`, both as seen in the room.
pub fn socket_owner(
    room: &RoomIdentity,
    client: SocketAddr,
    target: SocketAddr,
) -> Option<SocketOwner> {
    // An IPv6 socket can hold an IPv4 connection.
    let inode = in_tables(room, ["tcp", "tcp6"], |text| inode_of(text, client.port(), target))?;
    holder_of(room, inode)
}

/// Returns the process that owns a UDP port.
pub fn datagram_owner(room: &RoomIdentity, port: u16) -> Option<SocketOwner> {
    let inode = in_tables(room, ["udp", "udp6"], |text| inode_of_port(text, port))?;
    holder_of(room, inode)
}

/// Returns the process that sends echo requests with this identifier.
pub fn echo_owner(room: &RoomIdentity, identifier: u16) -> Option<SocketOwner> {
    let inode = in_tables(room, ["icmp", "icmp6"], |text| inode_of_port(text, identifier))?;
    holder_of(room, inode)
}

/// Searches the socket tables of a room.
fn in_tables(
    room: &RoomIdentity,
    tables: [&str; 2],
    find: impl Fn(&str) -> Option<u64>,
) -> Option<u64> {
    let own = Path::new("/proc").join(room.pid.to_string()).join("net");
    tables.iter().find_map(|table| find(&files::read_text(&own.join(table)).ok()?))
}

fn holder_of(room: &RoomIdentity, inode: u64) -> Option<SocketOwner> {
    let wanted = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.any(|link| link.to_str() == Some(wanted.as_str()))
    };
    let (inside, outside) = host_pids(room).into_iter().find(|(_, pid)| has(pid))?;
    let name = files::read_text(Path::new(&format!("/proc/{outside}/comm"))).ok()?;
    Some(SocketOwner { pid: inside, outside, name: name.trim_end().to_owned() })
}

/// Finds a connection by its local port and its remote address.
fn inode_of(table: &str, port: u16, target: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?.rsplit_once(':')?.1;
        let (address, far) = words.next()?.rsplit_once(':')?;
        let number = |text: &str| u16::from_str_radix(text, 16).ok();
        let same = number(local)? == port
            && number(far)? == target.port()
            && address_of(address)?.to_canonical() == target.ip().to_canonical();
        let inode: u64 = words.nth(6)?.parse().ok()?;
        (same && inode != 0).then_some(inode)
    })
}

/// Finds a socket by its local port.
fn inode_of_port(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?.rsplit_once(':')?.1;
        let inode: u64 = words.nth(7)?.parse().ok()?;
        (u16::from_str_radix(local, 16).ok()? == port && inode != 0).then_some(inode)
    })
}

/// Parses an address, whose words are in the host's byte order.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    match text.len() {
        8 => Some(IpAddr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut octets = [0; 16];
            for part in 0..4 {
                octets[part * 4..part * 4 + 4].copy_from_slice(&word(part * 8)?.to_ne_bytes());
            }
            Some(IpAddr::from(octets))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_found_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:A8BC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1 0\n   \
                     1: 0100007F:A8BD 01010101:01BB 01 00000000:00000000 00:00000000 00000000     0        0 4343 1 0\n";
        let target = "1.1.1.1:443".parse().unwrap();
        assert_eq!(inode_of(table, 0xA8BD, target), Some(4343));
        assert_eq!(inode_of(table, 0xA8BC, target), None);
        assert_eq!(inode_of_port(table, 0xA8BC), Some(42));
        assert_eq!(inode_of_port(table, 0xA8BE), None);
        assert_eq!(inode_of(table, 0xA8BD, "1.1.1.2:443".parse().unwrap()), None);
    }

    #[test]
    fn addresses_of_both_kinds_are_read() {
        assert_eq!(address_of("0100007F"), Some("127.0.0.1".parse().unwrap()));
        let mapped = address_of("0000000000000000FFFF00000100007F").unwrap();
        assert_eq!(mapped.to_canonical(), "127.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(address_of("01"), None);
    }

    #[test]
    fn this_process_owns_its_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(target).unwrap();
        let own = RoomIdentity::of(std::process::id().cast_signed()).unwrap();
        // Outside a room a process has only one pid, so it is not found by an inner pid.
        assert_eq!(socket_owner(&own, client.local_addr().unwrap(), target), None);
    }
}
