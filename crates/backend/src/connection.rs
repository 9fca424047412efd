//! A connection to a room: its commands, its ports, and what leaves it.
//!
//! The types of commands are those of the protocol of rooms, which is plain data. A backend that runs rooms
//! in another way translates them.

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

/// What a room answers, once it does.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// A connection to a room. Calls may run in parallel.
pub trait RoomConnection: Send + Sync {
    /// Whether the room has closed the connection, which it does when it ends.
    fn is_closed(&self) -> bool;

    /// Runs a command. [`wait`](Self::wait) reports its end.
    fn exec(&self, spec: ExecSpec) -> Pending<'_, ExecStreams>;

    /// Joins a command: what was kept of its output comes first.
    fn attach(&self, exec: ExecId) -> Pending<'_, Attached>;

    /// Waits for a command's end. By then all that it wrote before is in its pipes.
    fn wait(&self, exec: ExecId) -> Pending<'_, Exit>;

    /// Signals a command and what it started in its group.
    fn signal(&self, exec: ExecId, signal: i32) -> Pending<'_, ()>;

    /// Sets the size of a command's terminal.
    fn resize(&self, exec: ExecId, size: WindowSize) -> Pending<'_, ()>;

    /// Returns the size of a command's terminal, whoever has set it; `None` if the room does not report it.
    fn size(&self, exec: ExecId) -> Pending<'_, Option<WindowSize>>;

    /// Closes an output of a command, counted from standard output.
    fn close_output(&self, exec: ExecId, output: u8) -> Pending<'_, ()>;

    /// Lists the commands that run, and the ended ones that are still remembered.
    fn execs(&self) -> Pending<'_, Vec<ExecRecord>>;

    /// Returns how the services stand, once that has changed since version `after`. Their pids are those in the room.
    fn services(&self, after: Option<u64>) -> Pending<'_, StackReport>;

    /// Returns how services stood since version `after`, a report for each change of a state; nothing where a room
    /// does not remember.
    fn service_changes(&self, _after: u64) -> Pending<'_, Vec<StackReport>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Connects to a port on the room's loopback.
    fn dial(&self, port: u16) -> Pending<'_, TcpStream>;

    /// Listens inside the room; port 0 lets the kernel choose.
    fn listen(&self, at: SocketAddr) -> Pending<'_, TcpListener>;

    /// Takes over what leaves the room, names included, until this connection is dropped. From then on
    /// nothing leaves it.
    fn take_egress(&self) -> Pending<'_, Egress>;

    /// Takes over the listener on which programs of the room reach the daemon, until this connection is
    /// dropped; from then on they are refused. A room of an earlier build has none.
    fn take_api(&self) -> Pending<'_, Option<UnixListener>>;
}

/// A process of a room that has a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub process: RoomProcess,
    pub top: Option<Top>,
}

/// The process between room-init and others: a command, or the keeper of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Top {
    /// Its number in the room.
    pub pid: u32,
    /// Tells it from others that had the number before: clock ticks since boot.
    pub started: u64,
    /// Whether it says that it keeps a service.
    pub is_keeper: bool,
}

/// One room from its start to its end. Another one at the same place is another instance.
pub trait RoomInstance: Send + Sync {
    /// Distinguishes it from every other room, also from one that ended long ago.
    fn id(&self) -> String;

    fn is_alive(&self) -> bool;

    /// Returns the process that has a connection from `client`, an address inside, to `target`.
    fn stream_owner(&self, client: SocketAddr, target: SocketAddr) -> Option<Owner>;

    /// Returns the process that sends datagrams from a port, or echo requests with that identifier.
    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<Owner>;

    /// Returns the process below which one of the room's processes is, as [`Owner::top`].
    fn top_of(&self, pid: u32) -> Option<Top>;
}

/// A call that a room did not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the room refused: {}", .0.message)]
    Refused(CallRefusal),
    /// The outcome of the connection, in the words of the backend.
    #[error(transparent)]
    Lost(Box<dyn Error + Send + Sync>),
}
