//! Records the programs that an agent starts, by polling its room's processes.
//!
//! A command that starts and ends between two polls is missed. Its call is in the audit if a guard
//! reports it.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use hothouse_guard::redacted;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    record::{Draft, bodies},
    room::RunningProgram,
};

use super::{Agents, Kept};

/// The poll interval.
const EVERY: Duration = Duration::from_millis(250);

/// The maximum number of records per agent.
const MOST: usize = 1000;

/// The maximum length of an argument in a record.
const WORD: usize = 300;

/// The observed processes of an agent.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Its processes by pid, with their start times.
    own: HashMap<i32, u64>,
    told: HashSet<(i32, u64, Vec<String>)>,
}

impl Programs {
    /// Processes a snapshot; returns new command lines. A process that replaces its program counts
    /// again.
    pub(super) fn look(&mut self, first: i32, now: &[RunningProgram]) -> Vec<Vec<String>> {
        let mut new = Vec::new();
        // Parents come before their children.
        for program in now {
            let is_known = self.own.get(&program.pid) == Some(&program.started);
            let is_own = program.pid == first || is_known || self.own.contains_key(&program.parent);
            if !is_own || program.argv.is_empty() {
                continue;
            }
            self.own.insert(program.pid, program.started);
            if is_guard(&program.argv) {
                continue;
            }
            let seen = (program.pid, program.started, program.argv.clone());
            if program.pid != first && self.told.len() < MOST && self.told.insert(seen) {
                new.push(program.argv.clone());
            }
        }
        // Pids are reused.
        let living: HashMap<i32, u64> = now.iter().map(|one| (one.pid, one.started)).collect();
        self.own.retain(|pid, started| living.get(pid) == Some(started));
        new
    }
}

/// Whether it is the guard, which a hook runs before each call.
fn is_guard(argv: &[String]) -> bool {
    let [program, verb, ..] = argv else { return false };
    verb == "guard" && program.rsplit('/').next() == Some("hothouse")
}

impl Agents {
    /// Polls the agent's programs, for as long as it is followed.
    pub(super) async fn watch_programs(&self, sandbox: &SandboxRecord) {
        let mut seen = Programs::default();
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(kept) = self.kept(sandbox).filter(Kept::is_active) else { continue };
            let Some(first) = kept.record.pid else { continue };
            let (engine, of) = (self.with.engine.clone(), sandbox.clone());
            let now = tokio::task::spawn_blocking(move || engine.programs(&of)).await;
            for argv in seen.look(first, &now.unwrap_or_default()) {
                self.note_program(sandbox, &argv);
            }
        }
    }

    fn note_program(&self, sandbox: &SandboxRecord, argv: &[String]) {
        let cut = |word: &String| redacted(&word.chars().take(WORD).collect::<String>());
        let argv: Vec<String> = argv.iter().map(cut).collect();
        let summary: String = format!("ran {}", argv.join(" ")).chars().take(200).collect();
        let body = bodies::ExecBody { argv, inside: true, sampled: true, ..Default::default() };
        self.with.timelines.append(sandbox, Draft::of(HostClock.now(), summary, &body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pid: i32, parent: i32, started: u64, line: &str) -> RunningProgram {
        let argv = line.split(' ').map(str::to_owned).collect();
        RunningProgram { pid, parent, started, argv }
    }

    #[test]
    fn what_is_below_the_agent_is_told_once() {
        let mut seen = Programs::default();
        let all = [
            program(5, 1, 10, "agent"),
            program(6, 5, 11, "sh -c make"),
            program(7, 6, 12, "make"),
            program(8, 5, 12, "/run/hothouse/bin/hothouse guard --tool x"),
            program(9, 1, 13, "postgres"),
        ];
        assert_eq!(seen.look(5, &all), [vec!["sh", "-c", "make"], vec!["make"]]);
        assert!(seen.look(5, &all).is_empty());
        // An orphan still belongs to the agent; a reused pid does not.
        let later = [
            program(5, 1, 10, "agent"),
            program(7, 1, 12, "cc x.c"),
            program(6, 1, 99, "postgres"),
        ];
        assert_eq!(seen.look(5, &later), [vec!["cc", "x.c"]]);
    }
}
