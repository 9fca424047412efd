//! Pools: a btrfs in a file, for sandboxes whose own file system cannot share blocks.
//!
//! ```text
//! <sandboxes>/.hothouse-pool        the file; hidden while the pool is mounted on the folder
//! <sandboxes>/.hothouse-pool.new    one that is being created, or was left incomplete
//! ```
//!
//! Created only by root and on request. The file itself marks the pool: if it is visible in its
//! folder, the pool is not mounted, as after a host reboot, and [`restore`] mounts it. So no other
//! record is needed. Every step can be repeated after a crash.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hothouse_host::{FileError, Program, RunError, btrfs, files, mount, process};
use hothouse_model::{Explain, FailureKind, config::ByteSize};

use crate::tree::{Restored, STORE_FOLDER, remove_tree};

/// The name of a pool's file.
pub const IMAGE: &str = ".hothouse-pool";

/// What a store may contain besides trees, all of which can be recreated.
const CACHES: [&str; 4] = ["golden", "trash", "try", "try.lock"];

/// The minimum size of a pool. Btrfs itself takes up a part of it.
const LEAST: u64 = 256 << 20;

/// Held while a pool is being mounted. The folder itself cannot be locked, because the mount replaces it.
static MOUNTING: Mutex<()> = Mutex::new(());

/// An existing pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The folder of its sandboxes.
    pub folder: PathBuf,
    /// The file, by its path when it was mounted.
    pub image: PathBuf,
    /// The used space in bytes.
    pub used: u64,
    /// The maximum size in bytes.
    pub size: u64,
    /// The free space; unknown while the pool is not mounted.
    pub free: Option<u64>,
}

/// A pool that could not be created, mounted or removed.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("only root can make and mount a pool")]
    NeedsRoot,
    #[error("{} is already on btrfs and needs no pool", .folder.display())]
    NotNeeded { folder: PathBuf },
    #[error("{} contains {what}, which a pool would hide", .folder.display())]
    InUse { folder: PathBuf, what: String },
    #[error("the pool in {} still contains {what}", .folder.display())]
    NotEmpty { folder: PathBuf, what: String },
    #[error("a pool of {size} is too small; the minimum is {}", ByteSize::from_bytes(LEAST))]
    TooSmall { size: ByteSize },
    #[error("a pool of {size} does not fit: {} has {free} free", .folder.display())]
    TooLarge { size: ByteSize, folder: PathBuf, free: ByteSize },
    #[error("the pool of {} was removed again", .folder.display())]
    Gone { folder: PathBuf },
    #[error("make the file system of the pool {}", .image.display())]
    Format {
        image: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("mount the pool {}", .image.display())]
    Mount {
        image: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("limit the size of {}", .tree.display())]
    Limit {
        tree: PathBuf,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for PoolError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::TooSmall { .. } => FailureKind::Usage,
            Self::InUse { .. } | Self::NotEmpty { .. } | Self::NotNeeded { .. } => {
                FailureKind::Conflict
            }
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NeedsRoot => vec![
                "run the command as root, whose daemon then mounts it at each start".into(),
                "without a pool, sandboxes are copied file by file".into(),
            ],
            Self::InUse { .. } | Self::NotEmpty { .. } => {
                vec!["delete the sandboxes there first: `hothouse list` shows them".into()]
            }
            Self::TooLarge { .. } => vec!["ask for less: `--size 10G`".into()],
            Self::Format { source, .. } | Self::Limit { source, .. } => {
                let mut hints = source.hints();
                if matches!(source, RunError::Missing { .. }) {
                    hints.push("on Debian and Ubuntu it is in the package btrfs-progs".into());
                }
                hints
            }
            Self::Mount { .. } => {
                vec!["`hothouse doctor` shows whether the kernel supports btrfs".into()]
            }
            Self::File(error) => error.hints(),
            Self::NotNeeded { .. } | Self::TooSmall { .. } | Self::Gone { .. } => Vec::new(),
        }
    }
}

/// Returns the default size of a pool: half of the folder's free space.
pub fn default_size(folder: &Path) -> Result<ByteSize, FileError> {
    let half = files::free_bytes(existing(folder))? / 2;
    let gigabytes = half >> 30;
    Ok(ByteSize::from_bytes(if gigabytes == 0 { half.max(LEAST) } else { gigabytes << 30 }))
}

/// Checks whether a pool can be created in a folder, before anything is changed.
pub fn check(folder: &Path, size: ByteSize) -> Result<(), PoolError> {
    if !process::is_root() {
        return Err(PoolError::NeedsRoot);
    }
    if btrfs::is_btrfs(existing(folder)) {
        return Err(PoolError::NotNeeded { folder: folder.to_owned() });
    }
    if let Some(what) = occupant(folder)? {
        return Err(PoolError::InUse { folder: folder.to_owned(), what });
    }
    if size.bytes() < LEAST {
        return Err(PoolError::TooSmall { size });
    }
    let free = files::free_bytes(existing(folder))?;
    if size.bytes() > free {
        let folder = folder.to_owned();
        return Err(PoolError::TooLarge { size, folder, free: ByteSize::from_bytes(free) });
    }
    Ok(())
}

/// Creates a pool for a folder of sandboxes, and mounts it. An existing one is left alone.
///
/// The file grows as it is written to, up to `size`.
pub fn create(folder: &Path, size: ByteSize) -> Result<(), PoolError> {
    if look(folder)?.is_some() {
        restore(folder)?;
        return Ok(());
    }
    check(folder, size)?;
    files::make_private_folder(folder)?;
    // It contains only caches, which the pool would hide.
    remove_tree(&folder.join(STORE_FOLDER))?;
    let (image, fresh) = (folder.join(IMAGE), fresh(folder));
    files::remove_file(&fresh)?;
    files::make_sparse(&fresh, size.bytes())?;
    let format = Program::new("mkfs.btrfs").args(["--quiet", "--force", "--label", "hothouse"]);
    let formatted = format.arg(&fresh).output();
    if let Err(source) = formatted {
        files::remove_file(&fresh)?;
        return Err(PoolError::Format { image, source });
    }
    files::sync_file_system(folder)?;
    files::rename(&fresh, &image)?;
    restore(folder)?;
    Ok(())
}

/// Whether a folder has a pool that is not mounted.
pub fn is_left_unmounted(folder: &Path) -> bool {
    files::exists(&folder.join(IMAGE))
}

/// Mounts the pool of a folder again, if there is one and the host has rebooted.
pub fn restore(folder: &Path) -> Result<Option<Restored>, PoolError> {
    let _alone = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_left_unmounted(folder) {
        mount_image(folder, &folder.join(IMAGE))?;
        return Ok(Some(Restored::Mounted));
    }
    Ok(look(folder)?.map(|_| Restored::WasThere))
}

/// Returns the pool of a folder, mounted or not, if there is one.
pub fn look(folder: &Path) -> Result<Option<Pool>, FileError> {
    let image = folder.join(IMAGE);
    if files::exists(&image) {
        let (used, size) = files::stored_and_size(&image)?;
        return Ok(Some(Pool { folder: folder.to_owned(), image, used, size, free: None }));
    }
    let Some(device) = mount::loop_on(folder)? else { return Ok(None) };
    if device.image != image {
        return Ok(None);
    }
    let free = Some(files::free_bytes(folder)?);
    let (used, size) = (files::used_bytes(folder)?, device.size);
    Ok(Some(Pool { folder: folder.to_owned(), image, used, size, free }))
}

/// Removes the pool of a folder without sandboxes, complete or not. Idempotent.
pub fn remove(folder: &Path) -> Result<(), PoolError> {
    files::remove_file(&fresh(folder))?;
    let Some(pool) = look(folder)? else { return Ok(()) };
    if pool.free.is_some() {
        if let Some(what) = occupant(folder)? {
            return Err(PoolError::NotEmpty { folder: folder.to_owned(), what });
        }
        mount::unmount_tree(folder)?;
    }
    Ok(files::remove_file(&folder.join(IMAGE))?)
}

/// Limits the exclusive disk usage of one tree in a pool.
pub fn limit(folder: &Path, tree: &Path, size: ByteSize) -> Result<(), PoolError> {
    let about = |source| PoolError::Limit { tree: tree.to_owned(), source };
    let program = || Program::new("btrfs").arg("--quiet");
    // Does nothing if quotas are already enabled.
    program().args(["quota", "enable"]).arg(folder).output().map_err(about)?;
    let limit = program().args(["qgroup", "limit", "-e"]).arg(size.bytes().to_string());
    limit.arg(tree).output().map_err(about)?;
    Ok(())
}

/// Mounts a pool's file. `nosuid` and `nodev`, because rooms write to it; `noatime`, because
/// reading would otherwise write, and unshare data that snapshots share.
fn mount_image(folder: &Path, image: &Path) -> Result<(), PoolError> {
    if !process::is_root() {
        return Err(PoolError::NeedsRoot);
    }
    let options = "loop,noatime,nosuid,nodev";
    let mount = Program::new("mount").args(["-t", "btrfs", "-o", options]).arg(image).arg(folder);
    mount.output().map_err(|source| PoolError::Mount { image: image.to_owned(), source })?;
    Ok(files::close_to_others(folder)?)
}

/// Returns something in a folder of sandboxes that cannot be recreated, if any.
fn occupant(folder: &Path) -> Result<Option<String>, FileError> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = [STORE_FOLDER, IMAGE, &name(&fresh(folder))].map(str::to_owned);
    let mut others = files::list(folder)?.into_iter().map(|path| name(&path));
    if let Some(other) = others.find(|other| !own.contains(other)) {
        return Ok(Some(format!("`{other}`")));
    }
    for kept in files::list(&folder.join(STORE_FOLDER))? {
        let is_cache = CACHES.contains(&name(&kept).as_str());
        if !is_cache && files::is_folder(&kept) && !files::list(&kept)?.is_empty() {
            return Ok(Some(format!("`{STORE_FOLDER}/{}`", name(&kept))));
        }
    }
    Ok(None)
}

fn fresh(folder: &Path) -> PathBuf {
    folder.join(format!("{IMAGE}.new"))
}

/// Returns the folder or its nearest existing ancestor.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|path| files::exists(path)).unwrap_or(Path::new("/"))
}
