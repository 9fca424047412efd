//! Runs, for the owners of their timelines.

use hothouse_host::random;
use hothouse_model::{Explain, Failure, FailureKind};
use hothouse_store::{AnchorRecord, RunLine};

use crate::Engine;

impl Engine {
    /// Returns every run, newest first, including those of deleted sandboxes.
    pub fn runs(&self) -> Result<Vec<RunLine>, Failure> {
        self.with.store.all_runs().map_err(|error| error.failure())
    }

    /// Returns the disk usage of a run.
    pub fn bytes_of_run(&self, run: &RunLine) -> Option<u64> {
        crate::clean::bytes_of(run)
    }

    /// Returns a run by its id, even if its sandbox is deleted.
    pub fn run_by_id(&self, id: &str) -> Result<RunLine, Failure> {
        let found = self.runs()?.into_iter().find(|run| run.id == id);
        found.ok_or_else(|| {
            let shown: String = id.chars().take(80).collect();
            Failure::new(FailureKind::NotFound, format!("there is no run `{shown}`"))
                .hint("`hothouse runs` lists them")
        })
    }

    /// Returns the salt of a run, creating it at the first call.
    pub fn run_salt(&self, run: &str) -> Result<[u8; 16], Failure> {
        let salt = self.with.store.salt_of_run(run, random::bytes());
        let salt = salt.map_err(|error| error.failure())?;
        salt.ok_or_else(|| Failure::new(FailureKind::NotFound, "the run is gone"))
    }

    /// Returns the stored anchors of a run's timeline.
    pub fn anchors(&self, run: &str) -> Result<Vec<AnchorRecord>, Failure> {
        self.with.store.anchors(run).map_err(|error| error.failure())
    }

    /// Stores an anchor of a run's timeline.
    pub fn keep_anchor(&self, run: &str, anchor: &AnchorRecord) -> Result<(), Failure> {
        self.with.store.keep_anchor(run, anchor).map_err(|error| error.failure())
    }

    /// Reopens the timeline of a run that had ended.
    pub fn continue_timeline(&self, run: &str) -> Result<(), Failure> {
        self.with.store.continue_run(run).map_err(|error| error.failure())
    }
}
