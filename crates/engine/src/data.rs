//! The data of services: created once in a separate room, then copied for each sandbox.
//!
//! ```text
//! golden-data/KEY.new   being created; never used, removed by the next build
//! golden-data/KEY       complete: renamed only after everything in it was synced to the disk
//! golden-data/NAME.SERVICE.copy   a copy in progress
//! data/NAME/SERVICE     the sandbox's own
//! ```

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use hothouse_backend::{RoomCommand, RoomError};
use hothouse_host::{
    FileError, Lock, LockError,
    copy::{Content, Tree},
    files, hands,
    owners::Give,
    random,
};
use hothouse_model::{
    FailureKind,
    room::{RoomMount, RoomOrder, RoomWall},
    stack::DataOrder,
};

use crate::{
    Engine,
    images::ARCHIVE_INSIDE,
    masks,
    room::{TEMPORARY, room_id},
};

/// The file in a data folder that names its recipe. The room may change it, which only affects the
/// room itself.
const KIND_FILE: &str = ".hothouse-recipe";

/// The file with the version of a PostgreSQL data folder.
const POSTGRES_VERSION: &str = "PG_VERSION";

/// Data that a service cannot start with.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("the data of service `{service}` was written by {found}, and {wanted} cannot use it")]
    Kind { service: String, found: String, wanted: String },
    #[error("initialize the data of {kind}: its program exited with {code}")]
    Script { kind: String, code: String, said: String },
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    File(#[from] FileError),
}

hothouse_model::explain! {
    DataError passes on Room, File;
    kind {
        Self::Kind { .. } => FailureKind::Conflict,
        Self::Script { .. } => FailureKind::Host,
    }
    causes {
        Self::Script { said, .. } if !said.is_empty() => vec![said.clone()],
    }
    hints {
        Self::Kind { service, found, .. } => {
            let version = found.rsplit(' ').next().unwrap_or_default();
            vec![
                format!(
                    "set `version = \"{version}\"` under `[service.{service}]` to keep the data"
                ),
                "or fork a new sandbox, which starts with new data".into(),
            ]
        }
        Self::Script { .. } => Vec::new(),
    }
}

/// Refuses data created by another program or version.
pub(crate) fn check(order: &DataOrder) -> Result<(), DataError> {
    if !files::exists(&order.folder) {
        return Ok(());
    }
    let read = |name: &str| {
        let bytes = hands::read_capped(&order.folder, Path::new(name), 64).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let postgres = read(POSTGRES_VERSION).map(|version| format!("postgres {version}"));
    match postgres.or_else(|| read(KIND_FILE)) {
        Some(found) if found != order.kind => Err(DataError::Kind {
            service: order.service.clone(),
            found: shown(&found),
            wanted: order.kind.clone(),
        }),
        _ => Ok(()),
    }
}

/// Formats text from a room as a single line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

impl Engine {
    /// Ensures that a service has data to start with; existing data is kept.
    pub(crate) fn prepare_data(&self, order: &DataOrder) -> Result<(), DataError> {
        if files::exists(&order.folder) {
            return check(order);
        }
        let _golden = self.golden_data(order)?;
        let around = order.folder.parent().unwrap_or(&order.folder);
        files::make_private_folder(around)?;
        let new = beside_golden(order);
        remove_unfinished(&new)?;
        files::make_private_folder(&new)?;
        hands::copy_tree(&order.golden, &new, Content::Reflink, Tree::Plain)?;
        hands::rename(&new, &order.folder)?;
        Ok(())
    }

    /// Returns a lock on the golden data, which is created if necessary.
    fn golden_data(&self, order: &DataOrder) -> Result<Lock, DataError> {
        let around = order.golden.parent().unwrap_or(&order.golden);
        files::make_private_folder(around)?;
        let lock = Lock::take(&order.golden.with_added_extension("lock"))?;
        if files::exists(&order.golden) {
            return Ok(lock);
        }
        let new = order.golden.with_added_extension("new");
        remove_unfinished(&new)?;
        files::make_private_folder(&new)?;
        hands::give_tree(&new, &Give::whole())?;
        if !order.script.is_empty() {
            self.fill(order, &new)?;
        }
        mark(&new, &order.kind)?;
        // An incomplete copy under its final name would be worse than none.
        files::sync_file_system(around)?;
        files::rename(&new, &order.golden)?;
        Ok(lock)
    }

    /// Repairs a copy of a running service's data.
    pub(crate) fn settle_copy(&self, order: &DataOrder, copy: &Path) -> Result<(), DataError> {
        hands::give_tree(copy, &Give::whole())?;
        if order.settle.is_empty() {
            return Ok(());
        }
        let order = DataOrder { script: order.settle.clone(), ..order.clone() };
        self.fill(&order, copy)
    }

    /// Runs the script in a room that has only this folder.
    pub(crate) fn fill(&self, order: &DataOrder, folder: &Path) -> Result<(), DataError> {
        let nonce = u64::from_ne_bytes(random::bytes());
        let runtime = self.with.runtime.join(format!("data{TEMPORARY}{nonce:016x}"));
        let room = golden_room(order, folder, &runtime, nonce);
        self.temporary.begin(&runtime);
        let filled = self.fill_in(order, folder, &room);
        self.temporary.end(&runtime);
        filled
    }

    fn fill_in(&self, order: &DataOrder, folder: &Path, room: &RoomOrder) -> Result<(), DataError> {
        let runtime = &room.runtime;
        self.with.rooms.start(room)?;
        let script = format!("DATA=$PWD; export DATA; exec 2>&1\n{}", order.script);
        let words = ["/bin/sh", "-c", &script].map(OsString::from).to_vec();
        let ran = self.with.rooms.run(runtime, &RoomCommand { words, folder: folder.to_owned() });
        self.with.rooms.kill(runtime)?;
        let ran = ran?;
        if ran.code == Some(0) {
            return Ok(());
        }
        let code = ran.code.map_or("a signal".to_owned(), |code| format!("exit {code}"));
        let said = String::from_utf8_lossy(&ran.stdout);
        let last: Vec<&str> = said.lines().rev().take(15).collect();
        let said = last.into_iter().rev().map(shown_line).collect::<Vec<_>>().join("\n");
        Err(DataError::Script { kind: order.kind.clone(), code, said })
    }
}

/// Returns the path for a copy. Not beside the data, where every folder belongs to a service.
fn beside_golden(order: &DataOrder) -> PathBuf {
    let sandbox = order.folder.parent().and_then(Path::file_name).unwrap_or_default();
    let name = format!("{}.{}.copy", sandbox.to_string_lossy(), order.service);
    order.golden.with_file_name(name)
}

/// Copies a worktree for services that run from frozen files. Sockets are left out.
pub(crate) fn freeze(from: &Path, to: &Path, without: &[PathBuf]) -> Result<(), FileError> {
    remove_unfinished(to)?;
    files::make_private_folder(to)?;
    // A full copy: the files of an overlay have several owners, and the room's id map supports one.
    hands::copy_tree(from, to, Content::Reflink, Tree::Foreign)?;
    // No room sees the copy yet.
    masks::leave_out(to, without)
}

fn shown_line(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

fn shown_archive(archive: &Path) -> RoomMount {
    let target = PathBuf::from(ARCHIVE_INSIDE);
    RoomMount { source: archive.to_owned(), target, writable: false, own: true }
}

fn golden_room(order: &DataOrder, folder: &Path, runtime: &Path, nonce: u64) -> RoomOrder {
    RoomOrder {
        id: format!("{}-{nonce:016x}", room_id("data", runtime)),
        sandbox: None,
        hostname: "data".into(),
        names: Vec::new(),
        worktree: folder.to_owned(),
        aliases: Vec::new(),
        storage: runtime.join("layers"),
        runtime: runtime.to_owned(),
        tools: Vec::new(),
        mounts: order.archive.iter().map(|archive| shown_archive(archive)).collect(),
        masks: Vec::new(),
        git: None,
        memory: None,
        cpus: None,
        pids: None,
        disk: None,
        ephemeral: true,
        wall: RoomWall { stack: order.stack.clone(), ..RoomWall::default() },
        claim: None,
        layers: None,
    }
}

/// Removes unused golden data if the disk has too little free space; it is recreated when a sandbox
/// needs it.
pub(crate) fn evict(around: &Path, wanted: u64) -> Result<Vec<PathBuf>, FileError> {
    let mut evicted = Vec::new();
    if !files::exists(around) || files::free_bytes(around)? >= wanted {
        return Ok(evicted);
    }
    for golden in files::list(around)? {
        let unfinished = golden.extension().is_some_and(|end| end == "new" || end == "copy");
        if unfinished || hands::read_capped(&golden, Path::new(KIND_FILE), 64).is_err() {
            continue;
        }
        let _lock = match Lock::try_take(&golden.with_added_extension("lock")) {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => continue,
            Err(LockError::File(error)) => return Err(error),
        };
        // An incomplete copy under its final name would be mistaken for a complete one.
        let gone = golden.with_added_extension("new");
        remove_unfinished(&gone)?;
        files::rename(&golden, &gone)?;
        remove_unfinished(&gone)?;
        evicted.push(golden);
    }
    Ok(evicted)
}

/// Marks what a folder was created for; unmarked folders are not removed on a full disk.
pub(crate) fn mark(folder: &Path, kind: &str) -> Result<(), FileError> {
    hands::write(folder, Path::new(KIND_FILE), format!("{kind}\n").as_bytes(), 0o644)
}

/// Removes the remains of an interrupted attempt.
pub(crate) fn remove_unfinished(path: &Path) -> Result<(), FileError> {
    match files::exists(path) {
        true => hands::remove_tree(path),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::Explain;

    use super::*;

    #[test]
    fn a_full_disk_takes_golden_data_that_nobody_holds() {
        let around = tempfile::tempdir().unwrap();
        let [free, held, other] =
            ["free-1", "held-10.11-1", "other"].map(|name| around.path().join(name));
        for golden in [&free, &held, &other] {
            std::fs::create_dir(golden).unwrap();
        }
        for golden in [&free, &held] {
            files::write(&golden.join(KIND_FILE), "postgres 15\n").unwrap();
        }
        let lock = Lock::take(&held.with_added_extension("lock")).unwrap();
        assert!(evict(around.path(), 0).unwrap().is_empty(), "there is room");
        assert_eq!(evict(around.path(), u64::MAX).unwrap(), std::slice::from_ref(&free));
        assert!(!free.exists() && held.join(KIND_FILE).exists() && other.exists());
        drop(lock);
        assert_eq!(evict(around.path(), u64::MAX).unwrap(), [held]);
        assert!(evict(&around.path().join("none"), u64::MAX).unwrap().is_empty());
    }

    fn order(folder: &Path, kind: &str) -> DataOrder {
        DataOrder {
            service: "db".into(),
            kind: kind.into(),
            folder: folder.into(),
            golden: folder.with_added_extension("golden"),
            script: String::new(),
            settle: String::new(),
            archive: None,
            stack: Vec::new(),
        }
    }

    #[test]
    fn data_of_another_version_is_refused_with_a_way_on() {
        let folder = tempfile::tempdir().unwrap();
        files::replace(&folder.path().join(POSTGRES_VERSION), b"14\n", 0o600).unwrap();
        assert!(check(&order(folder.path(), "postgres 14")).is_ok());
        let failure = check(&order(folder.path(), "postgres 15")).unwrap_err().failure();
        assert_eq!(failure.kind, FailureKind::Conflict);
        assert_eq!(
            failure.message,
            "the data of service `db` was written by postgres 14, and postgres 15 cannot use it"
        );
        assert!(failure.hints[0].contains("version = \"14\""), "{failure:?}");
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join(KIND_FILE)).unwrap();
        assert!(check(&order(folder.path(), "redis")).is_ok());
    }
}
