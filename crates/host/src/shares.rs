//! Accounting of the descriptors that all rooms share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_model::budget::{Budget, Taken};

/// How long a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How often refusals of one room are logged.
const LOGGED: Duration = Duration::from_secs(5);

/// The accounting of one daemon.
#[derive(Debug)]
pub struct Shares {
    budget: Budget,
    taken: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    rooms: HashMap<Arc<str>, u64>,
    refused: HashMap<Arc<str>, Refused>,
}

/// Recent refusals of one room.
#[derive(Clone, Copy, Debug)]
struct Refused {
    count: u64,
    last: Instant,
    logged: Instant,
}

impl Shares {
    /// Divides a descriptor limit among rooms.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { budget: Budget::of(limit), taken: Mutex::default() })
    }

    /// Returns the share of a room, identified by any unique name.
    pub fn of(self: &Arc<Self>, room: &str) -> RoomShare {
        RoomShare { shares: self.clone(), room: room.into() }
    }

    /// Returns how often a room was refused recently; zero if the last refusal was more than a minute ago.
    pub fn refused(&self, room: &str) -> u64 {
        let counts = self.counts();
        let refused = counts.refused.get(room).filter(|known| known.last.elapsed() < REMEMBERED);
        refused.map_or(0, |known| known.count)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Records a refusal; returns the number of refusals if it is time to log them.
    fn note_refused(&mut self, room: &Arc<str>, now: Instant) -> Option<u64> {
        let is_old = |last: Instant| now.duration_since(last) >= REMEMBERED;
        self.refused.retain(|_, known| !is_old(known.last));
        let first = !self.refused.contains_key(room);
        let known = self.refused.entry(room.clone());
        let known = known.or_insert(Refused { count: 0, last: now, logged: now });
        (known.count, known.last) = (known.count + 1, now);
        let is_due = first || now.duration_since(known.logged) >= LOGGED;
        if is_due {
            known.logged = now;
        }
        is_due.then_some(known.count)
    }
}

/// The share of one room.
#[derive(Clone, Debug)]
pub struct RoomShare {
    shares: Arc<Shares>,
    room: Arc<str>,
}

impl RoomShare {
    /// Takes descriptors, released when the permit is dropped. Returns `None` if that would exceed the share.
    pub fn take(&self, cost: u64) -> Option<Permit> {
        let mut counts = self.shares.counts();
        let by_room = counts.rooms.get(&self.room).copied().unwrap_or(0);
        let rooms = counts.rooms.len() + usize::from(by_room == 0);
        let rooms = u64::try_from(rooms).unwrap_or(u64::MAX / 2);
        if !self.shares.budget.admits(Taken { by_all: counts.all, by_room, rooms }, cost) {
            drop(counts);
            self.refuse();
            return None;
        }
        counts.all += cost;
        *counts.rooms.entry(self.room.clone()).or_default() += cost;
        Some(Permit { share: self.clone(), cost })
    }

    /// Counts a refusal, including refusals by other limits, and logs it occasionally.
    pub fn refuse(&self) {
        let refused = self.shares.counts().note_refused(&self.room, Instant::now());
        if let Some(refused) = refused {
            tracing::warn!(sandbox = %self.room, refused, "a sandbox wants more than its share");
        }
    }
}

/// Descriptors taken from a share.
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
    fn refusals_are_counted_for_each_room_and_logged_once_in_a_while() {
        let shares = Shares::new(400);
        let (flood, other) = (shares.of("a"), shares.of("b"));
        let _taken: Vec<_> = std::iter::from_fn(|| flood.take(5)).collect();
        assert!((0..99).all(|_| flood.take(5).is_none()));
        assert!(other.take(5).is_some());
        assert_eq!((shares.refused("a"), shares.refused("b")), (100, 0));
        let (mut counts, now) = (Counts::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let told =
            [0, 1, 4, 5, 9, 10, 300].map(|second| counts.note_refused(&"a".into(), at(second)));
        assert_eq!(told, [Some(1), None, None, Some(4), None, Some(6), Some(1)]);
    }

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
