//! Who uses which sandbox.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_ingress::Activity;
use hothouse_model::id::SandboxKey;

/// The uses of all sandboxes.
#[derive(Debug, Default)]
pub struct Activities(Mutex<HashMap<SandboxKey, Arc<Activity>>>);

impl Activities {
    /// Returns the use of a sandbox.
    pub fn of(&self, sandbox: SandboxKey) -> Arc<Activity> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sandbox).or_default().clone()
    }

    /// Forgets sandboxes that are gone.
    pub(crate) fn keep(&self, is_known: impl Fn(SandboxKey) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, _| is_known(*key));
    }
}
