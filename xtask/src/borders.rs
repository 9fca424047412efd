//! Borders between crates that the compiler does not guard.
//!
//! `host::room` is how native rooms are made. Above `backend` there are rooms of any kind, so nobody there may
//! name what is in it.

use std::path::{Path, PathBuf};

use hothouse_host::files;

/// Crates that make native rooms or are part of them.
const BELOW: [&str; 4] = ["host", "room-init", "room-wire", "backend"];

/// The binary is also the launcher of rooms, and is so before there is anything else.
const LAUNCHER: &str = "hothouse/src/main.rs";

/// Says which files of crates above `backend` name what belongs to native rooms alone.
pub(crate) fn check() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut crossings = Vec::new();
    for above in
        list(&crates)?.into_iter().filter(|path| !BELOW.iter().any(|one| path.ends_with(one)))
    {
        for file in sources(&above.join("src"))? {
            let text = files::read_text(&file).map_err(|error| error.to_string())?;
            if !file.ends_with(LAUNCHER) && names_native_rooms(&text) {
                crossings.push(file.display().to_string());
            }
        }
    }
    match crossings.is_empty() {
        true => Ok(()),
        false => Err(format!("these go around `backend` to rooms: {}", crossings.join(", "))),
    }
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    files::list(folder).map_err(|error| error.to_string())
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
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

/// Whether a source names the client of room-init, or anything in `hothouse_host::room`.
fn names_native_rooms(source: &str) -> bool {
    const HOST: &str = "hothouse_host::";
    let dense: String = source.split_whitespace().collect();
    dense.contains("RoomClient")
        || dense.match_indices(HOST).any(|(at, _)| {
            let rest = &dense[at + HOST.len()..];
            match rest.strip_prefix('{') {
                Some(list) => parts(list).iter().any(|part| is_room(part)),
                None => is_room(rest),
            }
        })
}

/// Whether a path begins with the module `room`.
fn is_room(path: &str) -> bool {
    let name = path.split(|c: char| !c.is_alphanumeric() && c != '_').next();
    name == Some("room")
}

/// Returns the parts of a list in braces, up to the one that closes it.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_u32, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            ',' if depth == 0 => {
                found.push(&list[begin..at]);
                begin = at + 1;
            }
            '}' if depth == 0 => {
                found.push(&list[begin..at]);
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_native_room_is_seen() {
        for (source, crosses) in [
            ("use hothouse_host::room::Groups;", true),
            ("use hothouse_host::room;", true),
            ("use hothouse_host::{files,\n    room};", true),
            ("use hothouse_host::{files::{self, room}, probe};", false),
            (
                "use hothouse_host::{\n    files::{a, b},\n    room::{\n        Groups,\n    },\n};",
                true,
            ),
            ("let room = hothouse_host :: room :: stop(a);", true),
            ("fn of(client: &RoomClient) {}", true),
            ("use hothouse_model::{config, room::RoomOrder};", false),
            ("use hothouse_host::roomy::Thing;", false),
        ] {
            assert_eq!(names_native_rooms(source), crosses, "{source}");
        }
    }

    #[test]
    fn nobody_above_backend_names_native_rooms() {
        check().unwrap();
    }
}
