//! `READY=1`, as in systemd: a datagram to the socket in `NOTIFY_SOCKET`.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;

/// Opens the socket of a service. Its name is abstract, so it exists only in the room's network namespace.
pub(super) fn open(service: &str) -> io::Result<(OwnedFd, String)> {
    let name = format!("hothouse-notify-{service}");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::net::sockopt::set_socket_passcred(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok((socket, name))
}

/// Reads waiting datagrams; returns whether `READY=1` came from one of `own`, or from a helper that has exited.
pub(super) fn hears_ready(socket: &OwnedFd, own: &[i32]) -> bool {
    let mut ready = false;
    let mut bytes = [0_u8; 4096];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        let length = match received {
            Ok(message) => message.bytes,
            Err(Errno::INTR) => continue,
            Err(_) => return ready,
        };
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get()),
            _ => None,
        });
        let trusted = sender.is_some_and(|pid| {
            own.contains(&pid) || !std::path::Path::new(&format!("/proc/{pid}")).exists()
        });
        if trusted && says_ready(&bytes[..length]) {
            ready = true;
        }
    }
}

fn says_ready(message: &[u8]) -> bool {
    message.split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_says_ready() {
        assert!(says_ready(b"STATUS=x\nREADY=1"));
        assert!(says_ready(b"READY=1\n"));
        assert!(!says_ready(b"READY=10"));
        assert!(!says_ready(b"NOTREADY=1"));
    }
}
