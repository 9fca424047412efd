//! Sinks, as integrations and on ports of a room, used by programs in the room: everything
//! acknowledged is on the timeline, and nothing leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, User, wait_until};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
allow = ["@toolchain"]
[integration.mail]
class = "sink"
hosts = ["smtp.postmarkapp.com", "api.resend.com", "api.nobody.example"]
[integration.sentry]
class = "sink"
hosts = ["o1.ingest.sentry.io"]
[integration.posthog]
class = "sink"
hosts = ["us.i.posthog.com"]
[integration.pay]
class = "mock"
hosts = ["api.pay.example"]
[integration.llm]
class = "mock"
hosts = ["api.anthropic.com"]
[service.mail]
recipe = "mailbox"
[service.errors]
recipe = "errors"
"#;

/// A mail with all features, and ways to send it.
const MAIL: &str = r#"
import smtplib, ssl, sys, socket, json, urllib.error, urllib.request as u
from email.message import EmailMessage
def mail(subject, size=2000):
    m = EmailMessage()
    m["From"], m["To"], m["Subject"] = "shop@acme.test", "ann@example.com", subject
    m.set_content("code 482913 https://shop.example/o/77")
    m.add_alternative("<b>Receipt</b>", subtype="html")
    m.add_attachment(b"x" * size, maintype="application", subtype="pdf", filename="i.pdf")
    return m
def post(url, body, headers={}):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with u.urlopen(u.Request(url, data=data, headers={"content-type": "application/json", **headers}), timeout=20) as a:
            print(a.status, a.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"#;

struct Shop {
    env: TestEnv,
    repository: PathBuf,
}

impl Shop {
    fn open(user: Option<User>, config: &str, files: &[(&str, &str)]) -> Option<Self> {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("sinks") {
            return None;
        }
        let repository = env.repository_with("shop", config, files);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository })
    }

    fn run(&self, words: &[&str]) -> String {
        self.env.ok(&self.repository, &[words, &["-w", "a"]].concat())
    }

    /// Runs a program in the room.
    fn python(&self, code: &str) -> String {
        let code = format!("{MAIL}\n{code}");
        let ran =
            self.env.run(&self.repository, &["exec", "-w", "a", "--", "python3", "-c", &code]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout
    }

    /// Returns the records of a kind, oldest first.
    fn records(&self, kind: &str) -> Vec<Value> {
        // A query sees everything that happened before.
        self.run(&["timeline", "--kind", kind]);
        let text = fs::read_to_string(self.artifacts().join("timeline.jsonl")).unwrap();
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|record| record["kind"] == kind).collect()
    }

    fn subjects(&self) -> Vec<String> {
        let text = |record: &Value| record["body"]["subject"].as_str().unwrap().to_owned();
        self.records("mail").iter().map(text).collect()
    }

    fn status(&self) -> Value {
        self.env.json(&self.repository, &["status", "-w", "a", "--json"])
    }

    fn artifacts(&self) -> PathBuf {
        self.status()["run"]["artifacts"].as_str().unwrap().into()
    }

    fn verify(&self) {
        let run = self.status()["run"]["id"].as_str().unwrap().to_owned();
        let checked = self.env.json(&self.repository, &["verify", &run, "--json"]);
        assert_eq!(checked["ok"], true, "{checked}");
    }
}

fn users(test: impl Fn(Shop)) {
    for user in std::iter::once(None).chain(User::ordinary().map(Some)) {
        if let Some(shop) = Shop::open(user, CONFIG, &[]) {
            test(shop);
        }
    }
}

#[test]
fn mail_to_a_production_host_and_to_a_port_of_the_room_is_taken_and_nothing_else() {
    users(|shop| {
        shop.run(&["mark", "m"]);
        shop.python(
            r#"
host, context = "smtp.postmarkapp.com", ssl.create_default_context()
s = smtplib.SMTP(host, 587, timeout=20); s.starttls(context=context); s.login("u", "p")
s.send_message(mail("by STARTTLS"), to_addrs=["ann@example.com", "hidden@example.com"]); s.quit()
s = smtplib.SMTP_SSL(host, 465, timeout=20, context=context); s.send_message(mail("by TLS")); s.quit()
for port in (25, 2525):
    s = smtplib.SMTP(host, port, timeout=20); s.send_message(mail("plain on %d" % port)); s.quit()
s = smtplib.LMTP(host, 24); s.send_message(mail("by LMTP")); s.quit()
s = smtplib.SMTP("localhost", 1025, timeout=20); s.send_message(mail("local")); s.quit()
post("https://api.resend.com/emails", {"from": "a@b.c", "to": ["ann@example.com"], "subject": "by Resend", "html": "<p>x</p>"},
     {"Authorization": "Bearer re_123", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
"#,
        );
        let expected = [
            "by STARTTLS",
            "by TLS",
            "plain on 25",
            "plain on 2525",
            "by LMTP",
            "local",
            "by Resend",
        ];
        assert_eq!(shop.subjects(), expected);
        let mails = shop.records("mail");
        let first = &mails[0];
        assert_eq!(first["body"]["bcc"], serde_json::json!(["hidden@example.com"]));
        assert_eq!(first["process"]["command"], "python3");
        assert_eq!(mails[5]["process"]["command"], "python3");
        assert_eq!(
            (&first["body"]["via"], &mails[6]["body"]["via"]),
            (&"smtp".into(), &"resend".into())
        );
        assert_eq!(mails[6]["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
        let file = first["body"]["files"]["eml"].as_str().unwrap();
        let kept = fs::read_to_string(shop.artifacts().join(file)).unwrap();
        assert!(kept.contains("Subject: by STARTTLS"), "{kept}");
        for record in shop.records("connection") {
            assert_eq!(
                (&record["body"]["inspected"], &record["body"]["allowed"]),
                (&true.into(), &true.into()),
                "{record}"
            );
        }
        let since = shop.env.json(&shop.repository, &["since", "m", "-w", "a", "--json"]);
        assert_eq!((&since["counts"]["mail"], &since["gaps"]), (&7.into(), &serde_json::json!([])));
        shop.verify();

        // A sunk host is never dialled: other ports, protocols and hosts of other classes are
        // refused.
        let refused = shop.python(
            r#"
for host, port in (("smtp.postmarkapp.com", 22), ("smtp.postmarkapp.com", 1025), ("smtp.postmarkapp.com", 5432), ("api.pay.example", 587)):
    try:
        s = socket.create_connection((host, port), timeout=20); s.sendall(b"SSH-2.0-x\r\n")
        # Refused in the words of SSH, by us.
        said = s.recv(16); print("refused" if said in (b"", b"SSH-2.0-Hothouse") else said, port)
    except OSError:
        print("refused", port)
post("https://api.nobody.example/x", b"plain", {"content-type": "text/plain"})
"#,
        );
        let lines: Vec<&str> = refused.lines().collect();
        let expected = ["refused 22", "refused 1025", "refused 5432", "refused 587"];
        assert_eq!(lines[..4], expected, "{refused}");
        assert!(
            lines[4].starts_with("501") && lines[4].contains("integration `mail`"),
            "{refused}"
        );
    });
}

#[test]
fn a_port_of_a_sink_is_a_service_without_a_process() {
    let config = format!(
        "{CONFIG}[service.app]\nrun = \"exec sleep infinity\"\n\
         needs = [{{ service = \"mail\", condition = \"ready\" }}]\n\
         env = {{ MAIL = \"{{mail.url}}\", PORT_OF_MAIL = \"{{mail.port}}\" }}\n"
    );
    let Some(shop) = Shop::open(None, &config, &[]) else { return };
    let service = || {
        let status = shop.status();
        let all = status["services"].as_array().unwrap();
        all.iter().find(|service| service["name"] == "mail").unwrap().clone()
    };
    let found = service();
    assert_eq!(
        (&found["state"], &found["pid"], &found["port"]),
        (&"ready".into(), &Value::Null, &1025.into())
    );
    assert_eq!(found["url"], "smtp://127.0.0.1:1025");
    let env = shop.env.ok(&shop.repository, &["exec", "-w", "a", "app", "--", "env"]);
    assert!(
        env.contains("MAIL=smtp://127.0.0.1:1025\n") && env.contains("PORT_OF_MAIL=1025\n"),
        "{env}"
    );
    let answers = || {
        let asked = "try:\n print(smtplib.SMTP('127.0.0.1', 1025, timeout=20).noop()[0])\nexcept OSError: print('refused')";
        shop.python(asked).trim() == "250"
    };
    assert!(answers());
    shop.run(&["stop", "mail"]);
    assert_eq!(service()["state"], "stopped");
    assert!(!answers(), "a stopped service takes nothing");
    shop.run(&["start", "mail"]);
    assert!(answers() && service()["state"] == "ready");
    shop.run(&["pause"]);
    shop.run(&["resume"]);
    assert!(answers(), "after a pause");
    shop.env.kill_daemon();
    shop.env.ok(&shop.repository, &["status", "-w", "a"]);
    wait_until("the port is open again", answers);
    shop.run(&["down"]);
    shop.run(&["up"]);
    assert!(answers(), "in a new room");
}

/// Sends mails alternately to a vendor's host and to the room's own port, repeating until each is
/// accepted, and records the accepted ones.
const SENDER: &str = r#"
import time
for n in range(120):
    while True:
        try:
            where = ("smtp.postmarkapp.com", 587) if n % 2 else ("127.0.0.1", 1025)
            s = smtplib.SMTP(*where, timeout=20)
            s.send_message(mail("mail %d" % n))
            break
        except (OSError, smtplib.SMTPException):
            time.sleep(0.05)
    with open("acked.txt", "a") as file:
        file.write("mail %d\n" % n)
open("done", "w").close()
time.sleep(100000)
"#;

#[test]
fn nothing_that_was_acknowledged_is_missing_after_the_daemon_was_killed() {
    let config =
        format!("{CONFIG}[service.sender]\nrun = \"exec python3 send.py\"\nneeds = [\"mail\"]\n");
    let program = format!("{MAIL}{SENDER}");
    let Some(shop) = Shop::open(None, &config, &[("send.py", &program)]) else { return };
    let worktree = shop.env.root().join("shop-sandboxes/a");
    let acked = || {
        let text = fs::read_to_string(worktree.join("acked.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for killed in 1..4 {
        wait_until("some mails are accepted", || acked().len() > 25 * killed);
        shop.env.kill_daemon();
        shop.env.ok(&shop.repository, &["status", "-w", "a"]);
    }
    wait_until("all mails are accepted", || worktree.join("done").exists());
    let (acked, kept) = (acked(), shop.subjects());
    assert_eq!(acked.len(), 120);
    for subject in &acked {
        assert!(kept.contains(subject), "`{subject}` was acknowledged and is not there");
    }
    shop.verify();
}

#[test]
fn what_cannot_be_kept_is_not_accepted_and_the_gap_is_told() {
    users(|shop| {
        let send = r#"
try:
    s = smtplib.SMTP("smtp.postmarkapp.com", 587, timeout=20); s.send_message(mail("lost")); print("accepted")
except smtplib.SMTPException as error:
    print("refused", error)
post("https://api.resend.com/emails", {"from": "a@b.c", "to": ["ann@example.com"], "subject": "lost", "html": "x"}, {"Authorization": "Bearer re_1"})
"#;
        shop.run(&["mark", "m"]);
        // The folder for mail files is blocked, as if the disk were broken.
        let outbox = shop.artifacts().join("email-outbox");
        fs::write(&outbox, "").unwrap();
        let said = shop.python(send);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("refused") && lines[0].contains("451"), "{said}");
        assert!(lines[1].starts_with("503") && lines[1].contains("sink_down"), "{said}");
        assert_eq!(shop.subjects(), [""; 0]);
        fs::remove_file(&outbox).unwrap();
        let said = shop.python(send);
        assert!(said.contains("accepted") && said.contains("200 "), "{said}");
        let since = shop.env.json(&shop.repository, &["since", "m", "-w", "a", "--json"]);
        assert_eq!(since["counts"]["mail"], 2, "{since}");
        let gap = &since["gaps"][0];
        assert_eq!((&gap["kind"], &gap["count"]), (&"sink-down".into(), &2.into()), "{since}");
        shop.verify();
    });
}

/// A disk of this many megabytes below the folder of runs, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path, size: &str) -> Self {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).status();
        assert!(mounted.unwrap().success());
        Self(folder.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_full_disk_is_an_error_in_the_app_and_not_a_loss() {
    let env = surroundings();
    if !env.is_root() {
        hothouse_testkit::skip("a full disk", "root");
        return;
    }
    if !env.can_have_rooms("sinks") {
        return;
    }
    let _disk = SmallDisk::mount(&env.state().join("runs"), "6M");
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let shop = Shop { env, repository };
    let said = shop.python(
        r#"
accepted = refused = 0
for n in range(40):
    try:
        s = smtplib.SMTP("127.0.0.1", 1025, timeout=20); s.send_message(mail("mail %d" % n, 300000)); accepted += 1
    except smtplib.SMTPException as error:
        refused += 1
print(accepted, refused)
"#,
    );
    let counts: Vec<usize> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(counts[0] > 2 && counts[1] > 2, "{said}");
    assert_eq!(shop.subjects().len(), counts[0], "what was accepted is there, and nothing else");
    shop.verify();
}

#[test]
fn a_hostile_mail_client_costs_only_itself() {
    let Some(shop) = Shop::open(None, CONFIG, &[]) else { return };
    let said = shop.python(
        r#"
import os
def connect():
    s = socket.create_connection(("smtp.postmarkapp.com", 25), timeout=20); s.recv(500); return s
# Garbage, all kinds of bytes, and a line without end.
for rubbish in (os.urandom(100000), b"\0" * 5000 + b"\r\n", b"EHLO " + b"x" * 2000000, b"\r\n" * 50000, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
    s = connect()
    try:
        s.sendall(rubbish); s.shutdown(socket.SHUT_WR)
        while s.recv(65536): pass
    except OSError: pass
# Somebody who never reads.
idle = [connect() for _ in range(20)]
for s in idle:
    s.setblocking(False)
    try:
        for _ in range(200): s.send(b"NOOP\r\n" * 10000)
    except OSError: pass
# More recipients than a message may have.
s = connect()
s.sendall(b"EHLO x\r\nMAIL FROM:<a@b.c>\r\n"); reader = s.makefile("rb")
while not reader.readline().startswith(b"250 2.1.0"): pass
taken = 0
try:
    for n in range(10000):
        s.sendall(b"RCPT TO:<r%d@example.com>\r\n" % n)
        taken += reader.readline().startswith(b"250")
except OSError: pass
print(taken)
# The end of a message that a bare line feed would forge.
s = smtplib.SMTP("smtp.postmarkapp.com", 25, timeout=20)
s.ehlo(); s.mail("a@b.c"); s.rcpt("b@c.d"); s.docmd("DATA")
s.send(b"Subject: whole\r\n\r\none\n.\nMAIL FROM:<evil@b.c>\r\n.\r\n"); print(s.getreply()[0])
"#,
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["1000", "250"]);
    assert_eq!(shop.subjects(), ["whole"]);
    assert!(shop.env.daemon_pid().is_some());
    shop.verify();
}

#[test]
fn errors_events_and_models_are_taken_by_host_and_by_port() {
    let Some(shop) = Shop::open(None, CONFIG, &[]) else { return };
    shop.run(&["mark", "m"]);
    let said = shop.python(
        r#"
def envelope(id):
    event = {"event_id": id, "platform": "python", "level": "error", "exception": {"values": [{"type": "CouponError", "value": "coupon 12 broke",
        "stacktrace": {"frames": [{"filename": "shop.py", "function": "pay", "lineno": 7, "in_app": True}]}}]}}
    return "\n".join(json.dumps(part) for part in ({"event_id": id}, {"type": "event"}, event)).encode() + b"\n"
auth = {"X-Sentry-Auth": "Sentry sentry_version=7, sentry_key=k", "content-type": "application/x-sentry-envelope"}
post("https://o1.ingest.sentry.io/api/1/envelope/", envelope("9ec79c33ec9942ab8353589fcb2e04dc"), auth)
post("http://127.0.0.1:8969/api/1/envelope/", envelope("8ec79c33ec9942ab8353589fcb2e04dc"), auth)
post("https://us.i.posthog.com/batch/", {"api_key": "phc_x", "batch": [{"event": "Checkout Completed", "distinct_id": "u1", "properties": {"plan": "pro"}}]})
post("https://api.anthropic.com/v1/messages", {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
     {"x-api-key": "fake", "anthropic-version": "2023-06-01"})
"#,
    );
    assert_eq!(said.lines().filter(|line| line.starts_with("200")).count(), 4, "{said}");
    let since = shop.env.json(&shop.repository, &["since", "m", "-w", "a", "--json"]);
    assert_eq!(
        (&since["counts"]["error"], &since["counts"]["event"]),
        (&2.into(), &1.into()),
        "{since}"
    );
    assert_eq!((&since["counts"]["llm"], &since["unmatched"]), (&1.into(), &0.into()), "{since}");
    let asked = &shop.records("llm")[0]["body"];
    assert_eq!((&asked["provider"], &asked["model"]), (&"anthropic".into(), &"claude-x".into()));
    let errors = shop.records("error");
    assert_eq!(errors[0]["body"]["type"], "CouponError", "{errors:?}");
    assert_eq!(errors[0]["id"], errors[1]["id"], "both are one issue");
    shop.verify();
}

/// Invalid input of a room: each line is the result of one attempt.
const BAD: &str = r#"
import gzip, zlib, http.client
def status(url, body, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try: return u.urlopen(u.Request(url, data=data, headers={"content-type": "application/json", **headers}), timeout=60).status
    except urllib.error.HTTPError as error: return error.code
def send(message):
    s = smtplib.SMTP("127.0.0.1", 1025, timeout=60)
    try: s.sendmail("shop@acme.test", ["ann@example.com"], message); return 250
    except smtplib.SMTPDataError as error: return error.smtp_code
    except smtplib.SMTPSenderRefused as error: return error.smtp_code
event = {"event_id": "9ec79c33ec9942ab8353589fcb2e04dc", "platform": "python", "message": "skewed", "timestamp": "1970-01-01T00:00:00Z"}
def envelope(event): return "\n".join(json.dumps(part) for part in ({"event_id": event["event_id"], "sent_at": "2099-01-01T00:00:00Z"}, {"type": "event"}, event)).encode() + b"\n"
SENTRY, POSTHOG = "http://127.0.0.1:8969/api/1/envelope/?sentry_key=k", "https://us.i.posthog.com/batch/"
print("bomb", status(SENTRY, gzip.compress(b"x" * (200 << 20)), **{"content-encoding": "gzip"}), status(POSTHOG, gzip.compress(b" " * (200 << 20)), **{"content-encoding": "gzip"}))
print("deep json", status(POSTHOG, b'{"batch":' + b"[" * 100000 + b"]" * 100000 + b"}"))
parts = b"Subject: deep\r\n" + b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n) for n in range(1000)) + b"Content-Type: text/plain\r\n\r\nbottom\r\n"
print("deep mail", send(parts))
print("large mail", send(b"Subject: large\r\n\r\n" + b"y" * 72 * 1000 + b"\r\n" * 2 + (b"z" * 70 + b"\r\n") * 700000))
print("utf-8", send(b"Subject: \xff\xfe broken\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\xc3\x28 \xf0\x28\x8c\x28"), status(POSTHOG, b'{"batch":[{"event":"\xff\xfe","distinct_id":"u"}]}'))
print("again", [status(SENTRY, envelope(event)) for _ in range(3)])
one = {"event": "Twice", "distinct_id": "u", "uuid": "0190c2a4-0000-7000-8000-000000000001", "timestamp": "1970-01-01T00:00:00Z"}
print("skew", status(POSTHOG, {"api_key": "k", "batch": [one, one, {**one, "timestamp": "2999-01-01T00:00:00Z"}, {**one, "timestamp": "never"}]}))
halves = 0
for port, head in ((8969, b"POST /api/1/envelope/?sentry_key=k HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"), (9000, b"PUT /goods/half HTTP/1.1\r\nhost: x\r\nauthorization: AWS x:y\r\ncontent-length: 1000\r\n\r\nhalf"), (1025, b"EHLO x\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<b@c.d>\r\nDATA\r\nSubject: half\r\n")):
    s = socket.create_connection(("127.0.0.1", port), timeout=20); s.sendall(head); s.shutdown(socket.SHUT_WR)
    try:
        while s.recv(65536): pass
    except OSError: pass
    halves += 1
print("halves", halves)
connection = http.client.HTTPConnection("127.0.0.1", 9000, timeout=300)
block = bytes(1 << 20)
connection.putrequest("PUT", "/goods/large"); connection.putheader("authorization", "AWS x:y"); connection.putheader("content-length", str(1 << 30)); connection.endheaders()
for _ in range(1024): connection.send(block)
print("1 GiB", connection.getresponse().status)
"#;

#[test]
fn bad_input_is_refused_or_kept_within_bounds() {
    let config = format!("{CONFIG}[service.store]\nrecipe = \"objects\"\n");
    let Some(shop) = Shop::open(None, &config, &[]) else { return };
    let said = shop.python(BAD);
    let of = |name: &str| -> String {
        let mut lines = said.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_else(|| panic!("{name}: {said}")).trim().to_owned()
    };
    for code in of("bomb").split(' ').chain(of("deep json").split(' ')) {
        assert!(matches!(code, "400" | "413"), "{said}");
    }
    assert_eq!((of("deep mail"), of("utf-8").split(' ').next().unwrap()), ("250".into(), "250"));
    assert!(matches!(of("large mail").as_str(), "250" | "552"), "{said}");
    // Each report is recorded, and they are one issue; impossible times are kept as the app's, not
    // the record's.
    assert_eq!((of("again"), of("skew")), ("[200, 200, 200]".into(), "200".into()));
    let errors = shop.env.json(&shop.repository, &["errors", "-w", "a", "--json"]);
    assert_eq!((errors.as_array().unwrap().len(), &errors[0]["count"]), (1, &3.into()), "{errors}");
    let year = shop.records("error")[0]["time"].as_str().unwrap()[..4].parse::<u32>().unwrap();
    assert!((2020..2100).contains(&year), "the time of a record is ours");
    assert_eq!(
        shop.records("event").iter().filter(|one| one["body"]["name"] == "Twice").count(),
        4
    );
    // Interrupted mails are not recorded.
    assert_eq!(of("halves"), "3");
    assert!(!shop.subjects().contains(&"half".to_owned()));
    assert_eq!(of("1 GiB"), "200");
    let objects = shop.env.json(&shop.repository, &["objects", "-w", "a", "--json"]);
    assert_eq!((objects.as_array().unwrap().len(), &objects[0]["size"]), (1, &(1 << 30).into()));
    let daemon = shop.env.daemon_pid().unwrap();
    let memory = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 900 << 10, "the daemon had {peak} kB at its most");
    shop.verify();
}
