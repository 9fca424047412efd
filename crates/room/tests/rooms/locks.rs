//! Host files that a room may only read: it cannot lock them, and sees their changes.

use super::host::{Host, Room, host, hosts, ran};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Takes every kind of lock on the given paths, reports the result, and holds them until its input ends.
const LOCK: &str = r#"
import fcntl, os, sys
held = []
for path in sys.argv[1:]:
    for take in (fcntl.flock, fcntl.lockf):
        fd = os.open(path, os.O_RDONLY)
        held.append(fd)
        # A descriptor without the right to write can have a shared lock of the second kind only.
        try: take(fd, (fcntl.LOCK_EX if take is fcntl.flock else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            if take is fcntl.flock: raise
print("locked", flush=True)
sys.stdin.read()
"#;

/// Polls names until the host has changed them.
const WATCH: &str = r#"
import os, sys, time
folder = sys.argv[1]
read = lambda name: open(os.path.join(folder, name)).read() if os.path.exists(os.path.join(folder, name)) else None
assert (read("new"), read("bin/replaced"), read("bin/removed")) == (None, "old", "old")
print("looked", flush=True)
while (read("new"), read("bin/replaced"), read("bin/removed")) != ("new", "newer", None): time.sleep(0.02)
print("seen", flush=True)
"#;

/// A command running in a room, ended on drop.
struct Running(Child);

impl Running {
    /// Starts a script and waits for its first line.
    fn start(room: &Room, script: &str, arguments: &[&Path]) -> (Self, String) {
        let mut command = room.roomctl("exec");
        command.args(["--", "/usr/bin/python3", "-c", script]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = Self::line(&mut child);
        (Self(child), line)
    }

    fn line(child: &mut Child) -> String {
        use std::io::Read;
        let mut line = String::new();
        let mut byte = [0];
        while child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// A granted folder beside a room's worktree, removed on drop.
struct Granted(Host, PathBuf);

impl Granted {
    fn new(room: &Room, name: &str) -> Self {
        let path = room.worktree.with_extension(name);
        let line = "mkdir -p TOOL/bin; cd TOOL; chmod 755 . bin; for f in lock hidden bin/lock bin/replaced bin/removed; \
                    do printf old >$f; done; chmod -R a+r .";
        room.host_shell(&line.replace("TOOL", path.to_str().unwrap()));
        Self(room.host.clone(), path)
    }

    fn text(&self) -> &str {
        self.1.to_str().unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.1.join(name)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        ran(self.0.command("rm").arg("-rf").arg(&self.1));
    }
}

/// Whether the host can currently take both kinds of locks on a file or folder.
fn is_free(path: &Path) -> bool {
    let file = std::fs::File::options().read(true).write(path.is_file()).open(path).unwrap();
    let whole = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let record = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    whole && (record || path.is_dir())
}

fn caveats(room: &Room) -> String {
    let started: serde_json::Value =
        serde_json::from_reader(std::fs::File::open(room.state.join("room.json")).unwrap())
            .unwrap();
    started["caveats"].to_string()
}

#[test]
fn a_lock_on_a_granted_file_does_not_reach_the_host() {
    for host in hosts() {
        let room = host.prepare();
        let (whole, split) = (Granted::new(&room, "whole"), Granted::new(&room, "split"));
        let hidden = split.at("hidden");
        let options = ["--tool", whole.text(), "--tool", split.text(), "--mask"];
        room.start(&[&options[..], &[hidden.to_str().unwrap()]].concat());
        assert!(!caveats(&room).contains("shared-locks"), "{}: {}", host.mode, caveats(&room));
        let mut paths = vec![whole.1.clone(), split.at("bin")];
        for folder in [&whole, &split] {
            paths.extend([folder.at("lock"), folder.at("bin/lock")]);
        }
        let own = room.worktree.join("README");
        let mut all: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        all.push(&own);
        let (_running, said) = Running::start(&room, LOCK, &all);
        assert_eq!(said, "locked", "{}", host.mode);
        for path in &paths {
            assert!(is_free(path), "{}: the room has locked {}", host.mode, path.display());
        }
        // Control: a file that room and host share.
        assert!(!is_free(&own), "{}", host.mode);
    }
}

#[test]
fn what_the_host_changes_in_a_granted_folder_is_seen_by_a_command_that_is_running() {
    for host in hosts() {
        let room = host.prepare();
        let (tool, hidden) = (Granted::new(&room, "tool"), Granted::new(&room, "other"));
        let mask = hidden.at("hidden");
        let options = ["--tool", tool.text(), "--tool", hidden.text(), "--mask"];
        room.start(&[&options[..], &[mask.to_str().unwrap()]].concat());
        let (mut running, said) = Running::start(&room, WATCH, &[&tool.1]);
        assert_eq!(said, "looked", "{}", host.mode);
        let change = "cd TOOL && printf newer >n && chmod 644 n && mv n bin/replaced && rm bin/removed && \
                      printf new >n && chmod 644 n && mv n new";
        room.host_shell(&change.replace("TOOL", tool.text()));
        assert_eq!(Running::line(&mut running.0), "seen", "{}", host.mode);
        // The next command sees it immediately, even in a folder that is bound part by part.
        let look = format!("cat {0}/bin/replaced; ls {0}/bin", hidden.text());
        assert_eq!(room.sh(&look).out, "oldlock\nremoved\nreplaced\n", "{}", host.mode);
        room.host_shell(&format!(
            "cd {}/bin && printf newer >n && chmod 644 n && mv n replaced",
            hidden.text()
        ));
        assert_eq!(room.sh(&look).out, "newerlock\nremoved\nreplaced\n", "{}", host.mode);
    }
}

#[test]
fn a_granted_folder_that_no_overlay_can_show_is_bound_and_said_to_be() {
    let Some(host) = host("root") else { return };
    let room = host.prepare();
    let (tool, file) = (Granted::new(&room, "tool"), Granted::new(&room, "file"));
    let single = file.at("lock");
    // In its own mount namespace, so that nothing on the host is changed.
    let line = format!(
        "mount -t tmpfs none {tool}/bin && echo below >{tool}/bin/inner && {} start {} {} --tool {tool} --tool {}",
        room.host.roomctl_path(),
        room.state.display(),
        room.worktree.display(),
        single.display(),
        tool = tool.text(),
    );
    let started = ran(host.command("unshare").args(["--mount", "--", "sh", "-c", &line]));
    assert_eq!(started.code, Some(0), "{started:?}");
    let look = format!("cat {}/bin/inner {}", tool.text(), single.display());
    assert_eq!(room.sh(&look).out, "below\nold");
    let said = caveats(&room);
    for path in [tool.text(), single.to_str().unwrap()] {
        assert!(said.contains(&format!(r#"{{"shared-locks":{{"path":"{path}"}}}}"#)), "{said}");
    }
}
