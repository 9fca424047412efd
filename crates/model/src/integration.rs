//! Outside services.

use crate::words::word_type;

word_type! {
    /// How an integration is redirected.
    Wiring {
        Wall = "wall",
        /// By environment variables.
        Env = "env",
        Both = "both",
    }
}
