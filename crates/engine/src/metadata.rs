//! Metadata of a run for tools: `run.json` and `env.sh` among its artifacts, `.superset/ports.json` in
//! the worktree. What is written is decided by pure functions.

use std::path::Path;

use hothouse_host::{FileError, beneath::Folder, files};
use hothouse_model::{Explain, Failure, SandboxRecord};
use serde_json::{Value, json};

use crate::{App, Engine, trees};

/// The folder of the worktree that another tool reads, and the pattern by which git ignores it.
const SUPERSET: &str = ".superset";
const IGNORED: &str = "/.superset/ports.json";

/// Where the apps of a sandbox are, for those who write it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppUrls {
    pub app: String,
    /// The routed URL, where there is a router.
    pub url: Option<String>,
    pub direct: String,
    pub shared: Option<String>,
}

/// Returns where an app is reached, `port` being that of the router.
pub fn urls_of(sandbox: &SandboxRecord, app: &App, port: Option<u16>) -> AppUrls {
    let (label, name) = (&sandbox.label, &sandbox.name);
    let shown = |port: u16| if port == 443 { String::new() } else { format!(":{port}") };
    AppUrls {
        app: app.app.clone(),
        url: port
            .map(|port| format!("https://{}.{name}.{label}.localhost{}", app.app, shown(port))),
        direct: format!("http://127.0.0.1:{}", app.direct),
        shared: port.map(|port| format!("https://{}.{label}.localhost{}", app.app, shown(port))),
    }
}

impl Engine {
    /// Writes down what tools want to know of a sandbox that is up.
    pub fn write_metadata(
        &self,
        sandbox: &SandboxRecord,
        port: Option<u16>,
    ) -> Result<(), Failure> {
        let apps = self.apps(sandbox)?;
        let write = || -> Result<(), FileError> {
            let Some(room) = &sandbox.room else { return Ok(()) };
            let urls: Vec<_> = apps.iter().map(|app| urls_of(sandbox, app, port)).collect();
            let artifacts = &room.run.artifacts;
            files::make_private_folder(artifacts)?;
            let run = pretty(&run_json(sandbox, &apps, &urls));
            files::replace(&artifacts.join("run.json"), run.as_bytes(), 0o600)?;
            let env = env_sh(sandbox, artifacts, &urls);
            files::replace(&artifacts.join("env.sh"), env.as_bytes(), 0o600)?;
            if apps.is_empty() {
                return Ok(());
            }
            let repository = trees::repository(&sandbox.repository.common_dir);
            if !repository.excludes(IGNORED)? {
                let _lock = self.repository_lock(&sandbox.repository.common_dir)?;
                repository.exclude(IGNORED)?;
            }
            let worktree = Folder::open(&sandbox.worktree)?;
            worktree.make_folders(Path::new(SUPERSET))?;
            let ports = pretty(&ports_json(&apps));
            worktree.write(&Path::new(SUPERSET).join("ports.json"), ports.as_bytes(), 0o644)
        };
        write().map_err(|error| error.failure())
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("plain data can be written");
    text.push('\n');
    text
}

fn run_json(sandbox: &SandboxRecord, apps: &[App], urls: &[AppUrls]) -> Value {
    let run = sandbox.room.as_ref().map(|room| &room.run);
    let shown = apps.iter().zip(urls).map(|(app, urls)| {
        let value = json!({
            "service": app.service, "port": app.port, "url": urls.url, "direct": urls.direct, "shared": urls.shared,
        });
        (app.app.clone(), value)
    });
    json!({
        "sandbox": sandbox.name.as_str(),
        "id": sandbox.id.as_str(),
        "project": sandbox.project.as_str(),
        "branch": sandbox.branch,
        "worktree": sandbox.worktree,
        "run": run.map(|run| &run.id),
        "artifacts": run.map(|run| &run.artifacts),
        "started": run.map(|run| run.started.to_string()),
        "apps": shown.collect::<serde_json::Map<_, _>>(),
    })
}

fn ports_json(apps: &[App]) -> Value {
    let ports = apps.iter().map(|app| json!({ "port": app.direct, "label": app.app }));
    json!({ "ports": ports.collect::<Vec<_>>() })
}

fn env_sh(sandbox: &SandboxRecord, artifacts: &Path, urls: &[AppUrls]) -> String {
    let run = sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default();
    let mut pairs = vec![
        ("HOTHOUSE_SANDBOX".to_owned(), sandbox.name.to_string()),
        ("HOTHOUSE_ID".to_owned(), sandbox.id.to_string()),
        ("HOTHOUSE_RUN".to_owned(), run),
        ("HOTHOUSE_ARTIFACTS".to_owned(), artifacts.display().to_string()),
        ("E2E_COOKIE".to_owned(), format!("hothouse-sandbox={}", sandbox.id)),
    ];
    for app in urls {
        let name = app.app.to_ascii_uppercase().replace('-', "_");
        let url = app.url.as_ref().unwrap_or(&app.direct);
        pairs.push((format!("{name}_URL"), url.clone()));
        pairs.push((format!("{name}_DIRECT_URL"), app.direct.clone()));
    }
    let front = urls.iter().find(|app| app.app == "web").or(urls.first());
    if let Some(front) = front {
        let url = front.url.as_ref().unwrap_or(&front.direct);
        pairs.push(("E2E_BASE_URL".to_owned(), url.clone()));
    }
    pairs.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_in_a_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
