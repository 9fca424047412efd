//! Caches what `fork --setup` installed, for the next fork with the same inputs.
//!
//! An install runs whatever the commit says, so its result may reach another sandbox only if all
//! inputs are equal: the command, the lock files and manifests of the commit, and what the room was
//! given. Only the user's own commits (those on the branch that [`crate::Repository`] has checked
//! out) fill the cache: otherwise an agent's commit with equal manifests and another script could
//! plant something for everybody.

use std::{collections::BTreeSet, path::Path};

use hothouse_host::{
    FileError, RunError,
    beneath::{EntryKind, Folder},
    copy::{Content, Tree},
    files, hands,
};

use hothouse_model::{glob, masks::FolderPatterns};

use super::{
    Golden, GoldenError,
    dependencies::{LOCK_FILES, is_plain, several_of},
    find_or_build, for_agent, give_to_agent, make_tree,
};
use crate::{Repository, TreeStore, content};

/// Files besides lock files that determine the result of an install.
const MANIFESTS: [&str; 32] = [
    ".gemrc",
    ".node-version",
    ".npmrc",
    ".nvmrc",
    ".pnpmfile.cjs",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.toml",
    "Gemfile",
    "Justfile",
    "Makefile",
    "Pipfile",
    "build.rs",
    "bunfig.toml",
    "composer.json",
    "conftest.py",
    "deno.json",
    "go.mod",
    "justfile",
    "mise.toml",
    "mix.exs",
    "package.json",
    "pnpm-workspace.yaml",
    "pyproject.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "uv.toml",
];

/// What the keys of installs begin with.
const PREFIX: &str = "setup-";

/// Folders with patches that installs apply.
const PATCHES: [&str; 3] = ["patches/", ".yarn/", ".pnpm-patches/"];

/// The inputs of an install.
#[derive(Clone, Copy, Debug)]
pub struct SetupInputs<'a> {
    pub commit: &'a str,
    pub command: &'a str,
    /// The dependency folders, as named in the config.
    pub folders: &'a [String],
    /// Everything else that the room gets, such as tools.
    pub room: &'a str,
}

/// The outcome of an install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptSetup {
    Kept,
    /// It also created or changed these paths, which the next fork would lack.
    Beyond(Vec<String>),
    /// It created no dependency folder.
    Nothing,
}

/// Returns the cache key of an install with these inputs.
pub fn setup_key(repository: &Repository, inputs: &SetupInputs<'_>) -> Result<String, RunError> {
    let SetupInputs { commit, command, folders, room } = *inputs;
    let files = files_of(repository, commit)?;
    let taken: Vec<_> = files.iter().filter(|(path, _)| matters(path, command)).collect();
    let is_locked = |(path, _): &&(String, String)| LOCK_FILES.contains(&name_of(path));
    let mut text = String::new();
    // Without a lock file the result changes over time, so it is cached only for this commit.
    if !taken.iter().any(is_locked) {
        text.push_str(commit);
    }
    for (path, id) in taken {
        text.push_str(&format!("{id} {path}\n"));
    }
    let folders = folders.join("\0");
    let parts = [command, &folders, room, std::env::consts::ARCH, &text].map(str::as_bytes);
    Ok(for_agent(format!("{PREFIX}{}", content::key(&parts))))
}

/// Whether any install is cached.
pub fn has_kept_setups(store: &TreeStore) -> bool {
    let is_one = |path: &std::path::PathBuf| name_of(&path.to_string_lossy()).starts_with(PREFIX);
    files::list(&store.golden()).unwrap_or_default().iter().any(is_one)
}

/// Returns the cached result for these inputs, if any.
pub fn kept_setup(store: &TreeStore, key: &str) -> Result<Option<Golden>, GoldenError> {
    if !files::exists(&store.golden().join(key)) {
        return Ok(None);
    }
    let gone = |_: &Path, _: &hothouse_host::Lock| {
        Err(GoldenError::from(FileError {
            attempt: "find",
            path: store.golden().join(key),
            source: std::io::ErrorKind::NotFound.into(),
        }))
    };
    // If it has just been evicted, it counts as never cached.
    Ok(find_or_build(store, key.to_owned(), gone).ok())
}

/// Caches the dependency folders that an install created in a worktree, in which nothing is running
/// any more. `copied` is a file that the fork added to those of its commit.
pub fn keep_setup(
    repository: &Repository,
    store: &TreeStore,
    worktree: &Path,
    copied: Option<&str>,
    inputs: &SetupInputs<'_>,
) -> Result<KeptSetup, GoldenError> {
    let about = |source| GoldenError::Dependencies { folder: inputs.folders.join(", "), source };
    let known = files_of(repository, inputs.commit).map_err(about)?;
    let tree = Folder::open(worktree)?;
    let mut found = look(&tree, &known, inputs.folders)?;
    found.beyond.retain(|path| Some(path.as_str()) != copied);
    if !found.beyond.is_empty() {
        return Ok(KeptSetup::Beyond(found.beyond));
    }
    if found.dependencies.is_empty() {
        return Ok(KeptSetup::Nothing);
    }
    let key = setup_key(repository, inputs).map_err(about)?;
    find_or_build(store, key, |building, _| {
        let target = make_tree(building)?;
        for folder in &found.dependencies {
            let to = target.join(folder);
            files::make_folder(&to)?;
            hands::copy_tree(&worktree.join(folder), &to, Content::Reflink, Tree::Plain)?;
        }
        Ok(give_to_agent(building, None)?)
    })?;
    Ok(KeptSetup::Kept)
}

/// Whether a worktree has a dependency folder.
pub fn has_dependencies(
    repository: &Repository,
    worktree: &Path,
    commit: &str,
    folders: &[String],
) -> Result<bool, GoldenError> {
    let about = |source| GoldenError::Dependencies { folder: folders.join(", "), source };
    let known = files_of(repository, commit).map_err(about)?;
    Ok(!look(&Folder::open(worktree)?, &known, folders)?.dependencies.is_empty())
}

/// What a worktree contains in addition to its commit.
#[derive(Debug, Default)]
struct Found {
    dependencies: Vec<String>,
    beyond: Vec<String>,
}

/// Scans the folders of a commit for new entries. Does not follow links.
fn look(tree: &Folder, known: &[(String, String)], folders: &[String]) -> Result<Found, FileError> {
    const BEYOND_MOST: usize = 5;
    let files: BTreeSet<&str> = known.iter().map(|(path, _)| path.as_str()).collect();
    let above = |path: &str| -> Vec<String> {
        path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
    };
    let commits: BTreeSet<String> = known.iter().flat_map(|(path, _)| above(path)).collect();
    let is_workspace = several_of(tree);
    let wild = |asked: &String| {
        let is_wild = glob::is_wild(asked.as_bytes());
        is_wild.then(|| FolderPatterns::new([asked.as_str()]))
    };
    let patterns: Vec<_> = folders.iter().map(wild).collect();
    let mut found = Found::default();
    for folder in std::iter::once(String::new()).chain(commits.iter().cloned()) {
        let listed = Path::new(if folder.is_empty() { "." } else { &folder });
        let Ok(entries) = tree.list(listed) else { continue };
        for entry in entries {
            let name = entry.name.to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if files.contains(path.as_str()) || commits.contains(&path) || path == ".git" {
                continue;
            }
            let is_asked = folders.iter().zip(&patterns).any(|(asked, pattern)| {
                let asked = asked.trim_end_matches('/');
                let fits = |pattern: &FolderPatterns| pattern.fits(Path::new(&folder), &entry.name);
                path == asked
                    || pattern.as_ref().is_some_and(fits)
                    || is_workspace && asked == "node_modules" && name == asked
            });
            match is_asked && entry.kind == EntryKind::Folder && is_plain(Path::new(&path)) {
                true => found.dependencies.push(path),
                false if found.beyond.len() < BEYOND_MOST => found.beyond.push(path),
                false => {}
            }
        }
    }
    Ok(found)
}

/// Whether a file of a commit affects the result of an install.
fn matters(path: &str, command: &str) -> bool {
    let name = name_of(path);
    let is_listed = LOCK_FILES.contains(&name) || MANIFESTS.contains(&name);
    let is_requirements = name.starts_with("requirements") && name.ends_with(".txt");
    let is_patch = PATCHES.iter().any(|folder| path.starts_with(folder));
    let mut words = command.split(|c: char| c.is_whitespace() || ";&|()\"'".contains(c));
    let is_named = words.any(|word| word.trim_start_matches("./") == path);
    is_listed || is_requirements || is_patch || is_named
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Lists the files of a commit with their blob ids.
fn files_of(repository: &Repository, commit: &str) -> Result<Vec<(String, String)>, RunError> {
    let git = repository.git().args(["ls-tree", "-r", "-z", "--full-tree", commit]);
    let output = git.output()?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let lines = text.split('\0').filter_map(|line| line.split_once('\t'));
    let file =
        |(meta, path): (&str, &str)| Some((path.to_owned(), meta.rsplit(' ').next()?.to_owned()));
    Ok(lines.filter_map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_scripts_of_the_command_and_patches_matter() {
        let command = "./tools/install.sh && npm ci";
        for (path, expected) in [
            ("package-lock.json", true),
            ("apps/web/package.json", true),
            ("tools/install.sh", true),
            ("requirements-dev.txt", true),
            ("patches/left-pad.patch", true),
            ("src/index.js", false),
            ("tools/other.sh", false),
            ("README.md", false),
        ] {
            assert_eq!(matters(path, command), expected, "{path}");
        }
    }

    #[test]
    fn only_dependency_folders_are_kept_and_the_rest_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for made in ["node_modules/p", "src", "apps/web/node_modules/q"] {
            files::make_folder(&at(made)).unwrap();
        }
        files::replace(&at("src/a.js"), b"", 0o644).unwrap();
        let known: Vec<_> = ["src/a.js", "apps/web/package.json", "package.json"]
            .map(|path| (path.to_owned(), String::new()))
            .to_vec();
        files::replace(&at("package.json"), br#"{"workspaces":["apps/*"]}"#, 0o644).unwrap();
        let folders = ["node_modules".to_owned()];
        let look = || look(&Folder::open(folder.path()).unwrap(), &known, &folders).unwrap();
        assert_eq!(look().dependencies, ["node_modules", "apps/web/node_modules"]);
        assert!(look().beyond.is_empty());
        files::make_folder(&at("apps/web/vendor-x")).unwrap();
        let asked = ["**/node_modules".to_owned(), "apps/*/vendor-*".to_owned()];
        let wild = super::look(&Folder::open(folder.path()).unwrap(), &known, &asked).unwrap();
        assert_eq!(
            wild.dependencies,
            ["node_modules", "apps/web/node_modules", "apps/web/vendor-x"]
        );
        files::remove_empty_folder(&at("apps/web/vendor-x")).unwrap();
        files::replace(&at("src/generated.js"), b"", 0o644).unwrap();
        files::symlink(Path::new("/etc"), &at(".venv")).unwrap();
        assert_eq!(look().beyond, [".venv", "src/generated.js"]);
    }
}
