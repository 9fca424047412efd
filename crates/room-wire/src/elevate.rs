//! Requests of the room's `sudo` to room-init, over a socket inside the room.
//!
//! The frame of a [`Elevate::Run`] carries the caller's stdin, stdout and stderr.

use crate::Exit;
use serde::{Deserialize, Serialize};

/// The folder in the room with Hothouse's own files.
pub const ROOM_FOLDER: &str = "/run/hothouse";

/// The socket of room-init, inside the room.
pub const ELEVATE_SOCKET: &str = "/run/hothouse/sudo.sock";

/// A request of the room's `sudo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elevate {
    Run { argv: Vec<Vec<u8>>, env: Vec<Vec<u8>>, cwd: Vec<u8> },
    Signal(i32),
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elevated {
    Exited(Exit),
    Refused(String),
}
