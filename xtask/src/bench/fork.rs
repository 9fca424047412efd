//! `hothouse fork` by each tree driver, against `git worktree add` of the same commit beside it; many
//! at once; snapshots; and the work of a build in a fork.

mod trees;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use hothouse_host::{Program, files, mount, remove};
use hothouse_model::config::ByteSize;
use hothouse_workspace::{
    pool,
    tree::{DriverName, Owner},
};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print,
    room::Ground,
    timed,
};

/// The number of forks in a block, and of blocks of each size.
const FORKS: usize = 7;
/// The same where each is a copy of everything.
const COPIES: usize = 2;
const BLOCKS: usize = 2;
const MANY: usize = 60_000;
const FEW: usize = 600;
const AT_ONCE: usize = 50;

/// The owner of agents' files on the host when root creates their rooms.
const AGENT: Owner = Owner { user: 301_000, group: 301_000 };

/// Measures the command.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    print(
        "fork: the command, median of 14 (copies: 4), in two blocks of each size; `git worktree add` once, beside",
    );
    print("  driver    files   git worktree add      fork    ratio   first git status   delete");
    let ground = Ground::new(binary)?;
    for &driver in DriverName::ALL {
        compare(driver, &ground, figures)?;
    }
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    remove_all(ground.folder.path())
}

/// Measures the tree drivers of this build.
pub(super) fn within() -> Result<(), String> {
    let host = tempfile::tempdir().map_err(text)?;
    let pool = Pool::make(host.path());
    let folder = pool.as_ref().map(|pool| pool.folder.as_path());
    let outcome = trees::run(host.path(), folder);
    drop(pool);
    remove_all(host.path()).and(outcome)
}

/// Removes a folder in parallel, unlike the temporary folder's own removal.
fn remove_all(folder: &Path) -> Result<(), String> {
    remove::remove_tree(folder).map_err(text)
}

/// Measures one driver with a small and a large repository, in blocks that take turns.
///
/// A fork may have to wait for what the previous one wrote. So all forks of a block are of one size, and everything is
/// synced to disk before each block: fork by fork in turn, the small ones would wait for the index of the large ones,
/// and the ratio would flatter us.
fn compare(driver: DriverName, ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let (few, many) = match (Bench::make(driver, ground, FEW), Bench::make(driver, ground, MANY)) {
        (Ok(few), Ok(many)) => (few, many),
        (Err(why), _) | (_, Err(why)) => {
            print(&format!("  {:<9} SKIPPED: {why}", driver.as_str()));
            return Ok(());
        }
    };
    let copies = matches!(driver, DriverName::Copy | DriverName::Reflink);
    let forks = if copies { COPIES } else { FORKS };
    let (mut of_few, mut of_many) = (Times::default(), Times::default());
    for block in 0..BLOCKS {
        for (bench, times) in [(&few, &mut of_few), (&many, &mut of_many)] {
            for place in [&bench.root, &bench.sandboxes] {
                files::sync_file_system(place).map_err(text)?;
            }
            for number in block * forks..(block + 1) * forks {
                times.forks.push(timed(|| bench.fork(&format!("fork-{number}")))?);
            }
        }
    }
    for (bench, times) in [(&few, &mut of_few), (&many, &mut of_many)] {
        for number in 0..BLOCKS * forks {
            times.statuses.push(timed(|| bench.status(&format!("fork-{number}")))?);
        }
        for number in 0..BLOCKS * forks {
            times.deletes.push(timed(|| bench.delete(&format!("fork-{number}")))?);
        }
    }
    let (one_of_few, one_of_many) = (of_few.show(&few, figures), of_many.show(&many, figures));
    let ratio = one_of_many / one_of_few;
    bar(&format!("{MANY} files, times {FEW}, {driver}"), ratio, "", Bar::AtMost(1.2));
    let faster = milliseconds(many.peer) / one_of_many;
    match driver {
        DriverName::Reflink => {}
        DriverName::Copy => bar("times git worktree add, copy", faster, "", Bar::AtLeast(5.0)),
        _ => bar(&format!("times git worktree add, {driver}"), faster, "", Bar::AtLeast(100.0)),
    }
    if !copies {
        let wall = many.fork_at_once()?;
        figures.add(format!("{AT_ONCE} forks at once, {driver}"), wall, "ms");
        let ratio = wall / one_of_many;
        bar(&format!("{AT_ONCE} forks at once, times one, {driver}"), ratio, "", Bar::AtMost(50.0));
    }
    few.finish()?;
    many.finish()
}

/// The measurements of one repository.
#[derive(Default)]
struct Times {
    forks: Vec<Duration>,
    statuses: Vec<Duration>,
    deletes: Vec<Duration>,
}

impl Times {
    /// Prints a line, and returns the duration of a fork in milliseconds.
    fn show(self, bench: &Bench<'_>, figures: &mut Figures) -> f64 {
        let shown = |times| milliseconds(median(times));
        let (peer, fork) = (milliseconds(bench.peer), shown(self.forks));
        let (status, delete) = (shown(self.statuses), shown(self.deletes));
        for (what, time) in [("fork", fork), ("first git status", status), ("delete", delete)] {
            figures.add(format!("{what}, {}, {} files", bench.driver, bench.files), time, "ms");
        }
        print(&format!(
            "  {:<9} {:>5}   {peer:>13.1} ms {fork:>6.1} ms   {:>6.1}   {:>13.1} ms {:>5.1} ms",
            bench.driver.as_str(),
            bench.files,
            peer / fork,
            status,
            delete,
        ));
        fork
    }
}

/// A repository on the host's file system, and sandboxes beside it where a driver works.
struct Bench<'a> {
    ground: &'a Ground<'a>,
    driver: DriverName,
    files: usize,
    root: PathBuf,
    sandboxes: PathBuf,
    /// The duration of `git worktree add`, to the same place.
    peer: Duration,
}

impl<'a> Bench<'a> {
    fn make(driver: DriverName, ground: &'a Ground<'a>, files: usize) -> Result<Self, String> {
        let name = format!("{driver}-{files}");
        let root = ground.folder.path().join(&name);
        let sandboxes = ground.folder.path().join(format!("{name}-sandboxes"));
        make_repository(&root, files)?;
        if matches!(driver, DriverName::Btrfs | DriverName::Reflink) {
            ground.hothouse_in(&root, &["pool", "create", "--size", "3G"])?;
        }
        let plain = sandboxes.join("plain");
        let add = ["worktree", "add", "--quiet", "-b", "plain", &plain.to_string_lossy()];
        let peer = timed(|| git(&root, &add))?;
        let bench = Self { ground, driver, files, root, sandboxes, peer };
        // The first fork builds the golden tree.
        bench.fork("warm")?;
        Ok(bench)
    }

    /// Removes the sandboxes: four repositories of 60,000 files, with their forks, are too much for some disks.
    fn finish(&self) -> Result<(), String> {
        self.delete("warm")?;
        mount::unmount_tree(&self.sandboxes).ok();
        for place in [&self.root, &self.sandboxes] {
            remove::remove_tree(place).map_err(text)?;
        }
        Ok(())
    }

    fn fork(&self, name: &str) -> Result<(), String> {
        let words = ["fork", name, "--tree", self.driver.as_str()];
        self.ground.hothouse_in(&self.root, &words).map(|_| ())
    }

    /// Makes many forks at the same time, and returns how long that took; then deletes them.
    fn fork_at_once(&self) -> Result<f64, String> {
        let names: Vec<_> = (0..AT_ONCE).map(|number| format!("at-once-{number}")).collect();
        let wall = timed(|| {
            thread::scope(|scope| {
                let threads: Vec<_> =
                    names.iter().map(|name| scope.spawn(|| self.fork(name))).collect();
                threads.into_iter().try_for_each(|thread| {
                    thread.join().unwrap_or_else(|_| Err("a fork panicked".into()))
                })
            })
        })?;
        for name in &names {
            self.status(name)?;
            self.delete(name)?;
        }
        Ok(milliseconds(wall))
    }

    /// Runs `git status`, as the user would do first; any output is a failure.
    fn status(&self, name: &str) -> Result<(), String> {
        let git = Program::new("git").args(["status", "--porcelain"]);
        let said = git.folder(&self.sandboxes.join(name)).output().map_err(text)?;
        if said.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }

    fn delete(&self, name: &str) -> Result<(), String> {
        self.ground.hothouse_in(&self.root, &["delete", name]).map(|_| ())
    }
}

fn make_repository(root: &Path, files: usize) -> Result<(), String> {
    for folder in 0..files / 200 {
        let folder_path = root.join(format!("src/m{}/d{folder}", folder / 20));
        fs::DirBuilder::new().recursive(true).create(&folder_path).map_err(text)?;
        for file in 0..200 {
            let content = format!("file {folder} {file}\n").repeat(20);
            let path = folder_path.join(format!("f{file}.txt"));
            files::write_quick(&path, content.as_bytes(), 0o644).map_err(text)?;
        }
    }
    git(root, &["init", "--quiet", "--initial-branch=main"])?;
    git(root, &["add", "--all"])?;
    let who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"];
    git(root, &[who.as_slice(), &["commit", "--quiet", "-m", "files"]].concat())
}

fn git(folder: &Path, words: &[&str]) -> Result<(), String> {
    let git = Program::new("git").args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    git.args(words).folder(folder).output().map(|_| ()).map_err(text)
}

/// A pool, mounted for as long as this lives.
struct Pool {
    folder: PathBuf,
}

impl Pool {
    fn make(host: &Path) -> Result<Self, String> {
        let folder = host.join("pool");
        pool::create(&folder, ByteSize::from_bytes(3 << 30)).map_err(text)?;
        Ok(Self { folder })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        mount::unmount_tree(&self.folder).ok();
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
