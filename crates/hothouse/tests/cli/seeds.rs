//! Seeds with the real binary: order, context, failure reports, and what a seeding leaves behind.

#[path = "seeds/shared.rs"]
mod shared;

use std::{fs, path::Path, process::Stdio};

use hothouse_testkit::{TestEnv, git, skip, wait_until};
use serde_json::Value;

use crate::{services::is_installed, surroundings};

const CONFIG: &str = r#"[project]
name = "shop"

[service.web]
run = "python3 app.py"
port = 3000
ready = { http = "/" }
url = "web"

[seed.bundle.one]
run = "python3 seed.py one"
[seed.bundle.two]
run = "python3 seed.py two"
needs = ["one"]
[seed.bundle.call]
http = { path = "/seeded?x=1", body = '{"size": 3}' }
service = "web"
[seed.bundle.bad]
run = "echo planted-reason; exit 3"
[seed.bundle.after]
run = "true"
needs = ["bad"]
[seed.bundle.no-json]
run = "echo '[1' > $HOTHOUSE_SEED_CONTEXT"
[seed.bundle.loser]
run = "echo '{}' > $HOTHOUSE_SEED_CONTEXT"
[seed.bundle.huge]
run = "head -c 100000000 /dev/zero > $HOTHOUSE_SEED_CONTEXT"
[seed.bundle.slow]
run = "echo $$ >> pids; exec sleep 1000"
[seed.bundle.late]
run = "sleep 1000"
timeout = "1s"

[seed.radius]
z = ["one"]
s = ["z", "two"]
"#;

const SEED: &str = r#"
import json, os, sys
p = os.environ["HOTHOUSE_SEED_CONTEXT"]; c = json.load(open(p))
assert os.environ["HOTHOUSE_SEED_BUNDLE"] == sys.argv[1]
if sys.argv[1] == "two": assert c["one"]["id"] == 41
c[sys.argv[1]] = {"id": 41 if sys.argv[1] == "one" else 42, "paths": {sys.argv[1]: "/" + sys.argv[1]}}
json.dump(c, open(p, "w")); open("data.json", "w").write(json.dumps(c)); open("order", "a").write(sys.argv[1] + "\n")
"#;

const APP: &str = r#"
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(201); self.end_headers()
        self.wfile.write(json.dumps({"id": 99, "size": told["size"], "path": self.path}).encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
"#;

fn shop(env: &TestEnv) -> std::path::PathBuf {
    let repository = env.repository("shop", CONFIG);
    git(&repository, &["config", "user.name", "test"]);
    git(&repository, &["config", "user.email", "test@example.com"]);
    fs::write(repository.join("seed.py"), SEED).unwrap();
    fs::write(repository.join("app.py"), APP).unwrap();
    fs::write(repository.join(".gitignore"), "data.json\norder\npids\n").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "app"]);
    repository
}

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> Value {
    env.json(repository, &[words, &["--json"]].concat())
}

#[test]
fn bundles_run_in_order_share_a_context_and_are_told_everywhere() {
    let env = surroundings();
    if !env.can_have_rooms("seeds") {
        return;
    }
    let repository = shop(&env);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a", "--seed", "s"]);
    let status = ask(&env, &repository, &["status", "-w", "a"]);
    let seed = &status["run"]["seed"];
    assert_eq!((&seed["radius"], &seed["ok"]), (&"s".into(), &true.into()), "{seed:#}");
    assert_eq!(seed["bundles"], serde_json::json!(["one", "two"]));
    assert_eq!(seed["ids"], serde_json::json!({ "one": 41, "two": 42 }));
    let artifacts = Path::new(status["run"]["artifacts"].as_str().unwrap());
    let summary: Value =
        serde_json::from_slice(&fs::read(artifacts.join("seed-summary.json")).unwrap()).unwrap();
    assert_eq!(summary["paths"], serde_json::json!({ "one": "/one", "two": "/two" }));
    assert!(
        fs::read_to_string(artifacts.join("seed-summary.md")).unwrap().contains("| one | `41` |")
    );
    let run: Value =
        serde_json::from_slice(&fs::read(artifacts.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["seed"]["ids"]["two"], 42);
    let panel = env.ok(&repository, &["status", "-w", "a"]);
    assert!(panel.contains("Seed") && panel.contains("s: one, two"), "{panel}");

    // Seeded bundles are not seeded again by `up`, and by `seed` only if named.
    env.ok(&repository, &["up", "-w", "a", "--seed", "s"]);
    env.ok(&repository, &["seed", "two", "-w", "a"]);
    let order = env.ok(&repository, &["exec", "-w", "a", "--", "cat", "order"]);
    assert_eq!(order, "one\ntwo\ntwo\n");

    // A call adds its response, and what happens meanwhile is not counted since a mark.
    ask(&env, &repository, &["mark", "m", "-w", "a"]);
    let summary = ask(&env, &repository, &["seed", "call", "-w", "a"]);
    assert_eq!(
        summary["context"]["call"],
        serde_json::json!({ "id": 99, "size": 3, "path": "/seeded?x=1" })
    );
    let since = ask(&env, &repository, &["since", "m", "-w", "a"]);
    assert!(since["counts"]["seed"].as_u64() >= Some(4), "{since:#}");

    let seeds = ask(&env, &repository, &["seeds", "-w", "a"]);
    assert_eq!(seeds["radii"]["s"], serde_json::json!(["one", "two"]));
    let state = |name: &str| {
        let found = seeds["bundles"].as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap()["state"].clone()
    };
    assert_eq!((state("one"), state("bad")), ("seeded".into(), "none".into()));

    // git sees nothing of it, inside or outside, and the next run knows its data.
    assert_eq!(env.ok(&repository, &["exec", "-w", "a", "--", "git", "status", "--short"]), "");
    env.ok(&repository, &["down", "-w", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let again = ask(&env, &repository, &["status", "-w", "a"]);
    assert_ne!(again["run"]["id"], status["run"]["id"]);
    assert_eq!(again["run"]["seed"]["ids"]["one"], 41, "{:#}", again["run"]);
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    let forked = ask(&env, &repository, &["seeds", "-w", "b"]);
    assert!(forked["bundles"].as_array().unwrap().iter().any(|one| one["state"] == "seeded"));
}

#[test]
fn a_bundle_that_fails_says_what_is_done_and_left_and_spares_the_context() {
    let env = surroundings();
    if !env.can_have_rooms("seeds that fail") {
        return;
    }
    let repository = shop(&env);
    env.ok(&repository, &["fork", "a"]);
    let failed = env.run(&repository, &["up", "-w", "a", "--seed", "one,after,call"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    for told in [
        "bundle `bad` failed: exit 3",
        "planted-reason",
        "hint: done: one\n",
        "hint: left: after, call\n",
        "`hothouse seed bad,after,call -w a` continues from there",
    ] {
        assert!(failed.stderr.contains(told), "{told}: {}", failed.stderr);
    }
    let status = ask(&env, &repository, &["status", "-w", "a"]);
    assert_eq!((&status["state"], &status["run"]["seed"]["ok"]), (&"ready".into(), &false.into()));
    for (bundle, told) in [
        ("no-json", "the context is not JSON"),
        ("loser", "the context has lost `one`"),
        ("huge", "the context is larger than 4 MiB"),
        ("late", "no end within 1s"),
    ] {
        let failed = env.run(&repository, &["seed", bundle, "-w", "a"]);
        assert_eq!(failed.code, 1, "{bundle}: {}", failed.stderr);
        assert!(failed.stderr.contains(told), "{bundle}: {}", failed.stderr);
        let context =
            env.ok(&repository, &["exec", "-w", "a", "--", "cat", ".hothouse/seed/context.json"]);
        let context: Value = serde_json::from_str(&context).unwrap();
        assert_eq!(context["one"]["id"], 41, "{bundle}");
    }
    let unknown = env.run(&repository, &["seed", "tow", "-w", "a"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.stderr.contains("did you mean `two`?"), "{}", unknown.stderr);
    // The worktree's config now has a cycle.
    let script = "printf '[seed.bundle.bad]\\nrun = \"true\"\\nneeds = [\"after\"]\\n[seed.bundle.after]\\nrun = \"true\"\\nneeds = [\"bad\"]\\n' > hothouse.toml";
    env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", script]);
    let circle = env.run(&repository, &["seed", "bad", "-w", "a"]);
    assert_eq!(circle.code, 3, "{}", circle.stderr);
    assert!(circle.stderr.contains("closes a circle: after -> bad -> after"), "{}", circle.stderr);
}

#[test]
fn a_daemon_that_is_killed_while_it_seeds_leaves_no_second_command_behind() {
    let env = surroundings();
    if !env.can_have_rooms("seeding under a daemon that dies") {
        return;
    }
    let repository = shop(&env);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let mut client = env.command(&repository, &["seed", "one,slow", "-w", "a"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pids = || {
        let found = env.run(&repository, &["exec", "-w", "a", "--", "cat", "pids"]);
        found.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("the bundle runs", || pids().len() == 1);
    env.kill_daemon();
    // The client repeats its request to the next daemon, which ends what the last one left.
    wait_until("it runs again", || pids().len() == 2);
    let alive =
        |pid: &str| env.run(&repository, &["exec", "-w", "a", "--", "kill", "-0", pid]).code == 0;
    let pids = pids();
    assert!(!alive(&pids[0]) && alive(&pids[1]), "{pids:?}");
    let order = env.ok(&repository, &["exec", "-w", "a", "--", "cat", "order"]);
    assert_eq!(order.lines().next(), Some("one"));
    env.ok(&repository, &["down", "-w", "a"]);
    client.wait().unwrap();
}

#[test]
fn files_are_fed_to_databases_and_seeding_again_says_what_it_changed() {
    if !is_installed("postgres") || !is_installed("redis-server") {
        return skip("seeds of databases", "postgresql and redis-server");
    }
    let env = surroundings();
    if !env.can_have_rooms("seeds of databases") {
        return;
    }
    let config = r#"[project]
name = "shop"
[service.db]
recipe = "postgres"
[service.cache]
recipe = "redis"
[seed.bundle.schema]
sql = "seed/schema.sql"
[seed.bundle.users]
sql = "seed/users.sql"
needs = ["schema"]
[seed.bundle.growing]
sql = "seed/growing.sql"
needs = ["schema"]
[seed.bundle.keys]
sql = "seed/keys.redis"
service = "cache"
[seed.bundle.wrong]
sql = "seed/wrong.sql"
[profile.dev]
seed = "users"
"#;
    let repository = env.repository("shop", config);
    fs::create_dir(repository.join("seed")).unwrap();
    for (name, text) in [
        (
            "schema.sql",
            "create table if not exists users (id int primary key, name text);\ncreate table if not exists log (line text);",
        ),
        ("users.sql", "insert into users values (1, 'ann'), (2, 'bob') on conflict do nothing;"),
        ("growing.sql", "insert into log values ('again');"),
        ("keys.redis", "SET a 1\nRPUSH queue x\n"),
        ("wrong.sql", "insert into users values (3, 'eve');\ninsert into nothing values (1);"),
    ] {
        fs::write(repository.join("seed").join(name), text).unwrap();
    }
    git(&repository, &["add", "-A"]);
    git(
        &repository,
        &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "seed"],
    );
    env.ok(&repository, &["fork", "a"]);
    // The profile decides what is seeded.
    env.ok(&repository, &["up", "-w", "a"]);
    let rows = || {
        env.ok(&repository, &["db", "db", "-w", "a", "--", "-tAc", "select count(*) from users"])
    };
    assert_eq!(rows(), "2\n");
    let again = ask(&env, &repository, &["seed", "users,keys,growing", "-w", "a"]);
    assert_eq!(again["changed"], serde_json::json!([]), "users is idempotent, the others were new");
    let again = ask(&env, &repository, &["seed", "users,keys,growing", "-w", "a"]);
    let changed: Vec<_> =
        again["changed"].as_array().unwrap().iter().map(|one| one["table"].clone()).collect();
    assert_eq!(changed, ["queue", "public.log"], "{again:#}");
    assert!(again["caveats"][0].as_str().unwrap().contains("not idempotent"), "{again:#}");
    let wrong = env.run(&repository, &["seed", "wrong", "-w", "a"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("\"nothing\" does not exist"), "{}", wrong.stderr);
    assert_eq!(rows(), "2\n", "a file is one transaction");
}

#[test]
fn a_seeded_stack_is_a_snapshot_that_only_the_same_files_reach() {
    if !is_installed("postgres") {
        return skip("snapshots of seeded stacks", "postgresql");
    }
    let env = surroundings();
    if !env.can_have_rooms("snapshots of seeded stacks") {
        return;
    }
    let config = r#"[project]
name = "shop"
[service.db]
recipe = "postgres"
[seed.bundle.rows]
sql = "rows.sql"
[seed.bundle.count]
run = "echo run >> ran; echo '{\"row\": {\"id\": 7}}' > $HOTHOUSE_SEED_CONTEXT"
needs = ["rows"]
[seed.radius]
m = ["count"]
"#;
    let repository = env.repository("shop", config);
    let rows = "create table if not exists t (id int primary key);\ninsert into t values (1), (2) on conflict do nothing;\n";
    fs::write(repository.join("rows.sql"), rows).unwrap();
    fs::write(repository.join(".gitignore"), "ran\n").unwrap();
    git(&repository, &["add", "-A"]);
    let commit = ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "seed"];
    git(&repository, &commit);
    let kept = env.root().join("shop-sandboxes/.hothouse/seeded");
    let count = || {
        let found = fs::read_dir(&kept).into_iter().flatten().flatten();
        found.filter(|entry| entry.path().join("manifest.json").exists()).count()
    };
    let up = |name: &str| {
        env.ok(&repository, &["up", "-w", name, "--seed", "m"]);
        let seed = ask(&env, &repository, &["status", "-w", name])["run"]["seed"].clone();
        assert_eq!((&seed["ok"], &seed["ids"]["row"]), (&true.into(), &7.into()), "{seed:#}");
        let summary = fs::read(seed["summary"].as_str().unwrap()).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        summary["bundles"][0]["state"].as_str().unwrap().to_owned()
    };
    for name in ["a", "b", "c", "d", "e"] {
        env.ok(&repository, &["fork", name]);
    }
    // Someone worked in this sandbox: its seeded data is not shared.
    env.ok(&repository, &["up", "-w", "e"]);
    env.ok(&repository, &["exec", "-w", "e", "--", "true"]);
    assert_eq!((up("e"), count()), ("done".into(), 0));
    assert_eq!((up("a"), count()), ("done".into(), 1));
    assert_eq!((up("b"), count()), ("restored".into(), 1));
    let rows =
        env.ok(&repository, &["db", "db", "-w", "b", "--", "-tAc", "select count(*) from t"]);
    assert_eq!(rows, "2\n");
    let ran = env.ok(&repository, &["exec", "-w", "b", "--", "cat", "ran"]);
    assert_eq!(ran, "run\n", "an ignored file of a bundle came along, and no bundle ran again");
    // Its copy is its own.
    env.ok(&repository, &["db", "db", "-w", "b", "--", "-qc", "delete from t"]);
    // Any changed file makes it another seed, with its own snapshot.
    fs::write(env.root().join("shop-sandboxes/c/README"), "changed").unwrap();
    let stale = ask(&env, &repository, &["seeds", "--stale", "-w", "c"]);
    let why = stale["snapshots"][0]["why"].as_str().unwrap();
    assert!(why.contains("`README` changed since"), "{stale:#}");
    assert_eq!((up("c"), count()), ("done".into(), 2));
    assert_eq!((up("d"), count()), ("restored".into(), 2));
    let rows =
        env.ok(&repository, &["db", "db", "-w", "d", "--", "-tAc", "select count(*) from t"]);
    assert_eq!(rows, "2\n", "nothing that another sandbox did reaches it");
}

#[test]
fn migrations_run_once_for_equal_files_unless_their_data_names_the_sandbox() {
    if !is_installed("postgres") {
        return skip("data after migrations", "postgresql");
    }
    let env = surroundings();
    if !env.can_have_rooms("data after migrations") {
        return;
    }
    // A migration with a random result, to detect whether it ran again.
    let config = r#"[project]
name = "shop"
[service.db]
recipe = "postgres"
[service.migrate]
run = "psql {db.url} -Xqf migrate.sql"
task = true
needs = ["db"]
"#;
    let repository = env.repository("shop", config);
    let migrate = |sql: &str| {
        fs::write(repository.join("migrate.sql"), sql).unwrap();
        git(&repository, &["add", "-A"]);
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        git(&repository, &[&who[..], &["commit", "-qm", "migrate"]].concat());
    };
    let made = |name: &str| {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", "-w", name]);
        env.ok(&repository, &["db", "db", "-w", name, "--", "-tAc", "select made from t"])
    };
    migrate("create table if not exists t as select random()::text as made;");
    let (first, second) = (made("a"), made("b"));
    assert_eq!(first, second, "the second one has the rows of the first");
    env.ok(&repository, &["db", "db", "-w", "b", "--", "-qc", "delete from t"]);
    assert_eq!(made("c"), first, "what a sandbox does to its copy reaches no other one");
    // Another migration is another key.
    migrate("create table if not exists t as select random()::text || 'x' as made;");
    assert_ne!(made("d"), first);
    // Data with a sandbox's own name is not shared.
    migrate(
        "create table if not exists t as select random() || 'https://web.e.shop.localhost:1' as made;",
    );
    let own = made("e");
    assert_ne!(made("f"), own);
}
