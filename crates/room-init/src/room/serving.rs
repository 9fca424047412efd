//! The daemon's calls about services.

use super::Room;
use super::calls::{Outcome, now, refuse};
use crate::services::Hands;
use hothouse_room_wire::{Answer, CallRefusalKind, LogStart, Reply, ServiceCommand};
use hothouse_service::ServiceSpec;
use rustix::fd::OwnedFd;

/// A caller that waits for the services to change.
pub(super) struct Waiting {
    pub(super) daemon: u32,
    seq: u32,
    after: u64,
}

impl Room {
    pub(super) fn declare(
        &mut self,
        service: ServiceSpec,
        log: LogStart,
        files: Vec<OwnedFd>,
    ) -> Outcome {
        if self.ending.is_some() {
            return Err(refuse(CallRefusalKind::Ending, "the room is ending"));
        }
        let mut hands = Hands { boot: &self.boot, scratch: &mut self.scratch };
        match self.services.declare(service, log, files, &mut hands) {
            Ok(()) => now(Answer::Done),
            Err(bad) => Err(refuse(CallRefusalKind::BadService, bad.0)),
        }
    }

    pub(super) fn command_service(
        &mut self,
        name: Option<&str>,
        command: ServiceCommand,
    ) -> Outcome {
        if self.ending.is_some() {
            return Err(refuse(CallRefusalKind::Ending, "the room is ending"));
        }
        let mut hands = Hands { boot: &self.boot, scratch: &mut self.scratch };
        match self.services.command(name, command, &mut hands) {
            Ok(()) => now(Answer::Done),
            Err(_) => {
                let name = name.unwrap_or_default();
                Err(refuse(CallRefusalKind::UnknownService, format!("no service `{name}`")))
            }
        }
    }

    /// Answers immediately, or once something has changed.
    pub(super) fn tell_services(
        &mut self,
        daemon: u32,
        seq: u32,
        after: Option<u64>,
    ) -> Option<(Answer, Vec<OwnedFd>)> {
        match after {
            Some(after) if self.services.version() <= after => {
                self.watchers.push(Waiting { daemon, seq, after });
                None
            }
            _ => Some((Answer::Services(self.services.report()), Vec::new())),
        }
    }

    /// Answers waiting callers after a change.
    pub(super) fn report_services(&mut self) {
        let version = self.services.version();
        if !self.watchers.iter().any(|waiting| waiting.after < version) {
            return;
        }
        let report = self.services.report();
        let (due, rest) = std::mem::take(&mut self.watchers)
            .into_iter()
            .partition(|waiting: &Waiting| waiting.after < version);
        self.watchers = rest;
        for Waiting { daemon, seq, .. } in due {
            let reply = Reply { seq, answer: Answer::Services(report.clone()) };
            let Some(peer) = self.daemons.get_mut(&daemon) else { continue };
            if peer.connection.send(&reply, vec![]).is_err() {
                self.lose_daemon(daemon);
            }
        }
    }
}
