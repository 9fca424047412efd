//! Sleep: when a sandbox that nobody uses is paused, and later stopped. A decision over plain values.

use std::time::Duration;

/// What the config says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepPolicy {
    /// The idle time until it is paused; never if `None`.
    pub idle: Option<Duration>,
    /// The paused time until its room is stopped; never if `None`.
    pub stop: Option<Duration>,
}

/// How long a sandbox has been unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something uses it: a request, a command, an agent.
    Used,
    /// Nothing has used it for this long.
    Quiet(Duration),
    /// It was paused this long ago because nothing used it.
    Asleep(Duration),
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepStep {
    Nothing,
    Pause,
    Stop,
}

/// Decides what to do with a sandbox.
pub fn decide(policy: SleepPolicy, rest: Rest) -> SleepStep {
    let over = |limit: Option<Duration>, time| limit.is_some_and(|limit| time >= limit);
    match rest {
        Rest::Quiet(time) if over(policy.idle, time) => SleepStep::Pause,
        Rest::Asleep(time) if over(policy.stop, time) => SleepStep::Stop,
        Rest::Used | Rest::Quiet(_) | Rest::Asleep(_) => SleepStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_sandbox_is_paused_and_later_stopped() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        let policy = SleepPolicy { idle: Some(minutes(10)), stop: Some(minutes(60)) };
        let never = SleepPolicy::default();
        for (policy, rest, step) in [
            (policy, Rest::Used, SleepStep::Nothing),
            (policy, Rest::Quiet(minutes(9)), SleepStep::Nothing),
            (policy, Rest::Quiet(minutes(10)), SleepStep::Pause),
            (policy, Rest::Asleep(minutes(59)), SleepStep::Nothing),
            (policy, Rest::Asleep(minutes(60)), SleepStep::Stop),
            (never, Rest::Quiet(minutes(1000)), SleepStep::Nothing),
            (never, Rest::Asleep(minutes(1000)), SleepStep::Nothing),
        ] {
            assert_eq!(decide(policy, rest), step, "{policy:?} {rest:?}");
        }
    }
}
