//! Webhooks: those of a mocked vendor, and those sent by a user, arrive in the app as in
//! production.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use hothouse_testkit::{TestEnv, git, wait_until};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
allow = ["@toolchain"]
[service.hook]
run = "exec python3 hook.py"
port = 3000
ready = { tcp = true }
url = "hook"
[integration.payments]
class = "mock"
hosts = ["api.stripe.com"]
webhook = { to = "hook", path = "/hook", secret = "STRIPE_WEBHOOK_SECRET" }
"#;

const SECRET: &str =
    "[env.STRIPE_WEBHOOK_SECRET]\nkind = \"fake\"\nvalue = \"whsec_of_the_test\"\n";

/// Verifies like Stripe's libraries, and records requests. While there is a file `closed` it fails.
const APP: &str = r#"
import hashlib, hmac, http.server, json, os, time
class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        parts = [part.split("=", 1) for part in self.headers["stripe-signature"].split(",")]
        at = [value for key, value in parts if key == "t"][0]
        digest = hmac.new(os.environ["STRIPE_WEBHOOK_SECRET"].encode(), at.encode() + b"." + body, hashlib.sha256)
        good = digest.hexdigest() in [value for key, value in parts if key == "v1"] and abs(time.time() - int(at)) < 300
        status = 503 if os.path.exists("closed") else 200 if good else 400
        event = json.loads(body)
        with open("got.jsonl", "a") as file:
            file.write(json.dumps({"path": self.path, "host": self.headers["host"], "type": event["type"],
                                   "id": event["id"], "status": status, "made": event["created"]}) + "\n")
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Hook).serve_forever()
"#;

/// Makes and confirms a payment, as a shop does.
const PAY: &str = r#"
import base64, json, urllib.request as u
def post(path, body):
    request = u.Request("https://api.stripe.com" + path, data=body.encode())
    request.add_header("Authorization", "Basic " + base64.b64encode(b"sk_test_1:").decode())
    return json.load(u.urlopen(request, timeout=20))
print(post("/v1/payment_intents", "amount=500&currency=usd&payment_method=pm_card_visa&confirm=true&return_url=https://shop.example/")["status"])
"#;

struct Shop {
    env: TestEnv,
    repository: std::path::PathBuf,
}

impl Shop {
    fn open(config: &str) -> Option<Self> {
        let env = surroundings();
        if !env.can_have_rooms("webhooks") {
            return None;
        }
        let repository = env.repository("shop", config);
        fs::write(repository.join("hook.py"), APP).unwrap();
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-qm", "app"]);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository })
    }

    fn worktree(&self) -> std::path::PathBuf {
        self.env.root().join("shop-sandboxes/a")
    }

    /// Returns the requests that the app received, in order.
    fn got(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.worktree().join("got.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn pay(&self) {
        let paid = self.env.ok(&self.repository, &["exec", "-w", "a", "--", "python3", "-c", PAY]);
        assert_eq!(paid.trim(), "succeeded");
    }

    /// Returns what the room gets when it requests a file of the run.
    fn artifact_in_the_room(&self, file: &str) -> String {
        let ask = format!(
            "import http.client, socket\nc = http.client.HTTPConnection('x')\nc.sock = socket.socket(socket.AF_UNIX)\n\
             c.sock.connect('{}')\nc.request('GET', '/v1/artifacts?folder=/&file={file}')\n\
             print(c.getresponse().read().decode())",
            hothouse_model::room::API_SOCKET
        );
        self.env.ok(&self.repository, &["exec", "-w", "a", "--", "python3", "-c", &ask])
    }

    fn listed(&self) -> Vec<Value> {
        let all = self.env.json(&self.repository, &["webhooks", "-w", "a", "--json"]);
        all.as_array().unwrap().clone()
    }

    fn send(&self, words: &[&str]) -> (i32, Vec<Value>) {
        let words = [&["webhook"], words, &["-w", "a", "--json"]].concat();
        let ran = self.env.run(&self.repository, &words);
        let printed = serde_json::from_str(&ran.stdout);
        (ran.code, printed.unwrap_or_else(|error| panic!("{error}: {ran}")))
    }
}

#[test]
fn a_webhook_by_hand_is_signed_with_the_secret_of_the_app() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    let (code, sent) = shop.send(&["stripe/payment_intent.succeeded", "--set", "amount=4200"]);
    assert_eq!((code, &sent[0]["status"]), (0, &200.into()), "{sent:?}");
    let got = &shop.got()[0];
    assert_eq!((&got["path"], &got["type"]), (&"/hook".into(), &"payment_intent.succeeded".into()));
    assert!(got["host"].as_str().unwrap().starts_with("hook.a.shop.localhost"), "{got}");
    let listed = shop.listed();
    let last = listed.last().unwrap();
    assert_eq!((&last["status"], &last["attempt"]), (&200.into(), &1.into()), "{last}");
    assert_eq!(
        (&last["vendor"], &last["fixture"]),
        (&"stripe".into(), &"stripe/payment_intent.succeeded".into())
    );
    // The secret is in no record.
    let status = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let timeline = Path::new(status["run"]["artifacts"].as_str().unwrap()).join("timeline.jsonl");
    assert!(!fs::read_to_string(timeline).unwrap().contains("whsec_of_the_test"));
    // Unknown types get suggestions, and nothing is sent.
    let ran =
        shop.env.run(&shop.repository, &["webhook", "stripe/payment_intent.suceeded", "-w", "a"]);
    assert!(ran.code == 4 && ran.stderr.contains("payment_intent.succeeded"), "{ran}");
    let ran = shop.env.run(&shop.repository, &["webhook", "github/push", "-w", "a"]);
    assert!(ran.code == 3 && ran.stderr.contains("--to"), "{ran}");
    assert_eq!(shop.got().len(), 1);
    // A file is sent unchanged, also to another path.
    let file = shop.repository.join("event.json");
    fs::write(&file, r#"{"id": "evt_own", "type": "own.made", "created": 1}"#).unwrap();
    let (code, _) = shop.send(&["event.json", "--to", "hook/elsewhere"]);
    assert_eq!(code, 0);
    assert_eq!(
        (&shop.got()[1]["id"], &shop.got()[1]["path"]),
        (&"evt_own".into(), &"/elsewhere".into())
    );
}

/// Registers an endpoint as an app does on start, then creates a customer.
const REGISTER: &str = r#"
import base64, json, sys, urllib.request as u
def post(path, body):
    request = u.Request("https://api.stripe.com" + path, data=body.encode())
    request.add_header("Authorization", "Basic " + base64.b64encode(b"sk_test_1:").decode())
    return json.load(u.urlopen(request, timeout=20))
made = post("/v1/webhook_endpoints", "enabled_events[]=customer.created&url=" + sys.argv[1])
post("/v1/customers", "email=buyer%40example.com")
print(made["secret"])
"#;

#[test]
fn endpoints_that_an_app_registers_get_events_signed_for_them() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    let register = |url: &str| {
        let words = ["exec", "-w", "a", "--", "python3", "-c", REGISTER, url];
        shop.env.ok(&shop.repository, &words).trim().to_owned()
    };
    let secret = register("http://127.0.0.1:3000/registered");
    assert!(secret.starts_with("whsec_"), "{secret}");
    // The configured endpoint still gets its events; the registered one has its own secret, which
    // this app does not use.
    let got = |path: &str| shop.got().into_iter().find(|one| one["path"] == path);
    wait_until("both were delivered", || got("/hook").is_some() && got("/registered").is_some());
    assert_eq!(got("/hook").unwrap()["status"], 200);
    assert_eq!(got("/registered").unwrap()["status"], 400, "signed with another secret");
    // One outside of the sandbox is refused and listed.
    register("https://elsewhere.example/hook");
    wait_until("it is told", || {
        shop.listed()
            .iter()
            .any(|one| one["error"].as_str().is_some_and(|why| why.contains("elsewhere.example")))
    });
}

#[test]
fn an_app_that_verifies_withstands_every_adversary() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    let (code, sent) = shop.send(&["stripe/invoice.paid", "--adversary"]);
    let of = |kind: &str| {
        let found = sent.iter().filter(|one| one["adversary"] == kind);
        found.map(|one| one["status"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(code, 0, "{sent:#?}");
    assert_eq!((of("wrong-secret"), of("stale-timestamp")), (vec![400], vec![400]));
    assert_eq!(
        (of("duplicate"), of("rotated-secret"), of("slow")),
        (vec![200; 2], vec![200], vec![200])
    );
    // Faulty deliveries are not retried.
    assert!(shop.listed().iter().all(|one| one["attempt"] == 1));
    // An app that accepts everything fails.
    let careless = APP.replace("200 if good else 400", "200");
    fs::write(shop.worktree().join("hook.py"), careless).unwrap();
    shop.env.ok(&shop.repository, &["restart", "hook", "-w", "a"]);
    let (code, sent) = shop.send(&["stripe/invoice.paid", "--adversary", "wrong-secret"]);
    assert_eq!((code, &sent[0]["ok"]), (1, &false.into()), "{sent:?}");
}

#[test]
fn what_a_mock_sends_arrives_in_order_and_is_tried_again() {
    // The secret is not configured, so it is generated, and the app has it.
    let Some(shop) = Shop::open(CONFIG) else { return };
    fs::write(shop.worktree().join("closed"), "").unwrap();
    shop.pay();
    let kinds = ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"];
    wait_until("the first attempts are made", || shop.got().len() >= kinds.len());
    fs::remove_file(shop.worktree().join("closed")).unwrap();
    let first: Vec<Value> = shop.got().iter().map(|got| got["type"].clone()).collect();
    let at = |kind: &str| first.iter().position(|found| found == kind).unwrap();
    assert!(at(kinds[0]) < at(kinds[2]), "{first:?}");
    wait_until("all of them are accepted", || {
        let listed = shop.listed();
        kinds.iter().all(|kind| {
            let mut of = listed.iter().filter(|one| one["type"] == *kind);
            of.any(|one| one["status"] == 200 && one["attempt"].as_u64() > Some(1))
        })
    });
}

#[test]
fn what_was_not_delivered_outlives_the_daemon() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    fs::write(shop.worktree().join("closed"), "").unwrap();
    shop.pay();
    wait_until("an attempt fails", || !shop.got().is_empty());
    // Pending deliveries contain the endpoint's secret, which the room must not see.
    assert!(shop.artifact_in_the_room("run.json").contains("base64"));
    for file in ["webhook-queue.jsonl", "private/webhook-queue.jsonl"] {
        let told = shop.artifact_in_the_room(file);
        assert!(told.contains("not-found") && !told.contains("base64"), "{file}: {told}");
    }
    shop.env.kill_daemon();
    fs::remove_file(shop.worktree().join("closed")).unwrap();
    shop.env.ok(&shop.repository, &["daemon", "start"]);
    wait_until("the next daemon delivers it", || {
        shop.got()
            .iter()
            .any(|got| got["type"] == "payment_intent.succeeded" && got["status"] == 200)
    });
    let status = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let artifacts = Path::new(status["run"]["artifacts"].as_str().unwrap());
    let queue = artifacts.join("private/webhook-queue.jsonl");
    wait_until("nothing waits any more", || !queue.exists());
}

#[test]
fn a_webhook_wakes_a_sandbox() {
    let config = format!("{CONFIG}{SECRET}[sandbox]\nidle = \"2s\"\nidle-stop = \"1s\"\n");
    let Some(shop) = Shop::open(&config) else { return };
    wait_until("it sleeps", || {
        let status = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
        status["state"] == "stopped"
    });
    let (code, sent) = shop.send(&["stripe/invoice.paid"]);
    assert_eq!((code, &sent[0]["status"]), (0, &200.into()), "{sent:?}");
}

/// A `webhook listen` that runs until the test ends.
struct Listening {
    child: Child,
    address: String,
    secret_file: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Listening {
    fn start(shop: &Shop, words: &[&str], secret: &str) -> Self {
        let words = [&["webhook", "listen"], words, &["-w", "a", "--json"]].concat();
        let mut command = shop.env.command(&shop.repository, &words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let told: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let address = text("url").trim_start_matches("http://").to_owned();
        Self { child, address, secret_file: text("secret_file"), lines }
    }

    /// Sends a delivery like a vendor; returns the status and the body of the response.
    fn deliver(&self, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head = format!(
            "POST /anything HTTP/1.1\r\nhost: tunnel.example\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Signs as Stripe does.
fn stripe_signature(secret: &str, body: &str) -> String {
    const SIGN: &str = "import hashlib, hmac, sys, time\nat = str(int(time.time()))\n\
        print('t=' + at + ',v1=' + hmac.new(sys.argv[1].encode(), (at + '.' + sys.argv[2]).encode(), hashlib.sha256).hexdigest())";
    let signed = Command::new("python3").args(["-c", SIGN, secret, body]).output().unwrap();
    String::from_utf8(signed.stdout).unwrap().trim().to_owned()
}

#[test]
fn real_deliveries_go_on_to_the_app_signed_with_its_own_secret() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    let vendor = "whsec_of_the_vendor_alone";
    let mut listening = Listening::start(&shop, &["stripe", "--secret"], vendor);
    // The vendor's secret is in one file, readable only for its owner.
    let mode = fs::metadata(&listening.secret_file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&listening.secret_file).unwrap(), vendor);
    let body = r#"{"id":"evt_real","type":"invoice.paid","created":1,"livemode":false}"#;
    let signature = stripe_signature(vendor, body);
    let (status, _) = listening.deliver(&[("stripe-signature", &signature)], body);
    assert_eq!(status, 200);
    let got = shop.got();
    assert_eq!((&got[0]["id"], &got[0]["path"]), (&"evt_real".into(), &"/hook".into()));
    assert_eq!(got[0]["status"], 200, "the app verified it with the secret that it has");
    let told = listening.line();
    assert_eq!((&told["type"], &told["status"]), (&"invoice.paid".into(), &200.into()));
    let last = shop.listed().pop().unwrap();
    assert_eq!((&last["fixture"], &last["status"]), (&Value::Null, &200.into()), "{last}");

    // Deliveries that the vendor did not sign, or of live mode, never reach the app.
    let live = r#"{"id":"evt_live","type":"invoice.paid","created":1,"livemode":true}"#;
    let of_app = stripe_signature("whsec_of_the_test", body);
    for (signature, body) in [
        (None, body),
        (Some(of_app), body),
        (Some(stripe_signature(vendor, "{}")), body),
        (Some(stripe_signature(vendor, live)), live),
    ] {
        let headers: Vec<(&str, &str)> =
            signature.iter().map(|text| ("stripe-signature", text.as_str())).collect();
        assert_eq!(listening.deliver(&headers, body).0, 403);
    }
    assert_eq!(shop.got().len(), 1);
    let refused = shop.listed().into_iter().filter(|one| {
        one["error"].as_str().is_some_and(|error| error.starts_with("not passed on"))
    });
    assert_eq!(refused.count(), 4);
    // If the app is broken, the vendor gets the error and retries.
    fs::write(shop.worktree().join("closed"), "").unwrap();
    let signature = stripe_signature(vendor, body);
    assert_eq!(listening.deliver(&[("stripe-signature", &signature)], body).0, 503);

    // Neither records nor the room have the vendor's secret.
    let status = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let artifacts = Path::new(status["run"]["artifacts"].as_str().unwrap());
    let timeline = fs::read_to_string(artifacts.join("timeline.jsonl")).unwrap();
    assert!(!timeline.contains(vendor) && !timeline.contains("evt_live"));
    let inside = ["exec", "-w", "a", "--", "hothouse", "webhook", "listen", "stripe"];
    let ran = shop.env.run(&shop.repository, &inside);
    assert!(ran.code != 0 && ran.stderr.contains("not for rooms"), "{ran}");
    let told = shop.artifact_in_the_room("private/webhook-secret-stripe");
    assert!(told.contains("not-found") && !told.contains(vendor), "{told}");
}

#[test]
fn a_listener_needs_what_it_verifies_with() {
    let Some(shop) = Shop::open(&format!("{CONFIG}{SECRET}")) else { return };
    let ran = |words: &[&str]| {
        shop.env.run(&shop.repository, &[&["webhook", "listen"], words, &["-w", "a"]].concat())
    };
    let without = ran(&["stripe"]);
    assert!(without.code == 2 && without.stderr.contains("signing secret"), "{without}");
    let unknown = ran(&["nobody", "--to", "hook/x"]);
    assert!(unknown.code == 4 && unknown.stderr.contains("stripe"), "{unknown}");
    // GitHub accepts a secret of its user's choice, so one is generated.
    let listening = Listening::start(&shop, &["github", "--to", "hook/github"], "");
    let secret = fs::read_to_string(&listening.secret_file).unwrap();
    assert!(secret.len() >= 32, "{secret}");
    assert_eq!(listening.deliver(&[("x-github-event", "push")], "{}").0, 403);
}
