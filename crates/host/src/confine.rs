//! Runs a program that reads a tree which someone else may change in the meantime: in its own mount
//! namespace, where no link in that tree is followed.
//!
//! Git checks a name before it opens it. Whoever replaces a folder with a link in between makes git
//! read, and print, a file from elsewhere. On a `nosymfollow` mount the kernel refuses to follow
//! the link; links can still be read as links.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{
        MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
    },
};

use crate::sys::{self, MountChange};

/// `MOUNT_ATTR_NOSYMFOLLOW`, since Linux 5.14.
const NO_LINKS: u64 = 0x0020_0000;

/// What a child needs between fork and exec, where it must not allocate.
#[derive(Debug)]
pub(crate) struct Confinement {
    tree: CString,
    /// A folder in the tree that only we can write to.
    except: Option<CString>,
    is_root: bool,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
}

impl Confinement {
    pub(crate) fn new(tree: &Path, except: Option<&Path>) -> io::Result<Self> {
        let text = |path: &Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Ok(Self {
            tree: text(tree)?,
            except: except.map(text).transpose()?,
            is_root: user.is_root(),
            uid_map: format!("{user} {user} 1\n").into_bytes(),
            gid_map: format!("{group} {group} 1\n").into_bytes(),
        })
    }

    /// Confines the calling process, which must be single-threaded. Makes only system calls.
    ///
    /// A host that forbids namespaces, or whose kernel lacks `nosymfollow`, cannot run rooms, so
    /// nobody else changes trees there.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let unable = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL];
        match self.leave() {
            Err(error) if error.raw_os_error().is_some_and(|code| unable.contains(&code)) => Ok(()),
            other => other,
        }
    }

    fn leave(&self) -> io::Result<()> {
        if self.is_root {
            // In a user namespace, root would lose its power over files that belong to rooms.
            sys::leave_mount_namespace()?;
        } else {
            sys::leave_user_and_mount_namespace()?;
            write(c"/proc/self/setgroups", b"deny")?;
            write(c"/proc/self/uid_map", &self.uid_map)?;
            write(c"/proc/self/gid_map", &self.gid_map)?;
        }
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let except = match &self.except {
            Some(path) => Some((path, clone(path)?)),
            None => None,
        };
        let tree = clone(&self.tree)?;
        forbid_links(tree.as_fd())?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, c"", CWD, self.tree.as_c_str(), flags)?;
        if let Some((path, tree)) = except {
            move_mount(&tree, c"", CWD, path.as_c_str(), flags)?;
        }
        // The current folder is now covered by the mount.
        Ok(rustix::process::chdir(self.tree.as_c_str())?)
    }
}

/// Disables following of links in a mount and its submounts.
pub(crate) fn forbid_links(tree: rustix::fd::BorrowedFd<'_>) -> io::Result<()> {
    sys::mount_setattr(tree, &MountChange { set: NO_LINKS, recursive: true, idmap: None })
}

fn clone(path: &CString) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path.as_c_str(), flags)
}

fn write(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use crate::Program;

    #[test]
    fn no_link_of_the_tree_is_followed_but_those_outside_and_in_the_exception_are() {
        let ground = tempfile::tempdir().unwrap();
        let (tree, outside) = (ground.path().join("tree"), ground.path().join("outside"));
        fs::create_dir_all(tree.join("own")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        fs::write(tree.join("file"), "file").unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        symlink(&outside, tree.join("own/link")).unwrap();
        symlink(&tree, ground.path().join("to-tree")).unwrap();
        let read = |path: &std::path::Path| {
            let cat = Program::new("cat").arg(path).folder(&tree);
            cat.without_links(&tree, Some(&tree.join("own"))).output()
        };
        assert_eq!(read(&ground.path().join("to-tree/file")).unwrap(), b"file");
        assert_eq!(read("file".as_ref()).unwrap(), b"file");
        assert_eq!(read("own/link/secret".as_ref()).unwrap(), b"secret");
        if !crate::process::is_root() {
            return;
        }
        for path in ["link/secret".into(), tree.join("link/secret")] {
            assert!(read(&path).is_err(), "{}", path.display());
        }
    }
}
