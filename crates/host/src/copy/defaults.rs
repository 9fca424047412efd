//! What a new file gets without being asked.

use std::{os::fd::BorrowedFd, path::Path};

use rustix::{
    fs::{Mode, Stat},
    io::Errno,
};

/// What a new file gets without being asked, so that it need not be asked for what it has.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    user: u32,
    group: u32,
    /// The bits of a mode that do not come through, if that can be known.
    mask: Option<u32>,
}

impl Defaults {
    /// Finds them out for files in a folder of ours.
    pub(super) fn of(target: BorrowedFd<'_>) -> Self {
        // An access list that new files inherit takes the place of the mask.
        let list = rustix::fs::flistxattr_query(target);
        let status = crate::files::read_text(Path::new("/proc/self/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let mask = mask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        // A folder may hand its group down (setgid), and that bit to the folders in it.
        let group = match rustix::fs::fstat(target) {
            Ok(stat) if Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID) => stat.st_gid,
            _ => rustix::process::getegid().as_raw(),
        };
        Self {
            user: rustix::process::geteuid().as_raw(),
            group,
            mask: mask.filter(|_| matches!(list, Ok(0) | Err(Errno::NOTSUP))),
        }
    }

    pub(super) fn owns(self, stat: &Stat) -> bool {
        (stat.st_uid, stat.st_gid) == (self.user, self.group)
    }

    /// Returns whether a file that is made with a mode has exactly that.
    pub(super) fn lets_through(self, mode: Mode) -> bool {
        self.mask.is_some_and(|mask| mode.as_raw_mode() & mask == 0)
    }
}
