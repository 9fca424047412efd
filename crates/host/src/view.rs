//! Trees that only a room shows, seen from the host: in a process that has them mounted for itself.
//!
//! An ordinary user cannot mount an overlay where the whole host sees it, but a process of theirs can
//! in its own namespaces. Such a view is read-only and made again each time, so it is correct even
//! while a room works in the same layers. This very program is started for it under
//! [`VIEW_ARGUMENT`]; it either becomes the command that wants to see, or stays for as long as
//! somebody reads through [`View::path`].

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

/// What comes before the command that is to see.
const END: &str = "--";

/// A tree made of layers, and where it is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSpec {
    /// The uppermost first; at least two.
    pub layers: Vec<PathBuf>,
    pub at: PathBuf,
}

impl ViewSpec {
    fn words(&self) -> impl Iterator<Item = &OsStr> {
        let own = [OsStr::new(VIEW_ARGUMENT), self.at.as_os_str()];
        own.into_iter().chain(self.layers.iter().map(|layer| layer.as_os_str()))
    }

    /// Returns a program that sees the tree; its arguments are to follow.
    pub fn program(&self, name: &str) -> Program {
        Program::new("/proc/self/exe").args(self.words()).arg(END).arg(name)
    }
}

/// A view that is in use.
#[derive(Debug)]
pub struct View {
    child: Child,
    path: PathBuf,
}

impl View {
    /// Opens a view. It closes with this value, and when we die.
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

    /// Returns where the tree is seen.
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

/// Makes the view that the arguments ask for, and becomes the command that is to see it.
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
    // As it is named, since what lies there is about to be covered.
    let was_there = std::env::current_dir().is_ok_and(|folder| folder == at);
    mount_alone(at, &layers)?;
    if was_there {
        rustix::process::chdir(at)?;
    }
    match command {
        Some([program, arguments @ ..]) => {
            let mut command = bare(program);
            // It keeps the caller's environment, which contains the settings that disable git's programs.
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
    // A room changes the same layers meanwhile.
    forbid_links(tree.as_fd())?;
    Ok(move_mount(&tree, "", rustix::fs::CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Says that the view can be used, and waits until nobody does.
fn stay() -> io::Result<Never> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The end of our output tells that this is all.
    rustix::io::write(rustix::stdio::stdout(), b"ready")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    sys::exit_now(0)
}
