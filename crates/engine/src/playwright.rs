//! Playwright's test runner in rooms: our reporter, which the runner loads through a variable, so
//! that no project has to change its config.

use std::path::PathBuf;

use hothouse_host::{FileError, files};
use hothouse_model::room::RoomMount;

use crate::Engine;

const REPORTER: &str = include_str!("playwright/reporter.cjs");

/// Its path in a room, and the variable for the runner.
const INSIDE: &str = "/run/hothouse/playwright.cjs";
pub(crate) const VARIABLE: (&str, &str) = ("PW_TEST_REPORTER", INSIDE);

impl Engine {
    /// Returns the mount of the reporter, after updating its file.
    pub(crate) fn playwright_mount(&self) -> Result<RoomMount, FileError> {
        let source: PathBuf = self.with.wall.authorities.join("playwright.cjs");
        let known = files::read_capped(&source, 1 << 20).ok();
        if known.as_deref() != Some(REPORTER.as_bytes()) {
            files::make_private_folder(&self.with.wall.authorities)?;
            files::replace(&source, REPORTER.as_bytes(), 0o644)?;
        }
        Ok(RoomMount { source, target: INSIDE.into(), writable: false, own: true })
    }
}
