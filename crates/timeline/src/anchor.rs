//! Anchors: heads of the chain that are kept where the file is not.
//!
//! Whoever can write the file can compute the whole chain anew. What they cannot do is to change what the store
//! remembers of it.

/// The head of a chain at one time.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Anchor {
    pub run: String,
    pub seq: u64,
    /// The hash of that record, or the genesis for `seq` 0.
    pub hash: String,
    /// Whether nothing may come after it.
    pub ended: bool,
}

/// Keeps anchors. Called by the writer's thread, which waits for it: an anchor is kept when this returns.
pub trait Anchors: Send {
    /// Keeps one anchor. A failure is the keeper's to report; the next anchor comes anyway.
    fn keep(&mut self, anchor: &Anchor);
}

/// For runs whose anchors nobody keeps.
pub struct NoAnchors;

impl Anchors for NoAnchors {
    fn keep(&mut self, _: &Anchor) {}
}

impl<F: FnMut(&Anchor) + Send> Anchors for F {
    fn keep(&mut self, anchor: &Anchor) {
        self(anchor);
    }
}
