//! Completes names that only the daemon or the project knows. Never starts a daemon, and completes nothing if none
//! is running.

use std::{ffi::OsStr, path::PathBuf, sync::OnceLock};

use clap_complete::{ArgValueCompleter, CompletionCandidate};
use hothouse_api::{
    Build, SandboxView, route,
    sandbox::{FindQuery, TrashView},
    workspace::SnapshotView,
};
use hothouse_host::{files, folders::Folders};

use hothouse_model::config::{Config, Scenario};

use crate::{
    args::{Global, parse::Noun},
    session::Session,
    ui::Ui,
};

/// Where names are looked up.
struct Source {
    folders: Folders,
    build: Build,
    folder: PathBuf,
    /// The words of the line so far.
    words: Vec<String>,
}

/// Static, because the shells' completers call functions without arguments.
static SOURCE: OnceLock<Source> = OnceLock::new();

/// Stores where names are looked up.
pub(crate) fn look_in(folders: Folders, build: Build, folder: PathBuf, words: Vec<String>) {
    SOURCE.set(Source { folders, build, folder, words }).ok();
}

pub(crate) fn sandboxes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(near().into_iter(), typed))
}

/// Lists all sandboxes with their states. Within its project, the name alone is enough.
fn near() -> Vec<(String, String)> {
    let here = SOURCE.get().map(|source| source.folder.clone()).unwrap_or_default();
    let names = all().into_iter().flat_map(|sandbox| {
        let whole = format!("{}/{}", sandbox.project, sandbox.name);
        let names = match is_near(&sandbox, &here) {
            true => vec![sandbox.name.clone(), whole],
            false => vec![whole],
        };
        let help = sandbox.state.as_str();
        names.into_iter().map(move |name| (name, help.to_owned()))
    });
    names.collect()
}

/// Returns what kind of thing a word names, as far as a running daemon knows.
pub(crate) fn noun(word: &str) -> Noun {
    let is_name =
        |one: &SandboxView| one.name == word || format!("{}/{}", one.project, one.name) == word;
    if all().iter().any(is_name) {
        return Noun::Sandbox;
    }
    let services = meant().map(|sandbox| sandbox.services).unwrap_or_default();
    match services.iter().any(|service| service.name == word) {
        true => Noun::Service,
        false => Noun::Unknown,
    }
}

pub(crate) fn deleted() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let all: Option<Vec<TrashView>> = ask(|session| session.get_if_running(route::TRASH));
        let all = all.unwrap_or_default().into_iter();
        candidates(all.map(|one| (one.name, format!("deleted {}", one.deleted))), typed)
    })
}

pub(crate) fn services() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(services_of_line(), typed))
}

/// Completes services, and sandboxes if none is named yet: `logs agent-a web`.
pub(crate) fn sandboxes_and_services() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let names = match sandbox_of_line() {
            None => near(),
            Some(_) => Vec::new(),
        };
        candidates(services_of_line().chain(names), typed)
    })
}

fn services_of_line() -> impl Iterator<Item = (String, String)> {
    let services = meant().into_iter().flat_map(|sandbox| sandbox.services);
    services.map(|one| (one.name, one.state.as_str().to_owned()))
}

pub(crate) fn apps() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let apps = meant().into_iter().flat_map(|sandbox| sandbox.apps);
        candidates(apps.map(|(label, app)| (label, app.url)), typed)
    })
}

pub(crate) fn snapshots() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let found: Option<Vec<SnapshotView>> = ask(|session| {
            let query = session.find_query(sandbox_of_line())?;
            session.query_if_running(route::SNAPSHOTS, &query)
        });
        let all = found.unwrap_or_default().into_iter();
        candidates(all.map(|one| (one.label, one.created.to_string())), typed)
    })
}

pub(crate) fn profiles() -> ArgValueCompleter {
    declared(|config| {
        config.profiles.keys().map(|name| (name.to_string(), String::new())).collect()
    })
}

pub(crate) fn scenarios() -> ArgValueCompleter {
    declared(scenarios_of)
}

/// Completes bundles, radii and scenarios: everything by which data can be chosen.
pub(crate) fn seeds() -> ArgValueCompleter {
    declared(|config| {
        let named = |name: &str, what: &str| (name.to_owned(), what.to_owned());
        let bundles = config.seed.bundles.keys().map(|name| named(name.as_str(), "bundle"));
        let radii = config.seed.radii.keys().map(|name| named(name.as_str(), "radius"));
        bundles.chain(radii).chain(scenarios_of(config)).collect()
    })
}

fn scenarios_of(config: &Config) -> Vec<(String, String)> {
    let named = config.scenarios.iter();
    let about = |one: &Scenario| {
        one.about.as_ref().map_or_else(String::new, |line| line.as_str().to_owned())
    };
    named.map(|(name, one)| (name.to_string(), about(one))).collect()
}

/// Completes names that a config declares: that of the sandbox on the line, otherwise the nearest one.
fn declared(names: fn(&Config) -> Vec<(String, String)>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let Some(source) = SOURCE.get() else { return Vec::new() };
        let named = sandbox_of_line().and_then(|_| meant()).map(|one| PathBuf::from(one.worktree));
        let folders = named.into_iter().chain(source.folder.ancestors().map(PathBuf::from));
        let read = |folder: PathBuf| {
            let file = folder.join("hothouse.toml");
            files::read_regular(&file, hothouse_config::MAX_BYTES as u64).ok()
        };
        let text = folders.into_iter().find_map(read);
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let config = hothouse_config::parse("hothouse.toml", &text).map(|read| read.config);
        let names = config.map(|config| names(&config)).unwrap_or_default();
        candidates(names.into_iter(), typed)
    })
}

fn candidates(
    all: impl Iterator<Item = (String, String)>,
    typed: &OsStr,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = all.filter(|(name, _)| name.starts_with(&*typed));
    let candidate = |(name, help): (String, String)| {
        let help = (!help.is_empty()).then(|| crate::render::plain(&help).into());
        CompletionCandidate::new(name).help(help)
    };
    fitting.map(candidate).collect()
}

fn is_near(sandbox: &SandboxView, here: &std::path::Path) -> bool {
    let worktree = std::path::Path::new(&sandbox.worktree);
    let around = worktree.parent().unwrap_or(worktree);
    let repository = around.to_string_lossy();
    let root = repository.strip_suffix("-sandboxes").or(repository.strip_suffix("/.worktrees"));
    here.starts_with(around) || root.is_some_and(|root| here.starts_with(root))
}

fn all() -> Vec<SandboxView> {
    ask(|session| session.get_if_running(route::SANDBOXES)).unwrap_or_default()
}

/// Returns the sandbox that the line refers to so far.
fn meant() -> Option<SandboxView> {
    ask(|session| {
        let query: FindQuery = session.find_query(sandbox_of_line())?;
        session.query_if_running(route::SANDBOX_FIND, &query)
    })
}

/// Returns the sandbox named on the line: after `-w`, or as the first word of `logs` and `up`.
fn sandbox_of_line() -> Option<String> {
    let words = &SOURCE.get()?.words;
    if let Some(at) = words.iter().position(|word| word == "-w" || word == "--sandbox") {
        return words.get(at + 1).cloned();
    }
    let at = words.iter().position(|word| word == "logs" || word == "up")?;
    // The last word is the one being typed.
    let before = words.get(at + 1..words.len().saturating_sub(1))?;
    let first = before.iter().find(|word| !word.starts_with('-'))?;
    let is_it =
        |one: &SandboxView| one.name == *first || format!("{}/{}", one.project, one.name) == *first;
    all().iter().any(is_it).then(|| first.clone())
}

/// Queries a running daemon. On any failure nothing is completed.
fn ask<T>(
    question: impl FnOnce(&Session) -> Result<Option<T>, hothouse_model::Failure>,
) -> Option<T> {
    let source = SOURCE.get()?;
    // In a room, names come from its own sandbox, and no daemon is started.
    let inside =
        hothouse_host::files::exists(std::path::Path::new(hothouse_model::room::API_SOCKET));
    let ui = Ui::new(&Global { quiet: true, ..Global::default() }, true, true, false);
    let session =
        Session::new(source.folders.clone(), source.build, source.folder.clone(), inside, &ui)
            .ok()?;
    question(&session).ok().flatten()
}
