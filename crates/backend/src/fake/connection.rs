//! Connections to fake rooms.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::Arc,
};

use hothouse_model::{policy::Transport, stack::StackReport};

use super::{Living, Shared, commands::refused};
use crate::connection::{
    Attached, CallError, CallRefusal, CallRefusalKind, Egress, ExecId, ExecRecord, ExecSpec,
    ExecStreams, Exit, Owner, Pending, RoomConnection, RoomInstance, Top, WindowSize,
};

/// A connection to the fake room with a number, or the room as an instance.
#[derive(Clone)]
pub(super) struct FakeConnection {
    pub(super) rooms: Shared,
    pub(super) runtime: PathBuf,
    /// Distinguishes this room from others at the same path.
    pub(super) number: u64,
    /// Shared by all users of this connection; the wall ends with it.
    pub(super) held: Arc<()>,
}

fn gone() -> CallError {
    CallError::Lost("the room is gone".into())
}

fn system(error: &io::Error) -> CallError {
    let errno = error.raw_os_error();
    CallError::Refused(CallRefusal { errno, ..refused(CallRefusalKind::System, error.to_string()) })
}

impl FakeConnection {
    /// Accesses the room, if it is still the one that was connected to.
    fn with<T>(
        &self,
        what: impl FnOnce(&mut Living) -> Result<T, CallRefusal>,
    ) -> Result<T, CallError> {
        let mut state = self.rooms.lock().expect("no holder of this lock panics");
        let own = state.alive.get_mut(&self.runtime).filter(|room| room.number == self.number);
        what(own.ok_or_else(gone)?).map_err(CallError::Refused)
    }

    fn answer<'a, T: Send + 'a>(&self, answer: Result<T, CallError>) -> Pending<'a, T> {
        Box::pin(std::future::ready(answer))
    }

    fn unable<T: Send + 'static>(&self, what: &str) -> Pending<'_, T> {
        let answer = self.with(|_| Err(refused(CallRefusalKind::System, what)));
        self.answer(answer)
    }
}

impl RoomConnection for FakeConnection {
    fn is_closed(&self) -> bool {
        self.with(|_| Ok(())).is_err()
    }

    fn exec(&self, spec: ExecSpec) -> Pending<'_, ExecStreams> {
        self.answer(self.with(|room| room.commands.start(spec)))
    }

    fn attach(&self, _exec: ExecId) -> Pending<'_, Attached> {
        self.unable("nobody can join a command of a fake room")
    }

    fn wait(&self, exec: ExecId) -> Pending<'_, Exit> {
        let end = self.with(|room| room.commands.end_of(&exec));
        Box::pin(async move {
            let mut exit_rx = end?;
            let exit = exit_rx.wait_for(Option::is_some).await.map_err(|_| gone())?;
            exit.clone().ok_or_else(gone)
        })
    }

    fn signal(&self, exec: ExecId, signal: i32) -> Pending<'_, ()> {
        self.answer(self.with(|room| room.commands.signal(&exec, signal)))
    }

    fn resize(&self, _exec: ExecId, _size: WindowSize) -> Pending<'_, ()> {
        self.unable("a fake room has no terminals")
    }

    fn size(&self, _exec: ExecId) -> Pending<'_, Option<WindowSize>> {
        self.unable("a fake room has no terminals")
    }

    fn close_output(&self, _exec: ExecId, _output: u8) -> Pending<'_, ()> {
        self.answer(self.with(|_| Ok(())))
    }

    fn execs(&self) -> Pending<'_, Vec<ExecRecord>> {
        self.answer(self.with(|room| Ok(room.commands.records())))
    }

    fn services(&self, after: Option<u64>) -> Pending<'_, StackReport> {
        let stack = || {
            let state = self.rooms.lock().expect("no holder of this lock panics");
            state.stacks.get(&self.runtime).cloned()
        };
        match self.with(|_| Ok(())).map(|()| super::report_of(stack())) {
            Ok(report) if after == Some(report.version) => Box::pin(std::future::pending()),
            report => self.answer(report),
        }
    }

    fn dial(&self, port: u16) -> Pending<'_, TcpStream> {
        let alive = self.with(|_| Ok(()));
        let at = (Ipv4Addr::LOCALHOST, port);
        let dialled = || TcpStream::connect(at).map_err(|error| system(&error));
        self.answer(alive.and_then(|()| dialled()))
    }

    fn listen(&self, at: SocketAddr) -> Pending<'_, TcpListener> {
        let alive = self.with(|_| Ok(()));
        let bound = || TcpListener::bind(at).map_err(|error| system(&error));
        self.answer(alive.and_then(|()| bound()))
    }

    fn take_egress(&self) -> Pending<'_, Egress> {
        let holder = Arc::downgrade(&self.held);
        let taken = self.with(|room| {
            room.egress = Some(holder);
            Ok(Egress {
                tcp: Vec::new(),
                dns_datagram: Vec::new(),
                dns_stream: Vec::new(),
                dropped: None,
                datagrams: Vec::new(),
                echoes: None,
                raw: Vec::new(),
                rules: None,
            })
        });
        self.answer(taken)
    }

    fn take_api(&self) -> Pending<'_, Option<UnixListener>> {
        let alive = self.with(|_| Ok(()));
        self.answer(alive.map(|()| None))
    }
}

impl RoomInstance for FakeConnection {
    fn id(&self) -> String {
        self.number.to_string()
    }

    fn is_alive(&self) -> bool {
        !self.is_closed()
    }

    fn stream_owner(&self, _client: SocketAddr, _target: SocketAddr) -> Option<Owner> {
        None
    }

    fn datagram_owner(&self, _transport: Transport, _port: u16) -> Option<Owner> {
        None
    }

    fn top_of(&self, _pid: u32) -> Option<Top> {
        None
    }
}
