//! Real databases.

use super::*;

const STACK: &str = "[service.db]\nrecipe = \"postgres\"\n[service.cache]\nrecipe = \"redis\"\n";

#[test]
fn two_sandboxes_have_the_same_ports_and_their_own_data() {
    users(|user| {
        let Some((env, repository)) = forked(user, STACK) else { return };
        up(&env, &repository);
        env.ok(&repository, &["fork", "b"]);
        env.ok(&repository, &["up", "-w", "b"]);
        let psql = |name: &str, sql: &str| {
            env.run(&repository, &["exec", "-w", name, "db", "--", "psql", "-qtAc", sql])
        };
        assert_eq!(psql("a", "create table t (x int); insert into t values (41)").code, 0);
        assert_ne!(psql("b", "select x from t").code, 0);
        assert_eq!(psql("b", "select 1").stdout, "1\n");
        let redis = |name: &str, words: &[&str]| {
            env.ok(
                &repository,
                &[&["exec", "-w", name, "cache", "--", "redis-cli"], words].concat(),
            )
        };
        assert_eq!(redis("a", &["set", "key", "value"]), "OK\n");
        assert_eq!(redis("b", &["get", "key"]), "\n");
        // The data survives a restart.
        env.ok(&repository, &["down", "-w", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        assert_eq!(psql("a", "select x from t").stdout, "41\n");
        assert_eq!(redis("a", &["get", "key"]), "value\n");
        let tables = env.json(&repository, &["db", "db", "-w", "a", "--tables", "--json"]);
        assert_eq!(tables, serde_json::json!([{ "table": "public.t", "rows": 1 }]));
        let keys = env.json(&repository, &["db", "cache", "-w", "a", "--tables", "--json"]);
        assert_eq!(keys, serde_json::json!([{ "table": "key", "rows": "string" }]));
        let shell = env
            .ok(&repository, &["db", "db", "-w", "a", "--", "-tAc", "select current_database()"]);
        assert_eq!(shell, "app\n");
    });
}

#[test]
fn a_fork_of_a_running_stack_has_its_rows_and_leaves_it_alone() {
    let Some((env, repository)) = forked(None, STACK) else { return };
    up(&env, &repository);
    let psql = |name: &str, sql: &str| {
        let ran = env.run(&repository, &["exec", "-w", name, "db", "--", "psql", "-qtAc", sql]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout.trim().to_owned()
    };
    psql("a", "create table t (x int); insert into t select generate_series(1, 1000)");
    let before = pid(&env, &repository, "db");
    env.ok(&repository, &["snapshot", "full", "-w", "a"]);
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    env.ok(&repository, &["up", "-w", "b"]);
    assert_eq!(psql("b", "select count(*) from t"), "1000");
    psql("b", "delete from t");
    assert_eq!(psql("a", "select count(*) from t"), "1000");
    assert_eq!(pid(&env, &repository, "db"), before);
    psql("a", "delete from t where x > 10");
    env.ok(&repository, &["restore", "full", "-w", "a"]);
    assert_eq!(state(&env, &repository, "db"), "ready");
    assert_eq!(psql("a", "select count(*) from t"), "1000");
}

#[test]
fn mariadb_starts_and_keeps_its_rows() {
    users(|user| {
        let Some((env, repository)) = forked(user, "[service.db]\nrecipe = \"mariadb\"\n") else {
            return;
        };
        up(&env, &repository);
        let client = |sql: &str| {
            let ran = exec(&env, &repository, &["db", "--", "mariadb", "app", "-Ne", sql]);
            assert_eq!(ran.code, 0, "{ran}");
            ran.stdout
        };
        client("create table t (x int); insert into t values (7)");
        env.ok(&repository, &["down", "-w", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        assert_eq!(client("select x from t"), "7\n");
        let tables = env.json(&repository, &["db", "-w", "a", "--tables", "--json"]);
        assert_eq!(tables, serde_json::json!([{ "table": "t", "rows": 1 }]));
    });
}

#[test]
fn a_second_cache_has_its_own_port_and_needs_no_argument() {
    let config =
        "[service.one]\nrecipe = \"redis\"\n[service.two]\nrecipe = \"redis\"\nport = 6380\n";
    let Some((env, repository)) = forked(None, config) else { return };
    up(&env, &repository);
    let redis = |name: &str, words: &[&str]| {
        env.ok(&repository, &[&["exec", "-w", "a", name, "--", "redis-cli"], words].concat())
    };
    redis("one", &["set", "key", "first"]);
    redis("two", &["set", "key", "second"]);
    assert_eq!(
        (redis("one", &["get", "key"]), redis("two", &["get", "key"])),
        ("first\n".into(), "second\n".into())
    );
}

#[test]
fn a_version_that_is_not_installed_is_named() {
    let Some((env, repository)) =
        forked(None, "[service.db]\nrecipe = \"postgres\"\nversion = \"99\"\n")
    else {
        return;
    };
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert_eq!(up.code, 6, "{up}");
    assert!(up.stderr.contains("`db`") && up.stderr.contains("PostgreSQL"), "{up}");
}

#[test]
fn data_of_another_version_is_refused_and_stays() {
    let Some((env, repository)) = forked(None, "[service.db]\nrecipe = \"postgres\"\n") else {
        return;
    };
    up(&env, &repository);
    env.ok(&repository, &["down", "-w", "a"]);
    let data = env.root().join("shop-sandboxes/.hothouse/data/a/db");
    fs::write(data.join("PG_VERSION"), "9.4\n").unwrap();
    let refused = env.run(&repository, &["up", "-w", "a"]);
    assert_eq!(refused.code, 5, "{refused}");
    assert!(refused.stderr.contains("postgres 9.4"), "{refused}");
    assert!(data.join("base").is_dir());
}

#[test]
fn a_room_that_makes_the_first_data_ends_with_its_daemon() {
    let Some((env, repository)) = forked(None, "[service.db]\nrecipe = \"postgres\"\n") else {
        return;
    };
    let store = env.root().join("shop-sandboxes/.hothouse/golden-data");
    let rooms = env.state().join("run/rooms");
    let making = || {
        let all = fs::read_dir(&rooms).into_iter().flatten().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with("data.")).count()
    };
    let mut client = env.command(&repository, &["up", "-w", "a"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the first data is being made", || {
        assert!(client.try_wait().unwrap().is_none(), "`up` ended before");
        making() > 0
    });
    client.kill().unwrap();
    client.wait().unwrap();
    env.kill_daemon();
    env.ok(&repository, &["daemon", "start"]);
    env.ok(&repository, &["up", "-w", "a"]);
    wait_until("the room of the first attempt is gone", || making() == 0);
    let report = env.json(&repository, &["doctor", "--json"]);
    assert_eq!(report["leftovers"], serde_json::json!([]));
    assert!(
        fs::read_dir(&store)
            .unwrap()
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().ends_with(".new") })
    );
}

#[test]
fn an_interrupted_initialisation_is_never_used() {
    let Some((env, repository)) = forked(None, "[service.db]\nrecipe = \"postgres\"\n") else {
        return;
    };
    up(&env, &repository);
    let store = env.root().join("shop-sandboxes/.hothouse/golden-data");
    let golden: Vec<_> = fs::read_dir(&store)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    let [golden] = &golden[..] else { panic!("{golden:?}") };
    // As a crash would leave it: partially created, partially copied.
    let new = golden.with_added_extension("new");
    fs::rename(golden, &new).unwrap();
    fs::remove_file(new.join("PG_VERSION")).unwrap();
    let copy = store.join("b.db.copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("PG_VERSION"), "99\n").unwrap();
    env.ok(&repository, &["fork", "b"]);
    env.ok(&repository, &["up", "-w", "b"]);
    let ran = env.ok(&repository, &["exec", "-w", "b", "db", "--", "psql", "-tAc", "select 5"]);
    assert_eq!(ran, "5\n");
    assert!(golden.join("PG_VERSION").is_file() && !new.exists() && !copy.exists());
}

/// Connects to a server in its own protocol: the recipe, its config, and a script that fails unless
/// it answers.
const MORE: [(&str, &str, &str); 3] = [
    (
        "memcached",
        "[service.cache]\nrecipe = \"memcached\"\nport = 11311\n",
        "import socket\ns = socket.create_connection(('127.0.0.1', 11311))\n\
         s.sendall(b'set k 0 0 5\\r\\nvalue\\r\\nget k\\r\\n')\nr = b''\n\
         while b'END' not in r: r += s.recv(999)\nassert b'value' in r, r",
    ),
    (
        "nats",
        "[service.cache]\nrecipe = \"nats\"\n",
        "import socket\ns = socket.create_connection(('127.0.0.1', 4222))\nr = s.recv(9999)\n\
         assert b'jetstream\":true' in r.replace(b' ', b''), r\n\
         s.sendall(b'CONNECT {\"verbose\":false}\\r\\nSUB a 1\\r\\nPUB a 2\\r\\nhi\\r\\n')\nr = b''\n\
         while b'hi' not in r: r += s.recv(999)",
    ),
    (
        "rabbitmq",
        "[service.cache]\nrecipe = \"rabbitmq\"\n",
        "import socket\ns = socket.create_connection(('127.0.0.1', 5672))\n\
         s.sendall(b'AMQP\\0\\0\\x09\\x01')\nr = s.recv(9999)\nassert b'RabbitMQ' in r, r",
    ),
];

#[test]
fn brokers_and_caches_of_the_distribution_answer_in_their_own_protocol() {
    users(|user| {
        for (recipe, config, script) in MORE {
            let Some((env, repository)) = forked(user, config) else { continue };
            env.ok(&repository, &["up", "-w", "a", "--timeout", "120s"]);
            let ask = || exec(&env, &repository, &["cache", "--", "python3", "-c", script]);
            let ran = ask();
            assert_eq!(ran.code, 0, "{recipe}: {ran}");
            env.ok(&repository, &["restart", "cache", "-w", "a"]);
            env.ok(&repository, &["up", "-w", "a", "--timeout", "120s"]);
            let ran = ask();
            assert_eq!(ran.code, 0, "{recipe} again: {ran}");
        }
    });
}

#[test]
fn what_rabbitmq_keeps_comes_along_with_a_fork() {
    let Some((env, repository)) = forked(None, "[service.mq]\nrecipe = \"rabbitmq\"\n") else {
        return;
    };
    env.ok(&repository, &["up", "-w", "a", "--timeout", "120s"]);
    let ctl = |name: &str, words: &str| {
        let line = format!("rabbitmqctl --quiet {words}");
        env.ok(&repository, &["exec", "-w", name, "mq", "--", "sh", "-c", &line])
    };
    ctl("a", "add_vhost shop");
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    env.ok(&repository, &["up", "-w", "b", "--timeout", "120s"]);
    let hosts = ctl("b", "list_vhosts");
    assert!(hosts.lines().any(|line| line == "shop"), "{hosts}");
}

#[test]
fn a_file_of_sqlite_forks_like_any_database() {
    users(|user| {
        let config = "[service.db]\nrecipe = \"sqlite\"\n[service.once]\nrun = \"echo {db.url} >url.txt\"\n\
                      task = true\nneeds = [\"db\"]\n";
        let Some((env, repository)) = forked(user, config) else { return };
        up(&env, &repository);
        let sql = |name: &str, sql: &str| {
            let script = format!(
                "import os, sqlite3\nc = sqlite3.connect(os.environ['SQLITE_FILE'])\nprint(c.execute(\"{sql}\").fetchall())\nc.commit()"
            );
            env.ok(&repository, &["exec", "-w", name, "db", "--", "python3", "-c", &script])
        };
        sql("a", "create table t (x)");
        sql("a", "insert into t values (7)");
        let url = env.ok(&repository, &["exec", "-w", "a", "--", "cat", "url.txt"]);
        assert_eq!(url, "sqlite:///var/lib/hothouse/db/app.db\n");
        let tables = env.json(&repository, &["db", "-w", "a", "--tables", "--json"]);
        assert_eq!(tables, serde_json::json!([{ "table": "t", "rows": 1 }]));
        if env.ok(&repository, &["status", "a", "--caveats"]).contains("exist only in the room") {
            return;
        }
        env.ok(&repository, &["fork", "b", "--from", "a"]);
        env.ok(&repository, &["up", "-w", "b", "--timeout", "60s"]);
        assert_eq!(sql("b", "select x from t"), "[(7,)]\n");
        sql("b", "delete from t");
        assert_eq!(sql("a", "select x from t"), "[(7,)]\n");
    });
}

#[test]
fn extensions_of_postgres_are_made_where_they_are_installed() {
    let Some((env, repository)) = forked(None, "[service.db]\nrecipe = \"postgres\"\n") else {
        return;
    };
    up(&env, &repository);
    let psql = |sql: &str| exec(&env, &repository, &["db", "--", "psql", "-qtAc", sql]);
    let made = psql("create extension hstore; create extension pg_trgm");
    assert_eq!(made.code, 0, "{made}");
    let used = psql("select 'a=>1'::hstore->'a', similarity('word', 'words') > 0.5");
    assert_eq!(used.stdout, "1|t\n", "{used}");
    let missing = psql("create extension nonsense");
    assert!(missing.code != 0 && missing.stderr.contains("nonsense"), "{missing}");
}
