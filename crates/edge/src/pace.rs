//! Rate limit of a room's records.
//!
//! Nothing is left out of the ledger: a room that creates records faster than this has to wait,
//! without delaying other rooms.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_model::budget::Pace;
use tokio::time::Instant;

/// How many records a room may create per second, and in a burst.
const RECORDS: (u32, u32) = (10_000, 40_000);

/// A rate limit that all tasks of a room share; clones share its state.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    begun: Instant,
    pace: Arc<Mutex<Pace>>,
}

impl Paced {
    pub(crate) fn records() -> Self {
        Self::new(RECORDS)
    }

    fn new((a_second, at_once): (u32, u32)) -> Self {
        Self { begun: Instant::now(), pace: Arc::new(Mutex::new(Pace::new(a_second, at_once))) }
    }

    /// Counts one record.
    pub(crate) fn count(&self) {
        let now = self.begun.elapsed();
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).count(now);
    }

    /// Returns how long the next record has to wait.
    pub(crate) fn wait(&self) -> Duration {
        let now = self.begun.elapsed();
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).wait(now)
    }

    /// Waits until the next record is allowed.
    pub(crate) async fn turn(&self) {
        loop {
            let wait = self.wait();
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_makes_too_many_records_waits_and_nobody_else() {
        let (one, other) = (Paced::records(), Paced::records());
        let begun = Instant::now();
        for _ in 0..RECORDS.1 + RECORDS.0 {
            one.turn().await;
            one.count();
        }
        let took = begun.elapsed();
        assert!(
            (Duration::from_millis(900)..Duration::from_millis(2500)).contains(&took),
            "{took:?}"
        );
        assert!(other.wait().is_zero());
    }
}
