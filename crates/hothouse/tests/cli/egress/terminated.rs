//! Terminated hosts through the whole wall: secrets are used and not seen, requests are judged.

use super::{FETCH, internet::walled_after, py, records};

const VALUE: &str = "tok_0123456789abcdefghijklmnop";

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
