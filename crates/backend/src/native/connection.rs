//! The control socket of room-init, as a connection.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
};

use hothouse_model::{ledger::RoomProcess, policy::Transport};
use hothouse_room::{
    ClientError, RoomClient, RoomIdentity, SocketOwner, datagram_owner, echo_owner, socket_owner,
    wire::{ListenSpec, Proto},
};

use crate::connection::{
    Attached, CallError, Egress, ExecId, ExecRecord, ExecSpec, ExecStreams, Exit, Pending,
    RoomConnection, RoomInstance, WindowSize,
};

/// A connection to room-init.
pub(super) struct NativeConnection(RoomClient);

impl NativeConnection {
    /// Connects to a room. One of this very release is not asked which protocol it speaks.
    pub(super) async fn open(runtime: &Path, is_own: bool) -> Result<Self, CallError> {
        let client = RoomClient::connect(runtime).await?;
        if is_own {
            client.know_protocol();
        }
        Ok(Self(client))
    }
}

fn asked<'a, T>(call: impl Future<Output = Result<T, ClientError>> + Send + 'a) -> Pending<'a, T> {
    Box::pin(async move { Ok(call.await?) })
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => Self::Refused(refusal),
            other => Self::Lost(Box::new(other)),
        }
    }
}

impl RoomConnection for NativeConnection {
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn exec(&self, spec: ExecSpec) -> Pending<'_, ExecStreams> {
        asked(async { Ok(self.0.exec(spec).await?.streams) })
    }

    fn attach(&self, exec: ExecId) -> Pending<'_, Attached> {
        asked(self.0.attach(exec))
    }

    fn wait(&self, exec: ExecId) -> Pending<'_, Exit> {
        asked(self.0.wait(exec))
    }

    fn signal(&self, exec: ExecId, signal: i32) -> Pending<'_, ()> {
        asked(self.0.signal(exec, signal))
    }

    fn resize(&self, exec: ExecId, size: WindowSize) -> Pending<'_, ()> {
        asked(self.0.resize(exec, size))
    }

    fn close_output(&self, exec: ExecId, output: u8) -> Pending<'_, ()> {
        asked(self.0.close_output(exec, output))
    }

    fn execs(&self) -> Pending<'_, Vec<ExecRecord>> {
        asked(self.0.execs())
    }

    fn dial(&self, port: u16) -> Pending<'_, TcpStream> {
        asked(async move { Ok(self.0.connect_inside(port).await?.into()) })
    }

    fn listen(&self, at: SocketAddr) -> Pending<'_, TcpListener> {
        let spec = ListenSpec { address: at.ip(), port: at.port(), proto: Proto::Tcp };
        asked(async move { Ok(self.0.listen(spec).await?.0.into()) })
    }

    fn take_egress(&self) -> Pending<'_, Egress> {
        asked(self.0.take_egress())
    }
}

/// A room as its first process.
pub(super) struct NativeInstance(pub(super) RoomIdentity);

impl RoomInstance for NativeInstance {
    fn id(&self) -> String {
        let RoomIdentity { pid, start_time, boot_id } = &self.0;
        format!("{boot_id}/{start_time}/{pid}")
    }

    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    fn stream_owner(&self, client: SocketAddr, target: SocketAddr) -> Option<RoomProcess> {
        socket_owner(&self.0, client, target).map(process)
    }

    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<RoomProcess> {
        let owner = match transport {
            Transport::Icmp => echo_owner(&self.0, port),
            _ => datagram_owner(&self.0, port),
        };
        owner.map(process)
    }
}

fn process(owner: SocketOwner) -> RoomProcess {
    RoomProcess { pid: owner.pid, name: owner.name }
}
