//! Vendor queues such as SQS: messages wait here until a worker of the room receives them.
//!
//! - [`broker`]: the queues and their messages, as values
//! - [`sqs`]: the two protocols of SQS clients
//! - `form`: converts the older protocol to trees and back

pub mod broker;
mod form;
pub mod sqs;

#[cfg(test)]
mod tests;

/// Returns whether a host is one of SQS.
pub fn knows(host: &str) -> bool {
    let Some(rest) = host.strip_suffix(".amazonaws.com") else { return false };
    let is_region = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    rest == "queue"
        || rest.strip_prefix("sqs.").is_some_and(is_region)
        || rest.strip_prefix("sqs-fips.").is_some_and(is_region)
        || rest.strip_suffix(".queue").is_some_and(is_region)
}
