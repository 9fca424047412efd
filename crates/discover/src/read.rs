//! The readers: each examines one ecosystem or kind of file, and adds its findings.

mod ci;
mod compose;
mod containers;
mod dotnet;
mod elixir;
mod golang;
mod jvm;
mod node;
mod php;
mod ports;
mod procfile;
mod python;
mod ruby;
mod rust;
mod sdk;
mod settings;
mod stores;
mod tasks;
mod versions;
mod web;

pub(crate) use self::{
    compose::kind_of,
    containers::{OF_IMAGE, OF_ROOT},
    ports::{of_command as port_of_command, variable as port_variable},
    python::found_from,
    settings::scheme_of,
};
use crate::{
    finding::{Evidence, Findings, Step},
    host::HostFacts,
    text,
    view::View,
};

/// Path components of a project's tests, samples and documentation.
const ASIDE: [&str; 26] = [
    "example",
    "examples",
    "sample",
    "samples",
    "fixture",
    "fixtures",
    "__fixtures__",
    "test",
    "tests",
    "__tests__",
    "testdata",
    "e2e",
    "spec",
    "specs",
    "template",
    "templates",
    "benchmark",
    "benchmarks",
    "bench",
    "docs",
    "doc",
    "playground",
    "playgrounds",
    "demo",
    "demos",
    "integration-tests",
];

/// Whether a path is not part of what the project runs.
fn is_aside(path: &str) -> bool {
    let is_example = |part: &str| part.split(['-', '_']).any(|word| word == "examples");
    path.split('/').any(|part| {
        ASIDE.contains(&part)
            || part.starts_with("create-")
            || is_example(part)
            || part.contains("{{")
    })
}

/// Returns what a user should know of files that the repository expects each developer to make.
pub(crate) fn absent(view: &View<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if view.has("cookiecutter.json") || view.has("copier.yml") || view.has("copier.yaml") {
        all.push("this repository is a template: make a project of it (`cookiecutter`, `copier`), and run `init` in that".to_owned());
    }
    all
}

/// Adds a step that makes files of settings from their examples, where git ignores the files: each developer has their
/// own.
fn made_from_examples(view: &View<'_>, found: &mut Findings) {
    let ignored = view.text(".gitignore").unwrap_or_default();
    let is_ignored = |path: &str| {
        let lines = ignored.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        lines.take(2000).any(|line| {
            let line = line.trim_start_matches('/');
            line == path || line == text::name(path) && !line.contains('*')
        })
    };
    let wanted = view.paths().filter(|path| !is_aside(path)).filter_map(|path| {
        let made = settings::made_from(text::name(path))?;
        Some((path, text::join(text::folder(path), &made)))
    });
    let missing = wanted.filter(|(_, made)| !view.has(made) && is_ignored(made)).take(5);
    let (mut lines, mut evidence) = (Vec::new(), Vec::new());
    for (path, made) in missing {
        let [from, to] = [path, made.as_str()].map(text::shell_word);
        lines.push(format!("test -e {to} || cp {from} {to}"));
        let fact = format!("git ignores `{made}`, and this is its example");
        evidence.push(Evidence { file: path.to_owned(), line: 1, fact });
    }
    let run = match lines.as_slice() {
        [] => return,
        [one] => one.clone(),
        many => many.iter().map(|line| format!("{{ {line}; }}")).collect::<Vec<_>>().join(" && "),
    };
    found.files.push(Step { name: "settings".to_owned(), dir: String::new(), run, evidence });
}

/// Runs every reader.
pub(crate) fn all(view: &View<'_>, host: &HostFacts) -> Findings {
    let mut found = Findings::default();
    versions::read(view, &mut found);
    // Compose comes first, because later readers can only guess at stores.
    compose::read(view, &mut found);
    ci::read(view, &mut found);
    settings::read(view, &mut found);
    node::read(view, host, &mut found);
    python::read(view, host, &mut found);
    rust::read(view, &mut found);
    golang::read(view, &mut found);
    ruby::read(view, &mut found);
    php::read(view, &mut found);
    elixir::read(view, &mut found);
    jvm::read(view, &mut found);
    dotnet::read(view, &mut found);
    stores::read(view, &mut found);
    // A Procfile names those that run together.
    procfile::read(view, &mut found);
    containers::read(view, host, &mut found);
    python::era(view, &mut found);
    tasks::read(view, &mut found);
    web::read(view, &mut found);
    made_from_examples(view, &mut found);
    sdk::read(view, &mut found);
    found
}
