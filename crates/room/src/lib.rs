//! The room: isolation without Docker, VM or root.
//!
//! ```text
//! daemon ──> launcher ──fork──> helper ──clone──> PID 1 in the wall W ──execs──> room-init
//!   ▲                 │ writes id maps, opens mounts   │ network, mounts, pivot      │
//!   └── Started ──────┘ and leaves                     └──clone──> U: the room's     │
//!                                                                  user and mounts   │
//!   └── RoomClient ───────────────── control socket ─────────────────────────────────┘
//! ```
//!
//! The wall owns the network, the PIDs and the whole mount tree; the room gets locked copies. Every
//! decision (maps, mounts, filters, rules) is a plain value computed by a pure function; the helper
//! and PID 1 apply them.

mod ahead;
mod base_layer;
mod browsers;
mod cgroups;
mod claim;
mod client;
mod descendants;
mod early;
mod filter;
mod identity;
mod inside;
mod launcher;
mod layout;
mod measure;
mod mounts;
mod owner;
pub mod programs;
mod removal;
mod setup;
mod share;
mod shares;
mod sockets;
mod spec;
mod split;
mod start;
mod sys;
mod trust;
pub mod usage;
mod views;

pub use base_layer::Prune;
pub use cgroups::{CgroupError, Groups, clear_groups, group_ids};
pub use claim::{Claim, ClaimError, Claimant, claimant};
pub use client::{Attached, ClientError, Egress, ExecStreams, RoomClient, Started as ExecStarted};
pub use hothouse_host::ids::Mode;
pub use hothouse_room_wire as wire;
pub use identity::{IdentityError, KEEPER, RoomIdentity, Topmost, host_pids, topmost};
pub use launcher::{HelperError, LAUNCHER_ARGUMENT, Launcher, room_launcher_main};
pub use measure::{MeasureError, Measured};
pub use owner::{SocketOwner, datagram_owner, echo_owner, socket_owner};
pub use removal::RemoveError;
pub use spec::{Access, Bind, Limits, RoomSpec, SpecProblem, WorktreeLayers};
pub use start::{StartError, Started, StopError, stop};
pub use trust::{CA_ALONE, CERTIFICATE_BUNDLES};

/// The control socket in a room's runtime folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// The description of a running room in its runtime folder: a [`Started`], through which the room
/// is found again.
pub const ROOM_FILE: &str = "room.json";

/// The token file in a room's runtime folder.
pub const TOKEN_FILE: &str = "token";
