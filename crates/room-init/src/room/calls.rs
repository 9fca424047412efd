//! The daemon's calls, one function each.

use super::Room;
use crate::closed;
use crate::connection::Gone;
use crate::exec::Exec;
use crate::output::Kind;
use crate::spawn::{self, Program, Streams};
use crate::terminal::Terminal;
use crate::{sys, terminal};
use hothouse_room_wire::call::EXEC_ID_LIMIT;
use hothouse_room_wire::{
    Answer, Call, CallRefusal, CallRefusalKind, ExecId, ExecSpec, ListenSpec, PROTOCOL, Proto,
    Reply, Request, RoomUser, Stdio, WindowSize, decode, speaks,
};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Arguments, environment and folder of a command, as received.
pub(super) type Command = (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<u8>);

/// A pending connection into the room.
pub(super) struct Connecting {
    pub(super) key: u32,
    pub(super) daemon: u32,
    pub(super) socket: OwnedFd,
    seq: u32,
    port: u16,
    address: IpAddr,
}

/// An answer with its descriptors; `None` if it comes later.
pub(super) type Outcome = Result<Option<(Answer, Vec<OwnedFd>)>, CallRefusal>;

pub(super) fn now(answer: Answer) -> Outcome {
    Ok(Some((answer, Vec::new())))
}

pub(super) fn refuse(kind: CallRefusalKind, message: impl Into<String>) -> CallRefusal {
    CallRefusal { kind, message: message.into(), errno: None }
}

fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> CallRefusal {
    move |error| CallRefusal {
        kind: CallRefusalKind::System,
        message: format!("cannot {attempt}: {error}"),
        errno: error.raw_os_error(),
    }
}

fn system_errno(attempt: &'static str) -> impl FnOnce(Errno) -> CallRefusal {
    move |error| system(attempt)(error.into())
}

impl Room {
    /// Answers one request; `Gone` ends the connection.
    pub(super) fn answer(
        &mut self,
        daemon: u32,
        body: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Gone> {
        let Request { seq, call } = decode::<Request>(body).map_err(|_| Gone)?;
        let greeting = matches!(call, Call::Hello { .. });
        let authorized = self.daemons.get(&daemon).ok_or(Gone)?.authorized;
        let outcome = match authorized || greeting {
            true => self.dispatch(daemon, seq, call, descriptors),
            false => Err(refuse(CallRefusalKind::Unauthorized, "`Hello` must come first")),
        };
        let refused = outcome.is_err();
        let (answer, descriptors) = match outcome {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(()),
            Err(refusal) => (Answer::Refused(refusal), Vec::new()),
        };
        let peer = self.daemons.get_mut(&daemon).ok_or(Gone)?;
        peer.connection.send(&Reply { seq, answer }, descriptors)?;
        // Each connection gets one attempt at the token.
        if refused && !peer.authorized { Err(Gone) } else { Ok(()) }
    }

    fn dispatch(
        &mut self,
        daemon: u32,
        seq: u32,
        call: Call,
        descriptors: Vec<OwnedFd>,
    ) -> Outcome {
        match call {
            Call::Hello { protocol, token } => self.greet(daemon, protocol, &token),
            Call::Exec(spec) => self.exec(*spec),
            Call::Attach { exec } => self.attach(&exec),
            Call::Wait { exec } => self.wait_for(daemon, seq, &exec),
            Call::Resize { exec, size } => self.resize(&exec, size),
            Call::Signal { exec, signal } => self.signal(&exec, signal),
            Call::List => now(Answer::Execs(self.execs.values().map(Exec::record).collect())),
            Call::Listen(spec) => listen(spec),
            Call::Connect { port } => {
                self.connect(daemon, seq, port, IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
            Call::Egress => self.hand_over_egress(daemon),
            Call::Catch => self.hand_over_catch(daemon),
            Call::Suspend => signal_all(libc::SIGSTOP),
            Call::Resume => signal_all(libc::SIGCONT),
            Call::Ping => now(Answer::Done),
            Call::Shutdown { grace_ms } => {
                self.begin_ending(Duration::from_millis(grace_ms.into()));
                now(Answer::Done)
            }
            Call::Status => now(Answer::Status {
                protocol: PROTOCOL,
                pids: sys::pids(),
                egress_taken: self.egress_holder.is_some(),
            }),
            Call::Forget { exec } => {
                self.execs.retain(|_, known| known.id != exec || known.exit.is_none());
                now(Answer::Done)
            }
            Call::Declare { service, log } => self.declare(*service, log, descriptors),
            Call::Service { name, command } => self.command_service(name.as_deref(), command),
            Call::Services { after } => Ok(self.tell_services(daemon, seq, after)),
            Call::Close { exec, output } => self.close_output(&exec, output),
            Call::Api => self.hand_over_api(daemon),
            Call::ServiceChanges { after } => {
                now(Answer::ServiceChanges(self.services.changes_since(after)))
            }
            Call::ServiceStarts => now(Answer::ServiceStarts(self.services.starts())),
            Call::Size { exec } => self.size(&exec),
        }
    }

    fn greet(&mut self, daemon: u32, protocol: u16, token: &[u8]) -> Outcome {
        if !same(token, &self.boot.token) {
            return Err(refuse(CallRefusalKind::Unauthorized, "wrong token"));
        }
        // A newer daemon is told our version, and decides itself whether it supports it.
        if protocol < PROTOCOL && !speaks(protocol) {
            let message = format!("protocol {protocol} is too old for this room");
            return Err(refuse(CallRefusalKind::Unauthorized, message));
        }
        if let Some(peer) = self.daemons.get_mut(&daemon) {
            peer.authorized = true;
        }
        now(Answer::Hello { protocol: PROTOCOL })
    }

    fn exec(&mut self, spec: ExecSpec) -> Outcome {
        let ExecSpec { id, argv, env, cwd, user, stdio, service } = spec;
        if self.ending.is_some() {
            return Err(refuse(CallRefusalKind::Ending, "the room is ending"));
        }
        if id.0.is_empty() || id.0.len() > EXEC_ID_LIMIT || self.is_running(&id) {
            return Err(refuse(
                CallRefusalKind::BadExec,
                format!("`{}` is already the name of a command, or not a valid one", id.0),
            ));
        }
        if user == RoomUser::Root && !self.boot.has_root {
            return Err(refuse(
                CallRefusalKind::NoRoot,
                "this room has a single uid, so there is no root in it",
            ));
        }
        let program = Program::new(argv, env, cwd, user).ok_or_else(|| {
            refuse(CallRefusalKind::BadExec, "the command is empty or contains NUL bytes")
        })?;
        let plumbing = Plumbing::open(stdio, program.user(), self.boot.has_root)
            .map_err(system("open the command's streams"))?;
        let Plumbing { child, terminal, outputs, given, followers } = plumbing;
        self.views.refresh();
        let child = spawn::spawn(&self.boot, &program, child).map_err(system("start a process"))?;
        let pid = child.pid;
        let mut exec = Exec::new(id, service, child);
        let kind = if terminal.is_some() { Kind::Terminal } else { Kind::Pipe };
        exec.terminal = terminal;
        for source in outputs {
            exec.add_output(source, kind);
        }
        for (output, pipe) in exec.outputs.iter_mut().zip(followers) {
            output.follow(pipe);
        }
        let key = self.key();
        self.execs.insert(key, exec);
        Ok(Some((Answer::Started { pid }, given)))
    }

    fn attach(&mut self, id: &ExecId) -> Outcome {
        let exec = self.find(id).ok_or_else(|| unknown(id))?;
        let mut given = Vec::new();
        let opened = "open the command's streams";
        if let Some(terminal) = &mut exec.terminal {
            let (ours, theirs) =
                rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(system_errno(opened))?;
            rustix::io::ioctl_fionbio(&ours, true).map_err(system_errno(opened))?;
            terminal.join(ours);
            given.push(theirs);
        }
        for output in &mut exec.outputs {
            let (theirs, ours) = follower_pipe().map_err(system(opened))?;
            output.follow(ours);
            given.push(theirs);
        }
        Ok(Some((Answer::Attached { terminal: exec.terminal.is_some() }, given)))
    }

    fn wait_for(&mut self, daemon: u32, seq: u32, id: &ExecId) -> Outcome {
        let exec = self.find(id).ok_or_else(|| unknown(id))?;
        exec.waiters.push((daemon, seq));
        Ok(None)
    }

    fn resize(&mut self, id: &ExecId, size: WindowSize) -> Outcome {
        self.terminal(id)?.resize(size).map_err(system("resize the terminal"))?;
        now(Answer::Done)
    }

    fn size(&mut self, id: &ExecId) -> Outcome {
        let size = self.terminal(id)?.size().map_err(system("read the size of the terminal"))?;
        now(Answer::Size(size))
    }

    fn terminal(&mut self, id: &ExecId) -> Result<&Terminal, CallRefusal> {
        let exec = self.find(id).ok_or_else(|| unknown(id))?;
        exec.terminal
            .as_ref()
            .ok_or_else(|| refuse(CallRefusalKind::BadExec, format!("`{}` has no terminal", id.0)))
    }

    fn signal(&mut self, id: &ExecId, signal: i32) -> Outcome {
        let exec = self.find(id).ok_or_else(|| unknown(id))?;
        if exec.exit.is_none() {
            // The group first. A child that has not created its session yet is reached by its pid.
            sys::kill(-exec.pid, signal)
                .or_else(|_| sys::kill(exec.pid, signal))
                .map_err(system("signal the command"))?;
        }
        now(Answer::Done)
    }

    fn close_output(&mut self, id: &ExecId, output: u8) -> Outcome {
        let exec = self.find(id).ok_or_else(|| unknown(id))?;
        match (&exec.terminal, exec.outputs.get_mut(usize::from(output))) {
            (None, Some(output)) => {
                output.close();
                now(Answer::Done)
            }
            _ => Err(refuse(CallRefusalKind::BadExec, "the command has no such output")),
        }
    }

    fn connect(&mut self, daemon: u32, seq: u32, port: u16, address: IpAddr) -> Outcome {
        let target = SocketAddr::new(address, port);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family(address), SocketType::STREAM, flags, None)
            .map_err(system_errno("open a socket"))?;
        match rustix::net::connect(&socket, &target) {
            Ok(()) => Ok(Some((Answer::Connected, vec![socket]))),
            Err(Errno::INPROGRESS) => {
                let key = self.key();
                self.connecting.push(Connecting { key, daemon, socket, seq, port, address });
                Ok(None)
            }
            Err(error) => self.connect_failed(daemon, seq, target, error),
        }
    }

    /// Tries `::1` next: a service may listen only there, as with Node's `localhost`.
    fn connect_failed(
        &mut self,
        daemon: u32,
        seq: u32,
        target: SocketAddr,
        error: Errno,
    ) -> Outcome {
        match target {
            SocketAddr::V4(_) => {
                self.connect(daemon, seq, target.port(), IpAddr::V6(Ipv6Addr::LOCALHOST))
            }
            SocketAddr::V6(_) => Err(system_errno("connect inside the room")(error)),
        }
    }

    /// Finishes a pending connection.
    pub(super) fn on_connected(&mut self, key: u32) {
        let Some(at) = self.connecting.iter().position(|attempt| attempt.key == key) else {
            return;
        };
        let Connecting { daemon, socket, seq, port, address, .. } = self.connecting.remove(at);
        let outcome = match rustix::net::sockopt::socket_error(&socket) {
            Ok(Ok(())) => Ok(Some((Answer::Connected, vec![socket]))),
            Ok(Err(error)) | Err(error) => {
                self.connect_failed(daemon, seq, SocketAddr::new(address, port), error)
            }
        };
        let (answer, descriptors) = match outcome {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(refusal) => (Answer::Refused(refusal), Vec::new()),
        };
        let Some(peer) = self.daemons.get_mut(&daemon) else { return };
        if peer.connection.send(&Reply { seq, answer }, descriptors).is_err() {
            self.lose_daemon(daemon);
        }
    }

    fn hand_over_egress(&mut self, daemon: u32) -> Outcome {
        let groups = [&self.boot.tcp, &self.boot.dns_datagram, &self.boot.dns_stream];
        let [tcp, dns_datagram, dns_stream] =
            groups.map(|sockets| u8::try_from(sockets.len()).unwrap_or(u8::MAX));
        let all = groups.into_iter().flatten().chain(&self.boot.dropped);
        let copies = all.map(|socket| rustix::io::fcntl_dupfd_cloexec(socket, 3));
        let copies =
            copies.collect::<Result<Vec<_>, _>>().map_err(system_errno("copy the sockets"))?;
        self.egress_holder = Some(daemon);
        Ok(Some((Answer::Egress { tcp, dns_datagram, dns_stream }, copies)))
    }

    fn hand_over_api(&mut self, daemon: u32) -> Outcome {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.boot.api, 3);
        let copy = copy.map_err(system_errno("copy the listener"))?;
        self.api_holder = Some(daemon);
        Ok(Some((Answer::Done, vec![copy])))
    }

    fn hand_over_catch(&mut self, daemon: u32) -> Outcome {
        let boot = &self.boot;
        let groups: [&[OwnedFd]; 8] = [
            &boot.tcp,
            &boot.dns_datagram,
            &boot.dns_stream,
            &boot.datagrams,
            &boot.dropped,
            &boot.echoes,
            &boot.raw,
            std::slice::from_ref(&boot.rules),
        ];
        let [tcp, dns_datagram, dns_stream, datagrams, dropped, echoes, raw, rules] =
            groups.map(|sockets| u8::try_from(sockets.len()).unwrap_or(u8::MAX));
        let copies =
            groups.into_iter().flatten().map(|socket| rustix::io::fcntl_dupfd_cloexec(socket, 3));
        let copies =
            copies.collect::<Result<Vec<_>, _>>().map_err(system_errno("copy the sockets"))?;
        boot.datagrams
            .iter()
            .try_for_each(closed::open)
            .map_err(system_errno("open the sockets"))?;
        self.egress_holder = Some(daemon);
        let answer = Answer::Caught {
            tcp,
            dns_datagram,
            dns_stream,
            datagrams,
            dropped,
            echoes,
            raw,
            rules,
        };
        Ok(Some((answer, copies)))
    }
}

/// The pipes of one command, on both sides.
struct Plumbing {
    child: Streams,
    terminal: Option<terminal::Terminal>,
    /// The ends that we read from.
    outputs: Vec<OwnedFd>,
    /// The ends that the daemon gets.
    given: Vec<OwnedFd>,
    /// The ends into which we write output for the daemon.
    followers: Vec<OwnedFd>,
}

impl Plumbing {
    fn open(stdio: Stdio, user: RoomUser, has_root: bool) -> io::Result<Self> {
        match stdio {
            Stdio::Pipes => Self::pipes(),
            Stdio::Pty(size) => {
                let owner = if user == RoomUser::Root { 0 } else { spawn::AGENT };
                Self::pty(size, has_root.then_some(owner))
            }
            Stdio::Detached => Self::detached(),
        }
    }

    fn pipes() -> io::Result<Self> {
        let (stdin, stdin_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (out, stdout) = output_pipe()?;
        let (err, stderr) = output_pipe()?;
        let (out_end, out_on) = follower_pipe()?;
        let (err_end, err_on) = follower_pipe()?;
        Ok(Self {
            child: Streams::Three(stdin, stdout, stderr),
            terminal: None,
            outputs: vec![out, err],
            given: vec![stdin_end, out_end, err_end],
            followers: vec![out_on, err_on],
        })
    }

    fn pty(size: WindowSize, owner: Option<u32>) -> io::Result<Self> {
        let (mut terminal, slave) = terminal::open(size, owner)?;
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        terminal.join(ours);
        let (out_end, out_on) = follower_pipe()?;
        Ok(Self {
            child: Streams::Terminal(slave),
            outputs: vec![terminal.output()?],
            terminal: Some(terminal),
            given: vec![theirs, out_end],
            followers: vec![out_on],
        })
    }

    fn detached() -> io::Result<Self> {
        let stdin = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (out, stdout) = output_pipe()?;
        let (err, stderr) = output_pipe()?;
        Ok(Self {
            child: Streams::Three(stdin, stdout, stderr),
            terminal: None,
            outputs: vec![out, err],
            given: vec![],
            followers: vec![],
        })
    }
}

/// Creates a pipe from a command to us; only our end is non-blocking.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Creates a pipe from us to the daemon; only our end is non-blocking.
fn follower_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((theirs, ours))
}

fn listen(spec: ListenSpec) -> Outcome {
    let kind = match spec.proto {
        Proto::Tcp => SocketType::STREAM,
        Proto::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(family(spec.address), kind, SocketFlags::CLOEXEC, None)
        .map_err(system_errno("open a socket"))?;
    let bound = "bind inside the room";
    if spec.proto == Proto::Tcp {
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true).map_err(system_errno(bound))?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(spec.address, spec.port))
        .map_err(system_errno(bound))?;
    if spec.proto == Proto::Tcp {
        rustix::net::listen(&socket, 1024).map_err(system_errno("listen inside the room"))?;
    }
    let address = rustix::net::getsockname(&socket).map_err(system_errno(bound))?;
    let address = SocketAddr::try_from(address).map_err(system_errno(bound))?;
    Ok(Some((Answer::Listening { port: address.port() }, vec![socket])))
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    }
}

fn signal_all(signal: i32) -> Outcome {
    match sys::kill(-1, signal) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
            Err(system("signal the room")(error))
        }
        _ => now(Answer::Done),
    }
}

fn unknown(id: &ExecId) -> CallRefusal {
    refuse(CallRefusalKind::UnknownExec, format!("no command `{}`", id.0))
}

/// Compares secrets in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
}
