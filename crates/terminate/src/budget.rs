//! How much of the daemon's memory one room may use through terminated hosts.
//!
//! A connection costs little, but with HTTP/2 it carries many requests, and some requests are held
//! whole. Nothing here is shared by two rooms: one that has used up its own gets answers that say so,
//! and the others do not notice.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How many requests of a room are answered at the same time.
const REQUESTS: usize = 1024;

/// How many of its answers are decompressed at the same time; a decoder may take 16 MiB.
const DECODERS: usize = 32;

/// What bodies are counted in.
const UNIT: usize = 4 << 10;

/// How much of its bodies is held in memory, in units.
const BODIES: usize = (128 << 20) / UNIT;

/// How long a request waits until there is room for its body.
const PATIENCE: Duration = Duration::from_secs(30);

/// The memory of one room; clones share it. It outlives a change of the config, so that connections
/// from before it still count.
#[derive(Clone, Debug)]
pub struct RoomBudget {
    requests: Arc<Semaphore>,
    decoders: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// A part of the budget, which is free again when this is dropped.
pub(crate) type Spent = OwnedSemaphorePermit;

impl Default for RoomBudget {
    fn default() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self { requests: of(REQUESTS), decoders: of(DECODERS), bodies: of(BODIES) }
    }
}

impl RoomBudget {
    /// Takes the place of one request.
    pub(crate) fn request(&self) -> Option<Spent> {
        self.requests.clone().try_acquire_owned().ok()
    }

    /// Takes the place of one decoder.
    pub(crate) fn decoder(&self) -> Option<Spent> {
        self.decoders.clone().try_acquire_owned().ok()
    }

    /// Takes the memory for a body, all at once, so that two never wait for each other; `None` if it did not become
    /// free in time.
    pub(crate) async fn body(&self, most: usize) -> Option<Spent> {
        let taken = self.bodies.clone().acquire_many_owned(units(most));
        timeout(PATIENCE, taken).await.ok()?.ok()
    }

    /// Takes the memory for more of a message, without waiting.
    pub(crate) fn more(&self, bytes: usize) -> Option<Spent> {
        self.bodies.clone().try_acquire_many_owned(units(bytes)).ok()
    }
}

/// Gives back what a body turned out not to need.
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
