//! Turns findings into a draft: what runs, in which order, with which settings, and what is left to ask.

mod built;
mod environment;
mod external;
mod harmless;
pub(crate) use harmless::is_secret_name;
mod loads;
mod missing;
mod questions;
mod stores;
mod toolchains;
mod versions;

use std::collections::BTreeSet;

use crate::{
    draft::{Draft, DraftReady, DraftSeed, DraftService, DraftWork},
    finding::{App, AppKind, Evidence, Findings, Install},
    host::HostFacts,
    text,
    view::View,
};

/// The maximum number of apps in a draft.
const APPS_MOST: usize = 24;

/// Dependency folders that are always copied, without being listed.
const USUAL_DEPS: [&str; 3] = ["node_modules", ".venv", "target"];

/// Drafts a configuration.
pub(crate) fn decide(
    view: &View<'_>,
    mut found: Findings,
    host: &HostFacts,
    folder: &str,
) -> Draft {
    built::join(view, &mut found, folder);
    let mut draft = Draft { name: text::service_name(folder), ..Draft::default() };
    stores::decide(&mut found, host, &mut draft);
    let mut installs = installs(&found.installs, &mut draft);
    files(&found, &mut installs, &mut draft);
    name_apps(&mut found.apps, &draft);
    settle_ports(view, &mut found.apps, &draft);
    let loads = loads::decide(&found, &mut draft);
    let mut migrations = migrations(&found, &installs, &loads, &mut draft);
    migrations.extend(loads.into_iter().map(|name| (String::new(), name)));
    apps(&found, &installs, &migrations, &mut draft);
    builds(&found, &mut draft);
    seeds(&found, &mut draft);
    environment::fill(&found, &mut draft);
    external::integrations(&found, &mut draft);
    missing::decide(&found, host, &mut draft);
    versions::decide(&found, host, &mut draft);
    toolchains::settle_rust(&found, host, &mut draft);
    tell(view, &found, &mut draft);
    questions::ask(&found, &mut draft);
    // What tasks share with their app may refer to its port.
    for service in draft.services.iter_mut().filter(|service| service.port.is_none()) {
        if matches!(service.work, DraftWork::Run { .. }) {
            service.env.retain(|_, value| !value.contains("{port}"));
        }
    }
    for question in &mut draft.questions {
        question.id = text::service_name(&question.id);
    }
    draft
}

/// Creates a service for a command.
fn service(name: &str, dir: &str, run: &str, task: bool, evidence: &[Evidence]) -> DraftService {
    DraftService {
        name: name.to_owned(),
        work: DraftWork::Run { run: run.to_owned(), task },
        dir: dir.to_owned(),
        port: None,
        ports: Vec::new(),
        needs: Vec::new(),
        ready: None,
        url: false,
        env: Default::default(),
        note: None,
        evidence: evidence.to_vec(),
    }
}

/// Adds a task for each dependency folder, and the command of `fork --setup`. Returns folders with their tasks.
fn installs(all: &[Install], draft: &mut Draft) -> Vec<(String, String)> {
    let mut tasks = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let mut deps: BTreeSet<String> = BTreeSet::new();
    let filling: Vec<&Install> = all.iter().filter(|install| !install.fills.is_empty()).collect();
    for install in all {
        let line = match install.dir.as_str() {
            "" => install.run.clone(),
            dir if install.run.contains("||") => {
                format!("(cd {} && {{ {}; }})", text::shell_word(dir), install.run)
            }
            dir => format!("(cd {} && {})", text::shell_word(dir), install.run),
        };
        let line = if line.contains("||") && install.dir.is_empty() {
            format!("{{ {line}; }}")
        } else {
            line
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
        deps.extend(install.fills.iter().map(|folder| text::join(&install.dir, folder)));
        draft.managers.push((
            format!("{} in {}", install.manager, shown(&install.dir)),
            install.evidence.clone(),
        ));
    }
    for install in &filling {
        let name = match (filling.len(), install.dir.as_str()) {
            (1, _) => "install".to_owned(),
            (_, "") => format!("install-{}", install.manager),
            (_, dir) => text::service_name(&format!("install-{}", dir.replace('/', "-"))),
        };
        let name = free(&name, |name| draft.services.iter().any(|service| service.name == name));
        let mut task = service(&name, &install.dir, &install.run, true, &install.evidence);
        task.note = Some("dependencies; does nothing where they are there already".to_owned());
        draft.services.push(task);
        tasks.push((install.dir.clone(), name));
    }
    draft.setup = match lines.as_slice() {
        [] => None,
        [one] => Some(
            one.strip_prefix("{ ")
                .and_then(|line| line.strip_suffix("; }"))
                .unwrap_or(one)
                .to_owned(),
        ),
        many => Some(many.join(" && ")),
    };
    if deps.iter().any(|folder| !USUAL_DEPS.contains(&folder.as_str())) {
        draft.deps = deps.into_iter().collect();
    }
    tasks
}

/// Adds a task for each file that commands require; everything that runs in its folder waits for it.
fn files(found: &Findings, tasks: &mut Vec<(String, String)>, draft: &mut Draft) {
    for step in &found.files {
        let name = free(&step.name, |name| {
            draft.services.iter().any(|service| service.name == name)
                || found.apps.iter().any(|app| app.name == name)
        });
        draft.services.push(service(&name, &step.dir, &step.run, true, &step.evidence));
        tasks.push((step.dir.clone(), name));
    }
}

fn shown(dir: &str) -> &str {
    if dir.is_empty() { "the root" } else { dir }
}

/// Returns an unused name.
fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(name) {
        return name.to_owned();
    }
    let short: String = name.chars().take(36).collect();
    (2..)
        .map(|number| format!("{short}-{number}"))
        .find(|name| !is_taken(name))
        .expect("numbers do not end")
}

/// Gives each app a unique name; a single one at the root is `web`.
fn name_apps(apps: &mut Vec<App>, draft: &Draft) {
    apps.truncate(APPS_MOST);
    // An asset server of a framework is not the app.
    let of_frameworks: Vec<String> = apps
        .iter()
        .filter(|app| {
            matches!(app.framework, Some("Laravel" | "Rails" | "Django" | "Symfony" | "Phoenix"))
        })
        .map(|app| app.dir.clone())
        .collect();
    for app in apps.iter_mut().filter(|app| app.framework == Some("Vite")) {
        if app.name == "web" && of_frameworks.contains(&app.dir) {
            app.name = "assets".to_owned();
        }
    }
    for at in 0..apps.len() {
        let (before, rest) = apps.split_at_mut(at);
        let app = &mut rest[0];
        let is_taken = |name: &str| {
            before.iter().any(|other| other.name == name)
                || draft.services.iter().any(|service| service.name == name)
        };
        if is_taken(&app.name) {
            let longer = text::service_name(&app.dir.replace('/', "-"));
            app.name = free(if app.dir.is_empty() { &app.name } else { &longer }, is_taken);
        }
    }
}

/// Returns the ports of a service, including the usual one of a recipe.
fn ports_of(service: &DraftService) -> impl Iterator<Item = u16> {
    let usual = match &service.work {
        DraftWork::Recipe { kind, .. } => Some(kind.port()),
        _ => None,
    };
    service.port.or(usual).into_iter().chain(service.ports.clone())
}

/// Resolves conflicts between ports of apps: those whose port is fixed keep it, others move.
fn settle_ports(view: &View<'_>, apps: &mut [App], draft: &Draft) {
    let mut taken: BTreeSet<u16> = draft.services.iter().flat_map(ports_of).collect();
    let shared = |app: &App, apps: &[App]| {
        apps.iter().filter(|other| other.port.is_some() && other.port == app.port).count() > 1
    };
    let is_movable: Vec<bool> = apps
        .iter()
        .map(|app| shared(app, apps) && takes_port(view, &mut app.clone()).is_some())
        .collect();
    let (movable, fixed): (Vec<usize>, Vec<usize>) =
        (0..apps.len()).partition(|at| is_movable[*at]);
    for at in fixed.into_iter().chain(movable) {
        let app = &mut apps[at];
        let Some(port) = app.port else { continue };
        if taken.insert(port) {
            continue;
        }
        let other = (port + 1..).find(|port| !taken.contains(port)).unwrap_or(port);
        if takes_port(view, app).is_some() {
            (app.port, app.moved_from) = (Some(other), Some(port));
            taken.insert(other);
        } else {
            (app.port, app.clash) = (None, Some(port));
        }
    }
}

/// Returns the variable that an app's source takes its port from.
fn port_variable(view: &View<'_>, app: &App) -> Option<String> {
    let of_port = |fact: &str| fact.starts_with("it listens on") || fact.starts_with("it exposes");
    let mut places = app.evidence.iter().filter(|one| of_port(&one.fact));
    let named = places.find_map(|one| {
        let source = view.text(&one.file)?;
        crate::read::port_variable(&source, one.line)
    });
    let of_command = || {
        text::words(&app.run).iter().find_map(|word| {
            crate::read::port_variable(&view.text(&text::join(&app.dir, word))?, 0)
        })
    };
    named.or_else(of_command)
}

/// Makes an app listen on the port that it is given, if it can; adds a flag or a variable for that.
fn takes_port(view: &View<'_>, app: &mut App) -> Option<()> {
    const BY_VARIABLE: [&str; 14] = [
        "Next.js",
        "Create React App",
        "Nuxt",
        "NestJS",
        "Express",
        "Fastify",
        "Koa",
        "Hono",
        "Strapi",
        "Remix",
        "Gatsby",
        "hapi",
        "Rails",
        "Phoenix",
    ];
    if app.run.contains("{port}") {
        return Some(());
    }
    // `PORT=3000` in the command itself.
    if crate::read::port_of_command(&app.run).is_some() {
        return None;
    }
    if let Some(name) = port_variable(view, app) {
        // `PORT` is always set.
        if name != "PORT" {
            app.env.insert(name, "{port}".to_owned());
        }
        return Some(());
    }
    if app.framework.is_some_and(|name| BY_VARIABLE.contains(&name)) {
        return Some(());
    }
    const BY_FLAG: [&str; 10] = [
        "Vite",
        "Astro",
        "SvelteKit",
        "React Router",
        "Angular",
        "Vue CLI",
        "Docusaurus",
        "VitePress",
        "Qwik",
        "Wrangler",
    ];
    if app.framework.is_some_and(|name| BY_FLAG.contains(&name)) {
        let dashes = if app.run.starts_with("npm ") { " --" } else { "" };
        app.run = format!("{}{dashes} --port {{port}}", app.run);
        return Some(());
    }
    None
}

/// Adds migrations. Returns folders with their tasks.
fn migrations(
    found: &Findings,
    installs: &[(String, String)],
    loads: &[String],
    draft: &mut Draft,
) -> Vec<(String, String)> {
    let stores: Vec<String> = store_names(draft).into_iter().chain(loads.iter().cloned()).collect();
    let mut tasks = Vec::new();
    for step in &found.migrations {
        let name = free(&step.name, |name| {
            draft.services.iter().any(|service| service.name == name)
                || found.apps.iter().any(|app| app.name == name)
        });
        let mut task = service(&name, &step.dir, &step.run, true, &step.evidence);
        task.needs = needed(installs, &step.dir).into_iter().chain(stores.clone()).collect();
        draft.services.push(task);
        tasks.push((step.dir.clone(), name));
    }
    tasks
}

fn store_names(draft: &Draft) -> Vec<String> {
    // Images that store nothing are needed only by those that say so.
    let is_store = |service: &&DraftService| match &service.work {
        DraftWork::Recipe { .. } => true,
        DraftWork::Image { image, .. } => crate::read::kind_of(image).is_some(),
        DraftWork::Run { .. } => false,
    };
    draft.services.iter().filter(is_store).map(|service| service.name.clone()).collect()
}

/// Returns the tasks that a folder needs: its own and those above it; for the root also those below.
fn needed(tasks: &[(String, String)], dir: &str) -> Vec<String> {
    let is_related = |folder: &str| {
        folder == dir
            || folder.is_empty()
            || dir.is_empty()
            || dir.starts_with(&format!("{folder}/"))
    };
    tasks.iter().filter(|(folder, _)| is_related(folder)).map(|(_, name)| name.clone()).collect()
}

fn apps(
    found: &Findings,
    installs: &[(String, String)],
    migrations: &[(String, String)],
    draft: &mut Draft,
) {
    let stores = store_names(draft);
    let names: BTreeSet<String> = found
        .apps
        .iter()
        .map(|app| &app.name)
        .chain(draft.services.iter().map(|one| &one.name))
        .cloned()
        .collect();
    let is_known = |name: &String| names.contains(name);
    for app in &found.apps {
        let mut service = service(&app.name, &app.dir, &app.run, false, &app.evidence);
        // Migrations of all folders come first: a front end is of little use without data.
        let of_data = migrations.iter().map(|(_, name)| name.clone());
        let declared =
            app.needs.iter().filter(|name| is_known(name) && **name != app.name).cloned();
        let all = needed(installs, &app.dir)
            .into_iter()
            .chain(of_data)
            .chain(stores.clone())
            .chain(declared);
        let mut seen = BTreeSet::new();
        service.needs = all.filter(|name| seen.insert(name.clone())).collect();
        service.port = app.port;
        service.env = app.env.clone();
        if app.kind == AppKind::Web && app.port.is_some() {
            service.url = true;
            service.ready = app.health.clone().map(DraftReady::Http).or(Some(DraftReady::Tcp));
        }
        draft.services.push(service);
        draft
            .frameworks
            .extend(app.framework.map(|framework| (app.name.clone(), framework.to_owned())));
    }
    break_circles(draft);
}

/// Adds a build task before each service that would otherwise compile for minutes on first start; `up` waits for it.
fn builds(found: &Findings, draft: &mut Draft) {
    for at in (0..draft.services.len()).rev() {
        let app = &draft.services[at];
        let DraftWork::Run { run, task: false } = &app.work else { continue };
        let of_cargo = || {
            let rest = run.strip_prefix("cargo run")?;
            Some(format!("cargo build{}", rest.split(" -- ").next().unwrap_or(rest)))
        };
        let known = found.apps.iter().find(|known| known.name == app.name && known.run == *run);
        let Some(build) = known.and_then(|known| known.build.clone()).or_else(of_cargo) else {
            continue;
        };
        let name = free(&text::service_name(&format!("{}-build", app.name)), |name| {
            draft.services.iter().any(|service| service.name == name)
        });
        let mut task = service(&name, &app.dir, &build, true, &app.evidence);
        task.needs.clone_from(&app.needs);
        task.env.clone_from(&app.env);
        task.note = Some("compiles what the next service runs".to_owned());
        draft.services[at].needs.push(name);
        draft.services.insert(at, task);
    }
}

/// Removes dependencies from compose files that became circular when others were added.
fn break_circles(draft: &mut Draft) {
    let order: Vec<String> = draft.services.iter().map(|service| service.name.clone()).collect();
    let place = |name: &str| order.iter().position(|known| known == name).unwrap_or(0);
    let apps: BTreeSet<String> = draft
        .services
        .iter()
        .filter(|service| matches!(service.work, DraftWork::Run { task: false, .. }))
        .map(|service| service.name.clone())
        .collect();
    let leads_back = |draft: &Draft, from: &str, to: &str| {
        let (mut waiting, mut seen) = (vec![from.to_owned()], BTreeSet::new());
        while let Some(name) = waiting.pop() {
            if name == to {
                return true;
            }
            if seen.insert(name.clone()) {
                waiting.extend(
                    draft
                        .services
                        .iter()
                        .filter(|service| service.name == name)
                        .flat_map(|service| service.needs.clone()),
                );
            }
        }
        false
    };
    for at in 0..draft.services.len() {
        let name = draft.services[at].name.clone();
        let needs = draft.services[at].needs.clone();
        let circular: Vec<String> = needs
            .into_iter()
            .filter(|need| {
                apps.contains(need) && place(need) > place(&name) && leads_back(draft, need, &name)
            })
            .collect();
        draft.services[at].needs.retain(|need| !circular.contains(need));
    }
}

fn seeds(found: &Findings, draft: &mut Draft) {
    for step in &found.seeds {
        let service = found
            .apps
            .iter()
            .find(|app| app.dir == step.dir && app.framework != Some("Vite"))
            .or(found.apps.first())
            .map(|app| app.name.clone());
        let name = free(&step.name, |name| draft.seeds.iter().any(|seed| seed.name == name));
        draft.seeds.push(DraftSeed {
            name,
            run: step.run.clone(),
            dir: step.dir.clone(),
            service,
            evidence: step.evidence.clone(),
        });
    }
}

/// Copies findings that only appear in the plan.
fn tell(view: &View<'_>, found: &Findings, draft: &mut Draft) {
    draft.queues = found.queues.clone();
    draft.checks = found
        .checks
        .iter()
        .map(|step| {
            let run = if step.dir.is_empty() {
                step.run.clone()
            } else {
                format!("cd {} && {}", step.dir, step.run)
            };
            (run, step.evidence[0].clone())
        })
        .collect();
    draft.state.extend(found.state.clone());
    let is_data =
        |path: &&str| [".sqlite", ".sqlite3", ".db"].iter().any(|ending| path.ends_with(ending));
    draft.state.extend(view.paths().filter(is_data).take(10).map(|path| Evidence {
        file: path.to_owned(),
        line: 0,
        fact: "a database in a file; if it is tracked, every fork has its own copy".to_owned(),
    }));
    draft.pins = found
        .pins
        .iter()
        .map(|pin| (pin.program.to_owned(), pin.version.clone(), pin.evidence.clone()))
        .collect();
    draft.caveats.extend(found.caveats.iter().map(ToString::to_string));
    draft.caveats.extend(crate::read::absent(view));
    draft.notes = view.notes();
}
