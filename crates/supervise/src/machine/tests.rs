//! A simulated world that performs the machine's actions and rejects invalid ones.

use proptest::prelude::*;

use super::*;
use crate::rules::ProbeRules;
use hothouse_service::Need;

fn rules(name: &str) -> Rules {
    Rules {
        name: name.into(),
        kind: Kind::Service,
        needs: Vec::new(),
        builds: false,
        policy: RestartPolicy::OnFailure,
        restarts: 2,
        stop_signal: 15,
        grace: 1_000,
        probe: None,
    }
}

fn need(service: &str, condition: Condition) -> Need {
    Need { service: service.into(), condition }
}

const PROBE: ProbeRules =
    ProbeRules { passive: false, light: false, interval: 250, timeout: 2_000, retries: 3 };

/// Makes a machine with a database, a task that needs it, and an app that needs both and is built
/// first.
fn shop() -> Machine {
    Machine::new(vec![
        Rules { probe: Some(PROBE), ..rules("db") },
        Rules {
            kind: Kind::Task,
            policy: RestartPolicy::Never,
            needs: vec![need("db", Condition::Ready)],
            ..rules("migrate")
        },
        Rules {
            needs: vec![need("db", Condition::Ready), need("migrate", Condition::Completed)],
            builds: true,
            probe: Some(ProbeRules { passive: true, ..PROBE }),
            ..rules("api")
        },
    ])
}

/// The state of the processes, as the driver sees it.
struct World {
    machine: Machine,
    now: Millis,
    alive: Vec<Option<Phase>>,
    asked: Vec<bool>,
    told: Vec<String>,
}

impl World {
    fn new(machine: Machine) -> Self {
        let count = machine.services().len();
        Self {
            machine,
            now: 1_000,
            alive: vec![None; count],
            asked: vec![false; count],
            told: vec![],
        }
    }

    fn on(&mut self, event: Event) {
        for action in self.machine.on_event(self.now, event) {
            self.obey(action);
        }
        for (service, alive) in self.machine.services().iter().zip(&self.alive) {
            assert_eq!(service.state.is_running(), alive.is_some(), "{service:?}");
        }
    }

    fn obey(&mut self, action: Action) {
        let name = |service: usize| self.machine.services()[service].rules.name.clone();
        match action {
            Action::Spawn { service, phase, .. } => {
                assert_eq!(self.alive[service], None, "{} is spawned twice", name(service));
                self.told.push(format!("{phase:?} {}", name(service)));
                self.alive[service] = Some(phase);
                self.asked[service] = false;
            }
            Action::Signal { service, signal } => {
                assert!(self.alive[service].is_some(), "{} is not there", name(service));
                self.told.push(format!("signal {signal} {}", name(service)));
            }
            Action::Kill { service } => {
                assert!(self.alive[service].is_some(), "{} is not there", name(service));
                self.told.push(format!("kill {}", name(service)));
            }
            Action::Probe { service, .. } => {
                assert_eq!(self.alive[service], Some(Phase::Run));
                assert!(!std::mem::replace(&mut self.asked[service], true), "asked twice at once");
            }
            Action::CancelProbe { service } => self.asked[service] = false,
        }
    }

    /// Ends the processes of a service.
    fn end(&mut self, service: usize, success: bool) {
        if self.alive[service].is_none() {
            return;
        }
        self.on(Event::Exited { service, success });
        self.alive[service] = None;
        self.asked[service] = false;
        self.on_gone(service);
    }

    fn on_gone(&mut self, service: usize) {
        for action in self.machine.on_event(self.now, Event::Empty { service }) {
            self.obey(action);
        }
    }

    fn answer(&mut self, service: usize, healthy: bool) {
        let run = self.machine.services()[service].run();
        self.asked[service] = false;
        self.on(Event::Probed { service, run, healthy });
    }

    fn pass(&mut self, time: Millis) {
        let until = self.now + time;
        while let Some(next) = self.machine.next_tick().filter(|next| *next <= until) {
            self.now = next.max(self.now);
            self.on(Event::Tick);
        }
        self.now = until;
    }

    fn states(&self) -> String {
        let states = self.machine.services().iter().map(|service| service.state.shown().as_str());
        states.collect::<Vec<_>>().join(" ")
    }

    fn told(&mut self) -> String {
        std::mem::take(&mut self.told).join(", ")
    }
}

#[test]
fn a_stack_starts_in_the_order_of_its_needs() {
    let mut world = World::new(shop());
    world.on(Event::Start { service: 2 });
    assert_eq!(world.told(), "Run db");
    assert_eq!(world.states(), "starting waiting waiting");
    world.pass(10);
    world.answer(0, true);
    assert_eq!(world.told(), "Run migrate");
    world.end(1, true);
    assert_eq!(world.told(), "kill migrate, Build api");
    world.end(2, true);
    assert_eq!(world.told(), "kill api, Run api");
    world.answer(2, true);
    assert_eq!(world.states(), "ready completed ready");
}

#[test]
fn a_stack_stops_in_reverse() {
    let mut world = World::new(shop());
    world.on(Event::Start { service: 2 });
    world.answer(0, true);
    world.end(1, true);
    world.end(2, true);
    world.answer(2, true);
    world.told();
    world.on(Event::StopAll);
    assert_eq!(world.told(), "signal 15 api");
    world.end(2, true);
    assert_eq!(world.told(), "signal 15 api, signal 15 db");
    world.pass(999);
    assert_eq!(world.told(), "");
    world.pass(1);
    assert_eq!(world.told(), "kill db");
    world.end(0, false);
    assert_eq!(world.states(), "stopped completed stopped");
    assert!(world.machine.is_still());
}

#[test]
fn a_service_that_keeps_failing_is_given_up() {
    let mut world = World::new(Machine::new(vec![rules("a")]));
    world.on(Event::Start { service: 0 });
    for wait in [100, 200] {
        world.end(0, false);
        assert_eq!(world.states(), "restarting");
        world.pass(wait - 1);
        assert_eq!(world.states(), "restarting");
        world.pass(1);
        assert_eq!(world.states(), "starting");
    }
    world.end(0, false);
    assert_eq!(world.states(), "failed");
    world.on(Event::Start { service: 0 });
    assert_eq!(world.states(), "starting");
}

#[test]
fn a_long_healthy_run_earns_new_restarts() {
    let mut world = World::new(Machine::new(vec![rules("a")]));
    world.on(Event::Start { service: 0 });
    for _ in 0..5 {
        world.pass(SETTLED_AFTER);
        assert_eq!(world.states(), "ready");
        world.pass(STABLE_AFTER);
        world.end(0, false);
        world.pass(100);
        assert_eq!(world.states(), "starting");
    }
}

#[test]
fn a_process_that_forks_away_survives() {
    let mut world = World::new(Machine::new(vec![Rules { probe: Some(PROBE), ..rules("a") }]));
    world.on(Event::Start { service: 0 });
    world.on(Event::Exited { service: 0, success: true });
    assert_eq!(world.told(), "Run a");
    world.answer(0, true);
    assert_eq!(world.states(), "ready");
    world.on(Event::Stop { service: 0 });
    assert_eq!(world.told(), "signal 15 a");
}

#[test]
fn what_is_left_of_a_failed_one_is_killed() {
    let mut world = World::new(Machine::new(vec![rules("a")]));
    world.on(Event::Start { service: 0 });
    world.on(Event::Exited { service: 0, success: false });
    assert_eq!(world.told(), "Run a, kill a");
}

#[test]
fn a_probe_that_hangs_is_given_up_and_asked_again() {
    let mut world = World::new(Machine::new(vec![Rules { probe: Some(PROBE), ..rules("a") }]));
    world.on(Event::Start { service: 0 });
    world.pass(10);
    assert!(world.asked[0]);
    world.pass(2_000);
    assert!(!world.asked[0]);
    world.pass(250);
    assert!(world.asked[0]);
}

#[test]
fn an_open_port_is_noticed_soon_after_the_start_and_probes_become_rarer() {
    let light = ProbeRules { light: true, ..PROBE };
    let mut world = World::new(Machine::new(vec![Rules { probe: Some(light), ..rules("a") }]));
    world.on(Event::Start { service: 0 });
    let mut probes = 0;
    while world.now < 3_000 {
        world.pass(10);
        if world.asked[0] {
            probes += 1;
            world.answer(0, false);
        }
    }
    assert!((90..=110).contains(&probes), "{probes}");
    for wait in [40, 80, 160, 250, 250] {
        world.pass(wait);
        assert!(world.asked[0], "{wait}");
        world.answer(0, false);
    }
}

#[test]
fn a_ready_service_becomes_unhealthy_and_healthy_again() {
    let mut world = World::new(Machine::new(vec![Rules { probe: Some(PROBE), ..rules("a") }]));
    world.on(Event::Start { service: 0 });
    world.pass(10);
    world.answer(0, true);
    for (wait, expected) in [(CALM_PROBE, "ready"), (250, "ready"), (250, "unhealthy")] {
        world.pass(wait);
        world.answer(0, false);
        assert_eq!(world.states(), expected);
    }
    world.answer(0, true);
    assert_eq!(world.states(), "ready");
}

#[test]
fn a_restart_stops_first_and_an_old_answer_does_not_count() {
    let mut world = World::new(Machine::new(vec![Rules { probe: Some(PROBE), ..rules("a") }]));
    world.on(Event::Start { service: 0 });
    let old = world.machine.services()[0].run();
    world.on(Event::Restart { service: 0 });
    assert_eq!(world.told(), "Run a, signal 15 a");
    world.end(0, false);
    assert_eq!(world.told(), "signal 15 a, Run a");
    world.on(Event::Probed { service: 0, run: old, healthy: true });
    assert_eq!(world.states(), "starting");
}

#[test]
fn a_changed_file_restarts_what_is_wanted_only() {
    let mut world = World::new(Machine::new(vec![rules("a")]));
    world.on(Event::Changed { service: 0 });
    assert_eq!(world.states(), "stopped");
    world.on(Event::Start { service: 0 });
    world.end(0, true);
    assert_eq!(world.states(), "failed");
    world.on(Event::Changed { service: 0 });
    assert_eq!(world.states(), "starting");
}

#[test]
fn a_service_that_waits_for_a_failed_one_is_stuck() {
    let mut world = World::new(shop());
    world.on(Event::Start { service: 2 });
    assert!(!world.machine.is_stuck(2));
    world.answer(0, true);
    world.end(1, false);
    assert_eq!(world.states(), "ready failed waiting");
    assert!(world.machine.is_stuck(2));
    assert!(!world.machine.is_stuck(0));
}

#[test]
fn a_cycle_waits_forever_and_harms_nobody() {
    let circle = |name: &str, other: &str| Rules {
        needs: vec![need(other, Condition::Ready)],
        ..rules(name)
    };
    let mut world = World::new(Machine::new(vec![circle("a", "b"), circle("b", "a")]));
    world.on(Event::Start { service: 0 });
    assert_eq!(world.states(), "waiting waiting");
    world.on(Event::StopAll);
    assert_eq!(world.states(), "stopped stopped");
}

/// Every event of a world with three services.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Start(usize),
    Stop(usize),
    Restart(usize),
    Change(usize),
    StopAll,
    End(usize, bool),
    Fork(usize),
    Answer(usize, bool),
    Pass(Millis),
}

fn deeds() -> Vec<Deed> {
    let each = (0..3).flat_map(|service| {
        [
            Deed::Start(service),
            Deed::Stop(service),
            Deed::Restart(service),
            Deed::Change(service),
            Deed::End(service, true),
            Deed::End(service, false),
            Deed::Fork(service),
            Deed::Answer(service, true),
            Deed::Answer(service, false),
        ]
    });
    let times = [1, 150, 1_000, 20_000].map(Deed::Pass);
    each.chain([Deed::StopAll]).chain(times).collect()
}

fn live(world: &mut World, deed: Deed) {
    match deed {
        Deed::Start(service) => world.on(Event::Start { service }),
        Deed::Stop(service) => world.on(Event::Stop { service }),
        Deed::Restart(service) => world.on(Event::Restart { service }),
        Deed::Change(service) => world.on(Event::Changed { service }),
        Deed::StopAll => world.on(Event::StopAll),
        Deed::End(service, success) => world.end(service, success),
        Deed::Fork(service) if world.alive[service].is_some() => {
            world.on(Event::Exited { service, success: true });
        }
        Deed::Fork(_) => {}
        Deed::Answer(service, healthy) => world.answer(service, healthy),
        Deed::Pass(time) => world.pass(time),
    }
}

/// Checks that everything can be stopped after any events, and that nothing happens then.
fn comes_to_rest(mut world: World) {
    world.on(Event::StopAll);
    for _ in 0..3 {
        for service in 0..3 {
            world.end(service, false);
        }
    }
    assert!(world.machine.is_still(), "{}", world.states());
    world.told();
    world.pass(100_000);
    assert_eq!(world.told(), "");
}

#[test]
fn every_pair_of_events_in_every_stage_makes_sense() {
    let stages: &[&[Deed]] = &[
        &[],
        &[Deed::Start(2)],
        &[Deed::Start(2), Deed::Answer(0, true)],
        &[Deed::Start(2), Deed::Answer(0, true), Deed::End(1, true)],
        &[Deed::Start(2), Deed::Answer(0, true), Deed::End(1, true), Deed::End(2, true)],
        &[
            Deed::Start(2),
            Deed::Answer(0, true),
            Deed::End(1, true),
            Deed::End(2, true),
            Deed::Answer(2, true),
        ],
        &[Deed::Start(0), Deed::End(0, false)],
        &[Deed::Start(0), Deed::Stop(0)],
        &[Deed::Start(0), Deed::Stop(0), Deed::Pass(20_000)],
    ];
    for stage in stages {
        for first in deeds() {
            for second in deeds() {
                let mut world = World::new(shop());
                for deed in stage.iter().copied().chain([first, second]) {
                    live(&mut world, deed);
                }
                comes_to_rest(world);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_history_leads_to_nonsense(history in proptest::collection::vec(0..deeds().len(), 0..60)) {
        let mut world = World::new(shop());
        for deed in history {
            live(&mut world, deeds()[deed]);
        }
        comes_to_rest(world);
    }
}

#[test]
fn a_build_that_fails_is_not_repeated() {
    let mut world = World::new(Machine::new(vec![Rules { builds: true, ..rules("web") }]));
    world.on(Event::Start { service: 0 });
    world.end(0, false);
    assert_eq!(world.machine.services()[0].state, State::Failed);
    assert_eq!(world.told.iter().filter(|told| *told == "Build web").count(), 1);
    world.on(Event::Start { service: 0 });
    assert_eq!(world.machine.services()[0].state, State::Building);
}

#[test]
fn a_service_that_ends_by_itself_has_failed_even_with_exit_code_0() {
    for (kind, expected) in [(Kind::Service, State::Failed), (Kind::Task, State::Completed)] {
        let mut world = World::new(Machine::new(vec![Rules { kind, ..rules("web") }]));
        world.on(Event::Start { service: 0 });
        world.now += SETTLED_AFTER;
        world.on(Event::Tick);
        world.end(0, true);
        assert_eq!(world.machine.services()[0].state, expected);
    }
}
