//! `mcp install`: adds Hothouse to the configuration of a tool.

use std::{path::Path, process::ExitCode};

use hothouse_host::process;
use hothouse_model::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::{
    args::{AgentTool, InstallArgs, ToolProfile},
    edited::{Base, Edited},
    entry::{self, Unfit},
    session::Session,
    ui::Ui,
};

const NAME: &str = "hothouse";

/// The file in which a tool keeps its servers, and its format.
struct Place {
    file: Edited,
    form: Form,
}

enum Form {
    /// An object of this name in a JSON file.
    Json(&'static str),
    /// Like `Json`, with the transport type named.
    TypedJson(&'static str),
    /// A table below this one in a TOML file.
    Toml(&'static str),
}

/// Adds the entry, or removes it.
pub(super) fn run(session: &Session, ui: &Ui, args: &InstallArgs) -> Result<ExitCode, Failure> {
    let mut changed = Vec::new();
    for tool in &args.tools {
        let place = place(*tool, args.user, &session.folder, &session.folders.home);
        let text = place.file.read()?.unwrap_or_default();
        let new = match args.remove {
            true => without(&place, &text),
            false => with(&place, &text, &command(args)),
        };
        let new = new.map_err(|unfit| refusal(unfit, &place, &command(args)))?;
        if new == text {
            continue;
        }
        // A file that contains nothing else is not worth keeping.
        match args.remove && ["", "{}"].contains(&new.trim()) {
            true => place.file.remove()?,
            false => place.file.write(&new)?,
        }
        changed.push(place.file.path());
    }
    if ui.json {
        ui.print_json(&json!({ "changed": changed, "removed": args.remove }));
        return Ok(ExitCode::SUCCESS);
    }
    match changed.is_empty() {
        true => ui.say("Nothing to change."),
        false => changed.iter().for_each(|file| ui.print(&file.display().to_string())),
    }
    Ok(ExitCode::SUCCESS)
}

fn place(tool: AgentTool, user: bool, folder: &Path, home: &Path) -> Place {
    let base = match user {
        true => Base::Home(home.to_owned()),
        false => Base::Project(folder.to_owned()),
    };
    let (file, form) = match (tool, user) {
        (AgentTool::Claude, false) => (".mcp.json", Form::Json("mcpServers")),
        (AgentTool::Claude, true) => (".claude.json", Form::Json("mcpServers")),
        (AgentTool::Codex, _) => (".codex/config.toml", Form::Toml("mcp_servers")),
        (AgentTool::Cursor, _) => (".cursor/mcp.json", Form::Json("mcpServers")),
        (AgentTool::Vscode, false) => (".vscode/mcp.json", Form::TypedJson("servers")),
        (AgentTool::Vscode, true) => (".config/Code/User/mcp.json", Form::TypedJson("servers")),
        (AgentTool::Gemini, _) => (".gemini/settings.json", Form::Json("mcpServers")),
    };
    Place { file: base.file(file), form }
}

/// Returns the program and its arguments. A project file is also read on other machines.
fn command(args: &InstallArgs) -> (String, Vec<String>) {
    let program = process::executable().filter(|_| args.user);
    let program = program.and_then(|path| path.to_str().map(str::to_owned));
    let mut words = vec!["mcp".to_owned()];
    if args.profile == ToolProfile::Full {
        words.extend(["--profile".to_owned(), "full".to_owned()]);
    }
    (program.unwrap_or_else(|| NAME.to_owned()), words)
}

fn with(place: &Place, text: &str, command: &(String, Vec<String>)) -> Result<String, Unfit> {
    match place.form {
        Form::Json(section) | Form::TypedJson(section) => {
            entry::put_json(text, section, NAME, &shown(&place.form, command))
        }
        Form::Toml(section) => {
            let (program, words) = command;
            let lines =
                [format!("command = {}", json!(program)), format!("args = {}", json!(words))];
            Ok(entry::put_toml(text, &format!("{section}.{NAME}"), &lines))
        }
    }
}

fn shown(form: &Form, (program, words): &(String, Vec<String>)) -> Value {
    match form {
        Form::TypedJson(_) => json!({ "type": "stdio", "command": program, "args": words }),
        _ => json!({ "command": program, "args": words }),
    }
}

fn without(place: &Place, text: &str) -> Result<String, Unfit> {
    match place.form {
        _ if text.is_empty() => Ok(String::new()),
        Form::Json(section) | Form::TypedJson(section) => entry::take_json(text, section, NAME),
        Form::Toml(section) => Ok(entry::take_toml(text, &format!("{section}.{NAME}"))),
    }
}

fn refusal(unfit: Unfit, place: &Place, command: &(String, Vec<String>)) -> Failure {
    let why = match unfit {
        Unfit::NotJson => "it is not plain JSON (it may have comments)",
        Unfit::OtherShape => "it has something else where servers are listed",
    };
    let message = format!("{} cannot be changed: {why}", place.file.path().display());
    let entry = shown(&place.form, command);
    Failure::new(FailureKind::Config, message).hint(format!("add it yourself: \"{NAME}\": {entry}"))
}
