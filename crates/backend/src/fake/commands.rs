//! The commands of fake rooms: plain children of this process, with the host's files and network.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, Command, ExitStatus, Stdio as ChildStdio},
};

use hothouse_host::Program;
use tokio::sync::watch;

use crate::connection::{
    CallRefusal, CallRefusalKind, ExecId, ExecRecord, ExecSpec, ExecStreams, Exit, RoomUser, Stdio,
};

/// The commands of one room, running or ended.
#[derive(Debug, Default)]
pub(super) struct Commands(BTreeMap<ExecId, Started>);

#[derive(Debug)]
struct Started {
    /// `None` if it never ran.
    pid: Option<u32>,
    service: Option<String>,
    // waiting thread --exit--> callers
    exit_rx: watch::Receiver<Option<Exit>>,
}

impl Started {
    fn exit(&self) -> Option<Exit> {
        self.exit_rx.borrow().clone()
    }
}

pub(super) fn refused(kind: CallRefusalKind, message: impl Into<String>) -> CallRefusal {
    CallRefusal { kind, message: message.into(), errno: None }
}

impl Commands {
    pub(super) fn start(&mut self, spec: ExecSpec) -> Result<ExecStreams, CallRefusal> {
        if self.0.contains_key(&spec.id) {
            return Err(refused(CallRefusalKind::BadExec, "the name is taken"));
        }
        if spec.user == RoomUser::Root {
            return Err(refused(CallRefusalKind::NoRoot, "the room has no root"));
        }
        if spec.stdio != Stdio::Pipes {
            return Err(refused(CallRefusalKind::System, "the room has pipes only"));
        }
        let (exit_tx, exit_rx) = watch::channel(None);
        let (id, service) = (spec.id.clone(), spec.service.clone());
        let (pid, streams) = match spawn(&spec) {
            Ok(mut child) => {
                let (pid, streams) = (child.id(), take_streams(&mut child));
                std::thread::spawn(move || exit_tx.send(child.wait().ok().map(exit_of)));
                (Some(pid), streams)
            }
            Err(error) => {
                let not_found = error.kind() == io::ErrorKind::NotFound;
                let code = if not_found { 127 } else { 126 };
                exit_tx.send_replace(Some(Exit::NotStarted { code, message: error.to_string() }));
                (None, silence())
            }
        };
        self.0.insert(id, Started { pid, service, exit_rx });
        streams.map_err(|error| refused(CallRefusalKind::System, error.to_string()))
    }

    /// Returns a receiver for the end of a command.
    pub(super) fn end_of(&self, id: &ExecId) -> Result<watch::Receiver<Option<Exit>>, CallRefusal> {
        Ok(self.find(id)?.exit_rx.clone())
    }

    pub(super) fn signal(&self, id: &ExecId, signal: i32) -> Result<(), CallRefusal> {
        self.find(id)?;
        self.signal_running(signal, |known| known == id);
        Ok(())
    }

    /// Signals all running commands.
    pub(super) fn signal_all(&self, signal: i32) {
        self.signal_running(signal, |_| true);
    }

    pub(super) fn records(&self) -> Vec<ExecRecord> {
        let record = |(id, known): (&ExecId, &Started)| ExecRecord {
            id: id.clone(),
            pid: known.pid.and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
            service: known.service.clone(),
            terminal: false,
            exit: known.exit(),
        };
        self.0.iter().map(record).collect()
    }

    fn find(&self, id: &ExecId) -> Result<&Started, CallRefusal> {
        let known = self.0.get(id);
        known.ok_or_else(|| refused(CallRefusalKind::UnknownExec, format!("no command `{}`", id.0)))
    }

    fn signal_running(&self, signal: i32, wanted: impl Fn(&ExecId) -> bool) {
        let running = self.0.iter().filter(|(id, known)| wanted(id) && known.exit().is_none());
        for pid in running.filter_map(|(_, known)| known.pid) {
            // The whole group, as in a real room. A group that has just ended needs no signal.
            let script = format!("kill -s {signal} -- -{pid}");
            Program::new("/bin/sh").args(["-c", &script]).run().ok();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "all that the child inherits is set right here")]
fn spawn(spec: &ExecSpec) -> io::Result<Child> {
    let text = OsStr::from_bytes;
    let (name, arguments) = spec.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let variables = spec.env.iter().filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    });
    Command::new(text(name))
        .args(arguments.iter().map(|word| text(word)))
        .env_clear()
        .envs(variables)
        .current_dir(text(&spec.cwd))
        .process_group(0)
        .stdin(ChildStdio::piped())
        .stdout(ChildStdio::piped())
        .stderr(ChildStdio::piped())
        .spawn()
}

fn take_streams(child: &mut Child) -> io::Result<ExecStreams> {
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(ExecStreams::Pipes {
            stdin: stdin.into(),
            stdout: stdout.into(),
            stderr: stderr.into(),
        }),
        _ => Err(io::Error::other("the child has no pipes")),
    }
}

/// Returns the pipes of a command that never ran.
fn silence() -> io::Result<ExecStreams> {
    let ended = || -> io::Result<OwnedFd> { Ok(io::pipe()?.0.into()) };
    Ok(ExecStreams::Pipes { stdin: io::pipe()?.1.into(), stdout: ended()?, stderr: ended()? })
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
