//! Disk usage of a room's own files: its layers and its homes.
//!
//! They belong to the room's ids, and some folders are closed to everybody else, so an ordinary
//! user measures them in a user namespace.

use super::base_layer::in_namespace;
use super::cgroups::Groups;
use super::launcher::{HelperError, Launcher};
use super::layout::LAYERS;
use super::setup::{Job, Report};
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::usage::{Blocks, usage_until};
use hothouse_host::walls::Wall;
use rustix::pipe::PipeFlags;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A storage folder that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("measure the storage of a room")]
    Helper(#[from] HelperError),
    #[error("measure the storage of a room")]
    Step(#[source] SystemError),
    #[error("the helper did another job than to measure the storage of a room")]
    OtherJob,
}

impl Launcher {
    /// Measures the files of a running room under the room's limits. If that fails, measures them
    /// again without limits, because the disk limit must be enforced. Blocks, for a limited time.
    pub fn measure_storage(
        &self,
        storage: &Path,
        mode: Option<Mode>,
        groups: &Groups,
    ) -> Result<Measured, MeasureError> {
        self.measure(storage, mode, Some(groups.clone()))
            .or_else(|_| self.measure(storage, mode, None))
    }

    fn measure(
        &self,
        storage: &Path,
        mode: Option<Mode>,
        groups: Option<Groups>,
    ) -> Result<Measured, MeasureError> {
        match self.ask(&Job::MeasureStorage { storage: storage.to_owned(), mode, groups })? {
            Report::Measured(measured) => Ok(measured),
            Report::Failed(error) => Err(MeasureError::Step(error)),
            Report::Removed | Report::Made | Report::Started(_) => Err(MeasureError::OtherJob),
        }
    }
}

/// The time limit of a measurement. A room with more files than that counts as over its limit.
const PATIENCE: Duration = Duration::from_secs(30);

/// The size of a room's own files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub bytes: u64,
    /// Whether the measurement is incomplete: some files are nested too deeply, or the time ran out.
    pub beyond: bool,
}

/// Runs in the helper.
pub(super) fn measure(storage: &Path, mode: Mode, wall: &Wall) -> Result<Measured, SystemError> {
    let deadline = Instant::now() + PATIENCE;
    if mode == Mode::Root {
        return sum(&storage.join(LAYERS), deadline);
    }
    let (result, writer) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("open a pipe for the measure")?;
    in_namespace(mode, wall, storage, || {
        let measured = sum(Path::new(LAYERS), deadline)?;
        let bytes = serde_json::to_vec(&measured).map_err(std::io::Error::from);
        let bytes = bytes.context("tell the measure")?;
        rustix::io::write(&writer, &bytes).map(drop).context("tell the measure")
    })?;
    drop(writer);
    let mut bytes = Vec::new();
    std::fs::File::from(result).read_to_end(&mut bytes).context("hear the measure")?;
    serde_json::from_slice(&bytes).map_err(std::io::Error::from).context("hear the measure")
}

fn sum(layers: &Path, deadline: Instant) -> Result<Measured, SystemError> {
    let mut total = Measured::default();
    for folder in own_files(layers).context_at("list", layers)? {
        let found = usage_until(&folder, Blocks::AreOwn, deadline).context("measure a layer")?;
        total.bytes += found.at_least();
        total.beyond |= found.beyond;
    }
    Ok(total)
}

/// Lists the folders that contain files a room wrote. Overlay work folders are left out: they are
/// closed even to their owner, and almost always empty.
fn own_files(layers: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(layers)? {
        let path = entry?.path();
        let upper = path.join("upper");
        folders.push(if upper.is_dir() { upper } else { path });
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uppers_and_homes_count_and_work_folders_do_not() {
        let layers = tempfile::tempdir().unwrap();
        for folder in ["usr/upper", "usr/work", "home-folder"] {
            hothouse_host::files::make_folder(&layers.path().join(folder)).unwrap();
        }
        let mut found = own_files(layers.path()).unwrap();
        found.sort();
        let expected = ["home-folder", "usr/upper"].map(|name| layers.path().join(name));
        assert_eq!(found, expected);
    }
}
