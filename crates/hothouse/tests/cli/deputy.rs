//! The daemon serves a room only with what the room may read, never with the user's own files.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use hothouse_testkit::TestEnv;

use crate::{room::each_mode, secrets::with_input, surroundings};

/// Requests files of the worktree from the daemon in every way that a room has, and prints the
/// results.
const ASK: &str = include_str!("../attacks/deputy.py");

/// Puts a file of the user's own into a worktree.
fn own(env: &TestEnv, path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    env.give_to_user(path);
}

#[test]
fn a_room_reads_no_file_of_the_users_through_the_daemon() {
    each_mode(|env, is_single| {
        if is_single {
            // The files are only in the room, so none belongs to the user.
            return;
        }
        let files = [("ask.py", ASK), (".gitignore", ".env\n"), ("tracked.md", "before\n")];
        let repository = env.repository_with("acme", "[project]\nname = \"acme\"\n", &files);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "a"]);
        let inside =
            |script: &str| env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", script]);
        inside(
            "mkdir -p sub/below hothouse/fixtures/x; echo mine-4711 >own.md; echo more-4711 >>tracked.md",
        );
        let worktree = env.root().join("acme-sandboxes/a");
        for name in
            [".env", "sub/.env", "sub/notes.md", "notes.md", "sub/closed.json", "sub/config"]
        {
            own(env, &worktree.join(name), "value = users-4712 {{{\n");
        }
        let closed = worktree.join("sub/closed");
        fs::create_dir(&closed).unwrap();
        own(env, &closed.join("open.md"), "users-4712\n");
        fs::set_permissions(closed.join("open.md"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        env.give_to_user(&closed);
        // An agent may rename what is in its own folder, and ignored files are among its files.
        inside(
            ": >.gitignore; mv sub/notes.md sub/renamed.md; mv sub/.env sub/env.md; mv sub/closed.json hothouse/fixtures/x/",
        );
        let seen = inside(
            "hothouse diff; python3 ask.py; hothouse mock 2>&1; hothouse integrations 2>&1 || :",
        );
        assert!(seen.contains("+mine-4711") && seen.contains("+more-4711"), "{seen}");
        assert!(seen.contains("kept: mine-4711"), "the same way serves what is the room's: {seen}");
        assert!(!seen.contains("users-4712"), "{seen}");
        // Also in place of the config, whose errors are shown with their lines.
        let seen = inside(
            "mv sub/config hothouse.toml; hothouse up 2>&1; hothouse config check 2>&1; hothouse status 2>&1; python3 ask.py",
        );
        assert!(!seen.contains("users-4712"), "{seen}");
    });
}

/// An API of one call.
const API: &str = r#"{"openapi":"3.0.0","info":{"title":"x","version":"1"},"servers":[{"url":"https://api.test.example"}],"paths":{"/x":{"get":{"responses":{"200":{"description":"fine"}}}}}}"#;

#[test]
fn no_command_of_the_users_reads_or_writes_through_an_agents_links() {
    each_mode(|env, is_single| {
        if is_single {
            // The files are only in the room.
            return;
        }
        let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "a"]);
        // JSON and TOML at once is not possible, but any text counts as a list of servers in TOML.
        let private = env.root().join("private.json");
        own(env, &private, "{\"token\":\"users-4712\"}\n");
        let before = fs::read(&private).unwrap();
        let outside = env.root().join("outside");
        fs::create_dir(&outside).unwrap();
        env.give_to_user(&outside);
        own(env, &env.root().join("api.json"), API);
        let (file, folder) = (private.display(), outside.display());
        let inside =
            |script: &str| env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", script]);
        inside(&format!(
            "mkdir .codex .claude .gemini hothouse; for link in AGENTS.md .mcp.json hothouse-plan.md \
             .codex/config.toml .claude/settings.json .gemini/settings.json; do ln -s {file} $link; done; \
             for link in .cursor .agents .github hothouse/fixtures; do ln -s {folder} $link; done"
        ));
        let worktree = env.root().join("acme-sandboxes/a");
        for words in [
            "mcp install --for claude",
            "mcp install --for codex",
            "mcp install --for cursor",
            "mcp install --for gemini",
            "skills install --for codex",
            "skills install --for claude --agents-md",
            "guard install --for claude",
            "guard install --for copilot",
            "integration add ../../api.json --write",
            "init --yes",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let ran = env.run(&worktree, &words);
            assert_eq!(ran.code, 6, "{words:?}: {ran}");
            assert!(ran.stderr.contains("through links"), "{words:?}: {ran}");
            assert_eq!(fs::read(&private).unwrap(), before, "{words:?}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing was written elsewhere");
        let found = inside("grep -rs users-4712 . || echo nothing");
        assert_eq!(found, "nothing\n", "the room has it");
        inside("rm .mcp.json; echo '{}' >.mcp.json");
        env.ok(&worktree, &["mcp", "install", "--for", "claude"]);
        let written = fs::metadata(worktree.join(".mcp.json")).unwrap();
        assert!(written.is_file(), "a file of its own is changed as ever");
    });
}

#[test]
fn a_room_guesses_no_secret_by_its_own_records() {
    let env = &surroundings();
    if !env.can_have_rooms("records of guesses") {
        return;
    }
    let value = "vnd_9fQ2zLk3Xw8RtYp1Mc5";
    let config = "[project]\nname = \"acme\"\n[secret.TOKEN]\nhosts = [\"api.test.example\"]\n";
    let repository = env.repository("acme", config);
    let set = with_input(env, &repository, &["secret", "set", "TOKEN", "--from", "file"], value);
    assert_eq!(set.code, 0, "{set}");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    // Prefixes of a value: no answer of the daemon may reveal which of them are correct.
    let guesses: Vec<String> = (1..value.len()).map(|end| format!("={}", &value[..end])).collect();
    let whole = format!("whole={value}");
    let note = ["exec", "-w", "a", "--", "hothouse", "exec", "--", "true", &whole];
    let words: Vec<&str> = guesses.iter().map(String::as_str).collect();
    env.ok(&repository, &[&note, words.as_slice()].concat());
    let read = ["exec", "-w", "a", "--", "hothouse", "timeline", "--kind", "exec", "--json"];
    let records = env.json(&repository, &read);
    let inside = |record: &&serde_json::Value| record["body"]["inside"] == true;
    let record = records.as_array().unwrap().iter().find(inside).expect("a record of the room");
    let argv = record["body"]["argv"].as_array().unwrap();
    assert_eq!(argv[1], "whole=[secret TOKEN]", "a whole value is still taken out");
    let kept: Vec<_> = argv[2..].iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(kept, words);
}
