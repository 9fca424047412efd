//! `stack`: the root file systems that rooms can be based on.

use std::process::ExitCode;

use hothouse_api::{
    route,
    stack::{StackBody, StackChangesView, StackQuery, StackRemovedView, StackView},
};
use hothouse_model::{Failure, room::StackState};

use crate::{
    args::{StackBuildArgs, StackCommand},
    progress::Progress,
    render::{Cell, bytes, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a `stack` command.
pub(crate) fn run(session: &Session, ui: &Ui, command: &StackCommand) -> Result<ExitCode, Failure> {
    match command {
        StackCommand::List => list(session, ui),
        StackCommand::Build(args) => build(session, ui, args),
        StackCommand::Rm { name } => remove(session, ui, name),
        StackCommand::Diff { name } => diff(session, ui, name),
    }
}

fn list(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let query = StackQuery { folder: session.folder_text()?, name: None };
    let all: Vec<StackView> = session.query(route::STACKS, &query)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = all.iter().map(|stack| {
        let tone = match stack.state {
            StackState::Ready => Tone::Good,
            StackState::Outdated => Tone::Warning,
            StackState::NotBuilt => Tone::Faint,
        };
        vec![
            Cell::new(plain(&stack.name)).tone(Tone::Strong),
            Cell::new(stack.state.as_str()).tone(tone),
            Cell::new(if stack.bytes == 0 { String::new() } else { bytes(stack.bytes) }),
            Cell::new(plain(&stack.source)).tone(Tone::Faint),
        ]
    });
    ui.print(&table(ui, &["STACK", "STATE", "SIZE", "SOURCE"], rows.collect()));
    Ok(ExitCode::SUCCESS)
}

fn build(session: &Session, ui: &Ui, args: &StackBuildArgs) -> Result<ExitCode, Failure> {
    let (folder, name) = (session.folder_text()?, args.name.clone());
    let body = StackBody { folder, name, rebuild: args.rebuild };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let built: Result<StackView, Failure> = session.post(route::STACKS, &operation, &body);
    drop(progress);
    let built = built?;
    if ui.json {
        ui.print_json(&built);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Stack `{}` is ready, {}.", plain(&built.name), bytes(built.bytes)));
    ui.print(&built.digest.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

fn remove(session: &Session, ui: &Ui, name: &str) -> Result<ExitCode, Failure> {
    let body = StackBody { folder: session.folder_text()?, name: name.to_owned(), rebuild: false };
    let gone: StackRemovedView = session.post(route::STACK_REMOVE, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&gone);
    } else {
        ui.say(&format!("Removed stack `{}`, {}.", plain(&gone.name), bytes(gone.bytes)));
    }
    Ok(ExitCode::SUCCESS)
}

fn diff(session: &Session, ui: &Ui, name: &str) -> Result<ExitCode, Failure> {
    let query = StackQuery { folder: session.folder_text()?, name: Some(name.to_owned()) };
    let found: StackChangesView = session.query(route::STACK_CHANGES, &query)?;
    if ui.json {
        ui.print_json(&found);
        return Ok(ExitCode::SUCCESS);
    }
    let lines = [("package", &found.packages), ("program", &found.programs)];
    for (kind, names) in lines {
        names.iter().for_each(|name| ui.print(&format!("+ {kind} {}", plain(name))));
    }
    Ok(ExitCode::SUCCESS)
}
