//! The host side of a test: users, folders, and the `roomctl` that controls rooms.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use hothouse_testkit::skip;

/// One way to run rooms on this host: a mode and the user who starts them.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) mode: &'static str,
    user: Option<&'static str>,
    home: PathBuf,
    roomctl: PathBuf,
}

/// A room that ends with the test.
pub(crate) struct Room {
    pub(crate) host: Host,
    pub(crate) state: PathBuf,
    pub(crate) worktree: PathBuf,
}

/// The result of a command in a room.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

#[expect(clippy::disallowed_methods, reason = "tests start programs as they like")]
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(name)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns every mode that this host supports, and reports those that it does not.
pub(crate) fn hosts() -> Vec<Host> {
    static HOSTS: OnceLock<Vec<Host>> = OnceLock::new();
    HOSTS.get_or_init(find_hosts).clone()
}

pub(crate) fn host(mode: &str) -> Option<Host> {
    let found = hosts().into_iter().find(|host| host.mode == mode);
    if found.is_none() {
        skip("a mode of rooms", &format!("the mode {mode}"));
    }
    found
}

fn find_hosts() -> Vec<Host> {
    let built = std::env::current_exe().unwrap();
    let built = built.parent().unwrap().parent().unwrap().join("examples/roomctl");
    assert!(built.exists(), "{} is not built: run the tests with `cargo test`", built.display());
    if !is_root() {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".hothouse-room-tests");
        skip("rooms of root and of other users", "root");
        assert!(program("mkdir").arg("-p").arg(&home).status().unwrap().success());
        return vec![Host { mode: "own", user: None, home, roomctl: built }];
    }
    let root = Host {
        mode: "root",
        user: None,
        home: folder("/var/tmp/hothouse-room-tests", None),
        roomctl: built.clone(),
    };
    let mut hosts = vec![root];
    for (mode, user) in [("range", "hh-test-range"), ("single", "hh-test-single")] {
        match ordinary(mode, user, &built) {
            Ok(host) => hosts.push(host),
            Err(reason) => skip(&format!("rooms in {mode} mode"), &reason),
        }
    }
    hosts
}

fn ordinary(mode: &'static str, user: &'static str, built: &Path) -> Result<Host, String> {
    if mode == "range" && !Path::new("/usr/bin/newuidmap").exists() {
        return Err("newuidmap is not installed".into());
    }
    let passwd = std::fs::File::open("/etc/passwd").map_err(|error| error.to_string())?;
    let known = std::io::read_to_string(passwd)
        .unwrap()
        .lines()
        .any(|line| line.starts_with(&format!("{user}:")));
    if !known {
        let made =
            program("useradd").args(["--create-home", "--shell", "/bin/bash", user]).output();
        let made = made.map_err(|error| format!("useradd: {error}"))?;
        // Another test may have created it in the meantime.
        let why = String::from_utf8_lossy(&made.stderr);
        if !made.status.success() && !why.contains("already exists") {
            return Err(why.into_owned());
        }
    }
    let ranges =
        if mode == "single" { "--del-subuids 1-4294967294 --del-subgids 1-4294967294" } else { "" };
    if !ranges.is_empty() {
        // Fails if there were none, which is fine.
        let _ = program("usermod").args(ranges.split(' ')).arg(user).output();
    }
    let home = folder(&format!("/home/{user}/rooms"), Some(user));
    let roomctl = home.join("roomctl");
    let fresh = home.join(format!("roomctl.{}", std::process::id()));
    std::fs::copy(built, &fresh).map_err(|error| error.to_string())?;
    std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(&fresh, &roomctl).map_err(|error| error.to_string())?;
    Ok(Host { mode, user: Some(user), home, roomctl })
}

fn folder(path: &str, owner: Option<&str>) -> PathBuf {
    let status = program("mkdir").args(["-p", "-m", "700", path]).status().unwrap();
    assert!(status.success());
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    if let Some(owner) = owner {
        assert!(program("chown").args([&format!("{owner}:"), path]).status().unwrap().success());
    }
    PathBuf::from(path)
}

impl Host {
    /// Prepares a program to run as the user who starts the rooms.
    pub(crate) fn command(&self, name: impl AsRef<std::ffi::OsStr>) -> Command {
        match self.user {
            None => program(name),
            Some(user) => {
                let mut command = program("runuser");
                command.args(["-u", user, "--"]).arg(name);
                command
            }
        }
    }

    pub(crate) fn roomctl(&self) -> Command {
        self.command(&self.roomctl)
    }

    /// Returns the path of the program, for a shell line.
    pub(crate) fn roomctl_path(&self) -> String {
        self.roomctl.display().to_string()
    }

    pub(crate) fn has_root(&self) -> bool {
        self.mode != "single"
    }

    /// Creates an empty room folder with a worktree, without starting anything.
    pub(crate) fn prepare(&self) -> Room {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let state = self.home.join(format!("r{}-{number}", std::process::id()));
        let worktree = self.home.join(format!("w{}-{number}", std::process::id()));
        for path in [&state, &worktree] {
            assert!(self.command("mkdir").arg(path).status().unwrap().success());
        }
        let room = Room { host: self.clone(), state, worktree };
        room.host_shell("echo hello > README");
        room
    }

    pub(crate) fn room(&self) -> Room {
        self.room_with(&[])
    }

    pub(crate) fn room_with(&self, options: &[&str]) -> Room {
        let room = self.prepare();
        room.start(options);
        room
    }
}

impl Room {
    pub(crate) fn start(&self, options: &[&str]) -> String {
        let started = self.try_start(options);
        assert!(
            started.status.success(),
            "{}: {}",
            self.host.mode,
            String::from_utf8_lossy(&started.stderr)
        );
        String::from_utf8(started.stdout).unwrap()
    }

    pub(crate) fn try_start(&self, options: &[&str]) -> Output {
        // The first start of a mode creates the base layer, and the others wait for it.
        static ORDER: Mutex<()> = Mutex::new(());
        let _guard = ORDER.lock();
        self.host
            .roomctl()
            .arg("start")
            .arg(&self.state)
            .arg(&self.worktree)
            .args(options)
            .output()
            .unwrap()
    }

    pub(crate) fn roomctl(&self, verb: &str) -> Command {
        let mut command = self.host.roomctl();
        command.arg(verb).arg(&self.state);
        command
    }

    /// Runs a shell line on the host, in the worktree, as the user who starts the rooms.
    pub(crate) fn host_shell(&self, line: &str) -> Ran {
        ran(self.host.command("sh").arg("-c").arg(line).current_dir(&self.worktree))
    }

    /// Runs a command in the room as agent.
    pub(crate) fn exec(&self, argv: &[&str]) -> Ran {
        ran(self.roomctl("exec").args(["--cwd"]).arg(&self.worktree).arg("--").args(argv))
    }

    pub(crate) fn sh(&self, line: &str) -> Ran {
        self.exec(&["sh", "-c", line])
    }

    pub(crate) fn root_sh(&self, line: &str) -> Ran {
        ran(self.roomctl("exec").args(["--root", "--", "sh", "-c", line]))
    }

    pub(crate) fn python(&self, script: &str) -> Ran {
        self.exec(&["/usr/bin/python3", "-c", script])
    }

    pub(crate) fn stop(&self) {
        let stopped = ran(&mut self.roomctl("stop"));
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.state.join("room.json").exists() {
            let _ = self.roomctl("stop").output();
        }
        let _ = self.roomctl("remove").output();
        let _ = self.host.command("rm").args(["-rf"]).arg(&self.state).arg(&self.worktree).output();
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
