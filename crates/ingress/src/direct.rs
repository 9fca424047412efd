//! Direct ports: a port of the host's loopback that leads to one app, byte for byte.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{Activity, Rooms, Target};

/// Where a direct port leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The sandbox's public id.
    pub id: String,
    /// What it leads to, by the name that [`Rooms::wake`] knows.
    pub app: String,
    /// Where that answers, while the room is up.
    pub target: Option<Target>,
    pub activity: Arc<Activity>,
}

/// A port that is open for as long as this is held.
#[derive(Debug)]
pub struct DirectPort {
    pub port: u16,
    to: Arc<Mutex<Leads>>,
    task: JoinHandle<()>,
}

impl DirectPort {
    /// Opens a port of the loopback.
    pub async fn open(port: u16, to: Leads, rooms: Arc<dyn Rooms>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let to = Arc::new(Mutex::new(to));
        let task = tokio::spawn(serve(listener, to.clone(), rooms));
        Ok(Self { port, to, task })
    }

    /// Leads elsewhere from now on. The port stays open: whoever waits at it is served.
    pub fn lead(&self, to: Leads) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, to: Arc<Mutex<Leads>>, rooms: Arc<dyn Rooms>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others must end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let to = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rooms = rooms.clone();
        tokio::spawn(async move { connect(client, &to, &*rooms).await });
    }
}

async fn connect(mut client: TcpStream, to: &Leads, rooms: &dyn Rooms) {
    let _held = to.activity.enter();
    match dial(to, rooms).await {
        Ok(mut app) => {
            client.set_nodelay(true).ok();
            app.set_nodelay(true).ok();
            tokio::io::copy_bidirectional(&mut client, &mut app).await.ok();
        }
        // A reset says "nobody there", as a port without a listener would.
        Err(error) => {
            tracing::debug!(%error, app = to.app, "an app does not answer");
            client.set_zero_linger().ok();
        }
    }
}

async fn dial(to: &Leads, rooms: &dyn Rooms) -> io::Result<TcpStream> {
    match &to.target {
        Some(target) if !(to.activity.is_asleep() || to.activity.is_starting()) => {
            rooms.dial(target).await
        }
        _ => {
            let target = rooms.wake(&to.id, &to.app).await.map_err(io::Error::other)?;
            rooms.dial(&target).await
        }
    }
}
