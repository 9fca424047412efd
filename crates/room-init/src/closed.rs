//! What happens to the room's traffic while no daemon has taken it: TCP is reset, names are answered
//! with SERVFAIL and datagrams are refused, at once, so that nothing in the room hangs and nothing
//! leaves it.

use hothouse_room_wire::dns::servfail;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use std::time::Duration;

const TURN: usize = 64;

/// Accepts what waits and resets it.
pub(crate) fn reset_all(listener: &OwnedFd) {
    // A daemon that had the socket shares its flags with us, and may have left it blocking.
    if rustix::io::ioctl_fionbio(listener, true).is_err() {
        return;
    }
    for _ in 0..TURN {
        let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) else { return };
        // Closing with a linger of zero sends RST. A peer that is already gone needs none.
        let _ = rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    }
}

/// Answers the questions that wait.
pub(crate) fn refuse_names(socket: &OwnedFd) {
    let mut packet = [0_u8; 1500];
    for _ in 0..TURN {
        let received = rustix::net::recvfrom(socket, &mut packet[..], RecvFlags::DONTWAIT);
        let Ok((length, _, Some(asker))) = received else { return };
        if let Some(answer) = servfail(&packet[..length]) {
            // A full queue loses the answer as a network would; the asker asks again.
            let _ = rustix::net::sendto(socket, &answer, SendFlags::DONTWAIT, &asker);
        }
    }
}

/// Shuts a socket for datagrams. Connected to itself it takes nothing from anybody, and the kernel tells
/// every sender that the port is not reachable; so it needs nobody to look after it.
pub(crate) fn shut(socket: &OwnedFd) {
    // It has a name, and a route to itself: loopback.
    if let Ok(own) = rustix::net::getsockname(socket) {
        let _ = rustix::net::connect(socket, &own);
    }
    // What waited would go out by the next daemon, long after it was sent.
    while rustix::net::recv(socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT).is_ok() {}
}

/// Opens it again.
pub(crate) fn open(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::connect_unspec(socket)
}
