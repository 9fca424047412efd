//! `integration NAME record`: responses of the real host become fixtures.

use std::path::Path;

use hothouse_testkit::{TestEnv, wait_until};
use serde_json::Value;

use crate::egress::internet::{Internet, walled_after};

const CONFIG: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\"]\n\
    [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n\
    [integration.vendor]\nclass = \"mock\"\nhosts = [\"good.example\"]\n\
    [integration.mail]\nclass = \"sink\"\nhosts = [\"smtp.example\"]\n";

/// The value of the host's variable `MY_TOKEN`.
const VALUE: &str = "tok_0123456789abcdefghijklmnop";

const ASK: &str = "
import os, ssl, sys, urllib.error, urllib.request as u
def ask(path, key=None, data=None):
    headers = {'Authorization': 'Bearer ' + (key or os.environ['TOKEN']), 'Content-Type': 'application/json'}
    try:
        request = u.Request('https://good.example' + path, headers=headers, data=data)
        with u.urlopen(request, timeout=20) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
    except OSError as error:
        print('ERROR', error)
";

fn recorded(test: impl Fn(&TestEnv, &Path, &Internet)) {
    walled_after(CONFIG, |env, _| env.set("MY_TOKEN", VALUE), test);
}

fn ask(env: &TestEnv, repository: &Path, calls: &str) -> String {
    let code = format!("{ASK}\n{calls}");
    env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", &code])
}

const CALLS: &str = "ask('/json/7?tenant=acme&api_key=hidden'); ask('/json/7?tenant=acme&api_key=hidden'); ask('/json/9', data=b'{\"sku\": \"lamp\", \"password\": \"hunter22\"}')";

#[test]
fn real_answers_become_fixtures_without_secrets_and_replay() {
    recorded(|env, repository, internet| {
        assert!(ask(env, repository, "ask('/json/7')").starts_with("501 "));
        assert!(!internet.log().contains("good.example"), "{}", internet.log());

        let code = format!(
            "{ASK}\n{CALLS}\nask('/json/1', key='sk_' + 'live' + '_51abcdefghijklmnopqrstuvwx')"
        );
        let words = ["python3", "-c", &code];
        let record = ["integration", "vendor", "record", "-w", "a", "--json", "--"];
        let told = env.json(repository, &[&record[..], &words[..]].concat());
        let calls = told["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 4, "{told:#}");
        assert_eq!(calls[3]["status"], 403, "{told:#}");
        assert!(calls[3]["left_out"].as_str().unwrap().contains("live"), "{told:#}");
        assert!(!internet.log().contains("sk_live_"));
        // The host got the value, which the room never had.
        let sent = format!("https authorization good.example Bearer {VALUE}");
        assert!(internet.log().contains(&sent), "{}", internet.log());

        let files: Vec<String> = told["files"].as_array().unwrap().iter().map(text).collect();
        assert!(files.len() >= 5, "{told:#}");
        assert!(files.iter().all(|file| file.starts_with("hothouse/fixtures/vendor/")));
        let placeholder =
            env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", "printf %s \"$TOKEN\""]);
        for file in &files {
            let kept = env.ok(repository, &["exec", "-w", "a", "--", "cat", file]);
            for secret in [VALUE, &placeholder, "hunter22", "hidden"] {
                assert!(!kept.contains(secret), "{secret} is in {file}:\n{kept}");
            }
        }

        // Mocked again, and answered as before, in the same order.
        let before = internet.log();
        wait_until("the fixtures answer", || {
            ask(env, repository, "ask('/json/9', data=b'{\"sku\": \"lamp\", \"password\": \"x\"}')")
                .starts_with("200 ")
        });
        let replayed = ask(env, repository, CALLS);
        let answers: Vec<Value> = replayed
            .lines()
            .map(|line| serde_json::from_str(line.strip_prefix("200 ").unwrap()).unwrap())
            .collect();
        assert_eq!((&answers[0]["nth"], &answers[1]["nth"]), (&1.into(), &2.into()), "{replayed}");
        assert_eq!((&answers[0]["id"], &answers[2]["id"]), (&"7".into(), &"9".into()));
        assert_eq!(internet.log(), before);
        let other = ask(env, repository, "ask('/json/9', data=b'{\"sku\": \"desk\"}')");
        assert!(other.starts_with("501 "), "{other}");

        let decided = env.json(
            repository,
            &["timeline", "-w", "a", "--kind", "policy", "area=integration", "--json"],
        );
        let actions: Vec<String> = decided["records"]
            .as_array()
            .unwrap_or(decided.as_array().unwrap_or(&Vec::new()))
            .iter()
            .map(|record| text(&record["body"]["action"]))
            .collect();
        assert_eq!(actions, ["recording began", "recording ended"], "{decided:#}");
    });
}

/// Opens a WebSocket, says something, and prints what comes back.
const SOCKET: &str = "
import base64, os, socket, ssl, struct, sys
def say(text):
    plain = socket.create_connection(('other.example', 443), timeout=20)
    tls = ssl.create_default_context().wrap_socket(plain, server_hostname='other.example')
    tls.sendall(b'GET /ws HTTP/1.1\\r\\nHost: other.example\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Extensions: permessage-deflate\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n')
    tls.settimeout(10)
    got = b''
    while b'hello' not in got: got += tls.recv(4096)
    mask = os.urandom(4)
    data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text.encode()))
    tls.sendall(b'\\x81' + bytes([0x80 | len(data)]) + mask + data)
    try: back = tls.recv(4096)
    except OSError: back = b''
    print('back', len(back))
";

#[test]
fn a_websocket_in_test_mode_carries_no_live_key() {
    let config = "mode = \"allowlist\"\nallow = [\"ADDRESS\"]\n[integration.feed]\nclass = \"test-mode\"\nhosts = [\"other.example\"]\n";
    walled_after(
        config,
        |_, _| {},
        |env, repository, internet| {
            let say = |text: &str| {
                let code = format!("{SOCKET}\nsay({text})");
                env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", &code])
            };
            assert_eq!(say("'sk_' + 'test_51abcdefghijklmnopqrstuvwx'").trim(), "back 40");
            assert_eq!(say("'sk_' + 'live_51abcdefghijklmnopqrstuvwx'").trim(), "back 0");
            wait_until("both ended at the host", || {
                internet.log().matches("ws of other.example ended").count() == 2
            });
        },
    );
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_recording_is_a_humans_alone_and_ends_without_one() {
    recorded(|env, repository, _| {
        let inside = ["exec", "-w", "a", "--", "hothouse", "integration", "vendor", "record"];
        let ran = env.run(repository, &inside);
        assert_ne!(ran.code, 0, "{ran}");
        assert!(ran.stderr.contains("hothouse integration"), "{ran}");

        for (name, code, word) in [("nobody", 4, "vendor"), ("mail", 5, "sink")] {
            let ran =
                env.run(repository, &["integration", name, "record", "-w", "a", "--", "true"]);
            assert_eq!(ran.code, code, "{ran}");
            assert!(ran.stderr.contains(word), "{ran}");
        }

        // Handwritten files keep their names, and a killed client leaves nothing open.
        let script = "mkdir -p hothouse/fixtures/vendor && printf '[request]\\npath = \"/mine\"\\n[answer]\\n' >hothouse/fixtures/vendor/get-json-id.toml";
        env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", script]);
        let mut client = env
            .command(repository, &["integration", "vendor", "record", "-w", "a"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the calls pass", || ask(env, repository, "ask('/json/7')").starts_with("200 "));
        let second =
            env.run(repository, &["integration", "vendor", "record", "-w", "a", "--", "true"]);
        assert_eq!(second.code, 5, "{second}");
        client.kill().unwrap();
        client.wait().unwrap();
        wait_until("the recording was written by itself", || {
            let list = "cat hothouse/fixtures/vendor/get-json-id-2.toml 2>/dev/null || true";
            let found = env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", list]);
            found.starts_with("# Recorded.")
        });
        let mine = env.ok(
            repository,
            &["exec", "-w", "a", "--", "cat", "hothouse/fixtures/vendor/get-json-id.toml"],
        );
        assert!(mine.contains("/mine"), "{mine}");
        wait_until("the host is mocked", || {
            ask(env, repository, "ask('/elsewhere')").starts_with("501 ")
        });
    });
}
