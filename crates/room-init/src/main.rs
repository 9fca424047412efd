//! PID 1 of a room.
//!
//! One small static binary with several names. Started by the setup helper it is room-init; as
//! `sudo` it asks room-init to run a command as the room's root; as `dpkg-deb` it unpacks packages
//! without setuid bits; as `chmod`, `install` or `dpkg-statoverride` it drops them from the
//! requested mode.
//!
//! - [`boot`]: adopts and checks what the setup helper passed on
//! - [`room`]: the loop that owns all state
//! - [`connection`]: framed streams with descriptors
//! - [`exec`] and [`output`], [`history`], [`terminal`]: commands and their output
//! - [`services`]: the services of the room, supervised
//! - [`spawn`]: a child from fork to exec
//! - [`guard`]: frees the loop from a locked pipe
//! - [`closed`]: the room's traffic while it has no daemon
//! - [`views`]: host folders behind overlays
//! - [`sudo`]: the program under the name `sudo`
//! - [`unpack`] and [`modes`]: the program under its other names
//! - [`sys`]: the only unsafe code

mod boot;
mod closed;
mod connection;
mod exec;
mod guard;
mod history;
mod modes;
mod output;
mod room;
mod services;
mod spawn;
mod sudo;
mod sys;
mod terminal;
mod unpack;
mod views;

use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    match name.as_encoded_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default() {
        b"sudo" => {
            let mut arguments = std::env::args_os().skip(1);
            if arguments.next().is_some_and(|word| word == services::watch::ARGUMENT) {
                return services::watch::main(arguments);
            }
            return sudo::main();
        }
        b"dpkg-deb" => return unpack::main(),
        other => {
            if let Some(tool) = modes::Tool::named(other) {
                return modes::main(tool);
            }
        }
    }
    match boot::adopt().and_then(room::Room::open) {
        Ok(room) => room.run(),
        Err(error) => ExitCode::from(u8::try_from(error.raw_os_error().unwrap_or(1)).unwrap_or(1)),
    }
}
