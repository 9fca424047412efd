//! What a sink is given besides the request.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde_json::Value;

/// The values of flags that a sandbox has pinned, by key.
pub type FlagSet = BTreeMap<String, Value>;

/// What a sink is given besides the request.
pub struct Context<'a> {
    pub now: Timestamp,
    /// Makes random bytes, for the ids that a vendor would make up.
    pub random: &'a mut dyn FnMut() -> [u8; 16],
    pub flags: &'a FlagSet,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("now", &self.now).finish_non_exhaustive()
    }
}
