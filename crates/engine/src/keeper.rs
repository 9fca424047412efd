//! Starts the walls of rooms. Everything that leaves a room passes through its wall; without one,
//! nothing does.
//!
//! ```text
//! up:            StartRoom -> RaiseWall -> [Supervise]     if the wall cannot be started, the room ends
//! exec --fresh:  start     -> raise     -> the command     the same, without a plan
//! daemon died:   room-init closes the room; the next keeper starts every wall again
//! ```

use std::path::Path;

use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    room::{RoomOrder, WallOrder},
};

use crate::{Engine, StepError};

/// Keeps walls up for as long as it lives.
pub trait WallKeeper: Send + Sync {
    /// Ensures that the wall of a room is started, with the current policy. Blocks.
    fn raise(&self, wall: &WallOrder) -> Result<(), Failure>;

    /// Called when the room at a runtime folder has stopped, while its files still exist. Blocks.
    fn stopped(&self, _runtime: &Path) {}
}

/// A wall that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("start the wall of the room")]
pub struct WallDown(#[source] pub Failure);

impl Explain for WallDown {
    fn kind(&self) -> FailureKind {
        self.0.kind
    }

    fn causes(&self) -> Vec<String> {
        self.0.causes.clone()
    }

    fn hints(&self) -> Vec<String> {
        self.0.hints.clone()
    }
}

impl Engine {
    /// Starts a wall, or fails.
    pub(crate) fn raise_wall(&self, wall: &WallOrder) -> Result<(), WallDown> {
        self.with.walls.raise(wall).map_err(WallDown)
    }

    /// Starts a room and its wall before anything can run in it; if one of them fails, neither is
    /// started.
    pub(crate) fn start_walled(&self, order: &RoomOrder) -> Result<(), StepError> {
        self.with.rooms.start(order)?;
        let Some(wall) = WallOrder::of(order) else { return Ok(()) };
        let raised = self.raise_wall(&wall);
        if raised.is_err() {
            self.with.rooms.kill(&order.runtime)?;
        }
        Ok(raised?)
    }

    /// Updates the wall of a running room after a change of its sandbox. A paused room does not
    /// answer: its wall is updated when it resumes.
    pub(crate) fn keep_wall(&self, sandbox: &SandboxRecord) -> Result<(), WallDown> {
        if self.room_of(sandbox).is_none_or(|room| room.frozen) {
            return Ok(());
        }
        let runtime = self.places(sandbox).runtime;
        self.raise_wall(&WallOrder { sandbox: sandbox.key, runtime, names: None })
    }

    /// Resumes the processes of a room. If its wall ended with a daemon meanwhile, the room stays
    /// closed until the keeper has started it again.
    pub(crate) fn thaw_room(&self, sandbox: &SandboxRecord) -> Result<(), StepError> {
        self.with.rooms.thaw(&self.places(sandbox).runtime)?;
        if let Err(error) = self.keep_wall(sandbox) {
            tracing::warn!(failure = ?error.failure(), "a room keeps running without its wall");
        }
        Ok(())
    }
}
