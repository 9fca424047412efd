//! How the daemon and its rooms survive the end of a login session.
//!
//! The group of a login by ssh belongs to root, so rooms started there have no limits. The daemon
//! asks the user's systemd to move it into a scope of its own, where rooms do have limits. But
//! systemd ends everything there once the user's last session has ended, while processes of a
//! session stay (logind's default). So a small process stays behind in the session. It keeps the
//! session open, and with it the user's systemd, until the daemon ends.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use rustix::process::geteuid;

use crate::{
    command::{Program, Talker},
    files, groups,
    relay::Pipes,
};

/// The hidden subcommand under which a program must call [`stay_main`].
pub const STAY_ARGUMENT: &str = "stay-in-session";

/// Where systemd mounts the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// How long the user's systemd may take to move us.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that stays in the login session. It ends when this is dropped, and when we die.
#[derive(Debug)]
pub struct Stay {
    _talker: Talker,
    _pipes: Pipes,
}

/// What to do about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    No,
    /// Leave it.
    Leave,
    /// Leave it, but keep it open.
    LeaveAndKeep,
}

/// Decides by our own group, which may be that of a session. Another user's session, as after `su`,
/// cannot keep our systemd running; only lingering does. What a system service started stays where
/// its administrator put it.
fn decide(user: u32, group: &str, lingers: bool) -> Move {
    match groups::session_of(group) {
        Some(owner) if owner == user && !lingers => Move::LeaveAndKeep,
        Some(_) if lingers => Move::Leave,
        _ => Move::No,
    }
}

/// Moves this process to where it may create control groups, if it is in a login session. Returns
/// the process that keeps the session open, if one is needed. Does nothing without systemd.
pub fn leave_session_group() -> io::Result<Option<Stay>> {
    let user = geteuid().as_raw();
    let chosen = would_move(&own_group(), user);
    if chosen == Move::No {
        return Ok(None);
    }
    let stay = match chosen {
        Move::LeaveAndKeep => Some(stay()?),
        _ => None,
    };
    ask_for_scope(user)?;
    Ok(stay)
}

/// Whether a daemon started from this process would move, and its rooms have limits.
pub fn will_leave_session_group() -> bool {
    would_move(&own_group(), geteuid().as_raw()) != Move::No
}

fn would_move(group: &str, user: u32) -> Move {
    let point = Path::new(GROUPS);
    let found = |group: &str| groups::delegated(point, &groups::folder(point, group));
    let manager = || found(&groups::of_user_manager(user));
    if user == 0
        || found(group).is_some()
        || manager().is_none_or(|found| found.controllers.is_empty())
        || !files::exists(&runtime(user).join("bus"))
    {
        return Move::No;
    }
    decide(user, group, lingers(user))
}

/// Whether a user's systemd keeps running without a session.
pub fn lingers(user: u32) -> bool {
    let passwd = files::read_text(Path::new("/etc/passwd")).unwrap_or_default();
    let name = crate::probe::user_name(&passwd, user);
    name.is_some_and(|name| files::exists(&Path::new("/var/lib/systemd/linger").join(name)))
}

/// Whether logind ends all processes of a session with it.
pub fn sessions_take_all() -> bool {
    if !Path::new("/run/systemd/system").exists() {
        return false;
    }
    let property = ["org.freedesktop.login1.Manager", "KillUserProcesses"];
    let said = Program::new("busctl")
        .args(["get-property", "org.freedesktop.login1", "/org/freedesktop/login1"])
        .args(property)
        .output_within(PATIENCE);
    said.is_ok_and(|said| said.trim_ascii() == b"b true")
}

/// Whether a daemon has a process that keeps its session open.
pub fn keeps_session(daemon: u32) -> bool {
    let children =
        files::read_text(&PathBuf::from(format!("/proc/{daemon}/task/{daemon}/children")));
    let children = children.unwrap_or_default();
    children.split_whitespace().any(|child| {
        let text = files::read_text(&PathBuf::from(format!("/proc/{child}/cgroup")));
        groups::group_of(&text.unwrap_or_default()).and_then(groups::session_of).is_some()
    })
}

fn own_group() -> String {
    let text = files::read_text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    groups::group_of(&text).unwrap_or_default().to_owned()
}

fn runtime(user: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{user}"))
}

fn stay() -> io::Result<Stay> {
    let program = Program::new("/proc/self/exe").arg(STAY_ARGUMENT);
    let (talker, pipes) = program.converse().map_err(io::Error::other)?;
    Ok(Stay { _talker: talker, _pipes: pipes })
}

/// Waits until the daemon has exited. For the hidden argument [`STAY_ARGUMENT`].
pub fn stay_main() -> ExitCode {
    crate::process::leave_session();
    io::copy(&mut io::stdin(), &mut io::sink()).ok();
    ExitCode::SUCCESS
}

/// Asks for a scope that contains this process, and waits until it has been moved.
fn ask_for_scope(user: u32) -> io::Result<()> {
    let before = own_group();
    Program::new("busctl")
        .args(scope_call(std::process::id()))
        .env("XDG_RUNTIME_DIR", runtime(user))
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .output_within(PATIENCE)
        .map_err(io::Error::other)?;
    let begun = Instant::now();
    while own_group() == before {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "systemd did not move the daemon"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Returns the arguments with which `busctl` calls `StartTransientUnit`
/// (org.freedesktop.systemd1(5)).
fn scope_call(pid: u32) -> Vec<String> {
    let call = "--user --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1";
    let method = "org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv))";
    let properties = format!(
        "4 Description s Hothouse PIDs au 1 {pid} Delegate b true CollectMode s inactive-or-failed"
    );
    let text = format!("{call} {method} hothouse-{pid}.scope fail {properties} 0");
    text.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_in_a_login_session_moves() {
        let own = "/user.slice/user-1000.slice/session-4.scope";
        let roots = "/user.slice/user-0.slice/session-1.scope";
        for (group, lingers, expected) in [
            (own, false, Move::LeaveAndKeep),
            (own, true, Move::Leave),
            // `su`: root's session keeps root's systemd running, not ours.
            (roots, false, Move::No),
            (roots, true, Move::Leave),
            ("/system.slice/cron.service", true, Move::No),
            ("/", true, Move::No),
        ] {
            assert_eq!(decide(1000, group, lingers), expected, "{group} {lingers}");
        }
    }

    #[test]
    fn without_systemd_nothing_moves() {
        assert_eq!(would_move("/", geteuid().as_raw()), Move::No);
    }

    #[test]
    fn the_call_has_as_many_words_as_its_signature_wants() {
        let words = scope_call(42);
        let at = words.iter().position(|word| word == "ssa(sv)a(sa(sv))").unwrap();
        let arguments = &words[at + 1..];
        assert_eq!(arguments[..3], ["hothouse-42.scope", "fail", "4"]);
        // Name, type and value of three properties; one of them has an extra word for the array's length.
        assert_eq!(arguments.len(), 3 + 4 * 3 + 1 + 1);
        assert_eq!(arguments.last().unwrap(), "0");
    }
}
