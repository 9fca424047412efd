//! Rust: servers, their ports, their migrations.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::{ports, settings};
use crate::{
    finding::{App, Evidence, Findings, Step},
    text,
    view::View,
};

/// Server crates, with their default ports.
const FRAMEWORKS: [(&str, &str, Option<u16>); 14] = [
    ("axum", "axum", None),
    ("actix-web", "actix-web", None),
    ("rocket", "Rocket", Some(8000)),
    ("warp", "warp", None),
    ("poem", "poem", None),
    ("salvo", "salvo", None),
    ("tide", "tide", None),
    ("ntex", "ntex", None),
    ("gotham", "gotham", None),
    ("loco-rs", "Loco", Some(5150)),
    ("leptos_axum", "Leptos", Some(3000)),
    ("tonic", "tonic", None),
    ("hyper", "hyper", None),
    ("tiny_http", "tiny_http", None),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let manifests: Vec<String> = view
        .named(&["Cargo.toml"])
        .into_iter()
        .filter(|path| !super::is_aside(path))
        .take(200)
        .collect();
    let Some(first) = manifests.first() else { return };
    let top = text::folder(first).to_owned();
    let evidence = view.evidence(first, "", "Rust, built by cargo");
    found.needs("cargo", &evidence);
    found.checks.push(Step {
        name: "test".to_owned(),
        dir: top.clone(),
        run: "cargo test".to_owned(),
        evidence: vec![evidence],
    });
    let workspace = view.toml(first).filter(|value| value["workspace"].is_object());
    for path in &manifests {
        let Some(value) = view.toml(path) else { continue };
        let Some(name) = value["package"]["name"].as_str() else { continue };
        package(view, path, name, &value, workspace.as_ref().map(|_| top.as_str()), found);
    }
}

fn package(
    view: &View<'_>,
    path: &str,
    name: &str,
    value: &serde_json::Value,
    workspace: Option<&str>,
    found: &mut Findings,
) {
    let dir = text::folder(path);
    let dependencies = value["dependencies"].as_object().cloned().unwrap_or_default();
    let known = FRAMEWORKS.iter().find(|(package, ..)| dependencies.contains_key(*package));
    let Some((package, title, usual)) = known else { return };
    let Some((binary, main)) = binary(view, dir, name, value) else { return };
    let sources = ports::sources(view, dir, &[".rs"]);
    let source = view.text(&main).unwrap_or_default();
    let listens = [
        "bind(",
        "listen(",
        "launch",
        "serve(",
        "HttpServer",
        "ListenAndServe",
        "Server::builder",
        "App::run",
        "cli::main",
    ]
    .iter()
    .any(|word| {
        source.contains(word)
            || sources
                .iter()
                .take(60)
                .any(|path| view.text(path).is_some_and(|text| text.contains(word)))
    });
    if !listens {
        return;
    }
    let (run_dir, select) = match workspace {
        Some(top) if top != dir => (top, format!(" -p {name}")),
        _ => (dir, String::new()),
    };
    let bin = if binary == name { String::new() } else { format!(" --bin {binary}") };
    let start = if *package == "loco-rs" { " -- start" } else { "" };
    let service =
        if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(dir)) };
    let mut app = App::web(&service, run_dir, format!("cargo run{select}{bin}{start}"));
    app.framework = Some(title);
    app.evidence.push(view.evidence(path, package, format!("{title} in {name}")));
    let in_main = ports::of_source(&source).map(|(port, line)| {
        (port, Evidence { file: main.clone(), line, fact: format!("it listens on {port}") })
    });
    let named = in_main.or_else(|| ports::in_files(view, sources.iter().copied()));
    let named = named.or_else(|| {
        ports::in_files(
            view,
            view.below(dir).filter(|path| is_settings(path)).collect::<Vec<_>>().into_iter(),
        )
    });
    match named {
        Some((port, evidence)) => {
            app.port = Some(port);
            app.evidence.push(evidence);
        }
        None => app.port = *usual,
    }
    if let Some((path, evidence)) = ports::health(view, sources.iter().copied()) {
        (app.health, _) = (Some(path), app.evidence.push(evidence));
    }
    if dependencies.contains_key("sqlx") && has_recorded_queries(view, dir) {
        // Otherwise the macros query the database, which may have no tables yet.
        app.env.insert("SQLX_OFFLINE".to_owned(), "true".to_owned());
    }
    found.apps.push(app);
    settings_file(view, run_dir, &sources, found);
    // Migrations are beside the package, or at the top of its workspace.
    let home = [dir, run_dir]
        .into_iter()
        .find(|folder| view.has_folder(&text::join(folder, "migrations")));
    if let Some(home) = home {
        migrations(view, home, &dependencies, &sources, found);
    }
}

static INSISTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"dotenvy?(?:::dotenv)?\(\)\s*(?:\.expect\(|\.unwrap\(\)|\?)")
        .expect("a fixed pattern")
});

/// Adds the settings file that a program requires.
fn settings_file(view: &View<'_>, dir: &str, sources: &[&str], found: &mut Findings) {
    let insisting = sources.iter().take(100).find_map(|path| {
        let source = view.text(path)?;
        let place = INSISTS.find(&source)?;
        let line = source[..place.start()].matches('\n').count() + 1;
        let fact = "it does not start without a file `.env`".to_owned();
        Some(Evidence { file: (*path).to_owned(), line, fact })
    });
    if let Some(why) = insisting {
        settings::insisted(view, dir, ".env", why, found);
    }
}

/// Whether the query results for `sqlx`'s macros are part of the repository.
fn has_recorded_queries(view: &View<'_>, dir: &str) -> bool {
    ["", dir].iter().any(|dir| {
        view.has_folder(&text::join(dir, ".sqlx")) || view.has(&text::join(dir, "sqlx-data.json"))
    })
}

fn is_settings(path: &str) -> bool {
    let name = text::name(path);
    [
        "Rocket.toml",
        "Settings.toml",
        "config.toml",
        "base.yaml",
        "local.yaml",
        "development.yaml",
        "default.toml",
        "config.yaml",
    ]
    .contains(&name)
}

/// Returns the binary of a package, and its source.
fn binary(
    view: &View<'_>,
    dir: &str,
    name: &str,
    value: &serde_json::Value,
) -> Option<(String, String)> {
    let listed = value["bin"].as_array().into_iter().flatten();
    let listed = listed.filter_map(|bin| {
        let path = bin["path"].as_str().map(|path| text::join(dir, path));
        let bin = bin["name"].as_str()?;
        let usual = text::join(dir, &format!("src/bin/{bin}.rs"));
        Some((
            bin.to_owned(),
            path.or_else(|| view.has(&usual).then_some(usual))
                .unwrap_or_else(|| text::join(dir, "src/main.rs")),
        ))
    });
    let main = text::join(dir, "src/main.rs");
    let plain = view.has(&main).then(|| (name.to_owned(), main));
    let in_bin = view.below(&text::join(dir, "src/bin")).find(|path| path.ends_with(".rs"));
    let in_bin =
        in_bin.map(|path| (text::name(path).trim_end_matches(".rs").to_owned(), path.to_owned()));
    let default = value["package"]["default-run"].as_str();
    let all: Vec<_> = listed.chain(plain).chain(in_bin).collect();
    let chosen = default.and_then(|default| all.iter().find(|(name, _)| name == default).cloned());
    chosen
        .or_else(|| {
            all.iter().find(|(name, _)| name.contains("server") || name.contains("api")).cloned()
        })
        .or_else(|| all.first().cloned())
}

/// Adds migrations that the program does not apply itself.
fn migrations(
    view: &View<'_>,
    dir: &str,
    dependencies: &serde_json::Map<String, serde_json::Value>,
    sources: &[&str],
    found: &mut Findings,
) {
    let folder = text::join(dir, "migrations");
    let at_start = |word: &str| {
        let own = |path: &&&str| !super::is_aside(path.get(dir.len()..).unwrap_or(path));
        sources
            .iter()
            .filter(own)
            .take(100)
            .any(|path| view.text(path).is_some_and(|text| text.contains(word)))
    };
    // Programs that cargo can install need none of the host. It takes minutes, once.
    let brought = |program: &str, package: &str, features: &str| {
        format!(
            "{{ command -v {program} >/dev/null || cargo install --quiet --root ~/.local {package} --no-default-features --features {features}; }}"
        )
    };
    // Macros that check queries at compile time need the tables before the program can create them.
    let is_checked = !has_recorded_queries(view, dir)
        && ["query!(", "query_as!(", "query_scalar!(", "query_file!("]
            .iter()
            .any(|call| at_start(call));
    let (program, run) = match () {
        () if dependencies.contains_key("sqlx") && (is_checked || !at_start("migrate!(")) => {
            let first = brought("sqlx", "sqlx-cli", "rustls,postgres,mysql,sqlite");
            ("sqlx", format!("{first} && sqlx database create && sqlx migrate run"))
        }
        () if dependencies.contains_key("diesel") && !at_start("embed_migrations!") => {
            let first = brought("diesel", "diesel_cli", "postgres");
            ("diesel", format!("{first} && diesel migration run"))
        }
        () => return,
    };
    let evidence = view.evidence(
        view.below(&folder).next().unwrap_or_default(),
        "",
        format!("migrations of {program}"),
    );
    found.needs("cargo", &evidence);
    let name = if dir.is_empty() {
        "migrate".to_owned()
    } else {
        text::service_name(&format!("{}-migrate", text::name(dir)))
    };
    found.migrations.push(Step { name, dir: dir.to_owned(), run, evidence: vec![evidence] });
}
