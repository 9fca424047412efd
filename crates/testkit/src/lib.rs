//! Test environments: own folders, disposable repositories, and the real binary.
//!
//! A development dependency only. Everything lives below one temporary folder, and the daemon that
//! a test started ends with it. A failing test keeps its folder and says where it is.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at once"
)]

pub mod crash;
mod features;
mod skip;

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

pub use self::skip::skip;

/// The timeout for conditions; generous, because machines can be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// An ordinary user; root can run commands as it.
#[derive(Clone, Copy, Debug)]
pub struct User {
    id: u32,
    group: u32,
    /// Whether it has no ids but its own.
    is_single: bool,
}

/// The name of the user with subordinate ids, whom tests create.
const WITH_RANGES: &str = "hh-test-range";

impl User {
    /// Returns the user `nobody`, who has a single uid, if root may become it.
    pub fn ordinary() -> Option<Self> {
        let user = Self { id: 65534, group: 65534, is_single: true };
        let possible =
            user.command(Path::new("/bin/true")).status().is_ok_and(|status| status.success());
        if !possible {
            skip("the same as an ordinary user", "setpriv");
        }
        possible.then_some(user)
    }

    /// Returns a user with subordinate ids, who is created if necessary.
    pub fn with_ranges() -> Option<Self> {
        let missing = |what: &str| {
            skip("the same as a user with ranges of ids", what);
            None
        };
        if !Path::new("/usr/bin/newuidmap").exists() {
            return missing("newuidmap");
        }
        let known = || {
            let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
            let line = users.lines().find(|line| line.starts_with(&format!("{WITH_RANGES}:")))?;
            let mut ids = line.split(':').skip(2).map_while(|id| id.parse().ok());
            Some(Self { id: ids.next()?, group: ids.next()?, is_single: false })
        };
        if let Some(user) = known() {
            return Some(user);
        }
        // Two tests may do it at once.
        Command::new("useradd").args(["--create-home", WITH_RANGES]).output().ok();
        known().or_else(|| missing("a user with ranges in /etc/subuid"))
    }

    /// Returns its description for messages.
    pub fn what(self) -> &'static str {
        if self.is_single { "a user with a single uid" } else { "a user with ranges" }
    }

    fn command(self, program: &Path) -> Command {
        let (id, group) = (self.id.to_string(), self.group.to_string());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &group, "--clear-groups", "--"]).arg(program);
        command
    }
}

/// A folder with state, runtime and configuration of its own.
pub struct TestEnv {
    folder: Option<tempfile::TempDir>,
    binary: PathBuf,
    /// The binary as it was built; [`become_user`](Self::become_user) copies it.
    original: PathBuf,
    variables: Vec<(String, String)>,
    user: Option<User>,
}

impl TestEnv {
    /// Creates an environment for a binary; a test passes `env!("CARGO_BIN_EXE_hothouse")`.
    pub fn new(binary: &str) -> Self {
        Self::below(binary, &std::env::temp_dir())
    }

    /// Creates one in a folder below another. `HOTHOUSE_TEST_BINARY` names another build to be tested, such as one
    /// without the change that a test is about.
    pub fn below(binary: &str, parent: &Path) -> Self {
        let other = std::env::var("HOTHOUSE_TEST_BINARY");
        let binary = other.as_deref().unwrap_or(binary);
        let folder = tempfile::Builder::new().prefix("hothouse-test-").tempdir_in(parent).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::set_permissions(folder.path().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
        Self {
            folder: Some(folder),
            binary: binary.into(),
            original: binary.into(),
            variables: Vec::new(),
            user: None,
        }
    }

    /// Returns whether everything runs as root.
    pub fn is_root(&self) -> bool {
        self.user.is_none() && is_root()
    }

    /// Runs everything from now on as another user, who gets the whole folder. With a single uid, trees are copies, so
    /// that a test can read them from the host.
    pub fn become_user(&mut self, user: User) {
        if user.is_single {
            self.set("HOTHOUSE_TREE", "copy");
        }
        let copy = self.root().join("hothouse");
        if self.binary != copy {
            fs::copy(&self.binary, &copy).unwrap();
            self.binary = copy;
        }
        self.user = Some(user);
        for path in [self.root().to_owned(), self.root().join("run"), self.binary.clone()] {
            std::os::unix::fs::chown(path, Some(user.id), Some(user.group)).unwrap();
        }
    }

    /// Returns the binary that commands run: for an ordinary user a copy that they may read.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Uses a copy of the binary from now on.
    pub fn use_binary(&mut self, copy: &Path) {
        self.binary = copy.to_owned();
    }

    /// Gives a file or folder to the user of the commands.
    pub fn give_to_user(&self, path: &Path) {
        if let Some(user) = self.user {
            std::os::unix::fs::chown(path, Some(user.id), Some(user.group)).unwrap();
        }
    }

    /// Returns the folder that contains everything.
    pub fn root(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    /// Returns the state folder.
    pub fn state(&self) -> PathBuf {
        self.root().join("state/hothouse")
    }

    /// Sets a variable for every later command.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
    }

    /// Creates a repository with one commit and this config.
    pub fn repository(&self, name: &str, config: &str) -> PathBuf {
        self.repository_with(name, config, &[])
    }

    /// Creates a repository with additional files.
    pub fn repository_with(&self, name: &str, config: &str, files: &[(&str, &str)]) -> PathBuf {
        let place = self.root().join(name);
        fs::create_dir(&place).unwrap();
        git(&place, &["init", "-q", "-b", "main"]);
        fs::write(place.join("README"), "hello\n").unwrap();
        fs::write(place.join("hothouse.toml"), config).unwrap();
        for (name, text) in files {
            let path = place.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        git(&place, &["add", "-A"]);
        git(&place, &["commit", "-qm", "base"]);
        if let Some(user) = self.user {
            let owner = format!("{}:{}", user.id, user.group);
            assert!(
                Command::new("chown").args(["-R", &owner]).arg(&place).status().unwrap().success()
            );
        }
        place
    }

    /// Prepares a command of the binary, in a folder, without the caller's environment.
    pub fn command(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = match self.user {
            Some(user) => user.command(&self.binary),
            None => Command::new(&self.binary),
        };
        command.args(words).current_dir(folder).env_clear().stdin(Stdio::null());
        command.envs(self.environment());
        command
    }

    /// Runs git on the host as the user does: without any of our settings.
    pub fn plain_git(&self, folder: &Path, words: &[&str]) -> Output {
        let mut command = match self.user {
            Some(user) => user.command(Path::new("/usr/bin/git")),
            None => Command::new("git"),
        };
        command.args(words).current_dir(folder).env_clear().stdin(Stdio::null());
        command.envs(self.environment()).output().unwrap()
    }

    /// Runs a shell line on the host as the user does.
    pub fn shell(&self, folder: &Path, line: &str) -> Output {
        let mut command = match self.user {
            Some(user) => user.command(Path::new("/bin/sh")),
            None => Command::new("/bin/sh"),
        };
        command.args(["-c", line]).current_dir(folder).env_clear().envs(self.environment());
        command.output().unwrap()
    }

    /// Returns the environment of the commands.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &str| self.root().join(path).to_str().unwrap().to_owned();
        let mut all = vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), text("home")),
            ("XDG_STATE_HOME".to_owned(), text("state")),
            ("XDG_CONFIG_HOME".to_owned(), text("config")),
            ("XDG_RUNTIME_DIR".to_owned(), text("run")),
            ("XDG_CACHE_HOME".to_owned(), self.cache()),
        ];
        for (name, value) in &self.variables {
            all.retain(|(known, _)| known != name);
            all.push((name.clone(), value.clone()));
        }
        all
    }

    /// Returns a cache that the tests of one build share: the base layer of rooms takes seconds.
    fn cache(&self) -> String {
        let built = fs::metadata(&self.original).and_then(|file| file.modified()).unwrap();
        let built = built.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let user = self.user.map_or("own".to_owned(), |user| user.id.to_string());
        let folder = std::env::temp_dir().join(format!("hothouse-test-cache-{user}-{built}"));
        if fs::create_dir(&folder).is_ok()
            && let Some(user) = self.user
        {
            std::os::unix::fs::chown(&folder, Some(user.id), Some(user.group)).unwrap();
        }
        folder.to_str().unwrap().to_owned()
    }

    /// Runs a command of the binary.
    pub fn run(&self, folder: &Path, words: &[&str]) -> Ran {
        Ran::of(words, self.command(folder, words).output().unwrap())
    }

    /// Runs a command that must succeed and returns its standard output.
    pub fn ok(&self, folder: &Path, words: &[&str]) -> String {
        let ran = self.run(folder, words);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout
    }

    /// Runs a command that must succeed and returns its JSON.
    pub fn json(&self, folder: &Path, words: &[&str]) -> serde_json::Value {
        let ran = self.run(folder, words);
        assert_eq!(ran.code, 0, "{ran}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
    }

    /// Returns the pid of the daemon, if it is running.
    pub fn daemon_pid(&self) -> Option<u32> {
        let ran = self.run(self.root(), &["daemon", "status", "--json"]);
        let view: serde_json::Value = serde_json::from_str(&ran.stdout).ok()?;
        view["pid"].as_u64().and_then(|pid| pid.try_into().ok())
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill_daemon(&self) {
        let pid = self.daemon_pid().expect("a daemon runs");
        kill(pid);
    }
}

/// Sends SIGKILL to a process and waits until it is gone.
pub fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    wait_until("the process is gone", || !is_running(pid));
}

/// Returns whether a process is running; a zombie is not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

impl TestEnv {
    /// Removes the folder of an environment in which everything has ended.
    pub fn release(&mut self) {
        self.folder.take();
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if self.folder.is_none() {
            return;
        }
        self.run(self.root(), &["nuke", "--yes"]);
        self.run(self.root(), &["daemon", "stop"]);
        if std::thread::panicking() {
            let kept = self.folder.take().unwrap().keep();
            eprintln!("the folder of the failed test is kept: {}", kept.display());
        }
    }
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Ran {
    pub words: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Converts the output of a command.
    pub fn of(words: &[&str], output: Output) -> Self {
        Self {
            words: words.join(" "),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`hothouse {}` exited {}\nstdout: {}\nstderr: {}",
            self.words, self.code, self.stdout, self.stderr
        )
    }
}

/// Returns whether this process is root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Runs git as the owner of a folder, and returns what it printed.
///
/// As root, git would create object folders that the owner cannot write to.
pub fn git(folder: &Path, words: &[&str]) -> String {
    let owner = fs::metadata(folder).unwrap();
    let mut command = Command::new("git");
    if owner.uid() != 0 && is_root() {
        command.gid(owner.gid()).uid(owner.uid());
    }
    let output = command
        .args(["-c", "user.name=test", "-c", "user.email=test@example.com"])
        .args(["-c", "safe.directory=*"])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Waits for a condition.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
