//! The timeline of a run: an append-only, tamper-evident log of what happened.
//!
//! ```text
//! drafts ──redact──► queue ──writer thread──► timeline.jsonl ──► index.sqlite, *.jsonl (views)
//!                     │        write, fdatasync        │
//!                     └──◄── acknowledged ──◄──────────┘
//! ```
//!
//! `timeline.jsonl` is authoritative; index and views are derived from it and may be deleted at any
//! time. One process owns a run's folder while it writes; readers only need the files.

mod anchor;
mod blobs;
mod chain;
mod derive;
mod disk;
mod har;
mod index;
mod queue;
mod reader;
mod recover;
mod redact;
mod since;
mod tail;
pub mod trial;
mod verify;
mod views;
mod writer;

pub use anchor::{Anchor, Anchors, NoAnchors};
pub use blobs::{BLOB_CAP, read_blob};
pub use chain::{LINE_LIMIT, digest, genesis};
pub use disk::{Disk, FileDisk};
pub use har::har;
pub use queue::AppendError;
pub use reader::{Direction, ReadError, Reader, Selection};
pub use recover::Recovery;
pub use redact::{Care, REDACTED, Redactor, TEXT_CAP};
pub use since::{Gap, SinceReport};
pub use tail::Tail;
pub use verify::{Verification, verify};
pub use views::{VIEWS, write_views};
pub use writer::{Head, Identity, OpenError, Timeline, TimelineOrder, gap};

/// The name of the authoritative file.
pub const FILE: &str = "timeline.jsonl";

/// The folder of this crate's private files: locks, the index, the state of the views, truncated
/// bytes.
const OWN: &str = ".timeline";
