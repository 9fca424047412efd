//! Borders between crates that the compiler does not guard.
//!
//! The crate `room` is how native rooms are made. Above `backend` there are rooms of any kind, so nobody there may
//! name what is in it, nor a namespace of the kernel.

use std::path::{Path, PathBuf};

use hothouse_host::files;

/// Crates that make native rooms or are part of them.
const BELOW: [&str; 4] = ["room", "room-init", "room-wire", "backend"];

/// The binary is also the launcher of rooms, and is so before there is anything else.
const LAUNCHER: &str = "hothouse/src/main.rs";

/// What names native rooms: their crate, and the client of room-init whatever it was imported by.
const NATIVE: [&str; 2] = ["hothouse_room", "RoomClient"];

/// Crates that may name namespaces although they make no rooms: `host` has the system calls, `guard` judges the
/// commands of agents, `testkit` looks for processes of rooms from outside.
const OF_THE_KERNEL: [&str; 3] = ["host", "guard", "testkit"];

/// What names a namespace of the kernel, beside the flags `CLONE_NEW…` and the files in `/proc/PID/ns`.
const NAMESPACES: [&str; 6] = ["setns", "nsenter", "netns", "mntns", "pidns", "userns"];

/// Returns which files of crates above `backend` name what belongs to native rooms alone.
pub(crate) fn check() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut crossings = Vec::new();
    for above in
        list(&crates)?.into_iter().filter(|path| !BELOW.iter().any(|one| path.ends_with(one)))
    {
        let is_of_the_kernel = OF_THE_KERNEL.iter().any(|one| above.ends_with(one));
        for file in sources(&above.join("src"))? {
            let text = files::read_text(&file).map_err(|error| error.to_string())?;
            let crosses =
                names_native_rooms(&text) || !is_of_the_kernel && names_a_namespace(&text);
            if !file.ends_with(LAUNCHER) && crosses {
                crossings.push(file.display().to_string());
            }
        }
    }
    match crossings.is_empty() {
        true => Ok(()),
        false => Err(format!("these go around `backend` to rooms: {}", crossings.join(", "))),
    }
}

pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    files::list(folder).map_err(|error| error.to_string())
}

pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in list(folder)? {
        match files::is_folder(&path) {
            true => found.extend(sources(&path)?),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    Ok(found)
}

/// Whether a source names the client of room-init, or anything in `hothouse_room`.
fn names_native_rooms(source: &str) -> bool {
    words(source).any(|word| NATIVE.contains(&word))
}

/// Whether a source enters, makes or looks up a namespace of the kernel.
fn names_a_namespace(source: &str) -> bool {
    let is_named = |word: &str| NAMESPACES.contains(&word) || word.starts_with("CLONE_NEW");
    source.contains("/ns/") || words(source).any(is_named)
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_native_room_is_seen() {
        for (source, crosses) in [
            ("use hothouse_room::Groups;", true),
            ("use hothouse_room as room;", true),
            ("use {hothouse_host::files,\n    hothouse_room::{Groups}};", true),
            ("let room = hothouse_room :: stop(a);", true),
            ("fn of(client: &RoomClient) {}", true),
            ("use hothouse_model::{config, room::RoomOrder};", false),
            ("use hothouse_room_wire::Exit;", false),
        ] {
            assert_eq!(names_native_rooms(source), crosses, "{source}");
        }
    }

    #[test]
    fn every_way_to_name_a_namespace_is_seen() {
        for (source, names) in [
            ("unshare(CLONE_NEWNET)", true),
            ("rustix::thread::CloneFlags::CLONE_NEWUSER", true),
            ("setns(fd, 0)", true),
            (r#"format!("/proc/{pid}/ns/net")"#, true),
            ("// in the namespace of refs", false),
            ("let ns = nanoseconds;", false),
        ] {
            assert_eq!(names_a_namespace(source), names, "{source}");
        }
    }

    #[test]
    fn nobody_above_backend_names_native_rooms() {
        check().unwrap();
    }
}
