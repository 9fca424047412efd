//! Detects addresses that are routed to this host. Each address is looked up in the kernel's
//! routing table when needed: that also covers addresses added a moment ago, and whole prefixes
//! that are routed to the loopback (`ip route add local`), which no interface lists.

use std::{io, net::IpAddr};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with},
};

const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const DESTINATION: u16 = 1;

/// Route types that end at this host: local, broadcast and anycast.
const ENDS_HERE: [u8; 3] = [2, 3, 4];

const HEADER: usize = 16;
/// Offset of the route type after the netlink header.
const KIND: usize = 7;

/// Whether packets sent to an address arrive at this host. Returns true if the kernel cannot be asked.
pub fn is_own(address: IpAddr) -> bool {
    ends_here(address.to_canonical()).unwrap_or_else(|error| {
        tracing::warn!(%error, %address, "the kernel does not tell where an address leads");
        true
    })
}

fn ends_here(address: IpAddr) -> io::Result<bool> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &question(address), SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    Ok(read(&answer[..length])?)
}

fn question(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let byte = |number: usize| u8::try_from(number).expect("an address has 16 bytes at most");
    let mut body = vec![byte(usize::from(family.as_raw())), byte(bytes.len() * 8)];
    body.resize(12, 0);
    body.extend([byte(4 + bytes.len()), 0].iter().copied());
    body.extend(DESTINATION.to_ne_bytes());
    body.extend(bytes);
    let length = u32::from(byte(HEADER + body.len()));
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(GET_ROUTE.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Parses the kernel's answer: a route, or the error.
fn read(answer: &[u8]) -> Result<bool, Errno> {
    let number = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match number {
        Some(NEW_ROUTE) => {
            let kind = answer.get(HEADER + KIND).ok_or(Errno::BADMSG)?;
            Ok(ENDS_HERE.contains(kind))
        }
        Some(ERROR) => {
            let code = answer.get(HEADER..HEADER + 4).ok_or(Errno::BADMSG)?;
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]).wrapping_neg();
            match Errno::from_raw_os_error(code) {
                // Unreachable or prohibited, so not this host.
                Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL => Ok(false),
                error => Err(error),
            }
        }
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::fd::AsFd, process::Stdio};

    use hothouse_testkit::skip;

    use super::*;

    fn is(address: &str) -> bool {
        is_own(address.parse().unwrap())
    }

    #[test]
    fn the_loopback_is_ours_and_the_internet_is_not() {
        assert!(is("127.0.0.1") && is("127.9.9.9") && is("::ffff:127.0.0.1"));
        assert!(!is("1.1.1.1") && !is("2606:4700:4700::1111"));
    }

    #[test]
    fn a_prefix_routed_to_the_loopback_and_a_new_address_are_ours_immediately() {
        if !hothouse_testkit::is_root() {
            return skip("routes in a network of its own", "root");
        }
        let run = |words: &[&str]| {
            let done = crate::command::bare(words[0]).args(&words[1..]).status().unwrap();
            assert!(done.success(), "{words:?}");
        };
        let mut other = crate::command::bare("unshare");
        let other = other.args(["-n", "sh", "-c", "echo && read line"]);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let network = std::fs::File::open(format!("/proc/{}/ns/net", other.id())).unwrap();
        // Namespaces are per thread, so a separate thread leaves the caller's network unchanged.
        let asked = std::thread::spawn(move || {
            use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            run(&["ip", "link", "set", "lo", "up"]);
            assert!(!is("8.8.8.8") && !is("2606:4700::1") && !is("9.9.9.9"));
            run(&["ip", "route", "add", "local", "8.8.0.0/16", "dev", "lo"]);
            run(&["ip", "-6", "route", "add", "local", "2606:4700::/32", "dev", "lo"]);
            run(&["ip", "address", "add", "9.9.9.9/32", "dev", "lo"]);
            assert!(is("8.8.8.8") && is("2606:4700::1") && is("9.9.9.9"));
            assert!(!is("1.1.1.1"));
            run(&["ip", "address", "del", "9.9.9.9/32", "dev", "lo"]);
            assert!(!is("9.9.9.9"));
        });
        asked.join().unwrap();
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
