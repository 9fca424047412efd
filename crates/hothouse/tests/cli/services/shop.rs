//! The example shop, whole.

use std::process::Command;

use super::*;

/// Creates a repository of the example with its packages; `None` if they were not installed.
pub(crate) fn shop(env: &TestEnv) -> Option<PathBuf> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/acme");
    if !example.join("node_modules").is_dir() {
        skip("the example shop", "`npm ci` in examples/acme");
        return None;
    }
    let config = fs::read_to_string(example.join("hothouse.toml")).unwrap();
    if !can_run(env, &config) {
        return None;
    }
    let repository = env.repository("acme", "");
    let copied = Command::new("cp").arg("-r").arg(example.join(".")).arg(&repository).status();
    assert!(copied.unwrap().success());
    hothouse_testkit::git(&repository, &["add", "-A"]);
    hothouse_testkit::git(&repository, &["commit", "-qm", "shop"]);
    Some(repository)
}

#[test]
fn two_shops_run_side_by_side_on_the_same_ports() {
    let env = surroundings();
    let Some(repository) = shop(&env) else { return };
    env.ok(&repository, &["fork", "a"]);
    up(&env, &repository);
    let psql = |name: &str, sql: &str| {
        let ran = env.run(&repository, &["exec", "-w", name, "db", "--", "psql", "-qtAc", sql]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout.trim().to_owned()
    };
    psql("a", "create table mark (x int); insert into mark values (41)");
    // The second one is a fork of the first while it is running, and has its rows.
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    env.ok(&repository, &["up", "-w", "b", "--timeout", "80s"]);
    psql("b", "insert into mark values (42)");
    assert_eq!(psql("a", "select count(*) from mark"), "1");
    assert_eq!(psql("b", "select count(*) from mark"), "2");
    let ask = "import urllib.request as u; print(u.urlopen('http://web:3000/health').status, u.urlopen('http://127.0.0.1:3002/health').status)";
    for name in ["a", "b"] {
        let status = env.json(&repository, &["status", "-w", name, "--json"]);
        assert_eq!(status["state"], "ready", "{status}");
        let ports: Vec<_> =
            status["services"].as_array().unwrap().iter().map(|s| &s["port"]).collect();
        assert_eq!(
            ports,
            [3001, 3002, 6379, 5432]
                .map(Value::from)
                .iter()
                .chain([&Value::Null, &3000.into(), &3003.into()])
                .collect::<Vec<_>>()
        );
        let ran = env.run(&repository, &["exec", "-w", name, "--", "python3", "-c", ask]);
        assert_eq!(ran.stdout, "200 200\n", "{ran}");
    }
}
