//! `config check` and `config show` only read files, so they work without a daemon; `config
//! approve` asks the daemon what needs approval.

mod fixtures;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_api::{
    egress::{ApproveBody, PendingView},
    route,
    sandbox::FindQuery,
};
use hothouse_config::{File, Layers, MAX_BYTES, Resolved};
use hothouse_host::{
    FileError,
    databases::{self, RecipeError},
    files,
};
use hothouse_model::{
    Explain, Failure, FailureKind,
    config::{Config, Problem, Work},
};

use super::{given::unread, sandbox::check_reference};
use crate::{
    args::{ApproveArgs, ConfigArgs},
    render::{Cell, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

const CONFIG_FILE: &str = "hothouse.toml";

/// Reports every problem of a config.
pub(crate) fn check(
    session: &Session,
    ui: &Ui,
    args: &ConfigArgs,
    variables: &[(String, String)],
) -> Result<ExitCode, Failure> {
    let file = find(session, args)?;
    let (problems, missing) = match read(session, &file, variables)? {
        Ok(resolved) => {
            (fixtures::problems(&file, &resolved.config), missing_programs(&resolved.config))
        }
        Err(problems) => (problems, Vec::new()),
    };
    if ui.json {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        ui.print_json(
            &serde_json::json!({ "file": file, "problems": problems, "missing": missing }),
        );
    } else {
        problems.iter().for_each(|problem| ui.print_message(&plain_lines(&problem.render())));
        // The file is valid; the host lacks something.
        missing.iter().for_each(|missing| ui.say(&format!("Note: {}.", with_hint(missing))));
        ui.say(&match problems.len() {
            0 => format!("{} is valid.", file.display()),
            1 => "There is 1 problem.".to_owned(),
            count => format!("There are {count} problems."),
        });
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FailureKind::Config.exit_code())
    })
}

/// Lists the recipe programs that this host does not have.
pub(super) fn missing_programs(config: &Config) -> Vec<RecipeError> {
    let of_profiles = config.profiles.values().flat_map(|profile| &profile.services);
    let all = config.services.iter().chain(of_profiles);
    let mut missing: Vec<RecipeError> = Vec::new();
    // What a stack contains is known once it is built; `up` reports what is missing.
    if config.room.stack.as_str() != "host" {
        return missing;
    }
    for (name, service) in all {
        let Work::Database(recipe) = service.work() else { continue };
        let found = databases::find(recipe, name.as_str(), service.version.as_ref(), &[]);
        missing.extend(found.err().filter(|error| !missing.contains(error)));
    }
    missing
}

/// Returns what a recipe lacks and how to get it.
pub(super) fn with_hint(missing: &RecipeError) -> String {
    format!("{missing}: {}", missing.hints().join(", "))
}

/// Prints the JSON Schema, and how an editor uses it.
pub(crate) fn schema(ui: &Ui) -> ExitCode {
    ui.print_json(&hothouse_config::json_schema());
    if ui.json {
        return ExitCode::SUCCESS;
    }
    let save = match ui.is_terminal() {
        true => {
            "Save it beside hothouse.toml: `hothouse config schema >.hothouse.schema.json`. Then make this"
        }
        false => "Save it beside hothouse.toml, such as `.hothouse.schema.json`, and make this",
    };
    ui.say(&format!("{save} the first line of hothouse.toml:\n  #:schema ./.hothouse.schema.json"));
    ExitCode::SUCCESS
}

/// Shows every setting and its origin.
pub(crate) fn show(
    session: &Session,
    ui: &Ui,
    args: &ConfigArgs,
    variables: &[(String, String)],
) -> Result<ExitCode, Failure> {
    let file = find(session, args)?;
    let resolved = read(session, &file, variables)?.map_err(|problems| broken(&problems))?;
    let shown = resolved.show();
    if ui.json {
        ui.print_json(&shown);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = shown.iter().map(|value| {
        vec![
            Cell::new(&value.key),
            Cell::new(&value.origin).tone(Tone::Faint),
            Cell::new(spaced(&value.value)).tone(Tone::Strong),
        ]
    });
    ui.print(&table(ui, &["KEY", "ORIGIN", "VALUE"], rows.collect()));
    Ok(ExitCode::SUCCESS)
}

/// Shows what an agent's config would change in the wall or the room, and applies it if approved.
pub(crate) fn approve(session: &Session, ui: &Ui, args: ApproveArgs) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: args.which.sandbox, folder: session.folder_text()? };
    let pending: PendingView = session.query(route::CONFIG_PENDING, &query)?;
    if pending.changes.is_empty() {
        match ui.json {
            true => ui.print_json(&pending),
            false => ui.say("Nothing to approve."),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !ui.json {
        let value = |value: &Option<serde_json::Value>| match value {
            Some(value) => short(&value.to_string()),
            None => "-".to_owned(),
        };
        let rows = pending.changes.iter().map(|change| {
            vec![
                Cell::new(&change.key).tone(Tone::Strong),
                Cell::new(value(&change.base)).tone(Tone::Faint),
                Cell::new(value(&change.worktree)),
            ]
        });
        ui.print(&table(ui, &["KEY", "NOW", "ASKED FOR"], rows.collect()));
    }
    if !args.yes {
        let question = format!("Apply these changes to `{}`?", pending.sandbox);
        match ui.ask(&question) {
            Some(true) => {}
            Some(false) => {
                ui.say("Cancelled: nothing was changed.");
                return Ok(ExitCode::from(FailureKind::Unmet.exit_code()));
            }
            None => {
                return Err(Failure::new(
                    FailureKind::Usage,
                    "approval needs confirmation, and this is not a terminal",
                )
                .hint("review the changes above, then pass `--yes`"));
            }
        }
    }
    let body =
        ApproveBody { sandbox: query.sandbox, folder: query.folder, text: pending.text.clone() };
    let now: PendingView = session.post(route::CONFIG_APPROVE, &session.operation(), &body)?;
    match ui.json {
        true => ui.print_json(&pending),
        false => {
            ui.say(&format!("Approved for `{}`.", now.sandbox));
            let later = needs_new_room(pending.changes.iter().map(|change| change.key.as_str()));
            if !later.is_empty() {
                let keys = later.join(", ");
                let name = &now.sandbox;
                ui.say(&format!(
                    "Effective at the next `hothouse up -w {name}`, which replaces a running room and keeps its files and data: {keys}."
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the changed keys that take effect only in a new room. Egress and integrations are effective immediately.
fn needs_new_room<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const OF_ROOM: [&str; 4] = ["room.", "secret.", "env.", "service."];
    keys.filter(|key| OF_ROOM.iter().any(|part| key.starts_with(part))).collect()
}

/// Returns the command that installs dependencies, from the nearest config.
pub(super) fn setup(session: &Session, variables: &[(String, String)]) -> Result<String, Failure> {
    let file = find(session, &ConfigArgs { file: None })?;
    let resolved = read(session, &file, variables)?.map_err(|problems| broken(&problems))?;
    let setup = resolved.config.project.setup;
    setup.map(|command| command.as_str().to_owned()).ok_or_else(|| {
        Failure::new(FailureKind::Config, "--setup needs a command, and hothouse.toml has none")
            .hint("set `setup = \"npm ci\"` under `[project]`")
    })
}

/// Renders a value with spaces at which a line can be broken.
fn spaced(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(all) => {
            format!("[{}]", all.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(all) => {
            let entry =
                |(key, value): (&String, &serde_json::Value)| format!("{key} = {}", spaced(value));
            format!("{{ {} }}", all.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Truncates a value that would break the table; `--json` prints all of it.
fn short(value: &str) -> String {
    const WIDTH: usize = 60;
    match value.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

pub(super) fn broken(problems: &[Problem]) -> Failure {
    let failure = Failure::new(FailureKind::Config, "hothouse.toml is not valid");
    Failure { causes: problems.iter().map(Problem::render).collect(), ..failure }
        .hint("fix the file, then run `hothouse config check`")
}

/// Finds the file: the named one, or the nearest one here or above.
pub(super) fn find(session: &Session, args: &ConfigArgs) -> Result<PathBuf, Failure> {
    if let Some(file) = &args.file {
        return Ok(session.folder.join(file));
    }
    let folders = session.folder.ancestors().map(|folder| folder.join(CONFIG_FILE));
    folders.into_iter().find(|file| files::exists(file)).ok_or_else(|| {
        Failure::new(FailureKind::NotFound, "no hothouse.toml in this folder or any parent")
            .hint("create one with two lines: `[project]` and `name = \"my-project\"`")
    })
}

pub(super) fn read(
    session: &Session,
    file: &Path,
    variables: &[(String, String)],
) -> Result<Result<Resolved, Vec<Problem>>, Failure> {
    let bytes = read_file(file).map_err(|error| missing(&error))?;
    let user_file = session.folders.user_config();
    let user = match read_file(&user_file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.failure()),
    };
    let name = shown_name(session, file);
    let user_name = user_file.display().to_string();
    Ok(hothouse_config::resolve(&Layers {
        user: user.as_deref().map(|bytes| File { name: &user_name, bytes }),
        project: Some(File { name: &name, bytes: &bytes }),
        environment: variables,
    }))
}

/// Returns the path as the user would type it.
fn shown_name(session: &Session, file: &Path) -> String {
    file.strip_prefix(&session.folder).unwrap_or(file).display().to_string()
}

/// Reads a file that the user named, or one that may be an agent's.
fn read_file(file: &Path) -> Result<Vec<u8>, FileError> {
    let read = match file.ends_with(CONFIG_FILE) {
        true => files::read_regular,
        false => files::read_capped,
    };
    read(file, MAX_BYTES as u64 + 1)
}

fn missing(error: &FileError) -> Failure {
    let kind = if error.is_not_found() { FailureKind::NotFound } else { FailureKind::Host };
    unread(kind, error)
}
