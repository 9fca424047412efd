//! Mocked integrations, used by a program in a room: nothing outside is contacted, and state is
//! kept.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use hothouse_testkit::{TestEnv, User, wait_until};

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "acme"
[egress]
mode = "allowlist"
allow = ["@toolchain"]
[integration.stripe]
class = "mock"
hosts = ["api.stripe.com"]
[integration.vendor]
class = "mock"
hosts = ["api.vendor.example", "*.tenants.example"]
[integration.cms]
class = "disable"
hosts = ["cms.vendor.example"]
"#;

/// Asks as a program would, and prints status and body.
const CALL: &str = "
import base64, socket, urllib.error, urllib.request as u
def call(url, data=None, auth=None, method=None):
    request = u.Request(url, data=data, method=method)
    if auth:
        request.add_header('Authorization', 'Basic ' + base64.b64encode((auth + ':').encode()).decode())
    try:
        with u.urlopen(request, timeout=20) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
    except OSError as error:
        print('ERROR', error)
";

fn call(env: &TestEnv, repository: &Path, arguments: &str) -> String {
    let code = format!("{CALL}\ncall({arguments})");
    let ran = env.run(repository, &["exec", "-w", "a", "--", "python3", "-c", &code]);
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout
}

fn mocked(test: impl Fn(&TestEnv, &Path)) {
    for user in std::iter::once(None).chain(User::ordinary().map(Some)) {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("mocks") {
            continue;
        }
        let repository = env.repository("acme", CONFIG);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        test(&env, &repository);
    }
}

#[test]
fn a_mocked_vendor_remembers_and_other_calls_fail_with_what_helps() {
    mocked(|env, repository| {
        let made =
            "'https://api.stripe.com/v1/customers', b'email=buyer%40example.com', 'sk_test_123'";
        let made = call(env, repository, made);
        assert!(made.starts_with("200 ") && made.contains("buyer@example.com"), "{made}");
        let id = made.split('"').find(|word| word.starts_with("cus_")).unwrap().to_owned();
        let again = format!("'https://api.stripe.com/v1/customers/{id}', auth='sk_test_123'");
        assert!(call(env, repository, &again).contains("buyer@example.com"));
        let live = call(env, repository, &again.replace("sk_test_", "sk_live_"));
        assert!(live.starts_with("401 "), "{live}");

        let missed = call(env, repository, "'https://api.vendor.example/v1/things/7'");
        assert!(missed.starts_with("501 "), "{missed}");
        for word in ["unmatched_request", "stub", "hothouse/fixtures/vendor/"] {
            assert!(missed.contains(word), "{word} is not in {missed}");
        }
        let deep = call(env, repository, "'https://a.b.tenants.example/x', method='DELETE'");
        assert!(deep.starts_with("501 "), "{deep}");
        assert!(call(env, repository, "'http://api.vendor.example/plain'").starts_with("501 "));
        let off = call(env, repository, "'https://cms.vendor.example/'");
        assert!(off.starts_with("403 ") && off.contains("switched off"), "{off}");
        // Everything else is as closed as before.
        let denied = call(env, repository, "'http://elsewhere.example/'");
        assert!(denied.starts_with("403 ") && denied.contains("allowlist"), "{denied}");

        // State outlives the daemon, in a file that only the user can read.
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        let artifacts = status["run"]["artifacts"].as_str().unwrap().to_owned();
        let kept = Path::new(&artifacts).join("mock-state.jsonl");
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(&kept).unwrap().contains("sk_test_123"));
        env.kill_daemon();
        env.ok(repository, &["daemon", "start"]);
        wait_until("the wall stands again", || {
            call(env, repository, &again).contains("buyer@example.com")
        });
        requests_are_in_the_ledger(env, repository);
    });
}

fn requests_are_in_the_ledger(env: &TestEnv, repository: &Path) {
    let all = env.json(repository, &["egress", "log", "-w", "a", "--json"]);
    let of = |host: &str, status: u64| {
        let mut requests =
            all.as_array().unwrap().iter().map(|record| (record, &record["request"]));
        let found = requests
            .find(|(record, request)| record["host"] == host && request["status"] == status);
        found.unwrap_or_else(|| panic!("{host} {status} is not in {all:#}")).1.clone()
    };
    let made = of("api.stripe.com", 200);
    assert_eq!((&made["integration"], &made["class"]), (&"stripe".into(), &"mock".into()));
    assert_eq!(made["matched"], true);
    assert!(made["fixture"].as_str().unwrap().contains("customers"), "{made}");
    let missed = of("api.vendor.example", 501);
    assert_eq!((&missed["integration"], &missed["matched"]), (&"vendor".into(), &false.into()));
    let off = of("cms.vendor.example", 403);
    assert_eq!((&off["integration"], &off["class"]), (&"cms".into(), &"disable".into()));
    assert!(off.get("matched").is_none(), "{off}");
    let why = env.ok(repository, &["egress", "why", "api.stripe.com", "-w", "a"]);
    assert!(why.contains("integration"), "{why}");
}

/// Returns the peak memory of a process, in KiB.
fn peak(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Sends a gigabyte, however little of it is accepted; a tenth of that unless `HOTHOUSE_LONG` is
/// set.
const UPLOAD: &str = "
import http.client, sys
size, chunked = int(sys.argv[1]), sys.argv[2] == 'chunked'
client = http.client.HTTPSConnection('api.vendor.example', timeout=60)
client.putrequest('POST', '/upload')
client.putheader('transfer-encoding', 'chunked') if chunked else client.putheader('content-length', str(size))
client.endheaders()
piece, sent = b'x' * (1 << 20), 0
try:
    while sent < size:
        client.send(b'%x\\r\\n' % len(piece) + piece + b'\\r\\n' if chunked else piece)
        sent += len(piece)
except OSError: pass
try: print(client.getresponse().status)
except (OSError, http.client.HTTPException) as error: print('ended')
";

#[test]
fn a_large_upload_to_a_mocked_host_is_refused_without_being_held() {
    let env = surroundings();
    if !env.can_have_rooms("large uploads") {
        return;
    }
    let repository = env.repository("acme", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let size = if std::env::var_os("HOTHOUSE_LONG").is_some() { 1_u64 << 30 } else { 100 << 20 };
    let upload = |size: u64, how: &str| {
        let size = size.to_string();
        let words = ["exec", "-w", "a", "--", "python3", "-c", UPLOAD, &size, how];
        env.ok(&repository, &words).trim().to_owned()
    };
    assert_eq!(upload(1 << 20, "plain"), "501");
    let before = peak(env.daemon_pid().unwrap());
    for how in ["plain", "chunked"] {
        let ended = upload(size, how);
        assert!(ended == "413" || ended == "ended", "{ended}");
    }
    let grown = peak(env.daemon_pid().unwrap()).saturating_sub(before) >> 10;
    println!("{} MiB were sent, memory grew by {grown} MiB", size >> 19);
    assert!(grown < 40, "memory grew by {grown} MiB");
    let refused =
        env.json(&repository, &["requests", "path=/upload status=413", "-w", "a", "--json"]);
    assert_eq!(refused.as_array().unwrap().len(), 2, "{refused:#}");
}

#[test]
fn fixtures_of_the_worktree_answer_as_soon_as_they_are_written() {
    mocked(|env, repository| {
        let write = |name: &str, text: &str| {
            let script = format!(
                "mkdir -p hothouse/fixtures/vendor && cat > hothouse/fixtures/vendor/{name} <<'END'\n{text}\nEND"
            );
            env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", &script]);
        };
        let things = "'https://api.vendor.example/v1/things/7'";
        assert!(call(env, repository, things).starts_with("501 "));
        write(
            "things.toml",
            "[request]\npath = \"/v1/things/{id}\"\n[answer]\njson = { id = \"{{path.id}}\", nth = \"{{counter}}\" }",
        );
        wait_until("the fixture answers", || call(env, repository, things).starts_with("200 "));
        assert!(call(env, repository, things).contains("\"id\":\"7\""));
        write("reset.toml", "[request]\npath = \"/reset\"\n[answer]\nfault = \"reset\"");
        let reset = "'https://api.vendor.example/reset'";
        wait_until("the fault is played", || call(env, repository, reset).starts_with("ERROR"));
        // A broken fixture is named in unmatched calls; the others work.
        write("broken.toml", "[request]\npth = \"/x\"\n");
        wait_until("the problem is told", || {
            let told = call(env, repository, "'https://api.vendor.example/x'");
            told.starts_with("501 ") && told.contains("broken.toml")
        });
        assert!(call(env, repository, things).starts_with("200 "));
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        let told =
            status["caveats"].as_array().unwrap().iter().find(|one| one["area"] == "fixtures");
        let told =
            told.unwrap_or_else(|| panic!("{status:#}"))["text"].as_str().unwrap().to_owned();
        assert!(told.contains("broken.toml:2") && told.contains("path"), "{told}");
        // The user's own checkout is checked without a sandbox.
        let folder = repository.join("hothouse/fixtures/vendor");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("good.toml"), "[request]\npath = \"/x\"\n[answer]\nstatus = 204\n")
            .unwrap();
        assert_eq!(env.run(repository, &["config", "check"]).code, 0);
        fs::write(
            folder.join("bad.toml"),
            "[request]\npath = \"/x\"\n[answer]\ntext = \"{{requst.path}}\"\n",
        )
        .unwrap();
        let ran = env.run(repository, &["config", "check"]);
        assert!(
            ran.code == 3 && ran.stdout.contains("bad.toml:4") && ran.stdout.contains("request"),
            "{ran}"
        );
        // Templates can use the seed's context, once there is one.
        let context =
            Path::new(status["run"]["artifacts"].as_str().unwrap()).join("seed-context.json");
        fs::write(&context, r#"{"users":{"buyer":{"email":"buyer@example.com"}}}"#).unwrap();
        env.give_to_user(&context);
        write(
            "seeded.toml",
            "[request]\npath = \"/seeded\"\n[answer]\njson = { email = \"{{seed.users.buyer.email}}\" }",
        );
        wait_until("the seed is known", || {
            call(env, repository, "'https://api.vendor.example/seeded'")
                .contains("buyer@example.com")
        });
        // Links are not followed.
        let link = "ln -s /etc/hostname hothouse/fixtures/vendor/host.txt && printf '[request]\\npath = \"/link\"\\n[answer]\\nfile = \"host.txt\"\\n' > hothouse/fixtures/vendor/link.toml";
        env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", link]);
        wait_until("the link is not followed", || {
            let told = call(env, repository, "'https://api.vendor.example/link'");
            told.starts_with("501 ") && told.contains("link.toml")
        });
    });
}

#[test]
fn rules_of_egress_do_not_speak_for_hosts_of_integrations() {
    mocked(|env, repository| {
        call(env, repository, "'https://cms.vendor.example/'");
        call(env, repository, "'https://api.vendor.example:8443/'");
        call(env, repository, "'https://elsewhere.example/'");
        let why = env.ok(repository, &["egress", "why", "cms.vendor.example", "-w", "a", "--json"]);
        let why: serde_json::Value = serde_json::from_str(&why).unwrap();
        let integration = serde_json::json!({ "name": "cms", "class": "disable" });
        assert_eq!(why["now"]["integration"], integration);
        let text = env.ok(repository, &["egress", "why", "cms.vendor.example", "-w", "a"]);
        assert!(text.contains("integration: cms (disable: every request is refused)"), "{text}");
        assert!(!text.contains("egress allow"), "{text}");

        let learned = env.ok(repository, &["egress", "learn", "-w", "a"]);
        assert!(learned.contains("elsewhere.example"), "{learned}");
        assert!(!learned.contains("vendor.example"), "{learned}");
        let runs = env.json(repository, &["runs", "--json"]);
        let run = runs[0]["id"].as_str().unwrap();
        let of_run = env.ok(repository, &["egress", "learn", "--run", run]);
        assert!(of_run.contains("elsewhere.example"), "{of_run}");
        assert!(!of_run.contains("vendor.example"), "{of_run}");
        for host in ["api.vendor.example", "cms.vendor.example:443", "x.tenants.example"] {
            let refused = env.run(repository, &["egress", "allow", host, "-w", "a"]);
            assert_eq!(refused.code, 5, "{refused}");
            assert!(refused.stderr.contains("[integration."), "{refused}");
        }
        assert_eq!(env.run(repository, &["egress", "allow", "*.example", "-w", "a"]).code, 0);
    });
}

#[test]
fn integrations_say_how_they_are_treated_and_who_uses_them() {
    mocked(|env, repository| {
        let made = "'https://api.stripe.com/v1/customers', b'email=a%40example.com', 'sk_test_123'";
        assert!(call(env, repository, made).starts_with("200 "));
        let lock = "printf '%s' '{\"packages\":{\"node_modules/stripe\":{\"version\":\"12.0.0\"},\"node_modules/openai\":{\"version\":\"4.1.0\"}}}' > package-lock.json";
        env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", lock]);
        let all = env.json(repository, &["integrations", "-w", "a", "--json"]);
        let of = |name: &str| {
            let found = all.as_array().unwrap().iter().find(|one| one["name"] == name);
            found.unwrap_or_else(|| panic!("{name} is not in {all:#}")).clone()
        };
        let stripe = of("stripe");
        assert_eq!((&stripe["class"], &stripe["wiring"]), (&"mock".into(), &"wall".into()));
        assert_eq!((&stripe["records"], &stripe["writes"]), (&1.into(), &false.into()));
        assert_eq!(stripe["sdks"], serde_json::json!(["npm:stripe@12.0.0"]));
        assert_eq!(of("cms")["class"], "disable");
        // A vendor's host whose SDK is installed, without an integration.
        assert!(call(env, repository, "'http://api.openai.com/v1/models'").starts_with("403 "));
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        let caveat = |area: &str, class: &str| {
            let all = status["caveats"].as_array().unwrap().iter();
            all.filter(|one| one["area"] == area && one["class"] == class).count()
        };
        assert_eq!((caveat("stripe", "mock"), caveat("cms", "disable")), (1, 1), "{status:#}");
        assert_eq!(caveat("openai", "no-integration"), 1, "{status:#}");
        assert_eq!(status["integrations"].as_array().unwrap().len(), 3);
    });
}

const DESCRIPTION: &str = r#"{"openapi":"3.1.0","servers":[{"url":"https://api.search.example/v2"}],
"paths":{"/docs/{id}":{"get":{"parameters":[{"name":"deep","in":"query","schema":{"type":"boolean"}}],
"responses":{"200":{"content":{"application/json":{"schema":{"type":"object","required":["title"],
"properties":{"title":{"type":"string","example":"Lamps"}}}}}}}}}}}"#;

#[test]
fn a_description_becomes_a_mock() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    fs::write(repository.join("api.json"), DESCRIPTION).unwrap();
    let added = env.ok(&repository, &["integration", "add", "api.json", "--write"]);
    assert!(
        added.contains("[integration.search]") && added.contains("api.search.example"),
        "{added}"
    );
    assert_eq!(env.run(&repository, &["config", "check"]).code, 0);
    let again = env.run(&repository, &["integration", "add", "api.json"]);
    assert_eq!(again.code, 5, "{again}");
    fs::write(repository.join("no.json"), "{}").unwrap();
    assert_eq!(env.run(&repository, &["integration", "add", "no.json"]).code, 3);
    assert_eq!(env.run(&repository, &["integration", "add", "nothing.json"]).code, 4);
    if !env.can_have_rooms("a mock of a description") {
        return;
    }
    hothouse_testkit::git(&repository, &["add", "-A"]);
    hothouse_testkit::git(&repository, &["commit", "-qm", "search"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let found = call(&env, &repository, "'https://api.search.example/v2/docs/7'");
    assert!(found.starts_with("200 ") && found.contains("Lamps"), "{found}");
    let wrong = call(&env, &repository, "'https://api.search.example/v2/docs/7?deep=maybe'");
    assert!(wrong.starts_with("400 ") && wrong.contains("deep"), "{wrong}");
}
