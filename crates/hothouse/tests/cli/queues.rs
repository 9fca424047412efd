//! Queues of real libraries in a room: waiting, dead and retried jobs; schedules run manually.

#[path = "queues/others.rs"]
mod others;
#[path = "queues/sqs.rs"]
mod sqs;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, git, skip, wait_until};
use serde_json::Value;

use crate::{services::is_installed, surroundings};

const CONFIG: &str = r#"[project]
name = "jobs"
[service.cache]
recipe = "redis"
[service.db]
recipe = "postgres"
[service.web]
run = "python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
url = "web"
[queue.own]
list = "cat own.json"
retry = "echo $HOTHOUSE_JOB > retried"
[cron.tick]
schedule = "0 3 * * *"
run = "echo ticked"
[cron.bad]
run = "echo planted; exit 4"
"#;

const BULL: &str = r#"import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
const connection = new Redis({ maxRetriesPerRequest: null });
if (process.argv[2] === 'add') {
  const queue = new Queue('mail', { connection });
  await queue.add('fine', {}); await queue.add('later', {}, { delay: 3600000 }); await queue.add('boom', {});
  await queue.close(); process.exit(0);
}
new Worker('mail', async (job) => { if (job.name === 'boom') throw new Error('planted-bull'); }, { connection });
"#;

const BOSS: &str = r#"import * as Module from 'pg-boss';
const PgBoss = Module.default ?? Module.PgBoss;
const boss = new PgBoss(process.argv[3]);
boss.on('error', () => {}); await boss.start(); await boss.createQueue('reports');
if (process.argv[2] === 'add') {
  await boss.send('reports', {}, { retryLimit: 0 }); await boss.send('reports', {}, { startAfter: 3600 });
  await boss.stop(); process.exit(0);
}
let count = 0;
await boss.work('reports', { pollingIntervalSeconds: 0.5 }, async () => { count += 1; if (count === 1) throw new Error('planted-boss'); });
"#;

const TASKS: &str = r#"
import sys
from redis import Redis
def boom(): raise ValueError("planted-rq")
def fine(): return 1
if __name__ == "__main__":
    import tasks
    from rq import Queue
    q = Queue(connection=Redis()); q.enqueue(tasks.boom); q.enqueue(tasks.fine)
"#;

const CELERY: &str = r#"
from celery import Celery
app = Celery("shop", broker="redis://127.0.0.1:6379/0", backend="redis://127.0.0.1:6379/0")
app.conf.result_extended = True
@app.task
def boom(): raise ValueError("planted-celery")
"#;

/// Starts a sandbox, with the queue libraries in its worktree.
fn sandbox(env: &TestEnv) -> Option<(PathBuf, PathBuf)> {
    if !is_installed("postgres") || !is_installed("redis-server") {
        skip("queues", "postgresql and redis-server");
        return None;
    }
    if !env.can_have_rooms("queues") {
        return None;
    }
    let repository = env.repository("jobs", CONFIG);
    fs::write(repository.join(".gitignore"), "node_modules\nlib\n__pycache__\nretried\n").unwrap();
    fs::write(repository.join("own.json"), r#"[{"id": "o1", "name": "x", "state": "dead"}]"#)
        .unwrap();
    fs::write(
        repository.join("vercel.json"),
        r#"{"crons": [{"path": "/own.json", "schedule": "0 5 * * *"}]}"#,
    )
    .unwrap();
    git(&repository, &["add", "-A"]);
    git(
        &repository,
        &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "jobs"],
    );
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("jobs-sandboxes/a");
    Some((repository, worktree))
}

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn jobs(env: &TestEnv, repository: &Path) -> Vec<Value> {
    let listed = env.json(repository, &["queue", "list", "-w", "a", "--json"]);
    listed.as_array().unwrap().clone()
}

fn find(jobs: &[Value], queue: &str, state: &str) -> Option<Value> {
    jobs.iter().find(|job| job["queue"] == queue && job["state"] == state).cloned()
}

/// Starts workers in the background.
fn work(env: &TestEnv, repository: &Path, command: &str) {
    let script = format!("nohup {command} >/dev/null 2>&1 </dev/null &");
    env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", &script]);
}

#[test]
fn jobs_of_javascript_are_listed_drained_and_tried_again() {
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let words = ["install", "--no-audit", "--no-fund", "bullmq", "ioredis", "pg-boss@10"];
    if !installed(&worktree, "npm", &words) {
        return skip("queues of JavaScript", "npm and a registry");
    }
    fs::write(worktree.join("bull.mjs"), BULL).unwrap();
    fs::write(worktree.join("boss.mjs"), BOSS).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let services = status["services"].as_array().unwrap();
    let url = services.iter().find(|one| one["name"] == "db").unwrap()["url"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = |words: &[&str]| env.ok(&repository, &[&["exec", "-w", "a", "--"], words].concat());
    run(&["node", "bull.mjs", "add"]);
    run(&["node", "boss.mjs", "add", &url]);
    let listed = jobs(&env, &repository);
    for (queue, state) in
        [("mail", "waiting"), ("mail", "delayed"), ("reports", "waiting"), ("own", "dead")]
    {
        assert!(find(&listed, queue, state).is_some(), "{queue} {state}: {listed:#?}");
    }
    let late = env.run(&repository, &["queue", "drain", "--timeout", "1s", "-w", "a"]);
    assert_eq!(late.code, 1, "nobody works: {}", late.stderr);
    work(&env, &repository, "node bull.mjs work");
    work(&env, &repository, &format!("node boss.mjs work {url}"));
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    let listed = jobs(&env, &repository);
    let dead = find(&listed, "mail", "dead").unwrap();
    assert_eq!((&dead["name"], &dead["error"]), (&"boom".into(), &"planted-bull".into()));
    let later = listed.iter().find(|job| job["name"] == "later").unwrap();
    assert_eq!(later["state"], "completed", "delayed jobs are done now");
    assert_eq!(find(&listed, "reports", "dead").unwrap()["error"], "planted-boss");
    for queue in ["mail", "reports", "own"] {
        let id = find(&listed, queue, "dead").unwrap()["id"].as_str().unwrap().to_owned();
        let again = env.json(&repository, &["queue", "retry", &id, "-w", "a", "--json"]);
        assert_eq!(again["state"], "waiting", "{queue}");
    }
    assert_eq!(run(&["cat", "retried"]), "o1\n");
    wait_until("the report is done", || {
        let listed = jobs(&env, &repository);
        find(&listed, "reports", "dead").is_none() && find(&listed, "reports", "waiting").is_none()
    });
    let unknown = env.run(&repository, &["queue", "retry", "nothing", "-w", "a"]);
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);
    let found =
        env.json(&repository, &["wait", "job", "name=boom state=dead", "-w", "a", "--json"]);
    assert_eq!(found["body"]["error"], "planted-bull");
    let letters =
        Path::new(status["run"]["artifacts"].as_str().unwrap()).join("dead-letters.jsonl");
    wait_until("dead letters are kept", || {
        fs::read_to_string(&letters).unwrap().contains("planted-bull")
    });
}

#[test]
fn jobs_of_python_are_listed_drained_and_tried_again() {
    let env = surroundings();
    let Some((repository, worktree)) = sandbox(&env) else { return };
    // The room has the system's own Python.
    let words =
        ["-m", "pip", "install", "-q", "--target", "lib", "rq", "celery", "redis", "packaging"];
    if !installed(&worktree, "/usr/bin/python3", &words) {
        return skip("queues of Python", "pip and a registry");
    }
    fs::write(worktree.join("tasks.py"), TASKS).unwrap();
    fs::write(worktree.join("shop.py"), CELERY).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let python = "PYTHONPATH=.:lib /usr/bin/python3";
    let run = |command: &str| env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", command]);
    run(&format!("{python} tasks.py"));
    run(&format!("{python} -c 'import shop; shop.boom.delay()'"));
    let listed = jobs(&env, &repository);
    assert!(find(&listed, "default", "waiting").is_some(), "{listed:#?}");
    assert_eq!(find(&listed, "celery", "waiting").unwrap()["name"], "shop.boom");
    run(&format!("{python} -m rq.cli worker --burst"));
    work(&env, &repository, &format!("env {python} -m celery -A shop worker -P solo"));
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    wait_until("Celery tells of its failure", || {
        find(&jobs(&env, &repository), "celery", "dead").is_some()
    });
    let listed = jobs(&env, &repository);
    let failed = find(&listed, "celery", "dead").unwrap();
    assert_eq!(failed["error"], "ValueError: planted-celery");
    let refused =
        env.run(&repository, &["queue", "retry", failed["id"].as_str().unwrap(), "-w", "a"]);
    assert_eq!(refused.code, 1, "Celery keeps no copy: {}", refused.stderr);
    let dead = find(&listed, "default", "dead").unwrap();
    assert_eq!(dead["name"], "tasks.boom()");
    env.ok(&repository, &["queue", "retry", dead["id"].as_str().unwrap(), "-w", "a"]);
    assert!(find(&jobs(&env, &repository), "default", "waiting").is_some());
    run(&format!("{python} -m rq.cli worker --burst"));
    assert!(find(&jobs(&env, &repository), "default", "dead").is_some(), "it was tried again");
}

#[test]
fn schedules_run_by_hand() {
    let env = surroundings();
    let Some((repository, _)) = sandbox(&env) else { return };
    env.ok(&repository, &["up", "-w", "a"]);
    let listed = env.json(&repository, &["cron", "list", "-w", "a", "--json"]);
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bad", "tick", "own-json"]);
    let ran = env.json(&repository, &["cron", "run", "tick", "-w", "a", "--json"]);
    assert_eq!((&ran["ok"], &ran["output"]), (&true.into(), &"ticked\n".into()));
    let called = env.json(&repository, &["cron", "run", "own-json", "-w", "a", "--json"]);
    assert_eq!(called["end"], "http 200", "{called}");
    let bad = env.run(&repository, &["cron", "run", "bad", "-w", "a"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stdout.contains("planted") && bad.stderr.contains("exit 4"), "{bad}");
    let unknown = env.run(&repository, &["cron", "run", "tik", "-w", "a"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.stderr.contains("did you mean `tick`?"), "{unknown}");
    env.json(
        &repository,
        &["wait", "job", "queue=cron name=bad state=failed", "-w", "a", "--json"],
    );
}
