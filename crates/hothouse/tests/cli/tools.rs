//! The real coding agents from npm, each for one session in a room: against the model mock, with
//! the guard installed and the vendor's URLs unchanged. Each makes an edit, and is prevented from
//! writing outside.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, skip, wait_until};
use serde_json::{Value, json};

use crate::surroundings;

/// An npm package, in the version that the contract was read from.
pub(crate) struct Package {
    name: &'static str,
    version: &'static str,
    program: &'static str,
}

impl Package {
    /// Installs it where rooms can see it; `None` without a registry, or if it does not run here.
    pub(crate) fn installed(&self) -> Option<PathBuf> {
        let Self { name, version, program } = self;
        let whole = format!("{name}@{version}");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("agents")
            .join(whole.replace(['@', '/'], "_"));
        let link = folder.join("bin").join(program);
        if !folder.join("done").exists() {
            fs::create_dir_all(folder.join("bin")).unwrap();
            let words = ["install", "--no-audit", "--no-fund", "--silent", "--prefix"];
            let npm = Command::new("npm").args(words).arg(&folder).arg(&whole).output();
            if !npm.is_ok_and(|npm| npm.status.success()) {
                skip(&format!("{name} in a room"), "npm and a registry");
                return None;
            }
            symlink(format!("../node_modules/.bin/{program}"), &link).ok();
            fs::write(folder.join("done"), "").unwrap();
        }
        let runs = Command::new(&link).arg("--version").env("HOME", &folder).output();
        if !runs.is_ok_and(|runs| runs.status.success()) {
            skip(&format!("{name} in a room"), "a Node.js that runs it");
            return None;
        }
        Some(folder)
    }
}

/// A running sandbox `a`, with a tool that uses a mocked model.
struct Session {
    env: TestEnv,
    repository: PathBuf,
    worktree: PathBuf,
}

impl Session {
    /// Opens a session. `fixtures` returns the responses of the integration, given the worktree.
    fn open(
        package: &Package,
        integration: &str,
        host: &str,
        key: &str,
        fixtures: impl Fn(&Path) -> Value,
    ) -> Option<Self> {
        let env = surroundings();
        if !env.can_have_rooms(package.name) {
            return None;
        }
        let tool = package.installed()?;
        let config = format!(
            "[project]\nname = \"shop\"\n[room]\ntools = [{tool:?}]\n[integration.{integration}]\nclass = \"mock\"\n\
             hosts = [\"{host}\"]\n[egress]\nmode = \"allowlist\"\nallow = []\n\
             [env.{key}]\nkind = \"fake\"\nvalue = \"test-of-nobody\"\n"
        );
        let repository = env.repository("shop", &config);
        let forked = env.json(&repository, &["fork", "a", "--idea", "make it blue", "--json"]);
        let worktree = PathBuf::from(forked["worktree"].as_str().unwrap());
        let folder = worktree.join("hothouse/fixtures").join(integration);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("edit.json"), fixtures(&worktree).to_string()).unwrap();
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository, worktree })
    }

    /// Runs the tool to its end.
    fn run(&self, words: &[&str]) {
        let start = ["agent", "start", "a", "--unattended"];
        self.env.ok(&self.repository, &[&start[..], words].concat());
        let state = || {
            let agents = self.env.json(&self.repository, &["agent", "list", "-w", "a", "--json"]);
            agents[0]["state"].as_str().unwrap_or_default().to_owned()
        };
        wait_until("the agent has ended", || {
            matches!(state().as_str(), "exited" | "failed" | "stopped")
        });
        let log = self.env.ok(&self.repository, &["agent", "logs", "a"]);
        assert_eq!(state(), "exited", "{log}");
    }

    /// Checks that one edit was made and reported, and a write outside was denied and reported.
    fn check(&self) {
        let log = self.env.ok(&self.repository, &["agent", "logs", "a"]);
        let exec = |script: &str| {
            self.env.ok(&self.repository, &["exec", "-w", "a", "--", "sh", "-c", script])
        };
        assert_eq!(exec("cat colour.txt"), "blue\n", "{log}");
        assert_eq!(exec("test -e /etc/evil.txt || echo none"), "none\n");
        let rows = self.env.json(&self.repository, &["audit", "-w", "a", "--json"]);
        let rows = rows.as_array().unwrap();
        let decided = |decision: &str, what: &str| {
            rows.iter().any(|row| {
                row["decision"] == decision && row["target"].as_str().unwrap().contains(what)
            })
        };
        assert!(decided("deny", "/etc/evil.txt"), "{rows:?} {log}");
        assert!(decided("allow", "colour.txt"), "{rows:?} {log}");
        assert!(log.contains("outside of the sandbox"), "the agent was told why: {log}");
    }
}

/// Builds a fixture that returns one answer after the other.
fn sequence(request: Value, answers: Vec<Value>) -> Value {
    let mut answers = answers.into_iter();
    json!({ "request": request, "answer": answers.next(), "then": answers.collect::<Vec<_>>() })
}

fn events(all: Vec<Value>) -> Value {
    let named = all.into_iter().map(|data| match data["type"].is_string() {
        true => json!({ "event": data["type"], "data": data }),
        false => json!({ "data": data }),
    });
    json!({ "events": named.collect::<Vec<_>>() })
}

/// Builds a response of OpenAI's Responses API.
fn response(item: &Value) -> Value {
    let response = json!({
        "id": "resp_{{uid}}", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item],
        "usage": { "input_tokens": 9, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 1,
                   "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 10 },
    });
    events(vec![
        json!({ "type": "response.created", "response": response }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": response }),
    ])
}

pub(crate) const CODEX: Package =
    Package { name: "@openai/codex", version: "0.169.0", program: "codex" };

#[test]
fn codex_makes_an_edit_and_is_kept_from_another() {
    // It composes tool calls in code; its hooks see each of them.
    let code = |id: &str, code: String| {
        json!({ "type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": format!("call_{id}"),
                "name": "exec", "input": code, "status": "completed" })
    };
    let patch = |path: &str| {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+blue\n*** End Patch\n");
        format!("text(await tools.apply_patch({}));", json!(patch))
    };
    let shell =
        |command: &str| format!("text(await tools.exec_command({{ cmd: {} }}));", json!(command));
    let said = json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                       "content": [{ "type": "output_text", "text": "It is blue.", "annotations": [] }] });
    let answers = [
        code("1", patch("colour.txt")),
        code("2", patch("/etc/evil.txt")),
        code("3", shell("echo x > /etc/evil.txt")),
        said,
    ];
    let session = Session::open(&CODEX, "openai", "api.openai.com", "CODEX_API_KEY", |_| {
        let request = json!({ "method": "POST", "path": "/v1/responses" });
        sequence(request, answers.iter().map(response).collect())
    });
    let Some(session) = session else { return };
    session.run(&["--tool", "codex"]);
    session.check();
    let rows = session.env.json(&session.repository, &["audit", "-w", "a", "--json"]);
    let unreported = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["reason"].as_str().unwrap().contains("no guard reported"));
    assert_eq!(unreported.count(), 0, "its transcript has nothing that no guard reported: {rows}");
}

const GEMINI: Package =
    Package { name: "@google/gemini-cli", version: "0.61.0", program: "gemini" };

#[test]
fn gemini_makes_an_edit_and_is_kept_from_another() {
    let answer = |part: Value| {
        events(vec![json!({
            "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
            "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10 },
        })])
    };
    let call =
        |name: &str, args: Value| answer(json!({ "functionCall": { "name": name, "args": args } }));
    let host = "generativelanguage.googleapis.com";
    let session = Session::open(&GEMINI, "gemini", host, "GEMINI_API_KEY", |worktree| {
        let request = json!({ "method": "POST", "path": "/v1beta/models/{rest*}", "query": { "alt": "sse" } });
        let file = worktree.join("colour.txt");
        sequence(
            request,
            vec![
                call("write_file", json!({ "file_path": file, "content": "blue\n" })),
                call("run_shell_command", json!({ "command": "echo x > /etc/evil.txt" })),
                answer(json!({ "text": "It is blue." })),
            ],
        )
    });
    let Some(session) = session else { return };
    session.run(&["--tool", "gemini", "--model", "gemini-2.5-pro"]);
    session.check();
}

/// Builds a chunk of OpenAI's chat completions.
fn chunk(delta: Value, finish: &str) -> Value {
    let of = |delta: Value, finish: Value| {
        json!({ "id": "chatcmpl-{{uid}}", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5",
                "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    };
    let last = json!({ "events": [{ "data": "[DONE]" }] });
    let mut all = events(vec![of(delta, Value::Null), of(json!({}), json!(finish))]);
    let end = last["events"][0].clone();
    all["events"].as_array_mut().unwrap().push(end);
    all
}

const COPILOT: Package =
    Package { name: "@github/copilot", version: "1.0.102", program: "copilot" };

#[test]
fn copilot_makes_an_edit_and_is_kept_from_another() {
    let call = |id: &str, name: &str, arguments: Value| {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
        chunk(json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
    };
    let session = Session::open(
        &COPILOT,
        "openai",
        "api.openai.com",
        "COPILOT_PROVIDER_API_KEY",
        |worktree| {
            let request = json!({ "method": "POST", "path": "/v1/chat/completions" });
            let file = worktree.join("colour.txt");
            sequence(
                request,
                vec![
                    call("call_1", "create", json!({ "path": file, "file_text": "blue\n" })),
                    call(
                        "call_2",
                        "create",
                        json!({ "path": "/etc/evil.txt", "file_text": "blue\n" }),
                    ),
                    call(
                        "call_3",
                        "bash",
                        json!({ "command": "echo x > /etc/evil.txt", "description": "d" }),
                    ),
                    chunk(json!({ "role": "assistant", "content": "It is blue." }), "stop"),
                ],
            )
        },
    );
    let Some(session) = session else { return };
    // Without an account it uses a model of another vendor, at that vendor's own URL.
    let env = session.env.root().join("config/hothouse/env");
    fs::create_dir_all(env.parent().unwrap()).unwrap();
    fs::write(&env, "COPILOT_PROVIDER_BASE_URL=https://api.openai.com/v1\nCOPILOT_MODEL=gpt-5\n")
        .unwrap();
    fs::set_permissions(&env, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    session.run(&["--tool", "copilot"]);
    session.check();
}

const OPENCODE: Package = Package { name: "opencode-ai", version: "1.18.33", program: "opencode" };

/// Builds a message of Anthropic's API.
fn message(block: &Value) -> Value {
    let (start, delta, stop) = match block["type"].as_str() {
        Some("tool_use") => (
            json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }),
            "tool_use",
        ),
        _ => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": block["text"] }),
            "end_turn",
        ),
    };
    let message = json!({
        "id": "msg_{{uid}}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 9, "output_tokens": 1 },
    });
    events(vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": start }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn tool_use(id: &str, name: &str, input: Value) -> Value {
    message(&json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
}

fn asked_with_tools() -> Value {
    json!({ "method": "POST", "path": "/v1/messages", "json": { "$.tools[0].name": { "present": true }, "$.stream": true } })
}

#[test]
fn opencode_makes_an_edit_and_is_kept_from_another() {
    let session = Session::open(
        &OPENCODE,
        "anthropic",
        "api.anthropic.com",
        "ANTHROPIC_API_KEY",
        |worktree| {
            let file = worktree.join("colour.txt");
            sequence(
                asked_with_tools(),
                vec![
                    tool_use("toolu_1", "write", json!({ "filePath": file, "content": "blue\n" })),
                    tool_use(
                        "toolu_2",
                        "bash",
                        json!({ "command": "echo x > /etc/evil.txt", "description": "d" }),
                    ),
                    message(&json!({ "type": "text", "text": "It is blue." })),
                ],
            )
        },
    );
    let Some(session) = session else { return };
    session.run(&["--tool", "opencode", "--model", "anthropic/claude-sonnet-4-5"]);
    session.check();
}

pub(crate) const CLAUDE: Package =
    Package { name: "@anthropic-ai/claude-code", version: "2.1.328", program: "claude" };

#[test]
fn claude_code_makes_an_edit_and_is_kept_from_another() {
    let session =
        Session::open(&CLAUDE, "anthropic", "api.anthropic.com", "ANTHROPIC_API_KEY", |worktree| {
            let file = worktree.join("colour.txt");
            sequence(
                asked_with_tools(),
                vec![
                    tool_use("toolu_1", "Write", json!({ "file_path": file, "content": "blue\n" })),
                    tool_use(
                        "toolu_2",
                        "Write",
                        json!({ "file_path": "/etc/evil.txt", "content": "blue\n" }),
                    ),
                    message(&json!({ "type": "text", "text": "It is blue." })),
                ],
            )
        });
    let Some(session) = session else { return };
    session.run(&["--tool", "claude"]);
    session.check();
    let agents = session.env.json(&session.repository, &["agent", "list", "-w", "a", "--json"]);
    assert!(agents[0]["model"].is_string() && agents[0]["cost"].is_number(), "{agents}");
    let rows = session.env.json(&session.repository, &["audit", "-w", "a", "--json"]);
    let written = |decision: &str, seen: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .any(|row| row["tool"] == "Write" && row["decision"] == decision && row["seen"] == seen)
    };
    assert!(written("allow", "yes") && written("deny", "no"), "{rows}");
    assert!(session.worktree.join("colour.txt").exists());
}
