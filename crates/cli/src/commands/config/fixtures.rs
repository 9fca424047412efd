//! Checks the fixtures beside a config.

use std::path::{Path, PathBuf};

use hothouse_host::beneath::{EntryKind, Folder};
use hothouse_mock::{FixtureFile, Integration, Mock, MockSpec};
use hothouse_model::config::{self, Config, IntegrationClass, Problem};

/// The limits: bytes of one file, number of names, depth of folders.
const FILE_MOST: u64 = 16 << 20;
const NAMES_MOST: usize = 4_000;
const DEPTH: usize = 8;

/// Returns the problems of the fixtures of mocked integrations.
pub(super) fn problems(config_file: &Path, config: &Config) -> Vec<Problem> {
    let Some(project) = config_file.parent().and_then(|folder| Folder::open(folder).ok()) else {
        return Vec::new();
    };
    let mocked = config.integrations.iter().filter(|(_, one)| one.class == IntegrationClass::Mock);
    let (mut integrations, mut files) = (Vec::new(), Vec::new());
    for (name, one) in mocked {
        files.extend(read(&project, name.as_str(), one));
        integrations.push(Integration {
            name: name.to_string(),
            hosts: one.hosts.iter().map(ToString::to_string).collect(),
            vendor: one.vendor.map(|vendor| vendor.as_str().to_owned()),
        });
    }
    Mock::load(MockSpec { integrations, files, ..MockSpec::default() }).1
}

/// Reads the files below an integration's folder. Does not follow links.
fn read(project: &Folder, name: &str, one: &config::Integration) -> Vec<FixtureFile> {
    let usual = || Path::new("hothouse/fixtures").join(name);
    let folder = one.fixtures.as_ref().map_or_else(usual, |path| path.as_str().into());
    let (mut found, mut left) = (Vec::new(), NAMES_MOST);
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        for entry in project.list(&folder.join(&below)).unwrap_or_default() {
            let path = below.join(&entry.name);
            match left.checked_sub(1) {
                Some(less) => left = less,
                None => return found,
            }
            match entry.kind {
                EntryKind::Folder if depth < DEPTH => open.push((path, depth + 1)),
                EntryKind::File => {
                    let bytes = project.read_capped(&folder.join(&path), FILE_MOST);
                    if let (Ok(bytes), Some(file)) = (bytes, path.to_str()) {
                        let (integration, name) = (name.to_owned(), file.to_owned());
                        found.push(FixtureFile { integration, name, bytes });
                    }
                }
                _ => {}
            }
        }
    }
    found
}
