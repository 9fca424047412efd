//! The end of a room: asked politely, then not.

use super::Room;
use crate::sys;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a room gets when the host's SIGTERM, not a daemon, asks it to end.
pub(super) const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// A room that is about to end.
pub(super) struct Ending {
    deadline: Instant,
}

impl Ending {
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn is_due(&self) -> bool {
        self.left().is_zero()
    }
}

impl Room {
    /// Asks every process to end; a second request may only shorten the wait.
    pub(super) fn begin_ending(&mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        if self.ending.as_ref().is_some_and(|ending| ending.deadline <= deadline) {
            return;
        }
        self.ending = Some(Ending { deadline });
        if !grace.is_zero() {
            // Fails only when there is nobody to ask.
            let _ = sys::kill(-1, libc::SIGTERM);
            let _ = sys::kill(-1, libc::SIGCONT);
        }
    }

    /// Ends PID 1, and with it, by the kernel's hand, whatever is left.
    pub(super) fn finish(&mut self) -> ExitCode {
        let _ = sys::kill(-1, libc::SIGKILL);
        self.reap();
        self.report_ends();
        ExitCode::SUCCESS
    }
}
