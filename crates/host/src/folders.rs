//! The folders that Hothouse uses, derived from the environment that the binary read.

use std::path::PathBuf;

use crate::files::{self, FileError};

/// The environment variables that determine the folders.
#[derive(Clone, Debug, Default)]
pub struct FolderVariables {
    pub home: Option<PathBuf>,
    pub state_home: Option<PathBuf>,
    pub config_home: Option<PathBuf>,
    pub runtime_dir: Option<PathBuf>,
    pub cache_home: Option<PathBuf>,
}

/// The error when the environment does not determine a folder.
#[derive(Debug, thiserror::Error)]
#[error("neither XDG_STATE_HOME nor HOME is an absolute path")]
pub struct NoHome;

/// The folders of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// Database, logs and runs. Survives a reboot.
    pub state: PathBuf,
    /// Sockets and records of running rooms. Below `state`, so that every environment of the user
    /// finds the same daemon and the same rooms: `XDG_RUNTIME_DIR` differs between a terminal, `su`
    /// and cron, and is removed at logout while rooms keep running.
    pub runtime: PathBuf,
    /// Where earlier releases kept their sockets and rooms, if different.
    pub former_runtime: Option<PathBuf>,
    /// The user's settings.
    pub config: PathBuf,
    /// Files that can be regenerated at any time.
    pub cache: PathBuf,
    /// The user's home; `/` if there is none.
    pub home: PathBuf,
}

impl Folders {
    /// Determines the folders. Ignores a relative path in an XDG variable, as the XDG specification requires.
    pub fn decide(variables: &FolderVariables) -> Result<Self, NoHome> {
        let absolute = |path: &Option<PathBuf>| path.clone().filter(|path| path.is_absolute());
        let home = absolute(&variables.home);
        let below_home = |place: &str| home.as_ref().map(|home| home.join(place));
        let state =
            absolute(&variables.state_home).or_else(|| below_home(".local/state")).ok_or(NoHome)?;
        let config =
            absolute(&variables.config_home).or_else(|| below_home(".config")).ok_or(NoHome)?;
        let cache =
            absolute(&variables.cache_home).or_else(|| below_home(".cache")).ok_or(NoHome)?;
        let state = state.join("hothouse");
        let former_runtime = absolute(&variables.runtime_dir).map(|folder| folder.join("hothouse"));
        Ok(Self {
            runtime: state.join("run"),
            former_runtime,
            state,
            config: config.join("hothouse"),
            cache: cache.join("hothouse"),
            home: home.unwrap_or_else(|| "/".into()),
        })
    }

    /// Creates the folders that the daemon writes to.
    pub fn make(&self) -> Result<(), FileError> {
        files::make_private_folder(&self.state)?;
        files::make_private_folder(&self.logs())?;
        files::make_private_folder(&self.locks())?;
        files::make_private_folder(&self.runtime)
    }

    /// Returns the path of the daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("daemon.sock")
    }

    /// Returns the path of the lock file that ensures one daemon per state folder.
    pub fn daemon_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Returns the path of the database.
    pub fn database(&self) -> PathBuf {
        self.state.join("state.db")
    }

    /// Returns the folder for the daemon's logs.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Returns the folder for the per-repository locks.
    pub fn locks(&self) -> PathBuf {
        self.state.join("locks")
    }

    /// Returns the path of the user-level settings file.
    pub fn user_config(&self) -> PathBuf {
        self.config.join("hothouse.toml")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn decide(home: &str, state: &str, runtime: &str) -> Option<Folders> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let variables = FolderVariables {
            home: path(home),
            state_home: path(state),
            runtime_dir: path(runtime),
            ..Default::default()
        };
        Folders::decide(&variables).ok()
    }

    #[test]
    fn the_standard_places_are_used() {
        let folders = decide("/home/u", "", "/run/user/7").unwrap();
        assert_eq!(folders.state, Path::new("/home/u/.local/state/hothouse"));
        assert_eq!(folders.former_runtime.as_deref(), Some(Path::new("/run/user/7/hothouse")));
    }

    #[test]
    fn the_socket_is_the_same_whatever_the_session() {
        for runtime in ["", "/run/user/7", "/tmp/other"] {
            let folders = decide("/home/u", "/state", runtime).unwrap();
            assert_eq!(folders.socket(), Path::new("/state/hothouse/run/daemon.sock"));
        }
    }

    #[test]
    fn relative_places_are_ignored() {
        assert_eq!(decide("/home/u", "state", "run"), decide("/home/u", "", ""));
        assert_eq!(decide("home", "", ""), None);
    }
}
