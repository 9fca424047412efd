//! Files that a command reads, changes and writes again.
//!
//! The current folder may be a sandbox's: a link that an agent put there could have us read a file of the user's, and
//! write it where the agent reads it. So below a project no link is followed. In the user's home they are, because
//! settings are often kept elsewhere.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, beneath::Folder, files};
use hothouse_model::{Explain, Failure, FailureKind};

/// The maximum size of a file.
const MOST: u64 = 1 << 20;

/// The mode of a new file. An existing one keeps its own.
const MODE: u32 = 0o644;

/// The folder to which the name of a file is relative.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    Project(PathBuf),
    Home(PathBuf),
}

/// A file that may not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct Edited {
    base: Base,
    name: PathBuf,
}

impl Base {
    pub(crate) fn file(&self, name: impl AsRef<Path>) -> Edited {
        Edited { base: self.clone(), name: name.as_ref().to_owned() }
    }
}

impl Edited {
    pub(crate) fn path(&self) -> PathBuf {
        match &self.base {
            Base::Project(folder) | Base::Home(folder) => folder.join(&self.name),
        }
    }

    /// Returns its text; `None` if it does not exist.
    pub(crate) fn read(&self) -> Result<Option<String>, Failure> {
        self.read_capped(MOST)
    }

    pub(crate) fn read_capped(&self, most: u64) -> Result<Option<String>, Failure> {
        let bytes = match &self.base {
            Base::Project(folder) => {
                Folder::open(folder).and_then(|folder| folder.read_capped(&self.name, most))
            }
            Base::Home(_) => files::read_regular(&self.path(), most),
        };
        match bytes {
            Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
                let message = format!("{} is not text", self.path().display());
                Failure::new(FailureKind::Config, message)
            }),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Replaces it, or creates it with its folders.
    pub(crate) fn write(&self, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        let bytes = text.as_ref();
        let parent = self.name.parent().unwrap_or(Path::new(""));
        let written = match &self.base {
            Base::Project(folder) => files::make_folder(folder).and_then(|()| {
                let folder = Folder::open(folder)?;
                folder.make_folders(parent)?;
                let mode = folder.stat(&self.name)?.map_or(MODE, |stat| stat.mode & 0o777);
                folder.write(&self.name, bytes, mode)
            }),
            Base::Home(folder) => files::make_folder(&folder.join(parent)).and_then(|()| {
                let known = std::fs::metadata(self.path()).ok();
                let mode = known.map_or(MODE, |known| known.permissions().mode() & 0o777);
                files::replace(&self.path(), bytes, mode)
            }),
        };
        written.map_err(|error| failure(&error))
    }

    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let removed = match &self.base {
            Base::Project(folder) => {
                Folder::open(folder).and_then(|folder| folder.remove_file(&self.name))
            }
            Base::Home(_) => files::remove_file(&self.path()),
        };
        removed.map_err(|error| failure(&error))
    }
}

fn failure(error: &FileError) -> Failure {
    let failure = error.failure();
    // The kernel reports a link in place of a folder in this way.
    let is_no_folder = error.source.kind() == std::io::ErrorKind::NotADirectory;
    match error.is_behind_a_link() || is_no_folder {
        true => failure.hint(
            "files of a project are not read or written through links: replace the link with what it leads to",
        ),
        false => failure,
    }
}
