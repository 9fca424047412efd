//! What the setup helper hands to room-init: numbers of open descriptors and a few facts.

use serde::{Deserialize, Serialize};

/// The descriptor on which room-init finds its [`Boot`].
pub const BOOT_FD: i32 = 3;

/// What room-init writes when it has taken over.
pub const READY: &[u8] = b"+";

/// Everything room-init knows when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// What a daemon must present.
    pub token: Vec<u8>,
    /// The daemon's uid as the wall sees it (65534 where it is not mapped).
    pub peer_uid: u32,
    /// Whether the room has uid 0; otherwise it has uid 1000 alone.
    pub has_root: bool,
    /// Capabilities that even the room's root is left without, as a bit set.
    pub dropped_capabilities: u64,
    /// Whether the room ends with the first command whose end a daemon was told.
    pub ephemeral: bool,
    /// Listens in the host's runtime folder.
    pub control: i32,
    /// Where to say that the room is ready.
    pub ready: i32,
    /// The room's user namespace.
    pub user_namespace: i32,
    /// The room's mount namespace.
    pub mount_namespace: i32,
    /// Files of the cgroups that a command joins by writing `0` before it runs.
    pub cgroups: Vec<i32>,
    /// Listeners for redirected TCP.
    pub tcp: Vec<i32>,
    /// Datagram sockets for redirected DNS.
    pub dns_datagram: Vec<i32>,
    /// Listeners for redirected DNS over TCP.
    pub dns_stream: Vec<i32>,
    /// The socket that tells what the packet rules dropped, if there is one.
    pub dropped: Vec<i32>,
    /// Datagram sockets for redirected UDP, each shut by being connected to itself.
    pub datagrams: Vec<i32>,
    /// The socket that tells of echo requests, if there is one.
    pub echoes: Vec<i32>,
    /// Sockets that send packets with headers of their own.
    pub raw: Vec<i32>,
    /// The socket that speaks to the packet rules.
    pub rules: i32,
    /// Listens inside the room, for `sudo`.
    pub elevate: i32,
    /// Keeps the base layer from being removed while it is open.
    pub base_layer: i32,
    /// Keeps every other room from the sandbox's files while it is open.
    pub claim: i32,
}
