//! One command: its process, streams and exit.

use crate::output::{Kind, Output};
use crate::spawn;
use crate::terminal::Terminal;
use hothouse_room_wire::{ExecId, ExecRecord, Exit};
use rustix::fd::OwnedFd;

/// A command that is running, or has ended and is still recorded.
pub(crate) struct Exec {
    pub(crate) id: ExecId,
    pub(crate) pid: i32,
    pub(crate) service: Option<String>,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) exit: Option<Exit>,
    /// The waiters for the exit, each by connection and request.
    pub(crate) waiters: Vec<(u32, u32)>,
    /// The connection of the `sudo` that requested this command.
    pub(crate) elevated_for: Option<u32>,
    /// Whether its exit was reported.
    pub(crate) delivered: bool,
    failure: Option<OwnedFd>,
}

impl Exec {
    pub(crate) fn new(id: ExecId, service: Option<String>, child: spawn::Child) -> Self {
        Self {
            id,
            pid: child.pid,
            service,
            terminal: None,
            outputs: Vec::new(),
            exit: None,
            waiters: Vec::new(),
            elevated_for: None,
            delivered: false,
            failure: Some(child.failure),
        }
    }

    pub(crate) fn add_output(&mut self, source: OwnedFd, kind: Kind) {
        self.outputs.push(Output::new(source, kind));
    }

    /// Records how the process exited.
    pub(crate) fn ended(&mut self, status: i32) {
        let failure = self.failure.take().and_then(spawn::failure_of);
        self.exit = Some(failure.unwrap_or_else(|| exit_of(status)));
    }

    /// Returns how it exited, once all its output has been delivered.
    pub(crate) fn settled_exit(&mut self, scratch: &mut [u8]) -> Option<Exit> {
        self.exit.as_ref()?;
        let mut settled = true;
        for output in &mut self.outputs {
            settled &= output.settle(scratch);
        }
        if settled { self.exit.clone() } else { None }
    }

    /// Whether only the record is left.
    pub(crate) fn is_over(&self) -> bool {
        self.exit.is_some() && self.outputs.iter().all(Output::is_over)
    }

    pub(crate) fn weight(&self) -> usize {
        self.outputs.iter().map(Output::weight).sum()
    }

    pub(crate) fn record(&self) -> ExecRecord {
        ExecRecord {
            id: self.id.clone(),
            pid: self.pid,
            service: self.service.clone(),
            terminal: self.terminal.is_some(),
            exit: self.exit.clone(),
        }
    }
}

pub(crate) fn exit_of(status: i32) -> Exit {
    match libc::WIFSIGNALED(status) {
        true => Exit::Signal(libc::WTERMSIG(status)),
        false => Exit::Code(libc::WEXITSTATUS(status)),
    }
}
