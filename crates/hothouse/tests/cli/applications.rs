//! What real applications need from a sandbox: packages of a monorepo, their own env files, clean
//! commits.

use std::path::Path;

use hothouse_testkit::{TestEnv, wait_until};

use crate::{room::rooms_with, surroundings};

const WEB: &str = "[room]\ndeps = [\"**/node_modules\"]\n[service.web]\n\
    run = \"python3 -m http.server 3000\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";

fn agent(env: &TestEnv, repository: &Path, name: &str, script: &str) -> String {
    env.ok(repository, &["exec", "-w", name, "--", "sh", "-c", script])
}

/// Runs a shell line as the user.
fn user(env: &TestEnv, folder: &Path, line: &str) -> String {
    let who = ["AUTHOR", "COMMITTER"].map(|role| format!("GIT_{role}_NAME=u GIT_{role}_EMAIL=u@x"));
    let output = env.shell(folder, &format!("export {}; {line}", who.join(" ")));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Creates the packages of a monorepo, whose dependencies git ignores.
fn packages(env: &TestEnv, repository: &Path) {
    let make = "mkdir -p apps/x/node_modules/p node_modules/top && echo node_modules >.gitignore && \
                echo '{}' >apps/x/package.json && printf nested >apps/x/node_modules/p/i.js && \
                printf PACKAGED=1 >apps/x/node_modules/p/.env && printf top >node_modules/top/i.js";
    user(env, repository, make);
    user(env, repository, "git add -A && git commit -qm packages");
}

#[test]
fn dependencies_of_a_monorepo_come_along_and_can_be_replaced() {
    rooms_with(WEB, |env, repository| {
        packages(env, repository);
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let see = "cat apps/x/node_modules/p/i.js node_modules/top/i.js apps/x/node_modules/p/.env";
        assert_eq!(agent(env, repository, "b", see), "nestedtopPACKAGED=1");
        assert_eq!(agent(env, repository, "b", "git status --short"), "");
        let replace = "rm -rf apps/x/node_modules && mkdir apps/x/node_modules && ls apps/x";
        assert_eq!(agent(env, repository, "b", replace), "node_modules\npackage.json\n");
    });
}

#[test]
fn a_workspace_of_packages_is_found_and_a_pattern_that_matches_nothing_is_told() {
    let config = "[room]\ndeps = [\"node_modules\", \"libs/*/vendor\", \"third/party\"]\n";
    rooms_with(config, |env, repository| {
        user(env, repository, "echo '{ \"workspaces\": [\"apps/*\"] }' >package.json");
        packages(env, repository);
        let forked = env.run(repository, &["fork", "b"]);
        assert_eq!(forked.code, 0, "{forked}");
        for pattern in ["libs/*/vendor", "third/party"] {
            let told = format!("`{pattern}` is left out: the checkout has nothing that matches it");
            assert!(forked.stderr.contains(&told), "{forked}");
        }
        env.ok(repository, &["up", "-w", "b"]);
        let see = "cat apps/x/node_modules/p/i.js node_modules/top/i.js";
        assert_eq!(agent(env, repository, "b", see), "nestedtop");
    });
}

#[test]
fn nothing_of_ours_is_committed_from_a_room() {
    rooms_with(WEB, |env, repository| {
        let worktree = env.root().join("acme-sandboxes/a");
        let is_shown = !worktree.join("HOTHOUSE-NOTE.txt").exists();
        env.ok(repository, &["down", "-w", "a"]);
        if is_shown {
            // Secrets of the user that git does not ignore, one with a name that patterns could
            // misread.
            user(env, &worktree, "echo KEY=s3cr3t >.env && echo KEY=s3cr3t >'.env.a b[1]'");
        }
        env.ok(repository, &["up", "-w", "a"]);
        // Written by the daemon once the app is up.
        let ports = worktree.join(".superset/ports.json");
        wait_until("the ports are written", || !is_shown || ports.exists());
        let commit = "echo x >x && git add -A && git -c user.name=x -c user.email=x@y commit -qm x \
                      && git show --name-only --format=";
        assert_eq!(agent(env, repository, "a", commit), "x\n");
        assert_eq!(agent(env, repository, "a", "git status --short"), "");
    });
}

#[test]
fn a_branch_that_is_merely_behind_is_moved_up() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_hothouse"));
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["delete", "a"]);
    let tip = user(&env, &repository, "git commit -q --allow-empty -m more && git rev-parse main");
    env.ok(&repository, &["fork", "a"]);
    assert_eq!(user(&env, &repository, "git rev-parse a"), tip);
    // A branch with its own commit can still be requested by name.
    env.ok(&repository, &["delete", "a", "--force"]);
    let own = "own=$(git commit-tree -p main -m own main^{tree}) && git update-ref refs/heads/a $own && \
               git commit -q --allow-empty -m most && echo $own";
    let own = user(&env, &repository, own);
    let refused = env.run(&repository, &["fork", "a"]);
    assert_eq!(refused.code, 5, "{refused}");
    assert_eq!(user(&env, &repository, "git rev-parse a"), own);
}

#[test]
fn empty_folders_of_submodules_are_reported() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_hothouse"));
    let repository = env.repository("acme", "");
    let told = |name: &str| env.run(&repository, &["fork", name]).stderr.contains("submodules");
    assert!(!told("a"));
    let add = "git -c protocol.file.allow=always submodule --quiet add \"$PWD\" parts && git commit -qm parts";
    user(&env, &repository, add);
    assert!(told("b"));
}

/// An app that answers to a single host name, like Django.
const PICKY: &str = "import http.server, os\n\
    class H(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_GET(self):\n\
    \x20       ok = self.headers['Host'].split(':')[0] == os.environ['ALLOWED']\n\
    \x20       self.send_response(200 if ok else 400); self.end_headers(); self.wfile.write(b'which host?')\n\
    http.server.HTTPServer(('127.0.0.1', 3000), H).serve_forever()\n";

/// Forks `a` of a repository with this single service `web`, as root or as the current user.
fn one_service(service: &str) -> Option<(TestEnv, std::path::PathBuf)> {
    let env = surroundings();
    if !env.can_have_rooms("services") {
        return None;
    }
    let config = format!("[project]\nname = \"acme\"\n[service.web]\n{service}");
    let repository = env.repository_with("acme", &config, &[("picky.py", PICKY)]);
    env.ok(&repository, &["fork", "a"]);
    Some((env, repository))
}

#[test]
fn a_probe_asks_under_the_name_of_the_apps_url() {
    let service = "run = \"python3 picky.py\"\nport = 3000\nurl = \"web\"\nready = { http = \"/\" }\n\
                   env = { ALLOWED = \"{web.hostname}\" }\n";
    let Some((env, repository)) = one_service(service) else { return };
    env.ok(&repository, &["up", "-w", "a"]);
    let named = service.replace("http = \"/\"", "http = \"/\", host = \"shop.example:80\"");
    let named = named.replace("{web.hostname}", "shop.example");
    let config = format!("[project]\nname = \"acme\"\n[service.web]\n{named}");
    std::fs::write(env.root().join("acme-sandboxes/a/hothouse.toml"), config).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
}

#[test]
fn a_service_that_refuses_its_probes_is_told_with_its_answer() {
    let service = "run = \"python3 picky.py\"\nport = 3000\nready = { http = \"/\" }\n\
                   env = { ALLOWED = \"elsewhere.example\" }\n";
    let Some((env, repository)) = one_service(service) else { return };
    let refused = env.run(&repository, &["up", "-w", "a"]);
    assert_ne!(refused.code, 0, "{refused}");
    for part in ["`web` refused each probe for 10s", "http 400: which host?", "host = \"NAME\""] {
        assert!(refused.stderr.contains(part), "{refused}");
    }
}

#[test]
fn a_first_crash_is_reported_immediately_and_a_failed_build_is_not_repeated() {
    let service =
        "run = \"echo no such table; exit 3\"\nrestart = { policy = \"on-failure\", max = 3 }\n";
    let Some((env, repository)) = one_service(service) else { return };
    std::fs::write(env.root().join("acme-sandboxes/a/package.json"), "{}").unwrap();
    let failed = env.run(&repository, &["up", "-w", "a"]);
    assert_ne!(failed.code, 0, "{failed}");
    let install = "`hothouse exec -w a -- npm install` installs it";
    assert!(failed.stderr.contains(install), "{failed}");
    let told = failed.stderr.find("`web` exited (exit 3) and is being restarted:\nno such table");
    let error = failed.stderr.find("error: service `web` did not start");
    assert!(told.is_some() && told < error, "{failed}");
    env.ok(&repository, &["down", "-w", "a"]);
    let config = "[project]\nname = \"acme\"\n[service.web]\nrun = \"sleep 1000\"\n\
                  build = \"echo built >>builds; exit 4\"\n";
    std::fs::write(env.root().join("acme-sandboxes/a/hothouse.toml"), config).unwrap();
    let failed = env.run(&repository, &["up", "-w", "a"]);
    assert!(failed.code != 0 && failed.stderr.contains("`web` exited: exit 4"), "{failed}");
    assert_eq!(agent(&env, &repository, "a", "cat builds"), "built\n");
}

#[test]
fn a_service_that_ends_well_leaves_the_sandbox_degraded_and_a_task_does_not() {
    let service = "run = \"while [ ! -e end ]; do sleep 0.05; done\"\n[service.once]\nrun = \"true\"\ntask = true\n";
    let Some((env, repository)) = one_service(service) else { return };
    env.ok(&repository, &["up", "-w", "a"]);
    let state = || env.json(&repository, &["status", "-w", "a", "--json"])["state"].clone();
    assert_eq!(state(), "ready");
    agent(&env, &repository, "a", "touch end");
    wait_until("it is degraded", || state() == "degraded");
}

#[test]
fn output_of_python_is_seen_immediately() {
    let Some((env, repository)) = one_service("run = \"sleep 1000\"\n") else { return };
    env.ok(&repository, &["up", "-w", "a"]);
    assert_eq!(agent(&env, &repository, "a", "echo $PYTHONUNBUFFERED"), "1\n");
}

#[test]
fn what_setup_makes_names_a_path_that_forks_have_too() {
    let env = surroundings();
    if !env.can_have_rooms("setup") {
        return;
    }
    let config = "[project]\nname = \"acme\"\nsetup = \"pwd >where\"\n";
    let repository = env.repository("acme", config);
    env.ok(&repository, &["fork", "a", "--setup"]);
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    env.ok(&repository, &["delete", "a", "--force"]);
    env.ok(&repository, &["up", "-w", "b"]);
    // Like the first line of a script in a virtual environment.
    let there = agent(&env, &repository, "b", "cat \"$(cat where)/where\"");
    assert_eq!(there.trim_end(), repository.to_str().unwrap());
}
