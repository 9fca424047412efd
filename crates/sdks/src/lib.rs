//! Finds the SDKs that a project uses, and what is known of their vendors: hosts, variables, the proposed class.
//!
//! - [`table`]: the vendors, from `table.toml`
//! - [`lockfile`]: packages in lockfiles and manifests
//!
//! Pure: files come in as bytes. An agent may write them, so they are read in a single pass, and only packages in the
//! table are kept.

pub mod lockfile;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};

pub use lockfile::FileKind;
pub use table::{Vendor, vendor, vendor_of_host, vendors};

/// An SDK that a project uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sdk {
    /// As in the table, such as `npm:stripe`.
    pub package: String,
    /// From the lockfile; manifests have ranges, so there is none.
    pub version: Option<String>,
    /// The file that names it.
    pub file: String,
}

/// A file of the project.
#[derive(Clone, Copy, Debug)]
pub struct ProjectFile<'a> {
    /// The path below the worktree.
    pub path: &'a str,
    pub bytes: &'a [u8],
}

/// Finds the SDKs of known vendors, by vendor. A manifest counts where its folder has no lockfile for it.
pub fn find(files: &[ProjectFile<'_>]) -> BTreeMap<&'static str, Vec<Sdk>> {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let kinds = || files.iter().filter_map(|file| Some((file, FileKind::of(file.path)?)));
    let locked: BTreeSet<_> = kinds()
        .filter(|(_, kind)| !kind.is_manifest())
        .map(|(file, kind)| (folder(file.path), kind.ecosystem()))
        .collect();
    // The lockfile of a workspace is at its root.
    let is_locked = |path: &str, ecosystem: &'static str| {
        let mut above = folder(path);
        loop {
            if locked.contains(&(above.clone(), ecosystem)) {
                return true;
            }
            if above.is_empty() {
                return false;
            }
            above = folder(&above);
        }
    };
    let mut found: BTreeMap<&'static str, Vec<Sdk>> = BTreeMap::new();
    for (file, kind) in kinds() {
        if kind.is_manifest() && is_locked(file.path, kind.ecosystem()) {
            continue;
        }
        lockfile::read(kind, file.bytes, &mut |name, version| {
            let Some((vendor, package)) = table::vendor_of_package(kind.ecosystem(), name) else {
                return;
            };
            let all = found.entry(vendor.name.as_str()).or_default();
            if !all.iter().any(|known| known.package == package) {
                let version = version.filter(|text| !text.is_empty() && text.len() < 100);
                let (version, file) = (version.map(str::to_owned), file.path.to_owned());
                all.push(Sdk { package: package.to_owned(), version, file });
            }
        });
    }
    found.values_mut().for_each(|all| all.sort());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ProjectFile { path, bytes: text.as_bytes() }).collect();
        let found = find(&files);
        let one = |(vendor, sdk): (&&str, &Sdk)| {
            format!("{vendor} {} {}", sdk.package, sdk.version.as_deref().unwrap_or("-"))
        };
        found
            .iter()
            .flat_map(|(vendor, all)| all.iter().map(move |sdk| (vendor, sdk)))
            .map(one)
            .collect()
    }

    #[test]
    fn a_manifest_counts_where_there_is_no_lockfile() {
        let manifest = ("package.json", r#"{"dependencies":{"openai":"^4"}}"#);
        assert_eq!(names(&[manifest]), ["openai npm:openai -"]);
        let lock =
            ("package-lock.json", r#"{"packages":{"node_modules/stripe":{"version":"1.2.3"}}}"#);
        assert_eq!(names(&[manifest, lock]), ["stripe npm:stripe 1.2.3"]);
        let inner = ("apps/api/package.json", manifest.1);
        assert_eq!(names(&[inner, lock]), ["stripe npm:stripe 1.2.3"], "the workspace's lockfile");
        assert_eq!(names(&[inner, ("Cargo.lock", "")]), ["openai npm:openai -"]);
    }
}
