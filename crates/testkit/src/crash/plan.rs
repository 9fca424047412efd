//! Chooses the next step, from random numbers and from what exists.

use super::{
    Run,
    model::{Sandbox, Stand},
    step::{Fault, Operation, Step},
};

/// The maximum number of sandboxes.
const SANDBOXES: usize = 4;

impl Run<'_> {
    /// Chooses the next step.
    pub(super) fn choose(&mut self) -> Step {
        let operations = match self.sandboxes.is_empty() {
            true => vec![Operation::Fork { new: self.new_name() }],
            false if self.dice.one_in(5) => self.choose_several(),
            false => vec![self.choose_one()],
        };
        let fault = self.choose_fault(&operations);
        Step { operations, fault, delay_ms: self.dice.below(120) as u64 }
    }

    fn new_name(&mut self) -> String {
        self.counter += 1;
        format!("{}{:04}", self.prefix, self.counter)
    }

    fn some_name(&mut self) -> String {
        let names: Vec<&String> = self.sandboxes.keys().collect();
        (*self.dice.pick(&names)).clone()
    }

    fn rows(&mut self, sandbox: String) -> Operation {
        let count = 1 + self.dice.below(20) as u64;
        self.row += count;
        Operation::Rows { sandbox, first: self.row - count, count }
    }

    fn commit(&mut self, sandbox: String) -> Operation {
        self.counter += 1;
        Operation::Commit { sandbox, subject: format!("work-{:04}", self.counter) }
    }

    fn snapshot(&mut self, sandbox: String) -> Operation {
        self.counter += 1;
        Operation::Snapshot { sandbox, label: format!("s{:04}", self.counter) }
    }

    fn some_label(&mut self, name: &str) -> Option<String> {
        let labels: Vec<String> = self.sandboxes.get(name)?.snapshots.keys().cloned().collect();
        (!labels.is_empty()).then(|| self.dice.pick(&labels).clone())
    }

    fn restore(&mut self, sandbox: String) -> Operation {
        match self.some_label(&sandbox) {
            Some(label) => Operation::Restore { sandbox, label },
            None => self.snapshot(sandbox),
        }
    }

    fn fork_from(&mut self, from: String) -> Operation {
        let label = if self.dice.one_in(2) { self.some_label(&from) } else { None };
        Operation::ForkFrom { new: self.new_name(), from, label }
    }

    fn choose_one(&mut self) -> Operation {
        let name = self.some_name();
        if self.sandboxes.len() < SANDBOXES && self.dice.one_in(8) {
            return match self.dice.one_in(2) {
                true => Operation::Fork { new: self.new_name() },
                false => self.fork_from(name),
            };
        }
        if self.dice.one_in(200) {
            return Operation::Nuke;
        }
        let stand =
            self.sandboxes.get(&name).map_or(Stand::Unknown, |sandbox: &Sandbox| sandbox.stand);
        if stand == Stand::Paused && self.dice.one_in(2) {
            return Operation::Resume(name);
        }
        if stand != Stand::Up && self.dice.one_in(2) {
            return Operation::Up(name);
        }
        match *self.dice.weigh(&[
            (10, 0),
            (4, 1),
            (3, 2),
            (4, 3),
            (4, 4),
            (3, 5),
            (2, 6),
            (1, 7),
            (2, 8),
            (1, 9),
            (2, 10),
        ]) {
            0 => self.rows(name),
            1 => Operation::Up(name),
            2 => Operation::Down(name),
            3 => self.commit(name),
            4 => self.snapshot(name),
            5 => self.restore(name),
            6 => Operation::Pause(name),
            7 => Operation::Configure(name),
            8 => Operation::Fresh(name),
            9 => Operation::Delete(name),
            _ => Operation::Resume(name),
        }
    }

    fn choose_several(&mut self) -> Vec<Operation> {
        let name = self.some_name();
        let up = Operation::Up(name.clone());
        let down = Operation::Down(name.clone());
        match self.dice.below(11) {
            0 | 1 => vec![up.clone(), up],
            2 => vec![up.clone(), up.clone(), up.clone(), up],
            3 => vec![up, down],
            4 => vec![up, Operation::Delete(name)],
            5 => vec![self.fork_from(name.clone()), Operation::Delete(name)],
            6 => vec![self.rows(name.clone()), self.snapshot(name)],
            7 => vec![self.rows(name.clone()), self.restore(name)],
            8 => vec![self.rows(name.clone()), down],
            9 => vec![self.snapshot(name), down],
            _ => vec![self.commit(name.clone()), self.fork_from(name)],
        }
    }

    fn choose_fault(&mut self, operations: &[Operation]) -> Option<Fault> {
        if !self.dice.one_in(3) {
            return None;
        }
        let fault = *self.dice.weigh(&[
            (6, Fault::KillDaemon),
            (2, Fault::KillLauncher),
            (4, Fault::KillRoomInit),
            (3, Fault::KillService),
            (3, Fault::KillClient),
            (1, Fault::RemoveRuntime),
            (2, Fault::RemoveRooms),
            (2, Fault::OtherRuntime),
            (2, Fault::NoRuntime),
            (3, Fault::FullDisk),
            (2, Fault::Upgrade),
            (2, Fault::StopDaemon),
        ]);
        // Without a disk to fill, the step has no fault; random numbers are drawn anyway.
        let fits = fault != Fault::FullDisk || self.ground.can_fill() && operations.len() == 1;
        let wanted = !self.without.contains(&format!("{fault:?}"));
        (fits && wanted).then_some(fault)
    }
}
