//! Daily use at a terminal: what fits it, what comes next, and what a new user does first.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
};

use hothouse_testkit::{TestEnv, User, git, is_root, kill, skip, wait_until};

use crate::surroundings;

const WEB: &str = "[service.web]\nrun = \"exec python3 -m http.server 3000\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";

/// Starts a command on a pseudo-terminal of so many columns; what it shows goes to a file.
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
fn shown(env: &TestEnv, folder: &Path, columns: u16, line: &str) -> Option<String> {
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
                // A path that is longer than a line stays whole.
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
    let Some(told) =
        shown(&env, &repository, 80, "hothouse fork a; hothouse diff a; hothouse list")
    else {
        return;
    };
    for next in ["Next: `hothouse up a`", "Next: `hothouse promote a`", "Next: `hothouse status a`"]
    {
        assert!(told.contains(next), "{next}: {told}");
    }
    let piped = env.run(&repository, &["list"]);
    assert!(!piped.stderr.contains("Next:"), "{piped}");
    for quiet in ["hothouse list -q", "hothouse list --json", "HOTHOUSE_HINTS=off hothouse list"] {
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
    let config = "[service.job]\nrun = \"cat note; exit 3\"\nrestart = { policy = \"never\" }\n";
    let env = surroundings();
    if !env.can_have_rooms("a service that fails") {
        return;
    }
    let files = [("note", "the first start\n")];
    let repository =
        env.repository_with("acme", &format!("[project]\nname = \"acme\"\n{config}"), &files);
    env.ok(&repository, &["fork", "a"]);
    let begun = std::time::Instant::now();
    let first = env.run(&repository, &["up", "a"]);
    assert_eq!(first.code, 1, "{first}");
    assert!(first.stderr.contains("the first start"), "{first}");
    assert!(first.stderr.lines().any(|line| line == "job: failed"), "{first}");
    env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", "echo the second start >note"]);
    // Times of a room are known to half a second.
    wait_until("the starts are apart", || begun.elapsed().as_secs() >= 3);
    let second = env.run(&repository, &["up", "a"]);
    assert!(second.stderr.contains("the second start"), "{second}");
    assert!(!second.stderr.contains("the first start"), "{second}");
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

/// Whether a program is on the path, or where Debian keeps databases.
fn has(env: &TestEnv, program: &str) -> bool {
    let line = format!("command -v {program} || ls /usr/lib/postgresql/*/bin/{program}");
    !env.shell(env.root(), &line).stdout.is_empty()
}
