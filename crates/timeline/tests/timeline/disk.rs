//! Disks that fail.

use std::{
    fs::File,
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use hothouse_model::record::Kind;
use hothouse_timeline::{AppendError, Disk, FileDisk, OpenError, Timeline};

use crate::{Kept, RUN, check, log, open, order, text};

const WORKS: u8 = 0;
const FULL: u8 = 1;
const NO_SYNC: u8 = 2;
const NO_CUT: u8 = 3;

/// A disk that performs half of an operation and then fails, on request.
struct FaultyDisk {
    real: FileDisk,
    mode: Arc<AtomicU8>,
}

impl Disk for FaultyDisk {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.mode.load(Ordering::SeqCst) {
            FULL | NO_CUT => {
                self.real.write_at(&bytes[..bytes.len() / 2], offset)?;
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => self.real.write_at(bytes, offset),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.mode.load(Ordering::SeqCst) {
            NO_SYNC => Err(io::Error::other("the disk is gone")),
            _ => self.real.sync(),
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        match self.mode.load(Ordering::SeqCst) {
            NO_CUT => Err(io::Error::other("the disk is gone")),
            _ => self.real.cut(length),
        }
    }
}

#[test]
fn a_disk_that_fails_fails_the_appender_and_the_chain_continues() {
    let folder = tempfile::tempdir().unwrap();
    let mode = Arc::new(AtomicU8::new(WORKS));
    let disk = |file: File| -> Box<dyn Disk> {
        Box::new(FaultyDisk { real: FileDisk(file), mode: mode.clone() })
    };
    let (timeline, _) =
        Timeline::open_on(folder.path(), order(RUN, &Kept::default()), disk).unwrap();
    let mut written = 0;
    for fault in [FULL, NO_SYNC, NO_CUT] {
        mode.store(WORKS, Ordering::SeqCst);
        written += 1;
        assert_eq!(timeline.append(log("before")).unwrap().seq, written);
        mode.store(fault, Ordering::SeqCst);
        for _ in 0..2 {
            let failed = timeline.append(log("lost")).unwrap_err();
            assert!(matches!(failed, AppendError::Disk(_)), "{failed}");
        }
    }
    timeline.append_later(log("lost, and nobody waits")).unwrap();
    timeline.append(log("lost")).unwrap_err();
    mode.store(WORKS, Ordering::SeqCst);
    let record = timeline.append(log("after")).unwrap();
    assert_eq!(record.seq, written + 2, "a record tells of the lost one");
    assert_eq!(timeline.dropped(), 0);
    timeline.close();
    let text = text(folder.path());
    assert!(check(folder.path(), &[]).ok);
    assert!(!text.contains("\"lost") && text.contains("\"gap\":\"dropped\""), "{text}");
}

#[test]
fn a_folder_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let second = Timeline::open(folder.path(), order(RUN, &Kept::default()));
    assert!(matches!(second, Err(OpenError::Held(_))));
    timeline.close();
    open(folder.path());
}

#[test]
fn a_file_whose_sync_failed_is_written_again_before_the_next_record() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (timeline, _) = open(folder.path());
    let files = [("errors/1.json", &b"{}"[..]), ("errors/2.json", &b"{}"[..])];
    timeline.put_files(Kind::Error, files).unwrap();
    let (path, aside) = (folder.path().join("errors/1.json"), folder.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    // A link to itself cannot be opened, so this file cannot be synced.
    symlink(&path, &path).unwrap();
    assert!(matches!(timeline.append(log("one")), Err(AppendError::Disk(_))));
    assert!(matches!(timeline.append(log("two")), Err(AppendError::Disk(_))));
    std::fs::rename(&aside, &path).unwrap();
    let before = std::fs::metadata(&path).unwrap().ino();
    timeline.append(log("three")).unwrap();
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), before, "it was written again");
    assert_eq!(std::fs::read(&path).unwrap(), b"{}");
    // A removed file does not block the records of others.
    timeline.put_files(Kind::Error, [("errors/3.json", &b"{}"[..])]).unwrap();
    std::fs::remove_file(folder.path().join("errors/3.json")).unwrap();
    timeline.append(log("four")).unwrap();
    assert!(check(folder.path(), &[timeline.anchor()]).ok);
}
