//! `hothouse` without arguments: where you are and what to do next. Also decides what a word
//! without a flag means.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_api::{SandboxView, route, sandbox::FindQuery};
use hothouse_host::files;
use hothouse_model::{Failure, FailureKind};

use super::{
    panel::{is_up, state_word},
    sandbox::tone,
};
use crate::{
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Shows the sandboxes, the one that the current folder belongs to, and the next steps.
pub(crate) fn show(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    let here = all.iter().find(|one| session.folder.starts_with(&one.worktree));
    let place = Place::of(session, here);
    ui.print_message(&place.told());
    ui.print("");
    if !all.is_empty() {
        let rows = all.iter().map(|sandbox| row(sandbox, here.map(|one| one.id.as_str())));
        ui.print(&table(ui, &["SANDBOX", "STATE", "BRANCH", "APPS"], rows.collect()));
        ui.print("");
    }
    let meant = here.or_else(|| all.iter().find(|one| place.holds(one)));
    let steps = next_steps(&place, meant);
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, what) in steps {
        let what = ui.paint(Tone::Faint, what);
        ui.print(&format!("  {command:<width$}  {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the current folder is.
enum Place {
    /// In a sandbox of a project.
    Sandbox {
        project: String,
        name: String,
    },
    /// In a repository. Its project has this name unless its config sets another.
    Repository {
        root: PathBuf,
        has_config: bool,
    },
    Elsewhere,
}

impl Place {
    fn of(session: &Session, here: Option<&SandboxView>) -> Self {
        if let Some(one) = here {
            return Self::Sandbox { project: one.project.clone(), name: one.name.clone() };
        }
        let mut above = session.folder.ancestors();
        match above.find(|folder| files::exists(&folder.join(".git"))) {
            Some(root) => Self::Repository {
                has_config: files::exists(&root.join("hothouse.toml")),
                root: root.to_owned(),
            },
            None => Self::Elsewhere,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Sandbox { project, name } => {
                format!("In sandbox `{name}` of project `{}`.", plain(project))
            }
            Self::Repository { root, has_config: true } => {
                format!("In repository {}.", plain(&root.display().to_string()))
            }
            Self::Repository { root, has_config: false } => {
                let root = plain(&root.display().to_string());
                format!("In repository {root}, which has no hothouse.toml yet.")
            }
            Self::Elsewhere => "Not in a git repository.".to_owned(),
        }
    }

    /// Whether a sandbox was made from the repository: it is beside it or below it.
    fn holds(&self, sandbox: &SandboxView) -> bool {
        let Self::Repository { root, .. } = self else { return false };
        let around = Path::new(&sandbox.worktree).parent();
        let beside = format!("{}-sandboxes", root.display());
        around.is_some_and(|around| around == Path::new(&beside) || around.starts_with(root))
    }
}

fn row(sandbox: &SandboxView, here: Option<&str>) -> Vec<Cell> {
    let mark = if here == Some(sandbox.id.as_str()) { " (here)" } else { "" };
    let apps: Vec<_> = sandbox.apps.keys().map(String::as_str).collect();
    vec![
        Cell::new(format!("{}/{}{mark}", sandbox.project, sandbox.name)).tone(Tone::Strong),
        Cell::new(state_word(sandbox)).tone(tone(sandbox.state)),
        Cell::new(&sandbox.branch),
        Cell::new(if apps.is_empty() { "-".to_owned() } else { apps.join(", ") }),
    ]
}

/// Returns the commands that make sense now, most useful first.
fn next_steps(place: &Place, meant: Option<&SandboxView>) -> Vec<(String, &'static str)> {
    let command = |words: &str| format!("hothouse {words}");
    let Some(one) = meant else {
        let first = match place {
            Place::Repository { has_config: false, .. } => vec![
                (command("init"), "draft hothouse.toml, which says what runs"),
                (command("fork agent-a"), "make a sandbox of this repository"),
            ],
            Place::Elsewhere => vec![("cd REPOSITORY".to_owned(), "sandboxes are made of one")],
            _ => vec![(command("fork agent-a"), "make a sandbox of this repository")],
        };
        let further = [
            (command("doctor"), "check what works on this host"),
            (command("help"), "list the commands"),
        ];
        return first.into_iter().chain(further).collect();
    };
    let name = &one.name;
    let mut steps = match is_up(one.state) {
        true => vec![
            (command(&format!("status {name}")), "its services, URLs and caveats"),
            (command(&format!("exec -w {name} -- COMMAND")), "run something in its room"),
            (command(&format!("timeline -w {name}")), "what happened there"),
        ],
        false => vec![
            (command(&format!("up {name}")), "start its room and services"),
            (command(&format!("diff {name}")), "what changed on its branch"),
        ],
    };
    steps.push((command("fork NAME"), "make another sandbox"));
    steps.push((command("help"), "list the commands"));
    steps
}

/// Returns the sandbox that the current folder belongs to, or the only one.
fn here(session: &Session) -> Result<Option<SandboxView>, Failure> {
    let query = FindQuery { sandbox: None, folder: session.folder_text()? };
    let found = session.query(route::SANDBOX_FIND, &query);
    match found {
        Ok(sandbox) => Ok(Some(sandbox)),
        Err(Failure { kind: FailureKind::NotFound | FailureKind::Usage, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether a word is the name of a sandbox, as `-w` would accept it.
pub(super) fn is_sandbox(session: &Session, word: &str) -> Result<bool, Failure> {
    let all: Vec<SandboxView> = session.get(route::SANDBOXES)?;
    Ok(all.iter().any(|one| one.name == word || format!("{}/{}", one.project, one.name) == word))
}

/// Whether the first word of a command that takes services is a sandbox. A word that could be either is refused
/// with both interpretations.
pub(super) fn names_sandbox(session: &Session, command: &str, word: &str) -> Result<bool, Failure> {
    if !is_sandbox(session, word)? {
        return Ok(false);
    }
    let here = here(session)?;
    let service = here.filter(|one| one.services.iter().any(|service| service.name == word));
    let Some(one) = service else { return Ok(true) };
    let message = format!("`{word}` is a sandbox, and a service of `{}`", one.name);
    Err(Failure::new(FailureKind::Usage, message)
        .hint(format!("for the service: `hothouse {command} {word} -w {}`", one.name))
        .hint(format!("for the sandbox: `hothouse {command} -w {word}`")))
}
