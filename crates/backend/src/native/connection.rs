//! The control socket of room-init, as a connection.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::Path,
};

use hothouse_model::{ledger::RoomProcess, policy::Transport, stack::StackReport};
use hothouse_room::{
    ClientError, KEEPER, RoomClient, RoomIdentity, SocketOwner, Topmost, datagram_owner,
    echo_owner, host_pids, socket_owner, topmost,
    wire::{ListenSpec, Proto, ServiceChange},
};

use super::services;
use crate::connection::{
    Attached, CallError, Egress, ExecId, ExecRecord, ExecSpec, ExecStreams, Exit, Owner, Pending,
    RoomConnection, RoomInstance, Top, WindowSize,
};

/// A connection to room-init.
pub(super) struct NativeConnection {
    client: RoomClient,
}

impl NativeConnection {
    /// Connects to a room. The protocol version of a room that this process started is known, and
    /// not requested.
    pub(super) async fn open(runtime: &Path, is_own: bool) -> Result<Self, CallError> {
        let client = RoomClient::connect(runtime).await?;
        if is_own {
            client.know_protocol();
        }
        Ok(Self { client })
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
        self.client.is_closed()
    }

    fn exec(&self, spec: ExecSpec) -> Pending<'_, ExecStreams> {
        asked(async { Ok(self.client.exec(spec).await?.streams) })
    }

    fn attach(&self, exec: ExecId) -> Pending<'_, Attached> {
        asked(self.client.attach(exec))
    }

    fn wait(&self, exec: ExecId) -> Pending<'_, Exit> {
        asked(self.client.wait(exec))
    }

    fn signal(&self, exec: ExecId, signal: i32) -> Pending<'_, ()> {
        asked(self.client.signal(exec, signal))
    }

    fn resize(&self, exec: ExecId, size: WindowSize) -> Pending<'_, ()> {
        asked(self.client.resize(exec, size))
    }

    fn size(&self, exec: ExecId) -> Pending<'_, Option<WindowSize>> {
        asked(self.client.size(exec))
    }

    fn close_output(&self, exec: ExecId, output: u8) -> Pending<'_, ()> {
        asked(self.client.close_output(exec, output))
    }

    fn execs(&self) -> Pending<'_, Vec<ExecRecord>> {
        asked(self.client.execs())
    }

    fn services(&self, after: Option<u64>) -> Pending<'_, StackReport> {
        asked(async move {
            let report = self.client.services(after).await?;
            let shown = report.services.into_iter().map(|record| services::shown(record, |_| None));
            Ok(StackReport { version: report.version, services: shown.collect() })
        })
    }

    fn service_changes(&self, after: u64) -> Pending<'_, Vec<StackReport>> {
        asked(async move {
            let changes = self.client.service_changes(after).await?.into_iter();
            let report = |change: ServiceChange| StackReport {
                version: change.version,
                services: vec![services::shown(change.status, |_| None)],
            };
            Ok(changes.map(report).collect())
        })
    }

    fn dial(&self, port: u16) -> Pending<'_, TcpStream> {
        asked(async move { Ok(self.client.connect_inside(port).await?.into()) })
    }

    fn listen(&self, at: SocketAddr) -> Pending<'_, TcpListener> {
        let spec = ListenSpec { address: at.ip(), port: at.port(), proto: Proto::Tcp };
        asked(async move { Ok(self.client.listen(spec).await?.0.into()) })
    }

    fn take_egress(&self) -> Pending<'_, Egress> {
        asked(self.client.take_egress())
    }

    fn take_api(&self) -> Pending<'_, Option<UnixListener>> {
        asked(async move { Ok(self.client.take_api().await?.map(Into::into)) })
    }
}

/// A room, identified by its first process.
pub(super) struct NativeInstance(pub(super) RoomIdentity);

impl RoomInstance for NativeInstance {
    fn id(&self) -> String {
        let RoomIdentity { pid, start_time, boot_id } = &self.0;
        format!("{boot_id}/{start_time}/{pid}")
    }

    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    fn stream_owner(&self, client: SocketAddr, target: SocketAddr) -> Option<Owner> {
        socket_owner(&self.0, client, target).map(|owner| self.owner(owner))
    }

    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<Owner> {
        let owner = match transport {
            Transport::Icmp => echo_owner(&self.0, port),
            _ => datagram_owner(&self.0, port),
        };
        owner.map(|owner| self.owner(owner))
    }

    fn top_of(&self, pid: u32) -> Option<Top> {
        let outside = *host_pids(&self.0).get(&pid)?;
        topmost(&self.0, outside).map(top)
    }
}

impl NativeInstance {
    fn owner(&self, owner: SocketOwner) -> Owner {
        let SocketOwner { pid, outside, name } = owner;
        let process = RoomProcess { pid, name, service: None };
        Owner { process, top: topmost(&self.0, outside).map(top) }
    }
}

fn top(found: Topmost) -> Top {
    let Topmost { pid, started, name } = found;
    Top { pid, started, is_keeper: name == KEEPER }
}
