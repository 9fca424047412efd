//! Updates a room's nftables rules from the daemon, on the socket that installed them.
//!
//! The kernel checks the permissions of two processes: the one that opened the socket (the wall,
//! which owns the network namespace) and the one that uses it (the daemon, whose user owns the wall).

use super::netlink::verdicts;
use super::rules;
use super::tracking::{self, Tracked};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The gate of one room.
#[derive(Debug)]
pub struct PacketGate(Mutex<Line>);

#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    sequence: u32,
}

impl PacketGate {
    /// Wraps the socket of a room's nftables rules.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(Line { socket, sequence: 0 }))
    }

    /// Opens these ports to datagrams, and the room to echo requests if `echo`, and closes all
    /// others. Accepted packets arrive at the sockets that receive the room's traffic.
    pub fn open(&self, ports: &BTreeSet<u16>, echo: bool) -> io::Result<()> {
        let line = self.line();
        line.forget_answers()?;
        let (transaction, mut expected) = rules::opening(ports, echo);
        rustix::net::send(&line.socket, &transaction, SendFlags::empty())?;
        let mut answer = vec![0; 32 << 10];
        while expected > 0 {
            let length = line.hear(&mut answer)?;
            let verdicts = verdicts(&answer[..length]);
            if let Some(failed) = verdicts.iter().find(|verdict| verdict.errno != 0) {
                return Err(Errno::from_raw_os_error(failed.errno).into());
            }
            expected = expected.saturating_sub(verdicts.len().max(1));
        }
        Ok(())
    }

    /// Whether the kernel reports the original destination of datagrams. Without it none can be
    /// forwarded.
    pub fn tracks(&self) -> bool {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        self.tracked(nowhere, nowhere).is_ok()
    }

    /// Returns the original destination and the sender of a datagram that arrived at our socket
    /// `at` from `from`.
    pub fn tracked(&self, at: SocketAddr, from: SocketAddr) -> io::Result<Option<Tracked>> {
        let mut line = self.line();
        line.sequence = line.sequence.wrapping_add(1);
        let question = tracking::question(at, from, line.sequence);
        rustix::net::send(&line.socket, &question, SendFlags::empty())?;
        let mut answer = [0; 2048];
        loop {
            let length = line.hear(&mut answer)?;
            let answer = &answer[..length];
            // A previous daemon may have left an answer unread.
            if tracking::sequence(answer) != Some(line.sequence) {
                continue;
            }
            return match verdicts(answer).first().map(|verdict| verdict.errno) {
                None => Ok(tracking::read_tracked(answer)),
                Some(errno) => match Errno::from_raw_os_error(errno) {
                    Errno::NOENT => Ok(None),
                    error => Err(error.into()),
                },
            };
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Reads an answer, which the kernel queues before `send` returns.
    fn hear(&self, answer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.socket, answer, RecvFlags::DONTWAIT)?.0)
    }

    fn forget_answers(&self) -> io::Result<()> {
        let mut answer = [0; 2048];
        loop {
            match rustix::net::recv(&self.socket, &mut answer, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
