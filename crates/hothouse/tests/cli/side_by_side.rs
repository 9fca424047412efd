//! Several agents: terminals whose viewers come and go, tmux panes, and races that outlive their
//! daemon.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hothouse_testkit::{TestEnv, git, skip, wait_until};
use serde_json::{Value, json};

use crate::surroundings;

const CONFIG: &str = "[project]\nname = \"shop\"\n";

fn ready(what: &str, config: &str, files: &[(&str, &str)]) -> Option<(TestEnv, PathBuf)> {
    let mut env = surroundings();
    if !env.can_have_rooms(what) {
        return None;
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        skip(what, "tmux");
        return None;
    }
    // A separate server, with its own sockets.
    let sockets = env.root().join("tmux");
    fs::create_dir_all(&sockets).unwrap();
    env.set("TMUX_TMPDIR", sockets.to_str().unwrap());
    env.set("TERM", "xterm-256color");
    let repository = env.repository_with("shop", config, files);
    git(&repository, &["config", "user.name", "test"]);
    git(&repository, &["config", "user.email", "test@example.com"]);
    Some((env, repository))
}

/// The tmux server of a test, which ends with it.
struct Tmux<'e> {
    env: &'e TestEnv,
    folder: &'e Path,
}

impl Tmux<'_> {
    fn run(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(words).current_dir(self.folder).env_clear().envs(self.env.environment());
        let output = tmux.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Opens a session of 100 columns with a command.
    fn open(&self, name: &str, command: &str) {
        self.run(&["new-session", "-d", "-s", name, "-x", "100", "-y", "30", command]);
        self.run(&["set-option", "-g", "remain-on-exit", "on"]);
    }

    fn shows(&self, pane: &str) -> String {
        self.run(&["capture-pane", "-p", "-t", pane])
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

fn line(env: &TestEnv, folder: &Path, words: &[&str]) -> String {
    let command = env.command(folder, words);
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
}

#[test]
fn viewers_come_and_go_and_the_agent_keeps_running() {
    let Some((env, repository)) = ready("viewers of an agent", CONFIG, &[]) else { return };
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let script = "echo begun; while read line; do echo \"heard $line\"; test \"$line\" = finish && exit 0; done";
    env.ok(&repository, &["agent", "start", "a", "--tool", script]);
    let tmux = Tmux { env: &env, folder: &repository };
    let attach = line(&env, &repository, &["agent", "attach", "a"]);
    tmux.open("one", &attach);
    wait_until("the first viewer sees it", || tmux.shows("one").contains("begun"));
    // A second viewer sees earlier output, and both see what is typed into either.
    tmux.open("two", &attach);
    wait_until("the second viewer sees what was", || tmux.shows("two").contains("begun"));
    tmux.run(&["send-keys", "-t", "two", "hello", "Enter"]);
    for viewer in ["one", "two"] {
        wait_until("both viewers see it", || tmux.shows(viewer).contains("heard hello"));
    }
    // One detaches with the keys: its command ends, the agent does not.
    tmux.run(&["send-keys", "-t", "one", "C-]", "d"]);
    wait_until("the first viewer has left", || {
        tmux.shows("one").contains("Detached; the command is still running.")
    });
    tmux.run(&["send-keys", "-t", "two", "again", "Enter"]);
    wait_until("the second still sees it", || tmux.shows("two").contains("heard again"));
    assert!(!tmux.shows("one").contains("heard again"), "{}", tmux.shows("one"));
    // The other terminal is closed; the agent continues.
    tmux.run(&["kill-session", "-t", "two"]);
    let state = || {
        let agents = env.json(&repository, &["agent", "list", "--json"]);
        agents[0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "running");
    tmux.open("three", &attach);
    wait_until("a third viewer sees all of it", || tmux.shows("three").contains("heard again"));
    tmux.run(&["send-keys", "-t", "three", "finish", "Enter"]);
    wait_until("the agent has ended", || state() == "exited");
}

#[test]
fn a_shell_is_left_and_found_again() {
    let Some((env, repository)) = ready("a shell that is left", CONFIG, &[]) else { return };
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let tmux = Tmux { env: &env, folder: &repository };
    tmux.open("shell", &line(&env, &repository, &["shell", "a"]));
    tmux.run(&["send-keys", "-t", "shell", "echo $((40+2))-is-it", "Enter"]);
    wait_until("the shell answers", || tmux.shows("shell").contains("42-is-it"));
    tmux.run(&["send-keys", "-t", "shell", "C-]", "d"]);
    wait_until("it was left", || tmux.shows("shell").contains("Detached"));
    let told = tmux.run(&["capture-pane", "-p", "-J", "-t", "shell"]);
    let (_, rest) = told.split_once("--attach ").unwrap_or_else(|| panic!("{told}"));
    let id: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    tmux.open("again", &line(&env, &repository, &["exec", "-w", "a", "--attach", &id]));
    wait_until("what it showed is there", || tmux.shows("again").contains("42-is-it"));
    tmux.run(&["send-keys", "-t", "again", "echo $((50+7))-too", "Enter"]);
    wait_until("it still answers", || tmux.shows("again").contains("57-too"));
}

#[test]
fn keys_of_top_lead_to_a_command_and_back() {
    let config = "[project]\nname = \"shop\"\n[service.one]\nrun = \"while :; do echo tick; sleep 1; done\"\n";
    let Some((env, repository)) = ready("keys of top", config, &[]) else { return };
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    env.ok(&repository, &["agent", "start", "a", "--tool", "echo begun; sleep 1000"]);
    let tmux = Tmux { env: &env, folder: &repository };
    let top = line(&env, &repository, &["top"]);
    // As an interactive shell would start it: Ctrl-C goes to every process of the foreground.
    tmux.run(&[
        "new-session",
        "-d",
        "-s",
        "top",
        "-x",
        "80",
        "-y",
        "24",
        &format!("trap : INT; {top}; echo left; sleep 1000"),
    ]);
    let is_list = || {
        let shown = tmux.shows("top");
        shown.contains("Sandbox") && shown.contains("q quit") && shown.contains("shop/a")
    };
    wait_until("the list is there", is_list);
    let shown = tmux.shows("top");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("1/1        running"), "{shown}");
    // The logs, and back.
    tmux.run(&["send-keys", "-t", "top", "l"]);
    wait_until("the log is there", || tmux.shows("top").contains("tick"));
    tmux.run(&["send-keys", "-t", "top", "C-c"]);
    wait_until("the list is back", is_list);
    // The agent, and back.
    tmux.run(&["send-keys", "-t", "top", "a"]);
    wait_until("the agent is there", || tmux.shows("top").contains("begun"));
    tmux.run(&["send-keys", "-t", "top", "C-]", "d"]);
    wait_until("the list is back", is_list);
    // Pause, and resume.
    tmux.run(&["send-keys", "-t", "top", "p"]);
    wait_until("it is paused", || is_list() && tmux.shows("top").contains(" paused "));
    tmux.run(&["send-keys", "-t", "top", "p"]);
    wait_until("it is back", || is_list() && tmux.shows("top").contains(" ready "));
    // A restart of its only service.
    let pid = || env.json(&repository, &["status", "a", "--json"])["services"][0]["pid"].clone();
    let before = pid();
    tmux.run(&["send-keys", "-t", "top", "r"]);
    wait_until("it runs again", || pid().is_u64() && pid() != before);
    wait_until("the list is back", is_list);
    // What cannot be done is said at once, and what failed is shown until it was read.
    env.ok(&repository, &["down", "a"]);
    wait_until("it is stopped", || tmux.shows("top").contains(" stopped "));
    tmux.run(&["send-keys", "-t", "top", "r"]);
    wait_until("the reason is there", || tmux.shows("top").contains("no services that run"));
    tmux.run(&["send-keys", "-t", "top", "p"]);
    wait_until("the error is there", || tmux.shows("top").contains("Press Enter to go back"));
    assert!(tmux.shows("top").contains("error:"), "{}", tmux.shows("top"));
    tmux.run(&["send-keys", "-t", "top", "Enter"]);
    wait_until("the list is back", || is_list() && tmux.shows("top").contains("exited with"));
    tmux.run(&["send-keys", "-t", "top", "q"]);
    wait_until("it has ended", || tmux.shows("top").contains("left"));
}

#[test]
fn tmux_has_a_pane_for_each_sandbox_with_its_agent() {
    let Some((env, repository)) = ready("panes of tmux", CONFIG, &[]) else { return };
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", "-w", name]);
    }
    let tmux = Tmux { env: &env, folder: &repository };
    let agent = "echo agent of $HOTHOUSE_SANDBOX; sleep 1000";
    let words = ["tmux", "a", "b", "--agent", agent, "--session", "both", "--detached", "--json"];
    let made = env.json(&repository, &words);
    assert_eq!(made["panes"], json!(["shop/a", "shop/b"]), "{made}");
    let panes = tmux.run(&["list-panes", "-t", "both", "-F", "#{pane_id}"]);
    let panes: Vec<&str> = panes.lines().collect();
    assert_eq!(panes.len(), 2, "{panes:?}");
    for (pane, name) in panes.iter().zip(["a", "b"]) {
        let wanted = format!("agent of {name}");
        wait_until("each pane shows its own agent", || tmux.shows(pane).contains(&wanted));
    }
    // The second time, the running agents are used.
    let again = ["tmux", "b", "--agent", agent, "--session", "again", "--detached"];
    assert!(env.ok(&repository, &again).contains("tmux attach -t again"));
    assert_eq!(env.json(&repository, &["agent", "list", "--json"]).as_array().unwrap().len(), 2);
    // Without an agent it is a shell.
    env.ok(&repository, &["tmux", "a", "--session", "plain", "--detached"]);
    tmux.run(&["send-keys", "-t", "plain", "echo in-$HOTHOUSE_SANDBOX-$((1+1))", "Enter"]);
    wait_until("the shell answers", || tmux.shows("plain").contains("in-a-2"));
    let missing = env.run(&repository, &["tmux", "nobody", "--detached"]);
    assert_eq!(missing.code, 4, "{missing}");
}

#[test]
fn a_race_is_judged_by_the_scenarios_of_its_base() {
    let config = "[project]\nname = \"shop\"\n[service.web]\nrun = \"python3 -m http.server 3000\"\nport = 3000\n\
                  ready = { tcp = true }\nurl = \"web\"\n[scenario.blue]\nabout = \"it is blue\"\napp = \"web\"\npath = \"/\"\n\
                  [scenario.blue.expect]\npage = \"blue\"\nconsole = 9\n";
    if !["chromium", "google-chrome"]
        .iter()
        .any(|name| Command::new(name).arg("--version").output().is_ok())
    {
        return skip("a race by scenarios", "chromium");
    }
    let page = "<!doctype html><link rel=icon href=data:,><p>red</p>\n";
    let files = [("index.html", page)];
    let Some((env, repository)) = ready("a race by scenarios", config, &files) else { return };
    let good = "sed -i s/red/blue/ index.html; git commit -qam blue";
    let cheat = "sed -i 's/page = \"blue\"/page = \"red\"/' hothouse.toml; git commit -qam cheat";
    let words =
        ["race", "--idea", "blue", "--with", good, "--with", cheat, "--scenario", "blue", "--json"];
    let race = env.json(&repository, &words);
    let sides = race["sides"].as_array().unwrap();
    let ok: Vec<_> = sides.iter().map(|side| side["checks"][0]["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [true, false], "{race:#}");
    assert!(sides[1]["changed_checks"].to_string().contains("blue"), "{race:#}");
    let names: Vec<&str> = sides.iter().map(|side| side["name"].as_str().unwrap()).collect();
    let compared = env.json(&repository, &["compare", names[0], names[1], "--json"]);
    assert_eq!(compared["sides"], race["sides"], "what was told is told again");
}

#[test]
fn a_race_continues_in_the_next_daemon() {
    let Some((env, repository)) = ready("a race without a daemon", CONFIG, &[("sum", "0\n")])
    else {
        return;
    };
    let wait = "while ! test -e /tmp/go; do sleep 0.1; done";
    let good = format!("{wait}; echo 5 > sum; git commit -qam good");
    let bad = format!("{wait}; echo 4 > sum; git commit -qam bad");
    let words = [
        "race",
        "--idea",
        "sum",
        "--with",
        &good,
        "--with",
        &bad,
        "--check",
        "grep -q 5 sum",
        "--json",
    ];
    let mut race = env.command(&repository, &words);
    let race = race.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = || -> Vec<String> {
        let agents = env.json(&repository, &["agent", "list", "--json"]);
        let running = agents.as_array().unwrap().iter().filter(|agent| agent["state"] == "running");
        running.map(|agent| agent["sandbox"].as_str().unwrap().to_owned()).collect()
    };
    wait_until("both sides run", || running().len() == 2);
    let sides = running();
    env.kill_daemon();
    for side in &sides {
        env.ok(&repository, &["exec", "-w", side, "--", "touch", "/tmp/go"]);
    }
    let output = race.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let names: Vec<&str> = told["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["name"].as_str().unwrap())
        .collect();
    let mut own = sides.clone();
    own.sort();
    assert_eq!(names, own, "the same sides, and no others");
    let ok: Vec<_> = told["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["checks"][0]["ok"].clone())
        .collect();
    assert_eq!(ok, [json!(true), json!(false)], "{told:#}");
    assert_eq!(env.json(&repository, &["list", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_race_without_a_client_is_still_judged() {
    let Some((env, repository)) = ready("a race without a client", CONFIG, &[("sum", "0\n")])
    else {
        return;
    };
    let side = "while ! test -e /tmp/go; do sleep 0.1; done; echo 5 > sum; git commit -qam good";
    let words =
        ["race", "--idea", "sum", "--with", side, "--times", "2", "--check", "grep -q 5 sum"];
    let mut race = env.command(&repository, &words);
    let mut race = race.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = || -> Vec<String> {
        let agents = env.json(&repository, &["agent", "list", "--json"]);
        let running = agents.as_array().unwrap().iter().filter(|agent| agent["state"] == "running");
        running.map(|agent| agent["sandbox"].as_str().unwrap().to_owned()).collect()
    };
    wait_until("both sides run", || running().len() == 2);
    let sides = running();
    race.kill().unwrap();
    race.wait().unwrap();
    env.kill_daemon();
    for side in &sides {
        env.ok(&repository, &["exec", "-w", side, "--", "touch", "/tmp/go"]);
    }
    let compare = ["compare", &sides[0], &sides[1], "--json"];
    wait_until("it is judged", || {
        let told = env.run(&repository, &compare);
        let told: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
        told["race"].is_string() && told["sides"].to_string().matches("\"ok\":true").count() == 2
    });
}

#[test]
fn nothing_of_the_progress_stays_after_ctrl_c() {
    let config = "[project]\nname = \"shop\"\n[service.one]\nrun = \"sleep 1000\"\nport = 3000\nready = { tcp = true }\n\
                  [service.two]\nrun = \"sleep 1000\"\nport = 3001\nready = { tcp = true }\n";
    let Some((env, repository)) = ready("an interrupted start", config, &[]) else { return };
    env.ok(&repository, &["fork", "a"]);
    let tmux = Tmux { env: &env, folder: &repository };
    let up = format!("trap : INT; {}; sleep 1000", line(&env, &repository, &["up", "a"]));
    tmux.open("start", &up);
    wait_until("it waits for both", || {
        let shown = tmux.shows("start");
        shown.contains(" one  starting") && shown.contains(" two  starting")
    });
    tmux.run(&["send-keys", "-t", "start", "C-c"]);
    wait_until("it is told", || tmux.shows("start").contains("Interrupted: `a`"));
    let shown = tmux.shows("start");
    assert!(!shown.contains(" one  ") && !shown.contains(" two  "), "{shown}");
    env.ok(&repository, &["down", "a"]);
}
