//! Connections to rooms, kept for as long as the rooms are running.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use hothouse_backend::{CallError, RoomConnection, Rooms};
use tokio::sync::Mutex;

/// One shared connection per room.
pub struct Connections {
    rooms: Arc<dyn Rooms>,
    known: Mutex<HashMap<PathBuf, Arc<dyn RoomConnection>>>,
}

impl Connections {
    pub fn new(rooms: Arc<dyn Rooms>) -> Self {
        Self { rooms, known: Mutex::default() }
    }

    /// Returns an open connection, or a new one.
    pub async fn of(&self, runtime: &Path) -> Result<Arc<dyn RoomConnection>, CallError> {
        let mut known = self.known.lock().await;
        if let Some(room) = known.get(runtime).filter(|room| !room.is_closed()) {
            return Ok(room.clone());
        }
        let room = self.rooms.connect(runtime).await?;
        known.insert(runtime.to_owned(), room.clone());
        Ok(room)
    }

    /// Drops the connection of a room that ends.
    pub async fn forget(&self, runtime: &Path) {
        self.known.lock().await.remove(runtime);
    }
}
