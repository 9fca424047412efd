//! Completions of names that only the daemon or the project knows. They never start a daemon, and say nothing where
//! there is none.

use std::{ffi::OsStr, path::PathBuf, sync::OnceLock};

use clap_complete::{ArgValueCompleter, CompletionCandidate};
use hothouse_api::{
    Build, SandboxView, route,
    sandbox::{FindQuery, TrashView},
    workspace::SnapshotView,
};
use hothouse_host::{files, folders::Folders};

use crate::{args::Global, session::Session, ui::Ui};

/// Where names are looked for.
struct Source {
    folders: Folders,
    build: Build,
    folder: PathBuf,
    /// The words of the line so far.
    words: Vec<String>,
}

/// The shells' completers call functions without arguments of ours.
static SOURCE: OnceLock<Source> = OnceLock::new();

/// Remembers where names are looked for.
pub(crate) fn look_in(folders: Folders, build: Build, folder: PathBuf, words: Vec<String>) {
    SOURCE.set(Source { folders, build, folder, words }).ok();
}

pub(crate) fn sandboxes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let here = SOURCE.get().map(|source| source.folder.clone()).unwrap_or_default();
        let all = all().into_iter().flat_map(|sandbox| {
            let whole = format!("{}/{}", sandbox.project, sandbox.name);
            // In its project the name alone is enough.
            let names = match is_near(&sandbox, &here) {
                true => vec![sandbox.name.clone(), whole],
                false => vec![whole],
            };
            let help = sandbox.state.as_str();
            names.into_iter().map(move |name| (name, help.to_owned()))
        });
        candidates(all, typed)
    })
}

pub(crate) fn deleted() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let all: Option<Vec<TrashView>> = ask(|session| session.get_if_running(route::TRASH));
        let all = all.unwrap_or_default().into_iter();
        candidates(all.map(|one| (one.name, format!("deleted {}", one.deleted))), typed)
    })
}

pub(crate) fn services() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let sandbox = meant();
        let services = sandbox.into_iter().flat_map(|sandbox| sandbox.services);
        candidates(services.map(|one| (one.name, one.state.as_str().to_owned())), typed)
    })
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
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(source) = SOURCE.get() else { return Vec::new() };
        let mut above = source.folder.ancestors().map(|folder| folder.join("hothouse.toml"));
        let read =
            |file: PathBuf| files::read_regular(&file, hothouse_config::MAX_BYTES as u64).ok();
        let text = above.find_map(read).and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.unwrap_or_default();
        let config = hothouse_config::parse("hothouse.toml", &text).map(|read| read.config);
        let names = config.map(|config| config.profiles.into_keys().collect::<Vec<_>>());
        let names = names.unwrap_or_default().into_iter();
        candidates(names.map(|name| (name.to_string(), String::new())), typed)
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

/// Returns the sandbox that the line means so far.
fn meant() -> Option<SandboxView> {
    ask(|session| {
        let query: FindQuery = session.find_query(sandbox_of_line())?;
        session.query_if_running(route::SANDBOX_FIND, &query)
    })
}

/// Returns what the line has after `-w`.
fn sandbox_of_line() -> Option<String> {
    let words = &SOURCE.get()?.words;
    let at = words.iter().position(|word| word == "-w" || word == "--sandbox")?;
    words.get(at + 1).cloned()
}

/// Asks a daemon that is running; whatever goes wrong completes nothing.
fn ask<T>(
    question: impl FnOnce(&Session) -> Result<Option<T>, hothouse_model::Failure>,
) -> Option<T> {
    let source = SOURCE.get()?;
    // In a room names come from its own sandbox, and no daemon is started.
    let inside =
        hothouse_host::files::exists(std::path::Path::new(hothouse_model::room::API_SOCKET));
    let ui = Ui::new(&Global { quiet: true, ..Global::default() }, true, true, false);
    let session =
        Session::new(source.folders.clone(), source.build, source.folder.clone(), inside, &ui)
            .ok()?;
    question(&session).ok().flatten()
}
