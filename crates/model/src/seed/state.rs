//! What a sandbox was seeded with. It is stored beside the context in the worktree, so that snapshots and forks have it
//! too; a room can change it, but that misleads only that room.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::word_type;

/// The bundles that a sandbox has been seeded with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedState {
    pub bundles: BTreeMap<String, SeededBundle>,
}

/// A bundle that a sandbox has been seeded with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeededBundle {
    /// The key of its inputs.
    pub key: String,
    pub time: Option<Timestamp>,
}

word_type! {
    /// The state of a bundle in a sandbox.
    BundleState {
        /// Not seeded.
        None = "none",
        Seeded = "seeded",
        /// Seeded, but its inputs have changed since.
        Stale = "stale",
    }
}

word_type! {
    /// Whether a sandbox could start from a snapshot of seeded data.
    SeedSnapshotState {
        Usable = "usable",
        Stale = "stale",
    }
}

impl SeedState {
    /// Parses a state; an invalid one counts as empty.
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Returns the state of a bundle whose inputs now have the key `key`.
    pub fn of(&self, bundle: &str, key: &str) -> BundleState {
        match self.bundles.get(bundle) {
            None => BundleState::None,
            Some(seeded) if seeded.key == key => BundleState::Seeded,
            Some(_) => BundleState::Stale,
        }
    }
}
