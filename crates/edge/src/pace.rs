//! The pace of a room's records, and of its echo requests.
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

/// How many echo requests a room may send in a second, and how many at once.
const ECHOES: (u32, u32) = (200, 400);

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

    pub(crate) fn echoes() -> Self {
        Self::new(ECHOES)
    }

    fn new((a_second, at_once): (u32, u32)) -> Self {
        Self { begun: Instant::now(), pace: Arc::new(Mutex::new(Pace::new(a_second, at_once))) }
    }

    /// Counts one.
    pub(crate) fn count(&self) {
        let now = self.begun.elapsed();
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).count(now);
    }

    /// Counts one if it need not wait.
    pub(crate) fn take(&self) -> bool {
        let now = self.begun.elapsed();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = pace.wait(now).is_zero();
        if is_free {
            pace.count(now);
        }
        is_free
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
        assert!(other.take());
    }

    #[tokio::test(start_paused = true)]
    async fn echo_requests_beyond_the_pace_are_not_sent() {
        let pace = Paced::echoes();
        assert_eq!((0..10_000).filter(|_| pace.take()).count(), ECHOES.1 as usize + 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let more = (0..10_000).filter(|_| pace.take()).count();
        assert!((199..=201).contains(&more), "{more}");
    }
}
