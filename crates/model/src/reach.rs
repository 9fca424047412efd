//! The scope of a user's decision.

use crate::words::word_type;

word_type! {
    /// The scope of a decision.
    Reach {
        Sandbox = "sandbox",
        /// All sandboxes of the project.
        Project = "project",
        /// All projects.
        Everywhere = "everywhere",
    }
}
