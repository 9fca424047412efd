//! Source maps in a worktree, found by the names of their scripts. An agent can write them: read
//! beneath the worktree, with limits, without following links.

use std::path::{Path, PathBuf};

use hothouse_host::beneath::{EntryKind, Folder};
use hothouse_model::SandboxRecord;
use hothouse_workspace::Repository;

use crate::{Engine, trees};

/// The maximum size of a map.
const MAP_MOST: u64 = 16 << 20;

/// The maximum number of names, and the maximum depth.
const NAMES_MOST: usize = 50_000;
const DEPTH: usize = 8;

/// Folders without bundles of the project.
const SKIPPED: [&str; 4] = ["node_modules", ".git", "vendor", "target"];

impl Engine {
    /// Whether a sandbox has neither commits nor changes of its own.
    pub fn is_as_base(&self, sandbox: &SandboxRecord) -> bool {
        let now = self.sandbox(sandbox.key).ok().flatten();
        let Some(now) = now.filter(|now| now.known_tip() == now.base_commit) else { return false };
        let repository = Repository { place: now.repository.clone() };
        repository.dirt(&now.worktree).is_ok_and(|dirt| dirt.is_clean())
    }

    /// Returns the map of a script that a page loaded from a path, such as `/assets/app.js`: of
    /// several with this name, the one whose folders match best.
    pub fn source_map(&self, sandbox: &SandboxRecord, path: &str) -> Option<Vec<u8>> {
        self.built_file(sandbox, path, ".map")
    }

    /// Returns such a script itself, which may contain its map.
    pub fn script(&self, sandbox: &SandboxRecord, path: &str) -> Option<Vec<u8>> {
        self.built_file(sandbox, path, "")
    }

    fn built_file(&self, sandbox: &SandboxRecord, path: &str, ending: &str) -> Option<Vec<u8>> {
        let worktree = trees::open_worktree(sandbox).ok()?;
        let name = format!("{}{ending}", path.rsplit('/').next().filter(|name| !name.is_empty())?);
        let (mut left, mut found) = (NAMES_MOST, Vec::new());
        walk(&worktree, Path::new(""), &name, DEPTH, &mut left, &mut found);
        let best = found.into_iter().max_by_key(|file| fit(file, path))?;
        worktree.read_capped(&best, MAP_MOST).ok()
    }
}

/// Counts how many parent folders match.
fn fit(file: &Path, path: &str) -> usize {
    let own = file.parent().into_iter().flat_map(Path::iter).rev().filter_map(|part| part.to_str());
    let asked = path.rsplit('/').skip(1);
    own.zip(asked).take_while(|(own, asked)| own == asked).count()
}

fn walk(
    held: &Folder,
    below: &Path,
    name: &str,
    depth: usize,
    left: &mut usize,
    found: &mut Vec<PathBuf>,
) {
    let here = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    for entry in held.list(here).unwrap_or_default() {
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return,
        }
        let own = below.join(&entry.name);
        let is_skipped = SKIPPED.iter().any(|skipped| entry.name == *skipped);
        match entry.kind {
            EntryKind::Folder if depth > 0 && !is_skipped => {
                walk(held, &own, name, depth - 1, left, found);
            }
            EntryKind::File if entry.name == name => found.push(own),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_tell_which_of_several_is_meant() {
        let fits = |file: &str| fit(Path::new(file), "/static/js/app.js");
        assert!(fits("web/static/js/app.js.map") > fits("admin/js/app.js.map"));
        assert_eq!(fits("app.js.map"), 0);
    }
}
