//! How agents on the host use Hothouse: MCP over HTTP, the official SDKs, skills, and entries in
//! the configuration of tools.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hothouse_testkit::{TestEnv, skip};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "exec python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
"#;

/// An MCP server over HTTP, for one sandbox.
struct Server {
    env: TestEnv,
    repository: PathBuf,
    child: Child,
    url: String,
    token: String,
}

impl Server {
    fn open(what: &str) -> Option<Self> {
        let env = surroundings();
        if !env.can_have_rooms(what) {
            return None;
        }
        let repository = env.repository("shop", CONFIG);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        let words = ["mcp", "--http", "--json", "--profile", "full", "-w", "a"];
        let mut child = env.command(&repository, &words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Some(Self { url: text("url"), token: text("token"), env, repository, child })
    }

    fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    /// Sends a message with these headers; returns the status, the session and the response.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> (u16, Option<String>, String) {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        let mut request = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        request.push_str("Connection: close\r\nContent-Type: application/json\r\n");
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        (status, session.map(str::to_owned), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const GREETING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

#[test]
fn mcp_over_http_is_for_the_holder_of_the_token() {
    let Some(server) = Server::open("MCP over HTTP") else { return };
    let (host, bearer) = (server.authority().to_owned(), format!("Bearer {}", server.token));
    let good = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    let (status, session, _) = server.post(&good, GREETING);
    let session = session.unwrap();
    assert_eq!(status, 200);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"status"}}"#;
    let with = |more: &[(&'static str, &str)]| {
        let mut headers: Vec<(&str, String)> =
            good.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        for (name, value) in more {
            headers.retain(|(known, _)| known != name);
            headers.push((name, (*value).to_owned()));
        }
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        server.post(&headers, call)
    };
    let (status, _, answer) = with(&[("Mcp-Session-Id", &session)]);
    assert!(status == 200 && answer.contains("\"isError\":false"), "{answer}");
    // As a stream, if the client accepts one.
    let (status, _, answer) =
        with(&[("Mcp-Session-Id", &session), ("Accept", "application/json, text/event-stream")]);
    assert!(status == 200 && answer.contains("data: "), "{answer}");
    let evil = format!("evil.example:{}", host.rsplit(':').next().unwrap());
    let old = format!("Bearer {}", "0".repeat(64));
    for (headers, expected) in [
        (vec![("Host", evil.as_str())], 403),
        (vec![("Host", "localhost")], 403),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Authorization", old.as_str())], 401),
        (vec![("Authorization", "")], 401),
        (vec![("MCP-Protocol-Version", "1999-01-01"), ("Mcp-Session-Id", session.as_str())], 400),
        (vec![], 400),
        (vec![("Mcp-Session-Id", "0123456789abcdef0123456789abcdef")], 404),
    ] {
        let (status, _, answer) = with(&headers);
        assert_eq!(status, expected, "{headers:?}: {answer}");
        assert!(!answer.contains("ready"), "{answer}");
    }
    // A token belongs to one server: the next one has another.
    drop(server);
    let Some(next) = Server::open("MCP over HTTP") else { return };
    let authority = next.authority().to_owned();
    let (status, ..) = next.post(&[("Host", &authority), ("Authorization", &bearer)], GREETING);
    assert_eq!(status, 401);
    let listed = next.env.ok(&next.repository, &["list"]);
    assert!(listed.contains("shop     a"), "{listed}");
}

/// The official JavaScript client: a complete task, with schemas checked by the client.
const NODE: &str = r#"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const [kind, ...rest] = process.argv.slice(2);
const transport = kind === "http"
  ? new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } } })
  : new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const call = async (name, args = {}) => {
  const r = await client.callTool({ name, arguments: args }, undefined, { resetTimeoutOnProgress: true, timeout: 60000, onprogress: () => {} });
  if (r.isError) throw new Error(name + ": " + r.content[0].text);
  return r.structuredContent;
};
const bare = tools.filter((tool) => !tool.outputSchema).map((tool) => tool.name);
if (bare.length) throw new Error("without a schema of their output: " + bare);
const label = "s" + process.pid;
await call("status"); await call("status", { all: true }); await call("up"); await call("mark", { name: "begin" });
const ran = await call("exec", { command: ["sh", "-c", "echo changed >file"] });
if (ran.code !== 0) throw new Error(JSON.stringify(ran));
await call("stop", { service: "web" }); await call("start", { service: "web" }); await call("signal", { service: "web", signal: "WINCH" });
await call("pause"); await call("resume"); await call("restart", { service: "web" });
await call("wait", { kind: "service", query: ["state=ready"], since: "begin" });
await call("since", { name: "begin" }); await call("logs", { tail: 3 });
for (const name of ["list", "emails", "errors", "requests", "snapshots", "size", "ports", "flags", "integrations", "runs", "asks", "diff", "log", "timeline", "analytics", "webhooks", "objects", "llm", "routes", "seeds", "scenarios", "agent_list", "audit", "env", "queue_list", "cron_list", "egress_log", "egress_why", "egress_learn", "explain", "summary"]) await call(name);
const run = (await call("status")).run.id;
await call("status", { run }); await call("verify", { run }); await call("flags_set", { key: "k", value: "true" }); await call("flags_unset", { key: "k" });
await call("snapshot", { label }); await call("restore", { label }); await call("ask", { reason: ["why"] });
if ((await client.listPrompts()).prompts.length !== 5) throw new Error("prompts");
if (!(await client.readResource({ uri: "hothouse://logs/web" })).contents.length) throw new Error("resource");
await call("down");
console.log(tools.length);
await client.close();
"#;

/// The official Python client.
const PYTHON: &str = r#"
import asyncio, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            for name, arguments in [("status", {}), ("up", {}), ("exec", {"command": "echo hi"}), ("emails", {}), ("logs", {"tail": 1})]:
                result = await session.call_tool(name, arguments)
                failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
                assert not failed, (name, result)
            print(len(tools))
    # Each request by itself, as since 2026-07-28; earlier clients do not know it.
    if not hasattr(ClientSession, "discover"):
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client
    headers = {"authorization": "Bearer " + os.environ["MCP_TOKEN"]}
    for opened in [stdio_client(server), streamable_http_client(os.environ["MCP_URL"], http_client=httpx2.AsyncClient(headers=headers))]:
        async with opened as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                found = await session.discover()
                assert "2026-07-28" in found.supported_versions, found
                assert len((await session.list_tools()).tools) >= len(tools)
                result = await session.call_tool("status", {})
                assert not result.is_error and result.structured_content["name"] == "a", result
                assert (await session.list_prompts()).prompts
                assert (await session.read_resource("hothouse://logs/web")).contents
asyncio.run(main())
"#;

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    let ran = command.args(words).current_dir(folder).output();
    ran.is_ok_and(|output| output.status.success())
}

#[test]
fn the_official_clients_drive_a_whole_task() {
    let Some(server) = Server::open("official clients of MCP") else { return };
    let folder = server.env.root().join("client");
    fs::create_dir(&folder).unwrap();
    let program = server.env.command(&server.repository, &[]).get_program().to_owned();
    let program = program.to_string_lossy().into_owned();
    let words = ["install", "--no-audit", "--no-fund", "--silent", "@modelcontextprotocol/sdk@1"];
    if installed(&folder, "npm", &words) {
        fs::write(folder.join("client.mjs"), NODE).unwrap();
        let stdio = ["stdio", &program, "mcp", "--profile", "full", "-w", "shop/a"];
        for arguments in [&stdio[..], &["http", &server.url, &server.token]] {
            let mut client = Command::new("node");
            client.arg("client.mjs").args(arguments).current_dir(&folder);
            let output = client.env_clear().envs(server.env.environment()).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {told}");
        }
    } else {
        skip("the client of MCP for JavaScript", "npm and a registry");
    }
    let words = ["-m", "pip", "install", "-q", "--target", "py", "mcp"];
    if !installed(&folder, "python3", &words) {
        return skip("the client of MCP for Python", "pip and a registry");
    }
    let mut client = Command::new("python3");
    client.args(["-c", PYTHON, &program, "mcp", "-w", "shop/a"]).current_dir(&folder);
    client.env_clear().envs(server.env.environment()).env("PYTHONPATH", folder.join("py"));
    client.env("MCP_URL", &server.url).env("MCP_TOKEN", &server.token);
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn entries_and_skills_are_put_in_and_taken_out_and_nothing_else() {
    let env = surroundings();
    let project = env.repository("shop", CONFIG);
    let own = "{\n  \"mcpServers\": {\n    \"mine\": { \"command\": \"x\" }\n  },\n  \"z\": 1,\n  \"a\": 2\n}\n";
    fs::write(project.join(".mcp.json"), own).unwrap();
    fs::create_dir(project.join(".codex")).unwrap();
    let codex = "model = \"m\"\n\n[mcp_servers.mine]\ncommand = \"x\"\n";
    fs::write(project.join(".codex/config.toml"), codex).unwrap();
    let commented = "// mine\n{ \"servers\": {} }\n";
    fs::create_dir(project.join(".vscode")).unwrap();
    fs::write(project.join(".vscode/mcp.json"), commented).unwrap();
    let read = |name: &str| fs::read_to_string(project.join(name)).unwrap();
    let tools = ["mcp", "install", "--for", "claude", "--for", "codex", "--for", "cursor"];
    env.ok(&project, &tools);
    let written: Value = serde_json::from_str(&read(".mcp.json")).unwrap();
    assert_eq!(written["mcpServers"]["hothouse"]["args"], serde_json::json!(["mcp"]));
    assert_eq!(written["mcpServers"]["mine"]["command"], "x");
    assert!(read(".codex/config.toml").ends_with("args = [\"mcp\"]\n"));
    let before = read(".mcp.json");
    env.ok(&project, &tools);
    assert_eq!(read(".mcp.json"), before, "twice is once");
    env.ok(&project, &[&tools[..], &["--remove"]].concat());
    assert_eq!(read(".mcp.json"), own);
    assert_eq!(read(".codex/config.toml"), codex);
    let refused = env.run(&project, &["mcp", "install", "--for", "vscode"]);
    assert_eq!(refused.code, 3, "{refused}");
    assert_eq!(read(".vscode/mcp.json"), commented);
    fs::write(project.join("AGENTS.md"), "# Mine\n").unwrap();
    let install = ["skills", "install", "--for", "claude", "--agents-md"];
    env.ok(&project, &install);
    assert!(read(".claude/skills/hothouse-debug/SKILL.md").contains("hothouse since"));
    assert!(
        read("AGENTS.md").starts_with("# Mine\n") && read("AGENTS.md").contains("hothouse ask")
    );
    fs::write(project.join(".claude/skills/hothouse-up/SKILL.md"), "my own").unwrap();
    assert_eq!(env.run(&project, &install).code, 5);
    env.ok(&project, &[&install[..], &["--force"]].concat());
    env.ok(&project, &[&install[..], &["--remove"]].concat());
    assert_eq!(read("AGENTS.md"), "# Mine\n");
    assert!(!project.join(".claude/skills/hothouse-up").exists());
}
