//! What a run proves, decided over plain values.
//!
//! - [`expected`]: the expectations of a scenario, as a flat list
//! - [`page`]: what a browser saw
//! - [`checks`]: which expectations hold, and what was seen instead
//! - [`outcome`]: the outcome of a scenario, as kept among the artifacts of a run
//! - [`judge`]: which checks, fixtures and seeds a branch has changed
//! - [`compare`]: the differences between runs, ignoring ids and times
//! - [`summary`]: all of it for a reviewer, as Markdown, a page and JSON
//! - `queries`: database queries, extracted from traces
//! - [`coverage`]: which changed lines ran, and which routes were requested
//! - [`confirm`]: whether a summary follows from the records that it names
//!
//! Deliberately absent: sockets, files, clocks. Records, images and texts come in as values. A room may have chosen any
//! of them, so they are bounded and shown through `model::visible`.

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
