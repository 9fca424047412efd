//! The file system under the sandboxes.

use std::{
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::Finding;
use crate::{files, random};

/// A temporary folder for probes, on the file system of the sandboxes; removed on drop.
pub(super) struct Ground {
    parent: PathBuf,
    folder: Option<PathBuf>,
}

impl Ground {
    /// Creates the folder in `wanted` or in its nearest existing ancestor.
    pub(super) fn make(wanted: &Path) -> Self {
        let parent =
            wanted.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned();
        let number = u64::from_ne_bytes(random::bytes());
        let folder = parent.join(format!(".hothouse-probe-{number:016x}"));
        let made = files::make_private_folder(&folder).is_ok();
        Self { parent, folder: made.then_some(folder) }
    }

    /// Returns the folder, if it could be created.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the name of the probed folder, for messages.
    pub(super) fn shown(&self) -> String {
        self.parent.display().to_string()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        // The kernel creates the work folder of overlayfs with mode 0, so its owner cannot list it.
        std::fs::set_permissions(folder.join("work/work"), Permissions::from_mode(0o700)).ok();
        files::remove_tree(folder).ok();
    }
}

pub(super) fn btrfs(ground: &Ground) -> Finding {
    let (id, title) = ("btrfs", "btrfs under the sandboxes");
    if crate::btrfs::is_btrfs(&ground.parent) {
        return Finding::works(id, title, ground.shown());
    }
    let detail = format!("{} is on another file system", ground.shown());
    Finding::missing(id, title, detail, "no quotas, and snapshots by overlay, reflink or copy")
        .fixed_by(
            "put the repository and its sandboxes on btrfs, or, as root, `hothouse pool create`",
        )
}

pub(super) fn reflink(ground: &Ground) -> Finding {
    let (id, title) = ("reflink", "reflinks under the sandboxes");
    let costs = "files are copied where no other tree driver can share them";
    match ground.folder().map(try_reflink) {
        Some(Ok(())) => Finding::works(id, title, ground.shown()),
        Some(Err(error)) => {
            Finding::missing(id, title, format!("in {}: {error}", ground.shown()), costs)
                .fixed_by("put sandboxes on btrfs, or on xfs made with reflink=1")
        }
        None => Finding::limited(
            id,
            title,
            format!("not tested: {} is not writable", ground.shown()),
            costs,
        ),
    }
}

fn try_reflink(folder: &Path) -> io::Result<()> {
    let (from, to) = (folder.join("reflink-from"), folder.join("reflink-to"));
    File::create(&from)?.write_all(b"one block")?;
    rustix::fs::ioctl_ficlone(File::create(&to)?, File::open(&from)?)?;
    Ok(())
}
