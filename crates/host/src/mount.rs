//! Mounts in the host's mount namespace.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, StatxAttributes, StatxFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_fd,
        fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
        open_tree, unmount,
    },
};

use crate::{
    files::{FileError, about},
    owners::{Owner, id_map},
    sys::{self, MountChange},
};

/// The folders of an overlay, all on the same file system.
#[derive(Clone, Copy, Debug)]
pub struct Overlay<'a> {
    /// The read-only layers, uppermost first.
    pub lowers: &'a [&'a Path],
    /// The owner that the files of lower layers appear to have, instead of their layer's owner.
    pub owner: Option<Owner>,
    /// Where changes go.
    pub upper: &'a Path,
    /// An empty folder for the kernel's own use.
    pub work: &'a Path,
}

/// Whether a folder is a mount point.
pub fn is_mount_point(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS);
    found.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// A file that is mounted through a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// The file, by the path it was attached with.
    pub image: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// Returns the image file mounted on a folder, if any.
pub fn loop_on(folder: &Path) -> Result<Option<LoopDevice>, FileError> {
    if !is_mount_point(folder) {
        return Ok(None);
    }
    let table = crate::files::read_capped(Path::new("/proc/self/mountinfo"), 64 << 20)?;
    let Some(device) = loop_device(&String::from_utf8_lossy(&table), folder) else {
        return Ok(None);
    };
    let about_device = Path::new("/sys/block").join(&device);
    let read = |name: &str| crate::files::read_text(&about_device.join(name));
    let image = PathBuf::from(read("loop/backing_file")?.trim_end_matches('\n'));
    // The kernel always counts sectors of 512 bytes here.
    let sectors: u64 = read("size")?.trim().parse().unwrap_or_default();
    Ok(Some(LoopDevice { image, size: sectors * 512 }))
}

/// Finds the loop device that is mounted on a folder in the kernel's table. The last mount wins.
fn loop_device(table: &str, folder: &Path) -> Option<String> {
    let found = table.lines().rev().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let point = unescaped(mount.split(' ').nth(4)?);
        (point == folder.as_os_str()).then(|| system.split(' ').nth(1).unwrap_or_default())
    })?;
    let name = found.strip_prefix("/dev/")?;
    name.starts_with("loop").then(|| name.to_owned())
}

/// Decodes a path from the kernel's tables, which write some characters in octal.
fn unescaped(written: &str) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = written.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Mounts an overlay on a folder, with `nosuid` and `nodev`.
///
/// Folders can be renamed (`redirect_dir`), and inode numbers stay those of the lower layers.
pub fn mount_overlay(overlay: &Overlay<'_>, target: &Path) -> Result<(), FileError> {
    let attempt = || -> io::Result<()> {
        let mount = match overlay.owner {
            None => build(overlay, &Lowers::Paths(overlay.lowers))?,
            Some(owner) => {
                let lowers = mapped(overlay.lowers, owner)?;
                // Since Linux 6.15 lower layers can be passed by descriptor.
                let mount = build(overlay, &Lowers::Mounts(&lowers))
                    .or_else(|_| build_elsewhere(overlay, &lowers, target))?;
                // Closing such a mount waits for all processors, so do it in the background.
                std::thread::spawn(move || drop(lowers));
                mount
            }
        };
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&mount, "", CWD, target, flags)?)
    };
    attempt().map_err(about("mount an overlay on", target))
}

/// How lower layers are passed to the kernel.
enum Lowers<'a> {
    Paths(&'a [&'a Path]),
    Mounts(&'a [OwnedFd]),
}

/// Creates a detached overlay mount.
fn build(overlay: &Overlay<'_>, lowers: &Lowers<'_>) -> io::Result<OwnedFd> {
    let system = create(lowers, |system| {
        fsconfig_set_string(system, "upperdir", escaped(overlay.upper, b"\\"))?;
        fsconfig_set_string(system, "workdir", escaped(overlay.work, b"\\"))?;
        Ok(fsconfig_set_string(system, "redirect_dir", "on")?)
    })?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Creates a detached, read-only overlay mount for an ordinary user. The caller must be in its own
/// user namespace.
pub(crate) fn build_view(layers: &[&Path]) -> io::Result<OwnedFd> {
    let system =
        create(&Lowers::Paths(layers), |system| Ok(fsconfig_set_flag(system, "userxattr")?))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    Ok(fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// How the paths of lower layers are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    OneByOne,
    InOneText,
}

/// Creates an overlay with these lower layers and further options. Since Linux 6.8 layers can be
/// passed one by one. An earlier kernel accepts the option but then refuses the whole overlay, so
/// the other way requires a new file system context.
fn create(lowers: &Lowers<'_>, more: impl Fn(&OwnedFd) -> io::Result<()>) -> io::Result<OwnedFd> {
    let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    match (create_by(Writing::OneByOne, lowers, &more), lowers) {
        (Err(error), Lowers::Paths(_)) if refused(&error) => {
            create_by(Writing::InOneText, lowers, &more)
        }
        (other, _) => other,
    }
}

fn create_by(
    writing: Writing,
    lowers: &Lowers<'_>,
    more: impl Fn(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let system = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "source", "hothouse")?;
    match (lowers, writing) {
        (Lowers::Paths([]), _) => return Err(io::ErrorKind::InvalidInput.into()),
        (Lowers::Paths(paths), Writing::OneByOne) => {
            paths.iter().try_for_each(|path| fsconfig_set_string(&system, "lowerdir+", *path))?;
        }
        (Lowers::Paths(paths), Writing::InOneText) => {
            let texts: Vec<_> = paths.iter().map(|path| escaped(path, b"\\:,")).collect();
            fsconfig_set_string(&system, "lowerdir", texts.join(std::ffi::OsStr::new(":")))?;
        }
        (Lowers::Mounts(mounts), _) => {
            mounts.iter().try_for_each(|mount| fsconfig_set_fd(&system, "lowerdir+", mount))?;
        }
    }
    more(&system)?;
    fsconfig_create(&system)?;
    Ok(system)
}

/// Creates an overlay over detached mounts on older kernels, which need a path for them: in a
/// thread with its own mount namespace, where they are mounted on `target`. The namespace ends with
/// the thread, even if we are killed.
fn build_elsewhere(
    overlay: &Overlay<'_>,
    lowers: &[OwnedFd],
    target: &Path,
) -> io::Result<OwnedFd> {
    let work = || -> io::Result<OwnedFd> {
        sys::leave_mount_namespace()?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        rustix::mount::mount("hothouse", target, "tmpfs", MountFlags::empty(), None)?;
        let mut paths = Vec::new();
        for (number, lower) in lowers.iter().enumerate() {
            let path = target.join(number.to_string());
            rustix::fs::mkdir(&path, Mode::RWXU)?;
            move_mount(lower, "", CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            paths.push(path);
        }
        let paths: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
        build(overlay, &Lowers::Paths(&paths))
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the mounting thread panicked")))
    })
}

/// Returns the mounts below a folder, innermost first.
pub fn mounts_below(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let table = crate::files::read_text(Path::new("/proc/self/mountinfo"))?;
    let points = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(unescaped(point)));
    let mut below: Vec<_> =
        points.filter(|point| point.starts_with(folder) && point != folder).collect();
    below.sort();
    below.reverse();
    Ok(below)
}

/// Unmounts a folder, even while it is in use. Does nothing if the folder is not a mount point.
pub fn unmount_tree(path: &Path) -> Result<(), FileError> {
    while is_mount_point(path) {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // Another process unmounted it first.
            Ok(()) | Err(rustix::io::Errno::INVAL) if !is_mount_point(path) => return Ok(()),
            Ok(()) => {}
            Err(errno) => return Err(about("unmount", path)(errno.into())),
        }
    }
    Ok(())
}

/// Opens folders as detached mounts that show another owner. They disappear when closed, unless an
/// overlay uses them.
fn mapped(folders: &[&Path], owner: Owner) -> io::Result<Vec<OwnedFd>> {
    let mut mounts = Vec::new();
    for folder in folders {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, *folder, flags)?;
        let map = id_map(Owner::of(&rustix::fs::fstat(&mount)?), owner)?;
        let change = MountChange { idmap: Some(map.as_fd()), ..MountChange::default() };
        sys::mount_setattr(mount.as_fd(), &change)?;
        mounts.push(mount);
    }
    Ok(mounts)
}

/// Escapes the characters that are special to overlayfs with a backslash.
fn escaped(path: &Path, special: &[u8]) -> OsString {
    let mut text = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if special.contains(byte) {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    OsString::from_vec(text)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use super::*;

    #[test]
    fn layers_can_be_written_in_two_ways() {
        if !rustix::process::geteuid().is_root() {
            return hothouse_testkit::skip("an overlay in two ways", "root");
        }
        let top = tempfile::tempdir().unwrap();
        let layers = ["a:b", "c"].map(|name| top.path().join(name));
        for layer in &layers {
            std::fs::create_dir(layer).unwrap();
            std::fs::write(layer.join("file"), layer.file_name().unwrap().as_encoded_bytes())
                .unwrap();
        }
        let paths: Vec<_> = layers.iter().map(PathBuf::as_path).collect();
        for writing in [Writing::OneByOne, Writing::InOneText] {
            let system = create_by(writing, &Lowers::Paths(&paths), |_| Ok(()));
            // Some kernels support only the second way.
            let Some(system) = system.ok().or_else(|| {
                assert_eq!(writing, Writing::OneByOne);
                None
            }) else {
                continue;
            };
            let mount =
                fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).unwrap();
            let flags = rustix::fs::OFlags::RDONLY;
            let file = rustix::fs::openat(&mount, "file", flags, Mode::empty()).unwrap();
            let mut text = [0; 8];
            let length = rustix::io::read(&file, &mut text).unwrap();
            assert_eq!(&text[..length], b"a:b", "{writing:?}");
        }
    }

    #[test]
    fn what_overlayfs_would_split_is_escaped() {
        assert_eq!(escaped(Path::new("/a:b,c\\d"), b"\\:,"), "/a\\:b\\,c\\\\d");
        assert_eq!(escaped(Path::new("/a:b,c"), b"\\"), "/a:b,c");
    }

    #[test]
    fn the_loop_device_of_a_folder_is_found_in_the_kernels_table() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     2 1 7:3 / /a\\040b rw,nosuid shared:1 - btrfs /dev/loop3 rw\n\
                     3 1 0:9 / /run rw - tmpfs tmpfs rw\n";
        let find = |folder: &str| loop_device(table, Path::new(folder));
        assert_eq!(find("/a b"), Some("loop3".into()));
        assert_eq!((find("/"), find("/run"), find("/none")), (None, None, None));
    }

    #[test]
    fn an_older_kernel_gets_its_mapped_layers_by_path() {
        if !rustix::process::geteuid().is_root() {
            return hothouse_testkit::skip("mapped layers", "root");
        }
        let ground = tempfile::tempdir().unwrap();
        let at = |name: &str| ground.path().join(name);
        for name in ["lower", "second", "upper", "work", "target"] {
            crate::files::make_folder(&at(name)).unwrap();
        }
        crate::files::write(&at("lower/file"), "one").unwrap();
        crate::files::write(&at("second/other"), "two").unwrap();
        let owner = Owner { user: 301_000, group: 301_001 };
        let folders = [at("lower"), at("second")];
        let overlay = Overlay {
            lowers: &folders.each_ref().map(PathBuf::as_path),
            owner: Some(owner),
            upper: &at("upper"),
            work: &at("work"),
        };
        let lowers = mapped(overlay.lowers, owner).unwrap();
        let mount = build_elsewhere(&overlay, &lowers, &at("target")).unwrap();
        assert!(!is_mount_point(&at("target")), "the host saw nothing of it");
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, "", CWD, at("target"), flags).unwrap();
        let seen = ["file", "other"].map(|name| rustix::fs::stat(at("target").join(name)).unwrap());
        unmount_tree(&at("target")).unwrap();
        assert!(seen.iter().all(|stat| Owner::of(stat) == owner));
    }

    #[test]
    fn a_plain_folder_is_no_mount_and_unmounting_it_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_mount_point(folder.path()) && is_mount_point(Path::new("/proc")));
        unmount_tree(folder.path()).unwrap();
    }
}
