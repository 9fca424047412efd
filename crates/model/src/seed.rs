//! Seeds: which bundles a word means, what bundles tell each other, and what is said about them afterwards.

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

/// The variable that names the bundle that runs.
pub const BUNDLE_VARIABLE: &str = "HOTHOUSE_SEED_BUNDLE";

/// Where a worktree has the context of its seed, and what was seeded. Git ignores the folder.
pub const FOLDER: &str = ".hothouse/seed";

/// The context, in the folder of the seed.
pub const CONTEXT_FILE: &str = "context.json";

/// Where a run has its summary, and the most that is read of it.
pub const SUMMARY_FILE: &str = "seed-summary.json";
pub const SUMMARY_LIMIT: u64 = 32 << 20;

/// What was seeded, in the folder of the seed.
pub const STATE_FILE: &str = "state.json";
