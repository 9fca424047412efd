//! Rooms for single commands, beside the sandbox's own.

use std::path::{Path, PathBuf};

use hothouse_backend::RoomError;
use hothouse_model::{Explain, Failure, SandboxRecord};
use hothouse_workspace::Repository;

use super::{RoomRequestError, TEMPORARY};
use crate::Engine;

/// Returns the runtime folder of a room that ends with a single command, beside the sandbox's own.
fn temporary(runtime: &Path, nonce: &str) -> PathBuf {
    let mut name = runtime.as_os_str().to_owned();
    name.push(TEMPORARY);
    name.push(nonce);
    name.into()
}

impl Engine {
    /// Starts a separate room beside the sandbox's, which is discarded when it ends.
    pub fn start_fresh(&self, sandbox: &SandboxRecord, nonce: &str) -> Result<PathBuf, Failure> {
        let start = || -> Result<PathBuf, RoomRequestError> {
            let config = self.pinned_config(sandbox)?;
            let mut order = self.order(sandbox, &config)?;
            if order.layers.is_some() && self.room_of(sandbox).is_some() {
                let cannot = "is up: there can be no second one with the same files";
                return Err(RoomRequestError::Hidden { name: sandbox.name.clone(), cannot });
            }
            self.touch(sandbox);
            order.id = format!("{}-{nonce}", order.id);
            order.runtime = temporary(&order.runtime, nonce);
            order.ephemeral = true;
            order.claim = None;
            self.give_wall(sandbox, &config, &mut order, None)?;
            order.wall.environment.extend(self.variables_without_services(&config)?);
            Repository { place: sandbox.repository.clone() }.take_index(&sandbox.worktree)?;
            let runtime = order.runtime.clone();
            self.temporary.begin(&runtime);
            self.start_walled(&order).inspect_err(|_| self.temporary.end(&runtime))?;
            Ok(runtime)
        };
        start().map_err(|error| error.failure())
    }

    /// Ends a room started by [`start_fresh`](Self::start_fresh).
    pub fn end_fresh(&self, runtime: &Path) -> Result<(), Failure> {
        let ended = self.with.rooms.kill(runtime).map_err(|error| error.failure());
        self.temporary.end(runtime);
        ended
    }

    /// Ends the rooms for single commands of a sandbox.
    pub(crate) fn end_temporary(&self, sandbox: &SandboxRecord) -> Result<(), RoomError> {
        for runtime in self.with.rooms.list(&self.with.runtime)? {
            if self.is_temporary_of(&runtime, sandbox) {
                self.with.rooms.kill(&runtime)?;
            }
        }
        Ok(())
    }

    /// Returns the runtime folders of running rooms for single commands of a sandbox.
    pub fn fresh_rooms(&self, sandbox: &SandboxRecord) -> Vec<PathBuf> {
        let all = self.with.rooms.list(&self.with.runtime).unwrap_or_default().into_iter();
        let own = all.filter(|runtime| self.is_temporary_of(runtime, sandbox));
        let lives = |runtime: &PathBuf| {
            self.with.rooms.instance(runtime).is_some_and(|room| room.is_alive())
        };
        own.filter(lives).collect()
    }

    /// Whether a room was started for a single command of a sandbox.
    fn is_temporary_of(&self, runtime: &Path, sandbox: &SandboxRecord) -> bool {
        let own = temporary(&self.places(sandbox).runtime, "");
        runtime.as_os_str().as_encoded_bytes().starts_with(own.as_os_str().as_encoded_bytes())
    }
}
