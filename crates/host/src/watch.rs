//! Watches folders to which someone else writes, for names that appear, disappear or change.
//!
//! Uses one inotify instance for any number of folders: a user has only 128 instances by default.

use std::{
    ffi::OsString,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
    pipe::PipeFlags,
};

use crate::{
    beneath::Folder,
    files::{FileError, about},
};

/// How many bytes of events are read at a time, so that a flood of events cannot keep us busy.
const AT_A_TIME: usize = 64 << 10;

/// A watched folder. The same folder always has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watch(i32);

/// A reported change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A name in a folder was added, removed, or has new content.
    Name { watch: Watch, name: OsString },
    /// A folder is no longer watched because it was removed.
    Gone { watch: Watch },
    /// The queue overflowed: anything may have changed.
    Anything,
}

/// Watched folders.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: OwnedFd,
}

impl FolderWatch {
    /// Creates a watch without folders.
    pub fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify })
    }

    /// Returns a [`Waiter`] for changes.
    pub fn waiter(&self) -> io::Result<Waiter> {
        self.inotify.try_clone().map(Waiter)
    }

    /// Watches a folder that was opened without following links.
    pub fn add(&self, folder: &Folder) -> Result<Watch, FileError> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        let added = inotify::add_watch(&self.inotify, Path::new(&path), flags);
        added.map(Watch).map_err(|errno| about("watch", folder.path())(errno.into()))
    }

    /// Stops watching a folder, which may have been removed.
    pub fn remove(&self, watch: Watch) {
        inotify::remove_watch(&self.inotify, watch.0).ok();
    }

    /// Returns the changes since the last call, a limited number at a time.
    pub fn changes(&self) -> io::Result<Vec<Change>> {
        let mut space = [MaybeUninit::uninit(); AT_A_TIME];
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        let mut changes = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let (watch, flags) = (Watch(event.wd()), event.events());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                changes.push(Change::Anything);
            } else if flags.contains(ReadFlags::IGNORED) {
                changes.push(Change::Gone { watch });
            } else if let Some(name) = event.file_name() {
                let name = OsString::from_vec(name.to_bytes().to_vec());
                changes.push(Change::Name { watch, name });
            }
            if reader.is_buffer_empty() {
                return Ok(changes);
            }
        }
    }
}

/// Waits for changes, independently of the reader.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

/// Ends the wait of a [`Waiter`] when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(#[expect(dead_code, reason = "its end is what counts")] OwnedFd);

/// The other end of a [`CancelOnDrop`].
#[derive(Debug)]
pub struct Cancelled(OwnedFd);

/// Returns a cancellation and the end that a wait observes.
pub fn cancellation() -> io::Result<(CancelOnDrop, Cancelled)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((CancelOnDrop(write), Cancelled(read)))
}

impl Waiter {
    /// Waits until there is something to read. Returns false if the wait was cancelled.
    pub fn wait(&self, until: &Cancelled) -> io::Result<bool> {
        loop {
            let mut entries =
                [PollFd::new(&self.0, PollFlags::IN), PollFd::new(&until.0, PollFlags::empty())];
            match rustix::event::poll(&mut entries, None) {
                Ok(_) => return Ok(entries[1].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
