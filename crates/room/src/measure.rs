//! How much disk space a room's own files take: its layers and its homes.
//!
//! They belong to ids of the room, and some of their folders are closed to everybody else, so an
//! ordinary user measures from inside a user namespace.

use super::base_layer::in_namespace;
use super::launcher::{HelperError, Launcher};
use super::layout::LAYERS;
use super::setup::{Job, Report};
use hothouse_host::files;
use hothouse_host::ids::Mode;
use hothouse_host::step::{Step, StepError};
use hothouse_host::usage::{Blocks, usage};
use hothouse_host::walls::Wall;
use rustix::pipe::PipeFlags;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A storage folder that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("measure the storage of a room")]
    Helper(#[from] HelperError),
    #[error("measure the storage of a room")]
    Step(#[source] StepError),
    #[error("the helper did another job than to measure the storage of a room")]
    OtherJob,
}

impl Launcher {
    /// Returns the bytes that a room's own files take. Blocks.
    pub fn measure_storage(&self, storage: &Path, mode: Option<Mode>) -> Result<u64, MeasureError> {
        match self.ask(&Job::MeasureStorage { storage: storage.to_owned(), mode })? {
            Report::Measured(bytes) => Ok(bytes),
            Report::Failed(error) => Err(MeasureError::Step(error)),
            Report::Removed | Report::Started(_) => Err(MeasureError::OtherJob),
        }
    }
}

/// Runs in the helper.
pub(super) fn measure(storage: &Path, mode: Mode, wall: &Wall) -> Result<u64, StepError> {
    if mode == Mode::Root {
        return sum(&storage.join(LAYERS));
    }
    let (result, writer) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("open a pipe for the measure")?;
    in_namespace(mode, wall, storage, || {
        let bytes = sum(Path::new(LAYERS))?.to_ne_bytes();
        rustix::io::write(&writer, &bytes).map(drop).step("tell the measure")
    })?;
    drop(writer);
    let mut bytes = [0; 8];
    std::fs::File::from(result).read_exact(&mut bytes).step("hear the measure")?;
    Ok(u64::from_ne_bytes(bytes))
}

fn sum(layers: &Path) -> Result<u64, StepError> {
    let mut total = 0;
    for folder in own_files(layers).step_at("list", layers)? {
        let found = usage(&folder, Blocks::AreOwn).step("measure a layer")?;
        // A file system has so many inodes and no more: an empty file counts as a block of it.
        total += found.total.max(found.entries.saturating_mul(files::BLOCK));
    }
    Ok(total)
}

/// The folders that hold what a room wrote. Overlay's work folders are closed even to their owner,
/// and empty but for a moment.
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
