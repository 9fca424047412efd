//! A browser for evidence: a client of the Chrome DevTools Protocol, pages and what is captured of them.
//!
//! - [`wire`]: messages on a pipe
//! - [`client`]: calls and events over two streams
//! - [`capture`]: events in, commands out, all that is noted of a page
//! - [`page`]: a page in its own context
//! - [`emulate`]: devices, places, times
//! - [`state`]: cookies and storage that sign a browser in
//! - [`accessibility`]: the page as assistive technology has it
//! - [`script`], [`locate`], [`keys`], [`steps`]: what is done on a page
//! - [`shim`]: what stands in for scripts of third parties
//! - [`coverage`]: which parts of scripts ran
//! - [`source_map`]: where a place in a bundle was in the sources
//! - [`report`], [`har`]: what is told of all that
//! - [`video`]: pictures of a page as a film
//! - [`launch`]: how a browser is started
//!
//! The browser runs in a room, so all that it sends is hostile: it is bounded, waited for with a deadline, and never
//! executed here. Deliberately absent: rooms, sockets, files, a clock but for deadlines.

pub mod accessibility;
pub mod capture;
pub mod client;
pub mod coverage;
pub mod emulate;
pub mod har;
pub mod keys;
pub mod launch;
pub mod locate;
pub mod page;
pub mod report;
pub mod script;
pub mod shim;
pub mod source_map;
pub mod state;
pub mod steps;
pub mod video;
pub mod wire;

pub use client::{CallError, Client};
pub use page::{Arrival, Page, PageSpec, Shot};
