//! The state machine: events of services in, actions out.
//!
//! ```text
//!  stopped ──start──> waiting ──needs met──> [building] ──> starting ──probe──> ready <──> unhealthy
//!                        ▲                                      │ task ended: completed
//!                        ├── backoff <── ended badly ───────────┘
//!                        └── stopping (asked, grace, killed) ──> stopped | failed | waiting again
//! ```
//!
//! A service has ended when *all* its processes are gone ([`Event::Empty`]), not when its first one
//! has exited: one that daemonizes is still running. So it never runs twice at the same time.

use crate::rules::{Kind, Millis, Rules, backoff};
use hothouse_service::{Condition, RestartPolicy, ServiceState};

/// How long a service without a probe must run to count as ready.
pub const SETTLED_AFTER: Millis = 150;

/// After being ready this long a service gets a new set of restarts.
pub const STABLE_AFTER: Millis = 10_000;

/// The first wait between two probes of a starting service; it doubles up to the interval.
pub const FIRST_PROBE: Millis = 10;

/// The longest wait between two light probes of a service that was just started: apps are often ready within a second.
pub const LIGHT_PROBE: Millis = 20;

/// For how long light probes of a starting service are that frequent.
pub const EARLY: Millis = 2_000;

/// The shortest time between two probes of a service that is ready.
pub const CALM_PROBE: Millis = 10_000;

/// How often a kill is repeated while processes keep appearing.
pub const KILL_AGAIN: Millis = 50;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Start the service and those it needs.
    Start { service: usize },
    /// Stop the service, even if others need it.
    Stop { service: usize },
    /// Restart the service.
    Restart { service: usize },
    /// Stop everything, dependents first.
    StopAll,
    /// A watched file of the service changed.
    Changed { service: usize },
    /// Its first process could not be started.
    NotSpawned { service: usize },
    /// Its first process has exited; others may be running.
    Exited { service: usize, success: bool },
    /// None of its processes is left.
    Empty { service: usize },
    /// A probe of the given run has a result, or a passive one succeeded.
    Probed { service: usize, run: u64, healthy: bool },
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the first process of a phase; later events about it carry `run`.
    Spawn { service: usize, phase: Phase, run: u64 },
    /// Send the service its stop signal.
    Signal { service: usize, signal: i32 },
    /// Kill every process of the service.
    Kill { service: usize },
    /// Probe whether it is ready, and report [`Event::Probed`].
    Probe { service: usize, run: u64 },
    /// Cancel a probe that takes too long.
    CancelProbe { service: usize },
}

/// What a process of a service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Build,
    Run,
}

/// The state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Stopped,
    /// Wanted, and waiting for the services it needs.
    Waiting,
    Building,
    Starting,
    Ready,
    /// It was ready and no longer answers.
    Unhealthy,
    /// A task that succeeded.
    Completed,
    /// It ended, and restarts at the given time.
    Backoff {
        until: Millis,
    },
    /// It was asked to stop.
    Stopping {
        kill_at: Millis,
        then: Then,
    },
    Failed,
}

/// What follows once a service has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Stay,
    Again,
}

impl State {
    /// Returns whether processes of the service may be running.
    pub fn is_running(self) -> bool {
        matches!(
            self,
            Self::Building | Self::Starting | Self::Ready | Self::Unhealthy | Self::Stopping { .. }
        )
    }

    /// Returns the state to report.
    pub fn shown(self) -> ServiceState {
        match self {
            Self::Stopped => ServiceState::Stopped,
            Self::Waiting => ServiceState::Waiting,
            Self::Building => ServiceState::Building,
            Self::Starting => ServiceState::Starting,
            Self::Ready => ServiceState::Ready,
            Self::Unhealthy => ServiceState::Unhealthy,
            Self::Completed => ServiceState::Completed,
            Self::Backoff { .. } => ServiceState::Restarting,
            Self::Stopping { .. } => ServiceState::Stopping,
            Self::Failed => ServiceState::Failed,
        }
    }
}

/// Whether a service is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Up,
    Down,
    /// To be stopped, after those that need it.
    DownInTurn,
}

/// One service.
#[derive(Clone, Debug)]
pub struct Service {
    pub rules: Rules,
    pub state: State,
    /// How many times it was restarted since it was last requested.
    pub restarts: u32,
    /// When it was spawned last, became ready last.
    pub started: Option<Millis>,
    pub ready: Option<Millis>,
    wish: Wish,
    run: u64,
    in_a_row: u32,
    /// How its first process exited, until all are gone.
    ended: Option<bool>,
    probe: Probe,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    due: Option<Millis>,
    asked: Option<Millis>,
    wait: Millis,
    failures: u32,
}

impl Service {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Stopped,
            restarts: 0,
            started: None,
            ready: None,
            wish: Wish::Down,
            run: 0,
            in_a_row: 0,
            ended: None,
            probe: Probe::default(),
        }
    }

    /// Returns the number of the current run.
    pub fn run(&self) -> u64 {
        self.run
    }

    fn meets(&self, condition: Condition) -> bool {
        let started = matches!(self.state, State::Starting | State::Ready | State::Unhealthy);
        match condition {
            Condition::Started => started || self.state == State::Completed,
            // A completed task counts as ready.
            Condition::Ready => matches!(self.state, State::Ready | State::Completed),
            Condition::Completed => self.state == State::Completed,
        }
    }

    /// Returns whether it becomes ready by running for a while.
    fn settles(&self) -> bool {
        self.rules.probe.is_none() && self.rules.kind == Kind::Service
    }

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Stopped | State::Failed)
    }

    fn is_probing(&self) -> bool {
        matches!(self.state, State::Starting | State::Ready | State::Unhealthy)
    }
}

/// All services of a room.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    services: Vec<Service>,
    version: u64,
}

impl Machine {
    /// Makes a machine whose services are all stopped.
    pub fn new(rules: Vec<Rules>) -> Self {
        Self { services: rules.into_iter().map(Service::new).collect(), version: 0 }
    }

    /// Adds a stopped service and returns its number, which never changes.
    pub fn add(&mut self, rules: Rules) -> usize {
        self.services.push(Service::new(rules));
        self.version += 1;
        self.services.len() - 1
    }

    /// Changes the rules of a service, effective at its next start.
    pub fn change(&mut self, service: usize, rules: Rules) {
        if let Some(known) = self.services.get_mut(service) {
            known.rules = rules;
            self.version += 1;
        }
    }

    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// Returns a version that grows with every visible change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Records a change that only the driver sees, such as the result of a probe.
    pub fn touch(&mut self) {
        self.version += 1;
    }

    /// Returns whether nothing is running.
    pub fn is_still(&self) -> bool {
        self.services.iter().all(|service| !service.state.is_running())
    }

    /// Returns whether a service waits for one that has failed, directly or indirectly.
    pub fn is_stuck(&self, service: usize) -> bool {
        let mut seen = vec![false; self.services.len()];
        let mut next = vec![service];
        while let Some(at) = next.pop() {
            let Some(known) = self.services.get(at) else { continue };
            if std::mem::replace(&mut seen[at], true) || known.state != State::Waiting {
                continue;
            }
            for need in &known.rules.needs {
                match self.find(&need.service) {
                    Some(other) if self.services[other].state == State::Failed => return true,
                    Some(other) => next.push(other),
                    None => return true,
                }
            }
        }
        false
    }

    /// Returns the number of the service with a name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service.rules.name == name)
    }

    /// Processes an event and returns the actions.
    pub fn on_event(&mut self, now: Millis, event: Event) -> Vec<Action> {
        let before: Vec<State> = self.services.iter().map(|service| service.state).collect();
        let mut actions = Vec::new();
        match event {
            Event::Start { service } => self.want(service),
            Event::Stop { service } => self.wish(service, Wish::Down),
            Event::Restart { service } => self.restart(now, service, &mut actions),
            Event::StopAll => {
                (0..self.services.len()).for_each(|service| self.wish(service, Wish::DownInTurn));
            }
            Event::Changed { service } => self.on_changed(now, service, &mut actions),
            Event::NotSpawned { service } => self.on_empty(now, service, Some(false)),
            Event::Exited { service, success } => self.on_exited(service, success, &mut actions),
            Event::Empty { service } => self.on_empty(now, service, None),
            Event::Probed { service, run, healthy } => self.on_probed(now, service, run, healthy),
            Event::Tick => {}
        }
        self.settle(now, &mut actions);
        let after = self.services.iter().map(|service| service.state);
        if !before.into_iter().eq(after) {
            self.version += 1;
        }
        actions
    }

    /// Returns when the next [`Event::Tick`] is due.
    pub fn next_tick(&self) -> Option<Millis> {
        let of = |service: &Service| {
            let state = match service.state {
                State::Backoff { until } => Some(until),
                State::Stopping { kill_at, .. } => Some(kill_at),
                State::Starting if service.settles() => {
                    service.started.map(|at| at + SETTLED_AFTER)
                }
                _ => None,
            };
            let probe = match (service.is_probing(), service.rules.probe) {
                (true, Some(rules)) => {
                    service.probe.asked.map(|at| at + rules.timeout).or(service.probe.due)
                }
                _ => None,
            };
            [state, probe].into_iter().flatten().min()
        };
        self.services.iter().filter_map(of).min()
    }

    /// Marks a service and, recursively, those it needs as wanted.
    fn want(&mut self, service: usize) {
        let Some(known) = self.services.get_mut(service) else { return };
        if known.wish != Wish::Up || known.is_idle() {
            known.wish = Wish::Up;
            known.in_a_row = 0;
            known.restarts = 0;
        }
        match &mut known.state {
            State::Stopped | State::Failed => known.state = State::Waiting,
            State::Stopping { then, .. } => *then = Then::Again,
            _ => {}
        }
        let needs: Vec<_> = known.rules.needs.iter().map(|need| need.service.clone()).collect();
        for need in needs {
            // A cycle ends at the first service that is already wanted.
            let unwanted = |need: &usize| {
                self.services[*need].wish != Wish::Up || self.services[*need].is_idle()
            };
            if let Some(need) = self.find(&need).filter(unwanted) {
                self.want(need);
            }
        }
    }

    fn wish(&mut self, service: usize, wish: Wish) {
        let Some(known) = self.services.get_mut(service) else { return };
        known.wish = wish;
        match &mut known.state {
            State::Waiting | State::Backoff { .. } => known.state = State::Stopped,
            State::Stopping { then, .. } => *then = Then::Stay,
            _ => {}
        }
    }

    fn restart(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let Some(known) = self.services.get_mut(service) else { return };
        if known.state == State::Completed || matches!(known.state, State::Backoff { .. }) {
            known.state = State::Stopped;
        }
        if known.state.is_running() {
            known.wish = Wish::Up;
            known.in_a_row = 0;
            known.restarts = 0;
            self.begin_stopping(now, service, Then::Again, actions);
        }
        self.want(service);
    }

    fn on_changed(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let wanted = self.services.get(service).is_some_and(|known| known.wish == Wish::Up);
        if wanted {
            self.restart(now, service, actions);
        }
    }

    fn begin_stopping(
        &mut self,
        now: Millis,
        service: usize,
        then: Then,
        actions: &mut Vec<Action>,
    ) {
        let known = &mut self.services[service];
        if let State::Stopping { then: planned, .. } = &mut known.state {
            *planned = then;
            return;
        }
        known.state = State::Stopping { kill_at: now + known.rules.grace, then };
        known.probe = Probe::default();
        actions.push(Action::CancelProbe { service });
        actions.push(Action::Signal { service, signal: known.rules.stop_signal });
    }

    fn on_exited(&mut self, service: usize, success: bool, actions: &mut Vec<Action>) {
        let Some(known) = self.services.get_mut(service) else { return };
        if !known.state.is_running() {
            return;
        }
        known.ended = Some(success);
        let forked_away = success
            && known.rules.kind == Kind::Service
            && matches!(known.state, State::Starting | State::Ready | State::Unhealthy);
        if matches!(known.state, State::Stopping { .. }) {
            // Remaining processes did not get the signal, which went to the first process's group.
            actions.push(Action::Signal { service, signal: known.rules.stop_signal });
        } else if !forked_away {
            actions.push(Action::Kill { service });
        }
    }

    fn on_empty(&mut self, now: Millis, service: usize, ended: Option<bool>) {
        let Some(known) = self.services.get_mut(service) else { return };
        let success = ended.or(known.ended.take()).unwrap_or(false);
        let state = known.state;
        if !state.is_running() {
            return;
        }
        known.probe = Probe::default();
        match state {
            State::Stopping { then, .. } => {
                known.state = match then {
                    Then::Again if known.wish == Wish::Up => State::Waiting,
                    _ => State::Stopped,
                };
            }
            State::Building if success => self.note_built(service),
            _ if success && known.rules.kind == Kind::Task => {
                known.state = State::Completed;
                known.ready = Some(now);
            }
            _ if known.wish != Wish::Up => known.state = State::Stopped,
            // Building the same files again would fail again; a change of them triggers the next build.
            State::Building => known.state = State::Failed,
            _ => self.after_the_end(now, service, success),
        }
    }

    /// Decides what follows an unrequested exit.
    fn after_the_end(&mut self, now: Millis, service: usize, success: bool) {
        let known = &mut self.services[service];
        let was_ready = matches!(known.state, State::Ready | State::Unhealthy);
        let stable = was_ready && known.ready.is_some_and(|at| now >= at + STABLE_AFTER);
        if stable {
            known.in_a_row = 0;
        }
        let again = match known.rules.policy {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => !success,
            RestartPolicy::Always => true,
        };
        known.state = if again && known.in_a_row < known.rules.restarts {
            let until = now + backoff(known.in_a_row);
            known.in_a_row += 1;
            known.restarts += 1;
            State::Backoff { until }
        } else {
            // Even after a success: only a task is expected to end.
            State::Failed
        };
    }

    fn on_probed(&mut self, now: Millis, service: usize, run: u64, healthy: bool) {
        let Some(known) = self.services.get_mut(service) else { return };
        let Some(rules) = known.rules.probe.filter(|_| known.run == run && known.is_probing())
        else {
            return;
        };
        known.probe.asked = None;
        if healthy {
            known.probe.failures = 0;
            if known.state == State::Starting {
                known.ready = Some(now);
            }
            known.state = State::Ready;
            known.probe.wait = rules.interval.max(CALM_PROBE);
        } else {
            known.probe.failures = known.probe.failures.saturating_add(1);
            if known.state == State::Starting {
                let early = known.started.is_some_and(|started| now < started + EARLY);
                let longest = if rules.light && early { LIGHT_PROBE } else { rules.interval };
                known.probe.wait = (known.probe.wait * 2).min(longest).min(rules.interval).max(1);
            } else {
                known.probe.wait = rules.interval;
                if known.probe.failures >= rules.retries {
                    known.state = State::Unhealthy;
                }
            }
        }
        known.probe.due = (!rules.passive).then(|| now + known.probe.wait);
    }

    /// Takes every action that follows from the current state.
    fn settle(&mut self, now: Millis, actions: &mut Vec<Action>) {
        for service in 0..self.services.len() {
            self.settle_wish(now, service, actions);
            self.settle_time(now, service, actions);
        }
        // A start can unblock others that need only that.
        let mut known = usize::MAX;
        while std::mem::replace(&mut known, actions.len()) != actions.len() {
            for service in 0..self.services.len() {
                self.settle_start(now, service, actions);
            }
        }
    }

    fn settle_wish(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let known = &self.services[service];
        let stops = match known.wish {
            Wish::Up => false,
            Wish::Down => true,
            Wish::DownInTurn => !self.is_needed(service),
        };
        let runs = known.state.is_running() && !matches!(known.state, State::Stopping { .. });
        if stops && runs {
            self.begin_stopping(now, service, Then::Stay, actions);
        }
    }

    /// Returns whether a running service needs this one.
    fn is_needed(&self, service: usize) -> bool {
        let name = &self.services[service].rules.name;
        self.services.iter().enumerate().any(|(at, other)| {
            at != service
                && other.state.is_running()
                && other.rules.needs.iter().any(|need| need.service == *name)
                // Services in a cycle do not wait for each other.
                && !self.services[service].rules.needs.iter().any(|need| need.service == other.rules.name)
        })
    }

    fn settle_time(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let known = &mut self.services[service];
        match known.state {
            State::Backoff { until } if until <= now => known.state = State::Waiting,
            State::Stopping { kill_at, then } if kill_at <= now => {
                actions.push(Action::Kill { service });
                known.state = State::Stopping { kill_at: now + KILL_AGAIN, then };
            }
            State::Starting
                if known.settles() && known.started.is_some_and(|at| at + SETTLED_AFTER <= now) =>
            {
                known.state = State::Ready;
                known.ready = Some(now);
            }
            _ => {}
        }
        self.settle_probe(now, service, actions);
    }

    fn settle_probe(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let known = &mut self.services[service];
        let Some(rules) = known.rules.probe.filter(|_| known.is_probing()) else { return };
        if known.probe.asked.is_some_and(|at| at + rules.timeout <= now) {
            actions.push(Action::CancelProbe { service });
            let run = known.run;
            self.on_probed(now, service, run, false);
            return;
        }
        if known.probe.asked.is_none() && known.probe.due.is_some_and(|due| due <= now) {
            known.probe.due = None;
            known.probe.asked = Some(now);
            actions.push(Action::Probe { service, run: known.run });
        }
    }

    fn settle_start(&mut self, now: Millis, service: usize, actions: &mut Vec<Action>) {
        let known = &self.services[service];
        match known.state {
            State::Waiting if self.needs_are_met(service) => {
                let phase = if known.rules.builds { Phase::Build } else { Phase::Run };
                self.spawn(now, service, phase, actions);
            }
            State::Building if known.started.is_none() => {
                self.spawn(now, service, Phase::Run, actions);
            }
            _ => {}
        }
    }

    /// Marks a build as done by clearing the start time.
    fn note_built(&mut self, service: usize) {
        let known = &mut self.services[service];
        known.started = None;
        if known.wish != Wish::Up {
            known.state = State::Stopped;
        }
    }

    fn needs_are_met(&self, service: usize) -> bool {
        self.services[service].rules.needs.iter().all(|need| {
            let other = self.find(&need.service);
            other.is_some_and(|other| self.services[other].meets(need.condition))
        })
    }

    fn spawn(&mut self, now: Millis, service: usize, phase: Phase, actions: &mut Vec<Action>) {
        let known = &mut self.services[service];
        known.run += 1;
        known.started = Some(now);
        known.ready = None;
        known.ended = None;
        known.probe = Probe::default();
        known.state = match phase {
            Phase::Build => State::Building,
            Phase::Run => State::Starting,
        };
        if let (Phase::Run, Some(rules)) = (phase, known.rules.probe) {
            known.probe.wait = FIRST_PROBE.min(rules.interval);
            known.probe.due = (!rules.passive).then(|| now + known.probe.wait);
        }
        actions.push(Action::Spawn { service, phase, run: known.run });
    }
}

#[cfg(test)]
mod tests;
