//! Snapshots of small and large trees, and the file work of a build in a fork against a plain folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_host::{
    copy::{Content, Tree, copy_tree},
    files,
};
use hothouse_workspace::{
    TreePlace, TreeStore,
    tree::{self, DriverName, TreeDriver, create_source},
};

use super::{AGENT, Bar, bar, median, milliseconds, print, text, timed};

const SNAPSHOTS: usize = 15;
const ROUNDS: usize = 5;
/// How many sources a build reads; it writes an object for each.
const SOURCES: usize = 5_000;

pub(super) fn run(host: &Path, pool: Result<&Path, &String>) -> Result<(), String> {
    let pool = match pool {
        Ok(pool) => pool,
        Err(why) => {
            print(&format!("snapshots and builds: SKIPPED: {why}"));
            return Ok(());
        }
    };
    snapshots(&pool.join("snapshots"))?;
    print("a build that touches 10,000 files: median of 5, alternating with a plain folder");
    build(DriverName::Btrfs, &pool.join("build"), 90.0)?;
    build(DriverName::Overlay, &host.join("build"), 60.0)
}

fn snapshots(folder: &Path) -> Result<(), String> {
    print("snapshot on btrfs: median of 15, alternating");
    let (small, large) =
        (SizedTree::make(folder, "small", 1)?, SizedTree::make(folder, "large", 1024)?);
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for number in 0..SNAPSHOTS {
        of_small.push(timed(|| small.snapshot(number))?);
        of_large.push(timed(|| large.snapshot(number))?);
    }
    let (of_small, of_large) = (milliseconds(median(of_small)), milliseconds(median(of_large)));
    print(&format!("  1 MB {of_small:.1} ms, 1 GB {of_large:.1} ms"));
    bar("snapshot of 1 GB, times 1 MB", of_large / of_small, "", Bar::AtMost(2.0));
    Ok(())
}

/// A tree of known size.
struct SizedTree {
    store: TreeStore,
    name: &'static str,
    folder: PathBuf,
}

impl SizedTree {
    /// Creates a tree of this many files of one megabyte each.
    fn make(folder: &Path, name: &'static str, megabytes: usize) -> Result<Self, String> {
        let store = TreeStore::open(folder).map_err(text)?;
        let source = folder.join(name);
        create_source(&source).map_err(text)?;
        for number in 0..megabytes {
            let byte = u8::try_from(number % 251).unwrap_or_default();
            let path = source.join(number.to_string());
            files::write_quick(&path, &vec![byte; 1 << 20], 0o644).map_err(text)?;
        }
        files::sync_file_system(folder).map_err(text)?;
        Ok(Self { store, name, folder: folder.to_owned() })
    }

    fn snapshot(&self, number: usize) -> Result<(), String> {
        let name = format!("{}-{number}", self.name);
        let tree = self.store.place(self.name, &self.folder.join(self.name));
        let taken = self.store.place(&name, &self.folder.join(&name));
        tree::driver(DriverName::Btrfs).snapshot(&tree, &taken).map_err(text)
    }
}

/// Measures a build in a tree of a driver and in a plain folder on the same file system.
fn build(name: DriverName, folder: &Path, least: f64) -> Result<(), String> {
    let store = TreeStore::open(folder).map_err(text)?;
    let source = store.folder().join("golden/source");
    create_source(&source).map_err(text)?;
    fill(&source)?;
    let driver = tree::driver_for(name, Some(AGENT));
    let (mut plain, mut forked) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let copy = folder.join(format!("plain-{number}"));
        files::make_folder(&copy).map_err(text)?;
        copy_tree(&source, &copy, Content::Copy, Tree::Plain).map_err(text)?;
        let place = store.place(&format!("fork-{number}"), &folder.join(format!("fork-{number}")));
        driver.make(&[&source], &place).map_err(text)?;
        // The copy is already completely in memory.
        for tree in [&copy, &place.path] {
            read_all(tree)?;
        }
        files::sync_file_system(folder).map_err(text)?;
        plain.push(timed(|| work(&copy))?);
        files::sync_file_system(folder).map_err(text)?;
        forked.push(timed(|| work(&place.path))?);
        clean(&store, &*driver, &place)?;
    }
    let (plain, forked) = (milliseconds(median(plain)), milliseconds(median(forked)));
    let percent = 100.0 * plain / forked;
    print(&format!("  {:<9} plain folder {plain:.0} ms, fork {forked:.0} ms", name.as_str()));
    bar(&format!("speed of a build, {name}"), percent, "%", Bar::AtLeast(least));
    Ok(())
}

fn clean(store: &TreeStore, driver: &dyn TreeDriver, place: &TreePlace) -> Result<(), String> {
    driver.delete(place).map_err(text)?;
    store.empty_trash().map_err(text)
}

fn fill(source: &Path) -> Result<(), String> {
    for number in 0..SOURCES {
        let folder = source.join(format!("src/{}", number / 100));
        if number % 100 == 0 {
            files::make_folder(&folder).map_err(text)?;
        }
        let content = format!("source {number}\n").repeat(200);
        let path = folder.join(format!("{number}.c"));
        files::write_quick(&path, content.as_bytes(), 0o644).map_err(text)?;
    }
    Ok(())
}

fn read_all(tree: &Path) -> Result<(), String> {
    for number in 0..SOURCES {
        let source = tree.join(format!("src/{}/{number}.c", number / 100));
        files::read_capped(&source, 1 << 20).map_err(text)?;
    }
    Ok(())
}

/// Reads every source, writes an object beside it, and edits every tenth source.
fn work(tree: &Path) -> Result<(), String> {
    for number in 0..SOURCES {
        let folder = tree.join(format!("src/{}", number / 100));
        let source = folder.join(format!("{number}.c"));
        let content = files::read_capped(&source, 1 << 20).map_err(text)?;
        let object: Vec<u8> = content.iter().map(|byte| byte.wrapping_add(1)).collect();
        files::write(&folder.join(format!("{number}.o")), &object).map_err(text)?;
        if number % 10 == 0 {
            files::write(&source, &object).map_err(text)?;
        }
        fs::metadata(folder.join(format!("{number}.o"))).map_err(text)?;
    }
    Ok(())
}
