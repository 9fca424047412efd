//! `config check` and `config show`.

use std::fs;

use crate::surroundings;

#[test]
fn every_problem_is_reported_with_its_place() {
    let env = surroundings();
    let file = env.root().join("hothouse.toml");
    let text = "[project]\nname = \"acme\"\nnmae = \"x\"\n[service.api]\nrun = \"\"\nprot = 3000\nneeds = [\"nobody\"]\n";
    fs::write(&file, text).unwrap();
    let ran = env.run(env.root(), &["config", "check"]);
    assert_eq!(ran.code, 3, "{ran}");
    for word in [
        "hothouse.toml:3:1: ",
        "nmae",
        "did you mean `name`",
        "prot",
        "did you mean `port`",
        "nobody",
        "run",
    ] {
        assert!(ran.stdout.contains(word), "{word}: {ran}");
    }
    let ran = env.run(env.root(), &["config", "check", "--json"]);
    assert_eq!(ran.code, 3, "{ran}");
    let body: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let keys: Vec<_> =
        body["problems"].as_array().unwrap().iter().map(|problem| problem["key"].clone()).collect();
    assert_eq!(keys.len(), 4, "{body}");
    assert!(keys.contains(&"service.api.prot".into()), "{body}");
}

#[test]
fn a_valid_config_is_said_to_be_valid_also_from_below() {
    let env = surroundings();
    fs::write(env.root().join("hothouse.toml"), "[project]\nname = \"acme\"\n").unwrap();
    let below = env.root().join("a/b");
    fs::create_dir_all(&below).unwrap();
    let ran = env.run(&below, &["config", "check"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("is valid"), "{ran}");
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let mut env = surroundings();
    fs::write(env.root().join("hothouse.toml"), "[project]\nname = \"acme\"\n[room]\npids = 99\n")
        .unwrap();
    fs::create_dir_all(env.root().join("config/hothouse")).unwrap();
    fs::write(env.root().join("config/hothouse/hothouse.toml"), "[room]\ncpus = 3\npids = 77\n")
        .unwrap();
    env.set("HOTHOUSE_EGRESS_MODE", "allowlist");
    let shown = env.json(env.root(), &["config", "show", "--json"]);
    let origin = |key: &str| {
        let value = shown.as_array().unwrap().iter().find(|value| value["key"] == key);
        value.unwrap_or_else(|| panic!("{key}: {shown}"))["origin"].as_str().unwrap().to_owned()
    };
    assert_eq!(origin("project.name"), "hothouse.toml:2");
    assert_eq!(origin("room.pids"), "hothouse.toml:4");
    assert!(
        origin("room.cpus").ends_with("config/hothouse/hothouse.toml:2"),
        "{}",
        origin("room.cpus")
    );
    assert_eq!(origin("egress.mode"), "environment HOTHOUSE_EGRESS_MODE");
    assert_eq!(origin("project.place"), "default");
}
