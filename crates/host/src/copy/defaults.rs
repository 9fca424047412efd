//! The owner and mode bits that new files get by default.

use std::{os::fd::BorrowedFd, path::Path};

use rustix::{
    fs::{Mode, Stat},
    io::Errno,
};

/// The owner and mode bits that new files get by default. A copy sets only what differs.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    user: u32,
    group: u32,
    /// The mode bits that are masked out, if known.
    mask: Option<u32>,
}

impl Defaults {
    /// Determines the defaults for files in a folder that is ours.
    pub(super) fn of(target: BorrowedFd<'_>) -> Self {
        // An inherited (default) ACL overrides the umask.
        let list = rustix::fs::flistxattr_query(target);
        let status = crate::files::read_text(Path::new("/proc/self/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let mask = mask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        // A folder with setgid passes its group on to new files, and the bit to new folders.
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

    /// Whether a file created with this mode gets exactly this mode.
    pub(super) fn lets_through(self, mode: Mode) -> bool {
        self.mask.is_some_and(|mask| mode.as_raw_mode() & mask == 0)
    }
}
