//! Shows the tree of a room on the host, in a process that mounts it for itself.
//!
//! An ordinary user cannot mount an overlay for the whole host, but one of their processes can in
//! its own namespaces. Such a view is read-only and created each time, so it is correct even while
//! a room works in the same layers. This program is started for it under [`VIEW_ARGUMENT`]. It
//! either becomes the command that needs the view, or stays as long as someone reads through
//! [`View::path`].

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ExitCode, Stdio},
};

use rustix::mount::{MountPropagationFlags, MoveMountFlags, mount_change, move_mount};

use crate::{
    command::{Program, bare},
    confine::forbid_links,
    files::{self, FileError, about},
    mount, sys,
};

/// The hidden subcommand under which a program must call [`view_main`].
pub const VIEW_ARGUMENT: &str = "tree-view";

/// Separates our arguments from the command.
const END: &str = "--";

/// The layers of a tree, and where to mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSpec {
    /// Uppermost first; at least two.
    pub layers: Vec<PathBuf>,
    pub at: PathBuf,
}

impl ViewSpec {
    fn words(&self) -> impl Iterator<Item = &OsStr> {
        let own = [OsStr::new(VIEW_ARGUMENT), self.at.as_os_str()];
        own.into_iter().chain(self.layers.iter().map(|layer| layer.as_os_str()))
    }

    /// Returns a program that sees the tree; the caller adds its arguments.
    pub fn program(&self, name: &str) -> Program {
        Program::new("/proc/self/exe").args(self.words()).arg(END).arg(name)
    }
}

/// An open view.
#[derive(Debug)]
pub struct View {
    child: Child,
    path: PathBuf,
}

impl View {
    /// Opens a view. It closes on drop, and when we die.
    pub fn open(spec: &ViewSpec) -> Result<Self, FileError> {
        let open = || -> io::Result<Self> {
            let mut program = bare("/proc/self/exe");
            program.args(spec.words()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = program.stderr(Stdio::piped()).spawn()?;
            let mut said = String::new();
            if let Some(mut stdout) = child.stdout.take() {
                stdout.read_to_string(&mut said)?;
            }
            let at = spec.at.strip_prefix("/").unwrap_or(&spec.at);
            let path = Path::new("/proc").join(child.id().to_string()).join("root").join(at);
            let view = Self { child, path };
            if said == "ready" { Ok(view) } else { Err(view.failure()) }
        };
        open().map_err(about("look into", &spec.at))
    }

    /// Returns the path at which the tree can be read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failure(mut self) -> io::Error {
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            stderr.take(4096).read_to_string(&mut said).ok();
        }
        io::Error::other(said.trim().to_owned())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the path that users know for a file read through a view: the sandbox's own.
pub(crate) fn known_path(path: &Path) -> PathBuf {
    let mut parts = path.components().skip(1).map(|part| part.as_os_str());
    let is_process = |part: &OsStr| part.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(proc), Some(pid), Some(root))
            if path.is_absolute() && proc == "proc" && is_process(pid) && root == "root" =>
        {
            Path::new("/").join(parts.collect::<PathBuf>())
        }
        _ => path.to_owned(),
    }
}

/// Creates the view given by the arguments, and becomes the command that uses it.
pub fn view_main(arguments: &[OsString]) -> ExitCode {
    let Err(error) = see(arguments);
    writeln!(io::stderr(), "{error}").ok();
    ExitCode::FAILURE
}

enum Never {}

fn see(arguments: &[OsString]) -> io::Result<Never> {
    let end = arguments.iter().position(|word| word == END);
    let (own, command) = match end {
        Some(at) => (&arguments[..at], Some(&arguments[at + 1..])),
        None => (arguments, None),
    };
    let [at, layers @ ..] = own else { return Err(io::ErrorKind::InvalidInput.into()) };
    let at = Path::new(at);
    let layers: Vec<_> = layers.iter().map(Path::new).collect();
    // Compared by name, because the folder is about to be covered.
    let was_there = std::env::current_dir().is_ok_and(|folder| folder == at);
    mount_alone(at, &layers)?;
    if was_there {
        rustix::process::chdir(at)?;
    }
    match command {
        Some([program, arguments @ ..]) => {
            let mut command = bare(program);
            // Keeps the caller's environment, with the settings that keep git from running other
            // programs.
            command.env_clear().envs(std::env::vars_os());
            command.args(arguments).stdin(Stdio::inherit());
            Err(command.stdout(Stdio::inherit()).stderr(Stdio::inherit()).exec())
        }
        _ => stay(),
    }
}

fn mount_alone(at: &Path, layers: &[&Path]) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    sys::leave_user_and_mount_namespace()?;
    let own = Path::new("/proc/self");
    let write = |name: &str, text: String| {
        files::write(&own.join(name), text).map_err(|error| error.source)
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{user} {user} 1\n"))?;
    write("gid_map", format!("{group} {group} 1\n"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let tree = mount::build_view(layers)?;
    // A room may change the same layers in the meantime.
    forbid_links(tree.as_fd())?;
    Ok(move_mount(&tree, "", rustix::fs::CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Reports that the view is ready, and waits until it is no longer needed.
fn stay() -> io::Result<Never> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Closing our output tells the reader that nothing more follows.
    rustix::io::write(rustix::stdio::stdout(), b"ready")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    sys::exit_now(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_file_by_the_path_that_people_know() {
        for (path, known) in [
            ("/proc/71/root/home/u/acme-sandboxes/a/x", "/home/u/acme-sandboxes/a/x"),
            ("/proc/self/root/etc", "/proc/self/root/etc"),
            ("/proc/71/status", "/proc/71/status"),
            ("/home/u/proc/71/root/x", "/home/u/proc/71/root/x"),
            ("proc/71/root/x", "proc/71/root/x"),
        ] {
            assert_eq!(known_path(Path::new(path)), Path::new(known));
            let source = io::ErrorKind::NotFound.into();
            let error = FileError { attempt: "read", path: path.into(), source };
            assert_eq!(error.to_string(), format!("could not read {known}"));
        }
    }
}
