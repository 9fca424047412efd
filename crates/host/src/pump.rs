//! Moves bytes between descriptors, without copying where possible.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{fs::FileType, pipe::SpliceFlags};

/// The most that is moved at once, and the pipe size for bulk data.
const CHUNK: usize = 1 << 20;

/// From this amount on, larger pipes pay off.
const FLOOD: usize = 48 << 10;

/// A transfer that failed, and on which side.
#[derive(Debug)]
pub enum Broken {
    /// Nothing more can be read.
    Source(io::Error),
    /// Nothing more can be written.
    Sink(io::Error),
}

/// Moves everything until the end. A source that fails counts as ended; a sink that fails is an
/// error.
pub fn pump(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let mut flooded = false;
    loop {
        let length = match carry(from, to) {
            Ok(0) | Err(Broken::Source(_)) => return Ok(()),
            Ok(length) => length,
            Err(Broken::Sink(error)) => return Err(error),
        };
        if length >= FLOOD && !flooded {
            flooded = true;
            // Best effort: a user's pipe buffers are limited, and not every descriptor is a pipe.
            rustix::pipe::fcntl_setpipe_size(from, CHUNK).ok();
            rustix::pipe::fcntl_setpipe_size(to, CHUNK).ok();
        }
    }
}

/// Moves available bytes, waiting for at least one; zero means the end.
///
/// Pages are spliced only between two pipes. A splice with a terminal or a file on one side holds
/// the pipe's lock while that side blocks, and with it whoever uses the pipe's other end: a paused
/// terminal would stop the whole room.
pub fn carry(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, Broken> {
    if !(is_pipe(from) && is_pipe(to)) {
        return copy(from, to);
    }
    let move_pages = || rustix::pipe::splice(from, None, to, None, CHUNK, SpliceFlags::empty());
    // When splicing between pipes, only the sink can fail.
    rustix::io::retry_on_intr(move_pages).map_err(|error| Broken::Sink(error.into()))
}

fn is_pipe(end: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(end).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, Broken> {
    let mut bytes = vec![0; 128 << 10];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut bytes[..]))
        .map_err(|error| Broken::Source(error.into()))?;
    let mut rest = &bytes[..length];
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(to, rest))
            .map_err(|error| Broken::Sink(error.into()))?;
        rest = &rest[written..];
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
        thread,
    };

    use super::*;

    fn pipe() -> (File, File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        (read.into(), write.into())
    }

    #[test]
    fn a_flood_passes_from_pipe_to_pipe() {
        let ((from, mut source), (mut sink, to)) = (pipe(), pipe());
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let sent = bytes.clone();
        let writer = thread::spawn(move || source.write_all(&sent));
        let carrier = thread::spawn(move || pump(from, to).unwrap());
        let mut came = Vec::new();
        sink.read_to_end(&mut came).unwrap();
        writer.join().unwrap().unwrap();
        carrier.join().unwrap();
        assert!(came == bytes);
    }

    #[test]
    fn what_is_not_a_pipe_is_copied() {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(b"some bytes").unwrap();
        source.rewind().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("appended");
        pump(source, File::options().create(true).append(true).open(&path).unwrap()).unwrap();
        let mut came = String::new();
        File::open(&path).unwrap().read_to_string(&mut came).unwrap();
        assert_eq!(came, "some bytes");
    }

    #[test]
    fn a_sink_that_takes_no_more_is_an_error() {
        let ((from, mut source), (sink, to)) = (pipe(), pipe());
        drop(sink);
        source.write_all(b"nobody reads this").unwrap();
        assert_eq!(pump(from, to).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let (from, mut source) = pipe();
        source.write_all(b"no room for this").unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(pump(from, full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
