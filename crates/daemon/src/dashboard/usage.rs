//! The recent resource usage of rooms, measured while a page is open.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_dashboard::spark::{self, Usage};
use hothouse_model::{SandboxRecord, id::SandboxKey, room::RoomUsage};

use crate::Daemon;

/// How often rooms are measured while a page is open. This also limits how often usage changes the page.
const PERIOD: Duration = Duration::from_secs(10);

/// One measurement of a room.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    usage: RoomUsage,
}

/// The measurements of all rooms.
#[derive(Default)]
pub(super) struct Usages(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    measured: Option<Instant>,
    rooms: HashMap<SandboxKey, VecDeque<Sample>>,
}

impl Usages {
    /// Returns the resource usage of rooms, measuring it if the last measurement is old.
    pub(super) fn of(
        &self,
        daemon: &Daemon,
        sandboxes: &[SandboxRecord],
    ) -> HashMap<SandboxKey, Usage> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if kept.measured.is_none_or(|then| now.duration_since(then) >= PERIOD) {
            kept.measured = Some(now);
            let found = daemon.engine.usage_of(sandboxes);
            let keys = sandboxes.iter().map(|sandbox| sandbox.key);
            kept.take(keys.zip(found).collect(), now);
        }
        kept.rooms.iter().map(|(key, samples)| (*key, shown(samples))).collect()
    }
}

impl Kept {
    /// Adds measurements; a room that was gone starts over.
    fn take(&mut self, found: Vec<(SandboxKey, Option<RoomUsage>)>, at: Instant) {
        let mut former = std::mem::take(&mut self.rooms);
        for (key, usage) in found.into_iter().filter_map(|(key, usage)| Some((key, usage?))) {
            let mut samples = former.remove(&key).unwrap_or_default();
            if samples.len() > spark::MOST {
                samples.pop_front();
            }
            samples.push_back(Sample { at, usage });
            self.rooms.insert(key, samples);
        }
    }
}

fn shown(samples: &VecDeque<Sample>) -> Usage {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let cpu: Vec<u64> = pairs.map(|(before, after)| percent(before, after)).collect();
    let memory: Vec<u64> = samples.iter().map(|sample| sample.usage.memory_bytes).collect();
    let processes = samples.back().map_or(0, |sample| sample.usage.processes);
    Usage::new(&cpu, &memory, processes)
}

/// Returns the CPU usage of a room between two measurements, in percent of a core. Time of processes that have ended
/// since may be missing in the second one.
fn percent(before: &Sample, after: &Sample) -> u64 {
    let passed = after.at.duration_since(before.at).as_millis().max(1);
    let used = u128::from(after.usage.cpu_ms.saturating_sub(before.usage.cpu_ms));
    u64::try_from(used * 100 / passed).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_was_gone_starts_over() {
        let (mut kept, at) = (Kept::default(), Instant::now());
        let usage = |cpu_ms| RoomUsage { cpu_ms, memory_bytes: 1 << 20, processes: 3 };
        let key = SandboxKey(7);
        kept.take(vec![(key, Some(usage(1000)))], at);
        kept.take(vec![(key, Some(usage(6000)))], at + PERIOD);
        let seen = shown(&kept.rooms[&key]);
        assert_eq!((seen.cpu.as_str(), seen.memory.as_str()), ("50 %", "1.0 MB"));
        kept.take(vec![(key, Some(usage(10)))], at + PERIOD * 2);
        assert_eq!(shown(&kept.rooms[&key]).cpu, "0 %", "a process has ended");
        kept.take(vec![(key, None)], at + PERIOD * 3);
        assert!(kept.rooms.is_empty());
    }
}
