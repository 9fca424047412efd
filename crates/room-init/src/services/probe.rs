//! Questions to a service, asked without waiting.

use super::tree::{self, Listener};
use crate::boot::Adopted;
use crate::spawn::{self, Program, Streams};
use crate::sys;
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

/// How much of an answer is kept for people.
const SHOWN: usize = 400;

/// A question that is being asked.
pub(super) enum Asking {
    Connecting { socket: OwnedFd, to: SocketAddr, http: Option<String> },
    Reading { socket: OwnedFd, answer: Vec<u8> },
    Running { pid: i32, output: Option<OwnedFd>, said: Vec<u8>, failure: Option<OwnedFd> },
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) healthy: bool,
    pub(super) text: String,
}

impl Answer {
    fn good(text: impl Into<String>) -> Self {
        Self { healthy: true, text: text.into() }
    }

    fn bad(text: impl Into<String>) -> Self {
        Self { healthy: false, text: text.into() }
    }
}

/// A question that goes on, or its answer.
pub(super) enum Step {
    Asking(Asking),
    Answered(Answer),
}

/// Returns the request of an HTTP probe.
pub(super) fn request(path: &str, host: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hothouse-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

/// Asks a port; `http` is the request to send. Who answers must be one of the service's own processes.
pub(super) fn ask_port(port: u16, http: Option<String>, keeper: Option<i32>) -> Step {
    let own = keeper.map(tree::below).unwrap_or_default();
    match tree::listener(port, &own) {
        Listener::Nobody => {
            return Step::Answered(Answer::bad(format!("nothing listens on port {port}")));
        }
        Listener::Stranger => {
            let text = format!("port {port} is held by a process that is not the service's own");
            return Step::Answered(Answer::bad(text));
        }
        Listener::Own => {}
    }
    connect(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), http)
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

/// A service may listen on `::1` alone, as Node's `localhost` does.
fn refused(to: SocketAddr, http: Option<String>, error: Errno) -> Step {
    match to {
        SocketAddr::V4(_) => {
            connect(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), to.port()), http)
        }
        SocketAddr::V6(_) => {
            let error = io::Error::from(error);
            Step::Answered(Answer::bad(format!("port {} refuses: {error}", to.port())))
        }
    }
}

/// Runs a command whose end is the answer.
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
        Err(error) => Step::Answered(Answer::bad(format!("cannot start the probe: {error}"))),
    }
}

impl Asking {
    /// Returns what to wait for; a command that has closed its output is waited for by its end.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self {
            Self::Connecting { socket, .. } => Some((socket.as_fd(), PollFlags::OUT)),
            Self::Reading { socket, .. } => Some((socket.as_fd(), PollFlags::IN)),
            Self::Running { output, .. } => output.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
        }
    }

    /// Moves on after a wait.
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
                        return Step::Answered(Answer::bad(format!("the answer broke: {error}")));
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

    /// Answers for a command that has ended.
    pub(super) fn conclude(self, status: i32, scratch: &mut [u8]) -> Answer {
        let Self::Running { output, mut said, failure, .. } = self else {
            return Answer::bad("no answer");
        };
        output.as_ref().map(|output| collect(output, &mut said, scratch));
        let said = shown(&said);
        let told = |what: String| {
            if said.is_empty() { what } else { format!("{what}: {said}") }
        };
        if let Some(hothouse_room_wire::Exit::NotStarted { message, .. }) =
            failure.and_then(spawn::failure_of)
        {
            return Answer::bad(message);
        }
        match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
            (true, _) => Answer::bad(told(format!("ended by signal {}", libc::WTERMSIG(status)))),
            (false, 0) => Answer::good(told("exit 0".into())),
            (false, code) => Answer::bad(told(format!("exit {code}"))),
        }
    }

    /// Gives up; a command is killed with what it started.
    pub(super) fn cancel(&self) -> Answer {
        match self {
            Self::Connecting { to, .. } => {
                Answer::bad(format!("no connection to port {} in time", to.port()))
            }
            Self::Reading { answer, .. } if answer.is_empty() => {
                Answer::bad("connected, but no answer in time")
            }
            Self::Reading { answer, .. }
                if status_of(answer).is_some_and(|status| status >= 400) =>
            {
                judge(answer, false)
            }
            Self::Reading { answer, .. } => {
                Answer::bad(format!("the answer did not end in time: {}", shown(answer)))
            }
            Self::Running { pid, said, .. } => {
                tree::kill_below(*pid);
                let _ = sys::kill(-pid, libc::SIGKILL);
                let _ = sys::kill(*pid, libc::SIGKILL);
                Answer::bad(format!("the command did not end in time: {}", shown(said)))
            }
        }
    }
}

fn connected(socket: OwnedFd, port: u16, http: Option<String>) -> Step {
    let Some(request) = http else {
        return Step::Answered(Answer::good(format!("tcp {port} open")));
    };
    // A fresh socket takes a request of this size at once.
    match rustix::net::send(&socket, request.as_bytes(), SendFlags::NOSIGNAL) {
        Ok(_) => Step::Asking(Asking::Reading { socket, answer: Vec::new() }),
        Err(error) => {
            let error = io::Error::from(error);
            Step::Answered(Answer::bad(format!("the question broke off: {error}")))
        }
    }
}

/// Takes what was said; false when no more can come.
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

/// Returns whether head and announced body of an HTTP answer are there.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    match length {
        Some(length) => answer.len() >= (head + 4).saturating_add(length),
        // A good answer may go on for ever; what an error says is worth the wait.
        None => status_of(answer).is_some_and(|status| status < 400),
    }
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok())
}

/// Judges an HTTP answer by its status.
fn judge(answer: &[u8], ended: bool) -> Answer {
    match status_of(answer) {
        Some(status @ 200..=399) => Answer::good(format!("http {status}")),
        Some(status) => {
            let body = answer.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4);
            let body = body.map(|at| shown(&answer[at..])).unwrap_or_default();
            let colon = if body.is_empty() { "" } else { ": " };
            Answer::bad(format!("http {status}{colon}{body}"))
        }
        None if ended && answer.is_empty() => Answer::bad("the connection was closed unanswered"),
        None => Answer::bad(format!("no HTTP answer: {}", shown(answer))),
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
        let Answer { healthy, text } = judge(answer.as_bytes(), true);
        assert_eq!(format!("{} {text}", if healthy { "+" } else { "-" }), expected);
    }

    #[test]
    fn the_status_decides() {
        check("HTTP/1.1 200 OK\r\n\r\nhi", "+ http 200");
        check("HTTP/1.0 302 Found\r\n\r\n", "+ http 302");
        check("HTTP/1.1 503 No\r\n\r\nwaiting for\ndb", "- http 503: waiting for db");
        check("HTTP/1.1 404 No\r\n\r\n", "- http 404");
        check("SSH-2.0-x\r\n", "- no HTTP answer: SSH-2.0-x");
        check("", "- the connection was closed unanswered");
        check("HTTP/1.1 ", "- no HTTP answer: HTTP/1.1");
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
