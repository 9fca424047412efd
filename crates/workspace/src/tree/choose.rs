//! Chooses a driver for a folder: each is tried, the best first, and the reasons are reported.

use std::path::{Path, PathBuf};

use hothouse_host::{
    FileError, Lock, btrfs, copy, files, process,
    view::{View, ViewSpec},
};
use hothouse_model::{Explain, FailureKind};

use super::{DriverName, Owner, TreeDriver, TreeStore, driver_for};

/// What the user requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeWish {
    /// The best driver that works.
    Best,
    /// Only this driver.
    Only(DriverName),
}

impl TreeWish {
    /// Parses the setting: `auto` or the name of a driver.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Best),
            name => DriverName::parse(name).map(Self::Only),
        }
    }
}

/// A driver that works, and why it was chosen.
#[derive(Debug)]
pub struct Chosen {
    pub driver: Box<dyn TreeDriver>,
    pub reason: String,
    /// Better drivers that do not work here.
    pub passed_over: Vec<PassedOver>,
}

/// A driver that does not work in a folder, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    pub driver: DriverName,
    pub reason: String,
}

/// The requested driver does not work in a folder.
#[derive(Debug, thiserror::Error)]
#[error("the tree driver `{driver}` does not work in {}: {reason}", .folder.display())]
pub struct ChooseError {
    pub driver: DriverName,
    pub folder: PathBuf,
    pub reason: String,
    /// Whether the driver was not requested explicitly.
    pub is_default: bool,
}

impl Explain for ChooseError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        let doctor = "`hothouse doctor` shows what this host supports".to_owned();
        match self.is_default {
            true => vec![
                doctor,
                "`--tree copy` makes a folder that host and room share; without a second uid, git on \
                 the host can then run what an agent planted (SECURITY.md)"
                    .into(),
            ],
            false => vec!["let Hothouse choose: `--tree auto`".into(), doctor],
        }
    }
}

/// Chooses a driver for the trees beside a store, without an agent with its own ids.
pub fn choose(store: &TreeStore, wish: TreeWish) -> Result<Chosen, ChooseError> {
    choose_for(store, wish, None)
}

/// Chooses a driver for the trees beside a store. `agent` works in them in rooms, if root gave it
/// its own ids.
pub fn choose_for(
    store: &TreeStore,
    wish: TreeWish,
    agent: Option<Owner>,
) -> Result<Chosen, ChooseError> {
    if wish == TreeWish::Best && agent.is_none() && !process::is_root() {
        return choose_alone(store);
    }
    let chosen = |name: DriverName, reason, passed_over| Chosen {
        driver: driver_for(name, agent),
        reason,
        passed_over,
    };
    if let TreeWish::Only(driver) = wish {
        return match attempt(driver, store, agent) {
            Ok(()) => Ok(chosen(driver, "chosen with `--tree` or the config".into(), Vec::new())),
            Err(reason) => {
                let folder = store.folder().to_owned();
                Err(ChooseError { driver, folder, reason, is_default: false })
            }
        };
    }
    let mut passed_over = Vec::new();
    for &driver in DriverName::ALL {
        if driver == DriverName::Overlay && !process::is_root() {
            let reason = "only root can mount overlays that the host sees; with `--tree overlay` \
                          only the room sees one";
            passed_over.push(PassedOver { driver, reason: reason.into() });
            continue;
        }
        match attempt(driver, store, agent) {
            Ok(()) => return Ok(chosen(driver, best_reason(driver, store), passed_over)),
            Err(reason) => passed_over.push(PassedOver { driver, reason }),
        }
    }
    Err(no_driver(store, passed_over))
}

/// Chooses a driver for a user without a second uid: agent and user are the same owner on disk, so
/// the user's git trusts what an agent planted, unless the host does not see the files.
fn choose_alone(store: &TreeStore) -> Result<Chosen, ChooseError> {
    let driver = DriverName::Overlay;
    attempt(driver, store, None).map_err(|reason| ChooseError {
        driver,
        folder: store.folder().to_owned(),
        reason,
        is_default: true,
    })?;
    let reason = "there is no second uid, so the files exist only in the room";
    Ok(Chosen {
        driver: driver_for(driver, None),
        reason: reason.into(),
        passed_over: vec![PassedOver {
            driver: DriverName::Btrfs,
            reason: "a folder that host and room share is not safe with a single uid".into(),
        }],
    })
}

/// Returns the error when even copying failed, which means that the folder is not writable.
fn no_driver(store: &TreeStore, passed_over: Vec<PassedOver>) -> ChooseError {
    let reason = passed_over.into_iter().next_back().map_or_else(String::new, |last| last.reason);
    let folder = store.folder().to_owned();
    ChooseError { driver: DriverName::Copy, folder, reason, is_default: true }
}

fn best_reason(driver: DriverName, store: &TreeStore) -> String {
    let place = store.folder().display();
    match driver {
        DriverName::Btrfs => format!("{place} is on btrfs"),
        DriverName::Overlay => "running as root, and overlays can be mounted here".into(),
        DriverName::Reflink => format!("files in {place} can share their blocks"),
        DriverName::Copy => format!("nothing can be shared in {place}"),
    }
}

/// Tries a driver on scratch folders; fails with the reason if it does not work.
fn attempt(driver: DriverName, store: &TreeStore, agent: Option<Owner>) -> Result<(), String> {
    if driver == DriverName::Btrfs && !btrfs::is_btrfs(store.folder()) {
        return Err("it is on another file system".into());
    }
    let told = |error: FileError| format!("{error}: {}", error.source);
    // Only one attempt at a time, so that the next one removes what a killed one left behind.
    let _lock = Lock::take(&store.folder().join("try.lock")).map_err(told)?;
    let ground = store.folder().join("try");
    clear(&ground).map_err(told)?;
    let tried = try_in(driver, &*driver_for(driver, agent), store, &ground);
    clear(&ground).map_err(told)?;
    tried
}

fn clear(ground: &Path) -> Result<(), FileError> {
    super::remove_tree(&ground.join("tree"))?;
    super::remove_tree(&ground.join("source"))?;
    super::remove_tree(ground)
}

fn try_in(
    name: DriverName,
    driver: &dyn TreeDriver,
    store: &TreeStore,
    ground: &Path,
) -> Result<(), String> {
    let told = |error: FileError| format!("{error}: {}", error.source);
    files::make_private_folder(ground).map_err(told)?;
    let source = ground.join("source");
    super::create_source(&source).map_err(told)?;
    if name == DriverName::Reflink {
        return copy::try_reflink(&source).map_err(told);
    }
    let mut tree = store.place("", &ground.join("tree"));
    tree.private = ground.join("private");
    let made = driver.make(&[&source], &tree);
    made.map_err(|error| {
        error.file().map_or_else(|| error.to_string(), |file| format!("{file}: {}", file.source))
    })?;
    if name == DriverName::Overlay && !process::is_root() {
        // It would be too late to find out in a room that the kernel or file system does not allow
        // it.
        let layers = vec![tree.private.join("upper"), source];
        View::open(&ViewSpec { layers, at: tree.path }).map_err(told)?;
    }
    Ok(())
}
