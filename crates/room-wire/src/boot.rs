//! What the setup helper passes to room-init: descriptor numbers and a few settings.

use serde::{Deserialize, Serialize};

/// The descriptor on which room-init finds its [`Boot`].
pub const BOOT_FD: i32 = 3;

/// What room-init writes once it is ready.
pub const READY: &[u8] = b"+";

/// Everything room-init knows when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// The secret that a daemon must present.
    pub token: Vec<u8>,
    /// The daemon's uid as the wall sees it (65534 where it is not mapped).
    pub peer_uid: u32,
    /// Whether the room has uid 0; otherwise it has only uid 1000.
    pub has_root: bool,
    /// Capabilities that even the room's root does not get, as a bit set.
    pub dropped_capabilities: u64,
    /// Whether the room ends as soon as one command's exit has been reported to a daemon.
    pub ephemeral: bool,
    /// Listens in the runtime folder of the host.
    pub control: i32,
    /// Where to report that the room is ready.
    pub ready: i32,
    /// The room's user namespace.
    pub user_namespace: i32,
    /// The room's mount namespace.
    pub mount_namespace: i32,
    /// Cgroup files to which a command writes `0`, to join them before it runs.
    pub cgroups: Vec<i32>,
    /// Listeners for redirected TCP.
    pub tcp: Vec<i32>,
    /// Datagram sockets for redirected DNS queries.
    pub dns_datagram: Vec<i32>,
    /// Listeners for redirected DNS over TCP.
    pub dns_stream: Vec<i32>,
    /// The socket that reports packets dropped by the nftables rules, if there is one.
    pub dropped: Vec<i32>,
    /// Datagram sockets for redirected UDP. Each is connected to itself, so that nobody else can
    /// send to it.
    pub datagrams: Vec<i32>,
    /// The socket that reports echo requests, if there is one.
    pub echoes: Vec<i32>,
    /// Sockets that send packets with custom headers.
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
    /// Overlays over host folders. room-init drops the names they cache from time to time.
    pub views: Vec<i32>,
}
