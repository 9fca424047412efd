//! Writes a base layer with the ids that a room's root and agent have on disk.

use super::accounts;
use super::parallel;
use super::scan::{Entry, Kind};
use hothouse_host::files;
use hothouse_host::ids::{AGENT_ID, Mode};
use hothouse_host::system_error::{Context, SystemError};
use hothouse_model::room::PROGRAM_INSIDE;
use rustix::fs::{CWD, FileType, Gid, Mode as FileMode, Uid};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The room's `sudo`, which precedes the host's in every search path.
pub(super) const SUDO: &str = "usr/local/bin/sudo";

/// `hothouse` in the room: a link to the program that is bound into each room.
const HOTHOUSE: &str = "usr/local/bin/hothouse";

/// Git's system-wide settings, whose path depends on how git was built.
const GIT_SETTINGS: [(&str, &str); 2] =
    [("/usr/bin/git", "etc/gitconfig"), ("/usr/local/bin/git", "usr/local/etc/gitconfig")];

/// The mode with which a folder is created.
const NEW_FOLDER: u32 = 0o755;

/// One layer to write.
pub(super) struct Job<'a> {
    pub(super) fresh: &'a Path,
    pub(super) mode: Mode,
    /// The first part is written first, then the others in parallel.
    pub(super) parts: &'a [Vec<Entry>],
    pub(super) init: &'a [u8],
    /// The host ids of the user who creates the layer.
    pub(super) owner: (u32, u32),
}

impl Job<'_> {
    /// Writes the layer, after removing the remains of an interrupted attempt.
    pub(super) fn run(&self) -> Result<(), SystemError> {
        files::remove_tree(self.fresh).context("clear the way for the base layer")?;
        files::make_folder(self.fresh).context("make the base layer")?;
        let former = rustix::process::umask(FileMode::empty());
        let written = self.write();
        // This process then creates a room, whose cgroups must not be world-writable.
        rustix::process::umask(former);
        written
    }

    fn write(&self) -> Result<(), SystemError> {
        let make = |part: &Vec<Entry>| part.iter().try_for_each(|entry| self.make(entry));
        let (above, below) = self.parts.split_first().unzip();
        above.map_or(Ok(()), make)?;
        let below = below.into_iter().flatten().collect();
        parallel::map(below, make).into_iter().collect::<Result<(), _>>()?;
        self.write_accounts()?;
        self.write_package_files()?;
        self.write_git_settings()?;
        self.write_browser_policies()?;
        self.file(SUDO, self.init, 0o755)?;
        self.write_link(HOTHOUSE, PROGRAM_INSIDE)?;
        // Modes of folders are set last: one may forbid writing to it.
        let folders = self.parts.iter().flatten().filter(|entry| entry.kind == Kind::Folder);
        for entry in folders.rev().filter(|entry| entry.mode != NEW_FOLDER) {
            let path = self.fresh.join(&entry.path);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(entry.mode))
                .context_at("set the mode of", path)?;
        }
        // Written last: its presence marks the layer as complete.
        self.file("room-init", self.init, 0o755)
    }

    fn make(&self, entry: &Entry) -> Result<(), SystemError> {
        let path = self.fresh.join(&entry.path);
        self.parents(&path)?;
        match &entry.kind {
            Kind::Folder => rustix::fs::mkdir(&path, FileMode::from_raw_mode(NEW_FOLDER))
                .context_at("make folder", &path)?,
            Kind::Link(target) => rustix::fs::symlink(target, &path).context_at("link", &path)?,
            Kind::File => match std::fs::copy(Path::new("/").join(&entry.path), &path) {
                Ok(_) => {}
                // Removed since the scan, or not readable by us: left out.
                Err(error)
                    if [libc::ENOENT, libc::EACCES].map(Some).contains(&error.raw_os_error()) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error).context_at("copy", &path),
            },
            Kind::Whiteout => {
                return rustix::fs::mknodat(
                    CWD,
                    &path,
                    FileType::CharacterDevice,
                    FileMode::empty(),
                    0,
                )
                .context_at("hide", &path);
            }
        }
        self.own(&path, entry.uid, entry.gid)?;
        if entry.kind == Kind::File {
            let mode = PermissionsExt::from_mode(entry.mode & 0o777);
            std::fs::set_permissions(&path, mode).context_at("set the mode of", &path)?;
        }
        Ok(())
    }

    fn own(&self, path: &Path, uid: u32, gid: u32) -> Result<(), SystemError> {
        if self.mode == Mode::Single {
            return Ok(());
        }
        let (uid, gid) = (room_id(uid, self.owner.0), room_id(gid, self.owner.1));
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(CWD, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags)
            .context_at("own", path)
    }

    fn write_accounts(&self) -> Result<(), SystemError> {
        let read =
            |path: &str| files::read_text(Path::new(path)).context("read the host's accounts");
        let passwd = accounts::passwd(&read("/etc/passwd")?);
        let group = accounts::group(&read("/etc/group")?);
        self.file("etc/shadow", accounts::shadow(&passwd).as_bytes(), 0o640)?;
        self.file("etc/gshadow", accounts::gshadow(&group).as_bytes(), 0o640)?;
        self.file("etc/passwd", passwd.as_bytes(), 0o644)?;
        self.file("etc/group", group.as_bytes(), 0o644)
    }

    /// The top folder of a worktree may belong to the host's root, who is not mapped in the room,
    /// and git would refuse to work there. A room contains no repositories of other users to
    /// protect against.
    fn write_git_settings(&self) -> Result<(), SystemError> {
        for (program, name) in GIT_SETTINGS {
            if !Path::new(program).exists() {
                continue;
            }
            let path = Path::new("/").join(name);
            let open = std::fs::metadata(&path).is_ok_and(|found| found.mode() & 0o004 != 0);
            let hosts = open.then(|| files::read_text(&path).ok()).flatten().unwrap_or_default();
            files::remove_file(&self.fresh.join(name)).context("write the base layer")?;
            self.file(name, format!("{hosts}\n[safe]\n\tdirectory = *\n").as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Creates a link, replacing what the host has at this path.
    fn write_link(&self, name: &str, target: &str) -> Result<(), SystemError> {
        let path = self.fresh.join(name);
        self.parents(&path)?;
        files::remove_file(&path).context("write the base layer")?;
        rustix::fs::symlink(target, &path).context_at("link", &path)?;
        self.own(&path, 0, 0)
    }

    pub(super) fn file(&self, name: &str, content: &[u8], mode: u32) -> Result<(), SystemError> {
        let path = self.fresh.join(name);
        self.parents(&path)?;
        files::write(&path, content).context("write the base layer")?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))
            .context_at("set the mode of", path)
    }

    pub(super) fn parents(&self, path: &Path) -> Result<(), SystemError> {
        let mut missing: Vec<&Path> =
            path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        missing.reverse();
        for folder in missing {
            rustix::fs::mkdir(folder, FileMode::from_raw_mode(NEW_FOLDER))
                .context_at("make folder", folder)?;
        }
        Ok(())
    }
}

/// Maps the owner of a host file to an id in the room: the layer's creator becomes the agent; any
/// other user with the agent's number, or with an id that rooms do not map, becomes root.
fn room_id(id: u32, maker: u32) -> u32 {
    match id {
        id if id == maker && maker != 0 => AGENT_ID,
        AGENT_ID | 65_535.. => 0,
        id => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_become_ids_that_a_room_has() {
        assert_eq!(room_id(0, 0), 0);
        assert_eq!(room_id(33, 501), 33);
        assert_eq!(room_id(501, 501), AGENT_ID);
        assert_eq!(room_id(1000, 501), 0);
        assert_eq!(room_id(70_000, 501), 0);
    }
}
