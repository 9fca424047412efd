//! Seeds on the wire.

use std::collections::BTreeMap;

use hothouse_model::seed::{BundleState, SeedSnapshotState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The bundles and radii of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeedsView {
    pub bundles: Vec<BundleView>,
    /// Each radius that is declared, as the bundles that it means, in the order in which they run.
    pub radii: BTreeMap<String, Vec<String>>,
    /// Seeded data that is kept for new sandboxes, newest first.
    #[serde(default)]
    pub snapshots: Vec<SeedSnapshotView>,
}

/// Seeded data that new sandboxes with the same files start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeedSnapshotView {
    pub key: String,
    pub profile: String,
    pub bundles: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created: Option<jiff::Timestamp>,
    /// `usable` or `stale`.
    #[schema(value_type = String)]
    pub state: SeedSnapshotState,
    /// Why it is stale for this sandbox.
    pub why: Option<String>,
}

/// One bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BundleView {
    pub name: String,
    pub needs: Vec<String>,
    /// `none`, `seeded` or `stale`.
    #[schema(value_type = String)]
    pub state: BundleState,
    /// Why it is stale.
    #[serde(default)]
    pub why: Option<String>,
}

/// What is to be seeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeedRequest {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// Bundles, radii and scenarios.
    pub names: Vec<String>,
}

/// What a run was seeded with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunSeedView {
    pub radius: Option<String>,
    pub bundles: Vec<String>,
    /// The path of `seed-summary.json`.
    pub summary: String,
    /// The ids that bundles told, by where they are in the context.
    #[schema(value_type = Object)]
    pub ids: BTreeMap<String, Value>,
    /// Whether all bundles that were asked for are there.
    pub ok: bool,
    #[serde(default)]
    pub caveats: Vec<String>,
}
