//! Host folders that the room sees through overlays, which cache names.
//!
//! A name that was looked up before the host created, replaced or removed it would stay cached.
//! Reconfiguring a superblock drops all unused names from the cache. That is done before each
//! command and, while one is running, every two seconds.

use rustix::fd::OwnedFd;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};
use std::time::{Duration, Instant};

/// How long a change on the host may stay invisible to a running command.
const PERIOD: Duration = Duration::from_secs(2);

/// The overlays of a room.
pub(crate) struct Views {
    overlays: Vec<OwnedFd>,
    refreshed: Instant,
}

impl Views {
    pub(crate) fn new(overlays: Vec<OwnedFd>) -> Self {
        Self { overlays, refreshed: Instant::now() }
    }

    /// Drops the names that the overlays have cached.
    pub(crate) fn refresh(&mut self) {
        for overlay in &self.overlays {
            // If this fails, the names are only more outdated than usual.
            let _ = forget_names(overlay);
        }
        self.refreshed = Instant::now();
    }

    /// Returns how long the loop may wait until the next refresh, if one is needed.
    pub(crate) fn patience(&self, is_in_use: bool) -> Option<Duration> {
        let is_needed = is_in_use && !self.overlays.is_empty();
        is_needed.then(|| PERIOD.saturating_sub(self.refreshed.elapsed()))
    }
}

fn forget_names(overlay: &OwnedFd) -> rustix::io::Result<()> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(overlay, "", flags)?;
    // An overlay without an upper layer must stay read-only.
    fsconfig_set_flag(&context, "ro")?;
    fsconfig_reconfigure(&context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_without_overlays_or_commands_never_wakes_up_for_them() {
        let none = Views::new(Vec::new());
        assert_eq!(none.patience(true), None);
        let (end, _other) = rustix::pipe::pipe().unwrap();
        let some = Views::new(vec![end]);
        assert_eq!(some.patience(false), None);
        assert!(some.patience(true).is_some_and(|left| left <= PERIOD));
    }
}
