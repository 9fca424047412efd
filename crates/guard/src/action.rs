//! The action of a tool call, from its name and arguments.

use serde_json::{Map, Value};

/// The action of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes, moves or removes files.
    Write(Vec<String>),
    Read(Vec<String>),
    Shell {
        command: String,
        folder: Option<String>,
    },
    /// A command that runs without a shell.
    Argv {
        words: Vec<String>,
        folder: Option<String>,
    },
    Fetch(String),
    /// Has no effect outside of the conversation.
    Harmless,
    /// Unknown.
    Unknown(String),
}

/// Tools that write the files they are given.
const WRITES: [&str; 19] = [
    "write",
    "edit",
    "multiedit",
    "notebookedit",
    "write_file",
    "replace",
    "create",
    "str_replace",
    "insert",
    "edit_file",
    "create_file",
    "delete_file",
    "search_replace",
    "strreplace",
    "tabwrite",
    "delete",
    "editnotebook",
    "str_replace_editor",
    "write_to_file",
];

/// Tools that read.
const READS: [&str; 19] = [
    "read",
    "read_file",
    "view",
    "glob",
    "grep",
    "ls",
    "list_directory",
    "list",
    "search_file_content",
    "read_many_files",
    "notebookread",
    "find",
    "grep_search",
    "list_dir",
    "file_search",
    "view_image",
    "semsearch",
    "rg",
    "read_notebook",
];

/// Tools that run a command.
const SHELLS: [&str; 15] = [
    "bash",
    "shell",
    "run_shell_command",
    "exec_command",
    "local_shell",
    "container.exec",
    "run_terminal_cmd",
    "terminal",
    "run_command",
    "execute_command",
    "unified_exec",
    "shell_command",
    "beforeshellexecution",
    "zsh",
    "sh",
];

/// Tools that only affect the conversation.
const HARMLESS: [&str; 44] = [
    "task",
    "agent",
    "todowrite",
    "todoread",
    "todo_write",
    "write_todos",
    "exitplanmode",
    "enterplanmode",
    "askuserquestion",
    "skill",
    "slashcommand",
    "bashoutput",
    "killshell",
    "killbash",
    "taskoutput",
    "taskstop",
    "toolsearch",
    "listmcpresources",
    "listmcpresourcestool",
    "readmcpresource",
    "readmcpresourcetool",
    "update_plan",
    "save_memory",
    "report_intent",
    "taskcreate",
    "taskupdate",
    "tasklist",
    "taskget",
    "lsp",
    "think",
    "plan",
    "ask_user",
    "structuredoutput",
    "sendmessage",
    "write_stdin",
    "read_bash",
    "write_bash",
    "stop_bash",
    "list_bash",
    "fetch_copilot_cli_documentation",
    "update_todo",
    "question",
    "invalid",
    "delegate_task",
];

const FETCHES: [&str; 6] =
    ["webfetch", "web_fetch", "fetch", "websearch", "web_search", "google_web_search"];

/// Arguments that contain paths.
const PATHS: [&str; 29] = [
    "file_path",
    "filepath",
    "filePath",
    "path",
    "notebook_path",
    "absolute_path",
    "file",
    "filename",
    "paths",
    "files",
    "source",
    "destination",
    "target_file",
    "relative_workspace_path",
    "dir_path",
    "directory",
    "dir",
    "target",
    "from",
    "to",
    "old_path",
    "new_path",
    "output",
    "output_path",
    "uri",
    "folder",
    "src",
    "dst",
    "target_directories",
];

const FOLDERS: [&str; 7] =
    ["workdir", "cwd", "directory", "dir_path", "working_directory", "folder", "dir"];

impl Action {
    /// Determines what a tool does with its arguments.
    pub fn of(name: &str, input: &Value) -> Self {
        let empty = Map::new();
        let fields = input.as_object().unwrap_or(&empty);
        let (server, tool) = match name.strip_prefix("mcp__").map(|rest| rest.rsplit_once("__")) {
            Some(Some((server, tool))) => (Some(server), tool),
            Some(None) => (Some(name), name),
            None => (None, name),
        };
        let tool = tool.to_lowercase();
        let known = |all: &[&str]| all.contains(&tool.as_str());
        match server {
            None if known(&HARMLESS) => Self::Harmless,
            None if known(&SHELLS) => {
                Self::shell(fields).unwrap_or_else(|| Self::Unknown(name.to_owned()))
            }
            None if tool == "apply_patch" || tool == "patch" => Self::patch(input),
            None if known(&FETCHES) => {
                Self::Fetch(text(fields, &["url", "uri", "prompt", "query"]).unwrap_or_default())
            }
            None if known(&WRITES) => Self::write(name, fields),
            None if known(&READS) => Self::Read(paths(fields)),
            None => Self::guessed(name, &tool, fields, false),
            Some(_) => Self::guessed(name, &tool, fields, true),
        }
    }

    fn write(name: &str, fields: &Map<String, Value>) -> Self {
        // A tool with several functions names one in `command`.
        if text(fields, &["command"]).as_deref() == Some("view") {
            return Self::Read(paths(fields));
        }
        match paths(fields) {
            all if all.is_empty() => Self::Unknown(name.to_owned()),
            all => Self::Write(all),
        }
    }

    fn shell(fields: &Map<String, Value>) -> Option<Self> {
        let folder = text(fields, &FOLDERS);
        let command =
            ["command", "cmd", "script", "commands"].iter().find_map(|key| fields.get(*key))?;
        match command {
            Value::String(command) => Some(Self::Shell { command: command.clone(), folder }),
            Value::Array(words) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                Some(Self::Argv { words: words?, folder })
            }
            _ => None,
        }
    }

    /// Reads a patch in the format of Codex: the files that its headers name.
    fn patch(input: &Value) -> Self {
        const HEADERS: [&str; 4] =
            ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
        let mut found = Vec::new();
        each_text(input, &mut |text| {
            for line in text.lines() {
                found.extend(
                    HEADERS
                        .iter()
                        .find_map(|header| line.strip_prefix(header))
                        .map(|path| path.trim().to_owned()),
                );
                found.extend(line.strip_prefix("+++ b/").map(|path| path.trim().to_owned()));
            }
        });
        match found.is_empty() {
            true => Self::Unknown("apply_patch".to_owned()),
            false => Self::Write(found),
        }
    }

    /// Guesses the action of an unlisted tool from its name and arguments.
    fn guessed(name: &str, tool: &str, fields: &Map<String, Value>, mcp: bool) -> Self {
        let says = |words: &[&str]| words.iter().any(|word| tool.contains(word));
        if says(&["shell", "bash", "exec", "terminal", "run_command"])
            && let Some(shell) = Self::shell(fields)
        {
            return shell;
        }
        let paths = paths(fields);
        let reads = says(&[
            "read", "list", "get", "search", "find", "view", "stat", "info", "tree", "show",
        ]);
        let writes = says(&[
            "write", "edit", "create", "move", "delete", "remove", "save", "append", "rename",
            "copy", "upload", "put", "insert", "replace", "patch",
        ]);
        match (paths.is_empty(), mcp) {
            (true, true) => Self::Harmless,
            (true, false) => Self::Unknown(name.to_owned()),
            (false, _) if reads && !writes => Self::Read(paths),
            (false, _) => Self::Write(paths),
        }
    }
}

fn text(fields: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| fields.get(*key)?.as_str().map(str::to_owned))
}

/// Returns the paths among the arguments.
fn paths(fields: &Map<String, Value>) -> Vec<String> {
    const MOST: usize = 256;
    let mut out = Vec::new();
    for (key, value) in fields {
        if PATHS.contains(&key.as_str()) {
            each_text(value, &mut |text| {
                out.push(text.strip_prefix("file://").unwrap_or(text).to_owned())
            });
        } else if matches!(key.as_str(), "edits" | "operations" | "changes") {
            for one in value.as_array().into_iter().flatten().filter_map(Value::as_object) {
                out.extend(paths(one));
            }
        }
    }
    out.truncate(MOST);
    out
}

/// Calls `found` for every text in a value, at any depth.
fn each_text(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(all) => all.iter().for_each(|one| each_text(one, found)),
        Value::Object(all) => all.values().for_each(|one| each_text(one, found)),
        _ => {}
    }
}
