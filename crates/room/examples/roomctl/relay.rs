//! Relays bytes between a command's pipes and ours, without copying where possible.

use hothouse_host::network::PacketGate;
use hothouse_host::pump::{carry, pump};
use hothouse_room::Egress;
use hothouse_room::wire::WindowSize;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::pipe::PipeFlags;
use rustix::termios::{OptionalActions, Termios};
use std::io;
use std::thread::JoinHandle;

/// The threads that relay one command's bytes.
pub(crate) struct Relays {
    done: OwnedFd,
    outputs: Vec<JoinHandle<()>>,
    saved: Option<Termios>,
}

impl Relays {
    pub(crate) fn pipes(stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        let relays = Self::outputs(stdout, stderr)?;
        input(stdin);
        Ok(relays)
    }

    pub(crate) fn outputs(stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        let (watch, done) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let second = rustix::io::fcntl_dupfd_cloexec(&watch, 3)?;
        let outputs = vec![
            std::thread::spawn(move || output(&stdout, rustix::stdio::stdout(), &watch)),
            std::thread::spawn(move || output(&stderr, rustix::stdio::stderr(), &second)),
        ];
        Ok(Self { done, outputs, saved: None })
    }

    pub(crate) fn terminal(keys: OwnedFd, screen: OwnedFd) -> io::Result<Self> {
        let (watch, done) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let saved = rustix::termios::tcgetattr(rustix::stdio::stdin()).ok();
        if let Some(saved) = &saved {
            let mut raw = saved.clone();
            raw.make_raw();
            rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        }
        input(keys);
        let outputs =
            vec![std::thread::spawn(move || output(&screen, rustix::stdio::stdout(), &watch))];
        Ok(Self { done, outputs, saved })
    }

    /// Relays what is still in the pipes once the command has ended.
    pub(crate) fn finish(self) {
        drop(self.done);
        for thread in self.outputs {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
        if let Some(saved) = self.saved {
            // The terminal may have disappeared.
            let _ =
                rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &saved);
        }
    }
}

pub(crate) fn window() -> Option<WindowSize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdin()).ok()?;
    Some(WindowSize { rows: size.ws_row, cols: size.ws_col })
}

fn input(to: OwnedFd) {
    // Not joined: it may wait for the terminal forever, and ends with the process.
    std::thread::spawn(move || pump(rustix::stdio::stdin(), to));
}

fn output(from: &OwnedFd, to: BorrowedFd<'_>, done: &OwnedFd) {
    loop {
        let mut entries = [PollFd::new(from, PollFlags::IN), PollFd::new(done, PollFlags::empty())];
        if rustix::event::poll(&mut entries, None).is_err() {
            continue;
        }
        let nothing_left = entries[0].revents().is_empty();
        if nothing_left && !entries[1].revents().is_empty() {
            return;
        }
        if nothing_left {
            continue;
        }
        match carry(from.as_fd(), to) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Accepts one redirected connection and prints its destination.
pub(crate) fn first_target(egress: Egress) -> io::Result<()> {
    use std::io::Write;
    let Some(listener) = egress.tcp.into_iter().next() else {
        return Err(io::Error::other("no listener"));
    };
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(false)?;
    io::stdout().flush()?;
    let (mut peer, _) = listener.accept()?;
    let target = rustix::net::sockopt::ip_original_dst(&peer)?;
    writeln!(io::stdout(), "{target}")?;
    peer.write_all(b"hello from the daemon\n")
}

/// Opens a port for datagrams, prints the source and destination of each, and answers it.
pub(crate) fn datagrams(egress: Egress, port: u16, count: usize) -> io::Result<()> {
    use std::io::Write;
    let missing = || io::Error::other("no socket for the nftables rules");
    let gate = PacketGate::new(egress.rules.ok_or_else(missing)?);
    gate.open(&[port].into(), false)?;
    let sockets: Vec<_> = egress.datagrams.into_iter().map(std::net::UdpSocket::from).collect();
    writeln!(io::stdout(), "open")?;
    let mut left = count;
    while left > 0 {
        let fds = sockets.iter().map(|one| PollFd::new(one, PollFlags::IN));
        let mut fds: Vec<_> = fds.collect();
        rustix::event::poll(&mut fds, None)?;
        let ready: Vec<_> = fds.iter().map(|one| !one.revents().is_empty()).collect();
        for (socket, _) in sockets.iter().zip(ready).filter(|(_, ready)| *ready) {
            let mut bytes = vec![0; 1 << 16];
            let (length, from) = socket.recv_from(&mut bytes)?;
            let found = gate.tracked(socket.local_addr()?, from)?.ok_or_else(missing)?;
            let text = format!("{} {length}", found.target);
            writeln!(io::stdout(), "{text}")?;
            socket.send_to(text.as_bytes(), from)?;
            left -= 1;
        }
    }
    Ok(())
}
