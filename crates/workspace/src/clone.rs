//! Repositories given by URL: cloned once, then only fetched.
//!
//! ```text
//! <repositories>/NAME-HASH/NAME.git      a bare clone; its remote's branches are `origin/*`
//! <repositories>/NAME-HASH/making.git    a clone in progress, or an interrupted one
//! ```
//!
//! It is not a cache: branches of sandboxes are created in it, and it holds their work until it is
//! promoted.

use std::{
    io,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, Lock, Program, RunError, files};
use hothouse_model::{FailureKind, id::fnv1a, sandbox::RepositoryPlace};

use crate::{Repository, content, git};

/// The remote of a clone.
const REMOTE: &str = "origin";
const REMOTE_URL: &str = "remote.origin.url";

/// Failure to clone or fetch a repository.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("`{url}` is not the URL of a repository")]
    Address { url: String },
    #[error("clone {url}")]
    Clone {
        url: String,
        #[source]
        source: RunError,
    },
    #[error("{url} has no branch to start from")]
    Empty { url: String },
    #[error(transparent)]
    File(#[from] FileError),
}

hothouse_model::explain! {
    CloneError passes on File;
    kind {
        Self::Address { .. } => FailureKind::Usage,
        Self::Empty { .. } => FailureKind::NotFound,
        Self::Clone { .. } => FailureKind::Host,
    }
    hints {
        Self::Address { .. } => {
            vec![
                "write it as for `git clone`: https://…, ssh://…, user@host:path or a folder"
                    .into(),
            ]
        }
        Self::Clone { url, .. } => vec![format!("`git ls-remote {url}` shows more")],
        Self::Empty { .. } => vec!["push a first commit to it".into()],
    }
}

/// A clone, and whether it is up to date.
#[derive(Debug)]
pub struct Cloned {
    pub repository: Repository,
    /// Why fetching failed, if it did. The existing state is used then.
    pub stale: Option<RunError>,
}

/// Returns the clone of a repository below `store`, cloning it if necessary.
///
/// `environment` contains what the user's git needs to reach other machines.
pub fn clone_of(
    store: &Path,
    url: &str,
    environment: &[(String, String)],
) -> Result<Cloned, CloneError> {
    let name = name_of(url).ok_or_else(|| CloneError::Address { url: shown(url) })?;
    let around = place_of(store, &name, url);
    files::make_private_folder(&around)?;
    let _lock = Lock::take(&around.join("clone.lock"))?;
    let folder = around.join(format!("{name}.git"));
    let about = |source| CloneError::Clone { url: shown(url), source };
    let mut stale = None;
    if files::exists(&folder) {
        stale = fetch(&folder, environment).err();
    } else {
        let making = around.join("making.git");
        files::remove_tree(&making)?;
        make(&making, url, environment).map_err(about)?;
        files::rename(&making, &folder)?;
    }
    let repository =
        Repository { place: RepositoryPlace { common_dir: folder.clone(), root: folder } };
    Ok(Cloned { repository, stale })
}

/// Returns the folder for the clone of a URL. Earlier releases named it after a hash that other
/// URLs may share, so an existing folder counts only if it is a clone of this URL.
fn place_of(store: &Path, name: &str, url: &str) -> PathBuf {
    let former = store.join(format!("{name}-{:08x}", fnv1a(&[url.as_bytes()]) & 0xffff_ffff));
    let folder = former.join(format!("{name}.git"));
    let address = || git::maybe_line(git::of(&folder).args(["config", "--get", REMOTE_URL]));
    match files::exists(&folder) && address().is_ok_and(|found| found.as_deref() == Some(url)) {
        true => former,
        false => store.join(format!("{name}-{}", content::key(&[url.as_bytes()]))),
    }
}

impl Repository {
    /// Returns the default branch of a clone's remote, such as `origin/main`.
    pub fn remote_head(&self) -> Result<Option<String>, RunError> {
        let name = format!("refs/remotes/{REMOTE}/HEAD");
        git::maybe_line(self.git().args(["symbolic-ref", "--quiet", "--short", &name]))
    }

    /// Returns a branch of a clone's remote, if it exists.
    pub fn remote_branch(&self, branch: &str) -> Result<Option<String>, RunError> {
        let name = format!("{REMOTE}/{branch}");
        let found = self.commit(&format!("refs/remotes/{name}"))?;
        Ok(found.map(|_| name))
    }
}

fn make(folder: &Path, url: &str, environment: &[(String, String)]) -> Result<(), RunError> {
    git::around(Path::new("/")).args(["init", "--quiet", "--bare", "--"]).arg(folder).output()?;
    let set = |key: &str, value: &str| git::of(folder).args(["config", key, value]).output();
    set(REMOTE_URL, url)?;
    set("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")?;
    fetch(folder, environment)
}

fn fetch(folder: &Path, environment: &[(String, String)]) -> Result<(), RunError> {
    let reach = || {
        let git = git::outward(folder);
        environment.iter().fold(git, |git: Program, (name, value)| git.env(name, value))
    };
    reach().args(["fetch", "--quiet", "--prune", "--tags", REMOTE]).output()?;
    // A remote without branches has no HEAD.
    reach().args(["remote", "set-head", REMOTE, "--auto"]).run().map(drop)
}

/// Returns the name for the clone of a URL; `None` if the URL is invalid or would run a program.
fn name_of(url: &str) -> Option<String> {
    let runs_something =
        url.split_once("::").is_some_and(|(helper, _)| !helper.contains(['/', ':']));
    if url.is_empty() || url.starts_with('-') || runs_something || url.contains(char::is_control) {
        return None;
    }
    let last = url.trim_end_matches('/').trim_end_matches(".git").rsplit(['/', ':']).next()?;
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(64)
        .collect();
    let name = name.trim_start_matches(['.', '-']).to_owned();
    (!name.is_empty()).then_some(name)
}

/// Returns a URL without credentials.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.find('@')) {
        (Some((scheme, rest)), Some(_)) => {
            let host = rest.split_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        _ => url.to_owned(),
    }
}

/// Returns a URL that works from any folder, by making a local path absolute.
pub fn absolute_address(url: &str, folder: &Path) -> io::Result<String> {
    let looks_local = !url.contains("://") && !url.contains(':');
    if !looks_local {
        return Ok(url.to_owned());
    }
    let path: PathBuf = folder.join(url);
    let found = files::canonical(&path).map_err(|error| error.source)?;
    Ok(found.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_called_as_its_address_ends() {
        for (url, name) in [
            ("https://example.com/acme/shop.git", Some("shop")),
            ("git@example.com:acme/shop", Some("shop")),
            ("/srv/git/shop.git/", Some("shop")),
            ("ssh://example.com/~me/a b", Some("a-b")),
            ("ext::sh -c touch% /x", None),
            ("fd::17", None),
            ("--upload-pack=x", None),
            ("", None),
            ("https://example.com/..", None),
        ] {
            assert_eq!(name_of(url).as_deref(), name, "{url}");
        }
    }

    #[test]
    fn a_clone_of_an_earlier_release_is_found_again_if_it_is_of_the_same_address() {
        let store = tempfile::tempdir().unwrap();
        let url = "https://example.com/shop.git";
        let hash = fnv1a(&[url.as_bytes()]) & 0xffff_ffff;
        let former = store.path().join(format!("shop-{hash:08x}"));
        let now = place_of(store.path(), "shop", url);
        assert_ne!(now, former);
        let folder = former.join("shop.git");
        let init = git::around(Path::new("/")).args(["init", "--quiet", "--bare", "--"]);
        init.arg(&folder).output().unwrap();
        for (address, place) in [("https://example.org/shop.git", &now), (url, &former)] {
            git::of(&folder).args(["config", REMOTE_URL, address]).output().unwrap();
            assert_eq!(place_of(store.path(), "shop", url), *place, "{address}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        assert_eq!(shown("https://user:secret@example.com/x"), "https://example.com/x");
        assert_eq!(shown("git@example.com:x"), "git@example.com:x");
    }
}
