//! Loads a mock from files. Broken fixtures are reported and left out; the others work.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hothouse_model::config::{Complaint, Problem, rules::nearest};
use serde_json::Value;

use super::{FixtureFile, Host, Integration, Mock, MockSpec, Mocked};
use crate::{
    fixture::{Fixture, read::fixtures, shelf::Shelf, source::Source},
    openapi::OpenApiMock,
    state::State,
    vendor,
};

impl Mock {
    /// Loads fixtures and packages. Problems name the file, the line and a suggestion.
    pub fn load(spec: MockSpec) -> (Self, Vec<Problem>) {
        let MockSpec { integrations, files, seed, id_seed } = spec;
        let mut problems = Vec::new();
        let mut mock = Self {
            integrations: Vec::new(),
            packages: BTreeMap::new(),
            hosts: HashMap::new(),
            patterns: Vec::new(),
            seed,
            id_seed,
            state: State::default(),
        };
        for (number, integration) in integrations.into_iter().enumerate() {
            mock.add_hosts(number, &integration, &mut problems);
            let own: Vec<&FixtureFile> =
                files.iter().filter(|file| file.integration == integration.name).collect();
            mock.integrations.push(mocked(integration, &own, &mut problems));
        }
        (mock, problems)
    }

    fn add_hosts(&mut self, number: usize, integration: &Integration, problems: &mut Vec<Problem>) {
        let wanted = integration.vendor.as_deref();
        if let Some(wanted) = wanted.filter(|wanted| !vendor::names().contains(wanted)) {
            problems.push(unknown_vendor(&integration.name, wanted));
        }
        for host in &integration.hosts {
            let host = host.to_ascii_lowercase();
            let package = vendor::choose(&host, wanted);
            let packages: Vec<&str> = match host.contains('*') {
                // The package for a pattern depends on the host name of the call.
                true => vendor::names(),
                false => package.into_iter().collect(),
            };
            for name in packages {
                let load = |name: &str| vendor::load(name).0;
                self.packages.entry(name.to_owned()).or_insert_with_key(|name| load(name));
            }
            let answers = Host { integration: number, package: package.map(str::to_owned) };
            match host.contains('*') {
                true => self.patterns.push((host, answers)),
                // The first one wins, as everywhere in the config.
                false => drop(self.hosts.entry(host).or_insert(answers)),
            }
        }
    }
}

fn unknown_vendor(integration: &str, wanted: &str) -> Problem {
    let names = vendor::names();
    Problem {
        file: "hothouse.toml".to_owned(),
        line: 0,
        column: 0,
        key: format!("integration.{integration}.vendor"),
        message: format!(
            "`integration.{integration}.vendor` is `{wanted}`, which is no vendor package"
        ),
        suggestion: nearest(wanted, names.iter().copied()).map(str::to_owned),
        allowed: names.into_iter().map(str::to_owned).collect(),
    }
}

fn mocked(integration: Integration, files: &[&FixtureFile], problems: &mut Vec<Problem>) -> Mocked {
    let Integration { name, hosts, vendor } = integration;
    let mut reader = FileReader {
        files,
        bodies: BTreeSet::new(),
        fixtures: Vec::new(),
        descriptions: Vec::new(),
    };
    // A file that a fixture uses as its body is not itself a fixture, even if it is JSON.
    for source in files.iter().filter_map(|file| Source::open(&file.name, &file.bytes).ok()) {
        collect_bodies(&source.value, &mut reader.bodies);
    }
    for file in files {
        problems.extend(reader.read(file).into_iter().map(|problem| Problem {
            file: format!("hothouse/fixtures/{name}/{}", problem.file),
            ..problem
        }));
    }
    let FileReader { fixtures, descriptions, .. } = reader;
    Mocked { name, hosts, vendor, shelf: Shelf::new(fixtures), descriptions }
}

/// Reads the files of one integration.
struct FileReader<'a> {
    files: &'a [&'a FixtureFile],
    /// Files that a fixture uses as its body.
    bodies: BTreeSet<String>,
    fixtures: Vec<Fixture>,
    descriptions: Vec<OpenApiMock>,
}

impl FileReader<'_> {
    fn read(&mut self, file: &FixtureFile) -> Vec<Problem> {
        let is_fixture = file.name.ends_with(".toml") || file.name.ends_with(".json");
        if !is_fixture || self.bodies.contains(&file.name) {
            return Vec::new();
        }
        if file.name.ends_with(".json") && OpenApiMock::is_description(&file.bytes) {
            return match OpenApiMock::load(&file.name, &file.bytes) {
                Ok(description) => {
                    self.descriptions.push(description);
                    Vec::new()
                }
                Err(problem) => vec![problem],
            };
        }
        let source = match Source::open(&file.name, &file.bytes) {
            Ok(source) => source,
            Err(problem) => return vec![problem],
        };
        if file.name.ends_with(".json") && is_plainly_no_fixture(&source.value) {
            let message = "this is neither a fixture nor the body of one: it has no `request`, and no fixture names it by `file`";
            return vec![source.problem("", Complaint::new(message))];
        }
        let files = self.files;
        let beside = |name: &str| {
            let found = files.iter().find(|file| file.name == name);
            found.map(|file| file.bytes.as_slice())
        };
        let (mut read, problems) = fixtures(&source, &beside);
        self.fixtures.append(&mut read);
        problems
    }
}

fn is_plainly_no_fixture(value: &Value) -> bool {
    value.get("request").is_none() && value.get("fixture").is_none()
}

/// Collects the values of `file` in answers.
fn collect_bodies(value: &Value, bodies: &mut BTreeSet<String>) {
    let parts = match value.get("fixture") {
        Some(Value::Array(items)) => items.iter().collect(),
        _ => vec![value],
    };
    for part in parts {
        let then = part.get("then").and_then(Value::as_array).into_iter().flatten();
        for answer in part.get("answer").into_iter().chain(then) {
            bodies.extend(answer.get("file").and_then(Value::as_str).map(str::to_owned));
        }
    }
}
