//! The terminal of a command, and its input.

use hothouse_room_wire::WindowSize;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;

/// The group that owns terminals on Debian and its derivatives.
const TTY_GROUP: u32 = 5;

/// The master side of a pty, with its inputs.
pub(crate) struct Terminal {
    master: OwnedFd,
    typists: Vec<Typist>,
}

struct Typist {
    pipe: OwnedFd,
    pending: Vec<u8>,
}

/// Opens a pty whose slave belongs to `owner`.
pub(crate) fn open(size: WindowSize, owner: Option<u32>) -> io::Result<(Terminal, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let master = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    if let Some(owner) = owner {
        rustix::fs::fchown(&slave, Some(Uid::from_raw(owner)), Some(Gid::from_raw(TTY_GROUP)))?;
    }
    let terminal = Terminal { master, typists: Vec::new() };
    terminal.resize(size)?;
    Ok((terminal, slave))
}

impl Terminal {
    pub(crate) fn resize(&self, size: WindowSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(&self.master, size)?)
    }

    /// Returns the size that was last set, by a client or by a program of the room.
    pub(crate) fn size(&self) -> io::Result<WindowSize> {
        let size = rustix::termios::tcgetwinsize(&self.master)?;
        Ok(WindowSize { rows: size.ws_row, cols: size.ws_col })
    }

    /// Returns a second handle, from which the output is read.
    pub(crate) fn output(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.master, 3)?)
    }

    pub(crate) fn join(&mut self, pipe: OwnedFd) {
        self.typists.push(Typist { pipe, pending: Vec::new() });
    }

    pub(crate) fn interest<'a>(&'a self, mut add: impl FnMut(BorrowedFd<'a>, PollFlags, usize)) {
        for (at, typist) in self.typists.iter().enumerate() {
            match typist.pending.is_empty() {
                true => add(typist.pipe.as_fd(), PollFlags::IN, at),
                false => add(self.master.as_fd(), PollFlags::OUT, at),
            }
        }
    }

    /// Copies input to the terminal; drops inputs that were closed.
    pub(crate) fn advance(&mut self, at: usize, scratch: &mut [u8]) {
        let Some(typist) = self.typists.get_mut(at) else { return };
        if typist.pending.is_empty() {
            match rustix::io::read(&typist.pipe, &mut *scratch) {
                Ok(0) => return drop(self.typists.remove(at)),
                Ok(length) => typist.pending.extend_from_slice(&scratch[..length]),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return drop(self.typists.remove(at)),
            }
        }
        match rustix::io::write(&self.master, &typist.pending) {
            Ok(written) => drop(typist.pending.drain(..written)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => typist.pending.clear(),
        }
    }
}
