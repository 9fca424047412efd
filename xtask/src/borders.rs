//! Borders between crates that the compiler does not guard.
//!
//! The crate `room` makes native rooms. Above `backend` there are rooms of any kind, so nothing there may name its
//! contents, or a kernel namespace.

use std::path::{Path, PathBuf};

use hothouse_host::files;

/// Crates that make native rooms or are part of them.
const BELOW: [&str; 4] = ["room", "room-init", "room-wire", "backend"];

/// The binary is also the launcher of rooms, before it is anything else.
const LAUNCHER: &str = "hothouse/src/main.rs";

/// Names of native rooms: their crate, and the client of room-init whatever it was imported by.
const NATIVE: [&str; 2] = ["hothouse_room", "RoomClient"];

/// Crates that may name namespaces although they make no rooms: `host` has the system calls, `guard` judges the
/// commands of agents, `testkit` finds processes of rooms from outside.
const OF_THE_KERNEL: [&str; 3] = ["host", "guard", "testkit"];

/// Names of kernel namespaces, besides the flags `CLONE_NEW…` and the files in `/proc/PID/ns`.
const NAMESPACES: [&str; 6] = ["setns", "nsenter", "netns", "mntns", "pidns", "userns"];

/// Reports files of crates above `backend` that name parts of native rooms.
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

/// Where unsafe code is allowed: all of `host`, and one module of each crate that makes rooms.
const UNSAFE: [&str; 3] = ["host/src/", "room/src/sys.rs", "room-init/src/sys.rs"];

/// Reports files that allow unsafe code but must not have any.
pub(crate) fn check_unsafe() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for folder in list(&crates)? {
        for file in sources(&folder.join("src"))? {
            let text = files::read_text(&file).map_err(|error| error.to_string())?;
            let path = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
            let may = UNSAFE.iter().any(|one| path.starts_with(one));
            if !may && words(&text).any(|word| word == "unsafe_code") {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("unsafe code belongs into `host` or `sys`: {}", found.join(", ")))
    }
}

/// Tasks of `reconcile` that are never joined, and why they may be lost.
const DETACHED: [(&str, &str); 1] =
    [("urls/inside.rs", "a connection to a service of the host ends with its peers")];

/// Reports files of `reconcile` that start a task and drop its handle: its work would be lost when a daemon ends.
pub(crate) fn check_tasks() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/reconcile/src");
    let mut found = Vec::new();
    for file in sources(&folder)? {
        let text = files::read_text(&file).map_err(|error| error.to_string())?;
        let may = DETACHED.iter().any(|(name, _)| file.ends_with(name));
        match (drops_a_task(&text), may) {
            (true, false) => {
                found.push(format!("{} starts a task without an owner", file.display()))
            }
            (false, true) => found.push(format!("{} needs no exception", file.display())),
            _ => {}
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join(", ")) }
}

/// Returns whether a source has a statement that starts a task and drops its handle.
fn drops_a_task(source: &str) -> bool {
    let mut before = ";";
    for line in source.lines().map(str::trim) {
        // After an open bracket or an operator it is an argument or a value.
        let is_statement = before.ends_with([';', '{', '}']) || before.ends_with("=> {");
        if line.starts_with("tokio::spawn(") && is_statement {
            return true;
        }
        if !line.is_empty() && !line.starts_with("//") {
            before = line;
        }
    }
    false
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

/// Returns whether a source names the client of room-init, or anything in `hothouse_room`.
fn names_native_rooms(source: &str) -> bool {
    words(source).any(|word| NATIVE.contains(&word))
}

/// Returns whether a source enters, creates or looks up a kernel namespace.
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
    fn a_task_whose_handle_is_dropped_is_found() {
        for (source, drops) in [
            ("let a = 1;\n// why\ntokio::spawn(work());", true),
            ("match way {\n    Way::Host => {\n        tokio::spawn(pass());\n    }\n}", true),
            ("let task = tokio::spawn(work());", false),
            ("let task =\n    tokio::spawn(work());", false),
            ("Ok(Self(tokio::spawn(listen())))", false),
            ("running.push(\n    tokio::spawn(work()),\n);", false),
        ] {
            assert_eq!(drops_a_task(source), drops, "{source}");
        }
    }

    #[test]
    fn unsafe_code_is_where_it_may_be() {
        check_unsafe().unwrap();
    }

    #[test]
    fn tasks_of_reconcilers_have_owners() {
        check_tasks().unwrap();
    }

    #[test]
    fn nobody_above_backend_names_native_rooms() {
        check().unwrap();
    }
}
