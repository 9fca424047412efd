//! The git program, called so that nothing a repository contains is run on the host.
//!
//! Hooks, the file-system monitor, pagers, editors, credential helpers and askpass are off.
//! Variables that redirect git elsewhere are removed. Background maintenance is off, so no process
//! outlives the call that started it.
//!
//! Filters, textconv, external diffs and merge drivers have names that only the user's config
//! defines, while any `.gitattributes` can request them. [`Config::quiet`] lists those names once
//! and disables each of them.

mod config;
mod guard;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hothouse_host::{Program, RunError};
use hothouse_model::Explain as _;

pub use self::config::{Config, Quiet};
pub(crate) use self::{
    config::{Prints, are_settled, likely_prints},
    guard::{GUARD_FILE, Guard},
};
use crate::tree::hidden::HiddenTree;

/// Variables of the caller that would make git act on another repository, or run something.
const REMOVED: [&str; 31] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
    "GIT_EDITOR",
    "GIT_PAGER",
    "GIT_ASKPASS",
    "GIT_TRACE",
    "GIT_QUARANTINE_PATH",
    "GIT_ALLOW_PROTOCOL",
    "GIT_ATTR_SOURCE",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
];

/// Settings that override every config file, including the repository's own.
const SETTINGS: [(&str, &str); 18] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("credential.helper", ""),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.gitProxy", ""),
    ("log.showSignature", "false"),
    ("interactive.diffFilter", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    // Larger files are neither diffed line by line nor held in memory: an agent can commit a file
    // that takes a few hundred bytes packed, and gigabytes unpacked.
    ("core.bigFileThreshold", "64m"),
];

/// The time limit for git on an agent's files: it opens a `.gitignore` or `.gitattributes` of any
/// type, and blocks forever on a pipe.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns hints for a git command that failed on the files of a worktree.
pub(crate) fn hints(error: &RunError, worktree: &Path) -> Vec<String> {
    match error {
        RunError::TooSlow { .. } => vec![format!(
            "a pipe in place of a file blocks git (`find {} -type p` shows it), and folders nested by the thousand or files of terabytes take it too long",
            worktree.display()
        )],
        other => other.hints(),
    }
}

/// Returns a git command for the repository around `folder`.
pub fn around(folder: &Path) -> Program {
    hardened().arg("-C").arg(folder)
}

/// Returns a git command for one repository, regardless of the current folder.
pub fn of(common_dir: &Path) -> Program {
    hardened().arg("--git-dir").arg(common_dir)
}

/// Returns a git command on a worktree, identified by its admin folder instead of its own `.git`
/// file, which an agent could have changed. A hidden worktree is read through a view.
pub fn inside(admin_dir: &Path, worktree: &Path) -> Program {
    let git = match HiddenTree::at(worktree) {
        Some(hidden) => harden(hidden.view().program("git")),
        None => hardened(),
    };
    git.arg("--git-dir").arg(admin_dir).arg("--work-tree").arg(worktree).folder(worktree)
}

/// Returns a git command that reads the content of files in a worktree. An agent may replace a
/// folder with a link in the meantime, so git follows no links.
pub(crate) fn reading(admin_dir: &Path, common_dir: &Path, worktree: &Path) -> Program {
    let git = inside(admin_dir, worktree);
    match HiddenTree::at(worktree) {
        // Its view follows no links either.
        Some(_) => git,
        // In an adopted checkout the repository is the user's own.
        None => {
            git.without_links(worktree, Some(common_dir).filter(|dir| dir.starts_with(worktree)))
        }
    }
}

/// Returns a git command that may reach other machines with the user's ssh keys, credential helpers
/// and askpass. It reads no content of a repository.
pub fn outward(common_dir: &Path) -> Program {
    const KEPT: [&str; 4] =
        ["core.sshCommand", "credential.helper", "core.askPass", "core.gitProxy"];
    let program = Program::new("git").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    let settings = SETTINGS.iter().copied().filter(|(key, _)| !KEPT.contains(key));
    let removed = REMOVED.iter().filter(|name| !name.starts_with("GIT_SSH"));
    let program = removed.fold(program, |program, name| program.env_remove(name));
    with_settings(program, settings).arg("--git-dir").arg(common_dir)
}

fn hardened() -> Program {
    harden(Program::new("git"))
}

fn harden(mut program: Program) -> Program {
    for name in REMOVED {
        program = program.env_remove(name);
    }
    with_settings(program, SETTINGS.iter().copied())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("LC_ALL", "C")
}

/// Passes the settings in the environment of a git command, replacing all others there.
///
/// In the environment and not with `-c`, so that the command in an error message is readable.
fn with_settings<'a>(
    mut program: Program,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
) -> Program {
    let mut count = 0;
    for (index, (key, value)) in settings.enumerate() {
        program = program
            .env(format!("GIT_CONFIG_KEY_{index}"), key)
            .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        count = index + 1;
    }
    program.env("GIT_CONFIG_COUNT", count.to_string())
}

/// Returns the only line of a command's output.
pub fn line(program: Program) -> Result<String, RunError> {
    let bytes = program.output()?;
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// Runs a query whose exit code 1 means "no such thing".
pub fn maybe_line(program: Program) -> Result<Option<String>, RunError> {
    let run = program.run()?;
    match run.status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&run.stdout).trim_end_matches('\n').to_owned())),
        _ => Ok(None),
    }
}

/// How many answers are cached, and the maximum size of each.
const REMEMBERED: usize = 512;
const LONGEST: usize = 64 << 10;

/// Cached answers from git that never change, by repository and question.
static KNOWN: Mutex<BTreeMap<(PathBuf, String), Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Caches answers that never change, such as the content of a commit: a git process costs
/// milliseconds, and forks of one commit repeat the question. The question must name commits and
/// objects by their ids.
pub(crate) fn remembered(
    common_dir: &Path,
    question: &str,
    ask: impl FnOnce() -> Result<Vec<u8>, RunError>,
) -> Result<Vec<u8>, RunError> {
    let key = (common_dir.to_owned(), question.to_owned());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known().get(&key) {
        return Ok(answer.clone());
    }
    let answer = ask()?;
    if answer.len() <= LONGEST {
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, answer.clone());
    }
    Ok(answer)
}
