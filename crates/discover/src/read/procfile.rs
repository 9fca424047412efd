//! Procfiles: processes that run together, by name.

use super::ports;
use crate::{
    finding::{App, AppKind, Certainty, Evidence, Findings, Step, Store, StoreKind},
    text,
    view::View,
};

/// Servers replaced by a store: its recipe has its own data, and no port of the host.
const STORES: [(&str, StoreKind); 9] = [
    ("redis-server", StoreKind::Redis),
    ("valkey-server", StoreKind::Redis),
    ("postgres", StoreKind::Postgres),
    ("mysqld", StoreKind::Mysql),
    ("memcached", StoreKind::Memcached),
    ("mongod", StoreKind::Mongo),
    ("mailpit", StoreKind::Mail),
    ("mailhog", StoreKind::Mail),
    ("maildev", StoreKind::Mail),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let Some(file) =
        view.first("", &["Procfile.dev", "Procfile.development", "Procfile.local", "Procfile"])
    else {
        return;
    };
    let Some(source) = view.text(&file) else { return };
    let is_for_development = file != "Procfile";
    let entries: Vec<(usize, String, String)> =
        source.lines().enumerate().filter_map(|(at, line)| entry(at, line)).take(40).collect();
    if entries.is_empty() {
        return;
    }
    // A production command has lower precedence than a framework's development command.
    let root: Vec<App> = found.apps.iter().filter(|app| app.dir.is_empty()).cloned().collect();
    if is_for_development {
        found.apps.retain(|app| !app.dir.is_empty());
    }
    for (line, name, run) in entries {
        let evidence = Evidence { file: file.clone(), line, fact: format!("{name}: {run}") };
        let program = run.split_whitespace().next().map(text::name).unwrap_or_default();
        if let Some((_, kind)) = STORES.iter().find(|(known, _)| *known == program) {
            let mut store = Store::new(*kind, Certainty::Declared, evidence);
            store.name = Some(text::service_name(&name));
            found.store(store);
            continue;
        }
        // Containers have their own file, which is read separately.
        if program == "docker" || program == "docker-compose" {
            continue;
        }
        if name == "release" {
            let known = found.migrations.iter().any(|step| step.dir.is_empty());
            if !known {
                let run = ran(found, &run);
                found.migrations.push(Step {
                    name: "migrate".to_owned(),
                    dir: String::new(),
                    run,
                    evidence: vec![evidence],
                });
            }
            continue;
        }
        if !is_for_development
            && (name == "web" && !root.is_empty() || root.iter().any(|app| app.name == name))
        {
            continue;
        }
        let like = root.iter().find(|app| app.kind == AppKind::Web).filter(|_| name == "web");
        let port = ports::of_command(&run)
            .or(like.and_then(|app| app.port))
            .or((name == "web").then_some(5000));
        // A worker may be given a port that it does not use.
        let words = text::words(&run);
        let is_worker = words.iter().any(|word| WORKERS.contains(&text::name(word)));
        let serves = !is_worker
            && (name == "web"
                || port.is_some()
                || ["api", "server", "frontend", "app", "vite", "client"].contains(&name.as_str()));
        let mut app = App::web(&text::service_name(&name), "", ran(found, &run));
        if !serves {
            app.kind = AppKind::Worker;
        }
        app.port = port.filter(|_| serves);
        app.framework = like.and_then(|app| app.framework);
        app.health = like.and_then(|app| app.health.clone());
        app.env = like.map(|app| app.env.clone()).unwrap_or_default();
        app.evidence.push(evidence);
        app.evidence.extend(like.iter().flat_map(|app| app.evidence.clone()));
        found.apps.push(app);
    }
}

/// Programs that take jobs from a queue.
const WORKERS: [&str; 7] =
    ["sidekiq", "celery", "rq", "resque", "good_job", "solid_queue", "delayed_job"];

fn entry(at: usize, line: &str) -> Option<(usize, String, String)> {
    let line = line.trim();
    let (name, run) = line.split_once(':').filter(|_| !line.starts_with('#'))?;
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    is_name
        .then(|| (at + 1, name.to_owned(), run.trim().to_owned()))
        .filter(|(_, _, run)| !run.is_empty())
}

/// Adapts a Python command so that it finds the project's packages.
fn ran(found: &Findings, run: &str) -> String {
    let uses = |managers: &[&str]| {
        found
            .installs
            .iter()
            .any(|install| install.dir.is_empty() && managers.contains(&install.manager))
    };
    let first = run.split_whitespace().next().unwrap_or_default();
    let is_plain = super::python::is_program(first) && !run.contains("&&") && !run.contains(';');
    if is_plain && uses(&["pip"]) {
        return format!(".venv/bin/{run}");
    }
    let names_one = text::words(run).iter().any(|word| super::python::is_program(word));
    match names_one && uses(&["pip", "uv", "poetry", "pipenv", "pdm"]) {
        true => format!("export PATH=\"$PWD/.venv/bin:$PATH\"; {run}"),
        false => run.to_owned(),
    }
}
