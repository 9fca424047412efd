//! Playwright's test runner in rooms: a reporter of ours, which the runner loads by a variable, so that no project has
//! to change its config.

use std::path::PathBuf;

use hothouse_host::{FileError, files};
use hothouse_model::room::RoomMount;

use crate::Engine;

const REPORTER: &str = include_str!("playwright/reporter.cjs");

/// Where a room finds it, and the variable by which the runner does.
const INSIDE: &str = "/run/hothouse/playwright.cjs";
pub(crate) const VARIABLE: (&str, &str) = ("PW_TEST_REPORTER", INSIDE);

impl Engine {
    /// Returns the mount of the reporter, whose file is brought up to date.
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
