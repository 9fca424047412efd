//! Python: package managers, Django, Flask, FastAPI and similar frameworks, workers, migrations.

mod era;
mod installed;
mod manager;
mod required;

use std::{rc::Rc, sync::LazyLock};

use regex_lite::Regex;

use super::ports;
use crate::{
    finding::{App, Evidence, Findings, Step},
    host::HostFacts,
    text,
    view::View,
};
pub(crate) use installed::{found_from, is_program};
use manager::Environment;

/// The maximum number of source files searched for an app.
const SOURCES_MOST: usize = 400;

pub(super) fn read(view: &View<'_>, host: &HostFacts, found: &mut Findings) {
    let manifests = [
        "pyproject.toml",
        "requirements.txt",
        "setup.py",
        "setup.cfg",
        "Pipfile",
        "manage.py",
        "uv.lock",
        "poetry.lock",
        "requirements-dev.txt",
    ];
    let mut folders: Vec<String> = Vec::new();
    for path in view.named(&manifests) {
        let dir = text::folder(&path);
        let is_below =
            |known: &String| known.is_empty() && view.has("pyproject.toml") && !dir.is_empty();
        let is_app = view.has(&text::join(dir, "manage.py"));
        let is_package =
            text::name(dir) == "src" && manager::has_package_beside(view, text::folder(dir));
        if super::is_aside(dir)
            || is_package
            || folders.iter().any(|known| known == dir)
            || (folders.iter().any(is_below) && !is_app && !has_own_lock(view, dir))
        {
            continue;
        }
        if dir.matches('/').count() < 3 {
            folders.push(dir.to_owned());
        }
    }
    if folders.is_empty() && view.has_folder("requirements") {
        folders.push(String::new());
    }
    for dir in folders.iter().take(20) {
        folder(view, host, dir, found);
    }
    if let Some(dir) = folders.first() {
        let environment = Environment::of(view, dir).unwrap_or_else(|| Environment::bare(dir));
        documentation(view, dir, &environment, found);
    }
}

/// Adds the Python version that old requirements need, unless a file names one.
pub(super) fn era(view: &View<'_>, found: &mut Findings) {
    let is_one = |path: &&str| {
        path.ends_with(".txt") && path.contains("requirements") && !super::is_aside(path)
    };
    let files: Vec<String> = view.paths().filter(is_one).take(20).map(str::to_owned).collect();
    era::read(view, &files, found);
    let manifests = view.named(&["pyproject.toml", "Pipfile"]);
    let manifests = manifests.into_iter().filter(|path| !super::is_aside(path)).take(20);
    let all: Vec<String> = files.into_iter().chain(manifests).collect();
    if !found.apps.is_empty() {
        era::compiled(view, &all, found);
    }
}

fn has_own_lock(view: &View<'_>, dir: &str) -> bool {
    view.first(dir, &["requirements.txt", "uv.lock", "poetry.lock", "Pipfile"]).is_some()
}

fn folder(view: &View<'_>, host: &HostFacts, dir: &str, found: &mut Findings) {
    let above = found
        .install_for(dir, &["uv", "poetry", "pip", "pipenv", "pdm"])
        .map(|install| install.dir.clone());
    let environment = match (Environment::of(view, dir), above) {
        (Some(environment), _) => {
            environment.install(view, host, found);
            environment
        }
        (None, Some(above)) => Environment::above(view, &above, dir),
        (None, None) => Environment::bare(dir),
    };
    let before = found.apps.len();
    django(view, dir, &environment, found);
    if found.apps.len() == before {
        served(view, dir, &environment, found);
    }
    // An image may start an app that no source reveals.
    let is_built = view.has(&text::join(dir, "Dockerfile")) || !found.built.is_empty();
    if found.apps.len() == before && is_built {
        required::read(view, dir, found);
    }
    if found.apps.len() > before {
        let home = found.apps[before].dir.clone();
        let environment = environment.below(&home);
        required::read(view, dir, found);
        workers(view, &home, &environment, found);
        alembic(view, &home, &environment, found);
    }
}

fn name(dir: &str) -> String {
    if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(dir)) }
}

fn beside(dir: &str, what: &str) -> String {
    match dir {
        "" => what.to_owned(),
        dir => text::service_name(&format!("{}-{what}", text::name(dir))),
    }
}

fn django(view: &View<'_>, dir: &str, environment: &Environment, found: &mut Findings) {
    let manage = text::join(dir, "manage.py");
    let Some(source) =
        view.text(&manage).filter(|source| source.contains("django") || source.contains("DJANGO"))
    else {
        return;
    };
    let run = environment.run("python manage.py runserver 127.0.0.1:{port}");
    let run = match django_settings(view, dir, &source) {
        Some(settings) => format!("{}{run}", behind_router(&settings)),
        None => run,
    };
    let mut app = App::web(&name(dir), dir, run);
    app.framework = Some("Django");
    app.port = Some(8000);
    app.evidence.push(Evidence {
        file: manage.clone(),
        line: text::line_of(&source, "DJANGO_SETTINGS_MODULE"),
        fact: "Django's own command".to_owned(),
    });
    let evidence = app.evidence.clone();
    found.apps.push(app);
    found.migrations.push(Step {
        name: beside(dir, "migrate"),
        dir: dir.to_owned(),
        run: environment.run("python manage.py migrate --noinput"),
        evidence: evidence.clone(),
    });
    found.checks.push(Step {
        name: "test".to_owned(),
        dir: dir.to_owned(),
        run: environment.run("python manage.py test"),
        evidence,
    });
}

static DJANGO_SETTINGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"setdefault\(\s*['"]DJANGO_SETTINGS_MODULE['"]\s*,\s*['"]([\w.]+)['"]"#)
        .expect("a fixed pattern")
});

/// Returns the settings of a Django project if they are a plain module.
fn django_settings(view: &View<'_>, dir: &str, manage: &str) -> Option<String> {
    let module = DJANGO_SETTINGS.captures(manage)?[1].to_owned();
    let path = text::join(dir, &module.replace('.', "/"));
    let base = text::join(text::folder(&path), "base.py");
    let files = [format!("{path}.py"), format!("{path}/__init__.py"), base];
    let texts: Vec<_> = files.iter().filter_map(|file| view.text(file)).collect();
    let has = |word: &str| texts.iter().any(|text| text.contains(word));
    let is_other = manage.contains("configurations") || has("dynaconf") || has("Dynaconf");
    let is_plain = !texts.is_empty() && !is_other;
    is_plain.then_some(module)
}

/// Adds two settings to those of a project: the URL of a sandbox is a host that a list of hosts lacks, and forms would be
/// refused because it is encrypted.
fn behind_router(settings: &str) -> String {
    format!(
        "m=${{DJANGO_SETTINGS_MODULE:-{settings}}} d=~/.local/settings; mkdir -p $d && printf 'from %s import *\\nALLOWED_HOSTS = [\"*\"]\\nSECURE_PROXY_SSL_HEADER = (\"HTTP_X_FORWARDED_PROTO\", \"https\")\\n' $m >$d/room_settings.py && PYTHONPATH=$d DJANGO_SETTINGS_MODULE=room_settings "
    )
}

static ASGI: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^(\w+)(?:\s*:\s*\w+)?\s*=\s*(?:\w+\.)?(FastAPI|Flask|Starlette|Litestar|Sanic|Quart|Robyn|BlackSheep|Dash|Bottle|falcon\.App|App|web\.Application)\(").expect("a fixed pattern")
});

static FACTORY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^def (create_app|make_app|get_app|build_app)\(").expect("a fixed pattern")
});

/// Finds the server object, and how its framework is started.
fn served(view: &View<'_>, dir: &str, environment: &Environment, found: &mut Findings) {
    let sources = ports::sources(view, dir, &[".py"]);
    let is_own = |path: &&&str| !super::is_aside(path.get(dir.len()..).unwrap_or(path));
    for path in sources.iter().filter(is_own).take(SOURCES_MOST) {
        let Some(source) = view.text(path) else { continue };
        let Some((object, kind, line)) = object(&source) else { continue };
        let kind = kind.to_owned();
        // A factory often needs arguments, so servers load the module that calls it.
        let made = object.strip_suffix("()").and_then(|factory| {
            instance(view, sources.iter().filter(is_own).copied().take(SOURCES_MOST), factory)
        });
        let (path, source, object, line) = match made {
            Some((path, source, object, line)) => (path, source, object, line),
            None => (*path, source, object, line),
        };
        let root = import_root(view, dir, path, &source);
        // Modules below `src` are found with a flag. For a separate folder, or a `src` that is the whole project, the
        // command runs in it.
        let is_part = text::name(&root) == "src" && root != dir;
        let home = if is_part { text::folder(&root).to_owned() } else { root };
        let Some(start) = command(&home, path, &object, &kind, &source) else { continue };
        let (framework, port) = (start.framework, start.port);
        let run = environment.below(&home).run(&start.run);
        let mut app = App::web(&name(&home), &home, run);
        app.framework = Some(framework);
        let variables = start.variables.into_iter();
        app.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        app.evidence.push(Evidence {
            file: path.to_owned(),
            line,
            fact: format!("{framework}'s object `{object}`"),
        });
        app.port = Some(port);
        if let Some((path, evidence)) = ports::health(view, sources.iter().copied()) {
            (app.health, _) = (Some(path), app.evidence.push(evidence));
        }
        found.apps.push(app);
        return;
    }
    for (package, title, port, run) in [
        (
            "streamlit",
            "Streamlit",
            8501,
            "streamlit run {file} --server.port {port} --server.headless true",
        ),
        ("gradio", "Gradio", 7860, "python {file}"),
    ] {
        let imports = |path: &&&str| {
            let source = view.text(path).unwrap_or_default();
            source.lines().any(|line| {
                line.starts_with(&format!("import {package}"))
                    || line.starts_with(&format!("from {package}"))
            })
        };
        let Some(path) = sources.iter().filter(is_own).take(SOURCES_MOST).find(imports) else {
            continue;
        };
        let below = path.strip_prefix(&format!("{dir}/")).unwrap_or(path);
        let mut app = App::web(
            &name(dir),
            dir,
            environment.run(&run.replace("{file}", &text::shell_word(below))),
        );
        (app.framework, app.port) = (Some(title), Some(port));
        app.evidence.push(view.evidence(path, package, format!("it imports {package}")));
        found.apps.push(app);
        return;
    }
}

fn object(source: &str) -> Option<(String, &str, usize)> {
    let line = |at: usize| source[..at].matches('\n').count() + 1;
    if let Some(found) = ASGI.captures(source) {
        let kind = found.get(2)?;
        return Some((found.get(1)?.as_str().to_owned(), kind.as_str(), line(kind.start())));
    }
    let factory = FACTORY.captures(source)?.get(1)?;
    let kinds = ["FastAPI", "Flask", "Starlette", "Quart", "Sanic", "Litestar"];
    let kind = kinds.into_iter().find(|kind| source.contains(&format!("{kind}(")))?;
    Some((format!("{}()", factory.as_str()), kind, line(factory.start())))
}

/// Returns the module that stores the result of a factory, such as `app = create_app("dev")`: path, source, name and
/// line.
fn instance<'p>(
    view: &View<'_>,
    sources: impl Iterator<Item = &'p str>,
    factory: &str,
) -> Option<(&'p str, Rc<str>, String, usize)> {
    let pattern = format!(r"(?m)^(\w+)(?:\s*:\s*\w+)?\s*=\s*(?:\w+\.)*{factory}\(");
    let pattern = Regex::new(&pattern).ok()?;
    // Queue workers create the app too.
    let is_worker = |path: &&str| text::name(path).contains("worker");
    sources.into_iter().filter(|path| !is_worker(path)).find_map(|path| {
        let source = view.text(path)?;
        let object = pattern.captures(&source)?.get(1)?;
        let line = source[..object.start()].matches('\n').count() + 1;
        let object = object.as_str().to_owned();
        Some((path, source, object, line))
    })
}

/// How a framework is started.
struct Start {
    framework: &'static str,
    run: String,
    port: u16,
    variables: Vec<(&'static str, String)>,
}

/// Returns how the framework of an object is started.
fn command(dir: &str, path: &str, object: &str, kind: &str, source: &str) -> Option<Start> {
    let below = path.strip_prefix(&format!("{dir}/")).unwrap_or(path);
    let (folder, module) = module(below);
    let port = ports::of_source(source).map(|(port, _)| port);
    let object = object.trim_end_matches("()");
    let is_factory = source.contains(&format!("def {object}("));
    let search = if folder.is_empty() {
        String::new()
    } else {
        format!(" --app-dir {}", text::shell_word(&folder))
    };
    let asgi = |title: &'static str| {
        let factory = if is_factory { " --factory" } else { "" };
        (
            title,
            format!(
                "uvicorn {module}:{object}{factory}{search} --reload --host 127.0.0.1 --port {{port}}"
            ),
            port.unwrap_or(8000),
        )
    };
    let file = text::shell_word(below);
    let mut variables = Vec::new();
    let (framework, run, port) = match kind {
        "FastAPI" => asgi("FastAPI"),
        "Starlette" => asgi("Starlette"),
        "Litestar" => asgi("Litestar"),
        "BlackSheep" => asgi("BlackSheep"),
        "Quart" => asgi("Quart"),
        "Flask" => {
            let module = match () {
                // Old releases find a file in this folder only by its full name.
                () if !below.contains('/') => below.to_owned(),
                () if folder.is_empty() => module,
                () => below.trim_end_matches(".py").to_owned(),
            };
            let is_usual = is_factory || ["app", "application"].contains(&object);
            let target = match is_factory || is_usual && !below.contains('/') {
                true => module,
                false => format!("{module}:{object}"),
            };
            // Through variables, which old releases support as well.
            variables = vec![("FLASK_APP", target), ("FLASK_DEBUG", "1".to_owned())];
            ("Flask", "flask run --host 127.0.0.1 --port {port}".to_owned(), port.unwrap_or(5000))
        }
        "Sanic" => (
            "Sanic",
            format!("sanic {module}:{object} --dev --host 127.0.0.1 --port {{port}}"),
            port.unwrap_or(8000),
        ),
        "Dash" => ("Dash", format!("python {file}"), port.unwrap_or(8050)),
        "Bottle" if source.contains(".run(") => {
            ("Bottle", format!("python {file}"), port.unwrap_or(8080))
        }
        "Robyn" => ("Robyn", format!("python {file}"), port.unwrap_or(8080)),
        "web.Application" if source.contains("run_app") => {
            ("aiohttp", format!("python {file}"), port.unwrap_or(8080))
        }
        "falcon.App" => ("Falcon", format!("python {file}"), port.unwrap_or(8000)),
        _ => return None,
    };
    Some(Start { framework, run, port, variables })
}

/// Returns the folder from which a file is imported: the first one above it that is not a package.
fn import_root(view: &View<'_>, dir: &str, path: &str, source: &str) -> String {
    let folder = text::folder(path);
    let imports = |name: &str| {
        let forms = [format!("from {name} "), format!("import {name}"), format!("from {name}.")];
        source.lines().any(|line| forms.iter().any(|form| line.trim_start().starts_with(form)))
    };
    // A file that imports a package around it is imported from the folder of that package.
    let mut around = folder;
    while around.len() > dir.len() {
        let name = text::name(around);
        let forms = [format!("from {name}."), format!("import {name}."), format!("from {name} ")];
        if source.lines().any(|line| forms.iter().any(|form| line.trim_start().starts_with(form))) {
            return text::folder(around).to_owned();
        }
        around = text::folder(around);
    }
    let has_siblings = view.below(folder).any(|other| {
        let below = other.get(folder.len()..).unwrap_or(other).trim_start_matches('/');
        let module = below.split('/').next().unwrap_or(below).trim_end_matches(".py");
        other != path && other.ends_with(".py") && imports(module)
    });
    let is_package = |folder: &str| {
        let is_project =
            text::name(folder) == "src" || view.has(&text::join(folder, "pyproject.toml"));
        view.has(&text::join(folder, "__init__.py")) || (!has_siblings && !is_project)
    };
    let mut root = folder;
    while root.len() > dir.len() && is_package(root) {
        root = text::folder(root);
    }
    root.to_owned()
}

/// Returns the folder to search for modules, and the module's name.
fn module(path: &str) -> (String, String) {
    let (folder, rest) = match path.strip_prefix("src/") {
        Some(rest) => ("src".to_owned(), rest),
        None => (String::new(), path),
    };
    let stem = rest.trim_end_matches(".py").trim_end_matches("/__init__");
    (folder, stem.replace('/', "."))
}

static CELERY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^(\w+)\s*=\s*(?:\w+\.)?Celery\(").expect("a fixed pattern"));

fn workers(view: &View<'_>, dir: &str, environment: &Environment, found: &mut Findings) {
    for path in ports::sources(view, dir, &[".py"]).into_iter().take(SOURCES_MOST) {
        let Some(source) = view.text(path) else { continue };
        let Some(object) = CELERY.captures(&source) else { continue };
        let below = path.strip_prefix(&format!("{dir}/")).unwrap_or(path);
        let (_, module) = module(below);
        let target = module.strip_suffix(".celery").unwrap_or(&module).to_owned();
        let object = object.get(1).map_or("app", |found| found.as_str());
        let target =
            if module.ends_with(".celery") { target } else { format!("{target}:{object}") };
        let mut app = App::worker(
            &beside(dir, "worker"),
            dir,
            environment.run(&format!("celery -A {target} worker --loglevel=info")),
        );
        app.framework = Some("Celery");
        app.evidence.push(view.evidence(path, "Celery(", "Celery's object"));
        found.queues.push(app.evidence[0].clone());
        found.apps.push(app);
        return;
    }
}

fn alembic(view: &View<'_>, dir: &str, environment: &Environment, found: &mut Findings) {
    let file = text::join(dir, "alembic.ini");
    if view.has(&file) {
        let evidence = vec![view.evidence(&file, "script_location", "Alembic's settings")];
        found.migrations.push(Step {
            name: beside(dir, "migrate"),
            dir: dir.to_owned(),
            // Its settings import the app, and not all of them set the path.
            run: format!("PYTHONPATH=. {}", environment.run("alembic upgrade head")),
            evidence,
        });
        return;
    }
    let flask = text::join(dir, "migrations/alembic.ini");
    if view.has(&flask) {
        let evidence = vec![view.evidence(&flask, "", "Flask-Migrate's settings")];
        found.migrations.push(Step {
            name: beside(dir, "migrate"),
            dir: dir.to_owned(),
            run: format!("{}{}", flask_app(dir, found), environment.run("flask db upgrade")),
            evidence,
        });
    }
}

/// Returns the variable that selects the app for `flask`, as set for the app itself.
fn flask_app(dir: &str, found: &Findings) -> String {
    let mut of_dir = found.apps.iter().filter(|app| app.dir == dir);
    let target = of_dir.find_map(|app| app.env.get("FLASK_APP"));
    target.map_or_else(String::new, |target| format!("FLASK_APP={} ", text::shell_word(target)))
}

/// Adds the MkDocs server if a project has nothing else to show.
fn documentation(view: &View<'_>, dir: &str, environment: &Environment, found: &mut Findings) {
    let file = text::join(dir, "mkdocs.yml");
    if view.has(&file)
        && found.apps.is_empty()
        && text::name(&file) == file
        && !view.paths().any(|path| path.ends_with(".py") && path.starts_with("src/"))
    {
        let mut app =
            App::web("docs", dir, environment.run("mkdocs serve --dev-addr 127.0.0.1:{port}"));
        (app.framework, app.port) = (Some("MkDocs"), Some(8000));
        app.evidence.push(view.evidence(&file, "site_name", "MkDocs' settings"));
        found.apps.push(app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_serve_are_found() {
        for (source, expected) in [
            ("app = FastAPI(title=\"x\")", Some(("app", "FastAPI"))),
            ("from flask import Flask\nserver: Flask = Flask(__name__)", Some(("server", "Flask"))),
            ("def create_app():\n    app = Flask(__name__)\n", Some(("create_app()", "Flask"))),
            ("    app = FastAPI()", None),
            ("api = flask.Flask(__name__)", Some(("api", "Flask"))),
        ] {
            let found = object(source);
            assert_eq!(
                found.as_ref().map(|(object, kind, _)| (object.as_str(), *kind)),
                expected,
                "{source}"
            );
        }
        let start = command("", "src/shop/main.py", "app", "FastAPI", "app = FastAPI()").unwrap();
        assert_eq!(
            (start.run.as_str(), start.port),
            ("uvicorn shop.main:app --app-dir src --reload --host 127.0.0.1 --port {port}", 8000)
        );
    }
}
