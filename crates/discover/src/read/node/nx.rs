//! Apps of Nx: projects with a target that serves, declared in `project.json` or inferred by a plugin from the config of
//! a tool.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Manager, Package, framework, ports};
use crate::{finding::App, text, view::View};

/// Tools whose plugins infer a target: the beginning of their config's name, the option that names the target, its usual
/// name, and the port.
const INFERRED: [(&str, &str, &str, u16); 6] = [
    ("next", "devTargetName", "dev", 3000),
    ("nuxt", "serveTargetName", "serve", 3000),
    ("vite", "serveTargetName", "serve", 4200),
    ("webpack", "serveTargetName", "serve", 4200),
    ("rspack", "serveTargetName", "serve", 4200),
    ("rsbuild", "devTargetName", "dev", 3000),
];

/// Parts of executors that serve pages.
const SERVERS: [&str; 7] =
    [":dev-server", ":server", "/vite:", "/webpack:", "/rspack:", "/next:", ":module-federation-"];

/// How a project is served.
struct Served {
    target: String,
    port: Option<u16>,
    /// Whether it takes the port as a flag.
    takes_flag: bool,
}

/// Returns the apps of projects in folders without a known one.
pub(super) fn apps(
    view: &View<'_>,
    root: &Package,
    manager: &Manager,
    known: &BTreeSet<&str>,
) -> Vec<App> {
    let Some(nx) = view.json("nx.json") else { return Vec::new() };
    let files = view.named(&["project.json"]);
    let files = files.iter().filter(|path| {
        let dir = text::folder(path);
        !known.contains(dir) && !super::super::is_aside(dir)
    });
    files.filter_map(|path| app(view, root, manager, &nx, path)).collect()
}

fn app(view: &View<'_>, root: &Package, manager: &Manager, nx: &Value, path: &str) -> Option<App> {
    let (dir, project) = (text::folder(path), view.json(path)?);
    let name = project["name"].as_str().unwrap_or(text::name(dir));
    if project["projectType"] == "library" || name.ends_with("-e2e") {
        return None;
    }
    let served = declared(view, root, &project, dir).or_else(|| inferred(view, nx, dir))?;
    let configured = framework::configured(view, dir);
    let source = ports::sources(view, dir, &[".ts", ".js", ".mjs"]);
    let in_source = || ports::in_files(view, source.into_iter());
    let flag = if served.takes_flag { " --port {port}" } else { "" };
    let line = format!("nx run {}:{}{flag}", text::shell_word(name), served.target);
    // Its commands run in the root.
    let mut app = App::web(&text::service_name(name), "", manager.exec(&line));
    let fact = format!("Nx serves `{name}` by its target `{}`", served.target);
    app.evidence.push(view.evidence(path, &format!("\"{}\"", served.target), fact));
    let found = match served.port {
        None => in_source(),
        Some(_) => configured,
    };
    app.port = found.as_ref().map(|(port, _)| *port).or(served.port);
    app.evidence.extend(found.map(|(_, evidence)| evidence));
    Some(app)
}

/// Returns the target that `project.json` declares.
fn declared(view: &View<'_>, root: &Package, project: &Value, dir: &str) -> Option<Served> {
    let targets = project["targets"].as_object()?;
    let name = ["serve", "dev", "start"].into_iter().find(|name| targets.contains_key(*name))?;
    let (target, options) = (&targets[name], &targets[name]["options"]);
    let executor = target["executor"].as_str().unwrap_or_default();
    let port = options["port"].as_u64().and_then(|port| port.try_into().ok());
    let command = target["command"].as_str().or(options["command"].as_str());
    let served = |port, takes_flag| Some(Served { target: name.to_owned(), port, takes_flag });
    if let Some(line) = command {
        let usual = || framework::of(view, root, line).and_then(|known| known.port);
        return served(port.or_else(|| ports::of_command(line)).or_else(usual), false);
    }
    if executor.ends_with(":node") || executor.ends_with(":execute") {
        return served(port, false);
    }
    let usual = if executor.contains("next") { 3000 } else { 4200 };
    let is_server = SERVERS.iter().any(|part| executor.contains(part));
    let is_own =
        executor.is_empty() && (port.is_some() || framework::configured(view, dir).is_some());
    (is_server || is_own).then_some(())?;
    served(port.or(Some(usual)), is_server)
}

/// Returns the target that a plugin infers from the config of its tool.
fn inferred(view: &View<'_>, nx: &Value, dir: &str) -> Option<Served> {
    let plugins = nx["plugins"].as_array()?;
    INFERRED.iter().find_map(|(tool, option, usual, port)| {
        let named = |plugin: &&Value| {
            let name = plugin.as_str().or(plugin["plugin"].as_str()).unwrap_or_default();
            name.split('/').any(|part| part == *tool)
        };
        let plugin = plugins.iter().find(named)?;
        let configs = ["js", "mjs", "cjs", "ts", "mts"].map(|end| format!("{tool}.config.{end}"));
        view.first(dir, &configs.each_ref().map(String::as_str))?;
        let target = plugin["options"][option].as_str().unwrap_or(usual);
        Some(Served { target: target.to_owned(), port: Some(*port), takes_flag: true })
    })
}
