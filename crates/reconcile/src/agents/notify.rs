//! Tells the user that an agent waits.

use hothouse_engine::Engine;
use hothouse_model::SandboxRecord;

/// Tells that an agent waits. What cannot be told is logged and no reason to stop.
pub(super) fn waiting(engine: &Engine, sandbox: &SandboxRecord, tool: &str, reason: &str) {
    tracing::info!(sandbox = %sandbox.name, tool, reason, "an agent waits for its user");
    engine.notify_waiting(sandbox, tool, reason);
}
