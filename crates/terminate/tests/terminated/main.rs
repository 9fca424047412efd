//! Terminated hosts, against a host of our own on the loopback: with the clients that people use, and
//! with hostile ones.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

mod channel;
mod ground;
mod hostile;
mod programs;
mod stand_in;
mod streams;
mod values;
