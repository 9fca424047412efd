//! Transcripts that tools write themselves: read in the room, partially, redacted, and stored with
//! the run.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hothouse_guard::redacted;
use hothouse_host::files;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::prepare;
use crate::in_room::InRoom;

/// How much of all transcripts of an agent is read.
const MOST: usize = 4 << 20;

/// A tool call in a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TranscriptCall {
    pub(super) time: Timestamp,
    pub(super) tool: String,
    pub(super) target: String,
}

/// Returns the file with the tool calls of an agent's transcripts.
pub(super) fn file(folder: &Path, agent: &str) -> PathBuf {
    folder.join("agents").join(format!("{agent}.calls.jsonl"))
}

/// Reads the transcripts written since an agent started, and stores their tool calls.
pub(super) async fn collect(inside: &InRoom, folder: &Path, agent: &str, since: Timestamp) {
    // Names and contents are controlled by the room, so the amount is limited.
    let script = format!(
        "find \"$HOME/.claude/projects\" \"$HOME/.codex/sessions\" -name '*.jsonl' -type f -newermt \"@$1\" \
         -exec cat {{}} + 2>/dev/null | head -c {MOST}"
    );
    let since = since.as_second().to_string();
    let Ok(output) =
        prepare::read_all(inside, &script, &[&since], MOST, Duration::from_secs(30)).await
    else {
        return;
    };
    let calls = calls(&output);
    if calls.is_empty() {
        return;
    }
    let lines: Vec<String> =
        calls.iter().filter_map(|call| serde_json::to_string(call).ok()).collect();
    let at = file(folder, agent);
    let kept = at.parent().map(files::make_folder).transpose().is_ok()
        && files::replace(&at, (lines.join("\n") + "\n").as_bytes(), 0o644).is_ok();
    if !kept {
        tracing::warn!(file = %at.display(), "the transcript of an agent could not be kept");
    }
}

/// Reads the stored tool calls.
pub(super) fn kept(folder: &Path) -> (Vec<TranscriptCall>, Vec<String>) {
    let (mut all, mut names) = (Vec::new(), Vec::new());
    let listed = files::list(&folder.join("agents")).unwrap_or_default();
    for path in listed.into_iter().filter(|path| path.to_string_lossy().ends_with(".calls.jsonl")) {
        let Ok(text) = files::read_capped(&path, 8 << 20) else { continue };
        let text = String::from_utf8_lossy(&text);
        all.extend(
            text.lines().filter_map(|line| serde_json::from_str::<TranscriptCall>(line).ok()),
        );
        names.push(path.to_string_lossy().into_owned());
    }
    (all, names)
}

/// Parses the tool calls in transcripts of Claude Code, and in rollouts of Codex. Pure.
pub(super) fn calls(bytes: &[u8]) -> Vec<TranscriptCall> {
    const CALLS: usize = 10_000;
    let text = String::from_utf8_lossy(bytes);
    let mut all = Vec::new();
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let Some(time) = value["timestamp"].as_str().and_then(|time| time.parse().ok()) else {
            continue;
        };
        for block in value["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_use" {
                all.push(call(time, &block["name"], &block["input"]));
            }
        }
        let payload = &value["payload"];
        if matches!(
            payload["type"].as_str(),
            Some("function_call" | "local_shell_call" | "custom_tool_call")
        ) {
            let input =
                payload["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
            // Codex passes plain text to some tools: a patch, or code.
            let plain =
                payload["input"].as_str().map(|text| serde_json::json!({ "command": text }));
            let input = input.or(plain).unwrap_or_else(|| payload["action"].clone());
            all.push(call(time, &payload["name"], &input));
        }
        if all.len() >= CALLS {
            break;
        }
    }
    all
}

fn call(time: Timestamp, name: &Value, input: &Value) -> TranscriptCall {
    let tool: String = name.as_str().unwrap_or("shell").chars().take(100).collect();
    let keys = ["command", "cmd", "file_path", "path", "notebook_path", "url", "pattern"];
    let value = keys.iter().map(|key| &input[*key]).find(|value| !value.is_null());
    let target = match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let target: String = target.chars().take(1000).collect();
    TranscriptCall { time, tool, target: redacted(&target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_both_formats_are_read_and_redacted() {
        let secret = format!("ghp_{}", "a".repeat(36));
        let lines = [
            r#"{"type":"assistant","timestamp":"2026-01-01T00:00:00Z","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","name":"Write","input":{"file_path":"/w/a"}}]}}"#.to_owned(),
            format!(r#"{{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{{"type":"function_call","name":"shell","arguments":"{{\"command\":[\"echo\",\"{secret}\"]}}"}}}}"#),
            "nonsense".to_owned(),
            "{}".to_owned(),
        ];
        let found = calls(lines.join("\n").as_bytes());
        let shown: Vec<_> =
            found.iter().map(|call| (call.tool.as_str(), call.target.as_str())).collect();
        assert_eq!(shown, [("Write", "/w/a"), ("shell", "[\"echo\",\"***\"]")]);
    }
}
