//! `init`: an unknown repository starts, or the missing parts are reported exactly.

use std::{fs, path::Path};

use hothouse_testkit::{TestEnv, git, skip};

use crate::{outputs, room::each_mode, surroundings};

/// Makes a repository without a config.
fn repository(env: &TestEnv, files: &[(&str, &str)]) -> std::path::PathBuf {
    let repository = env.repository_with("fresh", "", files);
    git(&repository, &["rm", "-q", "--cached", "hothouse.toml"]);
    fs::remove_file(repository.join("hothouse.toml")).unwrap();
    git(&repository, &["commit", "-q", "-m", "without a config"]);
    env.give_to_user(&repository);
    repository
}

fn config(repository: &Path) -> String {
    fs::read_to_string(repository.join("hothouse.toml")).unwrap()
}

const PAGES: [(&str, &str); 2] = [("index.html", "<h1>hello</h1>"), ("about/index.html", "about")];

/// An app that only uses the standard library, so that nothing has to be installed.
const APP: [(&str, &str); 3] = [
    ("Procfile.dev", "web: python3 server.py --port 4501\nticker: python3 -u tick.py\n"),
    (
        "server.py",
        "import http.server, os\nassert os.environ['SECRET_KEY'] and os.environ['MODE'] == 'dev'\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n",
    ),
    ("tick.py", "import time\nwhile True:\n    print('tick')\n    time.sleep(1)\n"),
];

#[test]
fn init_fork_and_up_in_a_row_need_no_commit() {
    each_mode(|env, _| {
        let files = [&APP[..], &[(".env.example", "SECRET_KEY=\nMODE=dev\n")]].concat();
        let repository = repository(env, &files);
        env.ok(&repository, &["init", "--yes"]);
        env.ok(&repository, &["config", "check"]);
        env.ok(&repository, &["fork", "try"]);
        env.ok(&repository, &["up", "try"]);
        let status = env.json(&repository, &["status", "-w", "try", "--json"]);
        assert_eq!(status["state"], "ready", "{status}");
        assert_eq!(status["services"].as_array().unwrap().len(), 2, "{status}");
        let caveats = status["caveats"].as_array().unwrap();
        assert!(caveats.iter().any(|caveat| caveat["class"] == "question"), "{caveats:?}");
    });
}

#[test]
fn a_draft_shows_on_a_terminal_what_is_hidden_in_the_config() {
    let env = surroundings();
    if env.shell(env.root(), "command -v script").stdout.is_empty() {
        return skip("a draft on a terminal", "script");
    }
    let hidden = "# harmless \u{202e}gnp\u{200b}\u{9b}2J\n[project]\nname = \"acme\"\n";
    let repository = env.repository("acme", hidden);
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let line = format!("script -qec '{binary} init --dry-run' /dev/null </dev/null");
    let ran = env.shell(&repository, &line);
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(shown.contains("harmless \\u{202e}gnp\\u{200b}\\u{9b}2J"), "{shown:?}");
    assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{9b}']), "{shown:?}");
    let piped = env.ok(&repository, &["init", "--dry-run"]);
    assert!(piped.contains('\u{202e}'), "a program gets it as it is: {piped:?}");
}

#[test]
fn a_draft_is_tried_and_leaves_nothing_behind() {
    let env = surroundings();
    if !env.can_have_rooms("a draft that is tried") {
        return;
    }
    let repository = repository(&env, &PAGES);
    let tried = outputs::json(&env, &repository, &["init", "--yes", "--try", "--json"]);
    assert_eq!(tried["try"]["ok"], true, "{tried}");
    assert_eq!(env.json(&repository, &["list", "--json"]), serde_json::json!([]));
    let branches = git(&repository, &["branch", "--list", "init-try-*"]);
    assert_eq!(branches.trim(), "");
    fs::write(repository.join("Procfile.dev"), "web: exit 3\n").unwrap();
    fs::remove_file(repository.join("hothouse.toml")).unwrap();
    fs::remove_file(repository.join("hothouse-plan.md")).unwrap();
    let failed = env.run(&repository, &["init", "--yes", "--try"]);
    assert_eq!(failed.code, 1, "{failed}");
    assert!(failed.stderr.contains("web"), "{failed}");
}

#[test]
fn evidence_answers_and_edits() {
    let env = surroundings();
    let package = "{\n  \"scripts\": {\n    \"dev\": \"node server.js\"\n  },\n  \"dependencies\": { \"express\": \"4\", \"stripe\": \"17\" }\n}\n";
    let files = [("package.json", package), ("server.js", "start()\n")];
    let repository = repository(&env, &files);
    let found = outputs::json(&env, &repository, &["init", "--json"]);
    let web =
        found["services"].as_array().unwrap().iter().find(|one| one["name"] == "web").unwrap();
    assert_eq!(web["evidence"][0]["file"], "package.json");
    assert_eq!(web["evidence"][0]["line"], 3, "{web}");
    assert_eq!(found["integrations"][0]["name"], "stripe", "{found}");
    let ids: Vec<_> =
        found["questions"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert!(ids.iter().any(|id| id == "port-web"), "{ids:?}");
    assert!(config(&repository).contains("port-web = "));

    let wrong = env.run(&repository, &["init", "--yes", "--answer", "nothing=1"]);
    assert_eq!(wrong.code, 4, "{wrong}");
    assert!(wrong.stderr.contains("port-web"), "{wrong}");
    assert_eq!(env.run(&repository, &["init", "--answer", "nonsense"]).code, 2);
    env.ok(
        &repository,
        &["init", "--yes", "--answer", "port-web=4100", "--answer", "never-write=the CRM"],
    );
    let text = config(&repository);
    assert!(text.contains("port = 4100") && !text.contains("port-web"), "{text}");
    let plan = fs::read_to_string(repository.join("hothouse-plan.md")).unwrap();
    assert!(plan.contains("- [x] **never-write**") && plan.contains("the CRM"), "{plan}");

    // Edits stay, removed parts stay removed, and the user's notes are kept.
    let edited = text.replace("port = 4100", "port = 4200 # mine");
    let cut = edited.find("[integration.stripe]").unwrap();
    let end = edited[cut..].find("\n\n").map_or(edited.len(), |at| cut + at);
    fs::write(repository.join("hothouse.toml"), format!("{}{}", &edited[..cut], &edited[end..]))
        .unwrap();
    fs::write(repository.join("hothouse-plan.md"), format!("{plan}my own words\n")).unwrap();
    env.ok(&repository, &["init", "--yes"]);
    let text = config(&repository);
    assert!(
        text.contains("port = 4200 # mine") && !text.contains("[integration.stripe]"),
        "{text}"
    );
    let plan = fs::read_to_string(repository.join("hothouse-plan.md")).unwrap();
    assert!(plan.contains("my own words") && plan.contains("the CRM"), "{plan}");

    fs::write(repository.join("hothouse.toml"), "a = = b").unwrap();
    let broken = env.run(&repository, &["init", "--yes"]);
    assert_eq!(broken.code, 3, "{broken}");
    assert_eq!(config(&repository), "a = = b", "what cannot be read is not replaced");
}

#[test]
fn nothing_of_the_repository_runs_and_no_link_is_followed() {
    let env = surroundings();
    let script = "{\"scripts\":{\"dev\":\"node s.js\",\"prepare\":\"touch ran\",\"postinstall\":\"touch ran\"},\"dependencies\":{\"express\":\"4\"}}";
    let files = [
        ("package.json", script),
        ("Makefile", "$(shell touch ran)\ndev:\n\ttouch ran\n"),
        ("setup.py", "open('ran','w')\n"),
    ];
    let repository = repository(&env, &files);
    std::os::unix::fs::symlink("..", repository.join("loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", repository.join(".env.example")).unwrap();
    env.ok(&repository, &["init", "--yes"]);
    assert!(!repository.join("ran").exists());
    assert!(!config(&repository).contains("root:"), "{}", config(&repository));
}

#[test]
fn up_without_a_config_points_to_init() {
    let env = surroundings();
    if !env.can_have_rooms("a draft that is tried") {
        return;
    }
    let repository = repository(&env, &PAGES);
    env.ok(&repository, &["fork", "a"]);
    let up = env.run(&repository, &["up", "a"]);
    assert_eq!(up.code, 0, "{up}");
    assert!(up.stderr.contains("hothouse init"), "{up}");
}

/// Two hundred thousand files exceed the limit; files near the root still count.
#[test]
fn a_huge_repository_is_looked_at_within_bounds() {
    let env = surroundings();
    let repository = repository(&env, &PAGES);
    let many = env.shell(&repository, "for d in $(seq 1 21); do mkdir -p data/$d; (cd data/$d && seq 1 10000 | xargs touch); done");
    if !many.status.success() {
        return skip("a huge repository", "inodes for 210,000 files");
    }
    let begun = std::time::Instant::now();
    let found = env.json(&repository, &["init", "--yes", "--json"]);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert_eq!(found["services"][0]["name"], "web", "{found}");
    assert!(found["caveats"].to_string().contains("200000"), "{}", found["caveats"]);
}
