//! Seeds: which bundles a word stands for, the context that bundles share, and the summary.

mod context;
mod plan;
mod state;
mod summary;

pub use context::{CONTEXT_LIMIT, ContextError, IDS_LIMIT, check_context, collected, ids};
pub use plan::{SeedPlan, SeedPlanError, plan, radii};
pub use state::{BundleState, SeedSnapshotState, SeedState, SeededBundle};
pub use summary::{
    BundleOutcome, BundleResult, SeedSummary, TableChange, changed_tables, markdown,
};

/// The variable that names the file of the context.
pub const CONTEXT_VARIABLE: &str = "HOTHOUSE_SEED_CONTEXT";

/// The variable that names the running bundle.
pub const BUNDLE_VARIABLE: &str = "HOTHOUSE_SEED_BUNDLE";

/// The folder of a worktree with the seed's context and state. Git ignores it.
pub const FOLDER: &str = ".hothouse/seed";

/// The context, in the seed's folder.
pub const CONTEXT_FILE: &str = "context.json";

/// The file of a run with its summary, and how much of it is read.
pub const SUMMARY_FILE: &str = "seed-summary.json";
pub const SUMMARY_LIMIT: u64 = 32 << 20;

/// What was seeded, in the seed's folder.
pub const STATE_FILE: &str = "state.json";
