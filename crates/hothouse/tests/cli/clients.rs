//! Real clients from npm and PyPI, unmodified, in a room: to production hosts and to ports of the room.

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
[integration.flags]
class = "sink"
hosts = ["*.launchdarkly.com", "eu.app.unleash-hosted.com", "*.flagsmith.com", "*.statsigcdn.com", "statsigapi.net", "cdn-global.configcat.com"]
[service.mail]
recipe = "mailbox"
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

/// A sandbox that is up, with packages in its worktree.
fn sandbox(env: &TestEnv, program: &str, words: &[&str]) -> Option<std::path::PathBuf> {
    if !env.can_have_rooms("clients in a room") {
        return None;
    }
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("shop-sandboxes/a");
    fs::write(worktree.join("package.json"), "{}").unwrap();
    if !installed(&worktree, program, words) {
        skip("clients in a room", &format!("{program} and a registry"));
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
}
