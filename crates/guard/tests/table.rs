//! Tests of the guard with tables of cases: what must be allowed, asked and denied.

#![expect(clippy::unwrap_used, reason = "tests may stop at once")]

use std::path::{Path, PathBuf};

use hothouse_guard::{Call, Files, Link, Mode, Scene, Vendor, Verdict, decide};
use serde_json::{Value, json};

/// A small file system: the sandbox with its links, and system folders.
struct Fake;

impl Files for Fake {
    fn look(&self, path: &Path) -> Link {
        match path.to_str().unwrap_or_default() {
            "/w/a/link" => Link::To("/etc".into()),
            "/w/a/up" => Link::To("..".into()),
            "/w/a/loop" => Link::To("loop".into()),
            // Streams of the guard itself.
            "/dev/fd" => Link::To("/proc/self/fd".into()),
            "/dev/stdin" | "/dev/stdout" | "/dev/stderr" => Link::To("/proc/self/fd/1".into()),
            "/proc/self" => Link::To("77".into()),
            "/proc/77/fd/1" => Link::To("pipe:[1]".into()),
            "/w" | "/w/a" | "/w/a/sub" | "/w/a/src" | "/w/a/README.md" | "/etc" | "/tmp"
            | "/home" | "/home/u" | "/usr" | "/var" | "/opt" | "/srv" | "/srv/other" | "/"
            | "/w/a/.git" | "/w/a/.claude" => Link::Plain,
            _ => Link::Missing,
        }
    }
}

fn with_scene<T>(mode: Mode, in_room: bool, run: impl FnOnce(&Scene<'_>) -> T) -> T {
    let none = |_: &str| None;
    run(&Scene {
        root: PathBuf::from("/w/a"),
        also: vec![PathBuf::from("/tmp")],
        home: PathBuf::from("/home/u"),
        folder: PathBuf::from("/w/a"),
        mode,
        in_room,
        variable: &none,
        files: &Fake,
    })
}

fn call(tool: &str, input: Value) -> Call {
    let hook = json!({ "session_id": "s", "hook_event_name": "PreToolUse", "cwd": "/w/a", "tool_name": tool, "tool_input": input });
    Call::read(hook.to_string().as_bytes(), None).unwrap()
}

fn verdict_of(tool: &str, input: Value) -> (Verdict, String) {
    with_scene(Mode::Ask, false, |scene| {
        let decision = decide(&call(tool, input), scene);
        (decision.verdict, decision.reason)
    })
}

fn wanted(word: &str) -> Verdict {
    match word {
        "allow" => Verdict::Allow,
        "ask" => Verdict::Ask,
        "deny" => Verdict::Deny,
        other => panic!("`{other}` is not a verdict"),
    }
}

#[test]
fn shell_commands_are_judged() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("cases/shell.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (word, command) = line.split_once(' ').unwrap_or((line, ""));
        let command = command.replace("\\n", "\n").replace("\\t", "\t");
        let (verdict, reason) = verdict_of("Bash", json!({ "command": command }));
        count += 1;
        if verdict != wanted(word) {
            wrong.push(format!("{command:?} is {} instead of {word}: {reason}", verdict.as_str()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 900, "{count} cases");
}

#[test]
fn no_known_bypass_is_allowed() {
    let mut allowed = Vec::new();
    let mut count = 0;
    let lines = include_str!("cases/bypasses.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let command = line.replace("\\n", "\n").replace("\\t", "\t");
        let (verdict, reason) = verdict_of("Bash", json!({ "command": command }));
        count += 1;
        if verdict == Verdict::Allow {
            allowed.push(format!("{command:?}: {reason}"));
        }
    }
    assert!(allowed.is_empty(), "{} of {count}:\n{}", allowed.len(), allowed.join("\n"));
    assert!(count >= 1000, "{count} ways");
}

#[test]
fn what_is_not_understood_is_denied_where_nobody_can_be_asked() {
    for command in
        ["rm -rf \"$UNKNOWN\"", "eval \"$X\"", "echo \"unterminated", "$CMD", "touch sub/$X"]
    {
        let decision = with_scene(Mode::Deny, true, |scene| {
            decide(&call("Bash", json!({ "command": command })), scene)
        });
        assert_eq!(decision.verdict, Verdict::Deny, "{command}: {}", decision.reason);
    }
}

#[test]
fn file_tools_are_judged() {
    let path = |path: &str| json!({ "file_path": path });
    let cases: Vec<(&str, &str, Value)> = vec![
        ("allow", "Write", path("/w/a/x")),
        ("allow", "Write", path("x")),
        ("allow", "Write", path("sub/../x")),
        ("allow", "Edit", path("/w/a/src/main.rs")),
        ("allow", "MultiEdit", path("/w/a/x")),
        ("allow", "NotebookEdit", json!({ "notebook_path": "/w/a/n.ipynb" })),
        ("allow", "Write", path("/tmp/x")),
        ("allow", "Write", path("/w/a/with\nline")),
        ("allow", "Write", path("/w/a/ü/日本")),
        ("deny", "Write", path("/etc/passwd")),
        ("deny", "Edit", path("/w/a/../b.txt")),
        ("deny", "Write", path("/w/a/link/x")),
        ("deny", "Write", path("/w/a/up/x")),
        ("deny", "Write", path("/w/a/loop/x")),
        ("deny", "Write", path("/w/ab/x")),
        ("deny", "Write", path("/w")),
        ("deny", "Write", path("../x")),
        ("deny", "Write", path("/w/a/\n/../../../etc/x")),
        ("deny", "Write", path("/home/u/.bashrc")),
        ("deny", "Write", path("/w/a/.claude/settings.json")),
        ("deny", "NotebookEdit", json!({ "notebook_path": "/srv/n.ipynb" })),
        ("allow", "Read", path("/w/a/x")),
        ("allow", "Read", path("/usr/include/stdio.h")),
        ("allow", "Read", path("/home/u/notes")),
        ("deny", "Read", path("/home/u/.ssh/id_rsa")),
        ("deny", "Read", path("/etc/shadow")),
        ("allow", "Glob", json!({ "pattern": "**/*.rs" })),
        ("allow", "Grep", json!({ "pattern": "x", "path": "/w/a" })),
        ("deny", "Grep", json!({ "pattern": "x", "path": "/home/u/.aws" })),
        ("allow", "Task", json!({ "prompt": "x" })),
        ("allow", "TodoWrite", json!({ "todos": [] })),
        ("allow", "WebFetch", json!({ "url": "https://example.com/x" })),
        ("deny", "WebFetch", json!({ "url": "file:///etc/shadow" })),
        ("ask", "Teleport", json!({ "where": "x" })),
        ("deny", "Teleport", json!({ "path": "/etc/x" })),
        ("ask", "Write", json!({})),
        ("ask", "Bash", json!({})),
        ("ask", "Bash", json!({ "command": 7 })),
        ("allow", "mcp__filesystem__write_file", json!({ "path": "/w/a/x" })),
        ("deny", "mcp__filesystem__write_file", json!({ "path": "/etc/x" })),
        (
            "deny",
            "mcp__filesystem__move_file",
            json!({ "source": "/w/a/x", "destination": "/srv/x" }),
        ),
        ("deny", "mcp__filesystem__create_directory", json!({ "path": "../x" })),
        ("allow", "mcp__filesystem__read_file", json!({ "path": "/usr/x" })),
        (
            "deny",
            "mcp__filesystem__read_multiple_files",
            json!({ "paths": ["/w/a/x", "/etc/shadow"] }),
        ),
        ("deny", "mcp__fs__edit_file", json!({ "edits": [{ "path": "/etc/x" }] })),
        ("deny", "mcp__x__write", json!({ "uri": "file:///etc/x" })),
        ("allow", "mcp__github__list_issues", json!({ "owner": "x" })),
        ("deny", "mcp__shell__execute_command", json!({ "command": "touch /etc/x" })),
        (
            "allow",
            "apply_patch",
            json!({ "command": "*** Begin Patch\n*** Add File: src/x.rs\n+a\n*** End Patch" }),
        ),
        (
            "deny",
            "apply_patch",
            json!({ "command": "*** Begin Patch\n*** Update File: ../x.rs\n*** End Patch" }),
        ),
        (
            "deny",
            "apply_patch",
            json!({ "input": "*** Begin Patch\n*** Update File: a\n*** Move to: /srv/x\n*** End Patch" }),
        ),
        ("ask", "apply_patch", json!({ "command": "nothing" })),
        ("deny", "shell", json!({ "command": ["bash", "-lc", "touch /etc/x"], "workdir": "/w/a" })),
        ("allow", "shell", json!({ "command": ["touch", "a;touch /etc/x"] })),
        ("deny", "shell", json!({ "command": "touch x", "workdir": "/etc" })),
        ("deny", "run_shell_command", json!({ "command": "touch x", "directory": ".." })),
    ];
    for (want, tool, input) in cases {
        let shown = input.to_string();
        let (verdict, reason) = verdict_of(tool, input);
        assert_eq!(verdict, wanted(want), "{tool} {shown}: {reason}");
    }
}

#[test]
fn every_tool_is_read_and_answered_in_its_own_shape() {
    let outside = "touch /etc/x";
    let cases = [
        (
            Vendor::Claude,
            json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": outside } }),
            "/hookSpecificOutput/permissionDecision",
        ),
        (
            Vendor::Codex,
            json!({ "hook_event_name": "PreToolUse", "turn_id": "1", "tool_name": "Bash", "tool_input": { "command": outside } }),
            "/hookSpecificOutput/permissionDecision",
        ),
        (
            Vendor::Gemini,
            json!({ "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": { "command": outside } }),
            "/decision",
        ),
        (
            Vendor::Copilot,
            json!({ "timestamp": 1, "cwd": "/w/a", "toolName": "bash", "toolArgs": format!("{{\"command\":\"{outside}\"}}") }),
            "/permissionDecision",
        ),
        (
            Vendor::Cursor,
            json!({ "hook_event_name": "beforeShellExecution", "conversation_id": "c", "command": outside, "cwd": "/w/a" }),
            "/permission",
        ),
        (
            Vendor::Cursor,
            json!({ "hook_event_name": "preToolUse", "conversation_id": "c", "tool_name": "Shell", "tool_input": { "command": outside } }),
            "/permission",
        ),
        (Vendor::OpenCode, json!({ "tool": "bash", "args": { "command": outside } }), "/decision"),
    ];
    for (vendor, input, place) in cases {
        let call = Call::read(input.to_string().as_bytes(), None).unwrap();
        assert_eq!(call.vendor, vendor);
        let decision = with_scene(Mode::Ask, false, |scene| decide(&call, scene));
        let answer: Value = serde_json::from_str(&vendor.answer(&decision).stdout).unwrap();
        assert_eq!(
            answer.pointer(place).and_then(Value::as_str),
            Some("deny"),
            "{vendor:?}: {answer}"
        );
        assert!(
            answer.to_string().contains("/etc/x") && answer.to_string().contains("below `/w/a`"),
            "{answer}"
        );
    }
}

#[test]
fn input_that_cannot_be_read_is_refused() {
    for bad in [
        &b"not json"[..],
        b"",
        b"[]",
        b"7",
        b"{}",
        b"{\"hook_event_name\":\"PreToolUse\"}",
        b"{\"hook_event_name\":\"SomethingNew\",\"tool_name\":\"Bash\",\"tool_input\":{}}",
        b"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"\\ud800\",\"tool_input\":{}}",
        b"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Wr\xff\",\"tool_input\":{}}",
        &[b'['; 100_000],
    ] {
        assert!(
            Call::read(bad, None).is_err(),
            "{}",
            String::from_utf8_lossy(&bad[..bad.len().min(60)])
        );
    }
    let long = vec![b' '; hothouse_guard::contract::INPUT_LIMIT + 1];
    assert!(Call::read(&long, None).is_err());
}

#[test]
fn hostile_scripts_end_soon() {
    let nested = |open: &str, close: &str, count: usize| {
        format!("{}true{}", open.repeat(count), close.repeat(count))
    };
    let scripts = [
        nested("$(", ")", 2000),
        nested("(", ")", 5000),
        nested("{ ", "; }", 3000),
        nested("if true; then ", "; fi", 1000),
        nested("while [[ a ]]; do ", "; done", 300),
        "for a in 1 2 3 4 5 6 7 8 9; do ".repeat(8) + "touch x" + &"; done".repeat(8),
        "f() { f; f; f; }; f".to_owned(),
        "{a,b}".repeat(100),
        format!("touch {}", "{a,b}".repeat(50)),
        "a".repeat(300_000),
        "eval ".repeat(5000),
        "X=$X$X; ".repeat(2000),
        "echo \"".repeat(4000),
        "<<A ".repeat(1000),
        "`".repeat(5001),
        "sudo ".repeat(3000) + "ls",
    ];
    for script in scripts {
        let begun = std::time::Instant::now();
        verdict_of("Bash", json!({ "command": script }));
        let shown: String = script.chars().take(30).collect();
        assert!(begun.elapsed().as_secs() < 10, "{shown}… took {:?}", begun.elapsed());
    }
}
