//! `stack`: the systems that rooms can be made of.

use std::process::ExitCode;

use hothouse_host::files;
use hothouse_model::Failure;
use serde_json::{Value, json};

use crate::{
    args::StackCommand,
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The folder of a repository that holds its own stacks.
const OWN: &str = "stacks";

/// Runs a command of `stack`.
pub(crate) fn run(session: &Session, ui: &Ui, command: &StackCommand) -> Result<ExitCode, Failure> {
    match command {
        StackCommand::List => list(session, ui),
    }
}

fn list(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let mut all = vec![json!({
        "name": "host", "source": "this machine", "state": "ready", "digest": null, "bytes": 0, "built": null,
    })];
    let around = session.folder.ancestors().find(|folder| files::exists(&folder.join(".git")));
    let own =
        around.map(|root| files::list(&root.join(OWN)).unwrap_or_default()).unwrap_or_default();
    for path in own {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".sh") {
            all.push(json!({
                "name": name, "source": path, "state": "not built", "digest": null, "bytes": 0, "built": null,
            }));
        }
    }
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let rows = all.iter().map(|stack| {
        vec![
            Cell::new(text(&stack["name"])).tone(Tone::Strong),
            Cell::new(text(&stack["state"])),
            Cell::new(text(&stack["source"])).tone(Tone::Faint),
        ]
    });
    ui.print(&table(ui, &["STACK", "STATE", "SOURCE"], rows.collect()));
    Ok(ExitCode::SUCCESS)
}
