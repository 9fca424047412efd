//! Work on many small files, spread over the processors: most of the time is spent in the kernel.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
    thread,
};

/// Additional threads would only wait for the file system's journal.
const MOST: usize = 8;

/// Applies `work` to each item and returns the results in order.
pub(super) fn map<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST);
    let next = Mutex::new(all.into_iter().enumerate());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one = || -> Vec<(usize, R)> {
        std::iter::from_fn(take).map(|(number, one)| (number, work(one))).collect()
    };
    let mut outcomes: Vec<(usize, R)> = thread::scope(|scope| {
        let spawned: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let own = one();
        let others = spawned.into_iter().flat_map(|thread| match thread.join() {
            Ok(outcomes) => outcomes,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        own.into_iter().chain(others).collect()
    });
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_keep_their_order() {
        let doubled = map((0..1000).collect(), |number: usize| number * 2);
        assert_eq!(doubled, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
        assert!(map(Vec::<u8>::new(), |byte| byte).is_empty());
    }
}
