//! The loops of a daemon on fake rooms, with a clock that the tests set.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at once")]

mod commits;
mod ground;
mod sleep;
mod urls;
mod walls;
