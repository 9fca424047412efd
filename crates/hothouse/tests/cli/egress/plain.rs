//! Plain HTTP on the timeline: both bodies, redacted.

use std::path::Path;

use hothouse_testkit::TestEnv;

use super::{internet::walled, py};

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> serde_json::Value {
    env.json(repository, &[words, &["--json"]].concat())
}

#[test]
fn bodies_of_plain_requests_are_kept_and_redacted() {
    walled("mode = \"web\"\nallow = [\"ADDRESS\"]\n", |env, repository, internet| {
        let code = "import gzip, urllib.request as u\n\
            body = b'{\"name\": \"lamp\", \"password\": \"hunter22\"}'\n\
            head = {'Content-Type': 'application/json'}\n\
            u.urlopen(u.Request('http://good.example/json/7', data=body, headers=head)).read()\n\
            packed = gzip.compress(b'password=hunter22&note=packed')\n\
            head = {'Content-Encoding': 'gzip', 'Content-Type': 'application/x-www-form-urlencoded'}\n\
            u.urlopen(u.Request('http://good.example/json/8', data=packed, headers=head)).read()\n\
            u.urlopen('http://good.example/large', data=b'x' * 200000).read()";
        let ran = py(env, repository, code);
        assert_eq!(ran.code, 0, "{ran}");
        let of = |path: &str| {
            let found = ["wait", "request", &format!("path={path}"), "-w", "a"];
            let id = ask(env, repository, &found)["id"].as_str().unwrap().to_owned();
            ask(env, repository, &["requests", &id, "-w", "a"])
        };
        let first = of("/json/7");
        let sent = first["request"]["body"]["text"].as_str().unwrap();
        assert!(sent.contains("lamp") && !sent.contains("hunter22"), "{first:#}");
        let got = first["response"]["body"]["text"].as_str().unwrap();
        assert!(got.contains("\"nth\""), "{first:#}");
        let packed = of("/json/8");
        let sent = packed["request"]["body"]["text"].as_str().unwrap();
        assert!(sent.contains("note=packed") && !sent.contains("hunter22"), "{packed:#}");
        let large = of("/large");
        assert_eq!(large["request"]["body"]["bytes"], 200_000, "{large:#}");
        assert!(internet.log().contains("http POST /large"), "{}", internet.log());
    });
}
