//! The context of a sink besides the request.

use std::fmt;

pub use hothouse_model::flag::{Flag, FlagSet};
use hothouse_model::record::bodies::MailBody;
use jiff::Timestamp;

/// The context of a sink besides the request.
pub struct Context<'a> {
    pub now: Timestamp,
    /// Generates random bytes, for ids that a vendor would generate.
    pub random: &'a mut dyn FnMut() -> [u8; 16],
    /// The flags of the sandbox.
    pub flags: &'a FlagSet,
    /// Finds a mail of the run by the id that the vendor assigned.
    pub mails: &'a dyn Fn(&str) -> Option<MailBody>,
}

/// Finds no mail, for rooms without a run.
pub fn no_mails(_id: &str) -> Option<MailBody> {
    None
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("now", &self.now).finish_non_exhaustive()
    }
}
