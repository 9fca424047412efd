//! The official SDKs of vendors, unmodified, in a room, with the vendors' production hosts.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip};

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "acme"
[egress]
mode = "allowlist"
[service.shop]
run = "while sleep 0.2; do [ -e go ] && rm go && node shop.mjs > out 2>&1; done"
[integration.payments]
class = "mock"
hosts = ["api.stripe.com"]
[integration.code]
class = "mock"
hosts = ["api.github.com"]
[integration.chat]
class = "mock"
hosts = ["slack.com"]
[integration.phone]
class = "mock"
hosts = ["api.twilio.com"]
[integration.shipping]
class = "mock"
hosts = ["api.goshippo.com"]
[integration.tax]
class = "mock"
hosts = ["api.taxjar.com"]
"#;

/// All hosts, ports and certificates are those of production.
const SHOP: &str = r#"
import assert from 'node:assert/strict';
import Stripe from 'stripe';
import { Octokit } from '@octokit/rest';
import { WebClient } from '@slack/web-api';
import twilio from 'twilio';
import { Octokit as Whole } from 'octokit';

const stripe = new Stripe('sk_test_acme');
const customer = await stripe.customers.create({ email: 'buyer@example.com' });
assert.equal((await stripe.customers.retrieve(customer.id)).email, 'buyer@example.com');
const paid = await stripe.paymentIntents.create({ amount: 1690, currency: 'usd', payment_method: 'pm_card_visa', confirm: true, automatic_payment_methods: { enabled: true, allow_redirects: 'never' } });
assert.equal(paid.status, 'succeeded');
await assert.rejects(stripe.paymentIntents.create({ amount: 500, currency: 'usd', payment_method: 'pm_card_chargeDeclined', confirm: true }), (error) => error instanceof Stripe.errors.StripeCardError);

const octokit = new Octokit({ auth: 'ghp_test' });
const issue = await octokit.issues.create({ owner: 'acme', repo: 'shop', title: 'A lamp is broken' });
assert.equal((await octokit.issues.get({ owner: 'acme', repo: 'shop', issue_number: issue.data.number })).data.title, 'A lamp is broken');

const whole = new Whole({ auth: 'ghp_test' });
const second = await whole.rest.issues.create({ owner: 'acme', repo: 'shop', title: 'Another lamp' });
assert.equal((await whole.request('GET /repos/{owner}/{repo}/issues/{issue_number}', { owner: 'acme', repo: 'shop', issue_number: second.data.number })).data.title, 'Another lamp');

const slack = new WebClient('xoxb-test');
assert.equal((await slack.chat.postMessage({ channel: 'C000000001', text: 'hello' })).message.text, 'hello');

const message = await twilio('AC00000000000000000000000000000000', 'secret').messages.create({ to: '+15005550006', from: '+15005550006', body: 'Your order is on its way' });
assert.match(message.sid, /^SM/);

const rates = await fetch('https://api.goshippo.com/shipments/', { method: 'POST', headers: { authorization: 'ShippoToken shippo_test_x', 'content-type': 'application/json' }, body: JSON.stringify({ address_from: {}, address_to: {}, parcels: [{}] }) });
assert.ok(rates.ok, `${rates.status}`);
const taxes = await fetch('https://api.taxjar.com/v2/taxes', { method: 'POST', headers: { authorization: 'Bearer x', 'content-type': 'application/json' }, body: JSON.stringify({ to_country: 'US', to_zip: '90002', to_state: 'CA', amount: 15, shipping: 1.5 }) });
assert.ok(taxes.ok, `${taxes.status}`);
console.log('done');
"#;

/// Stripe's Python package has its own certificates, and a documented setting for others.
const PYTHON: &str = r#"
import os, sys
sys.path.insert(0, "py")
import stripe
stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
client = stripe.StripeClient("sk_test_acme")
customer = client.v1.customers.create({"email": "ann@example.com"})
assert client.v1.customers.retrieve(customer.id).email == "ann@example.com"
try:
    client.v1.payment_intents.create({"amount": 500, "currency": "usd", "payment_method": "pm_card_chargeDeclined", "confirm": True})
    raise SystemExit("a declined card pays")
except stripe.CardError as error:
    assert error.http_status == 402
print("done")
"#;

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn sandbox(env: &TestEnv) -> Option<std::path::PathBuf> {
    if !env.can_have_rooms("SDKs of vendors") {
        return None;
    }
    let repository = env.repository("acme", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("acme-sandboxes/a");
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let sdks = ["stripe", "@octokit/rest", "octokit", "@slack/web-api", "twilio"];
    let words: Vec<&str> = ["install", "--no-audit", "--no-fund"].into_iter().chain(sdks).collect();
    if !installed(&worktree, "npm", &words) {
        skip("SDKs of vendors in a room", "npm and a registry");
        return None;
    }
    fs::write(worktree.join("shop.mjs"), SHOP).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    Some(repository)
}

#[test]
fn official_sdks_reach_production_hosts_and_each_request_names_its_service() {
    let env = surroundings();
    let Some(repository) = sandbox(&env) else { return };
    let worktree = env.root().join("acme-sandboxes/a");
    env.ok(&repository, &["mark", "before", "-w", "a"]);
    env.ok(&repository, &["exec", "-w", "a", "--", "touch", "go"]);
    let hosts = [
        ("api.stripe.com", "payments", 4),
        ("api.github.com", "code", 4),
        ("slack.com", "chat", 1),
        ("api.twilio.com", "phone", 1),
        ("api.goshippo.com", "shipping", 1),
        ("api.taxjar.com", "tax", 1),
    ];
    let last = ["wait", "request", "host:api.taxjar.com", "--since", "before", "-w", "a"];
    let waited = env.run(&repository, &last);
    let out = fs::read_to_string(worktree.join("out")).unwrap_or_default();
    assert_eq!(waited.code, 0, "{out}\n{waited}");
    let all = env.json(&repository, &["requests", "--since", "before", "-w", "a", "--json"]);
    for (host, integration, count) in hosts {
        let of: Vec<_> = all.as_array().unwrap().iter().filter(|one| one["host"] == host).collect();
        assert_eq!(of.len(), count, "{host}: {all:#}");
        for one in of {
            assert_eq!(one["service"], "shop", "{one:#}");
            assert_eq!((&one["integration"], &one["matched"]), (&integration.into(), &true.into()));
        }
    }
    let listed = env.json(&repository, &["integrations", "-w", "a", "--json"]);
    let payments = listed.as_array().unwrap().iter().find(|one| one["name"] == "payments").unwrap();
    assert!(payments["sdks"][0].as_str().unwrap().starts_with("npm:stripe@"), "{payments}");

    let words = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "stripe"];
    if !installed(&worktree, "python3", &words) {
        return skip("the SDK of Stripe in Python", "pip and a registry");
    }
    let ran = env.run(&repository, &["exec", "-w", "a", "--", "python3", "-c", PYTHON]);
    assert_eq!(ran.stdout.trim(), "done", "{ran}");
}
