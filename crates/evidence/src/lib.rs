//! What a run proves, decided over plain values.
//!
//! - [`expected`]: what a scenario wants, as a flat list
//! - [`page`]: what a browser saw
//! - [`checks`]: which of it holds, and what was seen instead
//! - [`outcome`]: how a scenario went, as it is kept among the artifacts of a run
//! - [`judge`]: which checks, fixtures and seeds a branch has changed
//! - [`compare`]: what differs between runs, ids and times aside
//! - [`summary`]: all of it for a reviewer, as Markdown, a page and JSON
//! - `queries`: queries of databases, out of traces
//! - [`coverage`]: which changed lines ran, and which routes were asked for
//! - [`confirm`]: whether a summary follows from the records that it names
//!
//! Deliberately absent: sockets, files, clocks. Records, pictures and texts come in as values; all of them may be
//! chosen by a room, so they are bounded and shown through `model::visible`.

pub mod checks;
pub mod compare;
pub mod confirm;
pub mod coverage;
pub mod expected;
mod html;
pub mod judge;
pub mod outcome;
pub mod page;
pub mod pixels;
mod queries;
pub mod summary;
#[cfg(test)]
mod testing;
