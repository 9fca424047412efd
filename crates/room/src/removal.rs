//! Removal of layers. They belong to the room's ids, so it happens in a user namespace.

use super::base_layer::{Prune, in_namespace};
use super::launcher::{HelperError, Launcher};
use super::setup::{Job, Report};
use hothouse_host::files;
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::Wall;
use std::path::Path;

/// Failure to remove a storage folder or a base layer.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("remove the storage of a room")]
    Helper(#[from] HelperError),
    #[error("remove the storage of a room")]
    Step(#[source] SystemError),
}

impl Launcher {
    /// Removes a room's storage folder and its content. Blocks; the room must have ended.
    pub fn remove_storage(&self, storage: &Path, mode: Option<Mode>) -> Result<(), RemoveError> {
        if !storage.exists() {
            return Ok(());
        }
        match self.ask(&Job::RemoveStorage { storage: storage.to_owned(), mode })? {
            Report::Failed(error) => Err(RemoveError::Step(error)),
            _ => Ok(()),
        }
    }
}

impl Launcher {
    /// Removes base layers that no room uses or will use. Blocks.
    pub fn prune_layers(
        &self,
        folder: &Path,
        which: Prune,
        mode: Option<Mode>,
    ) -> Result<(), RemoveError> {
        match self.ask(&Job::PruneLayers { folder: folder.to_owned(), which, mode })? {
            Report::Failed(error) => Err(RemoveError::Step(error)),
            _ => Ok(()),
        }
    }
}

impl Launcher {
    /// Creates the base layer for the rooms that this process can start, if it is missing. Blocks.
    pub fn make_layer(&self, folder: &Path) {
        match self.ask(&Job::MakeLayer { folder: folder.to_owned(), mode: None }) {
            Ok(Report::Failed(error)) => tracing::debug!(%error, "the base layer is not made"),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the base layer is not made"),
        }
    }
}

/// Runs in the helper.
pub(super) fn remove(storage: &Path, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    match mode {
        Mode::Root => {}
        // The namespace's root owns the content, the user owns the folder itself.
        Mode::Range | Mode::Single => in_namespace(mode, wall, storage, clear_all)?,
    }
    files::remove_tree(storage).context("remove the storage folder")
}

/// Removes everything in the current folder, including folders that their owner may not write to,
/// such as overlay work folders.
fn clear_all() -> Result<(), SystemError> {
    for path in files::list(Path::new(".")).context("look at the room's layers")? {
        files::remove_tree(&path).context("remove the room's layers")?;
    }
    Ok(())
}
