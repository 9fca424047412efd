//! What the loop waits for, computed from the state.

use super::Room;
use crate::output::Part;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};

/// The meaning of one poll entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    Control,
    Elevate,
    Tcp(usize),
    DnsDatagram(usize),
    DnsStream(usize),
    Api,
    Daemon(u32),
    Elevation(u32),
    Connecting(u32),
    Output(u32, usize, Part),
    Typist(u32, usize),
    Service(crate::services::Source),
}

impl Room {
    /// Waits, and returns what happened.
    pub(super) fn wait(&self) -> Vec<(Source, PollFlags)> {
        let mut entries: Vec<PollFd<'_>> = Vec::new();
        let mut sources: Vec<Source> = Vec::new();
        self.watch(|fd, flags, source| {
            entries.push(PollFd::from_borrowed_fd(fd, flags));
            sources.push(source);
        });
        let ending = self.ending.as_ref().map(|ending| ending.left());
        let views = self.views.patience(self.has_commands());
        let patience = [ending, self.services.patience(), views].into_iter().flatten().min();
        let timeout = patience.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        if rustix::event::poll(&mut entries, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let happened = entries.iter().zip(sources).filter(|(entry, _)| !entry.revents().is_empty());
        happened.map(|(entry, source)| (source, entry.revents())).collect()
    }

    fn watch<'a>(&'a self, mut add: impl FnMut(BorrowedFd<'a>, PollFlags, Source)) {
        add(self.signals.as_fd(), PollFlags::IN, Source::Signals);
        add(self.boot.control.as_fd(), PollFlags::IN, Source::Control);
        add(self.boot.elevate.as_fd(), PollFlags::IN, Source::Elevate);
        if self.egress_holder.is_none() {
            for (at, socket) in self.boot.tcp.iter().enumerate() {
                add(socket.as_fd(), PollFlags::IN, Source::Tcp(at));
            }
            for (at, socket) in self.boot.dns_datagram.iter().enumerate() {
                add(socket.as_fd(), PollFlags::IN, Source::DnsDatagram(at));
            }
            for (at, socket) in self.boot.dns_stream.iter().enumerate() {
                add(socket.as_fd(), PollFlags::IN, Source::DnsStream(at));
            }
        }
        if self.api_holder.is_none() {
            add(self.boot.api.as_fd(), PollFlags::IN, Source::Api);
        }
        for (key, daemon) in &self.daemons {
            add(daemon.connection.fd(), daemon.connection.interest(), Source::Daemon(*key));
        }
        for (key, connection) in &self.elevations {
            add(connection.fd(), connection.interest(), Source::Elevation(*key));
        }
        for attempt in &self.connecting {
            add(attempt.socket.as_fd(), PollFlags::OUT, Source::Connecting(attempt.key));
        }
        self.services.interest(|fd, flags, source| add(fd, flags, Source::Service(source)));
        for (key, exec) in &self.execs {
            for (at, output) in exec.outputs.iter().enumerate() {
                output.interest(|fd, flags, part| add(fd, flags, Source::Output(*key, at, part)));
            }
            if let Some(terminal) = &exec.terminal {
                terminal.interest(|fd, flags, at| add(fd, flags, Source::Typist(*key, at)));
            }
        }
    }
}
