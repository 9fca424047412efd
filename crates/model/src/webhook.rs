//! Webhooks that a user sends.

use crate::words::word_type;

word_type! {
    /// The expected reaction of the endpoint.
    Expected {
        /// A 2xx response.
        Accepted = "accepted",
        /// A 4xx response.
        Refused = "refused",
        /// A 2xx response, with no effect the second time.
        AcceptedOnce = "accepted-once",
        /// Any response but 5xx, within its own limits.
        NoFailure = "no-failure",
    }
}
