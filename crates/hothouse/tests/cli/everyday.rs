//! Daily use at a terminal: layout, next steps, and what a new user does first.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
};

use hothouse_testkit::{TestEnv, User, git, is_root, kill, skip, wait_until};

use crate::surroundings;

const WEB: &str = "[service.web]\nrun = \"exec python3 -m http.server 3000\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";

/// Starts a command on a pseudo-terminal with this width; its output goes to a file.
fn on_terminal(env: &TestEnv, folder: &Path, columns: u16, line: &str, to: &Path) -> Option<Child> {
    if env.shell(folder, "command -v script").stdout.is_empty() {
        skip("a pseudo-terminal", "script");
        return None;
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_hothouse")).parent().unwrap().display().to_string();
    let inner =
        format!("stty cols {columns} rows 60; export PATH={binary}:$PATH TERM=xterm; {line}");
    let mut script = std::process::Command::new("script");
    script.args(["-qfec", &inner, "/dev/null"]).current_dir(folder).env_clear();
    for (name, value) in env.environment() {
        script.env(name, value);
    }
    script.env("PATH", std::env::var("PATH").unwrap_or_default());
    let file = fs::File::create(to).unwrap();
    let child = script.stdin(Stdio::piped()).stdout(file).stderr(Stdio::null()).spawn();
    Some(child.unwrap())
}

/// Returns what a command shows on a terminal, without colours.
pub(crate) fn shown(env: &TestEnv, folder: &Path, columns: u16, line: &str) -> Option<String> {
    let file = env.root().join("shown");
    let mut child = on_terminal(env, folder, columns, line, &file)?;
    child.wait().unwrap();
    Some(plain(&fs::read(&file).unwrap()))
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace('\r', "");
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().find(|c| c.is_ascii_alphabetic())),
            other => out.push(other),
        }
    }
    out
}

#[test]
fn nothing_breaks_inside_a_word_at_80_and_120_columns() {
    let env = surroundings();
    if !env.can_have_rooms("a sandbox that is up") {
        return;
    }
    let repository = env.repository("acme", &format!("[project]\nname = \"acme\"\n{WEB}"));
    env.ok(&repository, &["fork", "agent-a"]);
    env.ok(&repository, &["up", "agent-a"]);
    for columns in [80, 120] {
        for line in
            ["status agent-a --caveats", "list", "config show", "size", "clean --all --dry-run"]
        {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(told) = shown(&env, &repository, columns, &format!("hothouse {line}")) else {
                return;
            };
            let piped = env.ok(&repository, &words);
            for shown in told.lines().filter(|line| !line.starts_with("Next: ")) {
                // A path longer than a line is not broken.
                let longest = shown.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
                let most = usize::from(columns).max(longest + 16);
                assert!(shown.chars().count() <= most, "{line} at {columns}: {shown}");
                let is_time = |word: &str| word.chars().any(|c| c.is_ascii_digit());
                for word in shown.split_whitespace().filter(|word| !is_time(word)) {
                    assert!(piped.contains(word), "{line} at {columns}: `{word}` in {shown}");
                }
            }
        }
    }
}

#[test]
fn a_sandbox_that_is_followed_is_shown_again_when_it_changes() {
    let env = surroundings();
    if !env.can_have_rooms("a sandbox that is followed") {
        return;
    }
    let repository = env.repository("acme", &format!("[project]\nname = \"acme\"\n{WEB}"));
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    let file = env.root().join("followed");
    let followed = on_terminal(&env, &repository, 80, "exec hothouse status a -f", &file);
    let Some(mut child) = followed else { return };
    let seen = |what: &str| plain(&fs::read(&file).unwrap_or_default()).contains(what);
    wait_until("it is shown", || seen("web      ready"));
    env.ok(&repository, &["stop", "web", "-w", "a"]);
    wait_until("it is shown again", || seen("web      stopped"));
    let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
    assert!(text.matches("\u{1b}[H\u{1b}[2J").count() >= 2, "the screen is cleared: {text:?}");
    assert!(!text.contains("panicked"), "{text}");
    kill(child.id());
    child.wait().unwrap();
}

#[test]
fn a_terminal_is_told_what_comes_next_until_the_user_turns_that_off() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    let line = "hothouse fork a; hothouse diff a; echo more >>../acme-sandboxes/a/README; \
                hothouse diff a; hothouse list";
    let Some(told) = shown(&env, &repository, 80, line) else { return };
    let (before, _) = told.split_once("diff --git").expect("the change is shown");
    assert!(before.contains("No changes.") && !before.contains("promote"), "{told}");
    for next in ["Next: `hothouse up a`", "Next: `hothouse promote a`", "Next: `hothouse status a`"]
    {
        assert!(told.contains(next), "{next}: {told}");
    }
    let piped = env.run(&repository, &["list"]);
    assert!(!piped.stderr.contains("Next:"), "{piped}");
    let quiet = [
        "hothouse list -q",
        "hothouse list --json",
        "HOTHOUSE_HINTS=off hothouse list",
        "hothouse list | cat",
    ];
    for quiet in quiet {
        let told = shown(&env, &repository, 80, quiet).unwrap();
        assert!(!told.contains("Next:"), "{quiet}: {told}");
    }
    let settings = env.environment().into_iter().find(|(name, _)| name == "XDG_CONFIG_HOME");
    let (_, folder) = settings.expect("the test has its own settings");
    let file = Path::new(&folder).join("hothouse/hothouse.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[terminal]\nhints = false\n").unwrap();
    let told = shown(&env, &repository, 80, "hothouse list").unwrap();
    assert!(told.contains("acme") && !told.contains("Next:"), "{told}");
}

#[test]
fn commands_work_in_the_folder_of_a_sandbox_that_was_deleted() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    let binary = env!("CARGO_BIN_EXE_hothouse");
    for deletion in ["--force", "--force --now"] {
        let worktree = env.ok(&repository, &["fork", "a"]);
        let line = format!("{binary} delete a {deletion} && {binary} list && {binary} fork b");
        let ran = env.shell(Path::new(worktree.trim()), &line);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{deletion}: {told}");
        assert!(env.root().join("acme-sandboxes/b").exists());
        env.ok(&repository, &["delete", "b"]);
        git(&repository, &["branch", "-D", "a", "b"]);
    }
}

#[test]
fn a_failed_start_shows_the_lines_of_this_start_and_a_pipe_each_change() {
    let config = "[service.job]\nrun = \"cat note; printf unended; exit 3\"\nrestart = { policy = \"never\" }\n";
    let env = surroundings();
    if !env.can_have_rooms("a service that fails") {
        return;
    }
    let files = [("note", "the first start\n")];
    let repository =
        env.repository_with("acme", &format!("[project]\nname = \"acme\"\n{config}"), &files);
    env.ok(&repository, &["fork", "a"]);
    let first = env.run(&repository, &["up", "a"]);
    assert_eq!(first.code, 1, "{first}");
    assert!(first.stderr.contains("the first start"), "{first}");
    assert!(first.stderr.lines().any(|line| line == "job: failed"), "{first}");
    env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", "echo the second start >note"]);
    let second = env.run(&repository, &["up", "a"]);
    assert!(second.stderr.contains("the second start"), "{second}");
    assert!(!second.stderr.contains("the first start"), "{second}");
    // An unterminated last line of a process is a separate line.
    let log = || env.ok(&repository, &["logs", "job", "-w", "a", "--tail", "4"]);
    let lines = ["the first start", "unended", "the second start", "unended"];
    wait_until("both are in the log", || {
        let log = log();
        let found: Vec<_> = log.lines().map(|line| line.rsplit("| ").next().unwrap()).collect();
        found == lines
    });
}

/// The commands of the README's first steps, which a test runs.
const STEPS: [&str; 9] = [
    "fork agent-a --idea \"raise the price\"",
    "list",
    "delete agent-a",
    "undelete agent-a",
    "up -w agent-a",
    "exec -w agent-a -- npm test",
    "logs web -w agent-a",
    "diff -w agent-a",
    "promote agent-a --merge",
];

#[test]
fn the_steps_of_the_readme_work_for_a_user_with_a_bare_account() {
    let readme = include_str!("../../../../README.md");
    for step in STEPS {
        assert!(readme.contains(&format!("$ hothouse {step}")), "README: {step}");
    }
    let toml = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let toml = toml.expect("the README shows a hothouse.toml");
    let users: Vec<_> = match is_root() {
        true => User::ordinary().into_iter().collect(),
        false => Vec::new(),
    };
    for user in users {
        let mut env = surroundings();
        env.become_user(user);
        let missing = ["npm", "postgres"].into_iter().find(|program| !has(&env, program));
        if let Some(program) = missing {
            skip("the README's stack", program);
            return;
        }
        if !env.can_have_rooms("the README's stack") {
            return;
        }
        let package = "{\"name\":\"shop\",\"scripts\":{\"start\":\"node server.js\",\"test\":\"node -e 'console.log(process.env.DATABASE_URL || 1)'\"}}";
        let server =
            "require('http').createServer((q,r)=>{console.log(q.url);r.end('ok')}).listen(3000)";
        let files = [("package.json", package), ("server.js", server)];
        let repository = env.repository_with("shop", toml, &files);
        for step in STEPS {
            if step.starts_with("promote") {
                let work = "git config user.name A; git config user.email a@example.com; echo 2 >price; git add -A; git commit -qm raise";
                env.ok(&repository, &["exec", "-w", "agent-a", "--", "sh", "-c", work]);
            }
            let ran = env.run(&repository, &words(step));
            assert_eq!(ran.code, 0, "{ran}");
        }
        assert_eq!(fs::read_to_string(repository.join("price")).unwrap(), "2\n");
    }
}

/// Splits a line as a shell would; one word may be quoted.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}

/// Returns whether a program is on the path, or where Debian keeps databases.
fn has(env: &TestEnv, program: &str) -> bool {
    let line = format!("command -v {program} || ls /usr/lib/postgresql/*/bin/{program}");
    !env.shell(env.root(), &line).stdout.is_empty()
}

#[test]
fn an_agent_that_asks_is_told_on_the_desktop_and_by_a_bell() {
    let mut env = surroundings();
    if !env.can_have_rooms("notices") {
        return;
    }
    // Replaces the desktop's program; the daemon finds it like the real one.
    let (programs, told) = (env.root().join("programs"), env.root().join("told"));
    fs::create_dir_all(&programs).unwrap();
    let stand_in = programs.join("notify-send");
    let script =
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >{0}.new; mv {0}.new {0}\n", told.display());
    fs::write(&stand_in, script).unwrap();
    fs::set_permissions(&stand_in, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    env.set("PATH", format!("{}:{path}", programs.display()));
    let settings = env.root().join("config/hothouse/hothouse.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "[notify]\ndesktop = true\nbell = true\n").unwrap();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    let file = env.root().join("followed");
    let followed = on_terminal(&env, &repository, 80, "exec hothouse status a -f", &file);
    let Some(mut child) = followed else { return };
    let seen = |what: &[u8]| {
        let shown = fs::read(&file).unwrap_or_default();
        shown.windows(what.len()).any(|part| part == what)
    };
    wait_until("it is shown", || seen(b"Sandbox ready: a"));
    assert!(!seen(b"\x07"), "nobody asked yet");
    env.ok(&repository, &["ask", "prices come from <b>there</b>", "-w", "a"]);
    wait_until("the desktop is told", || told.exists());
    let words = fs::read_to_string(&told).unwrap();
    let words: Vec<&str> = words.lines().collect();
    let text = "prices come from &lt;b&gt;there&lt;/b&gt;";
    assert_eq!(words, ["--app-name=Hothouse", "--", "a waits for you", text]);
    wait_until("the terminal rings", || seen(b"\x07"));
    kill(child.id());
    child.wait().unwrap();
}

#[test]
fn clean_tells_branches_without_commits_from_those_that_are_not_merged() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    for name in ["idle", "ahead", "merged"] {
        let worktree = env.ok(&repository, &["fork", name]);
        let worktree = Path::new(worktree.trim());
        if name != "idle" {
            fs::write(worktree.join(name), "more\n").unwrap();
            git(worktree, &["add", "-A"]);
            git(worktree, &["commit", "-qm", name]);
        }
    }
    env.ok(&repository, &["promote", "merged", "--merge"]);
    let looked_at = env.json(&repository, &["clean", "--merged", "--dry-run", "--json"]);
    let told = |name: &str| {
        let what = format!("acme/{name}");
        let all = looked_at.as_array().unwrap();
        let found = all.iter().find(|one| one["what"] == what.as_str()).unwrap();
        (found["goes"].as_bool().unwrap(), found["reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(told("idle"), (false, "idle has no commits of its own yet".to_owned()));
    assert_eq!(told("ahead"), (false, "ahead is not merged into main".to_owned()));
    assert_eq!(told("merged"), (true, "merged is merged into main".to_owned()));
    let shown = env.ok(&repository, &["clean", "--merged"]);
    for (name, action) in [("idle", "kept"), ("ahead", "kept"), ("merged", "deleted")] {
        let line = shown.lines().find(|line| line.starts_with(&format!("acme/{name} "))).unwrap();
        assert!(line.contains(action), "{line}");
    }
    let left = env.json(&repository, &["list", "--json"]);
    assert_eq!(left.as_array().unwrap().len(), 2);
}

#[test]
fn a_followed_sandbox_that_goes_away_or_a_reader_that_leaves_ends_the_following() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    env.ok(&repository, &["fork", "a"]);
    let binary = env!("CARGO_BIN_EXE_hothouse");
    // The reader takes one line and closes the pipe.
    let line = format!("{binary} status a -f 2>told | head -1; cat told");
    let ran = env.shell(&repository, &line);
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(shown.starts_with("Sandbox created: a") && !shown.contains("panicked"), "{shown}");
    // The daemon dies, and the sandbox is deleted, while a terminal follows it.
    let file = env.root().join("followed");
    let followed = on_terminal(&env, &repository, 80, "hothouse status a -f; echo code $?", &file);
    let Some(mut child) = followed else { return };
    let seen = |what: &str| plain(&fs::read(&file).unwrap_or_default()).contains(what);
    wait_until("it is shown", || seen("Sandbox created: a"));
    env.kill_daemon();
    env.ok(&repository, &["delete", "a"]);
    wait_until("it ends", || seen("code "));
    assert!(seen("no sandbox `a`") && seen("code 4"), "{}", plain(&fs::read(&file).unwrap()));
    assert!(!seen("panicked"));
    child.wait().unwrap();
}

#[test]
fn a_start_that_is_interrupted_continues_to_its_end() {
    let env = surroundings();
    if !env.can_have_rooms("a start that is interrupted") {
        return;
    }
    // Ready once the test says so.
    let config = "[project]\nname = \"acme\"\n[service.web]\n\
                  run = \"while ! test -e go; do sleep 0.05; done; exec python3 -m http.server 3000\"\n\
                  port = 3000\nready = { tcp = true }\nurl = \"web\"\n\
                  [seed.bundle.words]\nrun = \"echo seeded >seeded\"\n";
    let repository = env.repository("acme", config);
    let worktree = env.ok(&repository, &["fork", "a"]);
    let worktree = Path::new(worktree.trim());
    let file = env.root().join("shown");
    let line = "trap : INT; hothouse up a --seed words; echo code $?";
    let Some(mut child) = on_terminal(&env, &repository, 80, line, &file) else { return };
    let seen = |what: &str| plain(&fs::read(&file).unwrap_or_default()).contains(what);
    wait_until("it waits", || seen("web"));
    // Like Ctrl-C at a terminal.
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\x03").unwrap();
    wait_until("it is told", || seen("code "));
    let raw = String::from_utf8_lossy(&fs::read(&file).unwrap()).replace('\r', "\u{2}");
    let told = plain(raw.as_bytes());
    assert!(told.contains("Interrupted: `a` keeps starting"), "{told}");
    assert!(told.contains("`hothouse down a`"), "{told}");
    let (_, message) = told.split_once("Interrupted:").unwrap();
    let message = message.replace('\u{2}', "");
    assert!(message.lines().all(|line| line.chars().count() <= 80), "{message}");
    child.wait().unwrap();
    fs::write(worktree.join("go"), "").unwrap();
    wait_until("it is seeded", || worktree.join("seeded").exists());
    wait_until("its variables are there", || env.run(&repository, &["env", "a"]).code == 0);
    assert_eq!(env.json(&repository, &["status", "a", "--json"])["state"], "ready");
}
