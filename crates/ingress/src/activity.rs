//! Whether a sandbox is being used, and since when it is not. Counted by whoever serves its requests,
//! read by whoever puts it to sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The use of one sandbox. Two are equal if they are the same.
#[derive(Debug)]
pub struct Activity {
    begun: Instant,
    /// Milliseconds from `begun` to the last use.
    last: AtomicU64,
    open: AtomicUsize,
    asleep: AtomicBool,
}

/// One use; it ends when this is dropped.
#[derive(Debug)]
pub struct Use(Arc<Activity>);

impl Default for Activity {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
        }
    }
}

impl PartialEq for Activity {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Activity {}

impl Activity {
    /// Notes that a use begins.
    pub fn enter(self: &Arc<Self>) -> Use {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.touch();
        Use(self.clone())
    }

    /// Notes a use that is over already.
    pub fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::AcqRel);
    }

    /// Returns for how long nothing has happened; nothing while something happens.
    pub fn quiet(&self) -> Option<Duration> {
        if self.open.load(Ordering::Acquire) > 0 {
            return None;
        }
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        Some(self.begun.elapsed().saturating_sub(last))
    }

    /// Says whether the sandbox must be woken before it can answer.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Notes that the sandbox sleeps, or that it does not.
    pub fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Release);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.touch();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_not_quiet_while_it_is_used() {
        let activity = Arc::new(Activity::default());
        assert!(activity.quiet().is_some());
        let (one, two) = (activity.enter(), activity.enter());
        drop(one);
        assert_eq!(activity.quiet(), None);
        drop(two);
        assert!(activity.quiet().is_some_and(|quiet| quiet < Duration::from_secs(60)));
    }
}
