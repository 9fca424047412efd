//! What makes a terminal comfortable: completions of three shells, manual pages, the schema, states at a glance.

use hothouse_testkit::skip;

use crate::{room::rooms_with, surroundings};

#[test]
fn shells_complete_names_that_the_daemon_knows() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "agent-a"]);
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let folder = std::path::Path::new(binary).parent().unwrap().display().to_string();
    // Each shell sources the script and is asked what it would offer, as its own completion does.
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
        assert_eq!(env.json(repository, &["status", "a", "--json"])["asleep"], false);
    });
}
