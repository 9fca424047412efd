//! The hook protocol of each tool, input and output. `docs/guard.md` has the documents and versions.
//!
//! *To add a tool:* add a variant of [`Vendor`], recognize and read its input in [`Call::read`], write its answer in
//! [`Vendor::answer`], and add the path of its settings to `install` of the command line.

use serde_json::{Value, json};

use crate::{Action, Decision, Verdict};

/// A coding agent whose hooks are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Claude,
    Codex,
    Gemini,
    Copilot,
    Cursor,
    OpenCode,
}

/// A tool call, as a hook describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub vendor: Vendor,
    /// The agent's name for the tool.
    pub tool: String,
    pub action: Action,
    pub folder: Option<std::path::PathBuf>,
    pub session: Option<String>,
    /// Its target, in one line: a command, a path, a URL.
    pub target: String,
    /// The arguments, for a digest.
    pub input: Value,
}

/// The answer of a hook: standard output, standard error and exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub stdout: String,
    pub stderr: String,
    pub code: u8,
}

/// The maximum size of hook input. `serde_json` limits its nesting to 128.
pub const INPUT_LIMIT: usize = 4 << 20;

impl Call {
    /// Reads hook input. `vendor` is the tool that the hook was installed for, if known.
    pub fn read(bytes: &[u8], vendor: Option<Vendor>) -> Result<Self, String> {
        if bytes.len() > INPUT_LIMIT {
            return Err(format!("it is longer than {INPUT_LIMIT} bytes"));
        }
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let Some(fields) = value.as_object() else {
            return Err("it is not an object".to_owned());
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = text("hook_event_name").or_else(|| text("hookEventName"));
        let found = vendor.or_else(|| recognized(&value, event.as_deref()));
        let vendor = found.ok_or("it is of no tool that is known")?;
        let named = text("tool_name").or_else(|| text("toolName")).or_else(|| text("tool"));
        let input =
            ["tool_input", "toolArgs", "args", "arguments"].iter().find_map(|key| fields.get(*key));
        // Copilot sends the arguments as JSON in a string.
        let input = match input {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| json!({ "input": text }))
            }
            Some(other) => other.clone(),
            None => Value::Null,
        };
        let (tool, input) = match (named, event.as_deref()) {
            (Some(tool), _) => (tool, input),
            (None, Some("beforeShellExecution")) => {
                ("shell".to_owned(), json!({ "command": fields.get("command") }))
            }
            (None, Some("beforeReadFile")) => {
                ("read".to_owned(), json!({ "file_path": fields.get("file_path") }))
            }
            _ => return Err("it names no tool".to_owned()),
        };
        if tool.len() > 256 {
            return Err("the name of its tool is too long".to_owned());
        }
        let action = Action::of(&tool, &input);
        Ok(Self {
            vendor,
            target: target(&action),
            tool,
            action,
            folder: text("cwd").filter(|folder| !folder.is_empty()).map(Into::into),
            session: text("session_id")
                .or_else(|| text("sessionId"))
                .or_else(|| text("sessionID"))
                .or_else(|| text("conversation_id")),
            input,
        })
    }
}

/// Recognizes a tool by the fields of its input.
fn recognized(value: &Value, event: Option<&str>) -> Option<Vendor> {
    let has = |key: &str| value.get(key).is_some();
    match event {
        Some("BeforeTool") => Some(Vendor::Gemini),
        Some("PreToolUse") if has("turn_id") => Some(Vendor::Codex),
        Some("PreToolUse") => Some(Vendor::Claude),
        Some("beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile") => {
            Some(Vendor::Cursor)
        }
        Some("preToolUse") if has("conversation_id") => Some(Vendor::Cursor),
        _ if has("toolName") => Some(Vendor::Copilot),
        _ if has("tool") && has("args") => Some(Vendor::OpenCode),
        None if has("tool_name") && has("tool_input") => Some(Vendor::Claude),
        _ => None,
    }
}

/// Returns the target of a call, in one line.
fn target(action: &Action) -> String {
    let text = match action {
        Action::Write(paths) | Action::Read(paths) => paths.join(" "),
        Action::Shell { command, .. } => command.clone(),
        Action::Argv { words, .. } => words.join(" "),
        Action::Fetch(url) => url.clone(),
        Action::Harmless | Action::Unknown(_) => String::new(),
    };
    text.chars().take(1000).collect()
}

impl Vendor {
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Copilot, Self::Cursor, Self::OpenCode];

    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::OpenCode => "opencode",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Returns the answer in the tool's own format. A tool that cannot ask gets a denial that tells it to ask its user.
    pub fn answer(self, decision: &Decision) -> Answer {
        let reason = match decision.verdict {
            Verdict::Allow => decision.reason.clone(),
            _ => format!("{}. (The guard is advice; the room is the fence.)", decision.reason),
        };
        let can_ask = matches!(self, Self::Claude | Self::Copilot | Self::Cursor);
        let verdict = match decision.verdict {
            Verdict::Ask if !can_ask => Verdict::Deny,
            other => other,
        };
        let word = verdict.as_str();
        let body = match self {
            Self::Claude => json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason,
            } }),
            // Codex accepts only `deny`; for everything else its own approval decides.
            Self::Codex if verdict == Verdict::Deny => json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
            } }),
            Self::Codex => json!({}),
            Self::Gemini => json!({ "decision": word, "reason": reason }),
            Self::Copilot => {
                json!({ "permissionDecision": word, "permissionDecisionReason": reason })
            }
            Self::Cursor => {
                json!({ "permission": word, "user_message": reason, "agent_message": reason })
            }
            Self::OpenCode => json!({ "decision": word, "reason": reason }),
        };
        Answer { stdout: body.to_string(), stderr: String::new(), code: 0 }
    }
}
