//! Who has how much of what all rooms share, counted as it is taken and given back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hothouse_model::budget::{Budget, Taken};

/// The count of one daemon.
#[derive(Debug)]
pub struct Shares {
    budget: Budget,
    taken: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    rooms: HashMap<Arc<str>, u64>,
}

impl Shares {
    /// Shares out as many descriptors as a process may have.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { budget: Budget::of(limit), taken: Mutex::default() })
    }

    /// Returns the share of a room, by any name that is its own.
    pub fn of(self: &Arc<Self>, room: &str) -> RoomShare {
        RoomShare { shares: self.clone(), room: room.into() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one room may have.
#[derive(Clone, Debug)]
pub struct RoomShare {
    shares: Arc<Shares>,
    room: Arc<str>,
}

impl RoomShare {
    /// Takes so many descriptors, to be given back when the permit is dropped; none if that is too much.
    pub fn take(&self, cost: u64) -> Option<Permit> {
        let mut counts = self.shares.counts();
        let by_room = counts.rooms.get(&self.room).copied().unwrap_or(0);
        let rooms = counts.rooms.len() + usize::from(by_room == 0);
        let rooms = u64::try_from(rooms).unwrap_or(u64::MAX / 2);
        if !self.shares.budget.admits(Taken { by_all: counts.all, by_room, rooms }, cost) {
            return None;
        }
        counts.all += cost;
        *counts.rooms.entry(self.room.clone()).or_default() += cost;
        Some(Permit { share: self.clone(), cost })
    }
}

/// Something that was taken.
#[derive(Debug)]
pub struct Permit {
    share: RoomShare,
    cost: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.share.shares.counts();
        counts.all = counts.all.saturating_sub(self.cost);
        if let Some(taken) = counts.rooms.get_mut(&self.share.room) {
            *taken = taken.saturating_sub(self.cost);
            if *taken == 0 {
                counts.rooms.remove(&self.share.room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let shares = Shares::new(400);
        let (one, two) = (shares.of("a"), shares.of("b"));
        let mut taken: Vec<_> = std::iter::from_fn(|| one.take(5)).collect();
        assert_eq!(taken.len(), 15, "a quarter of 300");
        assert!(two.take(5).is_some(), "another room is served");
        taken.pop();
        assert!(one.take(5).is_some());
        drop(taken);
        assert_eq!(shares.counts().all, 0);
        assert!(shares.counts().rooms.is_empty());
    }
}
