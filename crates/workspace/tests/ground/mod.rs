//! File systems for tests: a folder of the host, or a loop file with btrfs or xfs.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_host::{Program, mount, process};

/// The file system of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// The file system of the temporary folder.
    Host,
    Btrfs,
    Xfs,
}

/// A folder on a file system; both are removed on drop.
pub(crate) struct Ground {
    pub(crate) folder: PathBuf,
    mounted: bool,
    _keeper: tempfile::TempDir,
}

impl Ground {
    /// Creates the folder, or prints what is missing.
    pub(crate) fn make(system: System) -> Option<Self> {
        let keeper = tempfile::tempdir().unwrap();
        let folder = keeper.path().join("ground");
        fs::create_dir(&folder).unwrap();
        if system == System::Host {
            return Some(Self { folder, mounted: false, _keeper: keeper });
        }
        let what = format!("trees on {system:?}");
        if !process::is_root() {
            return skipped(&what, "root");
        }
        let image = keeper.path().join("image");
        fs::File::create(&image).unwrap().set_len(2 << 30).unwrap();
        let (maker, flags): (_, &[&str]) = match system {
            System::Btrfs => ("mkfs.btrfs", &["-q"]),
            _ => ("mkfs.xfs", &["-q", "-m", "reflink=1"]),
        };
        if let Err(error) = Program::new(maker).args(flags).arg(&image).output() {
            return skipped(&what, &error.to_string());
        }
        let mount = Program::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder).output();
        if let Err(error) = mount {
            return skipped(&what, &error.to_string());
        }
        Some(Self { folder, mounted: true, _keeper: keeper })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        unmount_below(&self.folder);
        if self.mounted {
            let unmounted = Program::new("umount").arg(&self.folder).output();
            assert!(unmounted.is_ok() || std::thread::panicking(), "{unmounted:?}");
        }
    }
}

/// Skips a test whose file system is missing.
pub(crate) fn skipped<T>(what: &str, missing: &str) -> Option<T> {
    hothouse_testkit::skip(what, missing);
    None
}

/// Unmounts what a failed test left behind.
fn unmount_below(folder: &Path) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(plain);
    for point in points.filter(|point| point.starts_with(folder) && point != folder) {
        mount::unmount_tree(&point).ok();
    }
}

/// Decodes a path from the kernel's tables, which write some characters in octal.
fn plain(written: &str) -> PathBuf {
    let mut parts = written.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (octal, rest) = part.split_at(3);
        text.push(char::from(u8::from_str_radix(octal, 8).unwrap()));
        text.push_str(rest);
    }
    text.into()
}
