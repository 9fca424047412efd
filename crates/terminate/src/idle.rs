//! Idle connections to hosts, for all clients of a room.
//!
//! Each belongs to one client connection and is never used by another: hosts may tie a sign-in to
//! it. But they are limited together, so that thousands of silent clients do not keep thousands of
//! connections.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a connection stays idle. Most servers close after five seconds or more.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// The maximum number of idle connections; beyond that, the oldest are closed.
const IDLE_LIMIT: usize = 64;

/// The client connection that an idle connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

struct Waiting<T> {
    owner: Owner,
    connection: T,
    since: Instant,
}

/// All idle connections.
pub(crate) struct IdlePool<T> {
    waiting: Mutex<Shelf<T>>,
    next: AtomicU64,
}

struct Shelf<T> {
    /// Longest idle first.
    waiting: VecDeque<Waiting<T>>,
    /// Whether a task that closes expired connections is running.
    watched: bool,
}

impl<T: Send + 'static> IdlePool<T> {
    pub(crate) fn new() -> Arc<Self> {
        let shelf = Shelf { waiting: VecDeque::new(), watched: false };
        Arc::new(Self { waiting: Mutex::new(shelf), next: AtomicU64::new(0) })
    }

    /// Returns an id for a new client connection.
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes an owner's most recently used connection.
    pub(crate) fn take(&self, owner: Owner) -> Option<T> {
        let mut shelf = self.shelf();
        let of_it = |one: &Waiting<T>| one.owner == owner && one.since.elapsed() < IDLE_TIME;
        let at = shelf.waiting.iter().rposition(of_it)?;
        shelf.waiting.remove(at).map(|one| one.connection)
    }

    /// Adds an idle connection.
    pub(crate) fn put(self: &Arc<Self>, owner: Owner, connection: T) {
        let mut shelf = self.shelf();
        if shelf.waiting.len() >= IDLE_LIMIT {
            shelf.waiting.pop_front();
        }
        shelf.waiting.push_back(Waiting { owner, connection, since: Instant::now() });
        if !std::mem::replace(&mut shelf.watched, true) {
            tokio::spawn(close_late(Arc::downgrade(self)));
        }
    }

    /// Closes the idle connections of a client that has left.
    pub(crate) fn forget(&self, owner: Owner) {
        self.shelf().waiting.retain(|one| one.owner != owner);
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes expired connections: a silent client must not cost a second connection.
async fn close_late<T: Send + 'static>(pool: Weak<IdlePool<T>>) {
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut shelf = pool.shelf();
        shelf.waiting.retain(|one| one.since.elapsed() < IDLE_TIME);
        if shelf.waiting.is_empty() {
            shelf.watched = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_its_owner_alone_and_not_in_any_number() {
        let pool = IdlePool::new();
        let (one, two) = (pool.owner(), pool.owner());
        pool.put(one, 1);
        pool.put(two, 2);
        pool.put(one, 3);
        assert_eq!([pool.take(one), pool.take(one), pool.take(one)], [Some(3), Some(1), None]);
        assert_eq!(pool.take(two), Some(2));
        pool.put(one, 4);
        pool.forget(one);
        assert_eq!(pool.take(one), None);
        for number in 0..IDLE_LIMIT + 5 {
            pool.put(one, number);
        }
        assert_eq!(pool.shelf().waiting.len(), IDLE_LIMIT);
        assert_eq!(pool.shelf().waiting.front().map(|one| one.connection), Some(5));
    }
}
