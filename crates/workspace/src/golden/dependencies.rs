//! Dependency folders (`node_modules`, `.venv`, `target`): copied once from the user's checkout.
//!
//! A golden tree of dependencies is identified by its folder and by the lock files that the commit
//! has beside it. It is copied from the user's checkout only if the checkout has the same lock
//! files, so a fork never gets the dependencies of another commit, and never anything that a
//! sandbox installed.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use hothouse_host::{
    FileError, RunError,
    beneath::{EntryKind, Folder},
    copy::{Content, Tree, copy_tree},
    files, hands,
};
use hothouse_model::{glob, masks::FolderPatterns};
use serde_json::Value;

use super::{Golden, GoldenError, find_or_build, for_agent, give_to_agent, make_tree};
use crate::{
    Repository, TreeStore, content,
    tree::{TreeDriver, TreePlace},
};

/// Names of files that determine the content of a dependency folder.
pub(super) const LOCK_FILES: [&str; 17] = [
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

const NODE_MODULES: &str = "node_modules";

/// The path of pnpm's store in a room.
pub const PNPM_STORE: &str = "/var/cache/hothouse/pnpm";

/// The file in pnpm's `node_modules` that names the store from which it was linked.
const PNPM_RECORD: &str = ".modules.yaml";

/// The maximum size of a `package.json`.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// Why a dependency folder is left out, if the user will not miss it.
pub const ABSENT: &str = "the checkout has none";

/// Why a folder is left out that the config names explicitly.
const UNMATCHED: &str = "the checkout has nothing that matches it";

/// The dependency folders that are copied to a fork, and those that are not.
#[derive(Debug, Default)]
pub struct Dependencies {
    pub found: Vec<Golden>,
    pub left_out: Vec<LeftOut>,
}

/// A dependency folder that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub folder: String,
    pub reason: &'static str,
}

/// A lock file: its path in the repository, and its blob id in a commit.
type LockFile = (String, String);

/// Finds the golden trees of the named folders for a commit, copying missing ones from the user's
/// checkout. `golden` is the commit's own golden tree.
pub fn find_dependencies(
    repository: &Repository,
    store: &TreeStore,
    commit: &str,
    golden: &Golden,
    folders: &[String],
) -> Result<Dependencies, GoldenError> {
    let mut dependencies = Dependencies::default();
    for folder in folders {
        let several = several(golden, folder);
        if let Some(pattern) = several {
            let group = Group { repository, store, commit, golden, pattern: &pattern };
            group.find(folder, &mut dependencies)?;
            continue;
        }
        let about = |source| GoldenError::Dependencies { folder: folder.clone(), source };
        if !is_plain(Path::new(folder)) {
            dependencies.leave_out(folder, "it is not a path inside the repository");
            continue;
        }
        if files::exists(&golden.tree().join(folder)) {
            dependencies.leave_out(folder, "it is part of the commit");
            continue;
        }
        let one = std::slice::from_ref(folder);
        let locks = lock_files(repository, commit, one).map_err(about)?;
        let key = key_of(repository, commit, one, &locks).map_err(about)?;
        let checkout = &repository.place.root;
        let is_built = files::exists(&store.golden().join(&key));
        if !is_built && !files::is_folder(&checkout.join(folder)) {
            let is_named = folder.contains('/');
            dependencies.leave_out(folder, if is_named { UNMATCHED } else { ABSENT });
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
            lead_to_room_store(&target)?;
            Ok(give_to_agent(building, None)?)
        })?);
    }
    Ok(dependencies)
}

/// Combines a checkout with its dependencies in one golden tree, for drivers that support only one
/// source.
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

/// All folders of a checkout that match a pattern, in one golden tree: there may be more of them
/// than an overlay can have layers.
struct Group<'a> {
    repository: &'a Repository,
    store: &'a TreeStore,
    commit: &'a str,
    golden: &'a Golden,
    pattern: &'a str,
}

impl Group<'_> {
    /// Finds the golden tree. `asked` is the entry in the config.
    fn find(&self, asked: &str, dependencies: &mut Dependencies) -> Result<(), GoldenError> {
        let Self { repository, store, commit, .. } = *self;
        let about = |source| GoldenError::Dependencies { folder: asked.to_owned(), source };
        let folders = self.matching().map_err(about)?;
        if folders.is_empty() {
            let reason = if asked == self.pattern { UNMATCHED } else { ABSENT };
            dependencies.leave_out(asked, reason);
            return Ok(());
        }
        let locks = lock_files(repository, commit, &folders).map_err(about)?;
        let key = key_of(repository, commit, &folders, &locks).map_err(about)?;
        let is_built = files::exists(&store.golden().join(&key));
        if !is_built && !has_same(repository, &locks).map_err(about)? {
            dependencies.leave_out(asked, "the checkout has it for other lock files");
            return Ok(());
        }
        let checkout = &repository.place.root;
        dependencies.found.push(find_or_build(store, key, |building, _| {
            let tree = make_tree(building)?;
            for folder in &folders {
                let target = tree.join(folder);
                files::make_folder(&target)?;
                copy_tree(&checkout.join(folder), &target, Content::Reflink, Tree::Foreign)?;
                lead_to_room_store(&target)?;
            }
            Ok(give_to_agent(building, None)?)
        })?);
        Ok(())
    }

    /// Lists the folders of the checkout that match the pattern. Each is in a folder that the
    /// commit has, and none is inside another.
    fn matching(&self) -> Result<Vec<String>, RunError> {
        let checkout = &self.repository.place.root;
        if *checkout == self.repository.place.common_dir {
            return Ok(Vec::new());
        }
        let patterns = FolderPatterns::new([self.pattern]);
        let last = self.pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        for folder in self.folders_of_commit()? {
            let names = match glob::is_wild(last.as_bytes()) {
                true => folders_in(&checkout.join(&folder)),
                false => vec![OsString::from(last)],
            };
            let fitting = names.into_iter().filter(|name| patterns.fits(&folder, name));
            found.extend(fitting.map(|name| folder.join(name)));
        }
        let is_own = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name != ".git")
                && files::is_folder(&checkout.join(path))
                && !files::exists(&self.golden.tree().join(path))
        };
        Ok(found
            .into_iter()
            .filter(is_own)
            .filter_map(|path| path.into_os_string().into_string().ok())
            .collect())
    }

    fn folders_of_commit(&self) -> Result<Vec<PathBuf>, RunError> {
        let Self { repository, commit, .. } = self;
        let git = repository.git().args(["ls-tree", "-r", "-d", "-z", "--name-only"]);
        let ask = || git.args(["--full-tree", commit]).output();
        let question = format!("folders of {commit}");
        let output = match crate::refs::is_id(commit) {
            true => crate::git::remembered(&repository.place.common_dir, &question, ask)?,
            false => ask()?,
        };
        let folders = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let folders = folders.map(|name| PathBuf::from(OsStr::from_bytes(name)));
        Ok(std::iter::once(PathBuf::new()).chain(folders).collect())
    }
}

/// Returns the pattern of a folder that may match several: one with wildcards, or `node_modules` in
/// a repository whose packages each have their own.
fn several(golden: &Golden, folder: &str) -> Option<String> {
    if glob::is_wild(folder.as_bytes()) {
        return Some(folder.to_owned());
    }
    let is_meant = folder.trim_end_matches('/') == NODE_MODULES && has_workspaces(&golden.tree());
    is_meant.then(|| format!("**/{NODE_MODULES}"))
}

/// Whether a tree declares npm, yarn, pnpm or bun workspaces.
fn has_workspaces(tree: &Path) -> bool {
    Folder::open(tree).is_ok_and(|folder| several_of(&folder))
}

/// Like [`has_workspaces`], for an open folder.
pub(super) fn several_of(folder: &Folder) -> bool {
    let is_there = |name: &str| folder.stat(Path::new(name)).is_ok_and(|stat| stat.is_some());
    let manifest = folder.read_capped(Path::new("package.json"), MANIFEST_LIMIT);
    let manifest = manifest.ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    is_there("pnpm-workspace.yaml")
        || manifest.is_some_and(|manifest| manifest.get("workspaces").is_some())
}

fn folders_in(folder: &Path) -> Vec<OsString> {
    let list = Folder::open(folder).and_then(|open| open.list(Path::new(".")));
    let folders = list.unwrap_or_default().into_iter();
    folders.filter(|entry| entry.kind == EntryKind::Folder).map(|entry| entry.name).collect()
}

/// Makes pnpm in the room accept a copied `node_modules`: pnpm refuses one that was linked from
/// another store.
fn lead_to_room_store(folder: &Path) -> Result<(), FileError> {
    if !folder.ends_with(NODE_MODULES) {
        return Ok(());
    }
    let open = Folder::open(folder)?;
    let Ok(record) = open.read_capped(Path::new(PNPM_RECORD), MANIFEST_LIMIT) else {
        return Ok(());
    };
    match String::from_utf8(record).ok().and_then(|text| with_room_store(&text)) {
        // Replaced by a new file, so the user's own stays unchanged with reflinks and copies alike.
        Some(text) => files::replace(&folder.join(PNPM_RECORD), text.as_bytes(), 0o644),
        None => Ok(()),
    }
}

/// Returns pnpm's record with the room's store in place of the user's. The last path component is
/// the version of its format.
fn with_room_store(record: &str) -> Option<String> {
    let is_store = |line: &&str| line.trim_start().trim_start_matches('"').starts_with("storeDir");
    let line = record.lines().find(is_store)?;
    let (key, value) = line.split_once(':')?;
    let comma = if value.trim_end().ends_with(',') { "," } else { "" };
    let path = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
    let version = path.rsplit(['/', '\\']).next().filter(|name| {
        name.strip_prefix('v').is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    })?;
    let quote = if value.contains('"') { "\"" } else { "" };
    let own = format!("{key}: {quote}{PNPM_STORE}/{version}{quote}{comma}");
    Some(record.replacen(line, &own, 1))
}

impl Dependencies {
    fn leave_out(&mut self, folder: &str, reason: &'static str) {
        self.left_out.push(LeftOut { folder: folder.to_owned(), reason });
    }
}

/// Whether a path is relative and never leads up.
pub(super) fn is_plain(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Lists the lock files that a commit has beside folders or at the top.
fn lock_files(
    repository: &Repository,
    commit: &str,
    folders: &[String],
) -> Result<Vec<LockFile>, RunError> {
    let parent = |folder: &String| Path::new(folder).parent().unwrap_or(Path::new("")).to_owned();
    let parents: BTreeSet<_> = folders.iter().map(parent).chain([PathBuf::new()]).collect();
    let paths = parents.iter().flat_map(|parent| LOCK_FILES.iter().map(|name| parent.join(name)));
    let git = repository.git().args(["ls-tree", "-z", "--full-tree", commit, "--"]);
    let ask = || git.args(paths).output();
    let question = format!("lock files of {commit} for {parents:?}");
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

/// Returns the key of a dependency folder. Without lock files it belongs to one commit.
fn key_of(
    repository: &Repository,
    commit: &str,
    folders: &[String],
    locks: &[LockFile],
) -> Result<String, RunError> {
    let mut text = format!("{}\n", folders.join("\0"));
    if locks.is_empty() {
        text.push_str(commit);
    }
    for (path, id) in locks {
        text.push_str(&format!("{id} {path}\n"));
    }
    let question = format!("id of {text}");
    let ask = || hash(repository, text.as_bytes()).map(String::into_bytes);
    let id = crate::git::remembered(&repository.place.common_dir, &question, ask)?;
    Ok(for_agent(format!("dependencies-{}", String::from_utf8_lossy(&id))))
}

fn hash(repository: &Repository, bytes: &[u8]) -> Result<String, RunError> {
    let stdin = files::memory(bytes).map_err(|error| spawn_error(&error))?;
    crate::git::line(repository.git().args(["hash-object", "--stdin"]).stdin(stdin))
}

fn spawn_error(error: &FileError) -> RunError {
    RunError::Spawn { program: "git".into(), source: std::io::Error::other(error.to_string()) }
}

/// Whether the user's checkout has the same lock files.
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
    fn a_record_of_pnpm_names_the_room_s_store() {
        for (before, after) in [
            (
                "storeDir: /home/u/.local/share/pnpm/store/v10\nx: 1\n",
                Some("storeDir: /var/cache/hothouse/pnpm/v10\nx: 1\n"),
            ),
            (
                "{\n  \"skipped\": [],\n  \"storeDir\": \"/s/v3\",\n  \"x\": 1\n}",
                Some(
                    "{\n  \"skipped\": [],\n  \"storeDir\": \"/var/cache/hothouse/pnpm/v3\",\n  \"x\": 1\n}",
                ),
            ),
            ("storeDir: /somewhere/else\n", None),
            ("layoutVersion: 5\n", None),
        ] {
            assert_eq!(with_room_store(before).as_deref(), after, "{before}");
        }
    }

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
