//! Records that a room exceeds its share: one line every few seconds, with a count.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use hothouse_model::{
    ledger::AttemptKind,
    policy::{Reason, Verdict},
};

use crate::room::RoomEdge;

/// The cost of a connection: two sockets, and a pipe while bytes are buffered.
pub(crate) const CONNECTION: u64 = 4;
/// The cost of a lookup or a UDP flow.
pub(crate) const SOCKET: u64 = 1;

/// The interval between records.
const WINDOW: Duration = Duration::from_secs(5);

/// Refusals that have not been recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    count: u64,
    /// Whether a line was just written, and the next one is scheduled.
    is_quiet: bool,
}

impl RoomEdge {
    /// Records a refusal, immediately or together with others.
    pub(crate) fn note_refused(self: &Arc<Self>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count += 1;
        if refused.is_quiet {
            return;
        }
        refused.is_quiet = true;
        let count = std::mem::take(&mut refused.count);
        drop(refused);
        self.write_refused(count);
        let edge = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(WINDOW).await;
                let Some(edge) = edge.upgrade() else { return };
                let mut refused = edge.refused.lock().unwrap_or_else(PoisonError::into_inner);
                let count = std::mem::take(&mut refused.count);
                if count == 0 {
                    refused.is_quiet = false;
                    return;
                }
                drop(refused);
                edge.write_refused(count);
            }
        });
    }

    fn write_refused(&self, refused: u64) {
        let verdict = Verdict::refused(Reason::Budget { refused });
        self.append(&mut self.record(AttemptKind::Connection, &verdict));
    }
}
