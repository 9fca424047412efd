//! The settings of each service that concern its lifecycle.

use hothouse_service::{Need, RestartPolicy};

/// Milliseconds since any fixed moment.
pub type Millis = u64;

/// Everything the machine knows about a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub name: String,
    pub kind: Kind,
    pub needs: Vec<Need>,
    /// Whether there is a build before each start.
    pub builds: bool,
    pub policy: RestartPolicy,
    /// How many times in a row it is restarted.
    pub restarts: u32,
    pub stop_signal: i32,
    pub grace: Millis,
    pub probe: Option<ProbeRules>,
}

/// What a service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs until it is told to stop.
    Service,
    /// Runs once, and completes when it exits with 0.
    Task,
}

/// How a service is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRules {
    /// Whether the probe is passive (a log line, a notification).
    pub passive: bool,
    /// Whether asking costs next to nothing and leaves no trace, as for an open port.
    pub light: bool,
    pub interval: Millis,
    pub timeout: Millis,
    /// How many failures in a row make a ready service unhealthy.
    pub retries: u32,
}

/// The wait before the first restart.
pub const FIRST_BACKOFF: Millis = 100;

/// The longest wait before a restart.
pub const BACKOFF_CEILING: Millis = 5_000;

/// Returns how long to wait before the restart that follows `restarts` others.
pub fn backoff(restarts: u32) -> Millis {
    FIRST_BACKOFF.saturating_mul(1 << restarts.min(16)).min(BACKOFF_CEILING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_ceiling() {
        let waits: Vec<_> = [0, 1, 2, 5, 6, 7, u32::MAX].map(backoff).to_vec();
        assert_eq!(waits, [100, 200, 400, 3200, 5000, 5000, 5000]);
    }
}
