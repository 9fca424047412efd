//! Probes that run in new namespaces, in a child process.
//!
//! ```text
//! parent --spawn--> child: unshare, try, say "NAME ok" or "NAME why not" ... "done", wait for the
//!        end of stdin, so that the parent can use its user namespace for the idmapped mount
//! ```

use std::{
    ffi::OsString,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ExitCode, Stdio},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags, OpenTreeFlags, mount, mount_change, open_tree},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
    thread::UnshareFlags,
};

use super::{CHILD_PATIENCE, ProbeSpec, is_root, parse::parse_report, sys};
use crate::network;

/// The limit on the child's output.
const MOST_SAID: u64 = 64 << 10;

/// The child's results: for each probe, success or the reason of its failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub user: Option<Result<(), String>>,
    pub overlay: Option<Result<(), String>>,
    pub network: Option<Result<(), String>>,
    /// Whether a room's network could be brought up.
    pub rules: Option<Result<(), String>>,
    /// Whether that network has a link that makes it look online.
    pub link: Option<Result<(), String>>,
    /// Tried by the parent, as root only, with the child's user namespace.
    pub idmap: Option<Result<(), String>>,
}

/// Spawns the child and collects its report. A child that hangs is killed.
pub(super) fn ask(spec: &ProbeSpec, folder: Option<&Path>) -> Report {
    let argument = folder.unwrap_or(Path::new("-")).as_os_str();
    let Ok(mut child) = spawn(spec, &[argument]) else { return Report::default() };
    watch(&child);
    let said = child.stdout.take().map(listen).unwrap_or_default();
    let mut report = parse_report(&said);
    if is_root() && report.user == Some(Ok(())) {
        let folder = folder.unwrap_or(Path::new("/"));
        report.idmap = Some(try_idmap(folder, child.id()).map_err(|error| error.to_string()));
    }
    drop(child.stdin.take());
    child.wait().ok();
    report
}

#[expect(
    clippy::disallowed_methods,
    reason = "the child must stay alive and be talked to, which Program does not do"
)]
fn spawn(spec: &ProbeSpec, arguments: &[&std::ffi::OsStr]) -> io::Result<Child> {
    let (program, leading) = spec.child.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = std::process::Command::new(program);
    command
        .args(leading)
        .args(arguments)
        .env_clear()
        .env("PATH", &spec.search_path)
        .env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Kills the child if it is still running after the timeout; the thread ends with the child.
fn watch(child: &Child) {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return };
    thread::spawn(move || {
        let timeout = Timespec::try_from(CHILD_PATIENCE).ok();
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref());
        if !ended.is_ok_and(|ready| ready > 0) {
            pidfd_send_signal(&pidfd, Signal::KILL).ok();
        }
    });
}

/// Reads until the child is done or has exited.
fn listen(stdout: impl Read) -> String {
    let mut said = String::new();
    for line in BufReader::new(stdout.take(MOST_SAID)).lines().map_while(Result::ok) {
        if line == "done" {
            break;
        }
        said.push_str(&line);
        said.push('\n');
    }
    said
}

/// Maps a detached copy of a folder's mount. The copy is never attached, so it stays invisible.
fn try_idmap(folder: &Path, child: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{child}/ns/user"))?;
    let tree =
        open_tree(CWD, folder, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    sys::map_ids(&tree, &namespace)
}

/// Tries everything that needs namespaces, and reports the results on standard output.
///
/// For the hidden argument [`super::CHILD_ARGUMENT`]; `arguments` are those after it. Call it
/// before any thread is created.
pub fn probe_child(arguments: &[OsString]) -> ExitCode {
    let folder = arguments.first().filter(|argument| *argument != "-").map(PathBuf::from);
    let user = enter_user_namespace();
    let entered = user.is_ok();
    say("user", user);
    if let Some(folder) = folder.filter(|_| entered) {
        say("overlay", try_overlay(&folder));
    }
    if entered {
        let network = sys::unshare(UnshareFlags::NEWNET);
        let alone = network.is_ok();
        say("network", network);
        if alone {
            let applied = network::apply();
            if let Ok(catch) = &applied {
                let no_link = catch.no_link.clone();
                say("link", no_link.map_or(Ok(()), |reason| Err(io::Error::other(reason))));
            }
            say("rules", applied.map(drop).map_err(io::Error::other));
        }
    }
    writeln!(io::stdout(), "done").ok();
    io::stdout().flush().ok();
    io::copy(&mut io::stdin(), &mut io::sink()).ok();
    ExitCode::SUCCESS
}

fn say(name: &str, result: io::Result<()>) {
    let answer =
        result.map_or_else(|error| error.to_string().replace('\n', " "), |()| "ok".to_owned());
    writeln!(io::stdout(), "{name} {answer}").ok();
}

fn enter_user_namespace() -> io::Result<()> {
    // Read first: in the new namespace they appear as the overflow ids.
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER)?;
    put("/proc/self/setgroups", "deny")?;
    put("/proc/self/uid_map", &format!("0 {user} 1"))?;
    put("/proc/self/gid_map", &format!("0 {group} 1"))
}

fn put(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Mounts an overlay and exercises whiteouts and extended attributes on the upper layer.
fn try_overlay(folder: &Path) -> io::Result<()> {
    sys::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    for name in ["lower/dir", "upper", "work", "merged"] {
        DirBuilder::new().recursive(true).create(folder.join(name))?;
    }
    File::create(folder.join("lower/file"))?;
    // Relative paths, because a comma or colon in the folder's own path would split the options.
    std::env::set_current_dir(folder)?;
    let options = c"lowerdir=lower,upperdir=upper,workdir=work,userxattr";
    mount("overlay", "merged", "overlay", MountFlags::empty(), options)?;
    rustix::fs::unlink("merged/file")?;
    rustix::fs::rmdir("merged/dir")?;
    rustix::fs::mkdir("merged/dir", Mode::RWXU)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open("merged/dir/new", flags, Mode::RUSR).map(drop).map_err(io::Error::from)
}
