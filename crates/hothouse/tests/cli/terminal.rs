//! Terminal integration: completions of three shells, manual pages, the schema, states at a glance.

use hothouse_testkit::skip;

use crate::{room::rooms_with, surroundings};

#[test]
fn shells_complete_names_that_the_daemon_knows() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "agent-a"]);
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let folder = std::path::Path::new(binary).parent().unwrap().display().to_string();
    // Each shell sources the script and is queried like by its own completion.
    let bash = "source <(hothouse completions bash); COMP_WORDS=(hothouse status ag); COMP_CWORD=2; COMP_TYPE=9; \
                fn=$(complete -p hothouse | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $fn hothouse ag status; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let fish = "hothouse completions fish | source; complete -C 'hothouse status ag'";
    let zsh = "COMPLETE=zsh _CLAP_COMPLETE_INDEX=2 hothouse -- hothouse status ag";
    for (shell, script) in [("bash", bash), ("fish", fish), ("zsh", zsh)] {
        if env.shell(&repository, &format!("command -v {shell}")).stdout.is_empty() {
            skip("completions", shell);
            continue;
        }
        let quoted = script.replace('\'', "'\\''");
        let ran = env.shell(&repository, &format!("PATH={folder}:$PATH {shell} -c '{quoted}'"));
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(
            told.contains("agent-a"),
            "{shell}: {told} {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

#[test]
fn seeds_scenarios_and_the_services_of_a_named_sandbox_are_completed() {
    let env = surroundings();
    let config = "[project]\nname = \"acme\"\n[service.web]\nrun = \"sleep 1000\"\nport = 3000\nurl = \"web\"\n\
                  [seed.bundle.users]\nrun = \"true\"\n[scenario.checkout]\napp = \"web\"\npath = \"/\"\n";
    let repository = env.repository("acme", config);
    env.ok(&repository, &["fork", "agent-a"]);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_hothouse")).display();
    let completed = |words: &str| {
        let index = words.split(' ').count() - 1;
        let line = format!("COMPLETE=zsh _CLAP_COMPLETE_INDEX={index} {binary} -- {words}");
        String::from_utf8_lossy(&env.shell(&repository, &line).stdout).into_owned()
    };
    for (words, name) in [
        ("hothouse seed us", "users"),
        ("hothouse seed check", "checkout"),
        ("hothouse up agent-a --seed us", "users"),
        ("hothouse smoke ch", "checkout"),
        ("hothouse prove ch", "checkout"),
        ("hothouse logs ag", "agent-a"),
        ("hothouse clean ag", "agent-a"),
    ] {
        let told = completed(words);
        assert!(told.contains(name), "{words}: {told}");
    }
    if !env.can_have_rooms("services of a named sandbox") {
        return;
    }
    env.ok(&repository, &["up", "agent-a", "--no-wait"]);
    env.ok(&repository, &["fork", "agent-b"]);
    let told = completed("hothouse logs agent-a w");
    assert!(told.contains("web"), "{told}");
}

#[test]
fn manual_pages_and_the_schema_are_made_from_the_same_tables() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    assert!(env.ok(&repository, &["man"]).contains(".TH hothouse 1"));
    env.ok(&repository, &["man", "--folder", "pages"]);
    for page in ["hothouse.1", "hothouse-fork.1", "hothouse-egress-why.1"] {
        assert!(repository.join("pages").join(page).exists(), "{page}");
    }
    let schema = env.run(&repository, &["config", "schema"]);
    assert!(schema.stderr.contains("#:schema"), "{schema}");
    let schema: serde_json::Value = serde_json::from_str(&schema.stdout).unwrap();
    assert!(schema["properties"]["service"].is_object());
}

#[test]
fn status_shows_urls_and_services_first_and_caveats_in_a_line() {
    let config = "[service.web]\nrun = \"python3 -m http.server 3000\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";
    rooms_with(config, |env, repository| {
        let told = env.ok(repository, &["status", "a"]);
        let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
        let order = [
            "Sandbox ready: a",
            "Apps",
            "Services",
            "Caveats: ",
            "profile",
            "Inspect",
            "Artifacts",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{told}");
        assert!(
            told.contains("--caveats`") && told.contains("created   just now")
                || told.contains(" ago"),
            "{told}"
        );
        assert!(env.ok(repository, &["status", "a", "--caveats"]).contains("\nCaveats\n"));
        let urls = env.ok(repository, &["status", "a", "--quiet"]);
        assert!(urls.starts_with("https://web.a.") && urls.lines().count() == 1, "{urls}");
        assert_eq!(env.json(repository, &["status", "a", "--json"])["asleep"], false);
    });
}

/// Types a line and a tab into a new interactive shell, and prints what it shows.
const TYPED: &str = r#"
import os, pty, select, sys, time
shell, until = sys.argv[1:2], sys.argv[2]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(shell[0], shell + ["-i"])
seen, typed, deadline = b"", 0, time.time() + 60
while time.time() < deadline and until.encode() not in seen:
    ready, _, _ = select.select([fd], [], [], 0.5)
    if ready:
        try:
            seen += os.read(fd, 65536)
        except OSError:
            break
    elif typed < 10:
        # The shell is quiet, so it has a prompt.
        os.write(fd, b"hothouse status agent-\t" if typed == 0 else b"\t")
        typed += 1
os.write(1, seen)
os.kill(pid, 9)
"#;

#[test]
fn one_command_installs_completions_on_a_fresh_account() {
    let mut env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "agent-long-name"]);
    let home = env.root().join("fresh");
    std::fs::create_dir_all(&home).unwrap();
    // The state stays where it is; the account's home is empty.
    let state = env.environment().into_iter().find(|(name, _)| name == "XDG_STATE_HOME");
    assert!(state.is_some(), "the test has its own state");
    env.set("HOME", home.display().to_string());
    env.set("TERM", "xterm");
    env.set("XDG_CONFIG_HOME", home.join(".config").display().to_string());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_hothouse")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    env.set("PATH", path);
    for (shell, file) in
        [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")]
    {
        if env.shell(&repository, &format!("command -v {shell}")).stdout.is_empty() {
            skip("completions", shell);
            continue;
        }
        env.ok(&repository, &["completions", shell, "--install"]);
        let first = std::fs::read_to_string(home.join(file)).unwrap();
        env.ok(&repository, &["completions", shell, "--install"]);
        assert_eq!(std::fs::read_to_string(home.join(file)).unwrap(), first, "once is enough");
        let script = env.root().join("typed.py");
        std::fs::write(&script, TYPED).unwrap();
        let line = format!("python3 {} {shell} agent-long-name", script.display());
        let ran = env.shell(&repository, &line);
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(told.contains("agent-long-name"), "{shell}: {told:?}");
        env.ok(&repository, &["completions", shell, "--remove"]);
        assert_eq!(std::fs::read_to_string(home.join(file)).unwrap(), "", "{shell}");
    }
}

#[test]
fn what_a_room_asks_the_terminal_is_not_answered_into_the_users_shell() {
    let env = surroundings();
    if !env.can_have_rooms("answers of a terminal") {
        return;
    }
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let attack = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks/replies.py");
    for (how, after) in [("end", "true"), ("leave", "exec sleep 60")] {
        // Sets a title chosen by the room, and queries it.
        let script = format!(r#"printf "\033]2;x\007\033[21t"; {after}"#);
        let line = format!("python3 {attack} {how} {binary} exec -w a -- sh -c '{script}'");
        let ran = env.shell(&repository, &line);
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(told, "left: b'' exit: 0 asked: 1\n", "{how}: {said}");
    }
}
