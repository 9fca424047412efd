//! The loop that owns all state of a room.
//!
//! One thread, one `poll`. The poll list is computed from the state each time, so there is no
//! second list that could get out of sync.

mod calls;
mod ending;
mod serving;
mod watch;

use crate::boot::Adopted;
use crate::connection::{Arrival, Connection, Gone};
use crate::exec::Exec;
use crate::guard::Guard;
use crate::services::{Hands, Services};
use crate::sys::{self, Reaped};
use crate::views::Views;
use crate::{closed, spawn};
use hothouse_room_wire::boot::READY;
use hothouse_room_wire::{Answer, Elevate, Elevated, ExecId, Reply, RoomUser, decode};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use watch::Source;

/// How much output of ended commands is kept in total.
const MEMORY_LIMIT: usize = 2 << 20;

/// How many `sudo` processes may be connected at a time.
const ELEVATION_LIMIT: usize = 128;

/// The largest request of a `sudo`: by default the kernel accepts no more arguments and variables.
const ELEVATION_FRAME: usize = 2 << 20;

/// How many bytes of incomplete requests from all `sudo` processes are buffered. Beyond that the
/// sender loses its connection, and PID 1 survives.
const ELEVATION_PENDING: usize = 16 << 20;

/// How many ended commands are recorded.
const RECORD_LIMIT: usize = 256;

/// The room, as PID 1 sees it.
pub(crate) struct Room {
    boot: Adopted,
    signals: OwnedFd,
    next: u32,
    daemons: BTreeMap<u32, Daemon>,
    elevations: BTreeMap<u32, Connection>,
    connecting: Vec<calls::Connecting>,
    execs: BTreeMap<u32, Exec>,
    egress_holder: Option<u32>,
    /// The connection that holds the API's listener.
    api_holder: Option<u32>,
    services: Services,
    /// Callers that wait for a change of the services.
    watchers: Vec<serving::Waiting>,
    ending: Option<ending::Ending>,
    views: Views,
    scratch: Vec<u8>,
    guard: Guard,
}

struct Daemon {
    connection: Connection,
    authorized: bool,
}

impl Room {
    /// Takes over from the setup helper, and reports that the room is ready.
    pub(crate) fn open(mut boot: Adopted) -> io::Result<Self> {
        let signals = sys::signal_descriptor(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT])?;
        for socket in [&boot.control, &boot.elevate, &boot.api]
            .into_iter()
            .chain(&boot.tcp)
            .chain(&boot.dns_stream)
        {
            rustix::io::ioctl_fionbio(socket, true)?;
        }
        if let Some(ready) = boot.ready.take() {
            rustix::io::write(&ready, READY)?;
        }
        let views = Views::new(std::mem::take(&mut boot.views));
        Ok(Self {
            boot,
            signals,
            next: 0,
            daemons: BTreeMap::new(),
            elevations: BTreeMap::new(),
            connecting: Vec::new(),
            execs: BTreeMap::new(),
            egress_holder: None,
            api_holder: None,
            services: Services::new(),
            watchers: Vec::new(),
            ending: None,
            views,
            scratch: vec![0; 64 << 10],
            guard: Guard::start()?,
        })
    }

    /// Runs until the room ends.
    pub(crate) fn run(mut self) -> ExitCode {
        loop {
            if self.ending.as_ref().is_some_and(|ending| ending.is_due()) {
                return self.finish();
            }
            let happened = self.wait();
            self.guard.begin();
            for (source, events) in happened {
                self.react(source, events);
            }
            if self.reap() && self.ending.is_some() {
                return self.finish();
            }
            if self.views.patience(self.has_commands()) == Some(Duration::ZERO) {
                self.views.refresh();
            }
            self.services.tick(&mut Hands { boot: &self.boot, scratch: &mut self.scratch });
            self.go_on_ending();
            self.report_services();
            self.report_ends();
            self.forget_old();
            self.guard.end();
        }
    }

    fn react(&mut self, source: Source, events: rustix::event::PollFlags) {
        match source {
            Source::Signals => self.on_signals(),
            Source::Control => self.accept_daemon(),
            Source::Elevate => self.accept_elevation(),
            Source::Tcp(at) => closed::reset_all(&self.boot.tcp[at]),
            Source::DnsStream(at) => closed::reset_all(&self.boot.dns_stream[at]),
            Source::Api => closed::reset_all(&self.boot.api),
            Source::DnsDatagram(at) => closed::refuse_names(&self.boot.dns_datagram[at]),
            Source::Daemon(key) => {
                if self.serve_daemon(key).is_err() {
                    self.lose_daemon(key);
                }
            }
            Source::Elevation(key) => {
                if self.serve_elevation(key).is_err() {
                    self.lose_elevation(key);
                }
            }
            Source::Connecting(key) => self.on_connected(key),
            Source::Output(key, at, part) => {
                let output = self.execs.get_mut(&key).and_then(|exec| exec.outputs.get_mut(at));
                if let Some(output) = output {
                    output.advance(part, events, &mut self.scratch);
                }
            }
            Source::Service(source) => {
                let mut hands = Hands { boot: &self.boot, scratch: &mut self.scratch };
                self.services.react(source, &mut hands);
            }
            Source::Typist(key, at) => {
                let terminal = self.execs.get_mut(&key).and_then(|exec| exec.terminal.as_mut());
                if let Some(terminal) = terminal {
                    terminal.advance(at, &mut self.scratch);
                }
            }
        }
    }

    fn key(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn on_signals(&mut self) {
        while let Some(arrived) = sys::read_signal(&self.signals) {
            // Only the host may end the room this way: a sender in the room has a pid here.
            if arrived.signal != libc::SIGCHLD && arrived.sender == 0 {
                self.begin_ending(ending::DEFAULT_GRACE);
            }
        }
    }

    /// Reaps all ended children; returns true if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match sys::reap() {
                Reaped::Childless => return true,
                Reaped::Running => return false,
                Reaped::Child { pid, status } => {
                    let mut hands = Hands { boot: &self.boot, scratch: &mut self.scratch };
                    if self.services.reaped(pid, status, &mut hands) {
                        continue;
                    }
                    let exec =
                        self.execs.values_mut().find(|exec| exec.pid == pid && exec.exit.is_none());
                    if let Some(exec) = exec {
                        exec.ended(status);
                    }
                }
            }
        }
    }

    /// Reports the exits of commands to their waiters.
    fn report_ends(&mut self) {
        let mut lost = Vec::new();
        let mut told = false;
        for exec in self.execs.values_mut() {
            if exec.waiters.is_empty() && exec.elevated_for.is_none() {
                continue;
            }
            let Some(exit) = exec.settled_exit(&mut self.scratch) else { continue };
            for (daemon, seq) in std::mem::take(&mut exec.waiters) {
                let reply = Reply { seq, answer: Answer::Exited(exit.clone()) };
                let Some(peer) = self.daemons.get_mut(&daemon) else { continue };
                match peer.connection.send(&reply, vec![]) {
                    Ok(()) => {
                        exec.delivered = true;
                        told |= peer.connection.is_flushed();
                    }
                    Err(Gone) => lost.push(daemon),
                }
            }
            if let Some(asker) = exec.elevated_for.take() {
                exec.delivered = true;
                if let Some(connection) = self.elevations.get_mut(&asker) {
                    // A `sudo` that is gone needs no answer.
                    let _ = connection.send(&Elevated::Exited(exit), vec![]);
                }
            }
        }
        for daemon in lost {
            self.lose_daemon(daemon);
        }
        if told && self.boot.ephemeral {
            // The daemon would end the room next; this saves a round trip.
            self.begin_ending(Duration::ZERO);
        }
    }

    /// Keeps the records of ended commands within their limit; delivered ones are removed first.
    fn forget_old(&mut self) {
        let over = |exec: &&Exec| exec.is_over();
        let mut weight: usize = self.execs.values().filter(over).map(Exec::weight).sum();
        let mut count = self.execs.values().filter(over).count();
        if weight <= MEMORY_LIMIT && count <= RECORD_LIMIT {
            return;
        }
        for delivered in [true, false] {
            let candidates: Vec<u32> = self
                .execs
                .iter()
                .filter(|(_, exec)| exec.is_over() && exec.delivered == delivered)
                .map(|(key, _)| *key)
                .collect();
            for key in candidates {
                if weight <= MEMORY_LIMIT && count <= RECORD_LIMIT {
                    return;
                }
                let Some(exec) = self.execs.get_mut(&key) else { continue };
                weight -= exec.weight();
                // If the exit has not been reported, only the output is dropped.
                if delivered || count > RECORD_LIMIT {
                    self.execs.remove(&key);
                    count -= 1;
                } else {
                    exec.outputs.clear();
                }
            }
        }
    }

    fn accept_daemon(&mut self) {
        let Some(socket) = accept(&self.boot.control) else { return };
        // Pid 0: the peer is outside the room's pid namespace.
        if sys::peer(&socket).is_ok_and(|peer| peer.pid == 0 && peer.uid == self.boot.peer_uid) {
            let key = self.key();
            self.daemons
                .insert(key, Daemon { connection: Connection::new(socket), authorized: false });
        }
    }

    fn lose_daemon(&mut self, key: u32) {
        self.daemons.remove(&key);
        if self.egress_holder == Some(key) {
            self.egress_holder = None;
            self.boot.datagrams.iter().for_each(closed::shut);
        }
        self.api_holder = self.api_holder.filter(|holder| *holder != key);
        self.connecting.retain(|attempt| attempt.daemon != key);
        self.watchers.retain(|waiting| waiting.daemon != key);
        for exec in self.execs.values_mut() {
            exec.waiters.retain(|(daemon, _)| *daemon != key);
        }
    }

    fn serve_daemon(&mut self, key: u32) -> Result<(), Gone> {
        let daemon = self.daemons.get_mut(&key).ok_or(Gone)?;
        daemon.connection.flush()?;
        daemon.connection.receive(&mut self.scratch)?;
        loop {
            let Some(daemon) = self.daemons.get_mut(&key) else { return Err(Gone) };
            let Some(Arrival { body, descriptors }) = daemon.connection.next_arrival()? else {
                return Ok(());
            };
            self.answer(key, &body, descriptors)?;
        }
    }

    fn accept_elevation(&mut self) {
        let Some(socket) = accept(&self.boot.elevate) else { return };
        // Otherwise the room could use up our descriptors, and break everything else we do for it.
        if self.elevations.len() >= ELEVATION_LIMIT {
            return;
        }
        if sys::peer(&socket).is_ok_and(|peer| matches!(peer.uid, 0 | spawn::AGENT)) {
            let key = self.key();
            self.elevations.insert(key, Connection::limited(socket, ELEVATION_FRAME));
        }
    }

    fn lose_elevation(&mut self, key: u32) {
        self.elevations.remove(&key);
        for exec in self.execs.values_mut().filter(|exec| exec.elevated_for == Some(key)) {
            exec.elevated_for = None;
            exec.delivered = true;
            if exec.exit.is_none() {
                // The caller is gone: hang up, as a terminal would. The command may be gone too.
                let _ = sys::kill(-exec.pid, libc::SIGHUP);
            }
        }
    }

    fn serve_elevation(&mut self, key: u32) -> Result<(), Gone> {
        let connection = self.elevations.get_mut(&key).ok_or(Gone)?;
        connection.flush()?;
        connection.receive(&mut self.scratch)?;
        if self.elevations.values().map(Connection::pending).sum::<usize>() > ELEVATION_PENDING {
            return Err(Gone);
        }
        while let Some(arrival) = self.elevations.get_mut(&key).ok_or(Gone)?.next_arrival()? {
            match decode::<Elevate>(&arrival.body).map_err(|_| Gone)? {
                Elevate::Run { argv, env, cwd } => {
                    self.elevate(key, (argv, env, cwd), arrival.descriptors)?
                }
                Elevate::Signal(signal) => {
                    let theirs = self.execs.values().find(|exec| exec.elevated_for == Some(key));
                    if let Some(exec) = theirs.filter(|exec| exec.exit.is_none()) {
                        // The command may end before the signal arrives.
                        let _ = sys::kill(-exec.pid, signal);
                    }
                }
            }
        }
        Ok(())
    }

    fn elevate(
        &mut self,
        key: u32,
        command: calls::Command,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Gone> {
        let (argv, env, cwd) = command;
        let already = self.execs.values().any(|exec| exec.elevated_for == Some(key));
        let Ok([stdin, stdout, stderr]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return Err(Gone);
        };
        let Some(program) =
            spawn::Program::new(argv, env, cwd, RoomUser::Root).filter(|_| !already)
        else {
            return Err(Gone);
        };
        let started = match self.boot.has_root && self.ending.is_none() {
            true => {
                spawn::spawn(&self.boot, &program, spawn::Streams::Three(stdin, stdout, stderr))
            }
            false => Err(io::Error::from(Errno::PERM)),
        };
        match started {
            Ok(child) => {
                let exec_key = self.key();
                let id = ExecId(format!("sudo-{exec_key}"));
                let mut exec = Exec::new(id, None, child);
                exec.elevated_for = Some(key);
                self.execs.insert(exec_key, exec);
                Ok(())
            }
            Err(error) => {
                let reason = match self.boot.has_root {
                    true => format!("cannot start a command: {error}"),
                    false => "this room has a single uid, so there is no root in it".into(),
                };
                self.elevations.get_mut(&key).ok_or(Gone)?.send(&Elevated::Refused(reason), vec![])
            }
        }
    }

    fn find(&mut self, id: &ExecId) -> Option<&mut Exec> {
        // The newest first: a name may be reused once its command has ended.
        self.execs.values_mut().rev().find(|exec| exec.id == *id)
    }

    /// Whether a command is running.
    fn has_commands(&self) -> bool {
        self.execs.values().any(|exec| exec.exit.is_none())
    }

    /// Whether `id` names a running command.
    fn is_running(&self, id: &ExecId) -> bool {
        self.execs.values().any(|exec| exec.id == *id && exec.exit.is_none())
    }
}

fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
}
