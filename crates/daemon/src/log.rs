//! The daemon's own log: JSON lines in the state folder, with one earlier file.

use std::{path::Path, sync::Mutex};

use hothouse_host::{FileError, files};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// The size at which the log is rotated.
const ROTATE_AT: u64 = 8 << 20;

/// Starts logging to a file. `filter` has the syntax of `RUST_LOG`.
pub(crate) fn begin(path: &Path, filter: Option<&str>) -> Result<(), FileError> {
    files::rotate(path, ROTATE_AT)?;
    let file = files::open_append(path)?;
    let filter =
        EnvFilter::try_new(filter.unwrap_or("info")).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines =
        tracing_subscriber::fmt::layer().json().with_writer(Mutex::new(file)).with_target(true);
    tracing_subscriber::registry().with(filter).with(lines).try_init().ok();
    Ok(())
}
