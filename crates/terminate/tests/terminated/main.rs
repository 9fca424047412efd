//! Terminated hosts, tested against our own host on the loopback: with common clients, and with
//! hostile ones.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

mod budget;
mod channel;
mod ground;
mod hostile;
mod hostile_host;
mod programs;
mod stand_in;
mod streams;
mod terms;
mod values;
