//! Reads the source of apps for their routes: beneath the worktree, with limits, without following
//! links.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hothouse_host::beneath::{EntryKind, Folder};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{Config, rules::nearest},
    routes::{self, AppFolder, FILE_LIMIT, Route, SourceFile},
};

use crate::{Engine, trees};

/// The limits: depth, number of names, total size, and time.
const DEPTH: usize = 16;
const NAMES_MOST: usize = 60_000;
const ALL_MOST: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Folders without source of the project itself.
const SKIPPED: [&str; 13] = [
    "node_modules",
    "vendor",
    "target",
    "dist",
    "build",
    "venv",
    "__pycache__",
    "coverage",
    "out",
    "deps",
    "_build",
    "test",
    "tests",
];

impl Engine {
    /// Returns the routes of a sandbox's apps, or of one of them, from its source and its
    /// scenarios.
    pub fn routes(
        &self,
        sandbox: &SandboxRecord,
        app: Option<&str>,
    ) -> Result<Vec<Route>, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let apps = app_folders(&config);
        if let Some(app) = app.filter(|app| apps.iter().all(|known| known.app != **app)) {
            return Err(unknown(app, &apps));
        }
        let worktree = trees::open_worktree(sandbox).map_err(|error| error.failure())?;
        let files = read(&worktree);
        let files: Vec<SourceFile<'_>> =
            files.iter().map(|(path, text)| SourceFile { path, text }).collect();
        let mut found = routes::find(&files, &apps);
        let named = config.scenarios.iter().filter(|(_, one)| one.app.is_some());
        for (name, scenario) in named {
            let route = Route {
                app: scenario.app.as_ref().map(ToString::to_string),
                path: scenario.path.as_str().split(['?', '#']).next().unwrap_or("/").to_owned(),
                methods: vec!["GET".into()],
                source: format!("scenario {name}"),
            };
            if found.iter().all(|known| (&known.app, &known.path) != (&route.app, &route.path)) {
                found.push(route);
            }
        }
        found.retain(|route| app.is_none() || route.app.as_deref() == app);
        found.sort();
        Ok(found)
    }
}

fn unknown(app: &str, apps: &[AppFolder]) -> Failure {
    let shown: String = app.chars().take(60).collect();
    let failure = Failure::new(FailureKind::NotFound, format!("there is no app `{shown}`"));
    let known: Vec<&str> = apps.iter().map(|known| known.app.as_str()).collect();
    match nearest(app, known.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if known.is_empty() => failure.hint("an app is a service with a `url`"),
        None => failure.hint(format!("available: {}", known.join(", "))),
    }
}

/// Returns the source folder of each app: its own folder, or the one that its command names.
fn app_folders(config: &Config) -> Vec<AppFolder> {
    let apps = config.services.values().filter_map(|service| {
        let app = service.url.as_ref()?.to_string();
        let dir = service.dir.as_str().trim_end_matches('/').to_owned();
        let run = service.run.as_ref().map_or("", |run| run.as_str());
        // `node apps/api/src/main.js`, `npm run dev -w apps/api`
        let named = run.split_whitespace().map(|word| word.trim_start_matches("./"));
        let named =
            named.filter(|word| word.contains('/') && !word.starts_with(['/', '-', '.', '~', '@']));
        let named = named.map(|word| package_of(word).to_owned()).next();
        let folder = match (dir.as_str(), named) {
            ("." | "", Some(named)) => named,
            _ => dir,
        };
        Some(AppFolder { app, folder })
    });
    apps.collect()
}

/// Returns the package folder that a command names: without its file, and without `src`.
fn package_of(word: &str) -> &str {
    let is_file = word.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let folder =
        if is_file { word.rsplit_once('/').map_or(".", |(folder, _)| folder) } else { word };
    folder.strip_suffix("/src").unwrap_or(folder)
}

/// Reads files that may declare routes.
fn read(worktree: &Folder) -> Vec<(String, String)> {
    let (mut found, mut left, mut bytes_left) = (Vec::new(), NAMES_MOST, ALL_MOST);
    let deadline = Instant::now() + PATIENCE;
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        let here = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
        for entry in worktree.list(here).unwrap_or_default() {
            match left.checked_sub(1) {
                Some(less) if Instant::now() < deadline => left = less,
                _ => return found,
            }
            let Some(name) = entry.name.to_str() else { continue };
            let path = below.join(name);
            match entry.kind {
                EntryKind::Folder if depth < DEPTH && is_own(name) => open.push((path, depth + 1)),
                EntryKind::File if routes::may_have_routes(name) => {
                    let most = FILE_LIMIT.min(bytes_left);
                    let Ok(bytes) = worktree.read_capped(&path, most as u64) else { continue };
                    bytes_left -= bytes.len();
                    let Some(path) = path.to_str() else { continue };
                    found.push((path.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_own(name: &str) -> bool {
    !name.starts_with('.') && !SKIPPED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_an_app_is_its_folder_or_what_its_command_names() {
        let text = r#"
            [service.a]
            run = "node src/main.js"
            dir = "apps/a"
            url = "a"
            port = 1
            [service.b]
            run = "npm run dev -w apps/b"
            url = "b"
            port = 2
            [service.c]
            run = "node ./apps/c/src/main.js --port 3"
            url = "c"
            port = 3
            [service.d]
            run = "rails server"
            url = "d"
            port = 4
        "#;
        let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
        let folders: Vec<_> = app_folders(&config).into_iter().map(|app| app.folder).collect();
        assert_eq!(folders, ["apps/a", "apps/b", "apps/c", "."]);
    }
}
