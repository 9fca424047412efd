//! Output of services, stored and found again.

use super::*;

const SPEAKERS: &str = r#"
[service.one]
run = "printf 'plain\\n\\033[31mred\\033[0m text\\n'; printf '\\377\\376binary\\000\\n'; sleep 1000"
[service.two]
run = "sleep 0.3; echo later; echo ERROR here; echo after; sleep 1000"
"#;

#[test]
fn lines_are_searched_cut_and_taken_up_again() {
    users(|user| {
        let Some((env, repository)) = forked(user, SPEAKERS) else { return };
        up(&env, &repository);
        wait_until("all is said", || log_of(&env, &repository, "two").contains("after"));
        let logs = |more: &[&str]| env.ok(&repository, &[&["logs", "-w", "a"], more].concat());
        assert_eq!(logs(&["one", "--grep", "^red text$"]), "red text\n");
        assert_eq!(logs(&["one", "--raw", "--grep", "red"]), "\u{1b}[31mred\u{1b}[0m text\n");
        assert_eq!(
            logs(&["two", "--grep", "ERR.R", "-B", "1", "-A", "1"]),
            "later\nERROR here\nafter\n"
        );
        assert_eq!(logs(&["two", "--tail", "1"]), "after\n");
        let both: Vec<String> = logs(&[]).lines().map(str::to_owned).collect();
        assert!(
            both[0].starts_with("one") && both.last().unwrap().ends_with("| after"),
            "{both:?}"
        );
        assert_eq!(both.len(), 6);
        let page = env.json(&repository, &["logs", "two", "-w", "a", "--budget", "12", "--json"]);
        assert_eq!((page["lines"].as_array().unwrap().len(), &page["more"]), (1, &true.into()));
        let cursor = page["cursor"].as_str().unwrap();
        assert_eq!(cursor, "two:1");
        assert_eq!(logs(&["two", "--since", cursor]), "ERROR here\nafter\n");
        assert_eq!(logs(&["two", "--since", "1h"]).lines().count(), 3);
        assert_eq!(logs(&["two", "--since", "2999-01-01T00:00:00Z"]), "");
        for (words, code) in [
            (&["logs", "nope", "-w", "a"][..], 4),
            (&["logs", "two", "-w", "a", "--grep", "("], 2),
            (&["logs", "two", "-w", "a", "--since", "yesterday"], 2),
        ] {
            let ran = env.run(&repository, words);
            assert_eq!(ran.code, code, "{ran}");
        }
    });
}

#[test]
fn logs_outlive_the_room() {
    let Some((env, repository)) = forked(None, "[service.app]\nrun = \"echo once; sleep 1000\"\n")
    else {
        return;
    };
    up(&env, &repository);
    wait_until("it has spoken", || log_of(&env, &repository, "app") == "once\n");
    env.ok(&repository, &["down", "-w", "a"]);
    assert_eq!(log_of(&env, &repository, "app"), "once\n");
    env.ok(&repository, &["up", "-w", "a"]);
    wait_until("it has spoken again", || log_of(&env, &repository, "app") == "once\nonce\n");
    // The room cannot reach them.
    let folder = service(&env, &repository, "app")["log"].as_str().unwrap().to_owned();
    assert!(Path::new(&folder).is_dir());
    assert_ne!(exec(&env, &repository, &["--", "ls", &folder]).code, 0);
}

#[test]
fn a_flood_and_a_line_of_ten_megabytes_do_no_harm() {
    let config = r#"
[service.flood]
run = "python3 flood.py; sleep 1000"
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    let script = "import sys\nw=sys.stdout.write\n\
        for i in range(200000): w('flood line number %d of many\\n' % i)\n\
        w('x' * (10 << 20) + '\\n')\nw('the end\\n')\nsys.stdout.flush()\n";
    fs::write(env.root().join("shop-sandboxes/a/flood.py"), script).unwrap();
    up(&env, &repository);
    let last = || env.ok(&repository, &["logs", "flood", "-w", "a", "--tail", "1"]);
    wait_until("all is said", || last() == "the end\n");
    let log = log_of(&env, &repository, "flood");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 200_002);
    for at in [0, 1, 99_999, 199_999] {
        assert_eq!(lines[at], format!("flood line number {at} of many"));
    }
    assert!(lines[200_000].len() < 100_000 && lines[200_000].ends_with("(10485760 bytes in all)"));
    assert_eq!(exec(&env, &repository, &["--", "true"]).code, 0);
}
