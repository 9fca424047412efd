//! `emails`, `email` and `errors` on what programs in a room sent to the hosts of vendors.

use std::{fs, path::Path};

use hothouse_testkit::TestEnv;
use serde_json::{Value, json};

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
allow = []
[integration.mail]
class = "sink"
hosts = ["api.resend.com"]
[integration.sentry]
class = "sink"
hosts = ["o1.ingest.sentry.io"]
"#;

const PROGRAM: &str = r#"
import json, urllib.request as u
def post(url, data, headers={}):
    with u.urlopen(u.Request(url, data=data, headers={"content-type": "application/json", **headers}), timeout=20) as a:
        assert a.status == 200, a.status
def mail(subject, html):
    post("https://api.resend.com/emails", json.dumps({"from": "Shop <shop@acme.test>", "to": ["ann@example.com"], "bcc": "hidden@example.com",
         "subject": subject, "html": html, "attachments": [{"filename": "../../i.pdf", "content": "QUJD"}]}).encode())
def error(message, function):
    event = {"event_id": "9ec79c33ec9942ab8353589fcb2e04dc", "platform": "python", "release": "1.0", "exception": {"values": [
        {"type": "CouponError", "value": message, "stacktrace": {"frames": [{"filename": "shop.py", "function": function, "lineno": 7, "in_app": True}]}}]}}
    body = "\n".join(["{}", json.dumps({"type": "event"}), json.dumps(event), ""])
    post("https://o1.ingest.sentry.io/api/1/envelope/", body.encode(), {"x-sentry-auth": "Sentry sentry_version=7, sentry_key=k"})
"#;

struct Shop<'a> {
    env: &'a TestEnv,
    repository: &'a Path,
}

impl Shop<'_> {
    fn python(&self, code: &str) {
        let code = format!("{PROGRAM}\n{code}");
        self.env.ok(self.repository, &["exec", "-w", "a", "--", "python3", "-c", &code]);
    }

    fn json(&self, words: &[&str]) -> Value {
        self.env.json(self.repository, &[words, &["-w", "a", "--json"]].concat())
    }

    fn text(&self, words: &[&str]) -> String {
        self.env.ok(self.repository, &[words, &["-w", "a"]].concat())
    }

    fn code(&self, words: &[&str]) -> i32 {
        self.env.run(self.repository, &[words, &["-w", "a"]].concat()).code
    }
}

#[test]
fn what_apps_send_and_report_is_listed_and_shown() {
    let env = surroundings();
    if !env.can_have_rooms("mail and errors of apps") {
        return;
    }
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let shop = Shop { env: &env, repository: &repository };
    mails_are_listed_and_shown(&shop);
    events_are_issues(&shop);
}

fn mails_are_listed_and_shown(shop: &Shop<'_>) {
    shop.python(
        r#"
mail("Your code", '<p>Use <b>482913</b> at <a href="https://shop.example/o/77">the shop</a><script>alert(1)</script></p>')
mail("Later", "<p>nothing</p>")
"#,
    );
    let mails = shop.json(&["emails"]);
    let subjects: Vec<&Value> =
        mails.as_array().unwrap().iter().map(|mail| &mail["subject"]).collect();
    assert_eq!(subjects, ["Your code", "Later"]);
    let first = &mails[0];
    assert_eq!((&first["bcc"], &first["via"]), (&json!(["hidden@example.com"]), &json!("resend")));
    assert_eq!(first["attachments"][0]["name"], "../../i.pdf");
    for kind in ["eml", "html", "text", "json"] {
        let file = Path::new(first["files"][kind].as_str().unwrap());
        assert!(file.is_absolute() && fs::metadata(file).unwrap().is_file(), "{file:?}");
    }
    assert_eq!(shop.json(&["emails", "subject:code via=resend"]).as_array().unwrap().len(), 1);

    let shown = shop.json(&["email", "latest", "--grep", "482913"]);
    assert_eq!(
        (&shown["codes"], &shown["links"]),
        (&json!(["482913"]), &json!(["https://shop.example/o/77"]))
    );
    assert_eq!(shown["id"], first["id"]);
    assert_eq!(shop.json(&["email"])["subject"], "Later");
    let id = first["id"].as_str().unwrap();
    assert_eq!(shop.text(&["email", id, "--codes"]), "482913\n");
    let html = shop.text(&["email", id, "--html"]);
    assert!(
        html.contains("482913")
            && html.contains("default-src 'none'")
            && !html.contains("alert(1)"),
        "{html}"
    );
    assert!(shop.text(&["email", id, "--raw"]).contains("\r\nSubject: Your code\r\n"));
    assert!(shop.text(&["email", id, "--text"]).contains("Use 482913 at the shop"));
    assert_eq!(shop.code(&["email", "latest", "--grep", "never sent"]), 1);
    assert_eq!(shop.code(&["email", "mail_0123456789abcdef"]), 4);
}

fn events_are_issues(shop: &Shop<'_>) {
    assert_eq!(shop.text(&["errors"]), "0 issues\n");
    shop.python("error('coupon 12 broke', 'pay'); error('coupon 13 broke', 'pay')");
    shop.text(&["mark", "before"]);
    shop.python("error('coupon 14 broke', 'pay'); error('refund broke', 'refund')");
    let issues = shop.json(&["errors", "culprit:pay"]);
    let issue = &issues[0];
    assert_eq!(
        (&issue["type"], &issue["count"], &issue["new"]),
        (&json!("CouponError"), &json!(3), &json!(true))
    );
    assert_eq!((&issue["message"], &issue["release"]), (&json!("coupon 14 broke"), &json!("1.0")));
    let since = shop.json(&["errors", "--since", "before"]);
    let news: Vec<(&Value, &Value)> =
        since.as_array().unwrap().iter().map(|issue| (&issue["culprit"], &issue["new"])).collect();
    let mut expected =
        vec![(json!("pay in shop.py"), json!(false)), (json!("refund in shop.py"), json!(true))];
    expected.retain(|(culprit, new)| !news.contains(&(culprit, new)));
    assert!(expected.is_empty() && news.len() == 2, "{since}");
    assert_eq!(shop.json(&["since", "before"])["new_errors"], 1);

    let one = shop.json(&["errors", issue["id"].as_str().unwrap()]);
    assert_eq!((&one["count"], &one["frames"][0]["function"]), (&json!(3), &json!("pay")));
    assert_eq!(one["events"].as_array().unwrap().len(), 3);
    assert_eq!(one["group"]["components"], json!(["type: CouponError", "frame: pay in shop.py"]));
    assert_eq!(shop.code(&["errors", "err_0123456789abcdef"]), 4);
}
