//! Access to the host: files, processes, mounts, probes, and everything else that takes a system
//! call or a host program.
//!
//! Decisions are made in other crates; this one carries them out. Every error names its path or program.

pub mod addresses;
pub mod beneath;
pub mod btrfs;
pub mod charged;
pub mod clock;
pub mod command;
mod confine;
pub mod copy;
mod crew;
pub mod databases;
pub mod descriptors;
pub mod files;
pub mod folders;
pub mod framed;
pub mod groups;
pub mod hands;
pub mod ids;
pub mod inside;
pub mod keyring;
pub mod lock;
pub mod login;
pub mod logs;
pub mod mount;
pub mod named;
pub mod network;
pub mod newest;
pub mod owners;
pub mod paced;
pub mod ping;
pub mod probe;
pub mod process;
pub mod programs;
pub mod pump;
pub mod random;
pub mod relay;
pub mod remove;
pub mod shares;
pub mod socket;
pub mod sys;
pub mod system_error;
pub mod terminal;
pub mod toolchain;
pub mod trust;
pub mod usage;
pub mod view;
mod walk;
pub mod walls;
pub mod watch;

pub use clock::Clock;
pub use command::{Program, Run, RunError};
pub use files::FileError;
pub use folders::Folders;
pub use lock::{Lock, LockError};
pub use walk::{DEPTH, TooDeep, weight};
