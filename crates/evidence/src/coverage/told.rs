//! Coverage as reported to a reviewer: lines that never ran, and unmeasured files with the reason.

use std::collections::BTreeMap;

use super::{ChangeCoverage, Meter, ScenarioCoverage};
use crate::judge::ChangedFile;

/// How many files and routes are listed.
const NAMED: usize = 12;

/// The languages of files, as far as meters support them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Script,
    Python,
    /// Only a command of the project can measure it.
    Compiled(&'static str),
    /// No executable lines.
    NoCode,
}

fn language(path: &str) -> Language {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" | "vue" | "svelte" => {
            Language::Script
        }
        "py" => Language::Python,
        "rs" => Language::Compiled("Rust"),
        "go" => Language::Compiled("Go"),
        "java" | "kt" | "scala" => Language::Compiled("the JVM"),
        "rb" => Language::Compiled("Ruby"),
        "php" => Language::Compiled("PHP"),
        "ex" | "exs" => Language::Compiled("Elixir"),
        "cs" => Language::Compiled(".NET"),
        "c" | "cc" | "cpp" | "h" | "hpp" => Language::Compiled("C and C++"),
        "swift" => Language::Compiled("Swift"),
        "sh" | "bash" => Language::Compiled("shells"),
        "sql" => Language::Compiled("SQL"),
        "html" | "htm" => Language::Script,
        _ => Language::NoCode,
    }
}

/// Explains why a changed file was not measured.
pub(super) fn reason(file: &ChangedFile, scenarios: &[&ScenarioCoverage]) -> String {
    let has = |meter: Meter| scenarios.iter().any(|one| one.meters.contains(&meter));
    let unmapped = scenarios.iter().any(|one| one.unmapped);
    match language(&file.path) {
        _ if file.added.is_none() => "not text".into(),
        Language::NoCode => "not code that runs line by line".into(),
        Language::Script if !has(Meter::Browser) && !has(Meter::Node) => {
            "neither a browser nor Node.js was measured".into()
        }
        Language::Script if unmapped => {
            "not loaded by itself; the page's scripts have no source maps that lead to it".into()
        }
        Language::Script if !has(Meter::Node) => {
            "not loaded by the page; no service of Node.js was measured".into()
        }
        Language::Script => "never loaded, neither by the page nor by a service".into(),
        Language::Python if has(Meter::Python) => "never imported by a service".into(),
        Language::Python => {
            "no Python was measured: that needs Python 3.12, or `coverage` in the project's environment".into()
        }
        Language::Compiled(name) if has(Meter::Lcov) => {
            format!("the command under `coverage` tells nothing of it ({name})")
        }
        Language::Compiled(name) => {
            format!("{name} is measured only by a service's own `coverage` command")
        }
    }
}

/// Lists which parts of the change were not covered.
pub fn told(coverage: &ChangeCoverage, notes: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let idle: Vec<_> = coverage.files.iter().filter(|file| !file.not_run.is_empty()).collect();
    for file in idle.iter().take(NAMED) {
        all.push(format!("changed lines that never ran: {} {}", file.path, file.not_run));
    }
    if let Some(more) = idle.len().checked_sub(NAMED + 1) {
        all.push(format!("changed lines of {} more files never ran", more + 1));
    }
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in &coverage.files {
        if let Some(reason) = &file.unmeasured {
            by_reason.entry(reason).or_default().push(&file.path);
        }
    }
    for (reason, files) in by_reason {
        all.push(format!("changed files that were not measured ({reason}): {}", named(&files)));
    }
    let idle: Vec<String> = coverage
        .routes
        .iter()
        .filter(|route| !route.exercised)
        .map(|route| format!("{} {} ({})", route.methods.join("/"), route.path, route.source))
        .collect();
    if !idle.is_empty() {
        let idle: Vec<&str> = idle.iter().map(String::as_str).collect();
        all.push(format!("routes of changed files that were not requested: {}", named(&idle)));
    }
    all.extend(notes.iter().cloned());
    all
}

fn named(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
