//! Services that compose builds from the repository: run in the worktree, under compose's names.

use crate::{
    Question,
    finding::{App, AppKind, BuiltService, Evidence, Findings},
    text,
    view::View,
};

/// Joins what compose builds with the apps that were found in its folders.
pub(super) fn join(view: &View<'_>, found: &mut Findings) {
    let built = std::mem::take(&mut found.built);
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
        let inside = |app: &App| {
            app.dir == service.context
                || (service.context.is_empty() && built.len() == 1)
                || app.dir.starts_with(&format!("{}/", service.context))
                    && !service.context.is_empty()
        };
        let free = |at: &usize| !taken.contains(at);
        let candidates: Vec<usize> =
            (0..found.apps.len()).filter(free).filter(|at| inside(&found.apps[*at])).collect();
        let same_name = candidates.iter().find(|at| found.apps[**at].name == service.name);
        let is_worker = service.ports.is_empty() && service.command.is_some();
        let of_kind =
            candidates.iter().find(|at| (found.apps[**at].kind == AppKind::Worker) == is_worker);
        match same_name.or(of_kind).copied() {
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

/// Makes an app of compose's own command, if that can run outside of the image.
fn command(_view: &View<'_>, found: &Findings, service: &BuiltService) -> Option<App> {
    let line = service.command.as_ref()?;
    let first = text::words(line).into_iter().next()?;
    if first.starts_with('/')
        || first.contains("docker")
        || first.ends_with(".sh") && first.contains('/')
    {
        return None;
    }
    let dir = &service.context;
    let managers = ["pip"];
    let is_python =
        ["python", "python3", "gunicorn", "uvicorn", "flask", "celery", "rq", "streamlit"]
            .contains(&first.as_str());
    let up = found.install_for(dir, &managers).filter(|_| is_python).map(|install| {
        let depth = dir.split('/').filter(|part| !part.is_empty()).count()
            - install.dir.split('/').filter(|part| !part.is_empty()).count();
        "../".repeat(depth)
    });
    let run = match up {
        Some(up) => format!("{up}.venv/bin/{line}"),
        None => line.clone(),
    };
    let mut app = match service.ports.first() {
        Some(port) => App { port: Some(*port), ..App::web(&service.name, dir, run) },
        None => App::worker(&service.name, dir, run),
    };
    lead(&mut app, service);
    Some(app)
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
