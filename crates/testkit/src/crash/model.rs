//! What must be true: a simple model of sandboxes, their rows and commits.
//!
//! An operation with an unknown outcome leaves several worlds possible; what is then found rules
//! out those that do not fit. If none fits, something was lost.

use std::collections::{BTreeMap, BTreeSet};

/// What a sandbox must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct World {
    /// The rows that were acknowledged.
    pub(super) rows: BTreeSet<u64>,
    /// The commits that were acknowledged, by their subjects.
    pub(super) commits: BTreeSet<String>,
}

impl World {
    fn holds_less_than(&self, other: &Self) -> bool {
        self != other && self.rows.is_subset(&other.rows) && self.commits.is_subset(&other.commits)
    }
}

/// The state of a room, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Down,
    Up,
    Paused,
    Unknown,
}

/// Whether a sandbox or a snapshot exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Sure,
    Perhaps,
}

/// A snapshot, and what it must hold.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) presence: Presence,
    pub(super) worlds: Vec<World>,
}

/// One sandbox.
#[derive(Clone, Debug)]
pub(super) struct Sandbox {
    pub(super) presence: Presence,
    pub(super) stand: Stand,
    pub(super) worlds: Vec<World>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
}

impl Sandbox {
    /// Creates a sandbox that is in any of these worlds.
    pub(super) fn of(worlds: Vec<World>, presence: Presence) -> Self {
        Self { presence, stand: Stand::Down, worlds, snapshots: BTreeMap::new() }
    }

    /// Records rows that were acknowledged.
    pub(super) fn acknowledge(&mut self, rows: &[u64]) {
        self.worlds.iter_mut().for_each(|world| world.rows.extend(rows));
    }

    /// Records a commit that was acknowledged.
    pub(super) fn commit(&mut self, subject: &str) {
        self.worlds.iter_mut().for_each(|world| {
            world.commits.insert(subject.to_owned());
        });
    }

    /// Rules out the worlds whose rows are not all there; an error names what is missing from all.
    pub(super) fn see_rows(&mut self, found: &BTreeSet<u64>) -> Result<(), String> {
        let missing = |world: &World| world.rows.difference(found).copied().collect::<Vec<_>>();
        self.see(|world| missing(world).is_empty()).map_err(|worlds| {
            let fewest = worlds.iter().map(missing).min_by_key(Vec::len).unwrap_or_default();
            let of = worlds.iter().map(|world| world.rows.len()).max().unwrap_or_default();
            format!("{} of {of} acknowledged rows are lost: {}", fewest.len(), some(&fewest))
        })
    }

    /// Rules out the worlds whose commits are not all there.
    pub(super) fn see_commits(&mut self, found: &BTreeSet<String>) -> Result<(), String> {
        let missing = |world: &World| world.commits.difference(found).cloned().collect::<Vec<_>>();
        self.see(|world| missing(world).is_empty()).map_err(|worlds| {
            let fewest = worlds.iter().map(missing).min_by_key(Vec::len).unwrap_or_default();
            format!("commits are lost: {}", some(&fewest))
        })
    }

    fn see(&mut self, fits: impl Fn(&World) -> bool) -> Result<(), Vec<World>> {
        let (fitting, others): (Vec<_>, Vec<_>) = self.worlds.drain(..).partition(fits);
        match fitting.is_empty() {
            true => Err(others),
            false => {
                self.worlds = fitting;
                Ok(())
            }
        }
    }

    /// Rules out each world that holds less than another possible one. Called once nothing is running
    /// any more: what is there now stays, and whatever vanishes later was lost.
    pub(super) fn settle(&mut self) {
        let all = self.worlds.clone();
        self.worlds.retain(|world| !all.iter().any(|other| world.holds_less_than(other)));
        self.worlds.dedup();
    }
}

fn some<T: ToString>(all: &[T]) -> String {
    let shown: Vec<String> = all.iter().take(8).map(ToString::to_string).collect();
    let more = if all.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(rows: &[u64]) -> World {
        World { rows: rows.iter().copied().collect(), ..World::default() }
    }

    #[test]
    fn a_lost_row_is_seen_and_an_unknown_end_leaves_both_possible() {
        let mut sandbox = Sandbox::of(vec![world(&[1, 2])], Presence::Sure);
        sandbox.acknowledge(&[3]);
        assert!(sandbox.clone().see_rows(&[1, 2].into()).is_err());
        sandbox.worlds.push(world(&[1]));
        assert!(sandbox.clone().see_rows(&[1, 9].into()).is_ok());
        // Once the older world was ruled out, it must not come back.
        sandbox.see_rows(&[1, 2, 3].into()).unwrap();
        sandbox.settle();
        assert!(sandbox.see_rows(&[1].into()).is_err());
    }
}
