//! Dependency folders (`node_modules`, `.venv`, `target`): copied once from the user's checkout.
//!
//! A golden tree of dependencies is known by its folder and by the lock files that the commit has
//! beside it. It is taken from the user's checkout only if that has the same lock files, so a fork
//! never gets the dependencies of another commit, and never anything that a sandbox installed.

use std::path::{Component, Path};

use hothouse_host::{
    FileError, RunError,
    copy::{Content, Tree, copy_tree},
    files, hands,
};

use super::{Golden, GoldenError, find_or_build, for_agent, give_to_agent, make_tree};
use crate::{
    Repository, TreeStore, content,
    tree::{TreeDriver, TreePlace},
};

/// The names of files that fix what a dependency folder holds.
const LOCK_FILES: [&str; 17] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "deno.lock",
    "go.sum",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];

/// Why a dependency folder does not come along that nobody could miss.
pub const ABSENT: &str = "the checkout has none";

/// The dependency folders that come along, and those that do not.
#[derive(Debug, Default)]
pub struct Dependencies {
    pub found: Vec<Golden>,
    pub left_out: Vec<LeftOut>,
}

/// A dependency folder that does not come along, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub folder: String,
    pub reason: &'static str,
}

/// A lock file: its path in the repository and its content's id in a commit.
type LockFile = (String, String);

/// Finds the golden trees of the named folders for a commit, whose own golden tree is `golden`,
/// copying from the user's checkout those that it has and that are not there yet.
pub fn find_dependencies(
    repository: &Repository,
    store: &TreeStore,
    commit: &str,
    golden: &Golden,
    folders: &[String],
) -> Result<Dependencies, GoldenError> {
    let mut dependencies = Dependencies::default();
    for folder in folders {
        let about = |source| GoldenError::Dependencies { folder: folder.clone(), source };
        if !is_plain(Path::new(folder)) {
            dependencies.leave_out(folder, "it is not a path inside the repository");
            continue;
        }
        if files::exists(&golden.tree().join(folder)) {
            dependencies.leave_out(folder, "it is part of the commit");
            continue;
        }
        let locks = lock_files(repository, commit, folder).map_err(about)?;
        let key = key_of(repository, commit, folder, &locks).map_err(about)?;
        let checkout = &repository.place.root;
        let is_built = files::exists(&store.golden().join(&key));
        if !is_built && !files::is_folder(&checkout.join(folder)) {
            dependencies.leave_out(folder, ABSENT);
            continue;
        }
        if !is_built && !has_same(repository, &locks).map_err(about)? {
            dependencies.leave_out(folder, "the checkout has it for other lock files");
            continue;
        }
        dependencies.found.push(find_or_build(store, key, |building, _| {
            let target = make_tree(building)?.join(folder);
            files::make_folder(&target)?;
            copy_tree(&checkout.join(folder), &target, Content::Reflink, Tree::Foreign)?;
            Ok(give_to_agent(building, None)?)
        })?);
    }
    Ok(dependencies)
}

/// Returns one golden tree of a checkout with its dependencies, for drivers that take one source.
pub fn join(
    store: &TreeStore,
    driver: &dyn TreeDriver,
    golden: &Golden,
    dependencies: &[Golden],
) -> Result<Golden, GoldenError> {
    let keys: Vec<_> = dependencies.iter().map(|tree| tree.key().as_bytes()).collect();
    let key = format!("{}+{}", golden.key(), content::key(&keys));
    find_or_build(store, key, |building, _| {
        let place = TreePlace {
            path: building.join("tree"),
            private: building.join("private"),
            trash: store.trash(),
        };
        driver.make(&[&golden.tree()], &place)?;
        for dependency in dependencies {
            hands::copy_tree(&dependency.tree(), &place.path, Content::Reflink, Tree::Plain)?;
        }
        Ok(golden.copy_index(&building.join("index"))?)
    })
}

impl Dependencies {
    fn leave_out(&mut self, folder: &str, reason: &'static str) {
        self.left_out.push(LeftOut { folder: folder.to_owned(), reason });
    }
}

/// Returns whether a path leads down and nowhere else.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Lists the lock files that a commit has beside a folder or at the top.
fn lock_files(
    repository: &Repository,
    commit: &str,
    folder: &str,
) -> Result<Vec<LockFile>, RunError> {
    let parent = Path::new(folder).parent().unwrap_or(Path::new(""));
    let beside = LOCK_FILES.iter().map(|name| parent.join(name));
    let top = LOCK_FILES.iter().map(|name| Path::new(name).to_owned());
    let git = repository.git().args(["ls-tree", "-z", "--full-tree", commit, "--"]);
    let ask = || git.args(beside.chain(top)).output();
    let question = format!("lock files of {commit} for {}", parent.display());
    let output = match crate::refs::is_id(commit) {
        true => crate::git::remembered(&repository.place.common_dir, &question, ask)?,
        false => ask()?,
    };
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut locks: Vec<LockFile> = text
        .split('\0')
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(meta, path)| Some((path.to_owned(), meta.rsplit(' ').next()?.to_owned())))
        .collect();
    locks.sort();
    locks.dedup();
    Ok(locks)
}

/// Returns what a dependency folder is known by: without lock files it belongs to one commit.
fn key_of(
    repository: &Repository,
    commit: &str,
    folder: &str,
    locks: &[LockFile],
) -> Result<String, RunError> {
    let mut text = format!("{folder}\n");
    if locks.is_empty() {
        text.push_str(commit);
    }
    for (path, id) in locks {
        text.push_str(&format!("{id} {path}\n"));
    }
    let question = format!("id of {text}");
    let ask = || hash(repository, text.as_bytes()).map(String::into_bytes);
    let id = crate::git::remembered(&repository.place.common_dir, &question, ask)?;
    Ok(for_agent(format!("deps-{}", String::from_utf8_lossy(&id))))
}

fn hash(repository: &Repository, bytes: &[u8]) -> Result<String, RunError> {
    let stdin = files::memory(bytes).map_err(|error| spawn_error(&error))?;
    crate::git::line(repository.git().args(["hash-object", "--stdin"]).stdin(stdin))
}

fn spawn_error(error: &FileError) -> RunError {
    RunError::Spawn { program: "git".into(), source: std::io::Error::other(error.to_string()) }
}

/// Returns whether the user's checkout has the same lock files.
fn has_same(repository: &Repository, locks: &[LockFile]) -> Result<bool, RunError> {
    for (path, id) in locks {
        let Ok(bytes) = files::read_capped(&repository.place.root.join(path), 256 << 20) else {
            return Ok(false);
        };
        if hash(repository, &bytes)? != *id {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_lead_down_are_folders() {
        for good in ["node_modules", "web/node_modules", ".venv"] {
            assert!(is_plain(Path::new(good)), "{good}");
        }
        for bad in ["", "/etc", "../x", "a/../../b", "./a/.."] {
            assert!(!is_plain(Path::new(bad)), "{bad}");
        }
    }
}
