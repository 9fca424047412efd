//! Live keys, secrets and curated variables, driven through the real binary.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use hothouse_testkit::{Ran, TestEnv, git, skip};

use crate::{room::rooms_with, surroundings};

const VALUE: &str = "ghp_RealRealRealRealRealRealRealReal0001";

/// Returns a live key, concatenated so that none of our files seems to contain one.
fn live_key() -> String {
    format!("sk_{}_51abcdefghijklmnopqrstuvwx", "live")
}

fn project(extra: &str) -> String {
    format!("[project]\nname = \"acme\"\n{extra}")
}

const DECLARED: &str = "[secret.TOKEN]\nhosts = [\"api.test.example\"]\n";

/// Runs a command with something on its standard input.
pub(crate) fn with_input(env: &TestEnv, folder: &Path, words: &[&str], input: &str) -> Ran {
    let mut command = env.command(folder, words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        words: words.join(" "),
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Starts the room of sandbox `a`, if this host can have rooms.
fn up(env: &TestEnv, folder: &Path) -> bool {
    let can = env.can_have_rooms("secrets in a room");
    if can {
        env.ok(folder, &["up", "-w", "a"]);
    }
    can
}

fn exec(env: &TestEnv, folder: &Path, script: &str) -> String {
    env.ok(folder, &["exec", "-w", "a", "--", "sh", "-c", script])
}

/// Lists the files below a folder that hold a text.
fn holding(folder: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            holding(&entry.path(), text, found);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(entry.path());
            }
        }
    }
}

fn refused(env: &TestEnv, folder: &Path, named: &[&str]) {
    let up = env.run(folder, &["up", "-w", "a"]);
    assert_eq!(up.code, 3, "{up}");
    for word in named.iter().chain(&["live", "Stripe"]) {
        assert!(up.stderr.contains(word), "{word}: {up}");
    }
    assert!(!format!("{up}").contains("51abc"), "{up}");
    let status = env.json(folder, &["status", "-w", "a", "--json"]);
    assert_eq!(status["state"], "created");
}

#[test]
fn a_live_key_keeps_a_room_from_starting_wherever_it_stands() {
    let key = live_key();
    let places = [
        (format!("[service.x]\nrun = \"sleep 100\"\nenv = {{ PAY = \"{key}\" }}\n"), "service `x`"),
        (format!("[service.x]\nrun = \"PAY={key} sleep 100\"\n"), "the command"),
        (format!("[env.PAY]\nkind = \"test-mode\"\nvalue = \"{key}\"\n"), "[env]"),
        (format!("[seed.bundle.b]\nrun = \"PAY={key} true\"\n"), "seed bundle `b`"),
    ];
    for (config, named) in places {
        let env = surroundings();
        let repository = env.repository("acme", &project(&config));
        env.ok(&repository, &["fork", "a"]);
        refused(&env, &repository, &[named]);
    }
    // What the base commit has is not secret to the room, whatever the index says; other secret
    // files are masked, and not checked.
    let env = surroundings();
    let repository = env.repository("acme", &project(""));
    fs::write(repository.join(".env"), format!("PAY={key}\n")).unwrap();
    git(&repository, &["add", "-f", ".env"]);
    git(&repository, &["commit", "-qm", "env"]);
    env.ok(&repository, &["fork", "a"]);
    refused(&env, &repository, &["PAY", "the file `.env`"]);
    let worktree = env.root().join("acme-sandboxes/a");
    git(&worktree, &["rm", "-q", "--cached", ".env"]);
    refused(&env, &repository, &["PAY", "the file `.env`"]);
    fs::write(worktree.join(".env"), "PAY=harmless\n").unwrap();
    fs::create_dir_all(worktree.join("packages/deep")).unwrap();
    fs::write(worktree.join("packages/deep/.dev.vars"), format!("export PAY='{key}'\n")).unwrap();
    git(&worktree, &["add", "-f", "packages"]);
    if up(&env, &repository) {
        assert_eq!(exec(&env, &repository, "cat .env packages/deep/.dev.vars"), "PAY=harmless\n");
    }
    // Even without a service in the config.
    let env = surroundings();
    let repository = env.repository("acme", &project(""));
    fs::create_dir_all(repository.join("packages/deep")).unwrap();
    fs::write(repository.join("packages/deep/.dev.vars"), format!("export PAY='{key}'\n")).unwrap();
    git(&repository, &["add", "-f", "packages"]);
    git(&repository, &["commit", "-qm", "vars"]);
    env.ok(&repository, &["fork", "a"]);
    refused(&env, &repository, &["PAY", "the file `packages/deep/.dev.vars`"]);
}

#[test]
fn an_exception_is_the_users_and_shows_in_status() {
    let service =
        format!("[service.x]\nrun = \"sleep 100\"\nenv = {{ PAY = \"{}\" }}\n", live_key());
    let exception = "[live-keys.allow-live]\nPAY = \"reads only\"\n";
    let env = surroundings();
    let repository = env.repository("acme", &project(&service));
    env.ok(&repository, &["fork", "a"]);
    // The agent's own copy of the config cannot allow it.
    let own = env.root().join("acme-sandboxes/a/hothouse.toml");
    fs::write(own, project(&format!("{service}{exception}"))).unwrap();
    refused(&env, &repository, &["PAY"]);

    let env = surroundings();
    let repository = env.repository("acme", &project(&format!("{service}{exception}")));
    env.ok(&repository, &["fork", "a"]);
    if up(&env, &repository) {
        let status = env.ok(&repository, &["status", "-w", "a", "--json"]);
        assert!(status.contains("live-key") && status.contains("reads only"), "{status}");
    }
}

#[test]
fn a_room_has_a_placeholder_and_the_value_is_nowhere_but_where_it_was_put() {
    let env = surroundings();
    let services = "[service.x]\nrun = \"env; sleep 100\"\n";
    let repository = env.repository("acme", &project(&format!("{DECLARED}{services}")));
    let set = with_input(
        &env,
        &repository,
        &["secret", "set", "TOKEN", "--from", "file"],
        &format!("{VALUE}\n"),
    );
    assert_eq!(set.code, 0, "{set}");
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert_eq!(
        (&listed[0]["source"], &listed[0]["missing"]),
        (&"file".into(), &serde_json::Value::Null)
    );
    env.ok(&repository, &["fork", "a"]);
    if up(&env, &repository) {
        let placeholder = exec(&env, &repository, "printf %s \"$TOKEN\"");
        assert_eq!(placeholder.len(), VALUE.len());
        assert!(placeholder.starts_with("ghp_") && placeholder != VALUE, "{placeholder}");
        // No process of the room has it, nor anything that the room's root can see.
        let all = exec(&env, &repository, "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; true");
        assert!(all.contains(&placeholder) && !all.contains(VALUE));
        env.ok(&repository, &["snapshot", "now", "-w", "a"]);
        // Another sandbox has another placeholder.
        env.ok(&repository, &["fork", "b"]);
        env.ok(&repository, &["up", "-w", "b"]);
        let other =
            env.ok(&repository, &["exec", "-w", "b", "--", "sh", "-c", "printf %s \"$TOKEN\""]);
        assert_ne!(other, placeholder);
        // After a crash of the daemon it is the same one.
        env.kill_daemon();
        assert_eq!(exec(&env, &repository, "printf %s \"$TOKEN\""), placeholder);
    }
    let mut found = Vec::new();
    holding(env.root(), VALUE, &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(env.state().join("secrets")), "{found:?}");
    let mode = fs::metadata(&found[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    env.ok(&repository, &["secret", "rm", "TOKEN"]);
    let mut found = Vec::new();
    holding(env.root(), VALUE, &mut found);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(env.run(&repository, &["secret", "rm", "TOKEN"]).code, 4);
}

#[test]
fn a_secret_that_cannot_be_set_leaves_nothing() {
    let env = surroundings();
    let repository = env.repository("acme", &project(DECLARED));
    let set = |words: &[&str], input: &str| {
        let words = [&["secret", "set"], words].concat();
        with_input(&env, &repository, &words, input)
    };
    for (words, input, code) in [
        (&["TOKEN", "--from", "file"][..], "", 2),
        (&["TOKEN", "--from", "file"], "short\n", 2),
        (&["TOKEN", "--from", "file"], "with\0nul in it", 2),
        (&["token", "--from", "file"], VALUE, 2),
        (&["TOKEN", "--from", "nowhere"], VALUE, 2),
        (&["TOKEN", "--from", "file", "--host", "https://x"], VALUE, 2),
        (&["TOKEN", "--from", "file", "--everywhere"], VALUE, 2),
    ] {
        let ran = set(words, input);
        assert_eq!(ran.code, code, "{ran}");
        assert!(!ran.stderr.contains(VALUE), "{ran}");
    }
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert!(listed[0]["missing"].as_str().unwrap().contains("has no value"), "{listed}");
    let outside =
        with_input(&env, env.root(), &["secret", "set", "TOKEN", "--from", "file"], VALUE);
    assert_eq!(outside.code, 4, "{outside}");

    // A file that others can read is not used, and reported.
    assert_eq!(set(&["TOKEN", "--from", "file"], VALUE).code, 0);
    let mut found = Vec::new();
    holding(&env.state(), VALUE, &mut found);
    fs::set_permissions(&found[0], fs::Permissions::from_mode(0o644)).unwrap();
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert!(listed[0]["missing"].as_str().unwrap().contains("read by others"), "{listed}");
}

#[test]
fn values_come_from_variables_and_commands_without_being_kept() {
    let mut env = surroundings();
    env.set("MY_TOKEN", VALUE);
    let config =
        format!("{DECLARED}from = \"env:MY_TOKEN\"\n[secret.OTHER]\nhosts = [\"o.example\"]\n");
    let repository = env.repository("acme", &project(&config));
    let ran = env.run(
        &repository,
        &["secret", "set", "OTHER", "--from", "command:printf %s 0123456789abcdef"],
    );
    assert_eq!(ran.code, 0, "{ran}");
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    for line in listed.as_array().unwrap() {
        assert_eq!(line["missing"], serde_json::Value::Null, "{line}");
    }
    assert!(!listed.to_string().contains("printf"), "{listed}");
    env.ok(&repository, &["fork", "a"]);
    if up(&env, &repository) {
        let made = exec(&env, &repository, "printf %s \"$TOKEN $OTHER\"");
        assert!(!made.contains(VALUE) && !made.contains("0123456789abcdef"), "{made}");
    }
    let mut found = Vec::new();
    holding(&env.state(), VALUE, &mut found);
    assert!(found.is_empty(), "{found:?}");
    // A project cannot name a command: it would run on the host.
    fs::write(
        repository.join("hothouse.toml"),
        project(&format!("{DECLARED}from = \"command:id\"\n")),
    )
    .unwrap();
    assert_eq!(env.run(&repository, &["config", "check"]).code, 3);
}

#[test]
fn a_secret_for_every_project_goes_no_further_than_its_user_said() {
    let env = surroundings();
    let config = "[secret.TOKEN]\nhosts = [\"api.test.example\", \"evil.example\"]\n";
    let repository = env.repository("acme", &project(config));
    let words =
        ["secret", "set", "TOKEN", "--from", "file", "--everywhere", "--host", "*.test.example"];
    let set = with_input(&env, env.root(), &words, VALUE);
    assert_eq!(set.code, 0, "{set}");
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert_eq!(listed[0]["scope"], "everywhere");
    assert_eq!(listed[0]["hosts"], serde_json::json!(["api.test.example"]));
    env.ok(&repository, &["fork", "a"]);
    if up(&env, &repository) {
        let status = env.ok(&repository, &["status", "-w", "a", "--json"]);
        assert!(status.contains("secret-narrowed"), "{status}");
    }
    // A project's own setting takes precedence.
    let own = with_input(
        &env,
        &repository,
        &["secret", "set", "TOKEN", "--from", "file"],
        &VALUE.replace("Real", "Mine"),
    );
    assert_eq!(own.code, 0, "{own}");
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["scope"]), (1, &"project".into()));
    assert_eq!(env.run(&repository, &["secret", "rm", "TOKEN", "--everywhere"]).code, 0);
    assert_eq!(env.run(&repository, &["secret", "rm", "TOKEN", "--everywhere"]).code, 4);
}

#[test]
fn the_keyring_keeps_a_value_where_there_is_one() {
    let env = surroundings();
    let repository = env.repository("acme", &project(DECLARED));
    let set = with_input(&env, &repository, &["secret", "set", "TOKEN"], VALUE);
    if set.code == 6 {
        assert!(set.stderr.contains("--from file"), "{set}");
        return skip("a keyring", "a keyring of the kernel or the desktop");
    }
    assert_eq!(set.code, 0, "{set}");
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert_eq!(
        (&listed[0]["source"], &listed[0]["missing"]),
        (&"keyring".into(), &serde_json::Value::Null)
    );
    let mut found = Vec::new();
    holding(env.root(), VALUE, &mut found);
    assert!(found.is_empty(), "{found:?}");
    env.ok(&repository, &["secret", "rm", "TOKEN"]);
    let listed = env.json(&repository, &["secret", "list", "--json"]);
    assert!(listed[0]["missing"].is_string(), "{listed}");
}

/// Stores a value in the keyring of a desktop session, looks it up, and removes it again.
const SESSION: &str = r#"
printf pw | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null 2>&1 &
keyring=$!
trap 'kill $keyring' EXIT
count=0
until printf x | secret-tool store --label=probe probe probe 2>/dev/null; do
    count=$((count + 1)); [ $count -lt 100 ] || exit 77; sleep 0.1
done
printf %s "$2" | "$1" secret set TOKEN || exit 1
secret-tool search --all service hothouse 2>/dev/null | grep '^secret = '
"$1" secret list --json
"$1" secret rm TOKEN || exit 1
secret-tool search --all service hothouse 2>/dev/null | grep -c '^secret = '
"$1" daemon stop >/dev/null
"#;

#[test]
fn the_keyring_of_a_desktop_keeps_a_value() {
    for program in ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"] {
        let find = format!("command -v {program} >/dev/null");
        let found = std::process::Command::new("sh").args(["-c", &find]).status().unwrap();
        if !found.success() {
            return skip("the keyring of a desktop", program);
        }
    }
    let env = surroundings();
    let repository = env.repository("acme", &project(DECLARED));
    let hothouse = env.command(&repository, &["secret", "list"]);
    let variables = hothouse.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let session = std::process::Command::new("dbus-run-session")
        .args(["--", "sh", "-c", SESSION, "sh"])
        .args([hothouse.get_program(), VALUE.as_ref()])
        .env_clear()
        .envs(variables)
        .current_dir(&repository)
        .output()
        .unwrap();
    let (out, talk) =
        (String::from_utf8_lossy(&session.stdout), String::from_utf8_lossy(&session.stderr));
    if session.status.code() == Some(77) {
        return skip("the keyring of a desktop", "a session in which it can be unlocked");
    }
    assert!(out.starts_with(&format!("secret = {VALUE}\n")), "{out}{talk}");
    assert!(out.contains("\"keyring\"") && out.ends_with("0\n"), "{out}{talk}");
    let mut found = Vec::new();
    holding(env.root(), VALUE, &mut found);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn agents_get_the_keys_of_the_users_env_file_and_services_do_not() {
    let env = surroundings();
    let services = "[service.x]\nrun = \"env >/tmp/own; sleep 100\"\n[env.PLAIN]\nkind = \"public\"\nvalue = \"yes\"\n";
    let repository = env.repository("acme", &project(services));
    let file = env.root().join("config/hothouse/env");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let key = format!("sk-{}-api03-{}", "ant", "a1".repeat(20));
    let write = |text: &str, mode| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    env.ok(&repository, &["fork", "a"]);
    write(&format!("ANTHROPIC_API_KEY={key}\n"), 0o644);
    let open = env.run(&repository, &["up", "-w", "a"]);
    assert!(open.code == 6 && open.stderr.contains("chmod 600"), "{open}");
    write(&format!("ANTHROPIC_API_KEY={key}\nPAY={}\n", live_key()), 0o600);
    refused(&env, &repository, &["PAY", "your env file"]);
    write(&format!("ANTHROPIC_API_KEY={key}\n"), 0o600);
    if up(&env, &repository) {
        assert_eq!(
            exec(&env, &repository, "printf %s \"$ANTHROPIC_API_KEY$PLAIN\""),
            format!("{key}yes")
        );
        let own = exec(&env, &repository, "cat /tmp/own");
        assert!(own.contains("PLAIN=yes") && !own.contains("ANTHROPIC"), "{own}");
    }
}

#[test]
fn the_authority_of_a_project_is_trusted_in_its_rooms_alone() {
    rooms_with(DECLARED, |env, repository| {
        // Node has only that CA, or has it at the end of the whole bundle if the host has CAs of its own.
        let say = "last() { tac \"$1\" | sed '/BEGIN CERTIFICATE/q' | tac; }; \
                   last $NODE_EXTRA_CA_CERTS | grep -v '^#' >/tmp/node; last $SSL_CERT_FILE >/tmp/all; \
                   grep -v '^#' /tmp/all | cmp - /tmp/node && cat /tmp/node /tmp/all";
        let said = exec(env, repository, say);
        assert_eq!(said.matches("BEGIN CERTIFICATE").count(), 2, "{said}");
        assert!(said.ends_with("# Hothouse: end\n"), "{said}");
        // A room that damaged its bundle still starts.
        let spoil = env.run(
            repository,
            &[
                "exec",
                "-w",
                "a",
                "--root",
                "--",
                "sh",
                "-c",
                "rm -rf /etc/ssl && ln -s /tmp /etc/ssl",
            ],
        );
        if spoil.code == 0 {
            env.ok(repository, &["down", "-w", "a"]);
            env.ok(repository, &["up", "-w", "a"]);
        }
    });
    rooms_with("", |env, repository| {
        let said = exec(
            env,
            repository,
            "echo \"$SSL_CERT_FILE$NODE_EXTRA_CA_CERTS\"; grep -c Hothouse: /etc/ssl/certs/ca-certificates.crt; true",
        );
        // They are only set if the host has CAs of its own, and refer only to those.
        let rest =
            said.lines().next().map(|line| line.replace("/etc/ssl/certs/ca-certificates.crt", ""));
        assert_eq!(rest.as_deref(), Some(""), "{said}");
        assert_ne!(said.lines().nth(1), Some("1"), "{said}");
    });
}
