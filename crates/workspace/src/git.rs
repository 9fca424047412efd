//! The git program, called so that nothing a repository contains is run on the host.
//!
//! Hooks, file-system monitor, pagers, editors, credential helpers and askpass are off; variables
//! that redirect git elsewhere are removed; background maintenance is off, so no process outlives
//! the call that made it.

use std::path::Path;

use hothouse_host::{Program, RunError};

/// Variables of the caller that would make git act on another repository, or run something.
const REMOVED: [&str; 22] = [
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
];

/// Settings that win over every config file, also over the repository's own.
const SETTINGS: [(&str, &str); 9] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
];

/// Returns a git command that acts on whatever repository is around `folder`.
pub fn around(folder: &Path) -> Program {
    hardened().arg("-C").arg(folder)
}

/// Returns a git command that acts on one repository, whatever lies around.
pub fn of(common_dir: &Path) -> Program {
    hardened().arg("--git-dir").arg(common_dir)
}

/// Returns a git command on a worktree, by its admin folder rather than by its own `.git` file,
/// which whoever writes in the worktree could have pointed elsewhere.
pub fn inside(admin_dir: &Path, worktree: &Path) -> Program {
    hardened().arg("--git-dir").arg(admin_dir).arg("--work-tree").arg(worktree).folder(worktree)
}

fn hardened() -> Program {
    let mut program = Program::new("git");
    for name in REMOVED {
        program = program.env_remove(name);
    }
    // By the environment rather than by `-c`, so that the command in an error message is readable.
    for (index, (key, value)) in SETTINGS.iter().enumerate() {
        program = program
            .env(format!("GIT_CONFIG_KEY_{index}"), key)
            .env(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    program
        .env("GIT_CONFIG_COUNT", SETTINGS.len().to_string())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("LC_ALL", "C")
}

/// Returns the only line of an output.
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
