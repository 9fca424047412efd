//! The command line: arguments in, text and exit codes out.
//!
//! Deliberately absent: decisions about sandboxes, and the engine. Requests go through [`session`]
//! to the daemon; output goes through [`ui`].

mod args;
mod budget;
mod commands;
mod complete;
mod describe;
mod document;
mod edited;
mod entry;
mod next;
mod outputs;
mod progress;
mod reach;
mod render;
mod scope;
mod serve;
mod session;
mod skills;
mod tools;
mod ui;

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_api::Build;
use hothouse_host::{
    files,
    folders::{Folders, NoHome},
};
use hothouse_model::{Failure, FailureKind};

pub use args::{command, parse::verb_first};
pub use commands::explain::document as codes_document;
pub use document::document;
pub use outputs::output_schema;

use crate::{args::Arguments, session::Session, ui::Ui};

/// The environment in which the binary was started.
pub struct Surroundings {
    pub arguments: Vec<OsString>,
    /// The `HOTHOUSE_*` variables.
    pub variables: Vec<(String, String)>,
    /// What the user's git and `gh` need to reach other machines.
    pub credentials: Vec<(String, String)>,
    /// The value of `PATH`.
    pub search_path: OsString,
    pub folder: io::Result<PathBuf>,
    /// The folder as the shell names it, even if it was deleted.
    pub named_folder: Option<PathBuf>,
    pub no_color: bool,
    pub dumb_terminal: bool,
    /// The user's editor, from `VISUAL` or `EDITOR`.
    pub editor: Option<String>,
    /// The value of `TERM`.
    pub terminal: String,
    pub build: Build,
    pub folders: Result<Folders, NoHome>,
    /// Looks up any variable, for the guard: commands that agents run have them too.
    pub variable: fn(&str) -> Option<String>,
    /// Whether this is a room: commands are then for its own sandbox, and reach the host's daemon.
    pub inside: bool,
    /// Runs the daemon in this process.
    pub serve: Box<dyn Fn(Folders, Build, File) -> DaemonEnd>,
}

/// How a daemon in this process ended.
pub enum DaemonEnd {
    Ended,
    NotStarted(Failure),
}

/// Runs one command.
pub fn run(surroundings: Surroundings) -> ExitCode {
    if let Some(code) = complete(&surroundings) {
        return code;
    }
    let arguments = match Arguments::parse(&surroundings.arguments, complete::noun) {
        Ok(arguments) => arguments,
        Err(early) => return early.finish(),
    };
    let hints = next::are_wanted(&surroundings.variables, surroundings.folders.as_ref().ok());
    let ui = Ui::new(&arguments.global, surroundings.no_color, surroundings.dumb_terminal, hints);
    let done = dispatch(&surroundings, arguments, &ui);
    match done.and_then(|code| ui.check_printed().map(|()| code)) {
        Ok(code) => code,
        Err(failure) => ui.fail(&failure),
    }
}

/// Answers a shell that requests completions, if one does.
fn complete(surroundings: &Surroundings) -> Option<ExitCode> {
    let Surroundings { arguments, folder, folders, build, .. } = surroundings;
    let folder = folder.as_ref().ok()?.clone();
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    complete::look_in(folders.as_ref().ok()?.clone(), *build, folder.clone(), words);
    let completer = clap_complete::CompleteEnv::with_factory(args::command).bin("hothouse");
    match completer.try_complete(arguments.iter().cloned(), Some(&folder)) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(error) => {
            error.print().ok();
            Some(ExitCode::from(FailureKind::Usage.exit_code()))
        }
    }
}

/// Returns the nearest existing folder around one that was deleted.
fn still_there(named: &Path) -> Option<PathBuf> {
    let mut around = named.ancestors().filter(|_| named.is_absolute());
    around.find(|folder| files::is_folder(folder)).map(Path::to_owned)
}

/// Returns the folder of sandboxes if the current folder was moved to the trash, otherwise the folder itself.
fn out_of_trash(folder: &Path) -> PathBuf {
    let is_trash = |above: &&Path| above.ends_with(".hothouse/deleted");
    let trash = folder.ancestors().find(is_trash);
    let sandboxes = trash.and_then(Path::parent).and_then(Path::parent);
    sandboxes.unwrap_or(folder).to_owned()
}

fn dispatch(
    surroundings: &Surroundings,
    arguments: Arguments,
    ui: &Ui,
) -> Result<ExitCode, Failure> {
    // A failing hook counts as consent, so the guard answers whatever is missing.
    if let Some(args::Command::Guard(guard)) = &arguments.command
        && guard.command.is_none()
        && (surroundings.folders.is_err() || surroundings.folder.is_err())
    {
        return commands::guard::run(None, ui, guard, surroundings);
    }
    let folders = match &surroundings.folders {
        Ok(folders) => folders.clone(),
        Err(error) => {
            return Err(Failure::of(FailureKind::Host, error).hint("set HOME to your home folder"));
        }
    };
    let named = surroundings.named_folder.as_deref();
    let folder = match (&surroundings.folder, named.and_then(still_there)) {
        (Ok(folder), _) => out_of_trash(folder),
        (Err(_), Some(folder)) => folder,
        (Err(error), None) => {
            let failure =
                Failure::new(FailureKind::NotFound, "the current folder no longer exists");
            return Err(Failure { causes: vec![error.to_string()], ..failure }
                .hint("change to another folder"));
        }
    };
    let session = Session::new(folders, surroundings.build, folder, surroundings.inside, ui)?;
    if surroundings.inside {
        scope::check(&session, &surroundings.arguments)?;
    }
    commands::run(arguments.command, &session, ui, surroundings)
}
