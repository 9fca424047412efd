//! Services that compose builds from the repository: run in the worktree, under their compose names.

use crate::{
    Question,
    finding::{App, AppKind, BuiltService, Evidence, Findings, ImageService, Step},
    read::{OF_IMAGE, found_from},
    text,
    view::View,
};

/// Matches services that compose builds with the apps found in their folders.
pub(super) fn join(view: &View<'_>, found: &mut Findings, folder: &str) {
    own_images(view, found, folder);
    let mut built = std::mem::take(&mut found.built);
    // Services named like their app choose first, then those that run the same program, then those that accept any app.
    built.sort_by_key(|service| {
        let of = |fits: &dyn Fn(&App) -> bool| found.apps.iter().any(fits);
        match () {
            () if of(&|app| app.name == service.name) => 0,
            () if of(&|app| is_same_program(view, app, service)) => 1,
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
        match partner(view, found, service, &taken) {
            Some(at) => {
                taken.push(at);
                lead(&mut found.apps[at], service);
                // If an image also has a command, compose's command takes precedence.
                let is_images =
                    found.apps[at].evidence.iter().any(|one| one.fact == "the image's command");
                // A worker's own script knows more than its framework: queues, and restart rules.
                let is_script =
                    is_worker(service) && own_script(view, &found.apps, service).is_some();
                if let Some(own) = command(view, found, service).filter(|_| is_images || is_script)
                {
                    (found.apps[at].run, found.apps[at].dir) = (own.run, own.dir);
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

/// Treats images that the project itself publishes as what they contain: the app in the worktree.
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
    // The image of a part is named like its folder, or like the project and its folder.
    let parts: Vec<(String, String)> = found
        .apps
        .iter()
        .filter(|app| !app.dir.is_empty())
        .map(|app| (text::service_name(text::name(&app.dir)), app.dir.clone()))
        .collect();
    let home = |image: &ImageService| {
        let short = image.image.rsplit('/').next().unwrap_or_default();
        let short = text::service_name(short.split([':', '@']).next().unwrap_or_default());
        if names.iter().flatten().any(|name| *name == short) {
            return Some(String::new());
        }
        let is_part = |part: &str| {
            part == short && part.contains('-')
                || names.iter().flatten().any(|name| short == format!("{name}-{part}"))
        };
        parts.iter().find(|(part, _)| is_part(part)).map(|(_, dir)| dir.clone())
    };
    let (own, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut found.images).into_iter().partition(|image| home(image).is_some());
    found.images = others;
    for image in own {
        let context = home(&image).unwrap_or_default();
        let fact = format!("`{}` runs {}, which is this project's own", image.name, image.image);
        let evidence = Evidence { fact, ..image.evidence[0].clone() };
        found.built.push(BuiltService {
            name: image.name,
            context,
            dockerfile: String::new(),
            home: None,
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

/// Whether a variable puts a published image in production mode; a sandbox is for development.
fn is_of_production((name, value): &(String, String)) -> bool {
    (name.ends_with("_ENV") || name.ends_with("ENVIRONMENT"))
        && ["production", "prod"].contains(&value.to_ascii_lowercase().as_str())
}

/// Returns the folder of a service: that of its Dockerfile if the whole repository is the build context and the folder
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

/// Whether a service only runs tests, judging by its name or that of its Dockerfile.
fn is_for_tests(service: &BuiltService) -> bool {
    let words = ["playwright", "cypress", "test", "tests", "e2e", "selenium"];
    let file = text::name(&service.dockerfile);
    // What publishes a port serves something, such as `laravel.test`.
    let named = service.name.split('-').filter(|_| service.ports.is_empty());
    let mut parts = named.chain(file.split(['.', '-', '_']));
    parts.any(|part| words.contains(&part.to_ascii_lowercase().as_str()))
}

/// Returns the app that a service runs, among those not matched yet.
fn partner(
    view: &View<'_>,
    found: &Findings,
    service: &BuiltService,
    taken: &[usize],
) -> Option<usize> {
    let home = home(&found.apps, service);
    let inside =
        |app: &App| home.is_empty() || app.dir == home || app.dir.starts_with(&format!("{home}/"));
    let free = |at: &usize| !taken.contains(at) && inside(&found.apps[*at]);
    let candidates: Vec<usize> = (0..found.apps.len()).filter(free).collect();
    let find =
        |fits: &dyn Fn(&App) -> bool| candidates.iter().find(|at| fits(&found.apps[**at])).copied();
    let is_worker = is_worker(service);
    let of_kind = |app: &App| (app.kind == AppKind::Worker) == is_worker;
    let same_program = |app: &App| is_same_program(view, app, service);
    // In a folder of its own, a service matches any app of its kind; in the whole repository only a server does, unless
    // something more specific matches.
    let any = |app: &App| of_kind(app) && (!home.is_empty() || !is_worker);
    find(&|app| app.name == service.name && of_kind(app))
        .or_else(|| find(&same_program))
        .or_else(|| find(&|app| of_kind(app) && has_port_of(app, service)))
        // Sail's `laravel.test` is not the server of its assets.
        .or_else(|| find(&|app| any(app) && app.framework != Some("Vite")))
        .or_else(|| find(&any))
}

fn is_worker(service: &BuiltService) -> bool {
    service.ports.is_empty() && service.command.is_some()
}

/// Whether an app listens on a port that compose publishes: among several apps in a folder, that one is in the image.
fn has_port_of(app: &App, service: &BuiltService) -> bool {
    app.port.is_some_and(|port| service.ports.contains(&port))
}

/// Whether compose runs the same program as an app, directly or through a script.
fn is_same_program(view: &View<'_>, app: &App, service: &BuiltService) -> bool {
    if (app.kind == AppKind::Worker) != is_worker(service) {
        return false;
    }
    let of_service = service.command.as_deref().and_then(program);
    if of_service.is_some() && program(&app.run) == of_service {
        return true;
    }
    let script = own_script(view, std::slice::from_ref(app), service);
    let source = script.and_then(|path| view.text(&path));
    source.is_some_and(|source| starts_same(&source, &app.run))
}

/// The roles of Celery's programs, by subcommand.
const ROLES: [&str; 4] = ["worker", "beat", "flower", "multi"];

/// Whether a line of a script starts the program of a command, in the same role.
fn starts_same(source: &str, run: &str) -> bool {
    let role = |words: &[String]| ROLES.into_iter().find(|role| words.iter().any(|w| w == role));
    let (words, wanted) = (text::words(run), program(run));
    let (Some(wanted), Some(part)) = (wanted, role(&words)) else { return false };
    let lines = source.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.take(200).any(|line| {
        // File watchers get the whole command as one word.
        let words: Vec<String> =
            line.split_whitespace().map(|w| w.replace(['\'', '"'], "")).collect();
        words.iter().any(|word| text::name(word) == wanted) && role(&words) == Some(part)
    })
}

/// Returns the repository's script that a service starts.
fn own_script(view: &View<'_>, apps: &[App], service: &BuiltService) -> Option<String> {
    let dir = home(apps, service);
    let file = script(view, dir, service.command.as_deref()?)?;
    Some(text::join(dir, &file)).filter(|path| view.has(path))
}

/// Returns the program of a command, without its launchers.
fn program(line: &str) -> Option<String> {
    let words = text::words(line);
    let mut words = words.iter().map(String::as_str).filter(|word| !word.contains('='));
    let mut first = words.next()?;
    while ["uv", "poetry", "pipenv", "pdm", "bundle", "run", "exec", "npx"].contains(&first) {
        first = words.next()?;
    }
    Some(text::name(first).to_owned())
}

/// Applies compose's settings to an app.
fn lead(app: &mut App, service: &BuiltService) {
    app.name.clone_from(&service.name);
    app.needs.extend(service.needs.clone());
    for (name, value) in &service.env {
        let is_free = app.env.get(name).is_none_or(|known| known.starts_with(OF_IMAGE));
        if is_free {
            app.env.insert(name.clone(), format!("compose:{value}"));
        }
    }
    if app.kind == AppKind::Web {
        app.port = app.port.or(service.ports.first().copied());
    }
    if app.health.is_none() {
        app.health.clone_from(&service.health);
    }
    app.evidence.extend(service.evidence.clone());
}

/// Creates an app from compose's command, if that can run outside of the image.
fn command(view: &View<'_>, found: &Findings, service: &BuiltService) -> Option<App> {
    let line = service.command.as_ref()?;
    let words = text::words(line);
    let first = words.first()?;
    if first.starts_with('/') || first.starts_with("..") || is_containers(first) {
        return None;
    }
    let dir = home(&found.apps, service);
    let script = script(view, dir, line);
    // The script exists only in the image.
    if script.as_ref().is_some_and(|file| !view.has(&text::join(dir, file))) {
        return None;
    }
    // Paths in a command are relative to the build context.
    let is_pathless = !words.iter().any(|word| view.has(&text::join(dir, word)));
    let dir = service.home.as_deref().filter(|_| is_pathless).unwrap_or(dir);
    let line = match &script {
        Some(file) if file == first => {
            let source = view.text(&text::join(dir, file)).unwrap_or_default();
            let shell = if source.lines().next().is_some_and(|line| line.contains("bash")) {
                "bash"
            } else {
                "sh"
            };
            format!("{shell} {line}")
        }
        _ => line.clone(),
    };
    let run = found_from(found, dir, &line, script.is_some());
    let mut app = match service.ports.first() {
        Some(port) => App { port: Some(*port), ..App::web(&service.name, dir, run) },
        None => App::worker(&service.name, dir, run),
    };
    lead(&mut app, service);
    Some(app)
}

/// Whether a program manages containers. A folder such as `docker` may contain other programs.
fn is_containers(first: &str) -> bool {
    text::name(first).contains("docker") && !first.contains('/')
}

/// Returns the script that a command runs: with a shell, or a file with a shell's shebang.
fn script(view: &View<'_>, dir: &str, line: &str) -> Option<String> {
    let words = text::words(line);
    let is_shells = |file: &str| {
        let source = view.text(&text::join(dir, file)).unwrap_or_default();
        let first = source.lines().next().unwrap_or_default();
        first.starts_with("#!") && first.trim_end().ends_with("sh")
    };
    match words.as_slice() {
        [shell, file, ..] if ["sh", "bash"].contains(&shell.as_str()) && !file.starts_with('-') => {
            Some(file.clone())
        }
        [file, ..] if file.ends_with(".sh") => Some(file.clone()),
        [file, ..] if file.contains('/') && is_shells(file) => Some(file.clone()),
        _ => None,
    }
}

/// Creates a task from a service whose end compose waits for.
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
