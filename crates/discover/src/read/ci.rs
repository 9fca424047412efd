//! CI workflows: the services for tests often describe best what a project needs.

use serde_json::Value;

use super::compose;
use crate::{
    finding::{Certainty, Findings, Pin, Step, Store},
    text,
    view::View,
};

/// Actions that install a toolchain: the key with the version, and the program.
const SETUPS: [(&str, &str, &str); 8] = [
    ("actions/setup-node", "node-version", "node"),
    ("actions/setup-python", "python-version", "python3"),
    ("actions/setup-go", "go-version", "go"),
    ("actions/setup-java", "java-version", "java"),
    ("ruby/setup-ruby", "ruby-version", "ruby"),
    ("actions/setup-dotnet", "dotnet-version", "dotnet"),
    ("erlef/setup-beam", "elixir-version", "elixir"),
    ("shivammathur/setup-php", "php-version", "php"),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let is_workflow = |path: &&str| {
        path.starts_with(".github/workflows/")
            && (path.ends_with(".yml") || path.ends_with(".yaml"))
    };
    let workflows: Vec<_> = view.paths().filter(is_workflow).take(50).map(str::to_owned).collect();
    for path in workflows {
        let Some(document) = view.yaml(&path) else { continue };
        let jobs = document["jobs"].as_object();
        for (_, job) in jobs.into_iter().flatten() {
            services(view, &path, &job["services"], found);
            steps(view, &path, &job["steps"], found);
        }
    }
    if let Some(document) = view.yaml(".gitlab-ci.yml") {
        gitlab(view, &document, found);
    }
    if let Some(document) = view.yaml(".circleci/config.yml") {
        let jobs = document["jobs"].as_object();
        for (_, job) in jobs.into_iter().flatten() {
            // The steps run in the first image.
            for container in job["docker"].as_array().into_iter().flatten().skip(1) {
                image(view, ".circleci/config.yml", container, found);
            }
        }
    }
}

fn services(view: &View<'_>, path: &str, services: &Value, found: &mut Findings) {
    for (_, service) in services.as_object().into_iter().flatten() {
        image(view, path, service, found);
    }
}

fn image(view: &View<'_>, path: &str, service: &Value, found: &mut Findings) {
    let Some(image) = service["image"].as_str().or_else(|| service.as_str()) else { return };
    if image.contains("${{") {
        return;
    }
    let Some(kind) = compose::kind_of(image) else { return };
    let evidence = view.evidence(path, image, format!("CI runs {image} beside its tests"));
    let mut store = Store::new(kind, Certainty::Named, evidence);
    store.version = compose::image_parts(image).1.as_deref().and_then(text::major);
    let env = match service["env"].is_null() {
        true => compose::environment(&service["environment"]),
        false => compose::environment(&service["env"]),
    };
    compose::account(&mut store, &env, service);
    store.image = Some(image.to_owned());
    found.store(store);
}

fn steps(view: &View<'_>, path: &str, steps: &Value, found: &mut Findings) {
    for step in steps.as_array().into_iter().flatten() {
        let uses = step["uses"].as_str().unwrap_or_default();
        let setup = SETUPS.iter().find(|(action, ..)| uses.starts_with(action));
        if let Some((_, key, program)) = setup {
            let version = match &step["with"][*key] {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if !version.contains("${{") && !found.pins.iter().any(|pin| pin.program == *program) {
                let evidence =
                    view.evidence(path, &version, format!("CI uses {program} {version}"));
                found.pins.push(Pin { program, version, evidence });
            }
        }
        let Some(run) = step["run"].as_str() else { continue };
        for line in run.lines().map(str::trim) {
            check(view, path, line, found);
        }
    }
}

/// Adds commands that test or lint, for the plan.
fn check(view: &View<'_>, path: &str, line: &str, found: &mut Findings) {
    const WORDS: [&str; 12] = [
        " test",
        "pytest",
        "lint",
        "clippy",
        "typecheck",
        "type-check",
        "tsc",
        "rspec",
        "phpunit",
        "mypy",
        "ruff",
        "vitest",
    ];
    let is_check =
        WORDS.iter().any(|word| line.contains(word)) && !line.contains("${{") && line.len() < 120;
    let is_known = found.checks.iter().any(|step| step.run == line);
    if is_check && !is_known && found.checks.len() < 12 {
        let evidence = view.evidence(path, line, "CI runs it");
        found.checks.push(Step {
            name: String::new(),
            dir: String::new(),
            run: line.to_owned(),
            evidence: vec![evidence],
        });
    }
}

fn gitlab(view: &View<'_>, document: &Value, found: &mut Findings) {
    const FILE: &str = ".gitlab-ci.yml";
    let jobs = document.as_object().into_iter().flatten();
    let lists = jobs.filter_map(|(name, job)| match name.as_str() {
        "services" => Some(job),
        _ => job.get("services"),
    });
    for service in lists.flat_map(|list| list.as_array().into_iter().flatten()) {
        match service["name"].as_str().or_else(|| service.as_str()) {
            Some(name) => image(view, FILE, &serde_json::json!({ "image": name }), found),
            None => view.note(FILE, 0, "a service without a name was passed over"),
        }
    }
}
