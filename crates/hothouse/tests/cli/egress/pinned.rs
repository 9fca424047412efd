//! An agent can edit its `hothouse.toml`; the wall obeys only the user.

use std::fs;

use hothouse_testkit::wait_until;

use super::{fetch, internet::walled};

#[test]
fn a_config_that_the_agent_edited_waits_for_approval() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            let file = env.root().join("acme-sandboxes/a/hothouse.toml");
            let edited = fs::read_to_string(&file).unwrap().replace("\"good.example\"", "\"*\"");
            fs::write(&file, &edited).unwrap();
            assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));
            env.ok(repository, &["down", "-w", "a"]);
            env.ok(repository, &["up", "-w", "a"]);
            assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));
            let status = env.json(repository, &["status", "-w", "a", "--json"]);
            let pending = |status: &serde_json::Value| {
                let caveats = status["caveats"].as_array().unwrap().clone();
                caveats.iter().any(|caveat| {
                    caveat["class"] == "pending"
                        && caveat["text"].as_str().unwrap().contains("egress allows `*`")
                })
            };
            assert!(pending(&status), "{status:#}");
            // Not a terminal, and without `--yes`.
            let ran = env.run(repository, &["config", "approve", "-w", "a"]);
            assert_eq!(ran.code, 2, "{ran}");
            assert!(ran.stdout.contains("egress.allow"), "{ran}");
            assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));
            env.ok(repository, &["config", "approve", "-w", "a", "--yes"]);
            assert!(fetch(env, repository, "http://evil.example/").starts_with("200 "));
            assert!(!pending(&env.json(repository, &["status", "-w", "a", "--json"])));
            assert!(
                env.run(repository, &["config", "approve", "-w", "a"])
                    .stderr
                    .contains("Nothing to approve")
            );
        },
    );
}

#[test]
fn a_rule_that_is_taken_back_cuts_what_it_had_opened() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            env.ok(repository, &["egress", "allow", "evil.example", "-w", "a"]);
            let code = "import socket, ssl
context = ssl.create_default_context(cafile='ca.pem')
plain = socket.create_connection(('evil.example', 443), timeout=60)
stream = context.wrap_socket(plain, server_hostname='evil.example')
stream.sendall(b'GET /slow HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')
stream.recv(5)
open('waiting', 'w').close()
try:
    while stream.recv(1000): pass
    print('ended')
except OSError as error: print('cut')
";
            let child = env
                .command(repository, &["exec", "-w", "a", "--", "python3", "-c", code])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let waiting = env.root().join("acme-sandboxes/a/waiting");
            wait_until("a connection is open", || waiting.exists());
            let log = || {
                env.json(
                    repository,
                    &["egress", "log", "-w", "a", "--host", "evil.example", "--json"],
                )
            };
            assert!(
                log().as_array().unwrap().iter().any(|record| record["open"] == true),
                "{:#}",
                log()
            );
            env.ok(repository, &["egress", "allow", "--remove", "evil.example", "-w", "a"]);
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(matches!(text.as_str(), "cut\n" | "ended\n"), "{text}");
            wait_until("the ledger says so", || {
                log().as_array().unwrap().iter().all(|record| record["open"] == false)
            });
        },
    );
}
