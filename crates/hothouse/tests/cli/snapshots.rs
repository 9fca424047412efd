//! Compares the output of all commands with the files in `snapshots/`: one page per command, text
//! and JSON, success and failure, at 80 columns.
//!
//! A changed page fails its test. Run it with `INSTA_UPDATE=always`, and check the diff in git. A
//! command without a page fails [`every_command_has_its_page`]; a page without text or JSON, success
//! or failure, fails [`complete::every_page_is_complete`].

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use hothouse_testkit::{Ran, TestEnv, git, is_root, skip};

use crate::{outputs, surroundings, trust};

#[path = "snapshots/complete.rs"]
mod complete;
#[path = "snapshots/page.rs"]
mod page;
#[path = "snapshots/stocked.rs"]
mod stocked;

use page::{Pages, entry, screen};

const CONFIG: &str = r#"[project]
name = "shop"

[service.web]
run = "sleep 0.3; echo listening; exec python3 -m http.server 3000 >/dev/null"
port = 3000
ready = { tcp = true }
url = "web"

[service.worker]
run = "trap '' HUP; echo begun; exec sleep 1000"

[secret.TOKEN]
hosts = ["api.example.com"]

[egress]
mode = "allowlist"
allow = ["api.example.com"]
"#;

const DESCRIPTION: &str = r#"{"openapi": "3.1.0", "servers": [{"url": "https://api.search.example/v2"}],
"paths": {"/docs": {"get": {"responses": {"200": {"description": "all"}}}}}}"#;

/// The findings of `doctor` depend on the host.
const DOCTOR: [(&str, &str); 4] = [
    (r#"(?s)"toolchains": \[.*?\n  \]"#, r#""toolchains": "[HOST]""#),
    (r"(?m)^(works  |limited|missing) ([^:\n]+): .*$", "[STATE] $2: [DETAIL]"),
    (r"\n {10}(costs|fix): [^\n]*", ""),
    (r#""(costs|detail|fix|state)": ("(?:[^"\\]|\\.)*"|null)"#, r#""$1": "[HOST]""#),
];

/// A service that was just started may already be ready.
const STARTED: [(&str, &str); 1] = [(r#""state": "(starting|ready)""#, r#""state": "[STARTED]""#)];

/// The observed state changes of services depend on timing.
const CHANGES: [(&str, &str); 2] = [
    (r"(?m)^(web|worker): (waiting|starting|ready|failed|restarting|unhealthy)\n", ""),
    (r"--- stderr\n--- exit", "--- exit"),
];

#[test]
fn trust_prints_its_page() {
    if !trust::can_trust() {
        return skip("the page of `trust`", "root, certutil or update-ca-certificates");
    }
    let story = Story::new();
    let asking = story.print(&["trust", "trust --json", "trust --remove", "trust --remove --json"]);
    // What this machine trusts stays as it is.
    let changing = ["trust --yes", "trust --yes --json", "trust --remove --yes"].map(|command| {
        let mut apart = trust::apart(&story.env);
        apart.arg(env!("CARGO_BIN_EXE_hothouse")).args(words(command));
        let output = apart.current_dir(&story.repository).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ran = Ran {
            words: command.to_owned(),
            code: output.status.code().unwrap(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        outputs::check(&ran);
        entry(&story.env, &ran)
    });
    story.pages.compare("trust", &(asking + &changing.concat()), &[]);
    story.pages.end();
}

/// A repository, and pages of commands run in it.
struct Story {
    env: TestEnv,
    repository: PathBuf,
    pages: Pages,
}

impl Story {
    fn new() -> Self {
        Self::with(CONFIG, &[])
    }

    fn with(config: &str, files: &[(&str, &str)]) -> Self {
        let mut env = surroundings();
        env.set("COLUMNS", "80");
        know_names(&mut env);
        let repository = env.repository_with("shop", config, files);
        git(&repository, &["config", "user.name", "test"]);
        git(&repository, &["config", "user.email", "test@example.com"]);
        Self { env, repository, pages: Pages::default() }
    }

    /// Runs commands, and compares what they print with a page.
    fn page(&self, name: &str, commands: &[&str]) {
        self.page_with(name, commands, &[]);
    }

    fn page_with(&self, name: &str, commands: &[&str], filters: &[(&str, &str)]) {
        self.pages.compare(name, &self.print(commands), filters);
    }

    /// Runs commands, and returns what they print.
    fn print(&self, commands: &[&str]) -> String {
        let run = |command: &&str| {
            let ran = self.env.run(&self.repository, &words(command));
            let ran = Ran { words: (*command).to_owned(), ..ran };
            outputs::check(&ran);
            entry(&self.env, &ran)
        };
        commands.iter().map(run).collect()
    }

    /// Compares the output of commands, each as text and as JSON, with a page.
    fn both(&self, name: &str, commands: &[&str]) {
        self.both_with(name, commands, &[]);
    }

    fn both_with(&self, name: &str, commands: &[&str], filters: &[(&str, &str)]) {
        let json: Vec<String> = commands.iter().map(|command| as_json(command)).collect();
        let all = commands.iter().zip(&json).flat_map(|(text, json)| [*text, json]);
        self.page_with(name, &all.collect::<Vec<_>>(), filters);
    }

    fn worktree(&self, name: &str) -> PathBuf {
        self.env.root().join("shop-sandboxes").join(name)
    }
}

/// Splits a command line at its spaces; those within single quotes are part of a word.
fn words(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let split = |c: char| {
        is_quoted ^= c == '\'';
        c == ' ' && !is_quoted
    };
    line.split(split).map(|word| word.trim_matches('\'')).collect()
}

/// Adds `--json` to the command's own options, not to those of a command that it runs.
fn as_json(command: &str) -> String {
    match command.split_once(" -- ") {
        Some((own, inner)) => format!("{own} --json -- {inner}"),
        None => format!("{command} --json"),
    }
}

/// Acts as a resolver with support for `.localhost`, and as a desktop, which not every host has.
fn know_names(env: &mut TestEnv) {
    let folder = env.root().join("programs");
    fs::create_dir_all(&folder).unwrap();
    for (name, line) in [("getent", "echo 127.0.0.1 STREAM $2"), ("xdg-open", "true")] {
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    env.set("PATH", format!("{}:{path}", folder.display()));
}

/// Lists the commands below one, as its help names them.
fn commands_of(help: &str) -> Vec<&str> {
    if help.contains("Usage: hothouse [OPTIONS] [COMMAND]") {
        let named = help.lines().filter_map(|line| line.strip_prefix("  "));
        let named = named.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        return named
            .filter_map(|line| line.split(' ').next())
            .filter(|name| *name != "help")
            .collect();
    }
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = below.take_while(|line| !line.is_empty());
    let names =
        listed.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").collect()
}

/// Compares the help of a command and its subcommands; returns the expected pages.
fn help(env: &TestEnv, pages: &Pages, command: &[&str]) -> BTreeSet<String> {
    let ran = env.run(env.root(), &[command, &["--help"]].concat());
    let name = [&["help"], command].concat().join("-");
    pages.compare(&name, &entry(env, &ran), &[]);
    let below = commands_of(&ran.stdout);
    let mut names = BTreeSet::from([name]);
    // `ports` also works without a subcommand.
    let must_go_on = |line: &str| line.starts_with("Usage:") && line.ends_with(" <COMMAND>");
    let has_own = !ran.stdout.lines().any(must_go_on);
    if has_own && !command.is_empty() {
        names.insert(command.join("-"));
    }
    for next in below {
        names.append(&mut help(env, pages, &[command, &[next]].concat()));
    }
    names
}

#[test]
fn every_command_has_its_page() {
    let mut env = surroundings();
    env.set("COLUMNS", "80");
    let pages = Pages::default();
    let expected = help(&env, &pages, &[]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let snapshots = files.filter(|path| path.extension().is_some_and(|kind| kind == "snap"));
    let found: BTreeSet<String> =
        snapshots.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    pages.end();
    let missing: Vec<_> = expected.difference(&found).collect();
    let stale: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:?}, stale: {stale:?}");
}

#[test]
fn making_a_pool_prints_its_page() {
    if !crate::pool::is_possible() {
        return;
    }
    let story = Story::new();
    let commands = ["pool create --size nonsense", "pool create --size nonsense --json"];
    let made = ["pool create --size 1G", "pool create --size 1G", "pool create --size 1G --json"];
    let first = story.print(&[&commands[..], &made].concat());
    let status = story.env.json(&story.repository, &["pool", "status", "--json"]);
    assert_eq!(status.as_array().map(Vec::len), Some(1), "{status}");
    // Including its mount.
    story.env.ok(&story.repository, &["nuke", "--yes"]);
    let again = story.print(&["pool create --size 1G --json"]);
    story.env.ok(&story.repository, &["nuke", "--yes"]);
    let sizes = [(r#""(size|used|free)": \d+"#, r#""$1": "[BYTES]""#)];
    story.pages.compare("pool-create", &(first + &again), &sizes);
    story.pages.end();
}

#[test]
fn commands_without_a_room_print_their_pages() {
    let story = Story::new();
    story.both("version", &["version", "version nonsense"]);
    let scripts = [
        (r"(?s)(_clap_complete_hothouse\(\) \{\n).*?(\n--- )", "$1[SCRIPT]$2"),
        (r#""script": ".*""#, r#""script": "[SCRIPT]""#),
    ];
    story.both_with("completions", &["completions bash", "completions nonsense"], &scripts);
    let page = (r"(?s)(\.TH hothouse[^\n]*\n).*?(\n--- )", "$1[PAGE]$2");
    story.page_with(
        "man",
        &["man", "man --folder pages", "man nonsense", "man nonsense --json"],
        &[page],
    );
    let schema = (r#"(?s)\{\n  "\$.*?\n\}\n"#, "{ [SCHEMA] }\n");
    story.both_with("config-schema", &["config schema", "config schema nonsense"], &[schema]);
    story.both("daemon-start", &["daemon start", "daemon start --nonsense"]);
    story.both_with("doctor", &["doctor", "doctor --fix", "doctor nonsense"], &DOCTOR);
    story.both("daemon-status", &["daemon status", "daemon status nonsense"]);
    let fork = ["fork a --tree copy", "fork b --tree copy --json", "fork a --tree copy"];
    let wrong = ["fork a --json", "fork A!", "fork c --base nonsense", "fork c --tree nonsense"];
    story.page("fork", &[&fork[..], &wrong].concat());
    story.both("list", &["list", "list nonsense"]);
    story.both("edit", &["edit -w a --with true", "edit -w a", "edit -w nothing --with true"]);
    let config = fs::read_to_string(story.repository.join("hothouse.toml")).unwrap();
    fs::write(story.repository.join("hothouse.toml"), "[room]\ncpus = 0\n[servce.x]\n").unwrap();
    let checks = ["config check", "config check --json"];
    let wrong = story.print(&checks);
    fs::write(story.repository.join("hothouse.toml"), config).unwrap();
    story.pages.compare("config-check", &(story.print(&checks) + &wrong), &[]);
    fs::write(story.env.root().join("api.json"), DESCRIPTION).unwrap();
    let add = [
        "integration add ../api.json",
        "integration add nothing.json",
        "integration add hothouse.toml",
    ];
    story.both("integration-add", &add);
    story.both("config-show", &["config show", "config show nonsense"]);
    change(&story, "a");
    change(&story, "b");
    story.both("diff", &["diff -w a", "diff -w a --stat", "diff -w nothing", "diff -w a --base x"]);
    story.both("log", &["log -w a", "log -w nothing", "log -w a --base nonsense"]);
    story.env.ok(&story.repository, &["fork", "c", "--tree", "copy"]);
    let snapshot = ["snapshot one -w c", "snapshot two -w c --json", "snapshot one -w c"];
    let removed = ["snapshot two --remove -w c", "snapshot two --remove -w c --json"];
    let snapshot = [&snapshot[..], &["snapshot c"]].concat();
    story.page("snapshot", &[&snapshot[..], &["snapshot one -w c --json"], &removed].concat());
    story.both("snapshots", &["snapshots -w c", "snapshots -w a", "snapshots -w nothing"]);
    story.both("restore", &["restore one -w c", "restore nothing -w c", "restore one -w nothing"]);
    story.both("size", &["size -w a", "size -w nothing"]);
    let promote = ["promote a --merge", "promote b --merge --json", "promote a --merge"];
    let wrong = ["promote a --merge --json", "promote b --push", "promote nothing --json"];
    story.page("promote", &[promote, wrong].concat());
    story.both("clean", &["clean --all --dry-run", "clean nothing", "clean"]);
    for name in ["mine", "other"] {
        let folder = story.env.root().join(name);
        git(&story.repository, &["worktree", "add", "-q", folder.to_str().unwrap(), "-b", name]);
    }
    let adopt = ["adopt ../mine", "adopt ../other --json", "adopt ../mine", "adopt .", "adopt x"];
    story.page("adopt", &[&adopt[..], &["adopt . --json"]].concat());
    let secret = "secret set TOKEN --from env:NAME";
    story.both("secret-set", &[secret, "secret set TOKEN", "secret set nonsense! --from file"]);
    story.both("secret-list", &["secret list", "secret list nonsense"]);
    let removed = story.print(&["secret rm TOKEN", "secret rm TOKEN", "secret rm TOKEN --json"]);
    story.env.ok(&story.repository, &["secret", "set", "TOKEN", "--from", "env:NAME"]);
    let removed = removed + &story.print(&["secret rm TOKEN --json"]);
    story.pages.compare("secret-rm", &removed, &[]);
    story.both("pool-status", &["pool status", "pool status nonsense"]);
    story.both("explain", &["explain not-listed", "explain 6", "explain nonsense"]);
    story.both("skills-list", &["skills list", "skills list nonsense"]);
    let skills = "skills install --for claude --for codex --agents-md --folder ..";
    let removed = format!("{skills} --remove");
    story.both("skills-install", &[skills, &removed, "skills install --for nonsense"]);
    let mcp = "mcp install --for claude --for codex --for vscode";
    story.both("mcp-install", &[mcp, &format!("{mcp} --remove"), "mcp install"]);
    story.both("mcp", &["mcp", "mcp --port 1", "mcp -w no!name"]);
    let delete = ["delete a", "delete a --json", "delete a --force", "delete mine --json"];
    let delete =
        [&delete[..], &["delete b other nothing --force", "delete b other --force"]].concat();
    story.page("delete", &[&delete[..], &["delete a", "delete a --json"]].concat());
    let undelete = ["undelete", "undelete --json", "undelete nothing", "undelete a", "undelete a"];
    let more = ["undelete b --as no!name", "undelete a --json", "undelete b --json"];
    story.page_with("undelete", &[&undelete[..], &more].concat(), &TRASH);
    for name in ["a", "b"] {
        story.env.ok(&story.repository, &["delete", name, "--now", "--force"]);
    }
    story.both("init", &["init --dry-run", "init --answer nothing=1", "init --answer nonsense"]);
    story.both("stack-list", &["stack list", "stack list nonsense"]);
    story.both("nuke", &["nuke", "nuke --yes"]);
    let stop = ["daemon stop --json", "daemon stop --json", "daemon start", "daemon stop"];
    let rest = ["daemon stop", "daemon stop nonsense", "daemon stop nonsense --json"];
    story.page("daemon-stop", &[&stop[..], &rest].concat());
    story.pages.end();
}

/// The id and size of a sandbox in the trash.
const TRASH: [(&str, &str); 3] = [
    (r#""id": "([a-z]+)\.[0-9a-f]+""#, r#""id": "$1.[WHEN]""#),
    (r#""bytes": \d+"#, r#""bytes": "[BYTES]""#),
    (r"in (1d |1d\b|23h\b)", "in [SPAN]"),
];

/// Commits something in a worktree, and leaves something uncommitted.
fn change(story: &Story, name: &str) {
    let worktree = story.worktree(name);
    fs::write(worktree.join(format!("{name}.txt")), "more\n").unwrap();
    git(&worktree, &["add", "-A"]);
    git(&worktree, &["commit", "-qm", &format!("Add {name}.txt")]);
    fs::write(worktree.join("README"), "hello\nmore\n").unwrap();
    fs::write(worktree.join("new"), "new\n").unwrap();
}

/// The number and numbers of records depend on timing.
const RECORDS: [(&str, &str); 4] = [
    (r#""(seq|records)": \d+"#, r#""$1": "[COUNT]""#),
    (r"\b\d+ records", "[COUNT] records"),
    (r"near: record \d+", "near: record [SEQ]"),
    (r"--since \d+", "--since [SEQ]"),
];

/// The duration of an attempt, and its record.
const ATTEMPTS: [(&str, &str); 5] = [
    (r"TO +(STATUS|ATTEMPT)", "TO  $1"),
    (r#""duration_ms": \d+"#, r#""duration_ms": "[MS]""#),
    (r"(?m)(accepted|  -) +\d+$", "$1  [MS]"),
    (r"hook_[0-9a-f]{16}", "hook_[ID]"),
    (r"(?m)^\d\d:\d\d:\d\d  ", "[TIME]  "),
];

/// Which request it is.
const ASKS: [(&str, &str); 1] = [(r"ask_[0-9a-f]{16}", "ask_[ID]")];

/// What differs between two agents.
const AGENTS: [(&str, &str); 6] = [
    (r"agent-[0-9a-f]{16}-1", "agent-[ID]-1"),
    (r"agent_[0-9a-f]{16}", "agent_[ID]"),
    (r#""pid": (\d+|"\[PID\]"|null)"#, r#""pid": "[PID]""#),
    (r#""state": "(starting|running)""#, r#""state": "[STARTED]""#),
    (r"is (starting|running)\.", "is [STARTED]."),
    (r"(?m)^\d\d:\d\d:\d\d", "[TIME]"),
];

/// Checks the pages of the guard, and of its installation.
fn guards(story: &Story) {
    story.both("guard", &["guard", "guard --tool nothing"]);
    let install = ["guard install --for claude", "guard install --for nothing"];
    story.both("guard-install", &install);
    let uninstall = ["guard uninstall --for claude", "guard uninstall --for nothing"];
    story.both("guard-uninstall", &uninstall);
}

/// Checks the pages of the timeline of `a`, for commands that do not depend on timing.
fn timeline(story: &Story) {
    let both = |name: &str, commands: &[&str]| story.both_with(name, commands, &RECORDS);
    both("mark", &["mark before -w a", "mark 5m -w a", "mark before -w nothing"]);
    both("since", &["since before -w a", "since befor -w a", "since before -w nothing"]);
    let waits = ["wait mark mark=before -w a", "wait mark mark=after --timeout 100ms -w a"];
    let wrong = ["wait mail tooo:x -w a", "wait mial x -w a", "wait mail --timeout soon -w a"];
    both("wait", &[&waits[..], &wrong].concat());
    let timeline = ["timeline --kind policy -w a", "timeline --kind mail -w a"];
    both("timeline", &[&timeline[..], &["timeline x~( -w a", "timeline --run nothing"]].concat());
    both("requests", &["requests --unmatched -w a", "requests hots:x -w a"]);
    story.both("integrations", &["integrations -w a", "integrations -w nothing"]);
    both("emails", &["emails to:ann -w a", "emails form:x -w a"]);
    both("errors", &["errors -w a", "errors tpye=x -w a", "errors err_0123456789abcdef -w a"]);
    both("analytics", &["analytics -w a", "analytics --require paid -w a", "analytics nam=x -w a"]);
    both("llm", &["llm matched=false -w a", "llm modle:gpt -w a"]);
    both("objects", &["objects -w a", "objects bukcet=x -w a"]);
    story.both("flags-set", &["flags set new-ui control -w a", "flags set x 1 -w nothing"]);
    story.both("flags", &["flags -w a", "flags -w nothing"]);
    let unset = ["flags unset new-ui -w a", "flags unset new-ui -w a", "flags unset x -w a --json"];
    let removed = story.print(&unset);
    story.env.ok(&story.repository, &["flags", "set", "new-ui", "control", "-w", "a"]);
    let removed = removed + &story.print(&["flags unset new-ui -w a --json"]);
    story.pages.compare("flags-unset", &removed, &[]);
    story.both("queue-list", &["queue list -w a", "queue list -w nothing"]);
    story.both("queue-drain", &["queue drain -w a", "queue drain --timeout soon -w a"]);
    story.both("cron-list", &["cron list -w a", "cron list -w nothing"]);
    story.both("routes", &["routes -w a", "routes wbe -w a", "routes -w nothing"]);
    story.both("seeds", &["seeds -w a", "seeds --stale -w a", "seeds -w nothing"]);
    let sent = ["webhook", "stripe/invoice.paid", "--to", "web/hook", "-w", "a"];
    assert_eq!(story.env.run(&story.repository, &sent).code, 1, "the app takes no webhooks");
    story.both_with("webhooks", &["webhooks attempt=1 -w a", "webhooks tpye:x -w a"], &ATTEMPTS);
    let ask = ["ask prices are there --host api.example.org -w a", "ask x --host no!host -w a"];
    story.both_with("ask", &[&ask[..], &["ask x -w nothing", "ask"]].concat(), &ASKS);
    story.both_with("asks", &["asks -w a", "asks -w nothing"], &ASKS);
    let other = ["ask", "more prices", "--host", "api.example.net", "-w", "a", "--json"];
    let other = story.env.json(&story.repository, &other);
    let asks = story.env.json(&story.repository, &["asks", "--json"]);
    let asks = asks.as_array().unwrap().iter().map(|ask| ask["id"].as_str().unwrap());
    let first = asks.into_iter().find(|id| *id != other["id"]).unwrap().to_owned();
    let answer = |id: &str| format!("asks answer {id} deny --because no");
    let (text, json) = (answer(&first), as_json(&answer(other["id"].as_str().unwrap())));
    let answers = [&text, &text, &json, &json].map(String::as_str);
    let wrong = ["asks answer nothing allow", "asks answer nothing allow --json"];
    story.page_with("asks-answer", &[&answers[..], &wrong].concat(), &ASKS);
    guards(story);
    let taken = [
        (r"\d+ MB *", "[SIZE] "),
        (r#""(cpu_ms|memory_bytes|processes|records)": \d+"#, "\"$1\": 0"),
    ];
    story.both_with("top", &["top", "top --every soon"], &taken);
    let status = story.env.json(&story.repository, &["status", "-w", "a", "--json"]);
    let verify = format!("verify {}", status["run"]["id"].as_str().unwrap());
    if Path::new("/usr/bin/chromium").exists() {
        let wrong = ["browse wep -w a", "browse web --device nokia -w a", "browse -w a"];
        story.both_with("browse", &[&["browse web / -w a"][..], &wrong].concat(), &PAGE);
    } else {
        skip("the output of `browse`", "chromium");
    }
    both("verify", &[&verify, "verify ./nothing", "verify run_0123456789ab"]);
    story.both("scenarios", &["scenarios -w a", "scenarios -w nothing"]);
}

/// What differs between pages: times, element numbers, traces, the browser's version.
const PAGE: [(&str, &str); 6] = [
    (r#"(?m) e\d+(\\n|$|")"#, " e[N]$1"),
    (r#""([a-z_]+_ms|cls)": [0-9.]+"#, r#""$1": "[TIME]""#),
    (r#""trace": "[0-9a-f]{32}""#, r#""trace": "[TRACE]""#),
    (r#""browser": "[^"]+""#, r#""browser": "[BROWSER]""#),
    (r"/browser/\d+", "/browser/[N]"),
    (r#""requests": \d+"#, r#""requests": "[COUNT]""#),
];

#[test]
fn the_client_of_a_database_prints_its_page() {
    if !is_root() || !crate::services::is_installed("redis-server") {
        return skip("the output of `db`", "root, or redis-server");
    }
    let story = Story::new();
    if !story.env.can_have_rooms("the output of `db`") {
        return;
    }
    story.env.ok(&story.repository, &["fork", "b", "--tree", "copy"]);
    let config = format!("{CONFIG}\n[service.cache]\nrecipe = \"redis\"\n");
    fs::write(story.repository.join("hothouse.toml"), config).unwrap();
    git(&story.repository, &["commit", "-qam", "cache"]);
    story.env.ok(&story.repository, &["fork", "a", "--tree", "copy"]);
    story.env.ok(&story.repository, &["up", "-w", "a"]);
    story.env.ok(&story.repository, &["up", "-w", "b"]);
    // Without input.
    let commands = ["db -w a", "db cache -w a", "db web -w a", "db nothing -w a", "db -w b"];
    story.both("db", &commands);
    story.pages.end();
}

#[test]
fn commands_on_a_room_print_their_pages() {
    if !is_root() {
        return skip("the output of commands on a room", "root, whose rooms the pages show");
    }
    let story = Story::new();
    if !story.env.can_have_rooms("the output of commands on a room") {
        return;
    }
    story.env.ok(&story.repository, &["fork", "a", "--tree", "copy"]);
    story.env.ok(&story.repository, &["fork", "b", "--tree", "copy"]);
    let broken = "[project]\nname = \"shop\"\n[service.web]\nrun = \"echo no packages; exit 3\"\nrestart = \"never\"\n";
    fs::write(story.worktree("b").join("hothouse.toml"), broken).unwrap();
    story.both_with("up", &["up -w a", "up -w b", "up -w nothing", "up a"], &CHANGES);
    let status = ["status -w a", "status -w a --verbose", "status -w a --json"];
    let status = [&status[..], &["status -w nothing", "status -w nothing --json"]].concat();
    story.page("status", &status);
    story.both("open", &["open -w a", "open web -w a --direct", "open nothing -w a"]);
    story.both("env", &["env a", "env nothing"]);
    story.both("url", &["url web -w a", "url web -w a --direct", "url nothing -w a"]);
    story.both("expose", &["expose 9000 -w a", "expose 0 -w a", "expose 9000 -w nothing"]);
    story.both("ports", &["ports", "ports nonsense"]);
    story.both("ports-release", &["ports release", "ports release 1"]);
    story.both(
        "logs",
        &[
            "logs a",
            "logs a worker --tail 1",
            "logs -w a",
            "logs worker -w a --tail 1",
            "logs nothing -w a",
        ],
    );
    let exec = [
        "exec -w a -- cat README",
        "exec -w a -- nothing",
        "exec -w nothing -- true",
        "exec -w a",
        "exec npm test",
    ];
    story.both("exec", &exec);
    story.both("shell", &["shell -w a", "shell -w nothing"]);
    let service = |verb: &str| {
        let commands = [format!("{verb} worker -w a"), format!("{verb} nothing -w a")];
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        story.both_with(verb, &commands, &STARTED);
    };
    ["restart", "stop", "start"].into_iter().for_each(service);
    let signal = ["signal worker HUP -w a", "signal worker NONSENSE -w a"];
    story.both_with("signal", &signal, &STARTED);
    story.both("pause", &["pause -w a", "pause -w nothing"]);
    story.both("resume", &["resume -w a", "resume -w nothing"]);
    story.env.run(&story.repository, &["exec", "-w", "a", "--", "curl", "https://example.org"]);
    story.both("egress-log", &["egress log -w a", "egress log -w nothing"]);
    let why = [
        "egress why example.org -w a",
        "egress why api.example.com -w a",
        "egress why no!host -w a",
        "egress why example.org -w nothing",
    ];
    story.both("egress-why", &why);
    story.both("egress-learn", &["egress learn -w a", "egress learn -w nothing"]);
    let allow = ["egress allow example.org -w a", "egress allow -w a", "egress allow x y! -w a"];
    story.both("egress-allow", &allow);
    let loose = CONFIG.replace("allowlist", "open");
    fs::write(story.worktree("a").join("hothouse.toml"), &loose).unwrap();
    let refused =
        ["config approve -w a", "config approve -w a --json", "config approve -w nothing"];
    let approved = story.print(&[&refused[..], &["config approve -w a --yes"]].concat());
    let more =
        loose.replace("[\"api.example.com\"]\n\n", "[\"api.example.com\", \"example.net\"]\n\n");
    fs::write(story.worktree("a").join("hothouse.toml"), more).unwrap();
    let approved = approved + &story.print(&["config approve -w a --yes --json"]);
    story.pages.compare("config-approve", &approved, &[]);
    timeline(&story);
    story.both("ui", &["ui", "ui -w nothing"]);
    story.both("runs", &["runs", "runs nonsense"]);
    story.both("down", &["down -w a", "down -w nothing"]);
    story.pages.end();
}

/// The most used screens, as shown on a terminal.
const SCREENS: [&str; 14] = [
    "hothouse",
    "hothouse help",
    "hothouse up --help",
    "hothouse list",
    "hothouse status a",
    "hothouse status a --caveats",
    "hothouse status nothing",
    "hothouse ports",
    "hothouse config show",
    "hothouse integrations -w a",
    "hothouse egress log -w a",
    "hothouse logs a --tail 3",
    "hothouse snapshots -w a",
    "hothouse delete a",
];

#[test]
fn terminals_of_80_and_120_columns_show_their_pages() {
    if !is_root() {
        return skip("what terminals show", "root, whose rooms the pages show");
    }
    let story = Story::new();
    if !story.env.can_have_rooms("what terminals show") {
        return;
    }
    story.env.ok(&story.repository, &["fork", "a", "--tree", "copy"]);
    story.env.ok(&story.repository, &["up", "-w", "a"]);
    story.env.run(&story.repository, &["exec", "-w", "a", "--", "curl", "https://example.org"]);
    story.env.ok(&story.repository, &["snapshot", "before-the-change", "-w", "a"]);
    fs::write(story.worktree("a").join("new"), "new\n").unwrap();
    for columns in [80, 120] {
        let mut text = String::new();
        for command in SCREENS {
            let shown = crate::everyday::shown(&story.env, &story.repository, columns, command);
            let Some(shown) = shown else { return };
            text.push_str(&screen(&story.env, command, &shown));
        }
        story.pages.compare_shown(&format!("at-{columns}"), &text, &[]);
    }
    story.pages.end();
}
