//! Limits how many rooms are created at once: a few keep all processors busy, more wait for each
//! other's locks in the kernel and use memory meanwhile.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// The limit on rooms that are being created.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// The turn of one room, released on drop.
pub(super) struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(2, usize::from);
        Self { free: Mutex::new(2 * processors), given_back: Condvar::new() }
    }
}

impl Turns {
    /// Waits for a turn.
    pub(super) fn take(&self) -> Turn<'_> {
        let none = |free: &mut usize| *free == 0;
        let free = self.given_back.wait_while(self.free(), none);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_gets_the_turn_that_is_given_back() {
        let turns = Turns::default();
        let count = *turns.free();
        let all: Vec<_> = (0..count).map(|_| turns.take()).collect();
        assert_eq!(*turns.free(), 0);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(turns.take()));
            drop(all);
            waiting.join().unwrap();
        });
        assert!(*turns.free() > 0);
    }
}
