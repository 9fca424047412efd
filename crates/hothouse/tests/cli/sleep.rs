//! Sandboxes that nobody uses fall asleep, and wake up.

use std::fs;

use hothouse_testkit::{TestEnv, git, skip, wait_until};

use crate::{
    surroundings,
    url::{SERVER, curl, has},
};

fn sleepy(sandbox: &str) -> Option<(TestEnv, std::path::PathBuf)> {
    if !has("curl") || !has("python3") {
        skip("sleep", "curl or python3");
        return None;
    }
    let env = surroundings();
    let config = format!(
        "[project]\nname = \"u\"\n[sandbox]\n{sandbox}\n[service.web]\nrun = \"python3 server.py\"\nport = 3000\nready = {{ tcp = true }}\nurl = \"web\"\n"
    );
    let repository = env.repository("u", &config);
    fs::write(repository.join("server.py"), SERVER).unwrap();
    fs::write(repository.join("who"), "a").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    env.ok(&repository, &["fork", "a"]);
    let up = env.run(&repository, &["up", "-w", "a"]);
    if up.code == 6 {
        skip("sleep", "what a room needs");
        return None;
    }
    assert_eq!(up.code, 0, "{up}");
    Some((env, repository))
}

fn status(env: &TestEnv, repository: &std::path::Path) -> serde_json::Value {
    env.json(repository, &["status", "-w", "a", "--json"])
}

/// Waits until the sandbox sleeps in a state.
fn asleep(env: &TestEnv, repository: &std::path::Path, state: &str) -> serde_json::Value {
    let mut last = serde_json::Value::Null;
    wait_until(&format!("it sleeps, {state}"), || {
        last = status(env, repository);
        let told = last["caveats"].as_array().unwrap().iter().any(|c| c["class"] == "asleep");
        told && last["state"] == state
    });
    last
}

#[test]
fn an_idle_sandbox_is_paused_and_the_first_use_wakes_it() {
    let Some((env, repository)) = sleepy("idle = \"2s\"") else { return };
    let before = status(&env, &repository);
    let (url, direct) = (
        before["apps"]["web"]["url"].as_str().unwrap(),
        before["apps"]["web"]["direct"].as_str().unwrap(),
    );
    asleep(&env, &repository, "paused");
    assert!(curl(&[url]).starts_with("i am a"), "a request wakes it");
    assert_eq!(status(&env, &repository)["run"], before["run"], "its run goes on");
    asleep(&env, &repository, "paused");
    assert!(curl(&[direct]).starts_with("i am a"), "so does a direct port");
    asleep(&env, &repository, "paused");
    assert_eq!(env.ok(&repository, &["exec", "-w", "a", "--", "echo", "awake"]), "awake\n");
    // A command is a use for as long as it lasts.
    let long = env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", "sleep 5; echo done"]);
    assert_eq!(long, "done\n");
    // Whoever was paused by its user stays so.
    asleep(&env, &repository, "paused");
    env.ok(&repository, &["resume", "-w", "a"]);
    env.ok(&repository, &["pause", "-w", "a"]);
    let told = curl(&["-i", url]);
    assert!(told.contains("503") && told.contains("`hothouse resume -w u/a`"), "{told}");
    assert_eq!(status(&env, &repository)["state"], "paused");
}

#[test]
fn a_long_sleep_stops_the_room_and_a_request_brings_it_back() {
    let Some((env, repository)) = sleepy("idle = \"2s\"\nidle-stop = \"1s\"") else { return };
    let before = status(&env, &repository);
    let url = before["apps"]["web"]["url"].as_str().unwrap();
    let sleeping = asleep(&env, &repository, "stopped");
    assert_eq!(sleeping["apps"]["web"]["url"], url, "its URL stays");
    assert!(curl(&["-m", "120", url]).starts_with("i am a"), "a program just waits");
    let after = status(&env, &repository);
    assert_eq!(after["run"], before["run"], "its run goes on");
    asleep(&env, &repository, "stopped");
    // Somebody before a browser sees why it takes a moment, and then the app.
    let mut pages = Vec::new();
    wait_until("the page comes", || {
        let page = curl(&["-i", "-H", "Accept: text/html", url]);
        let there = page.contains("i am a");
        pages.push(page);
        there
    });
    for page in &pages[..pages.len() - 1] {
        assert!(page.contains("503") && page.to_lowercase().contains("refresh: 1"), "{page}");
        assert!(page.contains("Sandbox a wakes up"), "{page}");
    }
    asleep(&env, &repository, "stopped");
    env.kill_daemon();
    env.ok(&repository, &["list"]);
    assert!(curl(&["-m", "120", url]).starts_with("i am a"), "also after a restart of the daemon");
    asleep(&env, &repository, "stopped");
    env.ok(&repository, &["down", "-w", "a"]);
    assert_eq!(status(&env, &repository)["caveats"].as_array().unwrap().len(), 0);
    let gone = curl(&["-i", url]);
    assert!(gone.contains("404"), "one that was stopped by its user stays so: {gone}");
}
