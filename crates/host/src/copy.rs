//! Copies whole trees: in parallel, with holes where the source has them, and with links, times and attributes.
//!
//! The source may belong to someone who changes it in the meantime: every name is opened from its
//! folder, and links are never followed. Whatever could carry privileges into the copy (setuid,
//! setgid on files, capability attributes, devices) is left out.

mod defaults;
mod entry;

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use self::{defaults::Defaults, entry::times};
use crate::{
    beneath::{Entry, EntryKind, open_beneath},
    crew::work_through,
    files::{FileError, about},
    walk::{Bookmark, Deadline, Place, read_part},
};

/// Below this size a plain copy is cheaper than a reflink.
const SHARE_FROM: u64 = 64 << 10;
/// The time limit of a copy. Large data takes long, but a tree that never ends is an attack.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How many files of one folder form one job.
const BATCH: usize = 512;

/// How the content of files is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Large files share their blocks with the source until one of them is changed.
    Reflink,
    Copy,
}

/// The kind of tree that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tree {
    /// Ordinary files; owners are kept where possible.
    Plain,
    /// Files of any owner, which become ours.
    Foreign,
    /// The upper folder of an overlay. Marks for deleted and renamed names are copied too.
    OverlayUpper,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Sockets and devices, which cannot be copied.
    pub left_out: Vec<PathBuf>,
}

/// A unit of work: a folder, or some of its files.
enum Job {
    /// A folder. The bookmark is where to continue in a partly read one.
    Folder(Place, Option<Bookmark>),
    Files(Place, Vec<Entry>),
}

/// Another hard link to a file that has already been copied.
struct Link {
    first: Name,
    second: Name,
}

/// A name in a folder of the tree.
#[derive(Clone)]
struct Name(Place, OsString);

impl Name {
    fn path(&self) -> PathBuf {
        self.0.path().join(&self.1)
    }
}

/// State that the threads share.
#[derive(Default)]
struct Found {
    copied: Copied,
    /// The first name of each file that has several hard links.
    names: HashMap<(u64, u64), Name>,
    links: Vec<Link>,
    folders: Vec<(Place, Stat)>,
}

struct Copier {
    source: OwnedFd,
    target: OwnedFd,
    source_path: PathBuf,
    target_path: PathBuf,
    content: Content,
    tree: Tree,
    owners: Owners,
    defaults: Defaults,
    found: Mutex<Found>,
}

/// Whether copies keep the owner of their source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    Kept,
    Ours,
}

/// Copies the content of the folder `source` into the existing folder `target`.
///
/// Keeps modes, modification times, links (including hard links within the tree), holes and
/// attributes, and owners if we may. A name that already exists in the target is an error.
pub fn copy_tree(
    source: &Path,
    target: &Path,
    content: Content,
    tree: Tree,
) -> Result<Copied, FileError> {
    let keeps = rustix::process::geteuid().is_root() && tree != Tree::Foreign;
    let owners = if keeps { Owners::Kept } else { Owners::Ours };
    copy_tree_with(source, target, content, tree, owners)
}

/// Like [`copy_tree`], for callers that know whether owners can be kept.
pub(crate) fn copy_tree_with(
    source: &Path,
    target: &Path,
    content: Content,
    tree: Tree,
    owners: Owners,
) -> Result<Copied, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &Path| {
        rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| about("open the folder", path)(errno.into()))
    };
    let target_fd = open(target)?;
    let copier = Copier {
        source: open(source)?,
        defaults: Defaults::of(target_fd.as_fd()),
        target: target_fd,
        source_path: source.to_owned(),
        target_path: target.to_owned(),
        content,
        tree,
        owners,
        found: Mutex::default(),
    };
    let deadline = Deadline::after(PATIENCE);
    work_through(vec![Job::Folder(Place::default(), None)], |job, more| {
        deadline.check().map_err(io::Error::from).map_err(about("copy", source))?;
        copier.serve(job, more)
    })?;
    copier.finish()
}

/// Copies one of our own files as a whole, as a reflink where possible. Does not sync it to disk.
pub fn copy_file(from: &Path, to: &Path, mode: u32) -> Result<(), FileError> {
    use std::os::unix::fs::OpenOptionsExt;
    let beside = to.with_added_extension(format!("{}.new", std::process::id()));
    let attempt = || -> io::Result<()> {
        let mut source = File::open(from)?;
        let mut options = File::options();
        let mut target =
            options.create(true).truncate(true).write(true).mode(mode).open(&beside)?;
        if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            io::copy(&mut source, &mut target)?;
        }
        std::fs::rename(&beside, to)
    };
    let copied = attempt();
    if copied.is_err() {
        crate::files::remove_file(&beside).ok();
    }
    copied.map_err(about("copy", from))
}

/// Checks that files in a folder can be reflinked. The two files that it creates stay there.
pub fn try_reflink(folder: &Path) -> Result<(), FileError> {
    let attempt = || -> io::Result<()> {
        let mut from = File::create_new(folder.join("from"))?;
        from.write_all(b"one block")?;
        let (from, to) = (File::open(folder.join("from"))?, File::create_new(folder.join("to"))?);
        Ok(rustix::fs::ioctl_ficlone(&to, &from)?)
    };
    attempt().map_err(about("share blocks in", folder))
}

impl Copier {
    fn serve(&self, job: Job, more: &mut Vec<Job>) -> Result<(), FileError> {
        match job {
            Job::Folder(place, from) => self.copy_folder(&place, from, more),
            Job::Files(place, batch) => {
                let (source, target) = self.open_both(&place.path())?;
                self.copy_batch(source.as_fd(), target.as_fd(), &place, &batch)
            }
        }
    }

    fn open_both(&self, relative: &Path) -> Result<(OwnedFd, OwnedFd), FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = |root: &OwnedFd, path: &Path| {
            open_beneath(root, relative, flags, Mode::empty())
                .map_err(|error| about("open the folder", &path.join(relative))(error))
        };
        Ok((open(&self.source, &self.source_path)?, open(&self.target, &self.target_path)?))
    }

    fn copy_folder(
        &self,
        place: &Place,
        from: Option<Bookmark>,
        more: &mut Vec<Job>,
    ) -> Result<(), FileError> {
        let relative = place.path();
        let path = self.source_path.join(&relative);
        let (source, target) = self.open_both(&relative)?;
        if from.is_none() {
            let stat = rustix::fs::fstat(&source).map_err(io::Error::from);
            let stat = stat.map_err(about("look at", &path))?;
            self.found().folders.push((place.clone(), stat));
        }
        let (entries, rest) = read_part(&source, from).map_err(about("list", &path))?;
        if rest.is_some() {
            more.push(Job::Folder(place.clone(), rest));
        }
        let (folders, files): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.kind == EntryKind::Folder);
        for Entry { name, .. } in folders {
            let below = place.folder(&name).map_err(io::Error::from);
            let below = below.map_err(about("copy the folder", &path))?;
            match rustix::fs::mkdirat(&target, &name, Mode::RWXU) {
                // An earlier layer may have created it.
                Ok(()) | Err(Errno::EXIST) => more.push(Job::Folder(below, None)),
                Err(errno) => {
                    let path = self.target_path.join(&relative).join(name);
                    return Err(about("make the folder", &path)(errno.into()));
                }
            }
        }
        let mut batches = files.chunks(BATCH);
        let own = batches.next().unwrap_or_default();
        more.extend(batches.map(|batch| Job::Files(place.clone(), batch.to_vec())));
        self.copy_batch(source.as_fd(), target.as_fd(), place, own)
    }

    fn copy_batch(
        &self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        place: &Place,
        batch: &[Entry],
    ) -> Result<(), FileError> {
        let mut buffer = vec![0; usize::try_from(SHARE_FROM).unwrap_or(BATCH)];
        for Entry { name, kind } in batch {
            let copied = match kind {
                EntryKind::File => self.copy_file(source, target, place, name, &mut buffer),
                EntryKind::Link => self.copy_link(source, target, name),
                EntryKind::Other => self.copy_other(source, target, place, name),
                EntryKind::Folder => Ok(()),
            };
            copied.map_err(|error| {
                about("copy", &self.source_path.join(place.path()).join(name))(error)
            })?;
        }
        Ok(())
    }

    /// Registers a file with several names. All but the first are linked once everything has been copied.
    fn is_second_name(&self, stat: &Stat, place: &Place, name: &OsStr) -> bool {
        let name = Name(place.clone(), name.to_owned());
        let mut found = self.found();
        let key = (stat.st_dev, stat.st_ino);
        match found.names.get(&key).cloned() {
            Some(first) => {
                found.links.push(Link { first, second: name });
                true
            }
            None => {
                found.names.insert(key, name);
                false
            }
        }
    }

    /// Creates the remaining hard links, then sets the attributes of folders, which writing their
    /// content has changed.
    fn finish(self) -> Result<Copied, FileError> {
        let found = std::mem::take(&mut *self.found());
        for link in &found.links {
            self.link(link).map_err(|error| {
                about("link", &self.target_path.join(link.second.path()))(error)
            })?;
        }
        for (place, stat) in found.folders.iter().rev() {
            let relative = place.path();
            self.finish_folder(&relative, stat).map_err(|error| {
                about("finish the folder", &self.target_path.join(&relative))(error)
            })?;
        }
        Ok(found.copied)
    }

    fn link(&self, Link { first, second }: &Link) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let from = open_beneath(&self.target, &first.0.path(), flags, Mode::empty())?;
        let to = open_beneath(&self.target, &second.0.path(), flags, Mode::empty())?;
        Ok(rustix::fs::linkat(&from, &first.1, &to, &second.1, AtFlags::empty())?)
    }

    fn finish_folder(&self, relative: &Path, stat: &Stat) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let from = open_beneath(&self.source, relative, flags, Mode::empty())?;
        let to = open_beneath(&self.target, relative, flags, Mode::empty())?;
        self.copy_attributes(from.as_fd(), to.as_fd())?;
        self.set_owner(to.as_fd(), stat)?;
        let all = Mode::RWXU | Mode::RWXG | Mode::RWXO | Mode::SVTX | Mode::SGID;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(stat.st_mode) & all)?;
        Ok(rustix::fs::futimens(&to, &times(stat))?)
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::*;
    use crate::walk::{DEPTH, TooDeep, planted};

    #[test]
    fn special_modes_and_sockets_are_not_copied() {
        let ground = tempfile::tempdir().unwrap();
        let (from, to) = (ground.path().join("from"), ground.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("tool"), "x").unwrap();
        fs::set_permissions(from.join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        let copied = copy_tree(&from, &to, Content::Copy, Tree::Plain).unwrap();
        drop(socket);
        assert_eq!(fs::metadata(to.join("tool")).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(copied.left_out, [Path::new("socket")]);
        assert!(!to.join("socket").exists());
    }

    #[test]
    fn a_folder_of_many_files_comes_whole() {
        let ground = tempfile::tempdir().unwrap();
        let (from, to) = (ground.path().join("from"), ground.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::create_dir(&to).unwrap();
        for number in 0..BATCH * 2 + 1 {
            fs::write(from.join("deep/er").join(number.to_string()), number.to_string()).unwrap();
        }
        let copied = copy_tree(&from, &to, Content::Copy, Tree::Plain).unwrap();
        assert_eq!(copied.files, BATCH as u64 * 2 + 1);
        assert_eq!(fs::read(to.join("deep/er/1024")).unwrap(), b"1024");
    }

    #[test]
    fn a_tree_that_is_too_deep_is_refused_soon() {
        let ground = planted::ground();
        let (from, to) = (ground.path().join("from"), ground.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        planted::chain(&from, 3_000, "d");
        let error = copy_tree(&from, &to, Content::Copy, Tree::Plain).unwrap_err();
        assert_eq!(error.source.to_string(), TooDeep.to_string());
        for tree in [from, to] {
            crate::remove::remove_tree(&tree).unwrap();
        }
    }

    #[test]
    fn a_tree_as_deep_as_may_be_comes_whole_with_its_second_names() {
        let ground = planted::ground();
        let (from, to) = (ground.path().join("from"), ground.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        planted::chain(&from, DEPTH, "deep-name");
        let deep: PathBuf = std::iter::repeat_n("deep-name", DEPTH).collect();
        let deepest = open_beneath(
            File::open(&from).unwrap(),
            &deep,
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        );
        let deepest = deepest.unwrap();
        rustix::fs::linkat(&deepest, "file", &deepest, "second", AtFlags::empty()).unwrap();
        assert_eq!(copy_tree(&from, &to, Content::Copy, Tree::Plain).unwrap().files, 1);
        for tree in [from, to] {
            crate::remove::remove_tree(&tree).unwrap();
        }
    }

    #[test]
    fn a_name_in_the_way_is_an_error_that_names_it() {
        let ground = tempfile::tempdir().unwrap();
        let (from, to) = (ground.path().join("from"), ground.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("a"), "new").unwrap();
        fs::write(to.join("a"), "old").unwrap();
        let error = copy_tree(&from, &to, Content::Copy, Tree::Plain).unwrap_err();
        assert!(error.to_string().ends_with("from/a"), "{error}");
        assert_eq!(fs::read(to.join("a")).unwrap(), b"old");
    }
}
