//! The files of a release, by their paths below its prefix.

use std::path::{Path, PathBuf};

use hothouse_host::{Program, files};

use super::{Order, sbom, text};

/// The maximum size of a file of a release.
const MOST: u64 = 1 << 30;

/// The path of the bill of materials.
pub(super) const SBOM: &str = "share/doc/hothouse/sbom.cdx.json";

/// Included documents, and their names in the release.
const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("SECURITY.md", "SECURITY.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("docs/upgrade.md", "UPGRADE.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];

/// A file of a release.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl Part {
    pub(super) fn new(path: &str, bytes: &[u8], mode: u32) -> Self {
        Self { path: path.into(), bytes: bytes.to_vec(), mode }
    }
}

/// Collects the binary, the files that it generates about itself, documents and licences.
pub(super) fn collect(order: &Order<'_>) -> Result<Vec<Part>, String> {
    let told = |error: files::FileError| error.to_string();
    let binary = files::read_capped(order.binary, MOST).map_err(told)?;
    let mut parts = vec![Part::new("bin/hothouse", &binary, 0o755)];
    parts.extend(completions(order.binary)?);
    parts.extend(manual(order)?);
    for (from, name) in DOCUMENTS {
        let bytes = files::read_capped(&order.root.join(from), MOST).map_err(told)?;
        parts.push(Part::new(&format!("share/doc/hothouse/{name}"), &bytes, 0o644));
    }
    let packages = sbom::packages(order.root)?;
    let bill = sbom::document(&packages, &order.version, order.epoch);
    parts.push(Part::new(SBOM, bill.as_bytes(), 0o644));
    let licences = sbom::licences(&packages)?;
    parts.push(Part::new(
        "share/doc/hothouse/LICENSES-OF-DEPENDENCIES.txt",
        licences.as_bytes(),
        0o644,
    ));
    parts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(parts)
}

/// Returns the part at a path.
pub(super) fn find<'a>(parts: &'a [Part], path: &str) -> Result<&'a Part, String> {
    let found = parts.iter().find(|part| part.path == Path::new(path));
    found.ok_or_else(|| format!("the release has no {path}"))
}

fn completions(binary: &Path) -> Result<Vec<Part>, String> {
    let places = [
        ("bash", "share/bash-completion/completions/hothouse"),
        ("zsh", "share/zsh/site-functions/_hothouse"),
        ("fish", "share/fish/vendor_completions.d/hothouse.fish"),
    ];
    let one = |(shell, path): (&str, &str)| {
        let script = text(Program::new(binary).args(["completions", shell]))? + "\n";
        Ok(Part::new(path, script.as_bytes(), 0o644))
    };
    places.into_iter().map(one).collect()
}

fn manual(order: &Order<'_>) -> Result<Vec<Part>, String> {
    let folder = order.out.join(".man");
    let told = |error: files::FileError| error.to_string();
    files::remove_tree(&folder).map_err(told)?;
    text(Program::new(order.binary).args(["man", "--folder"]).arg(&folder))?;
    let mut parts = Vec::new();
    for page in files::list(&folder).map_err(told)? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = files::read_capped(&page, MOST).map_err(told)?;
        parts.push(Part::new(&format!("share/man/man1/{name}"), &bytes, 0o644));
    }
    files::remove_tree(&folder).map_err(told)?;
    Ok(parts)
}
