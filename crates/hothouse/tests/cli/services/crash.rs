//! What is left after a crash.

use super::*;

const COUNTER: &str = r#"
[service.count]
run = "n=0; while :; do echo line-$n; n=$((n+1)); sleep 0.005; done"
"#;

#[test]
fn a_killed_daemon_stops_no_service_and_loses_no_line() {
    users(|user| {
        let Some((env, repository)) = forked(user, COUNTER) else { return };
        up(&env, &repository);
        let before = pid(&env, &repository, "count");
        for round in 1..=3 {
            env.kill_daemon();
            let seen = round * 60;
            wait_until("it went on", || {
                log_of(&env, &repository, "count").contains(&format!("line-{seen}\n"))
            });
        }
        assert_eq!(pid(&env, &repository, "count"), before);
        let log = log_of(&env, &repository, "count");
        for (number, line) in log.lines().enumerate() {
            assert_eq!(line, format!("line-{number}"));
        }
    });
}

#[test]
fn a_killed_room_is_replaced_and_its_log_continues() {
    users(|user| {
        let Some((env, repository)) = forked(user, COUNTER) else { return };
        up(&env, &repository);
        wait_until("it counts", || log_of(&env, &repository, "count").contains("line-20\n"));
        let (init, counter) = (room_pid(&env), pid(&env, &repository, "count"));
        kill(init);
        wait_until("its services are gone", || !is_running(counter));
        assert_eq!(status(&env, &repository)["state"], "failed");
        let before = log_of(&env, &repository, "count").lines().count();
        env.ok(&repository, &["up", "-w", "a"]);
        assert_eq!(state(&env, &repository, "count"), "ready");
        let log = log_of(&env, &repository, "count");
        assert_eq!(log.lines().nth(before).unwrap(), "line-0");
        let page = env.json(&repository, &["logs", "count", "-w", "a", "--json"]);
        let numbers: Vec<_> =
            page["lines"].as_array().unwrap().iter().map(|l| l["seq"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "numbers without gaps");
    });
}

/// Commits rows one by one, and prints each number once it is committed.
const WRITER: &str = "i=0; while :; do i=$((i+1)); psql -qc \"insert into t values ($i)\" && echo committed-$i; done";

#[test]
fn a_power_cut_keeps_every_committed_row() {
    let config = "[service.db]\nrecipe = \"postgres\"\n";
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        up(&env, &repository);
        let psql = |sql: &str| exec(&env, &repository, &["db", "--", "psql", "-qtAc", sql]);
        assert_eq!(psql("create table t (x int primary key)").code, 0);
        let words = ["exec", "-w", "a", "db", "--", "sh", "-c", WRITER];
        let mut writer = env.command(&repository, &words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut last = 0;
        while last < 30 {
            let line = lines.next().unwrap().unwrap();
            last = line.strip_prefix("committed-").unwrap().parse().unwrap();
        }
        // Everything at once, while writing, without a clean shutdown.
        let postmaster = pid(&env, &repository, "db");
        kill(room_pid(&env));
        env.kill_daemon();
        for line in lines.map_while(Result::ok) {
            last = line.strip_prefix("committed-").unwrap().parse().unwrap();
        }
        writer.kill().ok();
        writer.wait().unwrap();
        wait_until("the server is gone", || !is_running(postmaster));
        env.ok(&repository, &["up", "-w", "a"]);
        let kept = psql("select count(*), max(x) from t");
        let (count, most) = kept.stdout.trim().split_once('|').unwrap();
        let (count, most): (i32, i32) = (count.parse().unwrap(), most.parse().unwrap());
        assert!(count >= last && most >= last && count == most, "{count} {most} of {last}");
        let log = log_of(&env, &repository, "db");
        assert!(log.contains("automatic recovery in progress"), "it was a crash: {log}");
    });
}
