//! The official SDKs of vendors, unmodified, against sinks that listen on loopback, and vendors' own libraries
//! against our signatures.
//!
//! They are installed from their registries into a folder of the test. If there is no registry, the
//! test says so.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

mod server;

use std::{path::Path, process::Command};

use hothouse_sinks::webhook::{Adversary, Delivery, adversary, fixture, fixture::Fill, keys};
use hothouse_testkit::skip;
use jiff::Timestamp;
use serde_json::{Value, json};
use server::Served;

const HOSTS: [&str; 10] = [
    "us.i.posthog.com",
    "api.segment.io",
    "api.mixpanel.com",
    "api2.amplitude.com",
    "stream.launchdarkly.com",
    "us.getunleash.io",
    "ofrep.example",
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
];

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn install(folder: &Path, packages: &[&str]) -> bool {
    std::fs::write(folder.join("package.json"), "{}").unwrap();
    let words = ["install", "--no-audit", "--no-fund", "--ignore-scripts"];
    let words: Vec<&str> = words.into_iter().chain(packages.iter().copied()).collect();
    installed(folder, "npm", &words)
}

fn run(folder: &Path, ports: &[(String, u16)], program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env_remove("HTTPS_PROXY").env_remove("HTTP_PROXY");
    for (host, port) in ports {
        command.env(host.replace(['.', '-'], "_").to_uppercase(), port.to_string());
    }
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim().ends_with("done"), "{program}:\n{out}\n{err}");
}

#[test]
fn sdks_of_analytics_flags_and_models_in_node_work_with_their_sinks() {
    let folder = tempfile::tempdir().unwrap();
    let sdks = [
        "posthog-node",
        "@segment/analytics-node",
        "mixpanel",
        "@amplitude/analytics-node",
        "@launchdarkly/node-server-sdk",
        "unleash-client",
        "@openfeature/server-sdk",
        "@openfeature/ofrep-provider",
        "openai",
        "@anthropic-ai/sdk",
        "@google/genai",
    ];
    if !install(folder.path(), &sdks) {
        return skip("SDKs of analytics, flags and models", "npm and a registry");
    }
    let served = Served::start(&HOSTS);
    std::fs::write(folder.path().join("sdks.mjs"), include_str!("sdks.mjs")).unwrap();
    run(folder.path(), &served.ports, "node", &["sdks.mjs"]);
    let records = served.records();
    let named = |kind: &str, name: &str, value: &str| {
        records.iter().any(|(found, body)| found == kind && body[name] == value)
    };
    for (vendor, event) in [
        ("posthog", "paid"),
        ("posthog", "$identify"),
        ("segment", "Paid"),
        ("segment", "$groupidentify"),
        ("mixpanel", "Paid"),
        ("amplitude", "Paid"),
    ] {
        let found = records.iter().any(|(kind, body)| {
            kind == "event" && body["vendor"] == vendor && body["name"] == event
        });
        assert!(found, "{vendor} {event}: {records:#?}");
    }
    for vendor in ["posthog", "launchdarkly", "unleash", "ofrep"] {
        assert!(named("flag", "vendor", vendor), "{vendor}: {records:#?}");
    }
    for provider in ["openai", "anthropic", "gemini"] {
        assert!(named("llm", "provider", provider), "{provider}: {records:#?}");
    }
}

#[test]
fn the_sdk_of_opentelemetry_exports_its_spans() {
    let folder = tempfile::tempdir().unwrap();
    let packages = [
        "@opentelemetry/sdk-trace-node",
        "@opentelemetry/exporter-trace-otlp-proto",
        "@opentelemetry/exporter-trace-otlp-http",
        "@opentelemetry/api",
    ];
    if !install(folder.path(), &packages) {
        return skip("the SDK of OpenTelemetry", "npm and a registry");
    }
    let served = Served::start(&["api.honeycomb.io"]);
    std::fs::write(folder.path().join("traces.mjs"), include_str!("traces.mjs")).unwrap();
    run(folder.path(), &served.ports, "node", &["traces.mjs"]);
    let names: Vec<String> = served
        .records()
        .iter()
        .map(|(_, body)| body["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["inner", "outer", "inner", "outer"]);
}

/// Builds the deliveries of vendors, ordinary and faulty, with what a library needs to verify them.
fn deliveries() -> Vec<Value> {
    let (now, url) = (Timestamp::now(), "https://app.example/hook");
    let kinds = [
        ("stripe", "payment_intent.succeeded"),
        ("svix", "user.created"),
        ("clerk", "user.created"),
        ("standard", "user.created"),
        ("github", "push"),
        ("slack", "event_callback"),
        ("discord", "ping"),
        ("shopify", "orders.create"),
        ("twilio", "sms"),
        ("sendgrid", "delivered"),
    ];
    let mut all = Vec::new();
    for (vendor, kind) in kinds {
        let make = |now, seed: &str| fixture(vendor, kind, &[], &Fill { now, seed }).unwrap();
        let scheme = make(now, "s").scheme;
        let secret = keys::new_secret(&scheme, &[7; 24]);
        let mut add = |delivery: &Delivery, how: &str| {
            let headers: serde_json::Map<String, Value> = delivery
                .headers(&secret, url)
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect();
            all.push(json!({
                "vendor": vendor, "how": how, "secret": secret, "public": keys::public_key(&scheme, &secret), "url": url,
                "headers": headers, "body": String::from_utf8(delivery.payload.bytes.clone()).unwrap(),
            }));
        };
        add(&Delivery::new(make(now, "s"), adversary::message_id("s"), now), "ordinary");
        for how in [Adversary::WrongSecret, Adversary::StaleTimestamp, Adversary::RotatedSecret] {
            for delivery in adversary::deliveries(how, &make, (now, "s")) {
                add(&delivery, how.as_str());
            }
        }
    }
    all
}

#[test]
fn libraries_of_vendors_verify_our_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let packages = [
        "stripe",
        "svix",
        "standardwebhooks",
        "@octokit/webhooks",
        "discord-interactions",
        "twilio",
        "@sendgrid/eventwebhook",
        "@slack/bolt",
        "@shopify/shopify-api",
    ];
    if !install(folder.path(), &packages) {
        return skip("libraries that verify webhooks", "npm and a registry");
    }
    let text = serde_json::to_string(&deliveries()).unwrap();
    std::fs::write(folder.path().join("deliveries.json"), text).unwrap();
    std::fs::write(folder.path().join("verify.mjs"), include_str!("verify.mjs")).unwrap();
    run(folder.path(), &[], "node", &["verify.mjs"]);
}
