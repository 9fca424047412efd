//! The end of a room: SIGTERM first, then SIGKILL.

use super::Room;
use crate::services::Hands;
use crate::sys;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The grace period when the host's SIGTERM, and not a daemon, ends the room.
pub(super) const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// The longest that an ordered stop of the services may take, whatever their grace periods add up to.
const SERVICES_LIMIT: Duration = Duration::from_secs(120);

/// A room that is ending: its services first, then everything else.
pub(super) struct Ending {
    deadline: Instant,
    /// The time left for other processes once the services have stopped.
    grace: Duration,
    services_stopped: bool,
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
    /// Stops the services, then every process; a second request can only shorten the wait.
    pub(super) fn begin_ending(&mut self, grace: Duration) {
        let wait = if grace.is_zero() || self.services.is_still() { grace } else { SERVICES_LIMIT };
        let deadline = Instant::now() + wait;
        if self.ending.as_ref().is_some_and(|ending| ending.deadline <= deadline) {
            return;
        }
        self.ending = Some(Ending { deadline, grace, services_stopped: false });
        let mut hands = Hands { boot: &self.boot, scratch: &mut self.scratch };
        self.services.stop_all(&mut hands);
        self.go_on_ending();
    }

    /// Sends SIGTERM to everything else once the services are gone.
    pub(super) fn go_on_ending(&mut self) {
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.services_stopped) else {
            return;
        };
        if !self.services.is_still() {
            return;
        }
        ending.services_stopped = true;
        ending.deadline = ending.deadline.min(Instant::now() + ending.grace);
        if !ending.grace.is_zero() {
            // Fails only if no process is left.
            let _ = sys::kill(-1, libc::SIGTERM);
            let _ = sys::kill(-1, libc::SIGCONT);
        }
    }

    /// Exits PID 1, and the kernel kills whatever is left.
    pub(super) fn finish(&mut self) -> ExitCode {
        let _ = sys::kill(-1, libc::SIGKILL);
        self.reap();
        self.report_ends();
        ExitCode::SUCCESS
    }
}
