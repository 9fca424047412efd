//! Anchors: heads of the chain, stored apart from the file.
//!
//! Whoever can write the file can recompute the whole chain. They cannot change the anchors in the
//! store.

/// The head of a chain at some point in time.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Anchor {
    pub run: String,
    pub seq: u64,
    /// The hash of that record, or the genesis for `seq` 0.
    pub hash: String,
    /// Whether the run has ended, so that no record may follow.
    pub ended: bool,
}

/// Stores anchors. Called by the writer's thread, which blocks: the anchor is stored when this
/// returns.
pub trait Anchors: Send {
    /// Stores one anchor. Failures are reported by the implementation; the next anchor follows
    /// anyway.
    fn keep(&mut self, anchor: &Anchor);
}

/// For runs without anchors.
pub struct NoAnchors;

impl Anchors for NoAnchors {
    fn keep(&mut self, _: &Anchor) {}
}

impl<F: FnMut(&Anchor) + Send> Anchors for F {
    fn keep(&mut self, anchor: &Anchor) {
        self(anchor);
    }
}
