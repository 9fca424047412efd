//! Common programs: curl, Python, Node, git. Each trusts the CA through its own variable.

use std::process::{Command, Stdio};

use crate::ground::{Ground, HOST, PLACEHOLDER, Plan, VALUE, text_of};

/// Runs a program off the runtime, and returns its output; `None` if it is not installed.
async fn run(mut command: Command) -> Option<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    for proxy in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(_) => {
            hothouse_testkit::skip(&format!("a request by {name}"), &name);
            None
        }
    }
}

fn check(ground: &Ground, printed: &str) {
    assert!(printed.contains(PLACEHOLDER) && !printed.contains(VALUE), "{printed}");
    let seen = ground.seen().pop().unwrap();
    let sent = seen.headers["authorization"].to_str().unwrap().to_owned();
    assert!(sent.contains(VALUE), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_speaks_both_versions_and_expects_to_be_told_to_go_on() {
    let ground = Ground::lay(Plan::default()).await;
    let port = ground.address.port();
    let curl = |words: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail-with-body", "--resolve", &format!("{HOST}:{port}:127.0.0.1")]);
        command.args(["-H", &format!("Authorization: Bearer {PLACEHOLDER}")]).args(words);
        command.env("CURL_CA_BUNDLE", ground.trust());
        command
    };
    let url = |path: &str| format!("https://{HOST}:{port}{path}");
    for version in ["--http1.1", "--http2"] {
        let Some(printed) = run(curl(&[version, "--compressed", &url("/echo")])).await else {
            return;
        };
        check(&ground, &printed);
    }
    let file = ground.folder.path().join("large");
    std::fs::write(&file, vec![b'x'; 3 << 20]).unwrap();
    let file = file.to_str().unwrap();
    let words = ["--http1.1", "-H", "Expect: 100-continue", "-T", file, &url("/upload")];
    let printed = run(curl(&words)).await.unwrap();
    assert_eq!(printed.trim(), (3 << 20).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn python_trusts_by_its_variable() {
    let ground = Ground::lay(Plan::default()).await;
    let script = format!(
        "import socket, urllib.request as u\n\
         real = socket.getaddrinfo\n\
         socket.getaddrinfo = lambda host, *rest, **more: real('127.0.0.1', *rest, **more)\n\
         ask = u.Request('https://{HOST}:{}/echo', headers={{'Authorization': 'Bearer {PLACEHOLDER}'}})\n\
         print(u.build_opener(u.ProxyHandler({{}})).open(ask).read().decode())",
        ground.address.port()
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).env("SSL_CERT_FILE", ground.trust());
    if let Some(printed) = run(command).await {
        check(&ground, &printed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_speaks_both_versions() {
    let ground = Ground::lay(Plan::default()).await;
    let port = ground.address.port();
    let script = format!(
        "const lookup = (host, options, done) => (done || options)(null, options.all ? [{{address: '127.0.0.1', family: 4}}] : '127.0.0.1', 4);\n\
         const headers = {{ authorization: 'Bearer {PLACEHOLDER}' }};\n\
         require('https').get('https://{HOST}:{port}/echo', {{ lookup, headers }}, answer => answer.pipe(process.stdout));\n\
         const session = require('http2').connect('https://{HOST}:{port}', {{ lookup }});\n\
         const stream = session.request({{ ':path': '/echo', ...headers }});\n\
         stream.on('data', data => process.stdout.write(data)); stream.on('end', () => session.close());"
    );
    let mut command = Command::new("node");
    command.args(["-e", &script]).env("NODE_EXTRA_CA_CERTS", ground.trust());
    if let Some(printed) = run(command).await {
        check(&ground, &printed);
        let versions: Vec<_> = ground.seen().iter().map(|seen| seen.version).collect();
        assert_eq!(versions.len(), 2);
        assert_ne!(versions[0], versions[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_signs_in_with_a_placeholder() {
    let ground =
        Ground::lay(Plan { form: hothouse_model::config::SecretForm::Git, ..Plan::default() })
            .await;
    let port = ground.address.port();
    let mut command = Command::new("git");
    command
        .args(["-c", &format!("http.curloptResolve={HOST}:{port}:127.0.0.1")])
        .args(["-c", "http.proactiveAuth=basic", "-c", "protocol.version=0"])
        .args(["ls-remote", &format!("https://x:{PLACEHOLDER}@{HOST}:{port}/repo.git")])
        .env("GIT_SSL_CAINFO", ground.trust())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0");
    let Some(printed) = run(command).await else { return };
    assert!(printed.contains("refs/heads/main"), "{printed}");
    // Not every git sends the password before it is requested.
    let asked =
        ground.seen().into_iter().find_map(|seen| seen.headers.get("authorization").cloned());
    let Some(sent) = asked else {
        return hothouse_testkit::skip("a password sent by git", "http.proactiveAuth");
    };
    let sent = sent.to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
    let request = hyper::Request::builder()
        .uri("/echo")
        .header("host", ground.named(HOST))
        .body(crate::ground::body_of(sent.clone()))
        .unwrap();
    // The host saw the value; in the response to the room, even inside base64, it is the
    // placeholder.
    let expected = base64_of(&format!("x:{VALUE}"));
    assert_eq!(sent, expected);
    assert!(!text_of(ground.send(request).await).await.contains(&expected[8..40]));
}

/// Signs a request as AWS documents it, independently of our code.
const SIGN: &str = r#"
import hashlib, hmac, sys
key, host, date, body = sys.argv[1:5]
day = date[:8]
sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
mac = lambda key, text: hmac.new(key, text.encode(), hashlib.sha256).digest()
canonical = f"PUT\n/bucket/a%20b\nlist=1&x=%2F\nhost:{host}\nx-amz-date:{date}\n\nhost;x-amz-date\n{sha(body)}"
scope = f"{day}/eu-central-1/s3/aws4_request"
text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{sha(canonical)}"
signing = ("AWS4" + key).encode()
for part in [day, "eu-central-1", "s3", "aws4_request"]:
    signing = mac(signing, part)
signature = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
print(f"AWS4-HMAC-SHA256 Credential=AKIDTEST/{scope}, SignedHeaders=host;x-amz-date, Signature={signature}")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_of_aws_is_the_one_that_the_value_gives() {
    let ground =
        Ground::lay(Plan { form: hothouse_model::config::SecretForm::SigV4, ..Plan::default() })
            .await;
    let (host, date, body) = (ground.named(HOST), "20261116T041500Z", "the body");
    let sign = |key: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", SIGN, key, &host, date, body]);
        command
    };
    let Some(own) = run(sign(PLACEHOLDER)).await else { return };
    let request = ground
        .request("PUT", "/bucket/a%20b?x=%2F&list=1")
        .header("x-amz-date", date)
        .header("authorization", own.trim());
    let response = ground.send(request.body(crate::ground::body_of(body)).unwrap()).await;
    assert_eq!(response.status(), hyper::StatusCode::OK);
    text_of(response).await;
    let seen = ground.seen().pop().unwrap();
    let expected = run(sign(VALUE)).await.unwrap();
    assert_eq!(seen.headers["authorization"], expected.trim());
    assert_eq!(seen.body, body.as_bytes());
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
