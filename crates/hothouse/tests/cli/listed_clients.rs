//! The most used SDKs, unmodified, from a room to production hosts: commands report what each sent.

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
arm = "test"
[integration.mail]
class = "sink"
hosts = ["smtp.postmarkapp.com", "api.resend.com", "api.sendgrid.com", "api.postmarkapp.com", "api.mailgun.net", "mandrillapp.com", "api.twilio.com", "email.us-east-1.amazonaws.com", "sns.us-east-1.amazonaws.com"]
[integration.errors]
class = "sink"
hosts = ["o1.ingest.sentry.io"]
[integration.analytics]
class = "sink"
hosts = ["us.i.posthog.com", "api.segment.io", "cdn.segment.com", "api.mixpanel.com", "api2.amplitude.com"]
[integration.flags]
class = "sink"
vendor = "openfeature"
hosts = ["flags.shop.example"]
[integration.models]
class = "mock"
hosts = ["api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"]
[integration.traces]
class = "sink"
hosts = ["api.honeycomb.io"]
"#;

const PACKAGES: [&str; 24] = [
    "nodemailer",
    "resend",
    "@sendgrid/mail",
    "postmark",
    "mailgun.js",
    "form-data",
    "@mailchimp/mailchimp_transactional",
    "twilio",
    "@aws-sdk/client-ses",
    "@aws-sdk/client-sesv2",
    "@aws-sdk/client-sns",
    "@sentry/node@11.11.0",
    "posthog-node",
    "@segment/analytics-node",
    "mixpanel",
    "@amplitude/analytics-node",
    "@openfeature/server-sdk",
    "@openfeature/ofrep-provider",
    "openai",
    "@anthropic-ai/sdk",
    "@google/genai",
    "@opentelemetry/sdk-node",
    "@opentelemetry/exporter-trace-otlp-http",
    "@opentelemetry/api",
];

const SHOP: &str = r#"
import assert from 'node:assert/strict';
const tell = (name) => console.log(name);
const mail = { from: 'shop@acme.example', to: 'ann@x.example', subject: 'Receipt', text: 'See https://shop.example/o/77' };
{
  const { default: nodemailer } = await import('nodemailer');
  const smtp = nodemailer.createTransport({ host: 'smtp.postmarkapp.com', port: 587, requireTLS: true, auth: { user: 'u', pass: 'p' } });
  assert.equal((await smtp.sendMail({ ...mail, bcc: 'hidden@x.example' })).accepted.length, 2);
  tell('nodemailer');
}
{
  const { Resend } = await import('resend');
  const client = new Resend('re_test');
  const { data, error } = await client.emails.send(mail);
  assert.ok(data?.id, JSON.stringify(error));
  assert.equal((await client.emails.get(data.id)).data.subject, 'Receipt');
  tell('resend');
}
{
  const { default: sendgrid } = await import('@sendgrid/mail');
  sendgrid.setApiKey('SG.test');
  assert.equal((await sendgrid.send(mail))[0].statusCode, 202);
  tell('@sendgrid/mail');
}
{
  const { default: postmark } = await import('postmark');
  const sent = await new postmark.ServerClient('token').sendEmail({ From: mail.from, To: mail.to, Subject: mail.subject, TextBody: mail.text });
  assert.equal(sent.ErrorCode, 0);
  tell('postmark');
}
{
  const [{ default: Mailgun }, { default: FormData }] = [await import('mailgun.js'), await import('form-data')];
  const client = new Mailgun(FormData).client({ username: 'api', key: 'k' });
  assert.match((await client.messages.create('acme.example', mail)).message, /Queued/);
  tell('mailgun.js');
}
{
  const { default: mailchimp } = await import('@mailchimp/mailchimp_transactional');
  const message = { from_email: mail.from, subject: mail.subject, text: mail.text, to: [{ email: mail.to }] };
  assert.equal((await mailchimp('key').messages.send({ message }))[0].status, 'sent');
  tell('@mailchimp/mailchimp_transactional');
}
{
  const { default: twilio } = await import('twilio');
  const client = twilio('AC00000000000000000000000000000000', 'token');
  assert.match((await client.messages.create({ to: '+15550001', from: '+15550002', body: 'Your code is 482913' })).sid, /^SM/);
  tell('twilio');
}
const aws = { region: 'us-east-1', credentials: { accessKeyId: 'acme', secretAccessKey: 'acme' } };
{
  const { SESClient, SendEmailCommand } = await import('@aws-sdk/client-ses');
  const Message = { Subject: { Data: mail.subject }, Body: { Text: { Data: mail.text } } };
  const sent = await new SESClient(aws).send(new SendEmailCommand({ Source: mail.from, Destination: { ToAddresses: [mail.to] }, Message }));
  assert.ok(sent.MessageId);
  const two = await import('@aws-sdk/client-sesv2');
  const Content = { Simple: Message };
  assert.ok((await new two.SESv2Client(aws).send(new two.SendEmailCommand({ FromEmailAddress: mail.from, Destination: { ToAddresses: [mail.to] }, Content }))).MessageId);
  tell('@aws-sdk/client-ses');
}
{
  const { SNSClient, PublishCommand } = await import('@aws-sdk/client-sns');
  assert.ok((await new SNSClient(aws).send(new PublishCommand({ PhoneNumber: '+15550001', Message: 'Your code is 482913' }))).MessageId);
  tell('@aws-sdk/client-sns');
}
{
  const Sentry = await import('@sentry/node');
  Sentry.init({ dsn: 'https://key@o1.ingest.sentry.io/2' });
  Sentry.captureException(new TypeError('a lamp broke'));
  assert.equal(await Sentry.flush(10000), true);
  tell('@sentry/node');
}
{
  const { PostHog } = await import('posthog-node');
  const client = new PostHog('phc_x', { host: 'https://us.i.posthog.com', flushAt: 1 });
  client.capture({ distinctId: 'u1', event: 'Paid', properties: { sdk: 'posthog-node' } });
  await client.shutdown();
  tell('posthog-node');
}
{
  const { Analytics } = await import('@segment/analytics-node');
  const client = new Analytics({ writeKey: 'k', flushAt: 1 });
  client.track({ userId: 'u1', event: 'Paid', properties: { sdk: 'segment' } });
  await client.closeAndFlush();
  tell('@segment/analytics-node');
}
{
  const { default: Mixpanel } = await import('mixpanel');
  await new Promise((done, fail) => Mixpanel.init('t').track('Paid', { distinct_id: 'u1', sdk: 'mixpanel' }, (error) => (error ? fail(error) : done())));
  tell('mixpanel');
}
{
  const amplitude = await import('@amplitude/analytics-node');
  amplitude.init('k', { flushQueueSize: 1 });
  await amplitude.track('Paid', { sdk: 'amplitude' }, { user_id: 'u1' }).promise;
  await amplitude.flush().promise;
  tell('@amplitude/analytics-node');
}
{
  const { OpenFeature } = await import('@openfeature/server-sdk');
  const { OFREPProvider } = await import('@openfeature/ofrep-provider');
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: 'https://flags.shop.example' }));
  assert.equal(await OpenFeature.getClient().getStringValue('arm', 'none'), 'test');
  tell('@openfeature/ofrep-provider');
}
{
  const { default: OpenAI } = await import('openai');
  const client = new OpenAI({ apiKey: 'sk-test' });
  const messages = [{ role: 'user', content: 'hello there' }];
  assert.equal((await client.chat.completions.create({ model: 'gpt-4o', messages })).choices[0].message.content, 'hello there');
  assert.ok((await client.responses.create({ model: 'gpt-4o', input: 'hello there' })).output_text);
  assert.ok((await client.embeddings.create({ model: 'text-embedding-3-small', input: 'x' })).data[0].embedding.length);
  tell('openai');
}
{
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const message = await new Anthropic({ apiKey: 'test' }).messages.create({ model: 'claude-x', max_tokens: 20, messages: [{ role: 'user', content: 'hello there' }] });
  assert.ok(message.content[0].text);
  tell('@anthropic-ai/sdk');
}
{
  const { GoogleGenAI } = await import('@google/genai');
  const client = new GoogleGenAI({ apiKey: 'k' });
  assert.equal((await client.models.generateContent({ model: 'gemini-2.5-flash', contents: 'hello there' })).text, 'hello there');
  tell('@google/genai');
}
{
  const { NodeSDK } = await import('@opentelemetry/sdk-node');
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
  const { trace } = await import('@opentelemetry/api');
  const sdk = new NodeSDK({ serviceName: 'shop', traceExporter: new OTLPTraceExporter({ url: 'https://api.honeycomb.io/v1/traces' }) });
  sdk.start();
  trace.getTracer('shop').startSpan('pay by http').end();
  await sdk.shutdown();
  tell('@opentelemetry/sdk-node');
}
process.exit(0);
"#;

fn installed(folder: &Path, words: &[&str]) -> bool {
    let output = Command::new("npm").args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn sdks_reach_the_sinks_by_production_hosts() {
    let env: TestEnv = surroundings();
    if !env.can_have_rooms("SDKs of the list in a room") {
        return;
    }
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("shop-sandboxes/a");
    fs::write(worktree.join("package.json"), "{}").unwrap();
    if !installed(&worktree, &[&["install", "--no-audit", "--no-fund"], &PACKAGES[..]].concat()) {
        return skip("SDKs of the list in a room", "npm and a registry");
    }
    fs::write(worktree.join("shop.mjs"), SHOP).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let ran = env.run(&repository, &["exec", "-w", "a", "--", "node", "shop.mjs"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ask = |words: &[&str]| env.json(&repository, &[words, &["-w", "a", "--json"]].concat());
    let count = |words: &[&str]| ask(words).as_array().unwrap().len();
    for (via, expected) in [
        ("smtp", 1),
        ("resend", 1),
        ("sendgrid", 1),
        ("postmark", 1),
        ("mailgun", 1),
        ("mandrill", 1),
        ("ses", 2),
        ("twilio", 1),
        ("sns", 1),
    ] {
        assert_eq!(count(&["emails", &format!("via={via}")]), expected, "{via}");
    }
    let mail = ask(&["email", "latest", "--grep", "Receipt"]);
    assert_eq!(mail["links"], serde_json::json!(["https://shop.example/o/77"]), "{mail:#}");
    for sdk in ["posthog-node", "segment", "mixpanel", "amplitude"] {
        assert_eq!(
            count(&["analytics", "name=Paid", &format!("properties.sdk={sdk}")]),
            1,
            "{sdk}"
        );
    }
    let errors = ask(&["errors"]);
    assert_eq!((&errors[0]["type"], &errors[0]["count"]), (&"TypeError".into(), &1.into()));
    for provider in ["openai", "anthropic", "gemini"] {
        assert!(count(&["llm", &format!("provider={provider}")]) >= 1, "{provider}");
    }
    assert_eq!(count(&["timeline", "--kind", "trace", "name='pay by http'"]), 1);
    // Nothing left the host: each host was answered here.
    let requests = ask(&["requests"]);
    let classes = |one: &Value| one["class"] == "sink" || one["class"] == "mock";
    assert!(requests.as_array().unwrap().iter().all(classes), "{requests:#}");
}
