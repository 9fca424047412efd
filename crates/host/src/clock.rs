//! Time as a dependency, so that tests can supply their own.

use std::sync::Mutex;

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct FakeClock(Mutex<Timestamp>);

impl FakeClock {
    /// Creates a clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Sets the clock.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().expect("the clock's lock is never poisoned") = now;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("the clock's lock is never poisoned")
    }
}
