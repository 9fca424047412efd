//! How much of the daemon's memory one room may use through terminated hosts.
//!
//! A connection costs little, but over HTTP/2 it carries many requests, and some bodies are buffered completely. Rooms
//! share nothing here: a room that has used up its budget gets errors that say so, and the others are not affected.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How many requests of a room are answered concurrently.
const REQUESTS: usize = 1024;

/// How many of its answers are decompressed concurrently; a decoder may take 16 MiB.
const DECODERS: usize = 32;

/// The unit in which bodies are counted, in bytes.
const UNIT: usize = 4 << 10;

/// How much memory the bodies of a room may hold, in units.
const BODIES: usize = (128 << 20) / UNIT;

/// How long a request waits for memory for its body.
const PATIENCE: Duration = Duration::from_secs(30);

/// The memory budget of one room; clones share it. It outlives config changes, so that older connections still count.
#[derive(Clone, Debug)]
pub struct RoomBudget {
    requests: Arc<Semaphore>,
    decoders: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// A part of the budget, which is released on drop.
pub(crate) type Spent = OwnedSemaphorePermit;

impl Default for RoomBudget {
    fn default() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self { requests: of(REQUESTS), decoders: of(DECODERS), bodies: of(BODIES) }
    }
}

impl RoomBudget {
    /// Takes the share of one request.
    pub(crate) fn request(&self) -> Option<Spent> {
        self.requests.clone().try_acquire_owned().ok()
    }

    /// Takes the share of one decoder.
    pub(crate) fn decoder(&self) -> Option<Spent> {
        self.decoders.clone().try_acquire_owned().ok()
    }

    /// Takes the memory for a body, all at once, so that two bodies never wait for each other; `None` on timeout.
    pub(crate) async fn body(&self, most: usize) -> Option<Spent> {
        let taken = self.bodies.clone().acquire_many_owned(units(most));
        timeout(PATIENCE, taken).await.ok()?.ok()
    }

    /// Takes the memory for more of a message, without waiting.
    pub(crate) fn more(&self, bytes: usize) -> Option<Spent> {
        self.bodies.clone().try_acquire_many_owned(units(bytes)).ok()
    }
}

/// Releases memory that a body turned out not to need.
pub(crate) fn shrink(spent: &mut Spent, to: usize) {
    let unused = spent.num_permits().saturating_sub(units(to) as usize);
    drop(spent.split(unused));
}

/// Returns how many units some bytes take, at least one.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).clamp(1, BODIES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_given_back_can_be_taken_again_and_another_room_has_its_own() {
        let (one, other) = (RoomBudget::default(), RoomBudget::default());
        let mut all: Vec<_> = std::iter::from_fn(|| one.more(8 << 20)).collect();
        assert_eq!(all.len(), 16);
        assert!(one.body(1).await.is_none() && other.body(1).await.is_some());
        shrink(&mut all[0], 10);
        assert!(one.more((8 << 20) - UNIT).is_some());
        let requests: Vec<_> = std::iter::from_fn(|| one.request()).collect();
        assert_eq!(requests.len(), REQUESTS);
        assert!(other.request().is_some());
        let decoders: Vec<_> = std::iter::from_fn(|| one.decoder()).collect();
        assert_eq!(decoders.len(), DECODERS);
        assert!(other.decoder().is_some());
        drop(requests);
        assert!(one.request().is_some());
    }
}
