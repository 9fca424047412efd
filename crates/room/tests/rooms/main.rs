//! Real rooms on the real kernel, in every mode that this host supports.
//!
//! Run as root, the suite creates two ordinary users (one with subordinate uids, one without) and
//! runs all modes; run as an ordinary user it runs that user's own mode. Skipped modes are reported
//! on stderr.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests, outside the functions that clippy knows as such"
)]

mod attacks;
mod basics;
mod host;
mod lifecycle;
mod limits;
mod locks;
mod masks;
mod network;
mod overlay;
mod packages;
mod programs;
