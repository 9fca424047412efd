//! Masks: which files of a worktree its room must not read.
//!
//! Pure: the caller, who walks the tree, passes names, owners and what the base commit tracks. The worktree's index and
//! HEAD do not count, because an agent can write both.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

use crate::{
    config::{FilePattern, Room, TreePath},
    glob,
};

/// Patterns for names of secrets below a worktree, and the folders that are not searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    mask: Vec<Pattern>,
    unmask: Vec<Pattern>,
    dependencies: FolderPatterns,
}

/// Folders that only package managers fill, whatever a config says: what looks like a secret there came with a package,
/// and a mask would prevent the package from being replaced.
const PACKAGES: [&str; 4] = ["node_modules", "bower_components", "site-packages", ".pnpm-store"];

/// Patterns of dependency folders: a name matches in any folder, a path from the top; `**` stands for any number of
/// folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderPatterns(Vec<Pattern>);

impl FolderPatterns {
    /// Reads patterns such as `node_modules`, `apps/web/vendor` and `**/node_modules`.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let whole = |text: &str| match Pattern::parse(text.trim_end_matches('/'))? {
            // Only the folder itself: callers do not look below it.
            Pattern::Plain(parts) => Some(Pattern::Path(parts)),
            other => Some(other),
        };
        Self(patterns.into_iter().filter_map(whole).collect())
    }

    /// Returns whether the folder `name` of `folder`, a path below the worktree, matches.
    pub fn fits(&self, folder: &Path, name: &OsStr) -> bool {
        self.0.iter().any(|pattern| pattern.fits(folder, name))
    }
}

/// What is known of a file that has the name of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The owner on disk.
    pub owner: u32,
    /// Whether the base commit has a file at this path.
    pub in_base: bool,
}

/// Returns whether a file with the name of a secret is hidden from the room: unless the base commit contains it anyway,
/// or the room made it. Where rooms have no uid of their own, it is unknown who made it.
pub fn is_masked(file: NamedFile, agent: Option<u32>) -> bool {
    !file.in_base && agent != Some(file.owner)
}

impl Masks {
    /// Reads the patterns of a config that apply to the worktree; those for the host are skipped.
    pub fn of(room: &Room) -> Self {
        let patterns = |list: &[FilePattern]| {
            let own = list.iter().filter_map(|pattern| Pattern::parse(pattern.as_str()));
            own.collect()
        };
        Self {
            mask: patterns(&room.mask),
            unmask: patterns(&room.unmask),
            dependencies: dependencies(&room.deps),
        }
    }

    /// Makes masks of `patterns` that apply anywhere but in the dependency folders of a config.
    pub fn named(patterns: &[&str], room: &Room) -> Self {
        Self {
            mask: patterns.iter().filter_map(|pattern| Pattern::parse(pattern)).collect(),
            unmask: Vec::new(),
            dependencies: dependencies(&room.deps),
        }
    }

    /// Returns whether a file in `folder`, a path below the worktree, has the name of a secret.
    pub fn names(&self, folder: &Path, name: &OsStr) -> bool {
        let fits = |pattern: &Pattern| pattern.fits(folder, name);
        self.mask.iter().any(fits) && !self.unmask.iter().any(fits)
    }

    /// Returns whether to look for secrets in the folder `name` of `folder`: not in git directories or dependency
    /// folders, wherever they are.
    pub fn enters(&self, folder: &Path, name: &OsStr) -> bool {
        name != ".git" && !self.dependencies.fits(folder, name)
    }
}

fn dependencies(folders: &[TreePath]) -> FolderPatterns {
    FolderPatterns::new(folders.iter().map(TreePath::as_str).chain(PACKAGES))
}

/// A file pattern with the meaning of git's `:(glob)`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// Without a slash: the name of a file in any folder.
    Name(Vec<u8>),
    /// Part by part from the top; `**` stands for any number of folders.
    Path(Vec<Vec<u8>>),
    /// Without a wildcard: a file, or everything below a folder.
    Plain(Vec<Vec<u8>>),
}

impl Pattern {
    /// Parses a pattern; `None` for one of the host's files.
    fn parse(text: &str) -> Option<Self> {
        if text.starts_with(['/', '~']) {
            return None;
        }
        if !text.contains('/') {
            return Some(Self::Name(text.as_bytes().to_vec()));
        }
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        let parts = parts.map(|part| part.as_bytes().to_vec()).collect();
        match text.contains(['*', '?', '[', '\\']) {
            true => Some(Self::Path(parts)),
            false => Some(Self::Plain(parts)),
        }
    }

    fn fits(&self, folder: &Path, name: &OsStr) -> bool {
        match self {
            Self::Name(pattern) => glob::fits(pattern, name.as_bytes()),
            Self::Path(parts) => path_glob(parts, &names_of(&folder.join(name))),
            Self::Plain(parts) => {
                let path = folder.join(name);
                names_of(&path).starts_with(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }
        }
    }
}

fn names_of(path: &Path) -> Vec<&[u8]> {
    let name = |part| match part {
        Component::Normal(name) => Some(name.as_bytes()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

fn path_glob(pattern: &[Vec<u8>], names: &[&[u8]]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part == b"**" => {
            // At the end it stands for what is inside, and must match something.
            let least = usize::from(rest.is_empty());
            (least..=names.len()).any(|skipped| path_glob(rest, &names[skipped..]))
        }
        (Some((part, rest)), Some((name, more))) => glob::fits(part, name) && path_glob(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, path: &str) -> bool {
        let path = Path::new(path);
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let mask = Pattern::parse(pattern).into_iter().collect();
        Masks { mask, ..Masks::default() }.names(folder, name)
    }

    #[test]
    fn patterns_fit_as_gits_globs_do() {
        for (pattern, path, expected) in [
            (".env", ".env", true),
            (".env", "deep/er/.env", true),
            (".env", ".envrc", false),
            (".env", ".env/lib", false),
            (".env.*", ".env.local", true),
            (".env.*", ".env.", true),
            (".env.*", ".env", false),
            ("*.p*m", "a/key.pem", true),
            ("*.p*m", "a/key.pet", false),
            ("*a*b*c", "aXbXbXc", true),
            ("key?", "key1", true),
            ("key?", "key", false),
            ("key[0-9]", "key7", true),
            ("key[!0-9]", "key7", false),
            ("key[]x]", "key]", true),
            ("key[", "key[", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("kept/.env", "kept/.env", true),
            ("kept/.env", "a/kept/.env", false),
            ("keys/prod", "keys/prod/one/two", true),
            ("keys/", "keys/one", true),
            ("keys/", "a/keys/one", false),
            ("keys/*", "keys/one", true),
            ("keys/*", "keys/one/two", false),
            ("keys/**", "keys/one/two", true),
            ("keys/**", "keys", false),
            ("**/prod/*.key", "prod/a.key", true),
            ("**/prod/*.key", "x/y/prod/a.key", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "ab", false),
            ("/etc/passwd", "etc/passwd", false),
            ("~/.env", ".env", false),
        ] {
            assert_eq!(names(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_exception_wins_and_dependencies_are_left_alone() {
        let parse = |pattern: &str| Pattern::parse(pattern).unwrap();
        let masks = Masks {
            mask: vec![parse(".env"), parse(".env.*")],
            unmask: vec![parse("kept/.env"), parse(".env.ci")],
            dependencies: FolderPatterns::new([
                "node_modules",
                "./apps/web/vendor/",
                "**/cache",
                "libs/*/third",
            ]),
        };
        let named = |folder: &str, name: &str| masks.names(Path::new(folder), OsStr::new(name));
        assert!(named("", ".env") && named("a", ".env.local"));
        assert!(!named("kept", ".env") && !named("a", ".env.ci"));
        for (folder, name, enters) in [
            ("", "src", true),
            ("", ".git", false),
            ("a", ".git", false),
            ("", "node_modules", false),
            ("a/b", "node_modules", false),
            ("apps/web", "vendor", false),
            ("apps", "vendor", true),
            ("apps/web/vendor", "sub", true),
            ("", "cache", false),
            ("a/b", "cache", false),
            ("libs/x", "third", false),
            ("libs", "third", true),
        ] {
            assert_eq!(
                masks.enters(Path::new(folder), OsStr::new(name)),
                enters,
                "{folder}/{name}"
            );
        }
    }

    #[test]
    fn folders_of_packages_are_left_alone_whatever_the_config_names() {
        let masks = Masks { dependencies: dependencies(&[]), ..Masks::default() };
        for (folder, enters) in [("node_modules", false), ("site-packages", false), ("src", true)] {
            assert_eq!(masks.enters(Path::new("a"), OsStr::new(folder)), enters, "{folder}");
        }
    }

    #[test]
    fn a_file_is_the_users_unless_the_base_has_it_or_the_room_made_it() {
        for (owner, in_base, agent, expected) in [
            (0, false, Some(301_000), true),
            (301_000, false, Some(301_000), false),
            (300_000, false, Some(301_000), true),
            (0, true, Some(301_000), false),
            (1000, false, None, true),
            (1000, true, None, false),
        ] {
            let file = NamedFile { owner, in_base };
            assert_eq!(is_masked(file, agent), expected, "{file:?} {agent:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_and_no_name_break_the_matcher(pattern in ".{0,12}", name in "[^/\0]{1,12}") {
            proptest::prop_assume!(![".", ".."].contains(&name.as_str()));
            names(&pattern, &name);
        }

        #[test]
        fn a_name_without_wildcards_fits_itself_alone(name in "[a-z.]{1,8}", other in "[a-z.]{1,8}") {
            proptest::prop_assume!(!["." , ".."].contains(&name.as_str()));
            proptest::prop_assume!(!["." , ".."].contains(&other.as_str()));
            proptest::prop_assert_eq!(names(&name, &other), name == other);
        }
    }
}
