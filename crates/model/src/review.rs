//! What is reported about a branch before and after it is merged.

use crate::words::word_type;

word_type! {
    /// The kind of a finding to look at closely, most serious first.
    FindingKind {
        /// Not everything was checked.
        Unseen = "unseen",
        /// A commit of another repository, in place of a folder.
        Gitlink = "gitlink",
        /// A repository among the files that git does not track.
        Repository = "repository",
        /// A link that leads out of the tree.
        LinkOut = "link-out",
        /// A pipe, a socket or a device.
        Special = "special",
        /// A file that grants capabilities to whoever runs it.
        Capability = "capability",
        /// A file that runs as its owner or group.
        SetId = "set-id",
        /// Text that attributes declare binary, so that git does not show it.
        HiddenText = "hidden-text",
    }
}

word_type! {
    /// How a branch was merged.
    MergeKind {
        /// Everything was already merged.
        Nothing = "nothing",
        Forward = "forward",
        /// By a merge commit.
        Commit = "commit",
    }
}
