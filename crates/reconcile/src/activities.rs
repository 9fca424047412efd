//! Tracks which sandboxes are in use.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_ingress::Activity;
use hothouse_model::id::SandboxKey;

/// The activities of all sandboxes.
#[derive(Debug, Default)]
pub struct Activities(Mutex<HashMap<SandboxKey, Arc<Activity>>>);

impl Activities {
    /// Returns the activity of a sandbox.
    pub fn of(&self, sandbox: SandboxKey) -> Arc<Activity> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sandbox).or_default().clone()
    }

    /// Removes sandboxes that no longer exist.
    pub(crate) fn keep(&self, is_known: impl Fn(SandboxKey) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, _| is_known(*key));
    }
}
