//! Access to the API socket: connections of other users are dropped before a byte is read.

use std::{io, time::Duration};

use axum::serve::Listener;
use hothouse_host::{process::user_id, socket::peer_user};
use tokio::net::{UnixListener, UnixStream, unix::SocketAddr};

/// Accepts only connections of our own user.
pub(crate) struct OwnUser(pub(crate) UnixListener);

impl Listener for OwnUser {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (UnixStream, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((stream, address)) => match peer_user(&stream) {
                    Ok(user) if user == user_id() => return (stream, address),
                    other => {
                        tracing::warn!(peer = ?other, "a connection of another user was dropped")
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    // Out of file descriptors: retrying immediately would only spin.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
