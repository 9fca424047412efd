//! Coding agents: the guard, fake agents that behave and misbehave, their audit, loops and races.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use hothouse_testkit::{TestEnv, git, wait_until};
use serde_json::{Value, json};

use crate::{outputs, surroundings};

const CONFIG: &str =
    "[project]\nname = \"shop\"\n[egress]\nmode = \"allowlist\"\nallow = [\"allowed.example\"]\n";

/// A running sandbox `a`.
struct Stage {
    env: TestEnv,
    repository: PathBuf,
    worktree: PathBuf,
}

impl Stage {
    fn open(what: &str) -> Option<Self> {
        Self::with(what, CONFIG)
    }

    fn with(what: &str, config: &str) -> Option<Self> {
        let env = surroundings();
        if !env.can_have_rooms(what) {
            return None;
        }
        let repository = env.repository("shop", config);
        git(&repository, &["config", "user.name", "test"]);
        git(&repository, &["config", "user.email", "test@example.com"]);
        let forked = env.json(&repository, &["fork", "a", "--idea", "make it blue", "--json"]);
        let worktree = PathBuf::from(forked["worktree"].as_str().unwrap());
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository, worktree })
    }

    fn run(&self, words: &[&str]) -> String {
        self.env.ok(&self.repository, words)
    }

    fn agent(&self) -> Value {
        let all = outputs::json(&self.env, &self.repository, &["agent", "list", "--json"]);
        all.as_array()
            .unwrap()
            .iter()
            .find(|one| one["sandbox"] == "a")
            .cloned()
            .unwrap_or(Value::Null)
    }

    fn state(&self) -> String {
        self.agent()["state"].as_str().unwrap_or_default().to_owned()
    }

    fn await_end(&self) -> Value {
        wait_until("the agent has ended", || {
            matches!(self.state().as_str(), "exited" | "failed" | "stopped")
        });
        self.agent()
    }

    fn audit(&self) -> Vec<Value> {
        let rows = self.env.json(&self.repository, &["audit", "-w", "a", "--json"]);
        rows.as_array().unwrap().clone()
    }

    /// Runs a script as the agent of the sandbox, and returns its final state.
    fn stand_in(&self, script: &str) -> Value {
        self.run(&["agent", "start", "a", "--tool", script]);
        self.await_end()
    }
}

/// Passes input to the guard, as a hook does.
fn guarded(env: &TestEnv, folder: &Path, sandbox: &Path, input: &[u8]) -> Value {
    let mut command = env.command(folder, &["guard"]);
    command.env("SANDBOX_DIR", sandbox).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A guard that has read enough closes its input.
    child.stdin.take().unwrap().write_all(input).ok();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn hook(tool: &str, input: &Value) -> Vec<u8> {
    let hook = json!({ "session_id": "s", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input });
    hook.to_string().into_bytes()
}

fn decision(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["permissionDecision"].as_str().unwrap()
}

#[test]
fn the_guard_answers_without_a_daemon_and_whatever_it_is_given() {
    let env = surroundings();
    let repository = env.repository("shop", "");
    std::os::unix::fs::symlink("/etc", repository.join("link")).unwrap();
    let judge = |input: &[u8]| {
        let answer = guarded(&env, &repository, &repository, input);
        decision(&answer).to_owned()
    };
    assert_eq!(judge(&hook("Write", &json!({ "file_path": repository.join("x") }))), "allow");
    assert_eq!(judge(&hook("Write", &json!({ "file_path": repository.join("link/x") }))), "deny");
    assert_eq!(judge(&hook("Write", &json!({ "file_path": repository.join("a\nb") }))), "allow");
    assert_eq!(judge(&hook("Bash", &json!({ "command": "rm -rf ~" }))), "deny");
    assert_eq!(judge(b"not json"), "deny");
    assert_eq!(judge(b""), "deny");
    assert_eq!(judge(b"{\"tool_name\":\"Wr\xff\"}"), "deny");
    assert_eq!(judge(&vec![b' '; 100 << 20]), "deny", "100 MB");
    assert_eq!(
        judge(b"{\"hook_event_name\":\"Later\",\"tool_name\":\"X\",\"tool_input\":{}}"),
        "deny"
    );
    assert_eq!(env.daemon_pid(), None, "nobody started a daemon");
}

#[test]
fn the_guard_is_put_into_settings_and_taken_out_again() {
    let env = surroundings();
    let repository = env.repository("shop", "");
    let settings = repository.join(".claude/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let theirs = json!({ "model": "m", "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } });
    fs::write(&settings, theirs.to_string()).unwrap();
    env.ok(&repository, &["guard", "install", "--for", "claude", "--for", "codex"]);
    let with: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert!(
        with["hooks"]["PreToolUse"].to_string().contains("hothouse guard --tool claude"),
        "{with}"
    );
    env.ok(&repository, &["guard", "uninstall", "--for", "claude", "--for", "codex"]);
    let without: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(without, theirs);
    assert!(!repository.join(".codex/hooks.json").exists());
}

#[test]
fn an_agent_edits_commits_and_is_audited() {
    let Some(stage) = Stage::open("an agent in a room") else { return };
    let script = "cat feature-request.md; test -n \"$SANDBOX_DIR\" && echo blue > colour.txt && git add -A && git commit -qm blue; \
                  hothouse mark x >/dev/null; curl -s -m 3 http://evil.example/ >/dev/null; echo finished";
    let agent = stage.stand_in(script);
    assert_eq!(
        (agent["state"].as_str(), agent["exit"].as_i64()),
        (Some("exited"), Some(0)),
        "{agent}"
    );
    assert!(stage.run(&["log", "-w", "a"]).contains("blue"));
    let log = stage.run(&["agent", "logs", "a"]);
    assert!(log.contains("make it blue") && log.contains("finished"), "{log}");
    let rows = stage.audit();
    let find = |tool: &str, target: &str| {
        rows.iter()
            .find(|row| row["tool"] == tool && row["target"].as_str().unwrap().contains(target))
    };
    let unsaid = find("file", "colour.txt").expect("the file that no tool call names");
    assert_eq!(unsaid["seen"], "unsaid");
    assert!(find("commit", "").is_some(), "{rows:?}");
    let denied = find("connection", "evil.example").expect("the connection that was denied");
    assert_eq!(
        (denied["decision"].as_str(), denied["seen"].as_str()),
        (Some("deny"), Some("unsaid"))
    );
    let status = stage.env.json(&stage.repository, &["status", "-w", "a", "--json"]);
    let folder = PathBuf::from(status["run"]["artifacts"].as_str().unwrap());
    let page = fs::read_to_string(folder.join("audit-log.md")).unwrap();
    assert!(page.contains("Blocked and suspicious") && page.contains("evil.example"), "{page}");
    let records =
        stage.env.json(&stage.repository, &["timeline", "--kind", "agent", "-w", "a", "--json"]);
    assert!(records.as_array().unwrap().len() >= 3, "{records}");
    // git sees only the agent's own work.
    assert_eq!(
        stage.env.json(&stage.repository, &["diff", "-w", "a", "--json"])["files"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn what_a_guard_in_the_room_denies_is_in_the_audit_and_the_chain() {
    let Some(stage) = Stage::open("the guard in a room") else { return };
    let call = |tool: &str, input: &str| {
        format!(
            "printf '%s' '{{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"{tool}\",\"tool_input\":{input}}}' | hothouse guard"
        )
    };
    let script = format!(
        "{}; {}; echo x > x.txt",
        call("Write", "{\"file_path\":\"/etc/passwd\"}"),
        call("Write", "{\"file_path\":\"x.txt\"}"),
    );
    stage.stand_in(&script);
    let rows = stage.audit();
    let row = |target: &str| {
        rows.iter()
            .find(|row| row["tool"] == "Write" && row["target"] == target)
            .unwrap_or_else(|| panic!("{rows:?}"))
    };
    assert_eq!(
        (row("/etc/passwd")["decision"].as_str(), row("/etc/passwd")["seen"].as_str()),
        (Some("deny"), Some("no"))
    );
    assert_eq!(
        (row("x.txt")["decision"].as_str(), row("x.txt")["seen"].as_str()),
        (Some("allow"), Some("yes"))
    );
    let status = stage.env.json(&stage.repository, &["status", "-w", "a", "--json"]);
    let raw = PathBuf::from(status["run"]["artifacts"].as_str().unwrap()).join("audit-raw.jsonl");
    wait_until("the raw audit is written", || {
        fs::read_to_string(&raw).is_ok_and(|text| text.contains("sha256:"))
    });
    let run = status["run"]["id"].as_str().unwrap();
    stage.run(&["verify", run]);
}

#[test]
fn agents_that_misbehave_are_in_the_audit() {
    let Some(stage) = Stage::open("agents that misbehave") else { return };
    let call = |command: &str| {
        let hook = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": command } });
        // Commands that would fill the disk of the test host are only reported, not run.
        let done = if command.starts_with("fallocate") { "true" } else { command };
        format!(
            "printf '%s' '{}' | hothouse guard >/dev/null; {done}; ",
            hook.to_string().replace('\'', "'\\''")
        )
    };
    let bad = [
        "cat ~/.ssh/id_rsa",
        "tmux kill-server",
        "fallocate -l 100G big",
        "echo x > /etc/evil.txt",
    ];
    let script = format!("{}exit 0", bad.map(call).concat());
    let ended = stage.stand_in(&script);
    assert_eq!(ended["state"], "exited", "{ended}");
    let rows = stage.audit();
    for command in bad {
        let row = rows.iter().find(|row| row["tool"] == "Bash" && row["target"] == command);
        let row = row.unwrap_or_else(|| panic!("{command}: {rows:?}"));
        assert!(row["decision"] == "deny" || row["decision"] == "ask", "{row}");
    }
    let first = stage.run(&["audit", "-w", "a", "--suspicious"]);
    assert!(bad.iter().all(|command| first.contains(command)), "{first}");
    assert_eq!(
        stage.run(&["exec", "-w", "a", "--", "sh", "-c", "test -e /etc/evil.txt || echo none"]),
        "none\n"
    );
}

#[test]
fn what_an_agent_runs_is_in_the_audit() {
    let Some(stage) = Stage::open("programs of an agent") else { return };
    let hook = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"sleep 1234"}}"#;
    let script = format!(
        "printf '%s' '{hook}' | hothouse guard; sleep 1234 & sh -c 'setsid tail -f /dev/null & wait' & while ! test -e go; do sleep 0.1; done; kill %1; exit 0"
    );
    stage.run(&["agent", "start", "a", "--tool", &script]);
    let row = |target: &str| {
        stage.audit().into_iter().find(|row| row["tool"] == "process" && row["target"] == target)
    };
    wait_until("both are seen", || {
        row("sleep 1234").is_some() && row("tail -f /dev/null").is_some()
    });
    stage.run(&["exec", "-w", "a", "--", "touch", "go"]);
    assert_eq!(stage.await_end()["state"], "exited");
    assert_eq!(row("sleep 1234").unwrap()["seen"], "yes");
    assert_eq!(row("tail -f /dev/null").unwrap()["seen"], "unsaid", "nobody said so");
    // It outlived its agent, and is neither lost nor reported again.
    assert!(stage.run(&["audit", "-w", "a", "--suspicious"]).contains("tail -f /dev/null"));
}

#[test]
fn an_agent_outlives_the_daemon_and_its_state_stays_true() {
    let Some(stage) = Stage::open("an agent without a daemon") else { return };
    stage.run(&[
        "agent",
        "start",
        "a",
        "--tool",
        "echo begun; while ! test -e go; do sleep 0.1; done; echo over; exit 3",
    ]);
    wait_until("it has begun", || stage.run(&["agent", "logs", "a"]).contains("begun"));
    let second = stage.env.run(&stage.repository, &["agent", "start", "a", "--tool", "true"]);
    assert_eq!(second.code, 5, "one agent at a time: {}", second.stderr);
    stage.env.kill_daemon();
    assert_eq!(stage.state(), "running");
    stage.run(&["exec", "-w", "a", "--", "touch", "go"]);
    let agent = stage.await_end();
    assert_eq!(
        (agent["state"].as_str(), agent["exit"].as_i64()),
        (Some("failed"), Some(3)),
        "{agent}"
    );
    let log = stage.run(&["agent", "logs", "a"]);
    assert_eq!((log.matches("begun").count(), log.matches("over").count()), (1, 1), "{log}");
}

#[test]
fn an_agent_that_asks_is_waiting_although_it_draws_without_end() {
    let Some(stage) = Stage::open("an agent that asks") else { return };
    // Many tools draw a spinner while they wait.
    let script = "(while :; do printf '\\r.'; sleep 0.05; done) & \
                  hothouse ask --wait 'a key for the shop'; kill $!";
    stage.run(&["agent", "start", "a", "--tool", script]);
    wait_until("it waits for its user", || stage.state() == "waiting");
    let reason = stage.agent()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("hothouse asks"), "{reason}");
    let asks = stage.env.json(&stage.repository, &["asks", "-w", "a", "--json"]);
    stage.run(&["asks", "answer", asks[0]["id"].as_str().unwrap(), "deny"]);
    stage.await_end();
}

#[test]
fn an_agent_that_fills_the_disk_is_paused_with_its_room_and_continues() {
    let config = format!("{CONFIG}[room]\ndisk = \"30M\"\n");
    let Some(stage) = Stage::with("an agent that fills the disk", &config) else { return };
    let script = "head -c 60000000 /dev/zero >~/big; until test -e go; do sleep 0.1; done; exit 4";
    stage.run(&["agent", "start", "a", "--tool", script]);
    let is_paused =
        || stage.env.json(&stage.repository, &["list", "--json"])[0]["state"] == "paused";
    wait_until("its room is paused", is_paused);
    let agent = stage.agent();
    assert_eq!(agent["state"], "running", "it has not ended: {agent}");
    assert!(agent["reason"].as_str().unwrap().contains("paused"), "{agent}");
    let stopped = stage.env.run(&stage.repository, &["agent", "stop", "a"]);
    assert!(stopped.code == 5 && stopped.stderr.contains("resume"), "{stopped}");
    // Its room is paused again if it exceeds its limit for another while.
    wait_until("there is room again", || {
        stage.env.run(&stage.repository, &["resume", "-w", "a"]);
        let free = ["exec", "-w", "a", "--", "sh", "-c", "rm -f ~/big && touch go"];
        stage.env.run(&stage.repository, &free).code == 0
    });
    let agent = stage.await_end();
    assert_eq!((&agent["state"], &agent["exit"]), (&"failed".into(), &4.into()), "{agent}");
}

#[test]
fn agents_that_hang_crash_or_lose_their_room_end_with_a_true_state() {
    let Some(stage) = Stage::open("agents that end badly") else { return };
    stage.run(&["agent", "start", "a", "--tool", "trap '' TERM; sleep 1000"]);
    wait_until("it runs", || stage.state() == "running");
    stage.run(&["agent", "stop", "a"]);
    assert_eq!(stage.state(), "stopped");
    let crashed = stage.stand_in("kill -SEGV $$");
    assert_eq!(
        (crashed["state"].as_str(), crashed["exit"].as_i64()),
        (Some("failed"), Some(139)),
        "{crashed}"
    );
    let daemonised = stage.stand_in("setsid sleep 1000 >/dev/null 2>&1 & exit 0");
    assert_eq!(daemonised["state"], "exited");
    let full = stage.stand_in("rm -rf ./* ./.[!.]* 2>/dev/null; echo left");
    assert_eq!(full["state"], "exited", "an agent that deletes its worktree has still ended");
    stage.run(&["agent", "start", "a", "--tool", "sleep 1000"]);
    wait_until("it runs again", || stage.state() == "running");
    stage.run(&["down", "-w", "a"]);
    wait_until("its room is gone", || stage.state() == "failed");
    let missing = stage.env.run(&stage.repository, &["agent", "start", "a", "--tool", "true"]);
    assert_ne!(missing.code, 0, "there is no room");
}

#[test]
fn a_tool_that_is_not_there_and_a_prompt_that_is_too_long_are_refused() {
    let Some(stage) = Stage::open("agents that cannot start") else { return };
    let missing = stage.env.run(&stage.repository, &["agent", "start", "a", "--tool", "aider"]);
    assert_eq!(missing.code, 4, "{}", missing.stderr);
    assert!(
        missing.stderr.contains("not installed") && missing.stderr.contains("hint:"),
        "{}",
        missing.stderr
    );
    let prompt = stage.repository.join("prompt.md");
    fs::write(&prompt, "x".repeat(10 << 20)).unwrap();
    let long = stage.env.run(
        &stage.repository,
        &["agent", "start", "a", "--tool", "true", "--prompt-file", prompt.to_str().unwrap()],
    );
    assert_eq!(long.code, 2, "{}", long.stderr);
    assert!(long.stderr.contains("is longer than 1048576 bytes"), "{}", long.stderr);
    let own = ["agent", "start", "a", "--tool", "no-such-tool"];
    let missing = stage.env.run(&stage.repository, &own);
    assert_eq!(missing.code, 4, "{}", missing.stderr);
    assert!(missing.stderr.contains("`no-such-tool` is not installed"), "{}", missing.stderr);
}

#[test]
fn a_loop_commits_each_round_and_ends_when_the_check_holds() {
    let Some(stage) = Stage::open("a loop") else { return };
    let words = [
        "agent",
        "loop",
        "a",
        "--tool",
        "echo $HOTHOUSE_AGENT_ROUND >> rounds",
        "--check",
        "grep -q 3 rounds",
        "--rounds",
        "9",
        "--wait",
        "--json",
    ];
    let ended = stage.env.json(&stage.repository, &words);
    assert_eq!(
        (ended["state"].as_str(), ended["round"].as_u64()),
        (Some("exited"), Some(3)),
        "{ended}"
    );
    let rounds = ended["rounds"].as_array().unwrap();
    assert!(
        rounds.iter().all(|round| round["commit"].is_string() && round["added"] == 1),
        "{rounds:?}"
    );
    assert_eq!(rounds.last().unwrap()["green"], true);
    let stuck = stage.env.run(
        &stage.repository,
        &["agent", "loop", "a", "--tool", "echo same; exit 1", "--wait", "--json"],
    );
    assert_eq!(stuck.code, 1);
    assert!(stuck.stdout.contains("it is stuck"), "{}", stuck.stdout);
    // Its cost is noted while it runs, and when the round ends: it counts once.
    let tool = "date +%N > spent; echo '{\"type\":\"result\",\"total_cost_usd\":0.6}'; \
                until test -e /tmp/noted; do sleep 0.1; done";
    let dear =
        ["agent", "loop", "a", "--tool", tool, "--cost", "1", "--rounds", "2", "--check", "false"];
    stage.run(&dear);
    wait_until("its cost is noted", || stage.agent()["cost"] == 0.6);
    stage.run(&["exec", "-w", "a", "--", "touch", "/tmp/noted"]);
    let ended = stage.await_end();
    assert_eq!((&ended["round"], &ended["cost"]), (&json!(2), &json!(1.2)), "{ended}");
    assert_eq!(ended["reason"], "2 rounds are done", "{ended}");
    let begun = Instant::now();
    let late = ["agent", "loop", "a", "--tool", "sleep 1000", "--time", "2s", "--wait", "--json"];
    let late = stage.env.run(&stage.repository, &late);
    assert!(
        late.stdout.contains("its time was up") && begun.elapsed() < Duration::from_secs(60),
        "{}",
        late.stdout
    );
}

#[test]
fn a_race_shows_who_weakened_a_test() {
    let env = surroundings();
    if !env.can_have_rooms("a race") {
        return;
    }
    let files = [
        ("check.sh", "#!/bin/sh\nsh tests/sum.sh\n"),
        ("sum", "0\n"),
        ("tests/sum.sh", "test \"$(cat sum)\" = 5\n"),
    ];
    let repository = env.repository_with("shop", CONFIG, &files);
    git(&repository, &["config", "user.name", "test"]);
    git(&repository, &["config", "user.email", "test@example.com"]);
    let good = "echo 5 > sum; git commit -qam good";
    let bad = "echo 4 > sum; git commit -qam bad";
    let cheat = "echo true > tests/sum.sh; git commit -qam cheat";
    let words = [
        "race",
        "--idea",
        "sum",
        "--with",
        good,
        "--with",
        bad,
        "--with",
        cheat,
        "--check",
        "sh check.sh",
        "--json",
    ];
    let race = outputs::json(&env, &repository, &words);
    let sides = race["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 3);
    let ok: Vec<_> = sides.iter().map(|side| side["checks"][0]["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [true, false, false], "{race}");
    assert_eq!(sides[2]["changed_checks"], json!(["tests/sum.sh"]));
    assert!(
        sides
            .iter()
            .all(|side| side["seconds"].is_number() && side["egress"]["denied"].is_number())
    );
    let keep =
        env.json(&repository, &["keep", sides[0]["name"].as_str().unwrap(), "--merge", "--json"]);
    assert_eq!(keep["removed"].as_array().unwrap().len(), 2, "{keep}");
    assert_eq!(fs::read_to_string(repository.join("sum")).unwrap(), "5\n");
    let branches = git(&repository, &["branch", "--list", "race-*"]);
    assert_eq!(branches.lines().count(), 3, "no work is lost: {branches}");
}

#[test]
fn a_login_of_the_host_is_used_without_being_held() {
    let Some(stage) = Stage::open("a login") else { return };
    let home = PathBuf::from(
        stage.env.environment().into_iter().find(|(name, _)| name == "HOME").unwrap().1,
    );
    let write = |expires: i64| {
        fs::create_dir_all(home.join(".claude")).unwrap();
        let text = json!({ "claudeAiOauth": { "accessToken": "tok-of-the-host-0123456789", "expiresAt": expires } });
        fs::write(home.join(".claude/.credentials.json"), text.to_string()).unwrap();
    };
    write(1000);
    let expired = stage.env.run(&stage.repository, &["agent", "login", "claude", "--yes"]);
    assert_eq!(expired.code, 5, "{}", expired.stderr);
    assert!(expired.stderr.contains("expired"), "{}", expired.stderr);
    write(9_999_999_999_999);
    let told = stage.env.json(&stage.repository, &["agent", "login", "claude", "--yes", "--json"]);
    assert_eq!(
        (told["secret"].as_str(), &told["hosts"]),
        (Some("CLAUDE_CODE_OAUTH_TOKEN"), &json!(["api.anthropic.com"]))
    );
    stage.run(&["down", "-w", "a"]);
    stage.env.ok(&stage.repository, &["fork", "b"]);
    stage.env.ok(&stage.repository, &["up", "-w", "b"]);
    let seen = stage.env.ok(
        &stage.repository,
        &[
            "exec",
            "-w",
            "b",
            "--",
            "sh",
            "-c",
            "env; cat ~/.claude/.credentials.json 2>/dev/null; true",
        ],
    );
    assert!(
        seen.contains("CLAUDE_CODE_OAUTH_TOKEN=") && !seen.contains("tok-of-the-host"),
        "{seen}"
    );
    stage.run(&["agent", "login", "claude", "--remove"]);
}

#[test]
fn the_task_reaches_tools_outside_of_what_git_sees() {
    let Some(stage) = Stage::open("task files") else { return };
    fs::write(stage.worktree.join("CLAUDE.md"), "ours\n").ok();
    stage.stand_in("for f in .claude/CLAUDE.md .codex/AGENTS.md .gemini/GEMINI.md .copilot/copilot-instructions.md; do cat ~/$f; done; cat feature-request.md");
    let log = stage.run(&["agent", "logs", "a"]);
    assert_eq!(log.matches("Your task is in").count(), 4, "{log}");
    assert!(log.contains("make it blue"));
    let files =
        stage.env.json(&stage.repository, &["diff", "-w", "a", "--json"])["files"].to_string();
    assert!(!files.contains("feature-request") && !files.contains("AGENTS.md"), "{files}");
}
