//! Real clients from npm and PyPI, unmodified, in a room: against production hosts and ports of the
//! room.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
allow = ["@toolchain"]
[flags]
new-checkout = false
arm = "control"
[integration.errors]
class = "sink"
hosts = ["o1.ingest.sentry.io"]
[integration.analytics]
class = "sink"
hosts = ["us.i.posthog.com"]
[integration.own-analytics]
class = "sink"
vendor = "posthog"
hosts = ["events.shop.example"]
[integration.llm]
class = "mock"
hosts = ["api.openai.com", "api.anthropic.com"]
[integration.traces]
class = "sink"
hosts = ["api.honeycomb.io"]
[integration.mail]
class = "sink"
hosts = ["api.resend.com", "api.postmarkapp.com"]
[integration.flags]
class = "sink"
hosts = ["*.launchdarkly.com", "eu.app.unleash-hosted.com", "*.flagsmith.com", "*.statsigcdn.com", "statsigapi.net", "cdn-global.configcat.com"]
[service.mail]
recipe = "mailbox"
[service.web]
run = "exec python3 -m http.server 3000 --bind 127.0.0.1 --directory public"
port = 3000
ready = { tcp = true }
url = "web"
[service.otel]
recipe = "otel"
port = 4317
[mail]
faults = [
    { to = "*@bounce.example", fault = "reject" },
    { to = "later@example.com", fault = "defer" },
    { to = "grey@example.com", fault = "greylist" },
    { to = "late@example.com", fault = "slow", after = "1s" },
]
"#;

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> Value {
    env.json(repository, &[words, &["-w", "a", "--json"]].concat())
}

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

/// Starts a sandbox, with packages in its worktree.
fn sandbox(env: &TestEnv, program: &str, words: &[&str]) -> Option<std::path::PathBuf> {
    if !env.can_have_rooms("clients in a room") {
        return None;
    }
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("shop-sandboxes/a");
    fs::write(worktree.join("package.json"), "{}").unwrap();
    if !installed(&worktree, program, words) {
        let client = if program == "npm" { "npm" } else { "pip" };
        skip("clients in a room", &format!("{client} and a registry"));
        return None;
    }
    env.ok(&repository, &["up", "-w", "a"]);
    Some(repository)
}

const PYTHON: &str = r#"
import sys
sys.path.insert(0, "py")
import posthog
client = posthog.Posthog("phc_x", host="https://us.i.posthog.com", sync_mode=True)
client.capture("Checkout Completed", distinct_id="u1", properties={"plan": "pro"})
own = posthog.Posthog("phc_x", host="https://events.shop.example", sync_mode=True)
own.capture("Own Host", distinct_id="u1")
import openai
answer = openai.OpenAI(api_key="sk-test").chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "hi"}])
assert answer.choices[0].message.content
stream = openai.OpenAI(api_key="sk-test").chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "hi"}], stream=True)
assert any(chunk.choices and chunk.choices[0].delta.content for chunk in stream)
import anthropic
message = anthropic.Anthropic(api_key="test").messages.create(model="claude-x", max_tokens=20, messages=[{"role": "user", "content": "hi"}])
assert message.content[0].text
import sentry_sdk
sentry_sdk.init(dsn="https://key@o1.ingest.sentry.io/1")
try: raise ValueError("a lamp broke")
except ValueError as error: sentry_sdk.capture_exception(error)
sentry_sdk.flush(10)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http
from grpc import Compression
provider = TracerProvider(resource=Resource({"service.name": "py"}))
provider.add_span_processor(SimpleSpanProcessor(Grpc(endpoint="http://127.0.0.1:4317", insecure=True)))
provider.add_span_processor(SimpleSpanProcessor(Grpc(endpoint="https://api.honeycomb.io:443", compression=Compression.Gzip)))
provider.add_span_processor(SimpleSpanProcessor(Http(endpoint="https://api.honeycomb.io/v1/traces")))
with provider.get_tracer("t").start_as_current_span("pay in python"): pass
provider.shutdown()
print("done")
"#;

#[test]
fn clients_of_pypi_reach_their_production_hosts() {
    let packages = [
        "posthog",
        "openai",
        "anthropic",
        "sentry-sdk",
        "opentelemetry-sdk",
        "opentelemetry-exporter-otlp-proto-grpc",
        "opentelemetry-exporter-otlp-proto-http",
    ];
    let env = surroundings();
    let words = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py"];
    let Some(repository) = sandbox(&env, "python3", &[&words[..], &packages].concat()) else {
        return;
    };
    let ran = env.run(&repository, &["exec", "-w", "a", "--", "python3", "-c", PYTHON]);
    assert_eq!(ran.stdout.trim(), "done", "{ran}");
    let required =
        ["analytics", "--require", "Checkout Completed", "--require", "Own Host", "-w", "a"];
    assert_eq!(env.run(&repository, &required).code, 0);
    let errors = ask(&env, &repository, &["errors"]);
    assert_eq!(errors[0]["type"], "ValueError", "{errors:#}");
    let calls = ask(&env, &repository, &["llm"]);
    let of = |provider: &str| {
        calls.as_array().unwrap().iter().filter(|call| call["provider"] == provider).count()
    };
    assert_eq!((of("openai"), of("anthropic")), (2, 1), "{calls:#}");
    let spans = ask(&env, &repository, &["timeline", "--kind", "trace", "name=\"pay in python\""]);
    assert_eq!(spans.as_array().unwrap().len(), 3, "{spans:#}");
}

const NODE: &str = r#"
import assert from 'node:assert';
import { NodeSDK, tracing, resources } from '@opentelemetry/sdk-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { trace } from '@opentelemetry/api';
import LaunchDarkly from '@launchdarkly/node-server-sdk';
import { Unleash } from 'unleash-client';
import { PostHog } from 'posthog-node';
import Statsig from 'statsig-node';
import { Flagsmith } from 'flagsmith-nodejs';
import * as configcat from 'configcat-node';

const sdk = new NodeSDK({
  serviceName: 'node',
  spanProcessors: [
    new tracing.SimpleSpanProcessor(new OTLPTraceExporter({ url: 'http://127.0.0.1:4317' })),
    new tracing.SimpleSpanProcessor(new OTLPTraceExporter({ url: 'https://api.honeycomb.io:443' })),
  ],
  instrumentations: [], metricReaders: [], logRecordProcessors: [],
});
sdk.start();
trace.getTracer('t').startActiveSpan('pay in node', (span) => span.end());
await sdk.shutdown();

const found = {};
const launchdarkly = LaunchDarkly.init('sdk-key', { logger: LaunchDarkly.basicLogger({ level: 'none' }) });
await launchdarkly.waitForInitialization({ timeout: 20 });
found.launchdarkly = await launchdarkly.variation('new-checkout', { kind: 'user', key: 'u1' }, null);
await launchdarkly.flush(); launchdarkly.close();

const unleash = new Unleash({ url: 'https://eu.app.unleash-hosted.com/demo/api/', appName: 'shop', customHeaders: { Authorization: 'x' } });
await new Promise((resolve, reject) => { unleash.on('synchronized', resolve); unleash.on('error', reject); });
found.unleash = unleash.isEnabled('new-checkout');
unleash.destroy();

const posthog = new PostHog('phc_x', { host: 'https://us.i.posthog.com' });
found.posthog = await posthog.isFeatureEnabled('new-checkout', 'u1');
await posthog.shutdown();

await Statsig.initialize('secret-key', { loggingIntervalMs: 1000 });
found.statsig = Statsig.checkGateSync({ userID: 'u1' }, 'new-checkout');
await Statsig.shutdownAsync?.() ?? Statsig.shutdown();

const flagsmith = new Flagsmith({ environmentKey: 'ser.x' });
found.flagsmith = (await flagsmith.getEnvironmentFlags()).isFeatureEnabled('new-checkout');
await flagsmith.close?.();

const cat = configcat.getClient('configcat-sdk-1/0000000000000000000000/0000000000000000000000', configcat.PollingMode.ManualPoll);
await cat.forceRefreshAsync();
found.configcat = await cat.getValueAsync('new-checkout', null);
cat.dispose();
console.log(JSON.stringify(found));
process.exit(0);
"#;

#[test]
fn a_pinned_flag_reaches_sdks_and_spans_come_by_grpc() {
    let packages = [
        "@opentelemetry/sdk-node",
        "@opentelemetry/exporter-trace-otlp-grpc",
        "@opentelemetry/api",
        "@launchdarkly/node-server-sdk",
        "unleash-client",
        "posthog-node",
        "statsig-node",
        "flagsmith-nodejs",
        "configcat-node",
    ];
    let env = surroundings();
    let words = ["install", "--no-audit", "--no-fund"];
    let Some(repository) = sandbox(&env, "npm", &[&words[..], &packages].concat()) else { return };
    fs::write(env.root().join("shop-sandboxes/a/clients.mjs"), NODE).unwrap();
    let told = || {
        let ran = env.run(&repository, &["exec", "-w", "a", "--", "node", "clients.mjs"]);
        let line = ran.stdout.lines().last().unwrap_or_default().to_owned();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {ran}"))
    };
    let vendors = ["launchdarkly", "unleash", "posthog", "statsig", "flagsmith", "configcat"];
    let all = |value: bool| -> Value {
        vendors
            .iter()
            .map(|vendor| ((*vendor).to_owned(), value.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    assert_eq!(told(), all(false));
    env.ok(&repository, &["flags", "set", "new-checkout", "true", "-w", "a"]);
    hothouse_testkit::wait_until("every SDK has the pinned value", || told() == all(true));
    let spans = ask(&env, &repository, &["timeline", "--kind", "trace", "name=\"pay in node\""]);
    assert!(spans.as_array().unwrap().len() >= 4, "{spans:#}");
}

const FAULTS: &str = r#"
import smtplib, time
def send(to):
    client = smtplib.SMTP("127.0.0.1", 1025, timeout=30)
    try:
        client.sendmail("shop@acme.test", [to], "Subject: x\r\n\r\nx")
        return 250
    except smtplib.SMTPRecipientsRefused as error: return error.recipients[to][0]
    finally: client.quit()
begun = time.time()
print(send("ann@example.com"), send("x@bounce.example"), send("later@example.com"), send("later@example.com"), send("grey@example.com"), send("grey@example.com"))
begun = time.time()
print(send("late@example.com"), time.time() - begun >= 1)
"#;

#[test]
fn mail_breaks_on_purpose_for_those_that_the_config_names() {
    let env = surroundings();
    let Some(repository) = sandbox(&env, "true", &[]) else { return };
    let told = env.ok(&repository, &["exec", "-w", "a", "--", "python3", "-c", FAULTS]);
    assert_eq!(told, "250 550 451 451 451 250\n250 True\n");
    let mails = ask(&env, &repository, &["emails"]);
    assert_eq!(mails.as_array().unwrap().len(), 3, "{mails:#}");
    // Through vendor APIs, each with its own error; the first call to a greylisted recipient fails.
    let told = env.ok(&repository, &["exec", "-w", "a", "--", "python3", "-c", API_FAULTS]);
    assert_eq!(told, "200 422 validation_error 429 429 200 True\n422 406 200\n");
    let mails = ask(&env, &repository, &["emails", "via=resend"]);
    assert_eq!(mails.as_array().unwrap().len(), 4, "{mails:#}");
    // Links to addresses without an app are reported, and so are those that cannot be opened from
    // outside.
    let mail = ask(&env, &repository, &["email", "latest", "--grep", "links"]);
    let of = |check: &str| {
        let checks = mail["checks"].as_array().unwrap().iter();
        let mut found = checks.filter(|one| one["check"] == check);
        found.next().unwrap_or_else(|| panic!("{mail:#}"))["text"].as_str().unwrap().to_owned()
    };
    assert!(of("broken-link").contains("https://nobody.a.shop.localhost/x"), "{mail:#}");
    assert!(
        !of("broken-link").contains("web.a.shop.localhost") && !of("broken-link").contains("token")
    );
    assert!(of("loopback-link").contains("http://localhost:3000/y"), "{mail:#}");
}

/// Sends mails by HTTP, and asks for one that was sent.
const API_FAULTS: &str = r#"
import json, time, urllib.error, urllib.request as u
def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = u.Request(url, data=data, headers={"Content-Type": "application/json", "Accept": "application/json", "Authorization": "Bearer re_x"})
    try:
        with u.urlopen(request, timeout=30) as answer: return answer.status, json.load(answer)
    except urllib.error.HTTPError as error: return error.code, json.load(error)
def resend(to, **more):
    return call("https://api.resend.com/emails", {"from": "shop@acme.test", "to": [to], "subject": "x", "text": "x", **more})
status, sent = resend("ann@example.com", subject="kept", reply_to="help@acme.test")
found = call("https://api.resend.com/emails/" + sent["id"])
assert found[0] == 200 and found[1]["subject"] == "kept" and found[1]["to"] == ["ann@example.com"] and found[1]["text"].strip() == "x", found
assert call("https://api.resend.com/emails/00000000-0000-4000-8000-000000000000")[0] == 404
rejected, why = resend("x@bounce.example")
grey = [resend("grey2@example.com")[0] for _ in range(1)]
begun = time.time()
slow = resend("late@example.com")[0]
print(status, rejected, why["name"], resend("later@example.com")[0], call("https://api.resend.com/emails/batch", [{"from": "shop@acme.test", "to": ["a@example.com", "later@example.com"], "subject": "x", "text": "x"}])[0], slow, time.time() - begun >= 1)
def postmark(to):
    return call("https://api.postmarkapp.com/email", {"From": "shop@acme.test", "To": to, "Subject": "x", "TextBody": "x"})
no, why = postmark("x@bounce.example")
print(no, why["ErrorCode"], postmark("ann@example.com")[0])
resend("ann@example.com", subject="links", text="https://nobody.a.shop.localhost/x?token=1 https://web.a.shop.localhost/ok http://localhost:3000/y")
"#;

/// A page with browser SDKs, whose script throws.
const PAGE: &str = r#"
import * as Sentry from '@sentry/browser';
import posthog from 'posthog-js';
Sentry.init({ dsn: 'https://key@o1.ingest.sentry.io/2' });
posthog.init('phc_x', { api_host: 'https://us.i.posthog.com', autocapture: false, disable_session_recording: true, request_batching: false });
posthog.capture('Page Broke', { lamp: 7, cut: 'x\ud83d' });
function breakLamp(lamp) { return lamp.light.on; }
setTimeout(() => breakLamp({}), 100);
setTimeout(() => { document.title = 'broken'; }, 1500);
"#;

#[test]
fn sdks_of_browsers_report_and_their_stacks_lead_to_the_sources() {
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("SDKs of browsers in a room", "chromium");
    }
    let env = surroundings();
    let words = [
        "install",
        "--no-audit",
        "--no-fund",
        "@sentry/browser@11.11.0",
        "posthog-js@1.434.18",
        "esbuild",
    ];
    let Some(repository) = sandbox(&env, "npm", &words) else { return };
    let worktree = env.root().join("shop-sandboxes/a");
    fs::create_dir_all(worktree.join("src")).unwrap();
    fs::write(worktree.join("src/page.js"), PAGE).unwrap();
    let build =
        ["src/page.js", "--bundle", "--minify", "--sourcemap", "--outfile=public/assets/app.js"];
    let esbuild = worktree.join("node_modules/.bin/esbuild");
    assert!(installed(&worktree, esbuild.to_str().unwrap(), &build));
    let page = "<!doctype html><title>shop</title><p>Shop</p><script src=/assets/app.js></script>";
    fs::write(worktree.join("public/index.html"), page).unwrap();
    let looked = env.run(&repository, &["browse", "web", "/", "-w", "a", "--json"]);
    assert!(looked.code == 0 || looked.code == 1, "{looked}");
    // The SDK drops what it takes for an automated browser, and sends half of an emoji as it is.
    let event = ask(&env, &repository, &["wait", "event", "name='Page Broke'", "--timeout", "30s"]);
    assert_eq!(event["body"]["properties"]["cut"], "x\u{fffd}", "{event:#}");
    let error = ask(&env, &repository, &["wait", "error", "", "--timeout", "30s"]);
    let shown = ask(&env, &repository, &["errors", error["id"].as_str().unwrap()]);
    let frames = shown["frames"].as_array().unwrap();
    // The last one is where it broke; whoever called it may be in the same file.
    let own = frames.iter().rfind(|frame| frame["file"] == "src/page.js");
    let own = own.unwrap_or_else(|| panic!("{shown:#}"));
    assert_eq!(own["line"], 7, "{shown:#}");
    assert!(own["module"].as_str().unwrap().contains("/assets/app.js:"), "{own:#}");

    // An inline map works as well.
    fs::remove_file(worktree.join("public/assets/app.js.map")).unwrap();
    let build = [
        "src/page.js",
        "--bundle",
        "--minify",
        "--sourcemap=inline",
        "--outfile=public/assets/app.js",
    ];
    assert!(installed(&worktree, esbuild.to_str().unwrap(), &build));
    env.ok(&repository, &["mark", "inline", "-w", "a"]);
    let looked = env.run(&repository, &["browse", "web", "/", "-w", "a", "--json"]);
    assert!(looked.code == 0 || looked.code == 1, "{looked}");
    let error =
        ask(&env, &repository, &["wait", "error", "", "--since", "inline", "--timeout", "30s"]);
    let frames = error["body"]["frames"].as_array().unwrap();
    assert!(frames.iter().any(|frame| frame["file"] == "src/page.js"), "{error:#}");

    // A page that loads PostHog by its snippet.
    fs::write(worktree.join("public/snippet.html"), SNIPPET).unwrap();
    env.run(&repository, &["browse", "web", "/snippet.html", "-w", "a", "--json"]);
    let event = ["wait", "event", "name='From Snippet'", "--timeout", "30s"];
    let event = ask(&env, &repository, &event);
    assert_eq!(event["body"]["properties"]["lamp"], 7, "{event:#}");
    ask(
        &env,
        &repository,
        &["wait", "event", "name=$identify", "--since", "inline", "--timeout", "30s"],
    );
}

/// The stub of PostHog's snippet, in readable form.
const SNIPPET: &str = r#"<!doctype html><title>snippet</title><script>
const stub = window.posthog = [];
stub._i = [];
stub.init = (token, config, name) => {
  for (const method of ['capture', 'identify', 'register']) stub[method] = (...words) => stub.push([method, ...words]);
  const script = document.createElement('script');
  script.src = config.api_host + '/static/array.js';
  document.head.append(script);
  stub._i.push([token, config, name]);
};
posthog.init('phc_x', { api_host: 'https://us.i.posthog.com' });
posthog.identify('u7');
posthog.capture('From Snippet', { lamp: 7 });
</script><p>Shop</p>"#;

/// Reports an error as Sentry's SDKs do.
const REPORT: &str = r#"
import json, sys, urllib.request as u
event = {"event_id": sys.argv[2], "platform": "python", "level": "error", "exception": {"values": [{"type": sys.argv[1], "value": "x", "stacktrace": {"frames": [{"filename": "shop.py", "function": "pay", "lineno": 7, "in_app": True}]}}]}}
body = "\n".join(json.dumps(part) for part in [{"event_id": sys.argv[2]}, {"type": "event"}, event]) + "\n"
u.urlopen(u.Request("https://o1.ingest.sentry.io/api/1/envelope/", data=body.encode(), headers={"X-Sentry-Auth": "Sentry sentry_version=7, sentry_key=k"}), timeout=20)
"#;

#[test]
fn an_issue_is_new_unless_the_base_has_it_and_what_nobody_reports_is_a_gap() {
    let env = surroundings();
    if !env.can_have_rooms("issues of the base") {
        return;
    }
    let config = "[project]\nname = \"shop\"\n[egress]\nmode = \"allowlist\"\nallow = [\"@toolchain\"]\n[integration.errors]\nclass = \"sink\"\nhosts = [\"o1.ingest.sentry.io\"]\n[integration.events]\nclass = \"sink\"\nhosts = [\"us.i.posthog.com\"]\n[service.web]\nrun = \"exec python3 serve.py\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";
    let serve = "import http.server\nclass Serve(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        body = b'<!doctype html><title>t</title><script>throw new Error(1)</script>' if self.path == '/page' else b''\n        self.send_response(500 if self.path == '/broken' else 200); self.send_header('content-type', 'text/html'); self.send_header('content-length', str(len(body))); self.end_headers(); self.wfile.write(body)\nhttp.server.HTTPServer(('127.0.0.1', 3000), Serve).serve_forever()\n";
    let repository = env.repository_with("shop", config, &[("serve.py", serve)]);
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", "-w", name]);
    }
    // A 500 response without an error report.
    env.ok(&repository, &["mark", "quiet", "-w", "a"]);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let direct = status["apps"]["web"]["url"].as_str().unwrap().to_owned();
    let curl = ["-sk", "-o", "/dev/null", &format!("{direct}/broken")];
    assert!(Command::new("curl").args(curl).status().unwrap().success());
    let gap = [
        "wait",
        "log",
        "gap=unreported",
        "--since",
        "quiet",
        "--timeout",
        "60s",
        "-w",
        "a",
        "--json",
    ];
    let gap = env.json(&repository, &gap);
    assert!(gap["summary"].as_str().unwrap().contains("GET /broken with 500"), "{gap:#}");
    // The same for a crashing service, and an error on a page.
    let unreported = |query: &str| {
        let query = format!("gap=unreported text:'{query}'");
        env.json(
            &repository,
            &["wait", "log", &query, "--since", "quiet", "--timeout", "60s", "-w", "a", "--json"],
        )
    };
    env.ok(&repository, &["signal", "web", "KILL", "-w", "a"]);
    let gap = unreported("crashed");
    assert!(gap["summary"].as_str().unwrap().contains("service `web` crashed"), "{gap:#}");
    env.ok(&repository, &["restart", "web", "-w", "a"]);
    if Path::new("/usr/bin/chromium").exists() {
        let looked = env.run(&repository, &["browse", "web", "/page", "-w", "a", "--json"]);
        assert_eq!(looked.code, 1, "{looked}");
        unreported("page");
    }

    let report = |name: &str, kind: &str, id: u32| {
        let id = format!("{id:032}");
        env.ok(&repository, &["exec", "-w", name, "--", "python3", "-c", REPORT, kind, &id]);
    };
    let news = |name: &str| -> Vec<(String, bool)> {
        let all = env.json(&repository, &["errors", "-w", name, "--json"]);
        let one = |issue: &Value| {
            (issue["type"].as_str().unwrap().to_owned(), issue["new"].as_bool().unwrap())
        };
        let mut all: Vec<_> = all.as_array().unwrap().iter().map(one).collect();
        all.sort();
        all
    };
    report("a", "OldError", 1);
    assert_eq!(news("a"), [("OldError".to_owned(), true)]);
    env.ok(&repository, &["mark", "before", "-w", "b"]);
    env.ok(&repository, &["exec", "-w", "b", "--", "sh", "-c", "echo '#' >> serve.py"]);
    report("b", "OldError", 2);
    report("b", "NewError", 3);
    assert_eq!(news("b"), [("NewError".to_owned(), true), ("OldError".to_owned(), false)]);
    let since = env.json(&repository, &["since", "before", "-w", "b", "--json"]);
    assert_eq!(since["new_errors"], 1, "{since:#}");

    // A property that events have at the base and no longer have here is reported.
    let event = |name: &str, properties: &str| {
        let words = ["exec", "-w", name, "--", "python3", "-c", CAPTURE, properties];
        env.ok(&repository, &words);
    };
    event("a", r#"{"plan": "pro", "coupon": "x"}"#);
    event("a", r#"{"plan": "free"}"#);
    event("b", r#"{"total": 5}"#);
    let ran = env.run(&repository, &["analytics", "-w", "b"]);
    assert!(ran.stderr.contains("Event `paid` lost property `plan` against the base."), "{ran}");
    assert!(ran.stderr.contains("Event `paid` gained property `total`"), "{ran}");
    let found = env.json(&repository, &["analytics", "lost=plan", "-w", "b", "--json"]);
    assert_eq!(found[0]["lost"], serde_json::json!(["plan"]), "{found:#}");
    let base = env.json(&repository, &["analytics", "-w", "a", "--json"]);
    assert!(base.as_array().unwrap().iter().all(|one| one.get("lost").is_none()), "{base:#}");
}

/// Sends an event as PostHog's SDKs do.
const CAPTURE: &str = r#"
import json, sys, urllib.request as u
body = {"api_key": "phc_1", "batch": [{"event": "paid", "distinct_id": "u1", "properties": json.loads(sys.argv[1])}]}
u.urlopen(u.Request("https://us.i.posthog.com/batch/", data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}), timeout=20)
"#;
