//! The official SDKs of vendors, unmodified, against mocks that listen on loopback.
//!
//! They are installed from their registries into a folder of the test. If there is no registry, the
//! test says so; the same calls are made manually in unit tests.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

mod server;

use std::{path::Path, process::Command};

use hothouse_testkit::skip;
use server::Served;

const HOSTS: [&str; 5] =
    ["api.stripe.com", "api.github.com", "slack.com", "api.twilio.com", "checkout.stripe.com"];

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn run(folder: &Path, served: &Served, program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env_remove("HTTPS_PROXY").env_remove("HTTP_PROXY");
    for (host, port) in &served.ports {
        let name = host.replace('.', "_").to_uppercase();
        command.env(name, port.to_string());
    }
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim().ends_with("done"), "{program}:\n{out}\n{err}");
}

#[test]
fn clients_of_vendors_in_node_work_with_their_mocks() {
    let folder = tempfile::tempdir().unwrap();
    let sdks = ["stripe", "@octokit/rest", "@slack/web-api", "twilio"];
    let words: Vec<&str> = ["install", "--no-audit", "--no-fund"].into_iter().chain(sdks).collect();
    std::fs::write(folder.path().join("package.json"), "{}").unwrap();
    if !installed(folder.path(), "npm", &words) {
        return skip("SDKs of vendors in Node.js", "npm and a registry");
    }
    let served = Served::start(&HOSTS);
    for (name, text) in
        [("stripe.mjs", include_str!("stripe.mjs")), ("others.mjs", include_str!("others.mjs"))]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
        run(folder.path(), &served, "node", &[name]);
    }
    let webhooks = served.webhooks();
    for kind in
        ["checkout.session.completed", "charge.refunded", "payment_intent.payment_failed", "issues"]
    {
        assert!(webhooks.iter().any(|found| found == kind), "{kind}: {webhooks:?}");
    }
}

#[test]
fn clients_of_stripe_in_python_work_with_its_mock() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "stripe"];
    if !installed(folder.path(), "python3", &words) {
        return skip("the SDK of Stripe in Python", "pip and a registry");
    }
    let served = Served::start(&HOSTS);
    std::fs::write(folder.path().join("client.py"), include_str!("client.py")).unwrap();
    run(folder.path(), &served, "python3", &["client.py"]);
}
