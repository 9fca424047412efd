//! A browser for evidence: a client of the Chrome DevTools Protocol, pages and what is captured of them.
//!
//! - [`wire`]: messages on a pipe
//! - [`client`]: calls and events over two streams
//! - [`capture`]: events in, commands out, everything recorded of a page
//! - [`page`]: a page in its own context
//! - [`emulate`]: devices, locales, time zones
//! - [`state`]: cookies and storage that sign a browser in
//! - [`accessibility`]: the page as assistive technology has it
//! - [`script`], [`locate`], [`keys`], [`steps`]: what is done on a page
//! - [`shim`]: replacements for third-party scripts
//! - [`coverage`]: which parts of scripts ran
//! - [`source_map`]: maps places in a bundle to the sources
//! - [`report`], [`har`]: reports of all that
//! - [`video`]: a video from pictures of a page
//! - [`launch`]: how a browser is started
//!
//! The browser runs in a room, so everything that it sends is untrusted: it is bounded, awaited with a deadline, and
//! never executed here. Deliberately absent: rooms, sockets, files, clocks except for deadlines.

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
