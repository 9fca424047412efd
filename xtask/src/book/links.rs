//! Checks that links within the repository lead to existing files and headings. Pure, except for looking up files.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use hothouse_host::files;

use super::{Page, markdown};

/// Reports links that lead nowhere.
pub(super) fn check(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        for link in markdown::links(&page.text) {
            if let Some(fault) = fault(root, pages, page, &link.target) {
                found.push(format!("  {}:{}: {fault}", page.path.display(), link.line));
            }
        }
    }
    found
}

/// Returns the files, other than pages, that links and pictures lead to.
pub(super) fn files_beside(root: &Path, pages: &[Page]) -> BTreeSet<PathBuf> {
    let targets = pages.iter().flat_map(|page| {
        let links = markdown::links(&page.text).into_iter();
        links.filter(|link| is_inside(&link.target)).map(|link| resolve(&page.path, &link.target))
    });
    let is_page = |path: &PathBuf| pages.iter().any(|page| page.path == *path);
    let is_file =
        |path: &PathBuf| files::exists(&root.join(path)) && !files::is_folder(&root.join(path));
    targets.filter(|path| !is_page(path) && is_file(path)).collect()
}

fn fault(root: &Path, pages: &[Page], page: &Page, target: &str) -> Option<String> {
    if !is_inside(target) {
        return None;
    }
    let path = resolve(&page.path, target);
    if path.starts_with("..") || !files::exists(&root.join(&path)) {
        return Some(format!("`{target}` leads to no file"));
    }
    let anchor = target.split_once('#').map(|(_, anchor)| anchor)?;
    let known = pages.iter().find(|other| other.path == path)?;
    let is_there = markdown::anchors(&known.text).iter().any(|one| one == anchor);
    (!is_there).then(|| format!("`{target}`: {} has no heading `#{anchor}`", path.display()))
}

/// Returns whether a link stays within the repository.
fn is_inside(target: &str) -> bool {
    !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns the path from the root to which a link of a page leads.
pub(super) fn resolve(page: &Path, target: &str) -> PathBuf {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() {
        return page.to_owned();
    }
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir if path.file_name().is_some() && !path.ends_with("..") => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_their_page() {
        let check = |page: &str, target: &str| resolve(Path::new(page), target);
        assert_eq!(check("docs/howto/a.md", "../b.md#c"), Path::new("docs/b.md"));
        assert_eq!(check("docs/a.md", "#c"), Path::new("docs/a.md"));
        assert_eq!(check("README.md", "docs/a.md"), Path::new("docs/a.md"));
        assert!(check("README.md", "../x").starts_with(".."));
    }

    #[test]
    fn a_link_to_nothing_and_to_no_heading_is_reported() {
        let pages = [Page {
            path: "a.md".into(),
            text: "[x](no.md)\n[y](#no)\n[z](#here) [w](https://x)\n# Here\n".into(),
        }];
        let folder = tempfile::tempdir().unwrap();
        files::write(&folder.path().join("a.md"), "").unwrap();
        let found = check(folder.path(), &pages);
        assert_eq!(
            found,
            ["  a.md:1: `no.md` leads to no file", "  a.md:2: `#no`: a.md has no heading `#no`"]
        );
    }
}
