//! Unix sockets at any path, with the peer's identity checked.
//!
//! The kernel limits paths to 107 bytes. A longer path is accessed through its folder's descriptor
//! (`/proc/self/fd/N/name`), so deep home folders work too.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    net::sockopt::socket_peercred,
};

use crate::{
    files::{self, FileError, about},
    process::user_id,
};

const LONGEST_PATH: usize = 100;

/// A socket that must not be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{} belongs to another user (uid {owner})", .path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{} may be entered by other users", .path.display())]
    Open { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

/// Refuses a runtime folder that another user owns or may write to.
pub fn check_private(folder: &Path) -> Result<(), SocketError> {
    let metadata = std::fs::symlink_metadata(folder).map_err(about("look at", folder))?;
    if metadata.uid() != user_id() {
        return Err(SocketError::Foreign { path: folder.to_owned(), owner: metadata.uid() });
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(SocketError::Open { path: folder.to_owned() });
    }
    Ok(())
}

/// Raises a listener's backlog from the standard library's 128.
pub fn lengthen_queue(listener: &std::net::TcpListener) -> io::Result<()> {
    Ok(rustix::net::listen(listener, 4096)?)
}

/// Binds a socket for the owner only, replacing a stale one.
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    files::remove_file(path)?;
    let (short, _folder) = short_path(path)?;
    let listener = UnixListener::bind(&short).map_err(about("bind", path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
        .map_err(about("protect", path))?;
    Ok(listener)
}

/// Connects to our own daemon. A socket of another user is refused, before and after connecting.
pub fn connect(path: &Path) -> Result<UnixStream, SocketError> {
    let owner = std::fs::symlink_metadata(path).map_err(about("connect to", path))?.uid();
    if owner != user_id() {
        return Err(SocketError::Foreign { path: path.to_owned(), owner });
    }
    let (short, _folder) = short_path(path)?;
    let stream = UnixStream::connect(&short).map_err(about("connect to", path))?;
    match peer_user(&stream) {
        Ok(owner) if owner != user_id() => {
            Err(SocketError::Foreign { path: path.to_owned(), owner })
        }
        Ok(_) => Ok(stream),
        Err(error) => Err(about("identify the peer of", path)(error).into()),
    }
}

/// Returns the user at the other end.
pub fn peer_user(stream: impl AsFd) -> io::Result<u32> {
    Ok(socket_peercred(stream)?.uid.as_raw())
}

fn short_path(path: &Path) -> Result<(PathBuf, Option<OwnedFd>), FileError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok((path.to_owned(), None));
    };
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((path.to_owned(), None));
    }
    let folder =
        rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| about("open", parent)(errno.into()))?;
    Ok((Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name), Some(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_the_kernel_allows_works() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        files::make_private_folder(&deep).unwrap();
        let path = deep.join("daemon.sock");
        let _listener = bind(&path).unwrap();
        let stream = connect(&path).unwrap();
        assert_eq!(peer_user(&stream).unwrap(), user_id());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(matches!(check_private(folder.path()), Err(SocketError::Open { .. })));
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        check_private(folder.path()).unwrap();
    }
}
