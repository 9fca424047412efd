//! Reads simple facts about the user's own repository without git, because each git process costs
//! milliseconds.
//!
//! Handles only the simplest case: a checkout with a `.git` folder, both owned by us, with branches
//! in files. For anything else the result is unknown and git is asked: a linked worktree, a bare
//! repository, another owner, links, other ref formats, and whatever git may add.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use hothouse_host::{files, owners::Owner};

use crate::{git::Config, refs::is_id};

/// The maximum size of `HEAD` or a branch file.
const REF_LIMIT: u64 = 4096;
/// The maximum size of packed refs that are read here. For larger ones git is asked.
const PACKED_LIMIT: u64 = 4 << 20;

/// Extensions of the repository format that do not affect what is read or written here.
const HARMLESS: [&str; 4] = ["noop", "objectformat", "partialclone", "preciousobjects"];

/// The checked-out commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub commit: String,
    /// The branch, unless `HEAD` is detached.
    pub branch: Option<String>,
}

/// The tip of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tip {
    At(String),
    Absent,
    /// Only git can answer.
    Unknown,
}

/// Returns the top folder of the plain checkout around a folder. Its git directory is `.git` in it.
pub(crate) fn checkout_around(folder: &Path) -> Option<PathBuf> {
    let start = files::canonical(folder).ok()?;
    let device = files::device(&start).ok()?;
    for place in start.ancestors() {
        // Git does not search beyond the file system on which it started.
        if files::device(place).ok()? != device {
            return None;
        }
        let git_dir = place.join(".git");
        if files::exists(&git_dir) {
            return is_plain_checkout(place, &git_dir).then(|| place.to_owned());
        }
        if files::exists(&place.join("HEAD")) && files::exists(&place.join("objects")) {
            return None;
        }
    }
    None
}

fn is_plain_checkout(place: &Path, git_dir: &Path) -> bool {
    let is_ours = |path: &Path| Owner::at(path).is_ok_and(|owner| owner.user == Owner::us().user);
    let folders = [git_dir.to_owned(), git_dir.join("objects"), git_dir.join("refs")];
    folders.iter().all(|path| files::is_folder(path))
        && !files::exists(&git_dir.join("commondir"))
        && is_ours(place)
        && is_ours(git_dir)
        && Config::of(git_dir).is_ok_and(|config| {
            !config.is_on("core.bare") && config.value("core.worktree").is_empty()
        })
        && keeps_refs_in_files(git_dir)
}

/// Whether this module fully supports the format of a repository.
pub(crate) fn keeps_refs_in_files(common_dir: &Path) -> bool {
    let Ok(config) = Config::of(common_dir) else { return false };
    let version = config.value("core.repositoryformatversion");
    let storage = config.value("extensions.refstorage");
    let known = |name: &str| match name {
        "refstorage" => storage == "files",
        // Git copies the main worktree's config to new worktrees.
        "worktreeconfig" => {
            !config.is_on("extensions.worktreeconfig")
                || !files::exists(&common_dir.join("config.worktree"))
        }
        "relativeworktrees" => !config.is_on("extensions.relativeworktrees"),
        other => HARMLESS.contains(&other),
    };
    // Without a version, git did not recognize a repository and read only the user's config.
    ["0", "1"].contains(&version) && config.section("extensions").all(known)
}

/// Returns the HEAD of a plain checkout, or `None` if git must be asked.
pub(crate) fn head(git_dir: &Path) -> Option<Head> {
    let file = git_dir.join("HEAD");
    if files::is_link(&file) {
        return None;
    }
    let bytes = files::read_capped(&file, REF_LIMIT).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?;
    if is_id(text) {
        return Some(Head { commit: text.to_owned(), branch: None });
    }
    let branch = text.strip_prefix("ref: refs/heads/")?;
    match tip(git_dir, branch) {
        Tip::At(commit) => Some(Head { commit, branch: Some(branch.to_owned()) }),
        Tip::Absent | Tip::Unknown => None,
    }
}

/// Returns the tip of a branch. Reads loose refs before packed ones, like git, so that a ref packed
/// in the meantime is found.
pub(crate) fn tip(common_dir: &Path, branch: &str) -> Tip {
    if !keeps_refs_in_files(common_dir) {
        return Tip::Unknown;
    }
    let loose = common_dir.join("refs/heads").join(branch);
    match files::read_capped(&loose, REF_LIMIT) {
        Ok(bytes) => {
            let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
            return text.filter(|text| is_id(text)).map_or(Tip::Unknown, |tip| Tip::At(tip.into()));
        }
        Err(error)
            if matches!(error.source.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
        Err(_) => return Tip::Unknown,
    }
    match packed(common_dir) {
        Some(packed) => match packed.tip(branch) {
            Some(tip) if is_id(tip) => Tip::At(tip.to_owned()),
            Some(_) => Tip::Unknown,
            None => Tip::Absent,
        },
        None => Tip::Unknown,
    }
}

/// The packed branches of a repository.
pub(crate) struct Packed(String);

/// Reads the packed branches, unless the file is too large.
pub(crate) fn packed(common_dir: &Path) -> Option<Packed> {
    match files::read_capped(&common_dir.join("packed-refs"), PACKED_LIMIT) {
        Ok(bytes) => String::from_utf8(bytes).ok().map(Packed),
        Err(error) if error.is_not_found() => Some(Packed(String::new())),
        Err(_) => None,
    }
}

impl Packed {
    /// Returns the tip of a branch.
    pub(crate) fn tip(&self, branch: &str) -> Option<&str> {
        self.branches().find(|(_, name)| *name == branch).map(|(tip, _)| tip)
    }

    /// Whether a branch conflicts with an existing one: one name is a folder in the other.
    pub(crate) fn collides(&self, branch: &str) -> bool {
        let below = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
        };
        self.branches().any(|(_, name)| below(name, branch) || below(branch, name))
    }

    fn branches(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once(" refs/heads/"))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files by plain means")]
mod tests {
    use super::*;
    use crate::git;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = files::canonical(folder.path()).unwrap();
        git::around(&root).args(["init", "--quiet", "--initial-branch=main"]).output().unwrap();
        (folder, root)
    }

    #[test]
    fn a_plain_checkout_is_found_from_below() {
        let (_keeper, root) = repository();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        assert_eq!(checkout_around(&root.join("a/b")), Some(root.clone()));
        assert_eq!(checkout_around(&root.join(".git/hooks")), None, "the inside of a git folder");
        std::fs::create_dir_all(root.join("a/.git")).unwrap();
        assert_eq!(checkout_around(&root.join("a/b")), None, "something that is no repository");
    }

    #[test]
    fn what_is_not_plain_is_left_to_git() {
        let settings = [
            ("core.bare", "true"),
            ("core.worktree", "/elsewhere"),
            ("extensions.refStorage", "reftable"),
            ("extensions.relativeWorktrees", "true"),
            ("extensions.something", "new"),
            ("core.repositoryFormatVersion", "2"),
        ];
        for (key, value) in settings {
            let (_keeper, root) = repository();
            assert!(checkout_around(&root).is_some());
            git::around(&root).args(["config", "--local", key, value]).run().unwrap();
            assert_eq!(checkout_around(&root), None, "{key}");
        }
        let (_keeper, root) = repository();
        let on = ["config", "--local", "extensions.worktreeConfig", "true"];
        git::around(&root).args(on).run().unwrap();
        assert!(checkout_around(&root).is_some(), "without a config of its own it is plain");
        std::fs::write(root.join(".git/config.worktree"), "[core]\n\tbare = false\n").unwrap();
        assert_eq!(checkout_around(&root), None, "with one it is not");
        let (_keeper, root) = repository();
        std::fs::rename(root.join(".git"), root.join("moved")).unwrap();
        std::os::unix::fs::symlink("moved", root.join(".git")).unwrap();
        assert_eq!(checkout_around(&root), None, "a link");
    }

    #[test]
    fn tips_are_read_loose_then_packed() {
        let (_keeper, root) = repository();
        let git_dir = root.join(".git");
        let heads = git_dir.join("refs/heads");
        assert_eq!(tip(&git_dir, "main"), Tip::Absent);
        assert_eq!(head(&git_dir), None, "unborn: git says so");
        let other = ID.replace('0', "f");
        let text = format!("# pack-refs\n{ID} refs/heads/main\n{ID} refs/heads/x/y\n");
        std::fs::write(git_dir.join("packed-refs"), text).unwrap();
        assert_eq!(tip(&git_dir, "main"), Tip::At(ID.into()));
        std::fs::write(heads.join("main"), format!("{other}\n")).unwrap();
        assert_eq!(tip(&git_dir, "main"), Tip::At(other.clone()));
        assert_eq!(head(&git_dir), Some(Head { commit: other, branch: Some("main".into()) }));
        std::fs::write(heads.join("main"), "ref: refs/heads/x\n").unwrap();
        assert_eq!(tip(&git_dir, "main"), Tip::Unknown, "symbolic");
        assert_eq!(tip(&git_dir, "main/x"), Tip::Unknown, "a file is no folder");
        let packed = packed(&git_dir).unwrap();
        assert!(packed.collides("x") && packed.collides("main/z") && !packed.collides("x/z"));
        std::fs::write(git_dir.join("HEAD"), format!("{ID}\n")).unwrap();
        assert_eq!(head(&git_dir), Some(Head { commit: ID.into(), branch: None }));
    }
}
