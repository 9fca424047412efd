//! Node, Bun and Deno: package managers, workspaces, scripts, frameworks.

mod framework;
mod manager;
mod migrations;
mod nx;
mod scripts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ports, settings};
use crate::{
    finding::{App, AppKind, Evidence, Findings, Step},
    host::HostFacts,
    text,
    view::View,
};
use manager::Manager;

/// A package of the repository.
pub(super) struct Package {
    pub(super) dir: String,
    pub(super) name: String,
    pub(super) scripts: BTreeMap<String, String>,
    pub(super) dependencies: BTreeSet<String>,
    pub(super) main: Option<String>,
}

impl Package {
    fn read(view: &View<'_>, dir: &str) -> Option<Self> {
        let path = text::join(dir, "package.json");
        let value = view.json(&path)?;
        let map = |key: &str| value[key].as_object().cloned().unwrap_or_default();
        let scripts = map("scripts");
        let scripts = scripts
            .iter()
            .filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_owned())));
        let dependencies =
            map("dependencies").into_iter().chain(map("devDependencies")).map(|(name, _)| name);
        let folder = if dir.is_empty() { "app" } else { text::name(dir) };
        Some(Self {
            dir: dir.to_owned(),
            name: text::service_name(
                value["name"].as_str().filter(|_| !dir.is_empty()).unwrap_or(folder),
            ),
            scripts: scripts.collect(),
            dependencies: dependencies.collect(),
            main: value["main"].as_str().map(str::to_owned),
        })
    }

    pub(super) fn file(&self) -> String {
        text::join(&self.dir, "package.json")
    }

    pub(super) fn has(&self, package: &str) -> bool {
        self.dependencies.contains(package)
    }

    fn evidence(&self, view: &View<'_>, script: &str) -> Evidence {
        let needle = format!("\"{script}\"");
        view.evidence(&self.file(), &needle, format!("script `{script}`: {}", self.scripts[script]))
    }
}

pub(super) fn read(view: &View<'_>, host: &HostFacts, found: &mut Findings) {
    let mut folders: Vec<String> =
        view.named(&["package.json"]).iter().map(|path| text::folder(path).to_owned()).collect();
    folders.retain(|dir| !super::is_aside(dir));
    folders.truncate(300);
    let root = folders.first().filter(|dir| dir.is_empty()).and_then(|_| Package::read(view, ""));
    let workspace = root.as_ref().map(|_| manager::members(view, &folders)).unwrap_or_default();
    let packages: Vec<Package> = folders
        .iter()
        .filter(|dir| !dir.is_empty())
        .filter_map(|dir| Package::read(view, dir))
        .collect();
    let is_member = |package: &&Package| workspace.contains(&package.dir);
    let members: Vec<&Package> = packages.iter().filter(is_member).collect();
    let alone: Vec<&Package> = packages.iter().filter(|package| !is_member(package)).collect();

    if let Some(root) = &root {
        let manager = Manager::of(view, "");
        manager.install(view, host, "", &root.dependencies, !members.is_empty(), found);
        let mut apps = Vec::new();
        for package in &members {
            apps.extend(app(view, package, &manager, found));
        }
        let known: BTreeSet<&str> = apps.iter().map(|app| app.dir.as_str()).collect();
        let more = nx::apps(view, root, &manager, &known);
        apps.extend(more);
        if apps.is_empty() {
            apps.extend(scripts::expanded(view, root, &manager));
        }
        // The root of a workspace is an app too if it starts a framework itself, not just its members.
        if apps.is_empty() || is_site(view, root) {
            let own = app(view, root, &manager, found);
            apps.splice(..0, own);
        }
        found.apps.extend(apps);
        extras(view, root, &manager, found);
        members.iter().for_each(|package| extras(view, package, &manager, found));
        migrations::without_passed_on(root, found);
    }
    // Folders such as `client` and `server` with their own lockfiles, besides or instead of a root.
    for package in alone.into_iter().filter(|package| package.dir.matches('/').count() < 3) {
        let manager = Manager::of(view, &package.dir);
        let known: Vec<_> =
            found.apps.iter().filter(|app| app.dir == package.dir).cloned().collect();
        let made = if known.is_empty() { app(view, package, &manager, found) } else { None };
        if made.is_none() && known.is_empty() {
            continue;
        }
        manager.install(view, host, &package.dir, &package.dependencies, false, found);
        found.apps.extend(made);
        extras(view, package, &manager, found);
    }
    deno(view, found);
}

/// Whether a package's own script starts a framework's server.
fn is_site(view: &View<'_>, package: &Package) -> bool {
    let mut lines = RUN_SCRIPTS.iter().filter_map(|name| package.scripts.get(*name));
    lines
        .any(|line| framework::of(view, package, line).is_some_and(|framework| framework.is_site()))
}

/// Scripts that run an app, in order of preference.
const RUN_SCRIPTS: [&str; 14] = [
    "dev",
    "start:dev",
    "develop",
    "dev:server",
    "start-dev",
    "dev-server",
    "serve",
    "start",
    "server",
    "watch:dev",
    "watch-development",
    "watch-dev",
    "web",
    "watch",
];

/// Returns the app in a package, if it is one.
fn app(view: &View<'_>, package: &Package, manager: &Manager, found: &mut Findings) -> Option<App> {
    let scripts = RUN_SCRIPTS.iter().filter(|name| package.scripts.contains_key(**name));
    let script = scripts.into_iter().find(|name| serves(view, package, &package.scripts[**name]));
    let Some(script) = script else { return bare(view, package) };
    let line = &package.scripts[*script];
    let framework = framework::of(view, package, line);
    let mut app = App::web(&service_name(package), &package.dir, manager.run(script));
    app.build = scripts::build_of(view, package, script).map(|build| manager.run(build));
    app.evidence.push(package.evidence(view, script));
    app.framework = framework.map(|framework| framework.title);
    if framework.is_some_and(|framework| !framework.is_server) {
        app.kind = AppKind::Worker;
        return Some(app);
    }
    let usual = framework.and_then(|framework| framework.port);
    (app.port, app.run) =
        port(view, package, line, &app.run, usual, manager, script, &mut app.evidence);
    let files = ports::sources(view, &package.dir, &[".js", ".ts", ".mjs", ".cjs", ".tsx"]);
    if framework.is_none_or(|framework| framework.is_api)
        && let Some((path, evidence)) = ports::health(view, files.iter().copied())
    {
        (app.health, _) = (Some(path), app.evidence.push(evidence));
    }
    found.needs("node", &app.evidence[0]);
    Some(app)
}

/// Returns an app's name: `web` for the only one, otherwise the package's.
fn service_name(package: &Package) -> String {
    match package.dir.as_str() {
        "" => "web".to_owned(),
        dir if ["apps/", "services/", "packages/"].iter().any(|top| dir.starts_with(top)) => {
            text::service_name(text::name(dir))
        }
        dir if dir.contains('/') => text::service_name(text::name(dir)),
        dir => text::service_name(dir),
    }
}

/// Returns a package without scripts whose main file listens.
fn bare(view: &View<'_>, package: &Package) -> Option<App> {
    let names = ["server.js", "app.js", "index.js", "server.mjs", "src/server.js", "src/index.js"];
    let of_main = package.main.as_deref().map(|main| text::join(&package.dir, main));
    let known = names.iter().map(|name| text::join(&package.dir, name));
    let (file, (port, line)) = of_main.into_iter().chain(known).find_map(|path| {
        let source = view.text(&path)?;
        let listens = source.contains(".listen(");
        listens.then(|| ports::of_source(&source)).flatten().map(|port| (path.clone(), port))
    })?;
    let below = file.strip_prefix(&format!("{}/", package.dir)).unwrap_or(&file).to_owned();
    let mut app = App::web(
        &service_name(package),
        &package.dir,
        format!("node {}", text::shell_word(&below)),
    );
    app.port = Some(port);
    app.evidence.push(Evidence { file, line, fact: format!("it listens on {port}") });
    Some(app)
}

/// Whether a script keeps running and serves something, rather than building a library.
fn serves(view: &View<'_>, package: &Package, line: &str) -> bool {
    const LIBRARY: [&str; 22] = [
        "tsc",
        "tsup",
        "rollup",
        "babel",
        "swc",
        "unbuild",
        "microbundle",
        "tsdx",
        "jest",
        "vitest",
        "storybook",
        "ng-packagr",
        "esbuild",
        "tsdown",
        "bunchee",
        "echo",
        "webpack",
        "typedoc",
        "lerna",
        "prettier",
        "eslint",
        "changeset",
    ];
    const RUNNERS: [&str; 8] =
        ["turbo", "nx", "lerna", "concurrently", "npm-run-all", "run-p", "wireit", "rush"];
    let words = text::words(line);
    if is_build(&words) || prints(&words) || is_for_tests(&words) {
        return false;
    }
    if framework::of(view, package, line).is_some() {
        return true;
    }
    let first = words
        .iter()
        .map(|word| text::name(word))
        .find(|word| !word.contains('=') && !is_prefix(word));
    match first {
        None => false,
        Some(word) if RUNNERS.contains(&word) => package.dir.is_empty(),
        Some(word) if LIBRARY.contains(&word) => {
            // `tsc --watch & node dist/server.js` is a server nevertheless.
            words
                .iter()
                .any(|word| word == "node" || word == "nodemon" || text::name(word) == "onSuccess")
                || line.contains("--onSuccess")
        }
        Some(_) => true,
    }
}

/// Whether a command builds something again at each change, such as `vite build --watch`.
fn is_build(words: &[String]) -> bool {
    let at = words.iter().position(|word| word == "build");
    let is_tools = |at: usize| {
        let tool = at.checked_sub(1).map(|before| text::name(&words[before]));
        tool.is_some_and(|tool| !["run", "npm", "yarn", "pnpm", "bun"].contains(&tool))
    };
    let goes_on = words.iter().any(|word| ["&&", "&", ";", "|"].contains(&word.as_str()));
    at.is_some_and(is_tools)
        && !goes_on
        && words.iter().any(|word| word == "--watch" || word == "-w" || word == "--watch=true")
}

/// Whether a command only evaluates a text, as scripts do that were replaced by others.
fn prints(words: &[String]) -> bool {
    match words {
        [only] => ["true", "exit", ":"].contains(&only.as_str()),
        [first, second, ..] => {
            (first == "node" && ["-e", "-p", "--eval", "--print"].contains(&second.as_str()))
                || first == "exit"
        }
        [] => true,
    }
}

/// Whether all files that a command runs are for tests.
fn is_for_tests(words: &[String]) -> bool {
    let is_code =
        |word: &&String| [".js", ".ts", ".mjs", ".cjs"].iter().any(|end| word.ends_with(end));
    let mut files = words.iter().filter(is_code).peekable();
    let of_tests =
        |path: &String| path.split('/').any(|part| ["test", "tests", "e2e"].contains(&part));
    files.peek().is_some() && files.all(of_tests)
}

/// Adds the install step of a folder that an image runs without a script.
pub(super) fn install_for(view: &View<'_>, host: &HostFacts, dir: &str, found: &mut Findings) {
    let managers = ["npm", "pnpm", "yarn", "bun"];
    if found.install_for(dir, &managers).is_some() {
        return;
    }
    if let Some(package) = Package::read(view, dir) {
        Manager::of(view, dir).install(view, host, dir, &package.dependencies, false, found);
    }
}

fn is_prefix(word: &str) -> bool {
    [
        "cross-env",
        "dotenv",
        "env",
        "env-cmd",
        "npx",
        "yarn",
        "pnpm",
        "bunx",
        "exec",
        "run",
        "--",
        "-e",
        "dotenvx",
    ]
    .contains(&word)
        || word.starts_with("-")
        || word.starts_with(".env")
}

/// Determines the port, and ensures that the command uses it.
#[expect(clippy::too_many_arguments, reason = "each is another place that can name a port")]
fn port(
    view: &View<'_>,
    package: &Package,
    line: &str,
    run: &str,
    usual: Option<u16>,
    manager: &Manager,
    script: &str,
    evidence: &mut Vec<Evidence>,
) -> (Option<u16>, String) {
    let plain = |port: Option<u16>| (port, run.to_owned());
    if let Some(port) = ports::of_command(line) {
        return plain(Some(port));
    }
    if let Some((port, found)) = framework::configured(view, &package.dir) {
        evidence.push(found);
        return plain(Some(port));
    }
    let of_example = settings::port_of(view, &package.dir);
    // An example is copied into the environment, so it overrides a default in the source.
    if let (None, Some((port, found))) = (usual, &of_example) {
        evidence.push(found.clone());
        return plain(Some(*port));
    }
    if usual.is_none() {
        let files = ports::sources(view, &package.dir, &[".js", ".ts", ".mjs", ".cjs"]);
        let entries = scripts::entry_files(view, package, line);
        let all = entries.iter().map(String::as_str).chain(files);
        if let Some((port, found)) = ports::in_files(view, all) {
            evidence.push(found);
            return plain(Some(port));
        }
    }
    match (of_example, usual) {
        (Some((port, found)), usual) if usual.is_none_or(|_| framework::obeys_port(line)) => {
            evidence.push(found);
            plain(Some(port))
        }
        (_, Some(usual)) => {
            let _ = (manager, script);
            plain(Some(usual))
        }
        (_, None) => plain(None),
    }
}

/// Adds the other parts of a package: migrations, seeds, workers, checks.
fn extras(view: &View<'_>, package: &Package, manager: &Manager, found: &mut Findings) {
    migrations::read(view, package, manager, found);
    for (name, line) in &package.scripts {
        if let Some(file) = scripts::env_file(line) {
            let fact = format!("script `{name}` insists on a file `{file}`");
            let why = view.evidence(&package.file(), &format!("\"{name}\""), fact);
            settings::insisted(view, &package.dir, &file, why, found);
        }
    }
    const WORKERS: [&str; 8] = [
        "worker",
        "worker:dev",
        "dev:worker",
        "workers",
        "start:worker",
        "queue",
        "jobs",
        "consumer",
    ];
    let has_app = found.apps.iter().any(|app| app.dir == package.dir);
    if let Some(script) =
        WORKERS.iter().find(|name| package.scripts.contains_key(**name)).filter(|_| has_app)
    {
        let name = match package.dir.as_str() {
            "" => "worker".to_owned(),
            dir => text::service_name(&format!("{}-worker", text::name(dir))),
        };
        let mut app = App::worker(&name, &package.dir, manager.run(script));
        app.evidence.push(package.evidence(view, script));
        found.apps.push(app);
    }
    for script in ["test", "lint", "typecheck", "type-check", "check"] {
        if package.dir.is_empty() && package.scripts.contains_key(script) {
            let evidence = vec![package.evidence(view, script)];
            found.checks.push(Step {
                name: script.to_owned(),
                dir: String::new(),
                run: manager.run(script),
                evidence,
            });
        }
    }
    for library in [
        "bullmq",
        "bull",
        "bee-queue",
        "agenda",
        "pg-boss",
        "graphile-worker",
        "inngest",
        "@trigger.dev/sdk",
    ] {
        if package.has(library) {
            found.queues.push(view.evidence(
                &package.file(),
                &format!("\"{library}\""),
                format!("jobs by {library}"),
            ));
        }
    }
}

/// Adds the tasks of Deno.
fn deno(view: &View<'_>, found: &mut Findings) {
    let Some(file) = view.first("", &["deno.json", "deno.jsonc"]) else { return };
    let Some(value) = view.json(&file) else { return };
    if found.apps.iter().any(|app| app.dir.is_empty()) {
        return;
    }
    let tasks: Option<&Value> = value.get("tasks");
    let task = ["dev", "start", "serve"]
        .into_iter()
        .find(|name| tasks.is_some_and(|tasks| tasks[*name].is_string()));
    let Some(task) = task else { return };
    let line = value["tasks"][task].as_str().unwrap_or_default();
    let mut app = App::web("web", "", format!("deno task {task}"));
    app.framework = Some("Deno");
    app.evidence.push(view.evidence(
        &file,
        &format!("\"{task}\""),
        format!("task `{task}`: {line}"),
    ));
    let files = ports::sources(view, "", &[".ts", ".js", ".tsx"]);
    let named = ports::in_files(view, files.iter().copied());
    app.port = ports::of_command(line).or(named.map(|(port, _)| port)).or(Some(8000));
    found.needs("deno", &app.evidence[0]);
    found.apps.push(app);
}
