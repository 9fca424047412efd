//! File access of the writer, as a trait so that tests can inject disk failures.

use std::{fs::File, io, os::unix::fs::FileExt};

/// A file that is written at its end.
pub trait Disk: Send {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Waits until everything written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Truncates the file.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// A real file.
pub struct FileDisk(pub File);

impl Disk for FileDisk {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
