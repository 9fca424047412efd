//! Services that compose builds from the repository: run in the worktree, under compose's names.

use crate::{
    Question,
    finding::{App, AppKind, BuiltService, Evidence, Findings, Step},
    text,
    view::View,
};

/// Joins what compose builds with the apps that were found in its folders.
pub(super) fn join(view: &View<'_>, found: &mut Findings, folder: &str) {
    own_images(view, found, folder);
    let mut built = std::mem::take(&mut found.built);
    // Those that name their app take it first, then those that run the same program, then those that would take any.
    built.sort_by_key(|service| {
        let of = |fits: &dyn Fn(&App) -> bool| found.apps.iter().any(fits);
        match () {
            () if of(&|app| app.name == service.name) => 0,
            () if of(&|app| is_same_program(app, service)) => 1,
            () if of(&|app| is_named(&found.apps, app, service)) => 2,
            () => 3,
        }
    });
    let mut taken: Vec<usize> = Vec::new();
    for service in &built {
        if !service.profiles.is_empty() {
            let fact = format!(
                "`{}` is left out: only compose's profile {} has it",
                service.name,
                service.profiles.join(", ")
            );
            found.caveats.push(Evidence { fact, ..service.evidence[0].clone() });
            continue;
        }
        if is_for_tests(service) {
            let fact = format!("`{}` is left out: it only runs tests", service.name);
            found.caveats.push(Evidence { fact, ..service.evidence[0].clone() });
            continue;
        }
        if service.is_task {
            task(view, found, service);
            continue;
        }
        match partner(found, service, &taken) {
            Some(at) => {
                taken.push(at);
                lead(&mut found.apps[at], service);
                // Of two commands for one image, compose's is the one that is used.
                let is_images =
                    found.apps[at].evidence.iter().any(|one| one.fact == "the image's command");
                if let Some(own) = command(view, found, service).filter(|_| is_images) {
                    found.apps[at].run = own.run;
                }
            }
            None => match command(view, found, service) {
                Some(app) => {
                    taken.push(found.apps.len());
                    found.apps.push(app);
                }
                None => ask(found, service),
            },
        }
    }
    found.built = built;
}

/// Takes images that the project itself publishes for what they are made of: the app in the worktree.
fn own_images(view: &View<'_>, found: &mut Findings, folder: &str) {
    if found.apps.is_empty() {
        return;
    }
    let text_of = |value: Option<serde_json::Value>, pointer: &str| {
        value.and_then(|value| value.pointer(pointer)?.as_str().map(text::service_name))
    };
    let names = [
        Some(text::service_name(folder)),
        text_of(view.json("package.json"), "/name"),
        text_of(view.toml("pyproject.toml"), "/project/name"),
        text_of(view.toml("Cargo.toml"), "/package/name"),
    ];
    let (own, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut found.images).into_iter().partition(|image| {
            let short = image.image.rsplit('/').next().unwrap_or_default();
            let short = text::service_name(short.split([':', '@']).next().unwrap_or_default());
            names.iter().flatten().any(|name| *name == short)
        });
    found.images = others;
    for image in own {
        let fact = format!("`{}` runs {}, which is this project's own", image.name, image.image);
        let evidence = Evidence { fact, ..image.evidence[0].clone() };
        found.built.push(BuiltService {
            name: image.name,
            context: String::new(),
            dockerfile: String::new(),
            command: None,
            ports: image.ports,
            env: image.env.into_iter().filter(|one| !is_of_production(one)).collect(),
            health: None,
            needs: image.needs,
            profiles: image.profiles,
            is_task: false,
            evidence: vec![evidence],
        });
    }
}

/// Whether a variable tells a published image that it runs in production; in a sandbox it is developed.
fn is_of_production((name, value): &(String, String)) -> bool {
    (name.ends_with("_ENV") || name.ends_with("ENVIRONMENT"))
        && ["production", "prod"].contains(&value.to_ascii_lowercase().as_str())
}

/// The folder that a service is about: that of its Dockerfile, where the whole repository is its context and this folder
/// has something to run.
fn home<'s>(apps: &[App], service: &'s BuiltService) -> &'s str {
    let folder = text::folder(&service.dockerfile);
    let runs = |app: &App| app.dir == folder || app.dir.starts_with(&format!("{folder}/"));
    match service.context.as_str() {
        "" if apps.iter().any(runs) => folder,
        context => context,
    }
}

fn is_named(apps: &[App], app: &App, service: &BuiltService) -> bool {
    app.name == service.name || !app.dir.is_empty() && app.dir == home(apps, service)
}

/// Whether a service only runs tests, by its name or that of its Dockerfile.
fn is_for_tests(service: &BuiltService) -> bool {
    let words = ["playwright", "cypress", "test", "tests", "e2e", "selenium"];
    let file = text::name(&service.dockerfile);
    let parts = service.name.split('-').chain(file.split(['.', '-', '_']));
    parts.into_iter().any(|part| words.contains(&part.to_ascii_lowercase().as_str()))
}

/// Returns the app that a service runs, of those that no other one has.
fn partner(found: &Findings, service: &BuiltService, taken: &[usize]) -> Option<usize> {
    let home = home(&found.apps, service);
    let inside =
        |app: &App| home.is_empty() || app.dir == home || app.dir.starts_with(&format!("{home}/"));
    let free = |at: &usize| !taken.contains(at) && inside(&found.apps[*at]);
    let candidates: Vec<usize> = (0..found.apps.len()).filter(free).collect();
    let find =
        |fits: &dyn Fn(&App) -> bool| candidates.iter().find(|at| fits(&found.apps[**at])).copied();
    let is_worker = is_worker(service);
    let of_kind = |app: &App| (app.kind == AppKind::Worker) == is_worker;
    let same_program = |app: &App| is_same_program(app, service);
    // In a folder of its own any app of the kind is meant; in the whole repository only what serves, as long as
    // nothing tells it from the others.
    let any = |app: &App| of_kind(app) && (!home.is_empty() || !is_worker);
    find(&|app| app.name == service.name && of_kind(app))
        .or_else(|| find(&same_program))
        .or_else(|| find(&|app| of_kind(app) && has_port_of(app, service)))
        .or_else(|| find(&any))
}

fn is_worker(service: &BuiltService) -> bool {
    service.ports.is_empty() && service.command.is_some()
}

/// Whether an app listens on a port that compose publishes: of several apps in one folder, that is the one in the image.
fn has_port_of(app: &App, service: &BuiltService) -> bool {
    app.port.is_some_and(|port| service.ports.contains(&port))
}

/// Whether compose runs the program that an app is known to be.
fn is_same_program(app: &App, service: &BuiltService) -> bool {
    let of_service = service.command.as_deref().and_then(program);
    (app.kind == AppKind::Worker) == is_worker(service)
        && of_service.is_some()
        && program(&app.run) == of_service
}

/// Returns the program of a command, past what only starts it.
fn program(line: &str) -> Option<String> {
    let words = text::words(line);
    let mut words = words.iter().map(String::as_str).filter(|word| !word.contains('='));
    let mut first = words.next()?;
    while ["uv", "poetry", "pipenv", "pdm", "bundle", "run", "exec", "npx"].contains(&first) {
        first = words.next()?;
    }
    Some(text::name(first).to_owned())
}

/// Gives an app what compose knows of it.
fn lead(app: &mut App, service: &BuiltService) {
    app.name.clone_from(&service.name);
    app.needs.extend(service.needs.clone());
    for (name, value) in &service.env {
        app.env.entry(name.clone()).or_insert_with(|| format!("compose:{value}"));
    }
    if app.kind == AppKind::Web {
        app.port = app.port.or(service.ports.first().copied());
    }
    if app.health.is_none() {
        app.health.clone_from(&service.health);
    }
    app.evidence.extend(service.evidence.clone());
}

/// Programs that the environment of a project brings.
const OF_PYTHON: [&str; 12] = [
    "python",
    "python3",
    "gunicorn",
    "uvicorn",
    "flask",
    "celery",
    "rq",
    "streamlit",
    "fastapi",
    "hypercorn",
    "daphne",
    "huey_consumer",
];

/// Makes an app of compose's own command, if that can run outside of the image.
fn command(view: &View<'_>, found: &Findings, service: &BuiltService) -> Option<App> {
    let line = service.command.as_ref()?;
    let first = text::words(line).into_iter().next()?;
    if first.starts_with('/') || first.starts_with("..") || first.contains("docker") {
        return None;
    }
    let dir = home(&found.apps, service);
    let managers = ["pip", "uv", "poetry", "pipenv", "pdm"];
    let script = script(line);
    // A script that only the image has.
    if script.as_ref().is_some_and(|file| !view.has(&text::join(dir, file))) {
        return None;
    }
    let is_python = OF_PYTHON.contains(&first.as_str()) || script.is_some();
    let install = found.install_for(dir, &managers).filter(|_| is_python);
    let run = match install.map(|install| (install.manager, &install.dir)) {
        Some(("pip", of)) => {
            let depth = |dir: &str| dir.split('/').filter(|part| !part.is_empty()).count();
            let up = "../".repeat(depth(dir) - depth(of));
            match script {
                Some(_) => format!("PATH=\"$PWD/{up}.venv/bin:$PATH\" {line}"),
                None => format!("{up}.venv/bin/{line}"),
            }
        }
        Some((manager, _)) => format!("{manager} run {line}"),
        None => line.clone(),
    };
    let mut app = match service.ports.first() {
        Some(port) => App { port: Some(*port), ..App::web(&service.name, dir, run) },
        None => App::worker(&service.name, dir, run),
    };
    lead(&mut app, service);
    Some(app)
}

/// Returns the script that a shell runs.
fn script(line: &str) -> Option<String> {
    let words = text::words(line);
    match words.as_slice() {
        [shell, file, ..] if ["sh", "bash"].contains(&shell.as_str()) && !file.starts_with('-') => {
            Some(file.clone())
        }
        [file, ..] if file.ends_with(".sh") => Some(file.trim_start_matches("./").to_owned()),
        _ => None,
    }
}

/// Makes a task of what compose waits for to end.
fn task(view: &View<'_>, found: &mut Findings, service: &BuiltService) {
    match command(view, found, service) {
        Some(app) => found.migrations.push(Step {
            name: service.name.clone(),
            dir: app.dir,
            run: app.run,
            evidence: service.evidence.clone(),
        }),
        None => ask(found, service),
    }
}

fn ask(found: &mut Findings, service: &BuiltService) {
    let name = &service.name;
    found.questions.push(Question {
        id: format!("run-{name}"),
        text: match service.dockerfile.as_str() {
            "" => format!("Which command runs `{name}` in the worktree? Compose does not say."),
            file => format!("Which command runs `{name}` in the worktree? Compose builds it from {file}, and nothing there tells."),
        },
        until_then: "it is left out".to_owned(),
        key: Some(format!("service.{name}.run")),
        answer: None,
        evidence: service.evidence.clone(),
    });
}
