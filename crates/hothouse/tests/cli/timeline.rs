//! The timeline of a run: found, counted and verified, whatever happens to daemon and sandbox.

use std::{fs, path::Path, process::Stdio};

use hothouse_testkit::{TestEnv, wait_until};
use serde_json::Value;

use crate::egress::{fetch, walled};

const EGRESS: &str = "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n";

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> Value {
    env.json(repository, &[words, &["--json"]].concat())
}

fn run_of(env: &TestEnv, repository: &Path) -> (String, std::path::PathBuf) {
    let run = ask(env, repository, &["status", "-w", "a"])["run"].clone();
    (run["id"].as_str().unwrap().to_owned(), run["artifacts"].as_str().unwrap().into())
}

#[test]
fn what_happened_is_counted_waited_for_and_verified_also_after_delete() {
    walled(EGRESS, |env, repository, _| {
        let mark = ask(env, repository, &["mark", "m1", "-w", "a"]);
        assert_eq!(mark["mark"], "m1");
        assert!(fetch(env, repository, "http://good.example/a").starts_with("200 "));
        assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));

        let since = ask(env, repository, &["since", "m1", "-w", "a"]);
        let counts = since["counts"].as_object().unwrap();
        assert_eq!(counts.len(), 25, "every kind is counted: {counts:?}");
        assert_eq!((&counts["mail"], &counts["error"]), (&Value::from(0), &Value::from(0)));
        assert!(counts["request"].as_u64() >= Some(1), "{since:#}");
        assert!(counts["exec"].as_u64() >= Some(4), "two commands began and ended: {since:#}");
        assert_eq!((&since["seq"], &since["unmatched"]), (&mark["seq"], &Value::from(0)));

        let words = ["wait", "request", "host:good.example path=/a", "--since", "m1", "-w", "a"];
        let found = ask(env, repository, &words);
        assert_eq!((&found["kind"], &found["body"]["status"]), (&"request".into(), &200.into()));
        assert_eq!(found["sandbox"], "a");
        let listed = ask(env, repository, &["requests", "host:good.example method=GET", "-w", "a"]);
        let first = &listed[0];
        assert_eq!((&first["path"], &first["status"]), (&"/a".into(), &200.into()));
        assert_eq!((&first["matched"], &first["id"]), (&Value::Null, &found["id"]));
        let by_id = [found["id"].as_str().unwrap(), "-w", "a"];
        assert_eq!(ask(env, repository, &[&["requests"], &by_id[..]].concat())["id"], found["id"]);
        let denied = ask(
            env,
            repository,
            &["timeline", "host:evil.example allowed=false", "-w", "a", "--kind", "connection"],
        );
        assert!(!denied.as_array().unwrap().is_empty(), "a denial has its record");

        misses(env, repository);
        env.ok(repository, &["egress", "allow", "new.example", "-w", "a"]);
        ask(env, repository, &["wait", "policy", "rule=new.example action=allowed", "-w", "a"]);
        env.ok(repository, &["snapshot", "one", "-w", "a"]);
        ask(env, repository, &["wait", "snapshot", "label=one", "-w", "a"]);

        let (run, artifacts) = run_of(env, repository);
        let verify = ["verify", run.as_str()];
        assert_eq!(ask(env, repository, &verify)["ok"], true);
        env.kill_daemon();
        assert_eq!(ask(env, repository, &verify)["ok"], true, "after a kill");
        ask(env, repository, &["mark", "m2", "-w", "a"]);
        env.ok(repository, &["delete", "a", "--force"]);
        let all = ask(env, repository, &["timeline", "--run", &run]);
        let seqs: Vec<_> =
            all.as_array().unwrap().iter().map(|record| record["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "without a gap");
        assert!(ask(env, repository, &["since", "m1", "--run", &run])["counts"]["mark"] == 1);
        assert_eq!(ask(env, repository, &verify)["ok"], true, "after delete");
        assert_eq!(env.run(repository, &["verify", "run_nothing"]).code, 4);
        tampered(env, repository, &run, &artifacts);
    });
}

/// Checks that a query without matches shows the nearest records, and one that cannot match a
/// suggestion.
fn misses(env: &TestEnv, repository: &Path) {
    let wait = |kind: &str, query: &str| {
        env.run(repository, &["wait", kind, query, "--timeout", "300ms", "-w", "a"])
    };
    let none = wait("mail", "to:nobody");
    assert_eq!(none.code, 1, "{none}");
    let near = wait("request", "host:good.example status=999");
    assert_eq!(near.code, 1, "{near}");
    assert!(
        near.stderr.contains("good.example/a 200") && near.stderr.contains("`status=999`"),
        "{near}"
    );
    let unknown = wait("mail", "subjct:nobody");
    assert_eq!(unknown.code, 2, "{unknown}");
    assert!(unknown.stderr.contains("did you mean `subject`?"), "{unknown}");
}

/// Checks that a changed byte, and a truncated end, are detected.
fn tampered(env: &TestEnv, repository: &Path, run: &str, artifacts: &Path) {
    let file = artifacts.join("timeline.jsonl");
    // The daemon closes the timeline first; then the last anchor is stored.
    let held = artifacts.join(".timeline/lock");
    wait_until("the timeline has ended", || {
        let free = std::process::Command::new("flock").args(["-n"]).arg(&held).arg("true").status();
        free.unwrap().success()
    });
    let whole = fs::read_to_string(&file).unwrap();
    let verdict = |text: &str| {
        fs::write(&file, text).unwrap();
        let ran = env.run(repository, &["verify", run, "--json"]);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        (ran.code, found["ok"].as_bool().unwrap(), found["broken_at"].as_u64())
    };
    let mut lines: Vec<&str> = whole.lines().collect();
    let changed = lines[2].replacen('e', "a", 1);
    let intact = std::mem::replace(&mut lines[2], &changed);
    assert_eq!(verdict(&(lines.join("\n") + "\n")), (1, false, Some(3)));
    lines[2] = intact;
    let last = lines.len() as u64;
    lines.pop();
    assert_eq!(verdict(&(lines.join("\n") + "\n")), (1, false, Some(last)), "cut before an anchor");
    assert_eq!(verdict(&whole), (0, true, None));
}

#[test]
fn whoever_waits_is_told_when_it_happens() {
    walled(EGRESS, |env, repository, _| {
        let words = ["wait", "request", "path=/later", "--timeout", "60s", "-w", "a", "--json"];
        let waiting = env.command(repository, &words).stdout(Stdio::piped()).spawn().unwrap();
        assert!(fetch(env, repository, "http://good.example/later").starts_with("200 "));
        let ended = waiting.wait_with_output().unwrap();
        assert!(ended.status.success());
        let record: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(record["body"]["host"], "good.example");
        // A key sent by a room is never stored.
        let key = ["sk", "test", "4eC39HqLyjWDarjtT1zdp7dc"].join("_");
        fetch(env, repository, &format!("http://good.example/x?note={key}"));
        ask(env, repository, &["wait", "request", "path:/x", "-w", "a"]);
        let (_, artifacts) = run_of(env, repository);
        let text = fs::read_to_string(artifacts.join("timeline.jsonl")).unwrap();
        assert!(!text.contains(&key) && text.contains("[redacted]"), "{text}");
    });
}
