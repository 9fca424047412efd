//! Probes of a service, without blocking.

use super::tree::{self, Listener};
use crate::boot::Adopted;
use crate::spawn::{self, Program, Streams};
use crate::sys;
use hothouse_service::{Found, ProbeAnswer};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How much of an answer is read.
const ANSWER_LIMIT: usize = 16 << 10;

/// How much of an answer is kept for display.
const SHOWN: usize = 400;

/// A running probe.
pub(super) enum Asking {
    Connecting { socket: OwnedFd, to: SocketAddr, http: Option<String> },
    Reading { socket: OwnedFd, answer: Vec<u8> },
    Running { pid: i32, output: Option<OwnedFd>, said: Vec<u8>, failure: Option<OwnedFd> },
}

/// A probe that is still running, or its result.
pub(super) enum Step {
    Asking(Asking),
    Answered(ProbeAnswer),
}

fn bad(problem: impl Into<String>) -> ProbeAnswer {
    ProbeAnswer::bad(Found::Problem(problem.into()))
}

/// Returns the request of an HTTP probe.
pub(super) fn request(path: &str, host: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hothouse-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

/// Probes a port; `http` is the request to send. The listener must be a process of the service.
pub(super) fn ask_port(port: u16, http: Option<String>, keeper: Option<i32>) -> Step {
    let own = keeper.map(tree::below).unwrap_or_default();
    match tree::listener(port, &own) {
        Listener::Nobody => {
            return Step::Answered(ProbeAnswer::bad(Found::NobodyListens { port }));
        }
        Listener::Stranger => {
            return Step::Answered(ProbeAnswer::bad(Found::Stranger { port }));
        }
        Listener::Own => {}
    }
    connect(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), http)
}

/// Checks whether something outside the room serves a port. Does not connect, because that would
/// look like a client.
pub(super) fn ask_served(port: u16) -> Step {
    Step::Answered(match tree::listener(port, &tree::all()) {
        Listener::Nobody => ProbeAnswer::bad(Found::NobodyListens { port }),
        Listener::Stranger => ProbeAnswer::good(Found::Tcp { port }),
        // A process in the room has taken the port.
        Listener::Own => ProbeAnswer::bad(Found::Stranger { port }),
    })
}

fn connect(to: SocketAddr, http: Option<String>) -> Step {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let attempt = || -> Result<OwnedFd, Errno> {
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    };
    match attempt() {
        Ok(socket) => Step::Asking(Asking::Connecting { socket, to, http }),
        Err(error) => refused(to, http, error),
    }
}

/// Tries `::1` next: a service may listen only there, as with Node's `localhost`.
fn refused(to: SocketAddr, http: Option<String>, error: Errno) -> Step {
    match to {
        SocketAddr::V4(_) => {
            connect(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), to.port()), http)
        }
        SocketAddr::V6(_) => {
            let error = io::Error::from(error);
            Step::Answered(bad(format!("port {} refuses: {error}", to.port())))
        }
    }
}

/// Runs a command whose exit is the result.
pub(super) fn ask_command(boot: &Adopted, program: &Program) -> Step {
    let attempt = || -> io::Result<Asking> {
        let (output, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let input = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let second = rustix::io::fcntl_dupfd_cloexec(&end, 3)?;
        let child = spawn::spawn(boot, program, Streams::Three(input, end, second))?;
        Ok(Asking::Running {
            pid: child.pid,
            output: Some(output),
            said: Vec::new(),
            failure: Some(child.failure),
        })
    };
    match attempt() {
        Ok(asking) => Step::Asking(asking),
        Err(error) => Step::Answered(bad(format!("cannot start the probe: {error}"))),
    }
}

impl Asking {
    /// Returns what to wait for. For a command that has closed its output that is nothing: its exit is reaped.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self {
            Self::Connecting { socket, .. } => Some((socket.as_fd(), PollFlags::OUT)),
            Self::Reading { socket, .. } => Some((socket.as_fd(), PollFlags::IN)),
            Self::Running { output, .. } => output.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
        }
    }

    /// Continues after a wait.
    pub(super) fn advance(self, scratch: &mut [u8]) -> Step {
        match self {
            Self::Connecting { socket, to, http } => {
                match rustix::net::sockopt::socket_error(&socket) {
                    Ok(Ok(())) => connected(socket, to.port(), http),
                    Ok(Err(error)) | Err(error) => refused(to, http, error),
                }
            }
            Self::Reading { socket, mut answer } => {
                match rustix::io::read(&socket, &mut *scratch) {
                    Ok(0) => return Step::Answered(judge(&answer, true)),
                    Ok(length) => answer.extend_from_slice(&scratch[..length]),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => {
                        let error = io::Error::from(error);
                        return Step::Answered(bad(format!("reading the answer failed: {error}")));
                    }
                }
                if is_whole(&answer) || answer.len() >= ANSWER_LIMIT {
                    return Step::Answered(judge(&answer, false));
                }
                Step::Asking(Self::Reading { socket, answer })
            }
            Self::Running { pid, output, mut said, failure } => {
                let output = output.filter(|output| collect(output, &mut said, scratch));
                Step::Asking(Self::Running { pid, output, said, failure })
            }
        }
    }

    /// Returns the result of a command that has exited.
    pub(super) fn conclude(self, status: i32, scratch: &mut [u8]) -> ProbeAnswer {
        let Self::Running { output, mut said, failure, .. } = self else {
            return bad("no answer");
        };
        output.as_ref().map(|output| collect(output, &mut said, scratch));
        let said = shown(&said);
        if let Some(hothouse_room_wire::Exit::NotStarted { message, .. }) =
            failure.and_then(spawn::failure_of)
        {
            return bad(message);
        }
        match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
            (true, _) => {
                let colon = if said.is_empty() { "" } else { ": " };
                bad(format!("killed by signal {}{colon}{said}", libc::WTERMSIG(status)))
            }
            (false, 0) => ProbeAnswer::good(Found::Exit { code: 0, said }),
            (false, code) => ProbeAnswer::bad(Found::Exit { code, said }),
        }
    }

    /// Cancels the probe; a command is killed with its children.
    pub(super) fn cancel(&self) -> ProbeAnswer {
        match self {
            Self::Connecting { to, .. } => {
                bad(format!("no connection to port {} in time", to.port()))
            }
            Self::Reading { answer, .. } if answer.is_empty() => {
                bad("connected, but no answer in time")
            }
            Self::Reading { answer, .. }
                if status_of(answer).is_some_and(|status| status >= 400) =>
            {
                judge(answer, false)
            }
            Self::Reading { answer, .. } => {
                bad(format!("the answer was not complete in time: {}", shown(answer)))
            }
            Self::Running { pid, said, .. } => {
                tree::kill_below(*pid);
                let _ = sys::kill(-pid, libc::SIGKILL);
                let _ = sys::kill(*pid, libc::SIGKILL);
                bad(format!("the command did not finish in time: {}", shown(said)))
            }
        }
    }
}

fn connected(socket: OwnedFd, port: u16, http: Option<String>) -> Step {
    let Some(request) = http else {
        return Step::Answered(ProbeAnswer::good(Found::Tcp { port }));
    };
    // A fresh socket takes a request of this size without blocking.
    match rustix::net::send(&socket, request.as_bytes(), SendFlags::NOSIGNAL) {
        Ok(_) => Step::Asking(Asking::Reading { socket, answer: Vec::new() }),
        Err(error) => {
            let error = io::Error::from(error);
            Step::Answered(bad(format!("sending the request failed: {error}")))
        }
    }
}

/// Reads output; returns false at its end.
fn collect(output: &OwnedFd, said: &mut Vec<u8>, scratch: &mut [u8]) -> bool {
    loop {
        match rustix::io::read(output, &mut *scratch) {
            Ok(0) => return false,
            Ok(length) => {
                let room = ANSWER_LIMIT - said.len().min(ANSWER_LIMIT);
                said.extend_from_slice(&scratch[..length.min(room)]);
            }
            Err(Errno::INTR) => {}
            Err(error) => return error == Errno::AGAIN,
        }
    }
}

/// Whether the head and body of an HTTP answer are complete.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    match length {
        Some(length) => answer.len() >= (head + 4).saturating_add(length),
        // A successful answer may never end, so its head is enough. The text of an error is worth waiting for.
        None => status_of(answer).is_some_and(|status| status < 400),
    }
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok())
}

/// Evaluates an HTTP answer by its status.
fn judge(answer: &[u8], ended: bool) -> ProbeAnswer {
    match status_of(answer) {
        Some(status @ 200..=399) => ProbeAnswer::good(Found::Http { status, said: String::new() }),
        Some(status) => {
            let body = answer.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4);
            let said = body.map(|at| shown(&answer[at..])).unwrap_or_default();
            ProbeAnswer::bad(Found::Http { status, said })
        }
        None if ended && answer.is_empty() => bad("the connection was closed without an answer"),
        None => bad(format!("not an HTTP answer: {}", shown(answer))),
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
    let text = text.trim();
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: &str) {
        let ProbeAnswer { healthy, found } = judge(answer.as_bytes(), true);
        assert_eq!(format!("{} {found}", if healthy { "+" } else { "-" }), expected);
    }

    #[test]
    fn the_status_decides() {
        check("HTTP/1.1 200 OK\r\n\r\nhi", "+ http 200");
        check("HTTP/1.0 302 Found\r\n\r\n", "+ http 302");
        check("HTTP/1.1 503 No\r\n\r\nwaiting for\ndb", "- http 503: waiting for db");
        check("HTTP/1.1 404 No\r\n\r\n", "- http 404");
        check("SSH-2.0-x\r\n", "- not an HTTP answer: SSH-2.0-x");
        check("", "- the connection was closed without an answer");
        check("HTTP/1.1 ", "- not an HTTP answer: HTTP/1.1");
    }

    #[test]
    fn an_answer_is_whole_when_its_announced_body_is_there() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!is_whole(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999\r\n\r\nabc"));
    }
}
