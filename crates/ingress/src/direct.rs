//! Direct ports: a port of the host's loopback that leads to one app, byte for byte.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{Rooms, Target};

/// A port that is open for as long as this is held.
#[derive(Debug)]
pub struct DirectPort {
    pub port: u16,
    pub target: Target,
    task: JoinHandle<()>,
}

impl DirectPort {
    /// Opens a port of the loopback.
    pub async fn open(port: u16, target: Target, rooms: Arc<dyn Rooms>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let task = tokio::spawn(serve(listener, target.clone(), rooms));
        Ok(Self { port, target, task })
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: Target, rooms: Arc<dyn Rooms>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others must end first.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (target, rooms) = (target.clone(), rooms.clone());
        tokio::spawn(async move { connect(client, &target, &*rooms).await });
    }
}

async fn connect(mut client: TcpStream, target: &Target, rooms: &dyn Rooms) {
    match rooms.dial(target).await {
        Ok(mut app) => {
            client.set_nodelay(true).ok();
            app.set_nodelay(true).ok();
            tokio::io::copy_bidirectional(&mut client, &mut app).await.ok();
        }
        // A reset says "nobody there", as a port without a listener would.
        Err(error) => {
            tracing::debug!(%error, port = target.port, "an app does not answer");
            client.set_zero_linger().ok();
        }
    }
}
