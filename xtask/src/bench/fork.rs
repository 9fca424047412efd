//! Forks by each tree driver, against `git worktree add` of the same commit beside them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, Lock, Program, mount};
use hothouse_model::plan::BranchOrigin;
use hothouse_workspace::{
    Repository, TreeStore, WorktreeError,
    fork::ForkSource,
    tree::{DriverName, TreeDriver, TreeWish, choose},
    worktree::NewWorktree,
};

use super::{median, milliseconds, print, timed};

const FORKS: usize = 7;
const MANY: usize = 60_000;
const FEW: usize = 600;

/// What one driver came to, in milliseconds.
struct Figures {
    peer: f64,
    fork: f64,
    status: f64,
    delete: f64,
}

pub(super) fn run() -> Result<(), String> {
    print(
        "fork: median of 7 after one that built the golden tree; `git worktree add` once, beside it",
    );
    print("  driver    files   git worktree add      fork    ratio   first git status   delete");
    let host = tempfile::tempdir().map_err(text)?;
    let pool = Pool::make(host.path());
    for driver in DriverName::ALL {
        let folder = match (driver, &pool) {
            (DriverName::Overlay | DriverName::Copy, _) => host.path().join(driver.as_str()),
            (_, Ok(pool)) => pool.folder.join(driver.as_str()),
            (_, Err(why)) => {
                print(&format!("  {:<9} SKIPPED: {why}", driver.as_str()));
                continue;
            }
        };
        let mut forks = Vec::new();
        for files in [FEW, MANY] {
            let root = host.path().join(format!("{driver}-{files}"));
            let figures = measure(driver, &root, &folder.join(files.to_string()), files)?;
            print(&format!(
                "  {:<9} {files:>5}   {:>13.1} ms {:>6.1} ms   {:>6.1}   {:>13.1} ms {:>5.1} ms",
                driver.as_str(),
                figures.peer,
                figures.fork,
                figures.peer / figures.fork,
                figures.status,
                figures.delete,
            ));
            forks.push(figures.fork);
        }
        print(&format!(
            "  {:<9} {MANY} files take {:.2} times as long as {FEW}",
            "",
            forks[1] / forks[0]
        ));
    }
    print("  bar: at least 100 for btrfs and overlay, at least 2 for copy; 1.5 times at most");
    Ok(())
}

/// Measures one driver with a repository on the host's file system and sandboxes where the driver
/// works; `git worktree add` puts its files there too.
fn measure(
    driver: DriverName,
    root: &Path,
    sandboxes: &Path,
    files: usize,
) -> Result<Figures, String> {
    make_repository(root, files)?;
    let sandboxes = sandboxes.to_owned();
    let store = TreeStore::open(&sandboxes).map_err(text)?;
    let driver = choose(&store, TreeWish::Only(driver)).map_err(text)?.driver;
    let repository = Repository::discover(root).map_err(text)?;
    let plain = sandboxes.join("plain");
    let peer = timed(|| {
        git(root, &["worktree", "add", "--quiet", "-b", "plain", &plain.to_string_lossy()])
    })?;
    let bench = Bench { repository, store, sandboxes, driver: &*driver };
    bench.fork("warm")?;
    let (mut forks, mut statuses, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..FORKS {
        let name = format!("fork-{number}");
        forks.push(timed(|| bench.fork(&name))?);
        statuses.push(timed(|| bench.status(&name))?);
    }
    for number in 0..FORKS {
        deletes.push(timed(|| bench.delete(&format!("fork-{number}")))?);
    }
    bench.delete("warm")?;
    bench.store.empty_trash().map_err(text)?;
    let shown = |times| milliseconds(median(times));
    Ok(Figures {
        peer: milliseconds(peer),
        fork: shown(forks),
        status: shown(statuses),
        delete: shown(deletes),
    })
}

struct Bench<'a> {
    repository: Repository,
    store: TreeStore,
    sandboxes: PathBuf,
    driver: &'a dyn TreeDriver,
}

impl Bench<'_> {
    fn lock(&self) -> Result<Lock, FileError> {
        Lock::take(&self.sandboxes.join("repository.lock"))
    }

    fn fork(&self, name: &str) -> Result<(), String> {
        let commit = self.repository.commit("HEAD").map_err(text)?.unwrap_or_default();
        let golden = self.repository.golden(&self.store, &commit).map_err(text)?;
        let place = self.store.place(name, &self.sandboxes.join(name));
        let new = NewWorktree {
            path: &place.path,
            branch: name,
            origin: BranchOrigin::New,
            commit: &commit,
        };
        let source = ForkSource::Golden { commit: &golden, dependencies: &[] };
        let take = || self.lock().map_err(WorktreeError::from);
        self.repository.add_worktree_from(take, &new, source, self.driver, &place).map_err(text)
    }

    /// What the user would do first; anything but silence is a failure.
    fn status(&self, name: &str) -> Result<(), String> {
        let git = Program::new("git").args(["status", "--porcelain"]);
        let said = git.folder(&self.sandboxes.join(name)).output().map_err(text)?;
        if said.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }

    fn delete(&self, name: &str) -> Result<(), String> {
        let place = self.store.place(name, &self.sandboxes.join(name));
        let lock = self.lock().map_err(text)?;
        self.repository.remove_worktree_from(&lock, self.driver, &place).map_err(text)
    }
}

fn make_repository(root: &Path, files: usize) -> Result<(), String> {
    for folder in 0..files / 200 {
        let folder_path = root.join(format!("src/m{}/d{folder}", folder / 20));
        fs::DirBuilder::new().recursive(true).create(&folder_path).map_err(text)?;
        for file in 0..200 {
            let content = format!("file {folder} {file}\n").repeat(20);
            let path = folder_path.join(format!("f{file}.txt"));
            hothouse_host::files::write_quick(&path, content.as_bytes(), 0o644).map_err(text)?;
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

/// A btrfs in a file, mounted for as long as this lives.
struct Pool {
    folder: PathBuf,
}

impl Pool {
    fn make(host: &Path) -> Result<Self, String> {
        let (image, folder) = (host.join("pool.image"), host.join("pool"));
        fs::DirBuilder::new().create(&folder).map_err(text)?;
        fs::File::create(&image).and_then(|file| file.set_len(8 << 30)).map_err(text)?;
        Program::new("mkfs.btrfs").arg("-q").arg(&image).output().map_err(text)?;
        // Reading would else write: each look at a folder dirties what the snapshot shares.
        let mount = Program::new("mount").args(["-o", "loop,noatime"]).arg(&image).arg(&folder);
        mount.output().map_err(text)?;
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
