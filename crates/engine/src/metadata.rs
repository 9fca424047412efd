//! Metadata of a run for other tools: `run.json` and `env.sh` among its artifacts, Superset's files
//! in the worktree. Pure functions decide the content.

use std::path::Path;

use hothouse_host::{FileError, beneath::Folder, files};
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    caveat::Caveat,
    seed::{self, SeedSummary},
    stack::StackOrder,
};
use serde_json::{Value, json};

use crate::{App, Engine, IntegrationReport, apps::Names, trees};

/// The folder of the worktree that Superset reads.
const SUPERSET: &str = ".superset";
const PORTS_FILE: &str = "ports.json";
const CONFIG_FILE: &str = "config.json";

/// Returns the exclude patterns for the files of a run in a worktree. They do not affect files that
/// the project has committed.
pub(crate) fn own_patterns() -> impl Iterator<Item = String> {
    let seed = format!("/{}/", seed::FOLDER);
    [PORTS_FILE, CONFIG_FILE].into_iter().map(pattern_of).chain([seed])
}

fn pattern_of(file: &str) -> String {
    format!("/{SUPERSET}/{file}")
}

/// The size limit of our files in a worktree.
const FILE_LIMIT: u64 = 64 << 10;

/// The addresses of an app, for the files below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppUrls {
    pub app: String,
    /// The routed URL, if there is a router.
    pub url: Option<String>,
    pub direct: String,
    pub shared: Option<String>,
}

/// Returns the addresses of an app from its label and direct port; `port` is that of the router.
pub fn urls_of(sandbox: &SandboxRecord, app: &str, direct: u16, port: Option<u16>) -> AppUrls {
    let names =
        port.map(|port| Names { sandbox: sandbox.name.as_str(), project: &sandbox.label, port });
    AppUrls {
        app: app.to_owned(),
        url: names.map(|names| names.of(app)),
        direct: format!("http://127.0.0.1:{direct}"),
        shared: names.map(|names| names.shared(app)),
    }
}

impl Engine {
    /// Writes the files that tools read about a running sandbox.
    pub fn write_metadata(
        &self,
        sandbox: &SandboxRecord,
        port: Option<u16>,
    ) -> Result<(), Failure> {
        let apps = self.apps(sandbox)?;
        let write = || -> Result<(), FileError> {
            let Some(room) = &sandbox.room else { return Ok(()) };
            let urls: Vec<_> =
                apps.iter().map(|app| urls_of(sandbox, &app.app, app.direct, port)).collect();
            let artifacts = &room.run.artifacts;
            files::make_private_folder(artifacts)?;
            let about = About {
                stack: self.stack_of(sandbox),
                logs: &self.logs_of(sandbox),
                caveats: self.room_of(sandbox).map(|room| room.caveats).unwrap_or_default(),
                seed: seed_of(artifacts),
                integrations: self.integration_reports(sandbox).unwrap_or_default(),
            };
            let run = pretty(&run_json(sandbox, &apps, &urls, &about));
            replace_if_changed(&artifacts.join("run.json"), &run)?;
            let env = env_sh(sandbox, artifacts, &urls);
            replace_if_changed(&artifacts.join("env.sh"), &env)?;
            // Files that only the room shows are useless on the host.
            if apps.is_empty() || trees::is_hidden(sandbox) {
                return Ok(());
            }
            self.write_in_worktree(sandbox, &apps)
        };
        write().map_err(|error| error.failure())
    }

    /// Writes Superset's files. The agent can write there too: links are not followed, and an
    /// existing config is kept.
    fn write_in_worktree(&self, sandbox: &SandboxRecord, apps: &[App]) -> Result<(), FileError> {
        let repository = trees::repository(&sandbox.repository.common_dir);
        let used = files::is_folder(&sandbox.repository.root.join(SUPERSET));
        for file in [Some(PORTS_FILE), used.then_some(CONFIG_FILE)].into_iter().flatten() {
            let pattern = pattern_of(file);
            if !repository.excludes(&pattern)? {
                let _lock = self.repository_lock(&sandbox.repository.common_dir)?;
                repository.exclude(&pattern)?;
            }
        }
        let worktree = Folder::open(&sandbox.worktree)?;
        worktree.make_folders(Path::new(SUPERSET))?;
        let folder = worktree.folder(Path::new(SUPERSET))?;
        let keep = |name: &str, value: &Value| {
            let text = pretty(value);
            let known = folder.read_capped(Path::new(name), FILE_LIMIT).unwrap_or_default();
            match known == text.as_bytes() {
                true => Ok(()),
                false => folder.write(Path::new(name), text.as_bytes(), 0o644),
            }
        };
        keep(PORTS_FILE, &ports_json(apps))?;
        match used && folder.stat(Path::new(CONFIG_FILE))?.is_none() {
            true => keep(CONFIG_FILE, &superset_json()),
            false => Ok(()),
        }
    }
}

/// Replaces a file. An `up` comes here more than once, and a sync takes as long as the start of a service.
fn replace_if_changed(path: &Path, text: &str) -> Result<(), FileError> {
    let known = files::read_capped(path, FILE_LIMIT).unwrap_or_default();
    match known == text.as_bytes() {
        true => Ok(()),
        false => files::replace(path, text.as_bytes(), 0o600),
    }
}

/// Returns the seed information for `run.json`.
fn seed_of(artifacts: &Path) -> Value {
    let place = artifacts.join(seed::SUMMARY_FILE);
    let bytes = files::read_capped(&place, seed::SUMMARY_LIMIT).unwrap_or_default();
    match serde_json::from_slice::<SeedSummary>(&bytes) {
        Ok(summary) => json!({
            "radius": summary.radius, "bundles": summary.seeded(), "summary": place, "ids": summary.ids,
        }),
        Err(_) => Value::Null,
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("plain data can be written");
    text.push('\n');
    text
}

/// Facts about a run besides its apps.
struct About<'a> {
    stack: Option<StackOrder>,
    logs: &'a Path,
    caveats: Vec<Caveat>,
    /// Bundles, radius and ids of its seed, from its summary.
    seed: Value,
    integrations: Vec<IntegrationReport>,
}

/// Returns an integration for `run.json`, in the format of `integrations --json`.
fn integration_json(report: &IntegrationReport) -> Value {
    json!({
        "name": report.name, "class": report.class.to_string(), "vendor": report.vendor,
        "hosts": report.hosts, "sdks": report.sdks, "wiring": report.wiring.as_str(),
        "writes": report.writes, "secret": report.secret, "caveat": report.caveat, "records": 0,
    })
}

fn run_json(sandbox: &SandboxRecord, apps: &[App], urls: &[AppUrls], about: &About<'_>) -> Value {
    let run = sandbox.room.as_ref().map(|room| &room.run);
    let shown = apps.iter().zip(urls).map(|(app, urls)| {
        let value = json!({
            "service": app.service, "port": app.port, "url": urls.url, "direct": urls.direct, "shared": urls.shared,
        });
        (app.app.clone(), value)
    });
    let services = about.stack.iter().flat_map(|stack| &stack.services).map(|service| {
        json!({
            "name": service.name(), "port": service.port, "app": service.app, "task": service.spec.task,
            "log": about.logs.join(service.name()),
        })
    });
    let caveats = about.caveats.iter();
    let caveats =
        caveats.map(|caveat| json!({ "area": caveat.area(), "text": caveat.to_string() }));
    json!({
        "sandbox": sandbox.name.as_str(),
        "id": sandbox.id.as_str(),
        "project": sandbox.project.as_str(),
        "branch": sandbox.branch,
        "worktree": sandbox.worktree,
        "run": run.map(|run| &run.id),
        "artifacts": run.map(|run| &run.artifacts),
        "started": run.map(|run| run.started.to_string()),
        "profile": about.stack.as_ref().map(|stack| &stack.profile),
        "services": services.collect::<Vec<_>>(),
        "apps": shown.collect::<serde_json::Map<_, _>>(),
        "caveats": caveats.collect::<Vec<_>>(),
        "seed": about.seed,
        "integrations": about.integrations.iter().map(integration_json).collect::<Vec<_>>(),
    })
}

fn ports_json(apps: &[App]) -> Value {
    let ports = apps.iter().map(|app| json!({ "port": app.direct, "label": app.app }));
    json!({ "ports": ports.collect::<Vec<_>>() })
}

/// Returns the commands that Superset runs in a worktree; without a name each applies to the
/// sandbox around it.
fn superset_json() -> Value {
    json!({ "setup": ["hothouse up"], "run": ["hothouse up --reuse"], "teardown": ["hothouse down"] })
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
