//! Sidekiq, Resque, Laravel and Graphile Worker with their own clients, and jobs that are found by polling.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use hothouse_testkit::{TestEnv, skip, wait_until};

use super::{find, installed, jobs, sandbox, work};
use crate::{services::is_installed, surroundings};

const SIDEKIQ: &str = include_str!("sidekiq.rb");
const RESQUE: &str = include_str!("resque.rb");
const LARAVEL: &str = include_str!("laravel.php");
const GRAPHILE: &str = include_str!("graphile.mjs");

fn run(env: &TestEnv, repository: &Path, words: &[&str]) {
    env.ok(repository, &[&["exec", "-w", "a", "--"], words].concat());
}

/// Returns the URL of the sandbox's PostgreSQL.
fn database(env: &TestEnv, repository: &Path) -> String {
    let status = env.json(repository, &["status", "-w", "a", "--json"]);
    let services = status["services"].as_array().unwrap();
    let found = services.iter().find(|one| one["name"] == "db").unwrap();
    found["url"].as_str().unwrap().to_owned()
}

/// Retries the dead job of a queue, and waits until it has died again.
fn retry(env: &TestEnv, repository: &Path, queue: &str, work_again: impl Fn()) {
    let dead = find(&jobs(env, repository), queue, "dead").unwrap();
    let id = dead["id"].as_str().unwrap();
    let again = env.json(repository, &["queue", "retry", id, "-w", "a", "--json"]);
    assert_eq!(again["state"], "waiting", "{queue}");
    work_again();
    wait_until("the job was tried again", || find(&jobs(env, repository), queue, "dead").is_some());
}

#[test]
fn jobs_of_sidekiq_are_found_listed_drained_and_tried_again() {
    if !is_installed("sidekiq") {
        return skip("queues of Sidekiq", "ruby-sidekiq");
    }
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    fs::write(worktree.join("jobs.rb"), SIDEKIQ).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    run(&env, &repository, &["ruby", "jobs.rb", "add"]);
    // The queue was not listed: waiting is enough.
    let waiting = ["wait", "job", "queue=mail name=Receipt state=delayed", "-w", "a", "--json"];
    env.json(&repository, &waiting);
    work(&env, &repository, "sidekiq -r ./jobs.rb -q mail -c 1");
    let dead = ["wait", "job", "queue=mail state=dead", "-w", "a", "--timeout", "60s", "--json"];
    assert_eq!(env.json(&repository, &dead)["body"]["error"], "planted-sidekiq");
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    assert!(find(&jobs(&env, &repository), "mail", "delayed").is_none());
    retry(&env, &repository, "mail", || {});
}

#[test]
fn jobs_of_resque_are_found_listed_drained_and_tried_again() {
    if !installed(Path::new("/"), "ruby", &["-e", "require 'resque'"]) {
        return skip("queues of Resque", "the gem resque");
    }
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    fs::write(worktree.join("jobs.rb"), RESQUE).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    run(&env, &repository, &["ruby", "jobs.rb", "add", "fine", "boom"]);
    let listed = jobs(&env, &repository);
    assert_eq!(listed.iter().filter(|job| job["state"] == "waiting").count(), 2, "{listed:#?}");
    assert_eq!(find(&listed, "mail", "waiting").unwrap()["name"], "Receipt");
    work(&env, &repository, "ruby jobs.rb work");
    let dead = ["wait", "job", "queue=mail state=dead", "-w", "a", "--timeout", "60s", "--json"];
    assert_eq!(env.json(&repository, &dead)["body"]["error"], "planted-resque");

    // What a worker has taken is not finished yet.
    run(&env, &repository, &["ruby", "jobs.rb", "add", "slow"]);
    wait_until("the worker has the job", || {
        find(&jobs(&env, &repository), "mail", "active").is_some()
    });
    let begun = Instant::now();
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    assert!(begun.elapsed() > Duration::from_secs(1), "drain waits for what runs");
    assert!(find(&jobs(&env, &repository), "mail", "active").is_none());

    retry(&env, &repository, "mail", || {});
    // Resque itself can read what was marked.
    let marked = env.ok(&repository, &["exec", "-w", "a", "--", "ruby", "jobs.rb", "failed"]);
    assert!(marked.starts_with("20") && marked.contains(" UTC"), "{marked}");
}

#[test]
fn jobs_of_laravel_are_listed_drained_and_tried_again() {
    if !Path::new("/usr/share/php/Illuminate/Queue").exists() || !is_installed("php") {
        return skip("queues of Laravel", "php-cli and php-illuminate-queue");
    }
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    fs::write(worktree.join("laravel.php"), LARAVEL).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let url = database(&env, &repository);
    run(&env, &repository, &["php", "laravel.php", "add", &url]);
    let listed = jobs(&env, &repository);
    for queue in ["bills", "letters"] {
        for state in ["waiting", "delayed"] {
            assert!(find(&listed, queue, state).is_some(), "{queue} {state}: {listed:#?}");
        }
    }
    let work_all = || run(&env, &repository, &["php", "laravel.php", "work", &url]);
    work_all();
    let listed = jobs(&env, &repository);
    for queue in ["bills", "letters"] {
        let dead = find(&listed, queue, "dead").unwrap_or_else(|| panic!("{queue}: {listed:#?}"));
        let error = dead["error"].as_str().unwrap();
        assert!(error.contains("planted-laravel"), "{dead:#}");
    }
    // Delayed ones become due, and the next worker has them.
    let late = env.run(&repository, &["queue", "drain", "--timeout", "1s", "-w", "a"]);
    assert_eq!(late.code, 1, "nobody works: {}", late.stderr);
    work_all();
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    retry(&env, &repository, "bills", work_all);
    // A job of Redis is not put into the table.
    let dead = find(&jobs(&env, &repository), "letters", "dead").unwrap();
    let id = dead["id"].as_str().unwrap();
    let refused = env.run(&repository, &["queue", "retry", id, "-w", "a"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(find(&jobs(&env, &repository), "letters", "dead").is_some());
}

#[test]
fn jobs_of_graphile_worker_are_found_listed_drained_and_tried_again() {
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let words = ["install", "--no-audit", "--no-fund", "graphile-worker"];
    if !installed(&worktree, "npm", &words) {
        return skip("queues of JavaScript", "npm and a registry");
    }
    fs::write(worktree.join("graphile.mjs"), GRAPHILE).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let url = database(&env, &repository);
    run(&env, &repository, &["node", "graphile.mjs", "add", &url]);
    let listed = jobs(&env, &repository);
    for state in ["waiting", "delayed"] {
        assert!(find(&listed, "default", state).is_some(), "{state}: {listed:#?}");
    }
    work(&env, &repository, &format!("node graphile.mjs work {url}"));
    let dead = ["wait", "job", "name=receipt state=dead", "-w", "a", "--timeout", "60s", "--json"];
    assert_eq!(env.json(&repository, &dead)["body"]["error"], "planted-graphile");
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    retry(&env, &repository, "default", || {});
}
