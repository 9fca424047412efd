//! Serves the sockets that a room's PID 1 passed on, until dropped.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use hothouse_host::network::PacketGate;
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket, UnixDatagram},
    task::{JoinHandle, JoinSet},
};

use crate::{
    budget,
    connection::{self, Way},
    dropped, echoes, flows, names, proxy_port, refuse,
    room::{Gate, RoomEdge},
};

/// How long to wait when the host has no descriptors left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// The sockets of a room.
#[derive(Debug, Default)]
pub struct Sockets {
    pub tcp: Vec<OwnedFd>,
    pub dns_datagram: Vec<OwnedFd>,
    pub dns_stream: Vec<OwnedFd>,
    /// Reports packets that the nftables rules dropped.
    pub dropped: Option<OwnedFd>,
    /// For datagrams to the ports that rules allow.
    pub datagrams: Vec<OwnedFd>,
    /// Reports echo requests that a rule may allow.
    pub echoes: Option<OwnedFd>,
    /// Sends replies into the room, one socket per address family.
    pub raw: Vec<OwnedFd>,
    /// Opens those ports, and echo requests, in the room's nftables rules.
    pub rules: Option<OwnedFd>,
    /// A listener for tools that need a proxy.
    pub proxy_port: Option<OwnedFd>,
}

/// A running wall. On drop it stops, and everything that passes through it ends.
#[derive(Debug)]
pub struct Serving(Vec<JoinHandle<()>>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl RoomEdge {
    /// Serves the sockets of a room.
    pub fn serve(self: &Arc<Self>, sockets: Sockets) -> io::Result<Serving> {
        let mut tasks = Vec::new();
        for socket in sockets.dns_datagram {
            tasks.push(tokio::spawn(names::serve_datagrams(self.clone(), datagram(socket)?)));
        }
        if let Some(rules) = sockets.rules {
            let rules = Arc::new(PacketGate::new(rules));
            for socket in sockets.datagrams {
                let serving = flows::serve(self.clone(), rules.clone(), datagram(socket)?);
                tasks.push(tokio::spawn(serving));
            }
            let echo = match sockets.echoes.filter(|_| !sockets.raw.is_empty()) {
                Some(told) => {
                    let serving = echoes::serve(self.clone(), netlink(told)?, sockets.raw);
                    tasks.push(tokio::spawn(serving));
                    true
                }
                None => false,
            };
            self.hold_gate(Gate { rules, echo });
        }
        for socket in sockets.dns_stream {
            tasks.push(tokio::spawn(names::serve_streams(self.clone(), listener(socket)?)));
        }
        if let Some(socket) = sockets.dropped {
            tasks.push(tokio::spawn(dropped::serve(self.clone(), netlink(socket)?)));
        }
        for socket in sockets.tcp {
            let listener = listener(socket)?;
            tasks.push(tokio::spawn(catch(self.clone(), listener)));
        }
        if let Some(socket) = sockets.proxy_port {
            let listener = listener(socket)?;
            tasks.push(tokio::spawn(proxy_port::serve(self.clone(), listener)));
        }
        Ok(Serving(tasks))
    }
}

/// Wraps a netlink socket: receiving works as for any datagram socket.
fn netlink(socket: OwnedFd) -> io::Result<UnixDatagram> {
    let socket = std::os::unix::net::UnixDatagram::from(socket);
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)
}

fn datagram(socket: OwnedFd) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

fn listener(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts a connection; `None` if the listener is unusable.
pub(crate) async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept().await {
            Ok(accepted) => return Some(accepted),
            Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(
                    rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM,
                ) => {
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                }
                Some(rustix::io::Errno::BADF | rustix::io::Errno::INVAL) => return None,
                // The connection was closed before it was accepted.
                _ => tokio::task::yield_now().await,
            },
        }
    }
}

/// Serves redirected connections of the room.
async fn catch(edge: Arc<RoomEdge>, listener: TcpListener) {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let Some((stream, _)) = accept(&listener).await else { return };
        let Some(permit) = edge.take(budget::CONNECTION) else {
            refuse::reset(stream);
            continue;
        };
        let Some(target) = original_target(&stream) else {
            refuse::reset(stream);
            continue;
        };
        let edge = edge.clone();
        tasks.spawn(async move {
            connection::serve(edge, stream, target, Vec::new(), Way::Caught).await;
            drop(permit);
        });
    }
}

/// Returns the original destination of a redirected connection.
fn original_target(stream: &TcpStream) -> Option<SocketAddr> {
    let local = stream.local_addr().ok()?;
    let target = match local.ip() {
        IpAddr::V4(_) => rustix::net::sockopt::ip_original_dst(stream).map(SocketAddr::V4),
        IpAddr::V6(_) => rustix::net::sockopt::ipv6_original_dst(stream).map(SocketAddr::V6),
    };
    // A connection that was not redirected was made to our own port, which is not a destination.
    let target = target.ok().filter(|target| *target != local)?;
    Some(SocketAddr::new(target.ip().to_canonical(), target.port()))
}
