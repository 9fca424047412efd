//! Layers, and where a value came from.

use hothouse_config::{File, Layers, Resolved, resolve};
use hothouse_model::config::{ByteSize, Config, EgressMode, Problem, Tree};

fn layered(
    user: &str,
    project: &str,
    environment: &[(&str, &str)],
) -> Result<Resolved, Vec<Problem>> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let environment: Vec<(String, String)> = environment.iter().map(own).collect();
    resolve(&Layers {
        user: Some(File { name: "config.toml", bytes: user.as_bytes() }),
        project: Some(File { name: "hothouse.toml", bytes: project.as_bytes() }),
        environment: &environment,
    })
}

fn config(user: &str, project: &str, environment: &[(&str, &str)]) -> Config {
    layered(user, project, environment).expect("the layers are sound").config
}

fn problems(user: &str, project: &str, environment: &[(&str, &str)]) -> String {
    let problems = layered(user, project, environment).expect_err("a layer is broken");
    problems.iter().map(Problem::render).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_environment_wins_over_the_project_which_wins_over_the_user() {
    let user = "[room]\nmemory = \"1G\"\ncpus = 1\ntree = \"copy\"\n";
    let project = "[room]\nmemory = \"2G\"\ntree = \"btrfs\"\n";
    let room =
        config(user, project, &[("HOTHOUSE_TREE", "overlay"), ("HOTHOUSE_SANDBOX", "ignored")])
            .room;
    assert_eq!(room.memory, "2G".parse::<ByteSize>().unwrap());
    assert!((room.cpus - 1.0).abs() < f64::EPSILON);
    assert_eq!(room.tree, Tree::Overlay);
    assert_eq!(room.pids, 2048);
}

#[test]
fn masks_and_denials_add_up_over_the_layers() {
    let user = "[room]\nmask = [\"~/.private\"]\n[egress]\ndeny = [\"ads.example.com\"]\n";
    let project = "[room]\nmask = [\"keys/**\"]\n[egress]\ndeny = []\nallow = [\"github.com\"]\n";
    let config = config(user, project, &[]);
    let masks: Vec<&str> = config.room.mask.iter().map(|mask| mask.as_str()).collect();
    assert!([".env", "~/.private", "keys/**"].iter().all(|mask| masks.contains(mask)), "{masks:?}");
    assert_eq!(config.egress.deny.len(), 1);
    assert_eq!(config.egress.allow.len(), 1);
}

#[test]
fn each_value_remembers_its_origin() {
    let user = "[room]\ncpus = 1\n";
    let project = "[project]\nname = \"acme\"\n[service.api]\nrun = \"x\"\nneeds = [\"db\"]\n[service.db]\nrecipe = \"redis\"\n";
    let shown = layered(user, project, &[("HOTHOUSE_EGRESS_MODE", "open")]).unwrap().show();
    let origin =
        |key: &str| shown.iter().find(|shown| shown.key == key).map(|shown| shown.origin.as_str());
    for (key, expected) in [
        ("project.name", "hothouse.toml:2"),
        ("room.cpus", "config.toml:2"),
        ("room.memory", "default"),
        ("egress.mode", "environment HOTHOUSE_EGRESS_MODE"),
        ("service.api.run", "hothouse.toml:4"),
        ("service.api.restart.policy", "default"),
        ("profile.e2e.files", "default"),
    ] {
        assert_eq!(origin(key), Some(expected), "{key}");
    }
    assert_eq!(origin("service.api.ready.interval"), None, "a service without a probe shows none");
    let needs = shown.iter().find(|shown| shown.key == "service.api.needs").unwrap();
    assert_eq!(needs.value, serde_json::json!([{ "condition": "ready", "service": "db" }]));
}

#[test]
fn a_user_file_sets_only_what_is_the_users() {
    let user = "[project]\nname = \"mine\"\nplace = \"inside\"\n[service.x]\nrun = \"x\"\n[secret.TOKEN]\nhosts = [\"a.example\"]\nfrom = \"command:pass token\"\n";
    let allowed = "\n  allowed: project.place, room, sandbox, egress, secret, env, live-keys, agent, terminal, notify";
    assert_eq!(
        problems(user, "", &[]),
        format!(
            "config.toml:2:8: `project.name` cannot be set in the user's own file: it describes one project{allowed}\n\
             config.toml:4:2: `service` cannot be set in the user's own file: it describes one project{allowed}"
        )
    );
}

#[test]
fn a_command_for_a_secret_is_the_users_to_name() {
    let secret = "[secret.TOKEN]\nhosts = [\"a.example\"]\nfrom = \"command:pass token\"\n";
    assert!(layered(secret, "", &[]).is_ok());
    assert!(problems("", secret, &[]).contains("it would run on the host"));
}

#[test]
fn a_bad_variable_is_a_problem_like_any_other() {
    assert_eq!(
        problems(
            "",
            "[room]\nmemroy = 1\n",
            &[("HOTHOUSE_EGRESS_MODE", "opne"), ("HOTHOUSE_PIDS", "many")]
        ),
        "environment HOTHOUSE_EGRESS_MODE: `egress.mode` has the unknown value `opne`\n  \
         did you mean `open`?\n  allowed: open, web, allowlist\n\
         environment HOTHOUSE_PIDS: `room.pids` must be a whole number from 16 to 4194304\n\
         hothouse.toml:2:1: unknown key `memroy`\n  did you mean `memory`?\n  \
         allowed: stack, memory, cpus, pids, disk, tools, mounts, mask, unmask, deps, tree, backend"
    );
    assert_eq!(config("", "", &[("HOTHOUSE_EGRESS_MODE", "open")]).egress.mode, EgressMode::Open);
}

#[test]
fn resolvers_are_the_users_to_name() {
    let text = "[egress]\nresolvers = [\"9.9.9.9\", \"127.0.0.1:5353\"]\n";
    let servers = config(text, "", &[]).egress.resolvers;
    let shown: Vec<String> = servers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["9.9.9.9", "127.0.0.1:5353"]);
    let told = problems("", text, &[]);
    assert!(told.contains("hothouse.toml:2:13") && told.contains("user's own file"), "{told}");
    let told = problems("[egress]\nresolvers = [\"dns.example\"]\n", "", &[]);
    assert!(told.contains("`egress.resolvers[0]` must be an address"), "{told}");
}

#[test]
fn problems_of_all_files_are_reported_together() {
    let text = problems("[room]\ntree = \"x\"\n", "[rom]\n", &[]);
    assert!(text.contains("config.toml:2:8") && text.contains("hothouse.toml:1:2"), "{text}");
}
