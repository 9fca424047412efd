//! Connections to rooms, kept for as long as the rooms live.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use hothouse_backend::{CallError, RoomConnection, Rooms};
use tokio::sync::Mutex;

/// One connection per room, for all who have something to ask.
pub struct Connections {
    rooms: Arc<dyn Rooms>,
    known: Mutex<HashMap<PathBuf, Arc<dyn RoomConnection>>>,
}

impl Connections {
    pub fn new(rooms: Arc<dyn Rooms>) -> Self {
        Self { rooms, known: Mutex::default() }
    }

    /// Returns a connection that answered a moment ago, or a new one.
    pub async fn of(&self, runtime: &Path) -> Result<Arc<dyn RoomConnection>, CallError> {
        let mut known = self.known.lock().await;
        if let Some(room) = known.get(runtime).filter(|room| !room.is_closed()) {
            return Ok(room.clone());
        }
        let room = self.rooms.connect(runtime).await?;
        known.insert(runtime.to_owned(), room.clone());
        Ok(room)
    }

    /// Lets go of a room that ends.
    pub async fn forget(&self, runtime: &Path) {
        self.known.lock().await.remove(runtime);
    }
}
