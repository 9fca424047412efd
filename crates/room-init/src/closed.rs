//! The room's traffic while no daemon handles it: TCP is reset, DNS questions get SERVFAIL and
//! datagrams are refused, immediately, so that nothing in the room hangs and nothing leaves it.

use hothouse_room_wire::dns::servfail;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use std::time::Duration;

const TURN: usize = 64;

/// Accepts waiting connections and resets them.
pub(crate) fn reset_all(listener: &OwnedFd) {
    // A daemon that held the socket shares its flags with us, and may have left it blocking.
    if rustix::io::ioctl_fionbio(listener, true).is_err() {
        return;
    }
    for _ in 0..TURN {
        let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) else { return };
        // Closing with a linger of zero sends RST. If it fails, the peer has already disconnected.
        let _ = rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    }
}

/// Answers waiting DNS queries with SERVFAIL.
pub(crate) fn refuse_names(socket: &OwnedFd) {
    let mut packet = [0_u8; 1500];
    for _ in 0..TURN {
        let received = rustix::net::recvfrom(socket, &mut packet[..], RecvFlags::DONTWAIT);
        let Ok((length, _, Some(asker))) = received else { return };
        if let Some(answer) = servfail(&packet[..length]) {
            // If the queue is full the answer is lost, as on a network, and the client asks again.
            let _ = rustix::net::sendto(socket, &answer, SendFlags::DONTWAIT, &asker);
        }
    }
}

/// Stops a datagram socket from receiving. Connected to itself it receives nothing, and the kernel
/// answers every sender with "port unreachable", so nothing has to serve it.
pub(crate) fn shut(socket: &OwnedFd) {
    // Its local address has a route to itself: loopback.
    if let Ok(own) = rustix::net::getsockname(socket) {
        let _ = rustix::net::connect(socket, &own);
    }
    // Queued datagrams would otherwise be sent by the next daemon, long after they were written.
    while rustix::net::recv(socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT).is_ok() {}
}

/// Undoes `shut`.
pub(crate) fn open(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::connect_unspec(socket)
}
