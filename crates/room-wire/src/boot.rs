//! What the setup helper passes to room-init: numbers of open descriptors and a few settings.

use serde::{Deserialize, Serialize};

/// The descriptor on which room-init finds its [`Boot`].
pub const BOOT_FD: i32 = 3;

/// What room-init writes once it is ready.
pub const READY: &[u8] = b"+";

/// Everything room-init knows when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// What a daemon must present.
    pub token: Vec<u8>,
    /// The daemon's uid as the wall sees it (65534 where it is not mapped).
    pub peer_uid: u32,
    /// Whether the room has uid 0; otherwise it has only uid 1000.
    pub has_root: bool,
    /// Capabilities that even the room's root does not get, as a bit set.
    pub dropped_capabilities: u64,
    /// Whether the room ends with the first command whose exit was reported to a daemon.
    pub ephemeral: bool,
    /// Listens in the host's runtime folder.
    pub control: i32,
    /// Where to report that the room is ready.
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
    /// The socket that reports packets dropped by the nftables rules, if there is one.
    pub dropped: Vec<i32>,
    /// Datagram sockets for redirected UDP, each closed to others by being connected to itself.
    pub datagrams: Vec<i32>,
    /// The socket that reports echo requests, if there is one.
    pub echoes: Vec<i32>,
    /// Sockets that send packets with headers of their own.
    pub raw: Vec<i32>,
    /// The netlink socket for the nftables rules.
    pub rules: i32,
    /// Listens inside the room, for `sudo`.
    pub elevate: i32,
    /// Listens inside the room, for programs that use the daemon's API.
    pub api: i32,
    /// Keeps the base layer from being removed while it is open.
    pub base_layer: i32,
    /// Locks the sandbox's files against other rooms while it is open.
    pub claim: i32,
    /// Overlays over folders of the host, whose cached names room-init drops from time to time.
    pub views: Vec<i32>,
}
