//! The outbound side of the wall: the names a room looks up, what it connects to, and the ledger of
//! both.
//!
//! ```text
//! room --udp/tcp 53--> names ----allowed----> resolver --> the host's resolvers
//!                        └ denied: a synthetic address, so that the attempt comes here:
//! room --any tcp-----> connection: read the first bytes, decide once, then
//!                        ├ denied: 403, a TLS alert, or a reset     ┐
//!                        ├ plain HTTP: `plain`, request by request  ├─> ledger
//!                        ├ a host that is terminated: `Terminate`   │
//!                        └ else: dial and `splice`                  ┘
//! room --udp to a port that a rule allows--> flows: decide for each pair of ends, pass on --> ledger
//! room --echo request, if a rule allows any-> echoes: decide, ask from the host, answer ------> ledger
//! room --anything else-> dropped by the kernel, which tells `dropped` --> ledger
//! ```
//!
//! Deliberately absent: nothing is decided here ([`hothouse_model::policy`] does), names that may
//! not be looked up never leave the host, and there is no way out except the sockets that the
//! room's PID 1 passed on.

pub mod book;
mod budget;
mod connection;
mod covered;
mod datagram;
mod dropped;
mod echoes;
mod entry;
#[cfg(test)]
mod fixture;
mod flows;
pub mod ledger;
mod names;
mod pace;
mod plain;
mod proxy_port;
mod refuse;
pub mod resolver;
mod room;
mod serve;
pub mod splice;
pub mod terminate;
pub mod wire;

use std::{future::Future, pin::Pin};

pub use room::{About, Limit, Processes, Redact, RoomEdge, RoomSpec, Settle};
pub use serve::{Serving, Sockets};

/// A future that may be sent between threads.
pub type Sendable<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
