//! Retry schedules of vendors.

use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 60 * 60)
}

/// <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#deliverability-and-reliability>
const STANDARD: [Duration; 9] = [
    seconds(5),
    minutes(5),
    minutes(30),
    hours(2),
    hours(5),
    hours(10),
    hours(14),
    hours(20),
    hours(24),
];

const STRIPE: [Duration; 7] =
    [minutes(5), minutes(30), hours(2), hours(5), hours(10), hours(12), hours(12)];

const SHOPIFY: [Duration; 8] = [
    seconds(10),
    seconds(30),
    minutes(2),
    minutes(8),
    minutes(20),
    minutes(40),
    minutes(80),
    minutes(90),
];

const SLACK: [Duration; 3] = [seconds(1), minutes(1), minutes(5)];

const SENDGRID: [Duration; 4] = [minutes(5), minutes(30), hours(4), hours(19)];

/// Returns the delays between a vendor's attempts. GitHub, GitLab, Discord and Twilio do not retry.
pub fn schedule(vendor: &str) -> &'static [Duration] {
    match vendor {
        "stripe" => &STRIPE,
        "standard" | "svix" | "clerk" | "resend" => &STANDARD,
        "shopify" => &SHOPIFY,
        "slack" => &SLACK,
        "sendgrid" => &SENDGRID,
        _ => &[],
    }
}

/// Compresses a schedule into a time limit, keeping the proportions of the delays on a logarithmic
/// scale: a day and five seconds would otherwise become a minute and nothing.
pub fn compressed(schedule: &[Duration], within: Duration) -> Vec<Duration> {
    let weight = |wait: &Duration| f64::ln_1p(wait.as_secs_f64());
    let total: f64 = schedule.iter().map(weight).sum();
    let part = |wait: &Duration| within.mul_f64(weight(wait) / total.max(f64::MIN_POSITIVE));
    schedule.iter().map(part).collect()
}

/// Returns the headers that mark a delivery as a retry.
pub fn headers(vendor: &str, attempt: u32, reason: &str) -> Vec<(String, String)> {
    match vendor {
        "slack" if attempt > 1 => vec![
            ("x-slack-retry-num".into(), (attempt - 1).to_string()),
            ("x-slack-retry-reason".into(), reason.to_owned()),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_schedule_fits_and_keeps_its_order() {
        for vendor in ["stripe", "svix", "shopify", "slack", "sendgrid", "github"] {
            let waits = compressed(schedule(vendor), seconds(10));
            let total: Duration = waits.iter().sum();
            assert!(total <= Duration::from_millis(10_001), "{vendor}: {total:?}");
            assert!(waits.is_sorted(), "{vendor}: {waits:?}");
            assert_eq!(waits.len(), schedule(vendor).len());
        }
    }

    #[test]
    fn only_slack_says_which_attempt_it_is() {
        assert_eq!(headers("slack", 1, "http_error"), []);
        assert_eq!(headers("stripe", 2, "http_error"), []);
        let said = headers("slack", 3, "http_timeout");
        assert_eq!(said[0].1, "2");
    }
}
