//! The control protocol between the daemon and room-init.
//!
//! Pure on purpose: this crate turns values into bytes and back, and never touches a socket, so
//! both ends share one decoder and one fuzz target. Descriptors travel alongside the bytes
//! (`SCM_RIGHTS`); a frame contains only their number.
//!
//! - [`frame`]: length-delimited frames and the buffer that finds them in a stream
//! - [`call`]: calls from the daemon
//! - [`answer`]: replies from room-init
//! - [`boot`]: what the setup helper passes to room-init when it starts
//! - [`dns`]: refusal of DNS queries
//! - [`service`]: services, declared and reported
//! - [`elevate`]: requests from the room's `sudo` to room-init

pub mod answer;
pub mod boot;
pub mod call;
pub mod dns;
pub mod elevate;
pub mod frame;
pub mod service;

pub use answer::{Answer, CallRefusal, CallRefusalKind, ExecRecord, Reply};
pub use boot::Boot;
pub use call::{Call, ExecId, ExecSpec, ListenSpec, Proto, Request, RoomUser, Stdio, WindowSize};
pub use elevate::{Elevate, Elevated};
pub use frame::{Frame, FrameBuffer, WireError, decode, encode};
pub use hothouse_service::ServiceStatus;
pub use hothouse_service::{
    Condition, Exit, Found, Need, ProbeAnswer, ProbeSpec, Question, Restart, RestartPolicy,
    ServiceSpec, ServiceState,
};
pub use service::{LogStart, ServiceChange, ServiceCommand, ServicesReport};

/// The version that this build speaks.
pub const PROTOCOL: u16 = 9;

/// The first version that supports services.
pub const SERVICES_SINCE: u16 = 2;

/// The first version whose rooms forward datagrams.
pub const CATCH_SINCE: u16 = 3;

/// The first version that can close a command's output.
pub const CLOSE_SINCE: u16 = 4;

/// The first version whose probes can set a host name.
pub const PROBE_HOST_SINCE: u16 = 5;

/// The first version whose rooms have a listener for the daemon's API.
pub const API_SINCE: u16 = 6;

/// The first version whose rooms record the state changes of services between two reports.
pub const CHANGES_SINCE: u16 = 7;

/// The first version whose rooms record the log line at which a service's last start begins.
pub const STARTS_SINCE: u16 = 8;

/// The first version whose rooms report the terminal size of a command.
pub const SIZE_SINCE: u16 = 9;

/// The oldest version that this build still understands: a daemon adopts rooms of the two versions
/// before its own.
pub const OLDEST_PROTOCOL: u16 = PROTOCOL.saturating_sub(2);

/// Whether this build understands a peer that speaks `protocol`.
pub fn speaks(protocol: u16) -> bool {
    (OLDEST_PROTOCOL..=PROTOCOL).contains(&protocol)
}
