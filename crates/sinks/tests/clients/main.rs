//! The official SDKs of vendors, unmodified, against sinks that listen on loopback.
//!
//! They are installed from their registries into a folder of the test. If there is no registry, the
//! test says so; the same calls are made manually in unit tests.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

mod server;

use std::{collections::BTreeSet, path::Path, process::Command};

use hothouse_sinks::Recorded;
use hothouse_testkit::skip;
use serde_json::json;
use server::Served;

const HOSTS: [&str; 12] = [
    "api.resend.com",
    "api.sendgrid.com",
    "api.postmarkapp.com",
    "api.mailgun.net",
    "email.us-east-1.amazonaws.com",
    "sns.us-east-1.amazonaws.com",
    "mandrillapp.com",
    "api.twilio.com",
    "rest.nexmo.com",
    "o1.ingest.sentry.io",
    "notify.bugsnag.com",
    "api.rollbar.com",
];

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn run(folder: &Path, served: &Served, program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env_remove("HTTPS_PROXY").env_remove("HTTP_PROXY");
    for (host, port) in &served.ports {
        command.env(host.replace(['.', '-'], "_").to_uppercase(), port.to_string());
    }
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim().ends_with("done"), "{program}:\n{out}\n{err}");
}

/// Checks the mails of vendors, each with the same text, file and Bcc recipient.
fn check_mails(records: &[Recorded], vias: &[&str]) {
    let mails: Vec<_> = records.iter().filter(|record| record.body["via"].is_string()).collect();
    let found: BTreeSet<&str> = mails.iter().filter_map(|mail| mail.body["via"].as_str()).collect();
    assert_eq!(found, vias.iter().copied().collect(), "{mails:#?}");
    for mail in mails.iter().filter(|mail| mail.body["subject"] == "Grüße") {
        let body = &mail.body;
        assert_eq!(body["to"], json!(["ann@x.example"]), "{body:#}");
        assert_eq!(body["bcc"], json!(["hidden@x.example"]), "{body:#}");
        assert_eq!(body["codes"], json!(["482913"]), "{body:#}");
        assert_eq!(body["links"], json!(["https://shop.example/o/77"]), "{body:#}");
        assert_eq!(body["attachments"][0]["name"], "ä.txt", "{body:#}");
        assert_eq!(body["attachments"][0]["size"], 3, "{body:#}");
    }
}

fn check_errors(records: &[Recorded], vendors: &[&str]) {
    let errors: Vec<_> =
        records.iter().filter(|record| record.body["vendor"].is_string()).collect();
    let found: BTreeSet<&str> =
        errors.iter().filter_map(|one| one.body["vendor"].as_str()).collect();
    assert_eq!(found, vendors.iter().copied().collect(), "{errors:#?}");
    for error in errors {
        let body = &error.body;
        assert!(error.summary.contains("broke"), "{body:#}");
        assert!(body["culprit"].as_str().unwrap().contains("charge"), "{body:#}");
        let frames = body["frames"].as_array().unwrap();
        assert!(
            frames.last().unwrap()["function"].as_str().unwrap().contains("charge"),
            "{body:#}"
        );
    }
}

#[test]
fn clients_of_vendors_in_node_work_with_their_sinks() {
    let folder = tempfile::tempdir().unwrap();
    let sdks = [
        "nodemailer",
        "resend",
        "@sendgrid/mail",
        "postmark",
        "mailgun.js",
        "form-data",
        "@mailchimp/mailchimp_transactional",
        "twilio",
        "@vonage/server-sdk",
        "@sentry/node@11.11.0",
        "@bugsnag/js",
        "rollbar",
    ];
    let words: Vec<&str> = ["install", "--no-audit", "--no-fund"].into_iter().chain(sdks).collect();
    std::fs::write(folder.path().join("package.json"), "{}").unwrap();
    if !installed(folder.path(), "npm", &words) {
        return skip("SDKs of mail and errors in Node.js", "npm and a registry");
    }
    let served = Served::start(&HOSTS);
    for (name, text) in
        [("mail.mjs", include_str!("mail.mjs")), ("errors.mjs", include_str!("errors.mjs"))]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
        run(folder.path(), &served, "node", &[name]);
    }
    let records = served.records();
    let vias =
        ["smtp", "resend", "sendgrid", "postmark", "mailgun", "mandrill", "twilio", "vonage"];
    check_mails(&records, &vias);
    check_errors(&records, &["sentry", "bugsnag", "rollbar"]);
}

#[test]
fn clients_of_vendors_in_python_work_with_their_sinks() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "--target",
        "py",
        "sentry-sdk",
        "resend",
        "boto3",
    ];
    if !installed(folder.path(), "python3", &words) {
        return skip("SDKs of mail and errors in Python", "pip and a registry");
    }
    let served = Served::start(&HOSTS);
    std::fs::write(folder.path().join("client.py"), include_str!("client.py")).unwrap();
    run(folder.path(), &served, "python3", &["client.py"]);
    let records = served.records();
    check_mails(&records, &["smtp", "resend", "ses", "sns"]);
    check_errors(&records, &["sentry"]);
}
