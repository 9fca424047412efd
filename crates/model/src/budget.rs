//! Fair shares of what the daemon has for all rooms together: file descriptors, each with a task and some memory.
//!
//! Pure: call [`Budget::admits`] before taking anything. One room may take at most a quarter. Once half is in use, each
//! room is limited to an even share, so that the first room cannot take everything. A part is reserved for the control
//! plane.

use std::time::Duration;

/// What can be shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    usable: u64,
}

/// What is in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub by_all: u64,
    pub by_room: u64,
    /// The number of rooms that use anything, including the one that asks.
    pub rooms: u64,
}

impl Budget {
    /// Makes a budget of a limit; a quarter is reserved for commands, the store and each room's own sockets.
    pub fn of(limit: u64) -> Self {
        Self { usable: limit - limit / 4 }
    }

    /// Decides whether a room may take more.
    pub fn admits(self, taken: Taken, cost: u64) -> bool {
        let (all, room) = (taken.by_all.saturating_add(cost), taken.by_room.saturating_add(cost));
        let even = self.usable / (2 * taken.rooms.max(2));
        let is_early = all <= self.usable / 2 && room <= self.usable / 4;
        all <= self.usable && (is_early || room <= even)
    }
}

/// A rate limit for a room, with bursts. Times are measured from any fixed moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    interval: Duration,
    at_once: Duration,
    /// When everything counted so far is due at this rate.
    due: Duration,
}

impl Pace {
    /// Makes a limit of a rate per second and a burst.
    pub fn new(a_second: u32, at_once: u32) -> Self {
        let interval = Duration::from_secs(1) / a_second.max(1);
        Self { interval, at_once: interval.saturating_mul(at_once), due: Duration::ZERO }
    }

    /// Counts one event.
    pub fn count(&mut self, now: Duration) {
        self.due = self.due.max(now).saturating_add(self.interval);
    }

    /// Returns how long the next event must wait.
    pub fn wait(&self, now: Duration) -> Duration {
        self.due.saturating_sub(self.at_once).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_room_alone_has_a_quarter_and_the_next_one_still_gets_its_share() {
        let budget = Budget::of(1000);
        let admits = |by_all, by_room, rooms| budget.admits(Taken { by_all, by_room, rooms }, 1);
        assert!(admits(186, 186, 1) && !admits(187, 187, 1));
        assert!(admits(374, 100, 4) && admits(400, 92, 4) && !admits(400, 93, 4));
        assert!(admits(749, 0, 100) && !admits(750, 0, 100));
    }

    #[test]
    fn a_pace_lets_some_pass_at_once_and_the_rest_one_by_one() {
        let mut pace = Pace::new(10, 5);
        let at = Duration::from_millis;
        for _ in 0..5 {
            assert_eq!(pace.wait(at(1000)), Duration::ZERO);
            pace.count(at(1000));
        }
        pace.count(at(1000));
        assert_eq!(pace.wait(at(1000)), at(100));
        assert_eq!(pace.wait(at(1100)), Duration::ZERO);
        // Idle time does not add up beyond the burst.
        assert_eq!(pace.wait(at(9000)), Duration::ZERO);
        (0..6).for_each(|_| pace.count(at(9000)));
        assert_eq!(pace.wait(at(9000)), at(100));
    }

    proptest! {
        #[test]
        fn however_rooms_ask_the_reserve_is_left_and_a_newcomer_is_served(
            asked in prop::collection::vec((0..8_u8, 1..5_u64), 0..3000)
        ) {
            let budget = Budget::of(4000);
            let mut rooms: HashMap<u8, u64> = HashMap::new();
            let mut all = 0;
            for (room, cost) in asked {
                let by_room = rooms.get(&room).copied().unwrap_or(0);
                let count = rooms.len() as u64 + u64::from(by_room == 0);
                if budget.admits(Taken { by_all: all, by_room, rooms: count }, cost) {
                    *rooms.entry(room).or_default() += cost;
                    all += cost;
                }
            }
            prop_assert!(all <= 3000);
            prop_assert!(rooms.values().all(|taken| *taken <= 750));
            let next = Taken { by_all: all, by_room: 0, rooms: rooms.len() as u64 + 1 };
            prop_assert!(budget.admits(next, 4) || rooms.len() > 4);
        }
    }
}
