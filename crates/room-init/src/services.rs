//! Services: the state machine of `supervise`, and the code that performs its actions.
//!
//! - [`changes`]: the history of service states, for later queries
//! - [`keeper`]: the process between room-init and a service
//! - [`tree`]: which processes belong to a service, and which hold a port
//! - [`output`]: reads a service's output into its log
//! - [`probe`]: probes that do not block
//! - [`notify`]: services that report their own readiness
//! - [`watch`]: files whose change restarts a service

mod changes;
mod entry;
mod keeper;
mod notify;
mod output;
mod probe;
mod tree;
pub(crate) mod watch;

use crate::boot::Adopted;
use changes::Changes;
use entry::Entry;
use hothouse_room_wire::{LogStart, ServiceChange, ServiceCommand, ServiceStatus, ServicesReport};
use hothouse_service::{Found, ProbeAnswer, ServiceSpec};
use hothouse_supervise::{Action, Event, Machine};
use output::{Log, Turn};
use probe::Step;
use rustix::event::PollFlags;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many services a room may have; each uses about ten descriptors.
pub(crate) const SERVICE_LIMIT: usize = 64;

/// All services of the room.
pub(crate) struct Services {
    machine: Machine,
    entries: Vec<Entry>,
    begun: Instant,
    watcher: watch::Watcher,
    changes: Changes,
}

/// The descriptor of a service behind a poll entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Report(usize),
    Output(usize),
    Probe(usize),
    Notify(usize),
    Watcher,
}

/// What the services need from the room.
pub(crate) struct Hands<'a> {
    pub(crate) boot: &'a Adopted,
    pub(crate) scratch: &'a mut [u8],
}

/// An invalid declaration.
pub(crate) struct BadService(pub(crate) String);

/// No service has this name.
pub(crate) struct Unknown;

impl Services {
    pub(crate) fn new() -> Self {
        Self {
            machine: Machine::default(),
            entries: Vec::new(),
            begun: Instant::now(),
            watcher: watch::Watcher::default(),
            changes: Changes::default(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds or changes a service.
    pub(crate) fn declare(
        &mut self,
        spec: ServiceSpec,
        log: LogStart,
        files: Vec<OwnedFd>,
        hands: &mut Hands<'_>,
    ) -> Result<(), BadService> {
        let known = self.machine.find(&spec.name);
        if let Some(at) = known {
            let changed = self.entries[at].spec != spec;
            let was_hidden = std::mem::replace(&mut self.entries[at].hidden, false);
            if changed {
                self.machine.change(at, entry::rules(&spec));
                self.entries[at].change(spec)?;
                let running = self.machine.services()[at].state.is_running();
                if running && !was_hidden {
                    self.happen(Event::Restart { service: at }, hands);
                }
            }
            return Ok(());
        }
        if self.entries.len() >= SERVICE_LIMIT {
            return Err(BadService(format!("a room has at most {SERVICE_LIMIT} services")));
        }
        let log = Log::new(files, log)
            .ok_or_else(|| BadService("a service comes with the files of its log".into()))?;
        let rules = entry::rules(&spec);
        let entry = Entry::new(spec, log)?;
        self.machine.add(rules);
        self.entries.push(entry);
        Ok(())
    }

    /// Performs an action on one service, or on all.
    pub(crate) fn command(
        &mut self,
        name: Option<&str>,
        command: ServiceCommand,
        hands: &mut Hands<'_>,
    ) -> Result<(), Unknown> {
        let chosen: Vec<usize> = match name {
            Some(name) => vec![self.visible(name).ok_or(Unknown)?],
            None => (0..self.entries.len()).filter(|at| !self.entries[*at].hidden).collect(),
        };
        if name.is_none() && command == ServiceCommand::Stop {
            self.happen(Event::StopAll, hands);
            return Ok(());
        }
        for service in chosen {
            match command {
                ServiceCommand::Start => {
                    self.note_wanted(service);
                    self.happen(Event::Start { service }, hands);
                }
                ServiceCommand::Stop => self.happen(Event::Stop { service }, hands),
                ServiceCommand::Restart => {
                    let now = self.now();
                    self.entries[service].note_wanted(now);
                    self.happen(Event::Restart { service }, hands);
                }
                ServiceCommand::Signal(signal) => self.entries[service].signal(signal),
                ServiceCommand::Remove => {
                    self.entries[service].hidden = true;
                    self.machine.touch();
                    self.happen(Event::Stop { service }, hands);
                }
            }
        }
        Ok(())
    }

    fn note_wanted(&mut self, service: usize) {
        let (idle, now) = (!self.machine.services()[service].state.is_running(), self.now());
        if idle {
            self.entries[service].note_wanted(now);
        }
    }

    fn visible(&self, name: &str) -> Option<usize> {
        self.machine.find(name).filter(|at| !self.entries[*at].hidden)
    }

    /// Stops everything, dependents first.
    pub(crate) fn stop_all(&mut self, hands: &mut Hands<'_>) {
        self.watcher.end();
        self.happen(Event::StopAll, hands);
    }

    /// Whether no process of any service is left.
    pub(crate) fn is_still(&self) -> bool {
        self.entries.iter().all(|entry| entry.kept.is_none())
    }

    pub(crate) fn version(&self) -> u64 {
        self.machine.version()
    }

    pub(crate) fn report(&self) -> ServicesReport {
        let shown = self.entries.iter().enumerate().filter(|(_, entry)| !entry.hidden);
        let services = shown.map(|(at, entry)| self.status(at, entry)).collect();
        ServicesReport { version: self.machine.version(), services }
    }

    fn status(&self, at: usize, entry: &Entry) -> ServiceStatus {
        let service = &self.machine.services()[at];
        ServiceStatus {
            name: entry.spec.name.clone(),
            state: service.state.shown(),
            pid: entry.pid(),
            restarts: service.restarts,
            task: entry.spec.task,
            stuck: self.machine.is_stuck(at),
            needs: entry.spec.needs.iter().map(|need| need.service.clone()).collect(),
            exit: entry.exit.clone(),
            answers: entry.answers.iter().cloned().collect(),
            wanted_ms: entry.wanted,
            started_ms: service.started,
            ready_ms: service.ready,
        }
    }

    /// Returns how long the loop may wait.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let tick = self.machine.next_tick().map(|at| at.saturating_sub(self.now()));
        let watcher = self.watcher.due().map(|at| at.saturating_sub(self.now()));
        [tick, watcher].into_iter().flatten().min().map(Duration::from_millis)
    }

    /// Passes the current time to the machine.
    pub(crate) fn tick(&mut self, hands: &mut Hands<'_>) {
        if self.machine.next_tick().is_some_and(|at| at <= self.now()) {
            self.happen(Event::Tick, hands);
        }
        let now = self.now();
        let watched = self.entries.iter().filter(|entry| !entry.hidden);
        self.watcher.tend(now, watched.map(|entry| &entry.spec), hands.boot);
    }

    pub(crate) fn interest<'a>(&'a self, mut add: impl FnMut(BorrowedFd<'a>, PollFlags, Source)) {
        for (at, entry) in self.entries.iter().enumerate() {
            entry.interest(|fd, flags, part| add(fd, flags, part(at)));
        }
        if let Some(fd) = self.watcher.interest() {
            add(fd, PollFlags::IN, Source::Watcher);
        }
    }

    pub(crate) fn react(&mut self, source: Source, hands: &mut Hands<'_>) {
        match source {
            Source::Report(at) => self.on_report(at, hands),
            Source::Output(at) => self.on_output(at, hands),
            Source::Probe(at) => {
                if let Some((run, asking)) = self.entries[at].asking.take() {
                    self.step(at, run, asking.advance(hands.scratch), hands);
                }
            }
            Source::Notify(at) => {
                if self.entries[at].hears_ready() {
                    self.answered(at, None, ProbeAnswer::good(Found::Notified), hands);
                }
            }
            Source::Watcher => {
                for name in self.watcher.changed(hands.scratch) {
                    if let Some(service) = self.visible(&name) {
                        self.entries[service].log.append(b"[hothouse] a watched file changed\n");
                        self.happen(Event::Changed { service }, hands);
                    }
                }
            }
        }
    }

    /// Records the exit of a child; returns false if it belongs to no service.
    pub(crate) fn reaped(&mut self, pid: i32, status: i32, hands: &mut Hands<'_>) -> bool {
        if self.watcher.reaped(pid, self.now()) {
            return true;
        }
        for at in 0..self.entries.len() {
            if self.entries[at].kept.as_ref().is_some_and(|kept| kept.keeper == pid) {
                self.on_keeper_gone(at, hands);
                return true;
            }
            if self.entries[at].is_asked_by(pid) {
                if let Some((run, asking)) = self.entries[at].asking.take() {
                    let answer = asking.conclude(status, hands.scratch);
                    self.answered(at, Some(run), answer, hands);
                }
                return true;
            }
        }
        false
    }

    fn on_report(&mut self, at: usize, hands: &mut Hands<'_>) {
        if let Some(success) = self.entries[at].main_ended() {
            // Whoever is notified of the exit reads the last lines of the log.
            self.drain(at, hands);
            self.happen(Event::Exited { service: at, success }, hands);
        }
    }

    fn on_keeper_gone(&mut self, at: usize, hands: &mut Hands<'_>) {
        self.on_report(at, hands);
        if self.entries[at].abandon() {
            self.happen(Event::Exited { service: at, success: false }, hands);
        }
        // All writers have exited, so this reads everything that is left.
        while self.entries[at].source.is_some() && self.drain(at, hands) {}
        self.entries[at].log.end_line();
        self.entries[at].gone();
        self.happen(Event::Empty { service: at }, hands);
    }

    fn on_output(&mut self, at: usize, hands: &mut Hands<'_>) {
        self.drain(at, hands);
    }

    /// Moves output into the log; returns false if there is none for now.
    fn drain(&mut self, at: usize, hands: &mut Hands<'_>) -> bool {
        let Entry { source, log, line_watch, .. } = &mut self.entries[at];
        let Some(pipe) = source else { return false };
        let waiting = crate::sys::readable_bytes(&pipe.pipe) > 0;
        let (turn, found) = output::drain(pipe, log, line_watch.as_mut(), hands.scratch);
        if matches!(turn, Turn::Over) {
            *source = None;
        }
        if let Some(line) = found {
            *line_watch = None;
            self.answered(at, None, ProbeAnswer::good(Found::LogLine(line)), hands);
        }
        waiting
    }

    fn step(&mut self, at: usize, run: u64, step: Step, hands: &mut Hands<'_>) {
        match step {
            Step::Asking(asking) => self.entries[at].asking = Some((run, asking)),
            Step::Answered(answer) => self.answered(at, Some(run), answer, hands),
        }
    }

    fn answered(
        &mut self,
        at: usize,
        run: Option<u64>,
        answer: ProbeAnswer,
        hands: &mut Hands<'_>,
    ) {
        let healthy = answer.healthy;
        if self.entries[at].remember(answer) {
            self.machine.touch();
        }
        let run = run.unwrap_or_else(|| self.machine.services()[at].run());
        self.happen(Event::Probed { service: at, run, healthy }, hands);
    }

    /// Passes an event to the machine and performs its actions.
    fn happen(&mut self, event: Event, hands: &mut Hands<'_>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let actions = self.machine.on_event(self.now(), event);
            self.remember();
            for action in actions {
                events.extend(self.obey(action, hands));
            }
        }
    }

    /// Records every state change.
    fn remember(&mut self) {
        for (at, service) in self.machine.services().iter().enumerate() {
            let Some(entry) = self.entries.get(at).filter(|entry| !entry.hidden) else { continue };
            if self.changes.is_new(at, (service.state.shown(), service.restarts)) {
                let status = self.status(at, entry);
                self.changes.push(self.machine.version(), status);
            }
        }
    }

    /// Returns the state changes since a version.
    pub(crate) fn changes_since(&self, after: u64) -> Vec<ServiceChange> {
        self.changes.since(after)
    }

    /// Returns the log line at which each service's last start begins.
    pub(crate) fn starts(&self) -> Vec<(String, u64)> {
        let shown = self.entries.iter().filter(|entry| !entry.hidden);
        shown.filter_map(|entry| Some((entry.spec.name.clone(), entry.first_line?))).collect()
    }

    /// Performs one action; returns the event if its result is immediate.
    fn obey(&mut self, action: Action, hands: &mut Hands<'_>) -> Option<Event> {
        match action {
            Action::Spawn { service, phase, .. } => {
                let is_first = self.machine.services()[service].restarts == 0;
                self.entries[service].begin_output(phase, is_first);
                let spawned = self.entries[service].spawn(phase, hands.boot);
                return (!spawned).then_some(Event::NotSpawned { service });
            }
            Action::Signal { service, signal } => {
                if self.entries[service].stop_serving() {
                    return Some(Event::Empty { service });
                }
                self.entries[service].signal(signal);
            }
            Action::Kill { service } => self.entries[service].kill(),
            Action::Probe { service, run } => match self.entries[service].ask(hands.boot) {
                Step::Asking(asking) => self.entries[service].asking = Some((run, asking)),
                Step::Answered(answer) => {
                    let healthy = answer.healthy;
                    if self.entries[service].remember(answer) {
                        self.machine.touch();
                    }
                    return Some(Event::Probed { service, run, healthy });
                }
            },
            Action::CancelProbe { service } => {
                if let Some((_, asking)) = self.entries[service].asking.take() {
                    let answer = asking.cancel();
                    if self.entries[service].remember(answer) {
                        self.machine.touch();
                    }
                }
            }
        }
        None
    }
}
