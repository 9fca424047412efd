//! The possible outcomes of an operation, and what follows from them.

use super::{
    Run,
    model::{Presence, Sandbox, Snapshot, Stand, World},
    step::{Fault, Operation, Step},
};
use crate::Ran;

/// The exit code for something that does not exist.
const NOT_FOUND: i32 = 4;

/// An internal error, or a program that was killed.
const INTERNAL: [i32; 2] = [70, 101];

impl Run<'_> {
    /// Checks whether an operation may end with this outcome.
    pub(super) fn judge(
        &self,
        step: &Step,
        operation: &Operation,
        ran: &Ran,
    ) -> Result<(), String> {
        let full = step.fault == Some(Fault::FullDisk);
        if full {
            return match operation {
                Operation::Down(_) | Operation::Delete(_) if ran.code != 0 => {
                    Err(format!("on a full disk: {ran}"))
                }
                _ => Ok(()),
            };
        }
        // A client that was killed prints nothing.
        if step.fault == Some(Fault::KillClient) {
            return Ok(());
        }
        if INTERNAL.contains(&ran.code) {
            return Err(format!("an inner failure: {ran}"));
        }
        if step.kills() || step.fault == Some(Fault::StopDaemon) {
            return Ok(());
        }
        if operation.is_command() {
            let name = operation.sandbox().unwrap_or_default();
            let is_up = self.sandboxes.get(name).is_some_and(|known| known.stand == Stand::Up);
            // Layers that only a room sees cannot be in a second one.
            let alone = matches!(operation, Operation::Fresh(_))
                && ran.stderr.contains("are seen in its room alone");
            // A ledger that was killed a moment ago may not answer in time.
            return match step.is_calm() && is_up && !alone && ![0, 1].contains(&ran.code) {
                true => Err(format!("a command in a room that is up: {ran}")),
                false => Ok(()),
            };
        }
        let allowed: &[i32] =
            if step.is_calm() { self.calm_codes(operation) } else { race_codes(step, operation) };
        let expected =
            allowed.contains(&ran.code) || ran.code == NOT_FOUND && !self.has_all(operation);
        match expected {
            true => Ok(()),
            false => Err(format!("may end with {allowed:?}: {ran}")),
        }
    }

    /// Returns whether everything that an operation needs certainly exists: its sandbox, and its snapshot.
    fn has_all(&self, operation: &Operation) -> bool {
        let Some(name) = operation.needs() else { return true };
        let Some(sandbox) = self.sandboxes.get(name) else { return false };
        let label = match operation {
            Operation::Restore { label, .. } => Some(label),
            Operation::ForkFrom { label, .. } => label.as_ref(),
            _ => None,
        };
        let known = |label| {
            sandbox.snapshots.get(label).is_some_and(|found| found.presence == Presence::Sure)
        };
        sandbox.presence == Presence::Sure && label.is_none_or(known)
    }

    /// Returns the exit codes that are possible while nothing else is running.
    fn calm_codes(&self, operation: &Operation) -> &'static [i32] {
        let sandbox = operation.sandbox().and_then(|name| self.sandboxes.get(name));
        let stand = sandbox.map_or(Stand::Unknown, |sandbox| sandbox.stand);
        match (operation, stand) {
            // Pausing a room that is not up is not tested here.
            (
                Operation::Pause(_) | Operation::Resume(_),
                Stand::Up | Stand::Down | Stand::Unknown,
            ) => &[0, 5],
            (Operation::Pause(_) | Operation::Up(_), Stand::Paused | Stand::Unknown) => &[0, 5],
            _ => &[0],
        }
    }

    /// Records what is known after an operation.
    pub(super) fn learn(&mut self, step: &Step, operation: &Operation, ran: &Ran) {
        let done = ran.code == 0;
        let told = step.fault != Some(Fault::KillClient);
        match operation {
            Operation::Fork { new } => self.forked(new, vec![World::default()], done),
            Operation::ForkFrom { new, from, label } => {
                let source = self.sandboxes.get(from);
                let worlds = match label {
                    Some(label) => {
                        source.and_then(|s| s.snapshots.get(label)).map(|s| s.worlds.clone())
                    }
                    None => source.map(|source| source.worlds.clone()),
                };
                // What is written meanwhile may be in it or not; what its source had before must be.
                let worlds = worlds.map(|worlds| self.without_news(step, worlds));
                self.forked(new, worlds.unwrap_or_else(|| vec![World::default()]), done);
            }
            Operation::Delete(name) => {
                if done && told {
                    self.sandboxes.remove(name);
                } else if let Some(sandbox) = self.sandboxes.get_mut(name) {
                    sandbox.presence = Presence::Perhaps;
                }
            }
            Operation::Nuke => {
                if done && told {
                    self.sandboxes.clear();
                }
                self.sandboxes.values_mut().for_each(|s| s.presence = Presence::Perhaps);
            }
            Operation::StopDaemon => {}
            _ => self.learn_of_one(step, operation, ran),
        }
    }

    fn forked(&mut self, new: &str, worlds: Vec<World>, done: bool) {
        let presence = if done { Presence::Sure } else { Presence::Perhaps };
        self.sandboxes.insert(new.to_owned(), Sandbox::of(worlds, presence));
    }

    /// Removes what the same step has written.
    fn without_news(&self, step: &Step, mut worlds: Vec<World>) -> Vec<World> {
        for world in &mut worlds {
            for operation in &step.operations {
                match operation {
                    Operation::Rows { first, count, .. } => {
                        world.rows.retain(|row| !(*first..first + count).contains(row));
                    }
                    Operation::Commit { subject, .. } => drop(world.commits.remove(subject)),
                    _ => {}
                }
            }
        }
        worlds
    }

    fn learn_of_one(&mut self, step: &Step, operation: &Operation, ran: &Ran) {
        let alone = step.is_calm();
        let (done, told) = (ran.code == 0, step.fault != Some(Fault::KillClient));
        let kept = operation.sandbox().and_then(|name| self.sandboxes.get(name));
        let pure = kept.map(|sandbox| self.without_news(step, sandbox.worlds.clone()));
        let restores =
            step.operations.iter().any(|other| matches!(other, Operation::Restore { .. }));
        let Some(sandbox) = operation.sandbox().and_then(|name| self.sandboxes.get_mut(name))
        else {
            return;
        };
        if !alone || !done {
            sandbox.stand = Stand::Unknown;
        }
        let stand = |sandbox: &mut Sandbox, stand| {
            if alone && done {
                sandbox.stand = stand;
            }
        };
        match operation {
            Operation::Up(_) | Operation::Resume(_) => stand(sandbox, Stand::Up),
            Operation::Down(_) => stand(sandbox, Stand::Down),
            Operation::Pause(_) => stand(sandbox, Stand::Paused),
            Operation::Rows { .. } if !restores => {
                let rows: Vec<u64> =
                    ran.stdout.lines().filter_map(|line| line.parse().ok()).collect();
                sandbox.acknowledge(&rows);
            }
            Operation::Commit { subject, .. } if done && told => sandbox.commit(subject),
            Operation::Snapshot { label, .. } if done || !told || !alone => {
                let presence = if done && told { Presence::Sure } else { Presence::Perhaps };
                let worlds = pure.unwrap_or_default();
                sandbox.snapshots.insert(label.clone(), Snapshot { presence, worlds });
            }
            Operation::Restore { label, .. } => {
                let Some(snapshot) = sandbox.snapshots.get(label) else { return };
                let back = snapshot.worlds.clone();
                match done && told {
                    true => sandbox.worlds = back,
                    false => sandbox.worlds.extend(back),
                }
            }
            _ => {}
        }
    }
}

/// Returns the exit codes that are possible alongside other operations.
fn race_codes(step: &Step, operation: &Operation) -> &'static [i32] {
    let all = |kind: fn(&Operation) -> bool| step.operations.iter().all(kind);
    let any = |kind: fn(&Operation) -> bool| step.operations.iter().any(kind);
    match operation {
        // Equal requests join.
        Operation::Up(_) if all(|other| matches!(other, Operation::Up(_))) => &[0, 5],
        _ if any(|other| matches!(other, Operation::Delete(_) | Operation::Nuke)) => &[0, 4, 5],
        _ => &[0, 5],
    }
}
