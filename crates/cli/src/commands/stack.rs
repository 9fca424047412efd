//! `stack`: the systems that rooms can be made of.

use std::process::ExitCode;

use hothouse_model::Failure;
use serde_json::{Value, json};

use crate::{
    args::StackCommand,
    render::{Cell, plain, table},
    ui::{Tone, Ui},
};

/// Runs a command of `stack`.
pub(crate) fn run(ui: &Ui, command: &StackCommand) -> Result<ExitCode, Failure> {
    match command {
        StackCommand::List => Ok(list(ui)),
    }
}

fn list(ui: &Ui) -> ExitCode {
    let all = [json!({
        "name": "host", "source": "this machine", "state": "ready", "digest": null, "bytes": 0, "built": null,
    })];
    if ui.json {
        ui.print_json(&all);
        return ExitCode::SUCCESS;
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
    ExitCode::SUCCESS
}
