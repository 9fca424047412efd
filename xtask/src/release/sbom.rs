//! What a binary is made of: a bill of materials (CycloneDX), and the licences of its dependencies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};

use hothouse_host::{Program, files};
use serde_json::{Value, json};

/// What ends up in the binary: itself, and PID 1 of rooms, which it embeds.
const ROOTS: [&str; 2] = ["hothouse", "hothouse-room-init"];

/// The maximum length of a licence text.
const MOST: u64 = 4 << 20;

/// A crate that the binary is built from.
#[derive(Clone, Debug)]
pub(super) struct Package {
    name: String,
    version: String,
    licence: String,
    folder: PathBuf,
    /// The checksum of its archive; our own have none.
    sha256: Option<String>,
    /// Its dependencies, by reference.
    needs: BTreeSet<String>,
}

impl Package {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Asks cargo for the crates that the binary is built from, except those for tests.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let words = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo =
        Program::new("cargo").folder(root).args(words).args(["--filter-platform", &platform]);
    let told = cargo.output().map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_slice(&told).map_err(|error| error.to_string())?;
    let lock = files::read_text(&root.join("Cargo.lock")).map_err(|error| error.to_string())?;
    select(&told, &checksums(&lock))
        .ok_or_else(|| "cargo tells of packages in another way".to_owned())
}

fn select(told: &Value, checksums: &BTreeMap<String, String>) -> Option<Vec<Package>> {
    let nodes: BTreeMap<&str, &Value> = told["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let all: BTreeMap<&str, &Value> = told["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let is_root = |id: &&str| all[id]["name"].as_str().is_some_and(|name| ROOTS.contains(&name));
    let mut wanted: Vec<&str> = all.keys().copied().filter(is_root).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = wanted.pop() {
        if seen.insert(id) {
            wanted.extend(needed(nodes.get(id)?));
        }
    }
    let read = |id: &str| {
        let (package, node) = (all.get(id)?, nodes.get(id)?);
        let mut found = read(package)?;
        found.sha256 = checksums.get(&format!("{} {}", found.name, found.version)).cloned();
        found.needs = needed(node).filter_map(|id| Some(read(all.get(id)?)?.reference())).collect();
        Some(found)
    };
    let mut found: Vec<Package> = seen.into_iter().map(read).collect::<Option<_>>()?;
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Some(found)
}

/// Returns the dependencies that a package is built with, by id; those only for tests are left out.
fn needed(node: &Value) -> impl Iterator<Item = &str> {
    let is_built = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"] != "dev")
    };
    let all = node["deps"].as_array().into_iter().flatten();
    all.filter(is_built).filter_map(|dependency| dependency["pkg"].as_str())
}

fn read(package: &Value) -> Option<Package> {
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        version: package["version"].as_str()?.to_owned(),
        // Cargo also accepts the older form `MIT/Apache-2.0`, which is not valid in SPDX.
        licence: package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR "),
        folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
        sha256: None,
        needs: BTreeSet::new(),
    })
}

/// Parses the checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let of = |package: &str| {
        let value = |key: &str| {
            let mut lines = package.lines();
            let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
        };
        Some((format!("{} {}", value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").skip(1).filter_map(of).collect()
}

/// Writes the bill of materials.
pub(super) fn document(packages: &[Package], version: &str, epoch: u64) -> String {
    let component = |package: &Package| {
        let reference = package.reference();
        let mut one = json!({
            "type": "library",
            "bom-ref": reference,
            "name": package.name,
            "version": package.version,
            "purl": reference,
            "licenses": [{ "expression": package.licence }],
        });
        if let Some(sum) = &package.sha256 {
            one["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        one
    };
    let depends =
        |package: &Package| json!({ "ref": package.reference(), "dependsOn": package.needs });
    let time = i64::try_from(epoch).ok().and_then(|epoch| jiff::Timestamp::from_second(epoch).ok());
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.map(|time| time.to_string()),
            "component": { "type": "application", "bom-ref": "hothouse", "name": "hothouse", "version": version },
        },
        "components": packages.iter().map(component).collect::<Vec<_>>(),
        "dependencies": packages.iter().map(depends).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&bill).expect("a bill is plain data") + "\n"
}

/// Collects the licences of the dependencies, each text once.
pub(super) fn licences(packages: &[Package]) -> Result<String, String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::from("Crates that hothouse is built from, and their licences.\n\n");
    for package in packages.iter().filter(|package| package.sha256.is_some()) {
        let name = format!("{} {}", package.name, package.version);
        let found = licence_files(&package.folder)?;
        let note = if found.is_empty() { " (its archive has no text)" } else { "" };
        writeln!(list, "{name}: {}{note}", package.licence).expect("a string takes all text");
        for text in found {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let mut sections: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    for (names, text) in sections {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        write!(list, "\n{}\n{names}\n{}\n\n{}\n", "=".repeat(80), "-".repeat(80), text.trim_end())
            .expect("a string takes all text");
    }
    Ok(list)
}

fn licence_files(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for path in files::list(folder).map_err(|error| error.to_string())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let stems = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if stems.iter().any(|stem| name.starts_with(stem)) && !files::is_folder(&path) {
            let bytes = files::read_capped(&path, MOST).map_err(|error| error.to_string())?;
            found.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_need_is_not_in_the_binary() {
        let package = |id: &str, name: &str| json!({ "id": id, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "manifest_path": format!("/x/{name}/Cargo.toml") });
        let needs = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let told = json!({
            "packages": [package("a", "hothouse"), package("b", "used"), package("c", "for-tests"), package("d", "below")],
            "resolve": { "nodes": [
                { "id": "a", "deps": [needs("b", Value::Null), needs("c", "dev".into())] },
                { "id": "b", "deps": [needs("d", "build".into())] },
                { "id": "c", "deps": [] },
                { "id": "d", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let found = select(&told, &checksums(lock)).unwrap();
        let names: Vec<_> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["below", "hothouse", "used"]);
        assert_eq!(
            (&found[2].sha256, found[2].licence.as_str()),
            (&Some("ab".to_owned()), "MIT OR Apache-2.0")
        );
        let bill: Value = serde_json::from_str(&document(&found, "1", 0)).unwrap();
        assert_eq!(bill["dependencies"][1]["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
    }
}
