//! `sudo` in the room: asks room-init, so nothing in the room needs a setuid bit.

use crate::connection::Connection;
use crate::sys;
use hothouse_room_wire::elevate::ELEVATE_SOCKET;
use hothouse_room_wire::{Elevate, Elevated, Exit, decode};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

const USAGE: &str =
    "usage: sudo [-EHSn] [-u user] [VAR=value ...] [-i | -s | command [argument ...]]";

/// The program that switches from root to another user.
const RUNUSER: &str = "/usr/sbin/runuser";

const FORWARDED: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    keep_environment: bool,
    shell: bool,
    login: bool,
    only_check: bool,
    /// The requested user, if not root.
    user: Option<Vec<u8>>,
    variables: Vec<Vec<u8>>,
    command: Vec<Vec<u8>>,
}

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsString::into_vec).collect();
    let outcome = parse(&arguments).and_then(|wish| match wish.only_check {
        true => Ok(0),
        false => run(wish).map_err(|error| error.to_string()),
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            // If stderr is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "sudo: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the options that scripts use. There is never a password prompt.
fn parse(arguments: &[Vec<u8>]) -> Result<Wish, String> {
    let mut wish = Wish::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_slice() {
            b"--" => {
                wish.command.extend(rest.by_ref().cloned());
            }
            b"-n" | b"-S" | b"-H" | b"-k" | b"-A" | b"-b" | b"--non-interactive" => {}
            b"-E" | b"--preserve-env" => wish.keep_environment = true,
            b"-s" | b"--shell" => wish.shell = true,
            b"-i" | b"--login" => (wish.shell, wish.login) = (true, true),
            b"-v" | b"-K" | b"--validate" => wish.only_check = true,
            b"-u" | b"--user" => wish.user = other_user(rest.next().ok_or(USAGE)?),
            attached if attached.starts_with(b"-u") => wish.user = other_user(&attached[2..]),
            long if long.starts_with(b"--user=") => wish.user = other_user(&long[7..]),
            option if option.starts_with(b"-") => {
                return Err(format!(
                    "unknown option `{}`\n{USAGE}",
                    String::from_utf8_lossy(option)
                ));
            }
            variable if is_variable(variable) => wish.variables.push(variable.to_vec()),
            _ => {
                wish.command.push(argument.clone());
                wish.command.extend(rest.by_ref().cloned());
            }
        }
    }
    if wish.command.is_empty() && !wish.shell && !wish.only_check {
        return Err(USAGE.into());
    }
    Ok(wish)
}

fn other_user(name: &[u8]) -> Option<Vec<u8>> {
    (![&b"root"[..], b"0", b"#0"].contains(&name)).then(|| name.to_vec())
}

/// The user that a command runs as.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    name: Vec<u8>,
    home: Vec<u8>,
}

impl Account {
    fn root() -> Self {
        Self { name: b"root".into(), home: b"/root".into() }
    }

    /// Finds a user by name, or by uid after `#`, in the text of `/etc/passwd`.
    fn find(passwd: &[u8], wanted: &[u8]) -> Option<Self> {
        let fields = passwd
            .split(|byte| *byte == b'\n')
            .map(|line| line.split(|byte| *byte == b':').map(<[u8]>::to_vec).collect::<Vec<_>>());
        let found = fields.filter(|fields| fields.len() == 7).find(|fields| {
            match wanted.strip_prefix(b"#") {
                Some(number) => fields[2] == number,
                None => fields[0] == wanted,
            }
        });
        found.map(|fields| Self { name: fields[0].clone(), home: fields[5].clone() })
    }
}

fn is_variable(text: &[u8]) -> bool {
    let name = text.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.len() < text.len()
        && !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Builds argv: the command itself or a shell that runs it, prefixed with `runuser` unless it runs as root.
fn argv(wish: &Wish, account: &Account) -> Vec<Vec<u8>> {
    let own = own_argv(wish);
    if *account == Account::root() {
        return own;
    }
    let other = [RUNUSER.as_bytes(), b"-u", &account.name, b"--"].map(<[u8]>::to_vec);
    other.into_iter().chain(own).collect()
}

fn own_argv(wish: &Wish) -> Vec<Vec<u8>> {
    if !wish.shell {
        return wish.command.clone();
    }
    let mut argv = vec![b"/bin/bash".to_vec()];
    if wish.login {
        argv.push(b"-l".to_vec());
    }
    if !wish.command.is_empty() {
        argv.extend([b"-c".to_vec(), wish.command.join(&b' ')]);
    }
    argv
}

/// Builds the environment for root or another user from the caller's.
fn environment(
    wish: &Wish,
    account: &Account,
    caller: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<Vec<u8>> {
    let fixed: [(&[u8], &[u8]); 5] = [
        (b"HOME", &account.home),
        (b"USER", &account.name),
        (b"LOGNAME", &account.name),
        (b"SUDO_USER", b"agent"),
        (b"SUDO_UID", b"1000"),
    ];
    let passes = |name: &[u8]| {
        let always = [&b"PATH"[..], b"TERM", b"LANG", b"COLORTERM", b"TZ", b"DEBIAN_FRONTEND"]
            .contains(&name);
        always || name.starts_with(b"LC_") || wish.keep_environment
    };
    let own = fixed.map(|(name, value)| [name, b"=", value].concat());
    let kept = caller.filter(|(name, _)| {
        passes(name.as_bytes()) && !fixed.iter().any(|(own, _)| *own == name.as_bytes())
    });
    let kept = kept.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    own.into_iter().chain(kept).chain(wish.variables.iter().cloned()).collect()
}

fn run(wish: Wish) -> io::Result<u8> {
    let signals = sys::signal_descriptor(&FORWARDED)?;
    let account = wish.user.as_deref().map_or_else(|| Ok(Account::root()), account)?;
    let home = || OsString::from_vec(account.home.clone()).into();
    let folder = if wish.login { home() } else { std::env::current_dir()? };
    let request = Elevate::Run {
        argv: argv(&wish, &account),
        env: environment(&wish, &account, std::env::vars_os()),
        cwd: folder.into_os_string().into_vec(),
    };
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let stdio = stdio.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3));
    let stdio = stdio.into_iter().collect::<Result<Vec<OwnedFd>, _>>()?;
    let mut connection = Connection::new(dial()?);
    let gone = |_| io::Error::other("room-init does not answer");
    connection.send(&request, stdio).map_err(gone)?;
    let mut scratch = vec![0; 16 << 10];
    loop {
        wait(&connection, &signals)?;
        while let Some(arrived) = sys::read_signal(&signals) {
            connection.send(&Elevate::Signal(arrived.signal), vec![]).map_err(gone)?;
        }
        connection.flush().map_err(gone)?;
        connection.receive(&mut scratch).map_err(gone)?;
        if let Some(arrival) = connection.next_arrival().map_err(gone)? {
            return conclude(decode(&arrival.body).map_err(io::Error::other)?);
        }
    }
}

/// Looks up a user of the room.
fn account(name: &[u8]) -> io::Result<Account> {
    let mut passwd = Vec::new();
    std::fs::File::open("/etc/passwd")?.read_to_end(&mut passwd)?;
    let unknown = || format!("unknown user `{}`", String::from_utf8_lossy(name));
    Account::find(&passwd, name).ok_or_else(|| io::Error::other(unknown()))
}

fn dial() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(ELEVATE_SOCKET)?)?;
    Ok(socket)
}

fn wait(connection: &Connection, signals: &OwnedFd) -> io::Result<()> {
    let socket = connection.fd();
    let mut entries = [
        PollFd::from_borrowed_fd(socket, connection.interest()),
        PollFd::new(signals, PollFlags::IN),
    ];
    match rustix::event::poll(&mut entries, None) {
        Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn conclude(answer: Elevated) -> io::Result<u8> {
    match answer {
        Elevated::Refused(reason) => Err(io::Error::other(reason)),
        Elevated::Exited(Exit::Code(code)) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        Elevated::Exited(Exit::Signal(signal)) => Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        Elevated::Exited(Exit::NotStarted { code, message }) => {
            writeln!(io::stderr(), "sudo: {message}")?;
            Ok(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(line: &str) -> Result<Wish, String> {
        parse(&line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn words(list: &[Vec<u8>]) -> String {
        String::from_utf8(list.join(&b' ')).unwrap()
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let wish = wish("-n -E A=1 apt-get -y install jq").unwrap();
        assert!(wish.keep_environment);
        assert_eq!(words(&wish.variables), "A=1");
        assert_eq!(words(&wish.command), "apt-get -y install jq");
    }

    #[test]
    fn a_login_shell_runs_the_command_line() {
        let argv = |line| words(&argv(&wish(line).unwrap(), &Account::root()));
        assert_eq!(argv("-i id -u"), "/bin/bash -l -c id -u");
        assert_eq!(argv("-s"), "/bin/bash");
    }

    #[test]
    fn an_unknown_option_is_refused() {
        assert!(wish("--frobnicate ls").is_err());
        assert!(wish("").is_err());
        assert!(wish("-u").is_err());
        assert_eq!(wish("-u root id").unwrap().user, None);
    }

    #[test]
    fn another_user_is_made_of_root() {
        let passwd = b"root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\nodd\n";
        let postgres = Account::find(passwd, b"postgres").unwrap();
        assert_eq!(Account::find(passwd, b"#101").unwrap(), postgres);
        assert_eq!(Account::find(passwd, b"nobody"), None);
        assert_eq!(Account::find(passwd, b"root").unwrap(), Account::root());
        for line in ["-u postgres psql -l", "-upostgres psql -l", "--user=postgres -n psql -l"] {
            let wish = wish(line).unwrap();
            assert_eq!(wish.user.as_deref(), Some(&b"postgres"[..]));
            assert_eq!(words(&argv(&wish, &postgres)), "/usr/sbin/runuser -u postgres -- psql -l");
            let env = words(&environment(&wish, &postgres, std::iter::empty()));
            assert!(env.contains("HOME=/var/lib/postgresql USER=postgres"), "{env}");
        }
    }

    #[test]
    fn root_gets_its_own_home_and_none_of_the_callers_secrets() {
        let caller = [("HOME", "/home/agent"), ("TOKEN", "x"), ("PATH", "/bin"), ("LC_ALL", "C")];
        let caller = || caller.iter().map(|(name, value)| (name.into(), value.into()));
        let plain = words(&environment(&wish("id").unwrap(), &Account::root(), caller()));
        assert!(
            plain.contains("HOME=/root")
                && plain.contains("PATH=/bin")
                && plain.contains("LC_ALL=C")
        );
        assert!(!plain.contains("TOKEN"));
        let kept = environment(&wish("-E id").unwrap(), &Account::root(), caller());
        assert!(words(&kept).contains("TOKEN=x"));
    }
}
