//! Whether a sandbox is in use, and how long it has been idle. Updated by whoever serves its requests, read by whoever
//! puts it to sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// The activity of one sandbox. Two are equal only if they are the same instance.
#[derive(Debug)]
pub struct Activity {
    begun: Instant,
    /// Milliseconds from `begun` to the last use.
    last: AtomicU64,
    open: AtomicUsize,
    asleep: AtomicBool,
    waking: AtomicUsize,
    /// How many starts by a user are in progress.
    starting: watch::Sender<usize>,
}

/// One use; it ends when this is dropped.
#[derive(Debug)]
pub struct Use(Arc<Activity>);

/// A wake-up in progress; it ends when this is dropped.
#[derive(Debug)]
pub struct Waking(Arc<Activity>);

/// A start by a user, until the services are ready; it ends when this is dropped.
#[derive(Debug)]
pub struct Starting(Arc<Activity>);

impl Default for Activity {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            waking: AtomicUsize::new(0),
            starting: watch::Sender::new(0),
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
    /// Records the start of a use.
    pub fn enter(self: &Arc<Self>) -> Use {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.touch();
        Use(self.clone())
    }

    /// Records a use that has already ended.
    pub fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::AcqRel);
    }

    /// Returns how long the sandbox has been idle; `None` while it is in use.
    pub fn quiet(&self) -> Option<Duration> {
        if self.open.load(Ordering::Acquire) > 0 {
            return None;
        }
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        Some(self.begun.elapsed().saturating_sub(last))
    }

    /// Returns whether the sandbox must be woken before it can answer, or is being woken now: its room
    /// may be up long before its services are.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire) || self.is_waking()
    }

    /// Returns whether the sandbox is being woken.
    pub fn is_waking(&self) -> bool {
        self.waking.load(Ordering::Acquire) > 0
    }

    /// Records that the sandbox is being woken.
    pub fn begin_waking(self: &Arc<Self>) -> Waking {
        self.waking.fetch_add(1, Ordering::AcqRel);
        Waking(self.clone())
    }

    /// Returns whether its user is starting it.
    pub fn is_starting(&self) -> bool {
        *self.starting.borrow() > 0
    }

    /// Records that its user is starting it.
    pub fn begin_starting(self: &Arc<Self>) -> Starting {
        self.starting.send_modify(|count| *count += 1);
        Starting(self.clone())
    }

    /// Waits until no start is in progress.
    pub async fn started(&self) {
        // The sender lives as long as we do, so this never fails.
        self.starting.subscribe().wait_for(|count| *count == 0).await.ok();
    }

    /// Records whether the sandbox is asleep.
    pub fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Release);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.starting.send_modify(|count| *count -= 1);
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.waking.fetch_sub(1, Ordering::AcqRel);
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
    fn a_sandbox_sleeps_until_it_is_wide_awake() {
        let activity = Arc::new(Activity::default());
        activity.set_asleep(true);
        let waking = activity.begin_waking();
        // Its room is already up while it is being woken.
        activity.set_asleep(false);
        assert!(activity.is_asleep());
        drop(waking);
        assert!(!activity.is_asleep());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_start_continues_when_the_last_one_ends() {
        let activity = Arc::new(Activity::default());
        activity.started().await;
        let (one, two) = (activity.begin_starting(), activity.begin_starting());
        assert!(activity.is_starting());
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.started().await }
        });
        drop(one);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(two);
        waiting.await.unwrap();
        assert!(!activity.is_starting());
    }

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
