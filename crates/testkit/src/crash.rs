//! Random operations and random faults against the real binary, and a model of what must be true.
//!
//! Each sandbox has a small database that acknowledges rows and reports a second writer. After
//! each step: what was acknowledged is there, nobody writes twice, nothing hangs; at the end nothing is left.
//! The steps depend only on the seed; their outcome also depends on timing.

mod dice;
mod ground;
mod model;
mod outcome;
mod plan;
mod processes;
mod step;

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use self::{
    dice::Dice,
    ground::{Ground, Runtime},
    model::{Presence, Sandbox, Stand},
    step::{Fault, Operation, Step},
};
use crate::Ran;

/// How many steps are printed after a failure.
const TOLD: usize = 30;

/// How long running operations may take to finish.
const REST: Duration = Duration::from_secs(60);

/// How many checks in a row must find nothing after a client was killed: the daemon may not yet have read its request.
const LATECOMER: usize = 5;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct CrashSpec {
    pub binary: PathBuf,
    pub rounds: usize,
    pub seed: u64,
    /// The tree driver; the host's best if none is named.
    pub tree: Option<String>,
    /// Whether to run as an ordinary user.
    pub user: bool,
    /// The names of faults to leave out, such as `FullDisk`.
    pub without: Vec<String>,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub enum CrashEnd {
    /// This host cannot start rooms, and why.
    Impossible(String),
    /// Something that must be true was not: what, and the last steps before it.
    Broken { what: String, steps: Vec<String> },
}

/// Runs the test, and reports each step.
pub fn run(spec: &CrashSpec, tell: &mut dyn FnMut(&str)) -> Result<(), CrashEnd> {
    let ground = Ground::new(spec).map_err(CrashEnd::Impossible)?;
    let mut run = Run {
        ground,
        dice: Dice::new(spec.seed),
        prefix: format!("k{:05x}-", std::process::id() & 0xf_ffff),
        tree: spec.tree.clone(),
        without: spec.without.clone(),
        sandboxes: BTreeMap::new(),
        counter: 0,
        row: 0,
        last: VecDeque::new(),
        tell,
    };
    run.is_possible().map_err(CrashEnd::Impossible)?;
    let done = (0..spec.rounds).try_for_each(|round| run.round(round)).and_then(|()| run.end());
    done.map_err(|what| {
        let log = std::env::temp_dir().join(format!("hothouse-crash-{}.log", spec.seed));
        std::fs::copy(run.ground.env.state().join("logs/daemon.log"), &log).ok();
        let what = format!("{what}\nthe daemon's log is {}", log.display());
        CrashEnd::Broken { what, steps: run.last.into() }
    })
}

struct Run<'a> {
    ground: Ground,
    dice: Dice,
    /// The prefix of sandbox names: the control groups of a host are shared.
    prefix: String,
    tree: Option<String>,
    without: Vec<String>,
    sandboxes: BTreeMap<String, Sandbox>,
    counter: usize,
    row: u64,
    last: VecDeque<String>,
    tell: &'a mut dyn FnMut(&str),
}

impl Run<'_> {
    fn is_possible(&mut self) -> Result<(), String> {
        let name = format!("{}00", self.prefix);
        let fork = Operation::Fork { new: name.clone() }.words(self.tree.as_deref());
        let fork: Vec<&str> = fork.iter().map(String::as_str).collect();
        for words in [&fork[..], &["up", "-w", &name], &["delete", &name, "--force"]] {
            let ran = self.ground.run(words)?;
            if ran.code != 0 {
                return Err(ran.to_string());
            }
        }
        Ok(())
    }

    fn note(&mut self, line: String) {
        (self.tell)(&line);
        self.last.push_back(line);
        if self.last.len() > TOLD {
            self.last.pop_front();
        }
    }

    fn round(&mut self, round: usize) -> Result<(), String> {
        let step = self.choose();
        let shown = step.to_string().replace(&self.prefix, "");
        let begun = Instant::now();
        let ends = self.carry_out(&step);
        let codes: Vec<String> = match &ends {
            Ok(ends) => ends.iter().map(|ran| ran.code.to_string()).collect(),
            Err(_) => vec!["hangs".into()],
        };
        self.note(format!(
            "{round:>5}  {shown}  -> {} ({} ms)",
            codes.join(", "),
            begun.elapsed().as_millis()
        ));
        let ends = ends?;
        for (operation, ran) in step.operations.iter().zip(&ends) {
            self.judge(&step, operation, ran)?;
        }
        for (operation, ran) in step.operations.iter().zip(&ends) {
            self.learn(&step, operation, ran);
        }
        let killed = step.fault == Some(Fault::KillClient);
        if !step.is_calm() || self.dice.one_in(10) {
            self.rest(if killed { LATECOMER } else { 1 })?;
        }
        self.check()?;
        let troubled = step.fault.is_some() || step.operations.len() > 1;
        if troubled && self.dice.one_in(3) || self.dice.one_in(25) {
            self.start_all()?;
        }
        Ok(())
    }

    /// Performs a step; an error means that something did not end in time.
    fn carry_out(&mut self, step: &Step) -> Result<Vec<Ran>, String> {
        let runtime = match step.fault {
            Some(Fault::OtherRuntime) => Runtime::Other,
            Some(Fault::NoRuntime) => Runtime::None,
            _ => Runtime::Usual,
        };
        match step.fault {
            Some(Fault::RemoveRuntime) => self.ground.remove(&["run/hothouse"]),
            Some(Fault::RemoveRooms) => self.ground.remove(&["run/hothouse", "state/hothouse/run"]),
            Some(Fault::Upgrade) => self.ground.upgrade(),
            _ => {}
        }
        let full = (step.fault == Some(Fault::FullDisk)).then(|| self.ground.fill());
        let mut begun: Vec<_> = step
            .operations
            .iter()
            .map(|operation| self.ground.start(&operation.words(self.tree.as_deref()), runtime))
            .collect();
        let stop = self.disturb(step, begun.first().map(|running| running.pid));
        let ends: Result<Vec<Ran>, String> = begun.drain(..).map(ground::Running::end).collect();
        if let Some(stop) = stop {
            stop.end()?;
        }
        drop(full);
        ends
    }

    /// Injects the fault of a step.
    fn disturb(&self, step: &Step, client: Option<u32>) -> Option<ground::Running> {
        let fault = step.fault.filter(|fault| step.kills() || *fault == Fault::StopDaemon)?;
        // The delay is part of the step, and does not wait for anything.
        thread::sleep(Duration::from_millis(step.delay_ms));
        let sandbox = step.operations.first().and_then(Operation::sandbox);
        let worktree = sandbox.map(|name| self.ground.worktree(name));
        let daemon = self.ground.daemon();
        let hit = |process: Option<&processes::Process>| {
            process.into_iter().for_each(|process| processes::kill(process.pid));
        };
        let at = usize::try_from(step.delay_ms).unwrap_or(0);
        let one_of = |all: Vec<processes::Process>| hit(all.get(at % all.len().max(1)));
        match fault {
            Fault::KillDaemon => hit(daemon.as_ref()),
            Fault::KillLauncher => {
                one_of(daemon.map(|daemon| processes::launchers(daemon.pid)).unwrap_or_default());
            }
            Fault::KillRoomInit => {
                one_of(worktree.map(|at| processes::room_inits(&at)).unwrap_or_default());
            }
            Fault::KillService => {
                let all = processes::ledgers().into_iter();
                let here = |at: PathBuf| all.filter(|ledger| ledger.is_in(&at)).collect();
                one_of(worktree.map(here).unwrap_or_default());
            }
            Fault::KillClient => client.into_iter().for_each(processes::kill),
            _ => {
                return Some(self.ground.start(&Operation::StopDaemon.words(None), Runtime::Usual));
            }
        }
        None
    }

    /// Waits until nothing is running any more, in this many checks in a row, and resolves unknown outcomes.
    fn rest(&mut self, looks: usize) -> Result<(), String> {
        let begun = Instant::now();
        let mut quiet = 0;
        let all = loop {
            let list = self.ground.run(&["list", "--json"])?;
            let daemon = self.ground.run(&["daemon", "status", "--json"])?;
            let daemon: serde_json::Value =
                serde_json::from_str(&daemon.stdout).unwrap_or_default();
            let all: Option<Vec<serde_json::Value>> = serde_json::from_str(&list.stdout).ok();
            let busy = |all: &Vec<serde_json::Value>| {
                all.iter().any(|view| view["state"] == "deleting" || view["state"] == "starting")
            };
            match all {
                Some(all) if daemon["busy"] == 0 && !busy(&all) => {
                    quiet += 1;
                    if quiet >= looks {
                        break all;
                    }
                }
                _ if begun.elapsed() < REST => thread::sleep(Duration::from_millis(10)),
                _ => {
                    return Err(format!(
                        "nothing comes to rest within {} s: busy {}, {list}",
                        REST.as_secs(),
                        daemon["busy"]
                    ));
                }
            }
        };
        let stands: BTreeMap<&str, &str> = all
            .iter()
            .filter_map(|view| Some((view["name"].as_str()?, view["state"].as_str()?)))
            .collect();
        let lost: Vec<&String> = self
            .sandboxes
            .iter()
            .filter(|(name, sandbox)| {
                sandbox.presence == Presence::Sure && !stands.contains_key(name.as_str())
            })
            .map(|(name, _)| name)
            .collect();
        if !lost.is_empty() {
            return Err(format!("sandboxes are lost: {lost:?}"));
        }
        self.sandboxes.retain(|name, _| stands.contains_key(name.as_str()));
        for (name, state) in stands {
            let Some(sandbox) = self.sandboxes.get_mut(name) else {
                return Err(format!("`{name}` is there again, or was never made"));
            };
            sandbox.presence = Presence::Sure;
            sandbox.stand = match state {
                "ready" => Stand::Up,
                "paused" => Stand::Paused,
                "created" | "stopped" => Stand::Down,
                _ => Stand::Unknown,
            };
        }
        self.check()?;
        self.sandboxes.values_mut().for_each(Sandbox::settle);
        Ok(())
    }

    /// Checks that each sandbox starts, whatever happened, and has what it must have.
    fn start_all(&mut self) -> Result<(), String> {
        self.rest(1)?;
        let names: Vec<String> = self.sandboxes.keys().cloned().collect();
        for name in &names {
            if self.sandboxes[name].stand == Stand::Paused {
                self.ground.run(&["resume", "-w", name])?;
            }
            let ran = self.ground.run(&["up", "-w", name])?;
            if ran.code != 0 {
                // A second writer is more telling than a failed start.
                self.check()?;
                return Err(format!("a sandbox does not start: {ran}"));
            }
            if let Some(sandbox) = self.sandboxes.get_mut(name) {
                sandbox.stand = Stand::Up;
            }
        }
        self.note(format!("       {} started", names.len()));
        self.check()?;
        self.check_commits()
    }

    /// Checks what must be true at any moment.
    fn check(&mut self) -> Result<(), String> {
        let ledgers = processes::ledgers();
        for (name, sandbox) in &mut self.sandboxes {
            let worktree = self.ground.worktree(name);
            if worktree.join("SECOND").exists() {
                return Err(format!("`{name}` has a second writer"));
            }
            let ledgers: Vec<_> = ledgers.iter().filter(|one| one.is_in(&worktree)).collect();
            if ledgers.len() > 1 {
                return Err(format!("`{name}` has {} ledgers: {ledgers:?}", ledgers.len()));
            }
            if sandbox.presence == Presence::Perhaps {
                continue;
            }
            if let Some(found) = self.ground.rows(name, sandbox.stand == Stand::Up)? {
                sandbox.see_rows(&found).map_err(|why| format!("`{name}`: {why}"))?;
            }
        }
        Ok(())
    }

    /// Checks that what was committed is in the user's repository, or still in the room.
    fn check_commits(&mut self) -> Result<(), String> {
        let imported = self.ground.commits();
        for (name, sandbox) in &mut self.sandboxes {
            let mut found = imported.clone();
            if sandbox.clone().see_commits(&found).is_err() && sandbox.stand == Stand::Up {
                let words = ["exec", "-w", name, "--", "git", "log", "--all", "--format=%s"];
                found.extend(self.ground.run(&words)?.stdout.lines().map(str::to_owned));
            }
            sandbox.see_commits(&found).map_err(|why| format!("`{name}`: {why}"))?;
        }
        Ok(())
    }

    /// Checks that nothing is left at the end.
    fn end(&mut self) -> Result<(), String> {
        self.start_all()?;
        let ran = self.ground.run(&["nuke", "--yes"])?;
        if ran.code != 0 {
            return Err(format!("not everything can be removed: {ran}"));
        }
        self.sandboxes.clear();
        self.nothing_is_left()?;
        self.ground.run(&["daemon", "stop"])?;
        let root = self.ground.env.root().to_owned();
        until("a process is left", || {
            processes::of_run(&root).iter().map(|p| format!("{p:?}")).collect()
        })
    }

    fn nothing_is_left(&mut self) -> Result<(), String> {
        let (root, prefix) = (self.ground.env.root().to_owned(), self.prefix.clone());
        let show = |paths: Vec<PathBuf>| paths.iter().map(|p| p.display().to_string()).collect();
        until("a room is left", || {
            processes::room_inits(&root).iter().map(|p| format!("{p:?}")).collect()
        })?;
        until("a control group is left", || show(processes::control_groups(&prefix)))?;
        until("a mount is left", || show(processes::mounts_below(&root)))?;
        let doctor = self.ground.run(&["doctor", "--json"])?;
        let report: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap_or_default();
        match report["leftovers"].as_array().map(Vec::is_empty) {
            Some(true) => Ok(()),
            _ => Err(format!("`doctor` finds something: {}", report["leftovers"])),
        }
    }
}

/// Waits until nothing is found.
fn until(what: &str, look: impl Fn() -> Vec<String>) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(format!("{what}: {}", found.join("; ")));
        }
        thread::sleep(Duration::from_millis(20));
    }
}
