//! How far a decision of the user reaches.

use crate::words::word_type;

word_type! {
    /// How far a decision reaches.
    Reach {
        Sandbox = "sandbox",
        /// All sandboxes of the project.
        Project = "project",
        /// All projects.
        Everywhere = "everywhere",
    }
}
