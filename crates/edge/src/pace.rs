//! The pace of a room's records.
//!
//! Nothing is left out of the ledger: a room that makes records faster than this waits, and nobody else.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_model::budget::Pace;
use tokio::time::Instant;

/// How many records a room may make in a second, and how many at once.
const RECORDS: (u32, u32) = (10_000, 40_000);

/// A pace that all tasks of a room share. A copy is the same pace.
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

    /// Counts one.
    pub(crate) fn count(&self) {
        let now = self.begun.elapsed();
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).count(now);
    }

    /// Returns how long the next one has to wait.
    pub(crate) fn wait(&self) -> Duration {
        let now = self.begun.elapsed();
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).wait(now)
    }

    /// Waits until the next one may come.
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
