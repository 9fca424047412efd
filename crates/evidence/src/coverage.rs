//! Coverage of the change: which changed lines a scenario ran, and which routes of changed files it requested.
//!
//! The browser measures pages, and services are measured by their own runtimes. What a service reports comes from the
//! room, so it is bounded. Nothing is guessed: an unmeasured changed file is listed with the reason.

mod lines;
mod paths;
pub mod reports;
mod told;
pub mod v8;

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::routes::{self, Route};
use serde::{Deserialize, Serialize};

pub use self::{lines::LineSet, told::told};
use self::{
    paths::{is_page, is_path_of, source_of},
    v8::ScriptRun,
};
use crate::judge::ChangedFile;

/// The maximum number of requests kept per scenario.
pub const REQUESTS_MOST: usize = 500;

/// What measured the coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meter {
    Browser,
    Node,
    Python,
    /// A command of the project that prints LCOV.
    Lcov,
}

impl Meter {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Browser => "browser",
            Self::Node => "node",
            Self::Python => "python",
            Self::Lcov => "lcov",
        }
    }
}

/// Lines that ran, and lines that could have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineStates {
    pub ran: LineSet,
    pub idle: LineSet,
}

/// A changed file as it was run.
#[derive(Clone, Debug, Default)]
pub struct ChangedText {
    /// Relative to the worktree.
    pub path: String,
    /// `None` if it is not text, or too long.
    pub text: Option<String>,
    /// The lines added by the change.
    pub lines: LineSet,
}

/// What one meter reports for one changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub path: String,
    pub by: Meter,
    /// Changed lines that ran.
    pub ran: LineSet,
    /// Changed lines that could have run but did not.
    pub idle: LineSet,
}

/// What was measured during a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioCoverage {
    /// All meters that reported anything.
    pub meters: BTreeSet<Meter>,
    pub files: Vec<Measured>,
    /// Requests to the sandbox's own apps, as `GET /cart`, without queries.
    pub requests: Vec<String>,
    /// Whether the page ran scripts that could not be matched to files of the worktree.
    pub unmapped: bool,
    /// Why services were not measured.
    pub notes: Vec<String>,
}

/// The coverage of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeCoverage {
    pub files: Vec<FileCoverage>,
    pub routes: Vec<RouteCoverage>,
}

/// The coverage of one changed file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileCoverage {
    pub path: String,
    pub by: BTreeSet<Meter>,
    /// Changed lines that ran.
    pub ran: LineSet,
    /// Changed lines that never ran.
    pub not_run: LineSet,
    /// Why it was not measured.
    pub unmeasured: Option<String>,
}

/// A route that a changed file declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteCoverage {
    pub path: String,
    pub methods: Vec<String>,
    /// The file and line.
    pub source: String,
    pub exercised: bool,
}

/// Collects what meters report for a scenario.
#[derive(Debug)]
pub struct Collector<'a> {
    files: &'a [ChangedText],
    /// The paths at which programs see the worktree.
    roots: &'a [String],
    found: BTreeMap<(usize, Meter), LineStates>,
    coverage: ScenarioCoverage,
}

impl<'a> Collector<'a> {
    pub fn new(files: &'a [ChangedText], roots: &'a [String]) -> Self {
        Self { files, roots, found: BTreeMap::new(), coverage: ScenarioCoverage::default() }
    }

    /// Records that a meter ran, even if it found nothing.
    pub fn measured_by(&mut self, meter: Meter) {
        self.coverage.meters.insert(meter);
    }

    pub fn note(&mut self, text: String) {
        self.coverage.notes.push(text);
    }

    /// Takes a script of a page or of Node.js.
    pub fn script(&mut self, meter: Meter, script: &ScriptRun) {
        self.measured_by(meter);
        let found = v8::lines(script, self.files, self.roots);
        // A script without a map that matches no changed file may still be built from one.
        if found.is_empty() && script.map.is_none() && meter == Meter::Browser {
            self.coverage.unmapped |= paths::is_bundle(&script.url);
        }
        found.into_iter().for_each(|(file, states)| self.add(file, meter, states));
    }

    /// Takes lines by file; paths are absolute or relative to the worktree.
    pub fn lines(&mut self, meter: Meter, lines: BTreeMap<String, LineStates>) {
        self.measured_by(meter);
        for (path, states) in lines {
            let file = self.files.iter().position(|file| is_path_of(&path, &file.path, self.roots));
            if let Some(file) = file {
                self.add(file, meter, states);
            }
        }
    }

    /// Takes a request of the page to an app of the sandbox.
    pub fn request(&mut self, method: &str, path: &str) {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let text: String = format!("{method} {path}").chars().take(300).collect();
        let known = &mut self.coverage.requests;
        if known.len() < REQUESTS_MOST && !known.contains(&text) {
            known.push(text);
        }
    }

    fn add(&mut self, file: usize, meter: Meter, states: LineStates) {
        let known = self.found.entry((file, meter)).or_default();
        known.ran = known.ran.with(&states.ran);
        known.idle = known.idle.with(&states.idle);
    }

    /// Returns what was collected, limited to the changed lines.
    pub fn done(mut self) -> ScenarioCoverage {
        for ((file, by), states) in self.found {
            let ChangedText { path, lines, .. } = &self.files[file];
            let ran = states.ran.within(lines);
            let idle = states.idle.within(lines).without(&ran);
            self.coverage.files.push(Measured { path: path.clone(), by, ran, idle });
        }
        self.coverage.requests.sort();
        self.coverage
    }
}

/// Merges what all scenarios of a run report about a change.
pub fn of_change(
    files: &[ChangedFile],
    scenarios: &[&ScenarioCoverage],
    routes: &[Route],
) -> ChangeCoverage {
    let files = files.iter().filter(|file| file.added != Some(0));
    ChangeCoverage {
        files: files.map(|file| of_file(file, scenarios)).collect(),
        routes: routes.iter().map(|route| of_route(route, scenarios)).collect(),
    }
}

fn of_file(file: &ChangedFile, scenarios: &[&ScenarioCoverage]) -> FileCoverage {
    let mut coverage = FileCoverage { path: file.path.clone(), ..FileCoverage::default() };
    let mut idle = LineSet::default();
    let all = scenarios.iter().flat_map(|one| &one.files);
    for measured in all.filter(|one| one.path == file.path) {
        coverage.by.insert(measured.by);
        coverage.ran = coverage.ran.with(&measured.ran);
        idle = idle.with(&measured.idle);
    }
    coverage.not_run = idle.without(&coverage.ran);
    coverage.unmeasured = coverage.by.is_empty().then(|| told::reason(file, scenarios));
    coverage
}

fn of_route(route: &Route, scenarios: &[&ScenarioCoverage]) -> RouteCoverage {
    let asked = |request: &String| {
        let Some((method, path)) = request.split_once(' ') else { return false };
        let methods = &route.methods;
        let fits = methods.iter().any(|own| own == "ANY" || own == method) || methods.is_empty();
        fits && routes::answers(&route.path, path)
    };
    RouteCoverage {
        path: route.path.clone(),
        methods: route.methods.clone(),
        source: route.source.clone(),
        exercised: scenarios.iter().flat_map(|one| &one.requests).any(asked),
    }
}

/// Returns the routes of changed files with a changed line at or below their declaration; all routes of a file if its
/// changed lines are unknown.
pub fn changed_routes(routes: Vec<Route>, files: &[ChangedFile]) -> Vec<Route> {
    let is_changed = |route: &Route| {
        let Some((path, line)) = route.source.rsplit_once(':') else { return false };
        let Ok(line) = line.parse::<u32>() else { return false };
        let of = files.iter().find(|file| file.path == path);
        // A handler is below the line that declares it. Its end is unknown, so the rest of the file counts.
        of.is_some_and(|file| file.lines.is_empty() || line <= LineSet::last(&file.lines))
    };
    routes.into_iter().filter(is_changed).collect()
}

#[cfg(test)]
mod tests;
