//! What a sandbox was seeded with. It lies beside the context in the worktree, so that snapshots and forks have it too;
//! a room can change it, which misleads only that room.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::word_type;

/// The bundles that a sandbox has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedState {
    pub bundles: BTreeMap<String, SeededBundle>,
}

/// One bundle that a sandbox has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeededBundle {
    /// What it was made of.
    pub key: String,
    pub time: Option<Timestamp>,
}

word_type! {
    /// How a bundle stands in a sandbox.
    BundleState {
        /// Not seeded.
        None = "none",
        Seeded = "seeded",
        /// Seeded, but what it is made of has changed since.
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
    /// Reads a state; what cannot be read says nothing.
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Returns how a bundle stands that would be made of `key` now.
    pub fn of(&self, bundle: &str, key: &str) -> BundleState {
        match self.bundles.get(bundle) {
            None => BundleState::None,
            Some(seeded) if seeded.key == key => BundleState::Seeded,
            Some(_) => BundleState::Stale,
        }
    }
}
