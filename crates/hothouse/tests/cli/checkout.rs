//! The example shop's checkout, unchanged, against its vendors' production hosts: everything on one
//! timeline.

use std::{collections::BTreeSet, fs, path::Path};

use hothouse_testkit::{TestEnv, skip};
use serde_json::Value;

use crate::{services::shop::shop, surroundings};

/// A discount code that the shop cannot handle.
const BROKEN: &str = "
[[step]]
click = \"button 'Add to cart'\"
[[step]]
expect = \"text 'cart'\"
[[step]]
goto = \"/cart\"
[[step]]
fill = \"placeholder 'Discount code'\"
value = \"SPRING15\"
[[step]]
click = \"button 'Apply'\"
[[step]]
wait = \"text 'wrong'\"
";

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> Value {
    env.json(repository, &[words, &["-w", "a", "--json"]].concat())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_checkout_is_on_one_timeline_and_so_is_one_that_breaks() {
    let env = surroundings();
    if !Path::new("/usr/bin/chromium").exists() {
        skip("the checkout of the example shop", "chromium");
        return;
    }
    let Some(repository) = shop(&env) else { return };
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a", "--timeout", "120s", "--seed", "m"]);
    env.ok(&repository, &["mark", "before", "-w", "a"]);
    let smoke = env.run(&repository, &["smoke", "checkout", "-w", "a", "--json"]);
    assert_eq!(smoke.code, 0, "{smoke}");
    paid(&env, &repository);
    broken(&env, &repository);
    let run = ask(&env, &repository, &["status"])["run"]["id"].as_str().unwrap().to_owned();
    let verified = env.json(&repository, &["verify", &run, "--json"]);
    assert_eq!(verified["ok"], true, "{verified:#}");
    env.ok(&repository, &["summary", "-w", "a"]);
    // Logs and flags are still complete after the sandbox is deleted.
    let artifacts = ask(&env, &repository, &["status"])["run"]["artifacts"].clone();
    env.ok(&repository, &["delete", "a", "--force", "--now"]);
    folder_of_a_run(Path::new(artifacts.as_str().unwrap()));
}

/// The public content of a run's folder; names that end with `/` are folders.
const NAMES: [&str; 19] = [
    "timeline.jsonl",
    "requests.jsonl",
    "webhooks.jsonl",
    "media-requests.jsonl",
    "analytics-events.jsonl",
    "dead-letters.jsonl",
    "errors/",
    "email-outbox/",
    "flags.json",
    "logs/",
    "browser/",
    "objects/",
    "seed-summary.json",
    "seed-summary.md",
    "run.json",
    "env.sh",
    "summary.md",
    "summary.html",
    "summary.json",
];

/// The internal content of a run's folder.
const OWN: [&str; 12] = [
    ".timeline/",
    "audit-raw.jsonl",
    "blobs/",
    "mock-state.jsonl",
    "queue-state.jsonl",
    "private/",
    "seed-context.json",
    "seed-origin.json",
    "seed/",
    "scenarios/",
    "sign-in/",
    "agents/",
];

/// Checks the names in the folder of a run that had everything.
fn folder_of_a_run(folder: &Path) {
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let name = |entry: fs::DirEntry| {
            let sign = if entry.file_type().unwrap().is_dir() { "/" } else { "" };
            format!("{}{sign}", entry.file_name().to_str().unwrap())
        };
        entries.map(name).collect()
    };
    let found = names(folder);
    let missing: Vec<_> = NAMES.iter().filter(|name| !found.contains(**name)).collect();
    let known: BTreeSet<&str> = NAMES.into_iter().chain(OWN).collect();
    let unknown: Vec<_> = found.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
    for file in
        ["requests.jsonl", "webhooks.jsonl", "media-requests.jsonl", "analytics-events.jsonl"]
    {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!lines.is_empty(), "{file}");
    }
    let mails = names(&folder.join("email-outbox"));
    let first = mails.iter().find_map(|name| name.strip_suffix(".eml")).unwrap();
    for ending in ["eml", "html", "txt", "json"] {
        assert!(mails.contains(&format!("{first}.{ending}")), "{ending}: {mails:?}");
    }
    assert!(names(&folder.join("browser")).contains("1/"));
    assert!(
        !names(&folder.join("errors")).is_empty() && !names(&folder.join("objects")).is_empty()
    );
    let logs = names(&folder.join("logs"));
    assert!(logs.iter().any(|name| name.starts_with("api")), "{logs:?}");
}

/// Checks page, vendor calls with their service, webhook, order, mail, events, invoice, and that
/// there is no error.
fn paid(env: &TestEnv, repository: &Path) {
    let find = |kind: &str, query: &str| {
        ask(env, repository, &["wait", kind, query, "--since", "before", "--timeout", "60s"])
    };
    find("browser", "");
    let calls = ask(env, repository, &["requests", "status~^2", "--since", "before"]);
    let of: BTreeSet<(String, String)> =
        list(&calls).iter().map(|call| (text(&call["host"]), text(&call["service"]))).collect();
    for host in ["api.stripe.com", "api.goshippo.com", "api.taxjar.com"] {
        assert!(of.contains(&(host.to_owned(), "api".to_owned())), "{host} is not in {of:?}");
    }
    let hook = find("webhook", "type=checkout.session.completed status=200");
    assert_eq!(hook["body"]["vendor"], "stripe", "{hook:#}");
    find("event", "name='Order Placed'");
    find("event", "name='Checkout Completed'");
    let invoice = find("object", "key:invoices/");
    assert_eq!(invoice["service"], "worker", "{invoice:#}");
    let rows = env.ok(
        repository,
        &[
            "exec",
            "-w",
            "a",
            "db",
            "--",
            "psql",
            "-qtAc",
            "select status from orders where email = 'guest@example.com'",
        ],
    );
    assert_eq!(rows.trim(), "paid");
    let mail = find("mail", "to:guest@example.com subject:receipt");
    assert_eq!(mail["service"], "worker", "{mail:#}");
    let shown = ask(env, repository, &["email", mail["id"].as_str().unwrap()]);
    let links: Vec<String> = list(&shown["links"]).iter().map(text).collect();
    assert!(links.iter().any(|link| link.contains("/orders/")), "{shown:#}");
    let since = ask(env, repository, &["since", "before"]);
    assert_eq!(
        (&since["counts"]["error"], &since["unmatched"]),
        (&0.into(), &0.into()),
        "{since:#}"
    );
}

/// Checks the grouped error, which is new, and the missing mail.
fn broken(env: &TestEnv, repository: &Path) {
    let script = repository.join("broken.toml");
    fs::write(&script, BROKEN).unwrap();
    env.ok(repository, &["mark", "broken", "-w", "a"]);
    let words = ["browse", "web", "/products/harbour-teapot", "--script", "broken.toml", "-w", "a"];
    let looked = env.run(repository, &words);
    assert!(looked.code == 0 || looked.code == 1, "{looked}");
    ask(env, repository, &["wait", "error", "", "--since", "broken", "--timeout", "60s"]);
    let errors = ask(env, repository, &["errors"]);
    // The error of the service whose code failed, and that of the page that called it.
    let own = list(&errors).iter().find(|issue| issue["type"] == "TypeError");
    let own = own.unwrap_or_else(|| panic!("{errors:#}"));
    assert_eq!(
        (&own["new"], &own["service"], &own["count"]),
        (&true.into(), &"api".into(), &1.into())
    );
    let since = ask(env, repository, &["since", "broken"]);
    assert_eq!(since["counts"]["mail"], 0, "{since:#}");
    assert!(since["new_errors"].as_u64() >= Some(1), "{since:#}");
    let none = ["wait", "mail", "subject:receipt", "--since", "broken", "--timeout", "200ms"];
    assert_eq!(env.run(repository, &[&none[..], &["-w", "a"]].concat()).code, 1);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
