//! `guard install` and `guard uninstall`: adds the guard to the hooks of a tool.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_host::process;
use hothouse_model::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::{
    args::{GuardInstallArgs, GuardTool},
    edited::Base,
    session::Session,
    ui::Ui,
};

/// Identifies our own entries.
const MARK: &str = "guard --tool ";

/// Adds the guard, or removes it.
pub(super) fn run(
    session: &Session,
    ui: &Ui,
    args: &GuardInstallArgs,
    remove: bool,
) -> Result<ExitCode, Failure> {
    let base = match args.user {
        true => Base::Home(session.folders.home.clone()),
        false => Base::Project(session.folder.clone()),
    };
    let program = program(args.user);
    let mut changed = Vec::new();
    for tool in &args.tools {
        let file = base.file(place(*tool, args.user));
        let text = file.read()?.unwrap_or_default();
        let new =
            edited(*tool, &text, &program, remove).map_err(|why| refusal(&file.path(), why))?;
        if new == text {
            continue;
        }
        match new.is_empty() {
            true => file.remove()?,
            false => file.write(&new)?,
        }
        changed.push(file.path());
    }
    if ui.json {
        ui.print_json(&json!({ "changed": changed, "removed": remove }));
        return Ok(ExitCode::SUCCESS);
    }
    match changed.is_empty() {
        true => ui.say("Nothing to change."),
        false => changed.iter().for_each(|file| ui.print(&file.display().to_string())),
    }
    if !remove {
        ui.say("The guard is advice to the agent; the room is the fence.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the program to name. A project file is also read on other machines, so it contains only
/// the program's name.
fn program(user: bool) -> String {
    let own = process::executable().filter(|_| user);
    own.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| "hothouse".to_owned())
}

/// Returns the file in which a tool keeps its hooks.
fn place(tool: GuardTool, user: bool) -> PathBuf {
    let path = match (tool, user) {
        (GuardTool::Claude, _) => ".claude/settings.json",
        (GuardTool::Codex, _) => ".codex/hooks.json",
        (GuardTool::Gemini, _) => ".gemini/settings.json",
        (GuardTool::Copilot, false) => ".github/hooks/hothouse.json",
        (GuardTool::Copilot, true) => ".copilot/hooks/hothouse.json",
        (GuardTool::Cursor, _) => ".cursor/hooks.json",
        (GuardTool::OpenCode, false) => ".opencode/plugin/hothouse.js",
        (GuardTool::OpenCode, true) => ".config/opencode/plugin/hothouse.js",
    };
    PathBuf::from(path)
}

/// Returns the file with or without the guard; empty if nothing else is in it. Pure.
fn edited(
    tool: GuardTool,
    text: &str,
    program: &str,
    remove: bool,
) -> Result<String, &'static str> {
    if tool == GuardTool::OpenCode {
        return plugin(text, program, remove);
    }
    let mut whole: Value = match text.trim().is_empty() {
        true => json!({}),
        false => {
            serde_json::from_str(text).map_err(|_| "it is not plain JSON (it may have comments)")?
        }
    };
    let before = whole.clone();
    take(&mut whole)?;
    if !remove {
        put(tool, &mut whole, program)?;
    }
    if whole == before && !text.is_empty() {
        return Ok(text.to_owned());
    }
    let only_version =
        whole.as_object().is_some_and(|fields| fields.keys().all(|key| key == "version"));
    if remove && only_version {
        return Ok(String::new());
    }
    let text = serde_json::to_string_pretty(&whole).expect("values are JSON");
    Ok(text + "\n")
}

/// Removes our entries, and lists that are empty afterwards.
fn take(whole: &mut Value) -> Result<(), &'static str> {
    let other = "it has something else where hooks are listed";
    let Some(fields) = whole.as_object_mut() else { return Err(other) };
    let Some(hooks) = fields.get_mut("hooks") else { return Ok(()) };
    let Some(events) = hooks.as_object_mut() else { return Err(other) };
    for entries in events.values_mut() {
        let Some(entries) = entries.as_array_mut() else { return Err(other) };
        let had = !entries.is_empty();
        for entry in entries.iter_mut() {
            if let Some(inner) = entry.get_mut("hooks").and_then(Value::as_array_mut) {
                inner.retain(|hook| !is_ours(hook));
            }
        }
        entries.retain(|entry| {
            !is_ours(entry)
                && entry
                    .get("hooks")
                    .is_none_or(|inner| inner.as_array().is_none_or(|inner| !inner.is_empty()))
        });
        if had && entries.is_empty() {
            *entries = vec![Value::Null];
        }
    }
    events.retain(|_, entries| {
        entries.as_array().is_none_or(|entries| entries != &vec![Value::Null])
    });
    if events.is_empty() {
        fields.remove("hooks");
    }
    Ok(())
}

fn is_ours(hook: &Value) -> bool {
    let command = hook.get("command").or_else(|| hook.get("bash")).and_then(Value::as_str);
    command.is_some_and(|command| command.contains("hothouse") && command.contains(MARK))
}

fn put(tool: GuardTool, whole: &mut Value, program: &str) -> Result<(), &'static str> {
    let quoted =
        match program.contains(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c))) {
            true => format!("'{}'", program.replace('\'', r"'\''")),
            false => program.to_owned(),
        };
    let command = |name: &str| format!("{quoted} {MARK}{name}");
    let entries: Vec<(&str, Value)> = match tool {
        GuardTool::Claude => vec![(
            "PreToolUse",
            json!({ "matcher": "*", "hooks": [{ "type": "command", "command": command("claude"), "timeout": 10 }] }),
        )],
        GuardTool::Codex => vec![(
            "PreToolUse",
            json!({ "matcher": "*", "hooks": [{ "type": "command", "command": command("codex"), "timeout": 10 }] }),
        )],
        GuardTool::Gemini => vec![(
            "BeforeTool",
            json!({ "matcher": ".*", "hooks": [{ "type": "command", "name": "hothouse-guard", "command": command("gemini"), "timeout": 10_000 }] }),
        )],
        GuardTool::Copilot => vec![(
            "preToolUse",
            json!({ "type": "command", "bash": command("copilot"), "timeoutSec": 10 }),
        )],
        GuardTool::Cursor => ["beforeShellExecution", "preToolUse"]
            .map(|event| (event, json!({ "command": command("cursor") })))
            .to_vec(),
        GuardTool::OpenCode => Vec::new(),
    };
    let fields = whole.as_object_mut().ok_or("it is not an object")?;
    if matches!(tool, GuardTool::Copilot | GuardTool::Cursor) {
        fields.entry("version").or_insert(json!(1));
    }
    let hooks = fields.entry("hooks").or_insert_with(|| json!({}));
    let events = hooks.as_object_mut().ok_or("it has something else where hooks are listed")?;
    for (event, entry) in entries {
        let list = events.entry(event).or_insert_with(|| json!([]));
        list.as_array_mut().ok_or("it has something else where hooks are listed")?.push(entry);
    }
    Ok(())
}

const PLUGIN_MARK: &str = "// Written by `hothouse guard install`.";

/// Returns the plugin for opencode, which has no hooks in its settings.
fn plugin(text: &str, program: &str, remove: bool) -> Result<String, &'static str> {
    if !text.is_empty() && !text.starts_with(PLUGIN_MARK) {
        return Err("somebody else wrote it");
    }
    if remove {
        return Ok(String::new());
    }
    Ok(format!(
        r#"{PLUGIN_MARK}
import {{ spawnSync }} from "node:child_process"

export const HothouseGuard = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    const call = JSON.stringify({{ tool: input.tool, sessionID: input.sessionID, cwd: directory, args: output.args }})
    const asked = spawnSync({program}, ["guard", "--tool", "opencode"], {{ input: call, encoding: "utf8", timeout: 10000 }})
    let answer
    try {{ answer = JSON.parse(asked.stdout) }} catch {{ throw new Error("the guard of hothouse did not answer, so this is denied") }}
    if (answer.decision === "deny") throw new Error(answer.reason)
  }},
}})
"#,
        program = json!(program)
    ))
}

fn refusal(file: &Path, why: &str) -> Failure {
    let message = format!("{} cannot be changed: {why}", file.display());
    Failure::new(FailureKind::Config, message)
        .hint("add a hook before tool calls yourself: the command is `hothouse guard --tool TOOL`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON_TOOLS: [GuardTool; 5] = [
        GuardTool::Claude,
        GuardTool::Codex,
        GuardTool::Gemini,
        GuardTool::Copilot,
        GuardTool::Cursor,
    ];

    #[test]
    fn installing_twice_is_installing_once_and_uninstalling_leaves_nothing() {
        for tool in JSON_TOOLS.into_iter().chain([GuardTool::OpenCode]) {
            let once = edited(tool, "", "hothouse", false).unwrap();
            assert!(once.contains("guard"), "{tool:?}");
            assert_eq!(edited(tool, &once, "hothouse", false).unwrap(), once, "{tool:?}");
            assert_eq!(edited(tool, &once, "hothouse", true).unwrap(), "", "{tool:?}");
        }
    }

    #[test]
    fn what_others_wrote_stays() {
        let theirs = json!({
            "model": "x",
            "hooks": {
                "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./theirs.sh" }] }],
                "Stop": [],
            },
        });
        let text = serde_json::to_string(&theirs).unwrap();
        let with = edited(GuardTool::Claude, &text, "/opt/x y/hothouse", false).unwrap();
        let value: Value = serde_json::from_str(&with).unwrap();
        assert_eq!(value["hooks"]["PreToolUse"].as_array().unwrap().len(), 2);
        assert!(with.contains("'/opt/x y/hothouse' guard --tool claude"));
        let without: Value =
            serde_json::from_str(&edited(GuardTool::Claude, &with, "hothouse", true).unwrap())
                .unwrap();
        assert_eq!(without, theirs);
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        for text in ["// comment\n{}", "[]", "{\"hooks\": []}", "{\"hooks\": {\"PreToolUse\": 7}}"]
        {
            assert!(edited(GuardTool::Claude, text, "hothouse", false).is_err(), "{text}");
        }
        assert!(edited(GuardTool::OpenCode, "export const Mine = 1", "hothouse", false).is_err());
    }
}
