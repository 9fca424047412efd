//! The listener in each room for programs that use the daemon's API.
//!
//! The room is identified by the listener that accepted the connection: room-init of that room
//! passed it on over the wall's connection. Nothing that a client sends is involved. Without a wall
//! nothing accepts here, and room-init closes connections.

use std::{
    future::Future,
    os::unix::net::UnixListener as StdListener,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use hothouse_host::shares::RoomShare;
use hothouse_model::{budget::Pace, id::SandboxKey};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

/// How many connections of a room are served at a time. Others wait in the listener's queue.
const CONNECTIONS: usize = 48;

/// How many connections of a room are accepted per second, and in a burst.
const RATE: u32 = 200;
const BURST: u32 = 400;

/// The cost of a connection: its socket, and a file that its response may need.
const COST: u64 = 2;

/// How long accepting pauses when the room's share is exhausted.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers programs of rooms.
pub trait RoomApi: Send + Sync {
    /// Serves one connection of a room to its end.
    fn serve(
        &self,
        sandbox: SandboxKey,
        stream: UnixStream,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The room API, once the daemon has set it.
pub type LateRoomApi = Arc<OnceLock<Arc<dyn RoomApi>>>;

/// The listener of one room, open until dropped.
pub(crate) struct RoomListener(JoinHandle<()>);

impl Drop for RoomListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RoomListener {
    /// Serves the requests of a room's programs.
    pub(crate) fn open(
        listener: StdListener,
        sandbox: SandboxKey,
        api: Arc<dyn RoomApi>,
        share: RoomShare,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self(tokio::spawn(listen(listener, sandbox, api, share))))
    }
}

async fn listen(
    listener: UnixListener,
    sandbox: SandboxKey,
    api: Arc<dyn RoomApi>,
    share: RoomShare,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (begun, mut pace) = (Instant::now(), Pace::new(RATE, BURST));
    // They end with the wall.
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() {}
        tokio::time::sleep(pace.wait(begun.elapsed())).await;
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Some(permit) = share.take(COST) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok((stream, _)) = listener.accept().await else { return };
        pace.count(begun.elapsed());
        let served = api.serve(sandbox, stream);
        serving.spawn(async move {
            served.await;
            drop((place, permit));
        });
    }
}
