//! The crates of this workspace as cargo knows them: their dependencies, and those that are not used.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};

use hothouse_host::{Program, files};
use serde_json::Value;

use crate::borders;

/// Dependencies that no source names, and why they stay.
const UNNAMED: [(&str, &str, &str); 1] =
    [("hothouse-model", "idna_adapter", "chooses the tables of `idna`; see Cargo.toml")];

/// Dependencies that a crate must not have, and why; the rest of the borders are in `deny.toml`.
const ABSENT: [(&str, &str, &str); 5] = [
    ("hothouse-api", "hothouse-host", "it opens no sockets"),
    ("hothouse-browser", "hothouse-host", "streams come in"),
    ("hothouse-engine", "tokio", "it awaits nothing"),
    ("hothouse-images", "tokio", "it awaits nothing"),
    ("hothouse-room-init", "tokio", "PID 1 has its own loop"),
];

/// Crates that depend only on one other: they are linked into room-init, which is small and static.
const ALONE: [(&str, &str); 2] =
    [("hothouse-service", "serde"), ("hothouse-supervise", "hothouse-service")];

/// A crate of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    /// As sources name it, except for hyphens.
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Build,
    Dev,
}

/// Which of our crates each of our crates depends on.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks that sources name every dependency of their crate.
pub(crate) fn check_dependencies() -> Result<(), String> {
    let packages = packages()?;
    let mut unused = offered_to_nobody(&packages)?;
    unused.extend(present(&packages));
    unused.extend(beside(&packages));
    unused.extend(crossed(&packages, &bans()?));
    for package in packages {
        let own = text_of(&package.folder, &["src", "build.rs"])?;
        let all = text_of(&package.folder, &["src", "build.rs", "tests", "benches", "examples"])?;
        for Dependency { name, kind } in &package.dependencies {
            let source = if *kind == Kind::Dev { &all } else { &own };
            let is_kept = UNNAMED.iter().any(|(by, of, _)| *by == package.name && of == name);
            if names(source, &name.replace('-', "_")) == is_kept {
                unused.push(match is_kept {
                    true => format!("{} names {name}, so it needs no exception", package.name),
                    false => format!("{} does not use {name}", package.name),
                });
            }
        }
    }
    match unused.is_empty() {
        true => Ok(()),
        false => Err(unused.join("; ")),
    }
}

/// Returns the crates that have a forbidden dependency.
fn present(packages: &[Package]) -> Vec<String> {
    let has = |(of, absent, _): &&(&str, &str, &str)| {
        let package = packages.iter().find(|package| package.name == *of);
        let mut all = package.into_iter().flat_map(|package| &package.dependencies);
        all.any(|one| one.kind != Kind::Dev && one.name == *absent)
    };
    let crossed = ABSENT.iter().filter(has);
    crossed.map(|(of, absent, why)| format!("{of} must not depend on {absent}: {why}")).collect()
}

/// Returns the crates that depend on more than the one that they may depend on.
fn beside(packages: &[Package]) -> Vec<String> {
    let more = |(of, alone): &(&str, &str)| {
        let package = packages.iter().find(|package| package.name == *of);
        let all = package.into_iter().flat_map(|package| &package.dependencies);
        let more = all.filter(|one| one.kind != Kind::Dev && one.name != *alone);
        more.map(|one| format!("{of} depends on {alone} alone, not on {}", one.name))
            .collect::<Vec<_>>()
    };
    ALONE.iter().flat_map(more).collect()
}

/// A crate, and the only ones that may depend on it.
type Ban = (String, Vec<String>);

/// Reads the borders in `deny.toml`. cargo-deny checks them too, but is not on every machine.
fn bans() -> Result<Vec<Ban>, String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let text = files::read_text(&manifest).map_err(|error| error.to_string())?;
    let bans = read_bans(&text);
    if bans.is_empty() { Err("deny.toml has no `wrappers`".to_owned()) } else { Ok(bans) }
}

fn read_bans(text: &str) -> Vec<Ban> {
    let ban = |line: &str| {
        let (of, wrappers) =
            line.trim().strip_prefix("{ crate = \"")?.split_once("\", wrappers = [")?;
        let names = wrappers.split('"').skip(1).step_by(2);
        Some((of.to_owned(), names.map(str::to_owned).collect()))
    };
    text.lines().filter_map(ban).collect()
}

/// Returns the crates of ours that depend on one reserved for others.
fn crossed(packages: &[Package], bans: &[Ban]) -> Vec<String> {
    let depend = |(of, wrappers): &Ban| {
        let others = packages.iter().filter(|package| !wrappers.contains(&package.name));
        let has = |package: &&Package| {
            package.dependencies.iter().any(|one| one.kind != Kind::Dev && one.name == *of)
        };
        let names = others.filter(has).map(|package| &package.name);
        names.map(|name| format!("{name} must not depend on {of}: deny.toml")).collect::<Vec<_>>()
    };
    bans.iter().flat_map(depend).collect()
}

/// Returns the dependencies of the workspace that no member uses.
fn offered_to_nobody(packages: &[Package]) -> Result<Vec<String>, String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let text = files::read_text(&manifest).map_err(|error| error.to_string())?;
    let taken: BTreeSet<_> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|one| one.name.as_str())
        .collect();
    let spare = offered(&text).into_iter().filter(|name| !taken.contains(name));
    Ok(spare.map(|name| format!("the workspace has {name}, which no crate takes")).collect())
}

/// Lists the dependencies that a manifest declares for the workspace.
fn offered(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let entries =
        lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| Some(line.split_once('=')?.0.trim())).collect()
}

/// Draws the dependency graph of our crates, as it is checked in.
pub(crate) fn document() -> Result<String, String> {
    Ok(draw(&graph(&packages()?)))
}

fn draw(graph: &Graph) -> String {
    let mut text = String::from(
        "# Crates\n\nGenerated by `./x generate`; `cargo run -p xtask -- graph` prints it. What each crate is \
         stands in [ARCHITECTURE.md](ARCHITECTURE.md).\n\nAn arrow leads to what a crate is built on; one that \
         others imply is left out. `room` also carries `room-init`, which its build script builds with a cargo \
         of its own.\n\n```mermaid\ngraph TD\n",
    );
    for (name, below) in graph {
        for one in direct(graph, below) {
            writeln!(text, "  {name} --> {one}").expect("a string takes all text");
        }
    }
    text.push_str(
        "```\n\nEach crate depends on crates of lower levels alone.\n\n| level | crate | depends on |\n|---|---|---|\n",
    );
    let mut rows: Vec<_> =
        graph.iter().map(|(name, below)| (level(graph, name), name, below)).collect();
    rows.sort();
    for (level, name, below) in rows {
        let below: Vec<_> = below.iter().map(|one| format!("`{one}`")).collect();
        writeln!(text, "| {level} | `{name}` | {} |", below.join(", "))
            .expect("a string takes all text");
    }
    text
}

/// Removes dependencies that others in the list have anyway.
fn direct<'a>(graph: &Graph, below: &'a BTreeSet<String>) -> Vec<&'a String> {
    let is_implied =
        |one: &String| below.iter().any(|other| other != one && reaches(graph, other, one));
    below.iter().filter(|one| !is_implied(one)).collect()
}

fn reaches(graph: &Graph, from: &str, to: &str) -> bool {
    graph
        .get(from)
        .is_some_and(|below| below.iter().any(|one| one == to || reaches(graph, one, to)))
}

/// Returns the level of a crate. Cargo allows no cycles, so this ends.
fn level(graph: &Graph, name: &str) -> usize {
    let below = graph.get(name).into_iter().flatten();
    below.map(|one| level(graph, one) + 1).max().unwrap_or(0)
}

fn graph(packages: &[Package]) -> Graph {
    let short = |name: &str| name.strip_prefix("hothouse-").unwrap_or(name).to_owned();
    let ours: BTreeSet<_> = packages.iter().map(|package| package.name.as_str()).collect();
    let below = |package: &Package| {
        let needed = package.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev);
        let names = needed.map(|dependency| dependency.name.as_str());
        names.filter(|name| ours.contains(name)).map(short).collect()
    };
    packages.iter().map(|package| (short(&package.name), below(package))).collect()
}

fn packages() -> Result<Vec<Package>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = Program::new("cargo").folder(&root);
    let words = ["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"];
    let told = cargo.args(words).output().map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_slice(&told).map_err(|error| error.to_string())?;
    let packages = told["packages"].as_array().into_iter().flatten().map(read);
    packages
        .collect::<Option<_>>()
        .ok_or_else(|| "cargo tells of packages in another way".to_owned())
}

fn read(package: &Value) -> Option<Package> {
    let dependencies = package["dependencies"].as_array()?.iter().map(|dependency| {
        let name = dependency["rename"].as_str().or(dependency["name"].as_str())?;
        let kind = match dependency["kind"].as_str() {
            None => Kind::Normal,
            Some("build") => Kind::Build,
            Some(_) => Kind::Dev,
        };
        Some(Dependency { name: name.to_owned(), kind })
    });
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

/// Returns the code below some paths of a crate, without comment lines.
fn text_of(folder: &Path, places: &[&str]) -> Result<String, String> {
    let mut text = String::new();
    for place in places.iter().map(|place| folder.join(place)) {
        let sources = match place.extension() {
            _ if !files::exists(&place) => Vec::new(),
            Some(_) => vec![place],
            None => borders::sources(&place)?,
        };
        for source in sources {
            let source = files::read_text(&source).map_err(|error| error.to_string())?;
            text.extend(
                source
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"))
                    .flat_map(|line| [line, "\n"]),
            );
        }
    }
    Ok(text)
}

/// Returns whether a text contains a whole word.
fn names(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Graph {
        let of = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        [
            ("model", of(&[])),
            ("host", of(&["model"])),
            ("engine", of(&["host", "model"])),
            ("lone", of(&[])),
        ]
        .map(|(name, below)| (name.to_owned(), below))
        .into()
    }

    #[test]
    fn arrows_that_others_imply_are_not_drawn() {
        let text = draw(&example());
        assert!(text.contains("  engine --> host\n  host --> model\n```"), "{text}");
        assert!(text.ends_with("| 0 | `lone` |  |\n| 0 | `model` |  |\n| 1 | `host` | `model` |\n| 2 | `engine` | `host`, `model` |\n"), "{text}");
    }

    #[test]
    fn a_dependency_that_must_be_absent_is_found() {
        let package = |name: &str, of: &str, kind| Package {
            name: name.to_owned(),
            folder: PathBuf::new(),
            dependencies: vec![Dependency { name: of.to_owned(), kind }],
        };
        assert_eq!(present(&[package("hothouse-engine", "tokio", Kind::Normal)]).len(), 1);
        assert_eq!(present(&[package("hothouse-engine", "tokio", Kind::Dev)]).len(), 0);
        assert_eq!(present(&[package("hothouse-daemon", "tokio", Kind::Normal)]).len(), 0);
    }

    #[test]
    fn a_dependency_beside_the_one_is_found() {
        let of = |names: &[&str]| Package {
            name: "hothouse-supervise".to_owned(),
            folder: PathBuf::new(),
            dependencies: names
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), kind: Kind::Normal })
                .collect(),
        };
        assert_eq!(beside(&[of(&["hothouse-service"])]), Vec::<String>::new());
        assert_eq!(beside(&[of(&["hothouse-service", "serde_json"])]).len(), 1);
    }

    #[test]
    fn borders_of_deny_toml_are_read_and_kept() {
        let text = "deny = [\n    { crate = \"ring\" },\n    { crate = \"axum\", wrappers = [\"hothouse-daemon\", \"b\"] },\n]\n";
        let bans = read_bans(text);
        let wrappers = vec!["hothouse-daemon".to_owned(), "b".to_owned()];
        assert_eq!(bans, [("axum".to_owned(), wrappers)]);
        let with_axum = |name: &str, kind| Package {
            name: name.to_owned(),
            folder: PathBuf::new(),
            dependencies: vec![Dependency { name: "axum".to_owned(), kind }],
        };
        assert_eq!(crossed(&[with_axum("hothouse-cli", Kind::Normal)], &bans).len(), 1);
        assert_eq!(crossed(&[with_axum("hothouse-cli", Kind::Dev)], &bans).len(), 0);
        assert_eq!(crossed(&[with_axum("hothouse-daemon", Kind::Normal)], &bans).len(), 0);
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert!(names("use serde::Serialize;", "serde"));
        assert!(!names("use serde_json::Value; fn my_serde() {}", "serde"));
    }

    #[test]
    fn what_the_workspace_offers_is_read() {
        let text = "[workspace]\nmembers = []\n\n[workspace.dependencies]\n# why\na-b = \"1\"\nc = { version = \"2\" }\n\n[profile.dev]\nd = 1\n";
        assert_eq!(offered(text), ["a-b", "c"]);
    }

    #[test]
    fn every_dependency_is_used() {
        check_dependencies().unwrap();
    }
}
