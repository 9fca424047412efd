//! The daemon's end of a room's control socket.

use super::setup::short_name;
use super::{CONTROL_SOCKET, TOKEN_FILE};
use hothouse_host::files::{self, FileError};
use hothouse_host::framed::send_some;
use hothouse_room_wire::frame::DESCRIPTOR_LIMIT;
use hothouse_room_wire::{
    API_SINCE, Answer, CATCH_SINCE, CHANGES_SINCE, CLOSE_SINCE, Call, CallRefusal, ExecId,
    ExecRecord, ExecSpec, Exit, FrameBuffer, ListenSpec, LogStart, PROBE_HOST_SINCE, PROTOCOL,
    Question, Reply, Request, SERVICES_SINCE, SIZE_SINCE, STARTS_SINCE, ServiceChange,
    ServiceCommand, ServiceSpec, ServicesReport, WindowSize, decode, encode, speaks,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The signal for a command that writes to a pipe without readers.
const SIGPIPE: i32 = 13;

/// Downgrades a probe for rooms that do not support host names in probes.
fn ask_without_a_name(service: &mut ServiceSpec) {
    if let Some(probe) = &mut service.probe
        && let Question::HttpAs { port, path, .. } = &probe.question
    {
        probe.question = Question::Http { port: *port, path: path.clone() };
    }
}

/// A call to a room that failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("read the room's token")]
    Token(#[source] FileError),
    #[error("connect to the room at `{}`", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("lost the connection to the room")]
    Talk(#[source] io::Error),
    #[error("the room is gone")]
    Gone,
    #[error(
        "another version of Hothouse started the room, which speaks protocol {0}; this one does not. \
         `hothouse down` and `hothouse up` start it again, with its files"
    )]
    Protocol(u16),
    #[error("the room speaks protocol {0}, which has no services")]
    NoServices(u16),
    #[error("the room refused: {}", .0.message)]
    Refused(CallRefusal),
    #[error("the room sent an unexpected answer")]
    Unexpected,
}

type Answered = (Answer, Vec<OwnedFd>);

#[derive(Default)]
struct Waiting {
    next: u32,
    closed: bool,
    // reader --answer--> caller
    answer_txs: HashMap<u32, oneshot::Sender<Answered>>,
}

/// A connection to a room; calls may run concurrently.
pub struct RoomClient {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    waiting: Arc<Mutex<Waiting>>,
    reader: JoinHandle<()>,
    /// The answer to our `Hello`, until it has been read.
    greeting: tokio::sync::Mutex<Option<oneshot::Receiver<Answered>>>,
    protocol: AtomicU16,
}

/// A started command.
#[derive(Debug)]
pub struct Started {
    /// Its pid in the room.
    pub pid: i32,
    pub streams: ExecStreams,
}

/// The pipe ends of a command.
#[derive(Debug)]
pub enum ExecStreams {
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal { input: OwnedFd, output: OwnedFd },
    Detached,
}

/// The pipe ends for a client that attached to a command.
#[derive(Debug)]
pub enum Attached {
    Pipes {
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    Terminal {
        input: OwnedFd,
        output: OwnedFd,
    },
    /// Its output is no longer kept.
    Nothing,
}

/// The sockets that receive the room's outgoing traffic, one per address family.
#[derive(Debug)]
pub struct Egress {
    pub tcp: Vec<OwnedFd>,
    pub dns_datagram: Vec<OwnedFd>,
    pub dns_stream: Vec<OwnedFd>,
    /// Reports packets that the nftables rules dropped. `None` if the kernel does not support it,
    /// and in rooms of earlier releases.
    pub dropped: Option<OwnedFd>,
    /// For redirected UDP. Empty in rooms of earlier releases, like the fields below.
    pub datagrams: Vec<OwnedFd>,
    /// Reports echo requests. `None` if the kernel does not support it.
    pub echoes: Option<OwnedFd>,
    /// Sends packets with custom headers into the room.
    pub raw: Vec<OwnedFd>,
    /// For a [`PacketGate`](super::PacketGate).
    pub rules: Option<OwnedFd>,
}

impl RoomClient {
    /// Connects to the room whose control socket is in `runtime`, and sends `Hello`. Does not wait
    /// for the answer: the first call does, and fails if `Hello` failed.
    pub async fn connect(runtime: &Path) -> Result<Self, ClientError> {
        let token =
            files::read_capped(&runtime.join(TOKEN_FILE), 1 << 20).map_err(ClientError::Token)?;
        let failed = |source| ClientError::Connect { path: runtime.join(CONTROL_SOCKET), source };
        let folder = rustix::fs::open(runtime, OFlags::PATH | OFlags::CLOEXEC, FileMode::empty());
        let folder = folder.map_err(|error| failed(error.into()))?;
        let socket = UnixStream::connect(short_name(&folder)).await.map_err(failed)?;
        let (reader, writer) = socket.into_split();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let reader = tokio::spawn(read(reader, Arc::clone(&waiting)));
        let mut client = Self {
            writer: tokio::sync::Mutex::new(writer),
            waiting,
            reader,
            greeting: tokio::sync::Mutex::default(),
            protocol: AtomicU16::new(0),
        };
        let greeting = client.ask(Call::Hello { protocol: PROTOCOL, token }, &[]).await?;
        client.greeting = tokio::sync::Mutex::new(Some(greeting));
        Ok(client)
    }

    /// Returns the room's protocol version, or 0 until it is known.
    pub fn protocol(&self) -> u16 {
        self.protocol.load(Ordering::Relaxed)
    }

    /// Assumes the current protocol, for a caller that has just started the room.
    pub fn know_protocol(&self) {
        self.protocol.store(PROTOCOL, Ordering::Relaxed);
    }

    /// Waits for the room's answer to our `Hello`.
    async fn greeted(&self) -> Result<(), ClientError> {
        let mut greeting = self.greeting.lock().await;
        let Some(answer_rx) = greeting.as_mut() else {
            // The answer has already been read.
            return match self.protocol() {
                0 => Err(ClientError::Unexpected),
                protocol if speaks(protocol) => Ok(()),
                protocol => Err(ClientError::Protocol(protocol)),
            };
        };
        // The caller may be cancelled at any time, and the answer must still be read.
        let answered = hear(answer_rx).await;
        *greeting = None;
        match answered? {
            (Answer::Hello { protocol }, _) => {
                self.protocol.store(protocol, Ordering::Relaxed);
                match speaks(protocol) {
                    true => Ok(()),
                    false => Err(ClientError::Protocol(protocol)),
                }
            }
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Returns whether the room has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Runs a command. Use [`wait`](Self::wait) for its exit.
    pub async fn exec(&self, spec: ExecSpec) -> Result<Started, ClientError> {
        let (answer, descriptors) = self.call(Call::Exec(Box::new(spec))).await?;
        let Answer::Started { pid } = answer else { return Err(ClientError::Unexpected) };
        let mut descriptors = descriptors.into_iter();
        let streams = match (descriptors.next(), descriptors.next(), descriptors.next()) {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                ExecStreams::Pipes { stdin, stdout, stderr }
            }
            (Some(input), Some(output), None) => ExecStreams::Terminal { input, output },
            (None, ..) => ExecStreams::Detached,
            _ => return Err(ClientError::Unexpected),
        };
        Ok(Started { pid, streams })
    }

    /// Attaches to a command. The buffered output comes first.
    pub async fn attach(&self, exec: ExecId) -> Result<Attached, ClientError> {
        let (answer, descriptors) = self.call(Call::Attach { exec }).await?;
        let Answer::Attached { terminal } = answer else { return Err(ClientError::Unexpected) };
        let mut descriptors = descriptors.into_iter();
        match (terminal, descriptors.next(), descriptors.next()) {
            (true, Some(input), Some(output)) => Ok(Attached::Terminal { input, output }),
            (false, Some(stdout), Some(stderr)) => Ok(Attached::Pipes { stdout, stderr }),
            _ => Ok(Attached::Nothing),
        }
    }

    /// Waits for a command to exit. By then all its output is in its pipes.
    pub async fn wait(&self, exec: ExecId) -> Result<Exit, ClientError> {
        match self.call(Call::Wait { exec }).await? {
            (Answer::Exited(exit), _) => Ok(exit),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Sets the size of a command's terminal.
    pub async fn resize(&self, exec: ExecId, size: WindowSize) -> Result<(), ClientError> {
        self.perform(Call::Resize { exec, size }).await
    }

    /// Returns the size of a command's terminal; `None` for rooms that do not report it.
    pub async fn size(&self, exec: ExecId) -> Result<Option<WindowSize>, ClientError> {
        self.greeted().await?;
        if self.protocol() < SIZE_SINCE {
            return Ok(None);
        }
        match self.call(Call::Size { exec }).await? {
            (Answer::Size(size), _) => Ok(Some(size)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Signals a command's process group.
    pub async fn signal(&self, exec: ExecId, signal: i32) -> Result<(), ClientError> {
        self.perform(Call::Signal { exec, signal }).await
    }

    /// Closes one of a command's outputs (0 is stdout). Rooms that do not support it send SIGPIPE instead.
    pub async fn close_output(&self, exec: ExecId, output: u8) -> Result<(), ClientError> {
        if self.protocol() == 0 {
            self.greeted().await?;
        }
        match self.protocol() < CLOSE_SINCE {
            true => self.signal(exec, SIGPIPE).await,
            false => self.perform(Call::Close { exec, output }).await,
        }
    }

    /// Removes the record and the output of an ended command.
    pub async fn forget(&self, exec: ExecId) -> Result<(), ClientError> {
        self.perform(Call::Forget { exec }).await
    }

    /// Lists the room's commands.
    pub async fn execs(&self) -> Result<Vec<ExecRecord>, ClientError> {
        match self.call(Call::List).await? {
            (Answer::Execs(records), _) => Ok(records),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Opens a socket in the room; returns it and its port.
    pub async fn listen(&self, spec: ListenSpec) -> Result<(OwnedFd, u16), ClientError> {
        let (answer, mut descriptors) = self.call(Call::Listen(spec)).await?;
        match (answer, descriptors.pop()) {
            (Answer::Listening { port }, Some(socket)) => Ok((socket, port)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Connects to a port on the room's loopback.
    pub async fn connect_inside(&self, port: u16) -> Result<OwnedFd, ClientError> {
        let (answer, mut descriptors) = self.call(Call::Connect { port }).await?;
        match (answer, descriptors.pop()) {
            (Answer::Connected, Some(socket)) => Ok(socket),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Takes over the room's outgoing traffic, until this client is dropped.
    pub async fn take_egress(&self) -> Result<Egress, ClientError> {
        if self.protocol() == 0 {
            self.greeted().await?;
        }
        let call = if self.protocol() < CATCH_SINCE { Call::Egress } else { Call::Catch };
        let (answer, descriptors) = self.call(call).await?;
        let mut descriptors = descriptors.into_iter();
        let mut take = |count: u8| descriptors.by_ref().take(count.into()).collect::<Vec<_>>();
        Ok(match answer {
            Answer::Egress { tcp, dns_datagram, dns_stream } => Egress {
                tcp: take(tcp),
                dns_datagram: take(dns_datagram),
                dns_stream: take(dns_stream),
                dropped: take(1).pop(),
                datagrams: Vec::new(),
                echoes: None,
                raw: Vec::new(),
                rules: None,
            },
            // In the order in which they arrive.
            Answer::Caught {
                tcp,
                dns_datagram,
                dns_stream,
                datagrams,
                dropped,
                echoes,
                raw,
                rules,
            } => Egress {
                tcp: take(tcp),
                dns_datagram: take(dns_datagram),
                dns_stream: take(dns_stream),
                datagrams: take(datagrams),
                dropped: take(dropped).pop(),
                echoes: take(echoes).pop(),
                raw: take(raw),
                rules: take(rules).pop(),
            },
            _ => return Err(ClientError::Unexpected),
        })
    }

    /// Takes over the listener for the room API, until this client is dropped. Returns `None` for a
    /// room of an earlier build.
    pub async fn take_api(&self) -> Result<Option<OwnedFd>, ClientError> {
        if self.protocol() == 0 {
            self.greeted().await?;
        }
        if self.protocol() < API_SINCE {
            return Ok(None);
        }
        match self.call(Call::Api).await? {
            (Answer::Done, mut descriptors) => Ok(descriptors.pop()),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Stops all processes with SIGSTOP, for rooms without a freezer.
    pub async fn suspend(&self) -> Result<(), ClientError> {
        self.perform(Call::Suspend).await
    }

    /// Resumes what [`suspend`](Self::suspend) stopped.
    pub async fn resume(&self) -> Result<(), ClientError> {
        self.perform(Call::Resume).await
    }

    /// Asks the room to end: SIGTERM to all, SIGKILL after `grace`. Use [`stop`](super::stop) to
    /// wait for its end.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), ClientError> {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.perform(Call::Shutdown { grace_ms }).await
    }

    /// Returns the pids in the room, and whether a client has taken over its traffic.
    pub async fn status(&self) -> Result<(Vec<i32>, bool), ClientError> {
        match self.call(Call::Status).await? {
            (Answer::Status { pids, egress_taken, .. }, _) => Ok((pids, egress_taken)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Declares or changes a service. `files` are its log files: data first, then indexes.
    pub async fn declare(
        &self,
        mut service: ServiceSpec,
        log: LogStart,
        files: &[OwnedFd],
    ) -> Result<(), ClientError> {
        self.need_services().await?;
        if self.protocol() < PROBE_HOST_SINCE {
            ask_without_a_name(&mut service);
        }
        let call = Call::Declare { service: Box::new(service), log };
        let beside: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        match self.call_with(call, &beside).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Performs an action on one service, or on all.
    pub async fn command_service(
        &self,
        name: Option<String>,
        command: ServiceCommand,
    ) -> Result<(), ClientError> {
        self.need_services().await?;
        self.perform(Call::Service { name, command }).await
    }

    /// Returns the state of the services once their version is above `after`.
    pub async fn services(&self, after: Option<u64>) -> Result<ServicesReport, ClientError> {
        self.greeted().await?;
        if self.protocol() < SERVICES_SINCE {
            return Ok(ServicesReport::default());
        }
        match self.call(Call::Services { after }).await? {
            (Answer::Services(report), _) => Ok(report),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Returns the state changes of services since a version; empty for rooms that do not record
    /// them.
    pub async fn service_changes(&self, after: u64) -> Result<Vec<ServiceChange>, ClientError> {
        self.greeted().await?;
        if self.protocol() < CHANGES_SINCE {
            return Ok(Vec::new());
        }
        match self.call(Call::ServiceChanges { after }).await? {
            (Answer::ServiceChanges(changes), _) => Ok(changes),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Returns the log line at which each service's last start begins; empty for rooms that do not
    /// record it.
    pub async fn service_starts(&self) -> Result<Vec<(String, u64)>, ClientError> {
        self.greeted().await?;
        if self.protocol() < STARTS_SINCE {
            return Ok(Vec::new());
        }
        match self.call(Call::ServiceStarts).await? {
            (Answer::ServiceStarts(starts), _) => Ok(starts),
            _ => Err(ClientError::Unexpected),
        }
    }

    async fn need_services(&self) -> Result<(), ClientError> {
        self.greeted().await?;
        match self.protocol() {
            SERVICES_SINCE.. => Ok(()),
            older => Err(ClientError::NoServices(older)),
        }
    }

    /// Waits until the room closes the connection, which it does when it ends.
    pub async fn closed(&mut self) {
        // A reader that panicked counts as a closed connection.
        let _ = (&mut self.reader).await;
    }

    async fn perform(&self, call: Call) -> Result<(), ClientError> {
        match self.call(call).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }

    async fn call(&self, call: Call) -> Result<Answered, ClientError> {
        self.call_with(call, &[]).await
    }

    async fn call_with(
        &self,
        call: Call,
        beside: &[BorrowedFd<'_>],
    ) -> Result<Answered, ClientError> {
        let mut answer_rx = self.ask(call, beside).await?;
        self.greeted().await?;
        hear(&mut answer_rx).await
    }

    /// Sends a request; its answer arrives on the returned channel.
    async fn ask(
        &self,
        call: Call,
        beside: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Answered>, ClientError> {
        let (answer_tx, answer_rx) = oneshot::channel();
        let seq = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.closed {
                return Err(ClientError::Gone);
            }
            waiting.next = waiting.next.wrapping_add(1);
            let seq = waiting.next;
            waiting.answer_txs.insert(seq, answer_tx);
            seq
        };
        let count = u8::try_from(beside.len()).unwrap_or(u8::MAX);
        let sent = match encode(&Request { seq, call }, count) {
            Ok(bytes) => send(&*self.writer.lock().await, &bytes, beside).await,
            Err(error) => Err(io::Error::other(error)),
        }
        .map_err(ClientError::Talk);
        if let Err(error) = sent {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).answer_txs.remove(&seq);
            return Err(error);
        }
        Ok(answer_rx)
    }
}

async fn hear(answer_rx: &mut oneshot::Receiver<Answered>) -> Result<Answered, ClientError> {
    match answer_rx.await {
        Ok((Answer::Refused(refusal), _)) => Err(ClientError::Refused(refusal)),
        Ok(answered) => Ok(answered),
        Err(_) => Err(ClientError::Gone),
    }
}

impl Drop for RoomClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Sends bytes; the descriptors travel with the first byte.
async fn send(socket: &OwnedWriteHalf, bytes: &[u8], beside: &[BorrowedFd<'_>]) -> io::Result<()> {
    let socket: &UnixStream = socket.as_ref();
    let mut sent = 0;
    while sent < bytes.len() {
        let beside = if sent == 0 { beside } else { &[] };
        socket.writable().await?;
        let step =
            socket.try_io(Interest::WRITABLE, || Ok(send_some(socket, &bytes[sent..], beside)?));
        match step {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Dispatches answers to their callers until the room closes the connection.
async fn read(socket: OwnedReadHalf, waiting: Arc<Mutex<Waiting>>) {
    let mut buffer = FrameBuffer::default();
    let mut descriptors = VecDeque::new();
    while let Ok(true) = receive(&socket, &mut buffer, &mut descriptors).await {
        while let Ok(Some(frame)) = buffer.next_frame() {
            let count = usize::from(frame.descriptors).min(descriptors.len());
            let own = descriptors.drain(..count).collect();
            let Ok(Reply { seq, answer }) = decode::<Reply>(&frame.body) else { continue };
            let answer_tx =
                waiting.lock().unwrap_or_else(PoisonError::into_inner).answer_txs.remove(&seq);
            if let Some(answer_tx) = answer_tx {
                // If the caller was cancelled, this closes the descriptors.
                let _ = answer_tx.send((answer, own));
            }
        }
    }
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.closed = true;
    waiting.answer_txs.clear();
}

/// Reads available bytes; returns false at the end.
async fn receive(
    socket: &OwnedReadHalf,
    buffer: &mut FrameBuffer,
    descriptors: &mut VecDeque<OwnedFd>,
) -> io::Result<bool> {
    let socket: &UnixStream = socket.as_ref();
    loop {
        socket.readable().await?;
        // Allocated only now, because most rooms are idle most of the time.
        let mut bytes = vec![0_u8; 16 << 10];
        let length = socket.try_io(Interest::READABLE, || {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT as usize))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let message = rustix::net::recvmsg(
                socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                flags,
            )
            .map_err(|error| if error == Errno::INTR { Errno::AGAIN } else { error })?;
            for ancillary in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                    descriptors.extend(rights);
                }
            }
            Ok(message.bytes)
        });
        match length {
            Ok(0) => return Ok(false),
            Ok(length) => {
                buffer.extend(&bytes[..length]);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
