//! A child from fork to exec: it enters the room, switches to its user, then runs the program.

use crate::boot::Adopted;
use crate::sys::{self, Fork};
use hothouse_room_wire::{Exit, RoomUser};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType};
use std::ffi::{CStr, CString};
use std::io::{self, Read};

/// The uid and gid of `agent`.
pub(crate) const AGENT: u32 = 1000;

const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// A command without inner NUL bytes.
pub(crate) struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    user: RoomUser,
}

/// The child's ends of its stdio.
pub(crate) enum Streams {
    Three(OwnedFd, OwnedFd, OwnedFd),
    Terminal(OwnedFd),
}

/// A child before exec; `failure` is readable if it failed before exec.
pub(crate) struct Child {
    pub(crate) pid: i32,
    pub(crate) failure: OwnedFd,
}

impl Program {
    /// Checks a command; returns `None` if it is empty or contains NUL bytes.
    pub(crate) fn new(
        argv: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        cwd: Vec<u8>,
        user: RoomUser,
    ) -> Option<Self> {
        let texts = |list: Vec<Vec<u8>>| -> Option<Vec<CString>> {
            list.into_iter().map(|text| CString::new(text).ok()).collect()
        };
        let argv = texts(argv)?;
        if argv.is_empty() {
            return None;
        }
        Some(Self { argv, env: texts(env)?, cwd: CString::new(cwd).ok()?, user })
    }

    pub(crate) fn user(&self) -> RoomUser {
        self.user
    }
}

/// Starts a child in the room.
pub(crate) fn spawn(boot: &Adopted, program: &Program, streams: Streams) -> io::Result<Child> {
    let (failure, report) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match sys::fork()? {
        Fork::Parent(pid) => Ok(Child { pid, failure }),
        Fork::Child => become_or_report(boot, program, &streams, &report),
    }
}

/// Runs in the child: executes the program, or reports why not and exits.
pub(crate) fn become_or_report(
    boot: &Adopted,
    program: &Program,
    streams: &Streams,
    report: &OwnedFd,
) -> ! {
    let (code, message) = become_program(boot, program, streams);
    let report_text = [&[code], message.as_bytes()].concat();
    // The parent reads it after the child has exited; if the report is lost, the exit code remains.
    let _ = rustix::io::write(report, &report_text);
    sys::exit_now(i32::from(code))
}

/// Reads the report of a child that exited.
pub(crate) fn failure_of(child: OwnedFd) -> Option<Exit> {
    let mut bytes = Vec::new();
    std::fs::File::from(child).take(64 << 10).read_to_end(&mut bytes).ok()?;
    let (code, message) = bytes.split_first()?;
    Some(Exit::NotStarted {
        code: i32::from(*code),
        message: String::from_utf8_lossy(message).into_owned(),
    })
}

/// Runs in the child; returns only on failure.
fn become_program(boot: &Adopted, program: &Program, streams: &Streams) -> (u8, String) {
    if let Err((step, error)) = enter(boot, program, streams) {
        return (NOT_EXECUTABLE, format!("cannot {step}: {error}"));
    }
    let folder = String::from_utf8_lossy(program.cwd.as_bytes()).into_owned();
    if let Err(error) = rustix::process::chdir(program.cwd.as_c_str()) {
        return (NOT_EXECUTABLE, format!("cannot enter folder `{folder}`: {error}"));
    }
    run(program)
}

type Step = (&'static str, Errno);

fn enter(boot: &Adopted, program: &Program, streams: &Streams) -> Result<(), Step> {
    let step = |name: &'static str| move |error: Errno| (name, error);
    // Once it is in the room's user namespace the room's root could trace it, and it still has our
    // memory and descriptors.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(step("close its memory"))?;
    sys::reset_signals();
    rustix::process::setsid().map_err(step("start a session"))?;
    connect(streams).map_err(step("connect its streams"))?;
    for group in &boot.cgroups {
        rustix::io::write(group, b"0").map_err(step("join its cgroup"))?;
    }
    // The order matters: the room's user namespace grants the right to enter its mount namespace;
    // ids are set last, because that drops the right.
    let user = Some(LinkNameSpaceType::User);
    let mount = Some(LinkNameSpaceType::Mount);
    let enter = |fd: &OwnedFd, kind| {
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(fd), kind)
    };
    enter(&boot.user_namespace, user).map_err(step("enter the room"))?;
    enter(&boot.mount_namespace, mount).map_err(step("enter the room's files"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let dropped = match program.user {
        RoomUser::Agent => u64::MAX,
        RoomUser::Root => boot.dropped_capabilities,
    };
    bound_capabilities(dropped).map_err(step("drop capabilities"))?;
    bound_descriptors().map_err(step("bound its descriptors"))?;
    let id = match program.user {
        RoomUser::Agent => AGENT,
        RoomUser::Root => 0,
    };
    if boot.has_root {
        // The room's root must also be able to write to a worktree whose top folder belongs to the
        // host's root and gives `agent` access only through its group.
        let groups = [Gid::from_raw(id), Gid::from_raw(AGENT)];
        rustix::thread::set_thread_groups(&groups).map_err(step("set groups"))?;
    }
    let gid = Gid::from_raw(id);
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(step("set the group"))?;
    let uid = Uid::from_raw(id);
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(step("set the user"))?;
    if program.user == RoomUser::Agent {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).map_err(step("drop capabilities"))?;
    }
    Ok(())
}

fn connect(streams: &Streams) -> Result<(), Errno> {
    use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
    let (stdin, stdout, stderr) = match streams {
        Streams::Three(stdin, stdout, stderr) => (stdin, stdout, stderr),
        Streams::Terminal(slave) => (slave, slave, slave),
    };
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    match streams {
        Streams::Terminal(_) => rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()),
        Streams::Three(..) => Ok(()),
    }
}

/// The most descriptors that a process of the room may have.
const DESCRIPTORS: u64 = 65_536;

/// Limits a command's descriptors below our own.
///
/// The kernel counts descriptors that were sent over a socket and not yet received per uid, and a
/// process may send more only while that count is below its own descriptor limit. With a single uid
/// the count includes us, the daemon and all other rooms.
fn bound_descriptors() -> Result<(), Errno> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let own = current.or(maximum).unwrap_or(u64::MAX);
    let most = Some((own - own / 16).min(DESCRIPTORS));
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })
}

fn bound_capabilities(dropped: u64) -> Result<(), Errno> {
    for bit in 0..64 {
        if dropped & (1 << bit) == 0 {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << bit,
        )) {
            // Past the last capability that this kernel knows.
            Err(Errno::INVAL) => break,
            other => other?,
        }
    }
    Ok(())
}

/// Finds and executes the program as a shell would.
fn run(program: &Program) -> (u8, String) {
    let name = program.argv[0].as_bytes();
    let shown = String::from_utf8_lossy(name).into_owned();
    if name.is_empty() {
        return (NOT_FOUND, "the empty command was not found".into());
    }
    if name.contains(&b'/') {
        let error = execute(&program.argv[0], program);
        return verdict(&shown, &error, exists(&program.argv[0]));
    }
    let mut denied = None;
    for candidate in candidates(name, search_path(&program.env)) {
        let error = execute(&candidate, program);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => denied = Some(error),
            _ => return verdict(&shown, &error, true),
        }
    }
    match denied {
        Some(error) => verdict(&shown, &error, true),
        None => (NOT_FOUND, format!("{shown}: command not found")),
    }
}

fn execute(path: &CString, program: &Program) -> io::Error {
    let error = sys::execve(path, &program.argv, &program.env);
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    // A script without `#!`: POSIX says the shell runs it.
    let shell = c"/bin/sh".to_owned();
    let argv = [shell.clone(), path.clone()].into_iter().chain(program.argv[1..].iter().cloned());
    sys::execve(&shell, &argv.collect::<Vec<_>>(), &program.env)
}

fn exists(path: &CStr) -> bool {
    rustix::fs::stat(path).is_ok()
}

fn verdict(shown: &str, error: &io::Error, exists: bool) -> (u8, String) {
    match error.raw_os_error() {
        Some(libc::ENOENT) if exists => {
            (NOT_FOUND, format!("{shown}: its interpreter was not found"))
        }
        Some(libc::ENOENT | libc::ENOTDIR) => (NOT_FOUND, format!("{shown}: command not found")),
        Some(libc::EACCES) => (NOT_EXECUTABLE, format!("{shown}: permission denied")),
        Some(libc::E2BIG) => (NOT_EXECUTABLE, format!("{shown}: the argument list is too long")),
        _ => (NOT_EXECUTABLE, format!("{shown}: {error}")),
    }
}

fn search_path(env: &[CString]) -> &[u8] {
    let value = env.iter().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    value.unwrap_or(b"/usr/local/bin:/usr/bin:/bin")
}

fn candidates<'a>(name: &'a [u8], path: &'a [u8]) -> impl Iterator<Item = CString> + 'a {
    path.split(|byte| *byte == b':').filter_map(move |folder| {
        let folder = if folder.is_empty() { b"." } else { folder };
        CString::new([folder, b"/", name].concat()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_command_with_a_zero_byte_is_not_a_program() {
        let program =
            |argv: &[&str]| Program::new(texts(argv), vec![], b"/".to_vec(), RoomUser::Agent);
        assert!(program(&["true"]).is_some());
        assert!(program(&["tr\0ue"]).is_none());
        assert!(program(&[]).is_none());
    }

    #[test]
    fn names_are_looked_up_along_the_path() {
        let env = [c"A=1".to_owned(), c"PATH=/a::/b".to_owned()];
        let found: Vec<CString> = candidates(b"ls", search_path(&env)).collect();
        assert_eq!(found, [c"/a/ls".to_owned(), c"./ls".to_owned(), c"/b/ls".to_owned()]);
    }

    #[test]
    fn errors_become_the_codes_a_shell_would_give() {
        let code = |errno, exists| verdict("x", &io::Error::from_raw_os_error(errno), exists).0;
        assert_eq!(code(libc::ENOENT, false), 127);
        assert_eq!(code(libc::ENOENT, true), 127);
        assert_eq!(code(libc::EACCES, true), 126);
        assert_eq!(code(libc::E2BIG, true), 126);
    }
}
