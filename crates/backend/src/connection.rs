//! A connection to a room: its commands, its ports, and its outgoing traffic.
//!
//! Commands use the types of the room protocol, which are plain data. A backend that runs rooms differently converts
//! them.

use std::{
    error::Error,
    future::Future,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    pin::Pin,
};

use hothouse_model::{ledger::RoomProcess, policy::Transport, stack::StackReport};

pub use hothouse_room::{
    Attached, Egress, ExecStreams,
    wire::{
        CallRefusal, CallRefusalKind, ExecId, ExecRecord, ExecSpec, Exit, RoomUser, Stdio,
        WindowSize,
    },
};

/// The response of a room.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// A connection to a room. Calls may run in parallel.
pub trait RoomConnection: Send + Sync {
    /// Whether the room has closed the connection, which it does when it ends.
    fn is_closed(&self) -> bool;

    /// Runs a command. [`wait`](Self::wait) reports its end.
    fn exec(&self, spec: ExecSpec) -> Pending<'_, ExecStreams>;

    /// Attaches to a command: its stored output comes first.
    fn attach(&self, exec: ExecId) -> Pending<'_, Attached>;

    /// Waits for a command to exit. By then its pipes contain everything that it wrote before.
    fn wait(&self, exec: ExecId) -> Pending<'_, Exit>;

    /// Signals a command and the processes in its group.
    fn signal(&self, exec: ExecId, signal: i32) -> Pending<'_, ()>;

    /// Sets the size of a command's terminal.
    fn resize(&self, exec: ExecId, size: WindowSize) -> Pending<'_, ()>;

    /// Returns the size of a command's terminal, whoever has set it; `None` if the room does not report it.
    fn size(&self, exec: ExecId) -> Pending<'_, Option<WindowSize>>;

    /// Closes an output of a command, counted from standard output.
    fn close_output(&self, exec: ExecId, output: u8) -> Pending<'_, ()>;

    /// Lists the running commands, and the ended ones that are still remembered.
    fn execs(&self) -> Pending<'_, Vec<ExecRecord>>;

    /// Returns the state of the services, once it has changed since version `after`. Their pids are those in the room.
    fn services(&self, after: Option<u64>) -> Pending<'_, StackReport>;

    /// Returns the states of the services since version `after`, a report for each change; empty if a room does not
    /// remember them.
    fn service_changes(&self, _after: u64) -> Pending<'_, Vec<StackReport>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Connects to a port on the room's loopback.
    fn dial(&self, port: u16) -> Pending<'_, TcpStream>;

    /// Listens inside the room; port 0 lets the kernel choose.
    fn listen(&self, at: SocketAddr) -> Pending<'_, TcpListener>;

    /// Takes over the room's outgoing traffic, including DNS, until this connection is dropped. From then on nothing
    /// leaves the room.
    fn take_egress(&self) -> Pending<'_, Egress>;

    /// Takes over the listener on which programs of the room reach the daemon, until this connection is
    /// dropped; from then on they are refused. A room of an earlier build has none.
    fn take_api(&self) -> Pending<'_, Option<UnixListener>>;
}

/// A process of a room that owns a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub process: RoomProcess,
    pub top: Option<Top>,
}

/// The process between room-init and others: a command, or the keeper of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Top {
    /// Its pid in the room.
    pub pid: u32,
    /// Distinguishes it from earlier processes with the same pid: clock ticks since boot.
    pub started: u64,
    /// Whether it claims to keep a service.
    pub is_keeper: bool,
}

/// One room from its start to its end. A later one at the same place is another instance.
pub trait RoomInstance: Send + Sync {
    /// Distinguishes it from every other room, even from long-ended ones.
    fn id(&self) -> String;

    fn is_alive(&self) -> bool;

    /// Returns the process with the connection from `client`, an address inside, to `target`.
    fn stream_owner(&self, client: SocketAddr, target: SocketAddr) -> Option<Owner>;

    /// Returns the process that sends datagrams from a port, or echo requests with this identifier.
    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<Owner>;

    /// Returns the top process above a process of the room, as in [`Owner::top`].
    fn top_of(&self, pid: u32) -> Option<Top>;
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the room refused: {}", .0.message)]
    Refused(CallRefusal),
    /// The end of the connection, as reported by the backend.
    #[error(transparent)]
    Lost(Box<dyn Error + Send + Sync>),
}
