//! Requests from the room's `sudo` to room-init, over a socket inside the room.
//!
//! The frame of an [`Elevate::Run`] carries the caller's stdin, stdout and stderr.

use crate::Exit;
use serde::{Deserialize, Serialize};

/// The folder in the room with Hothouse's own files.
pub const ROOM_FOLDER: &str = "/run/hothouse";

/// The socket on which room-init listens, inside the room.
pub const ELEVATE_SOCKET: &str = "/run/hothouse/sudo.sock";

/// A request from the room's `sudo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elevate {
    Run { argv: Vec<Vec<u8>>, env: Vec<Vec<u8>>, cwd: Vec<u8> },
    Signal(i32),
}

/// The answer to an [`Elevate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elevated {
    Exited(Exit),
    Refused(String),
}
