//! Signature schemes of vendors.

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_mock::form;
use hothouse_model::id::hex;
use jiff::Timestamp;

use super::keys;

/// A signature scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Stripe-Signature: t=,v1=`.
    Stripe,
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`: Standard Webhooks.
    Standard,
    /// The same signature under `svix-*`, as sent by Clerk and Resend.
    Svix,
    /// `X-Hub-Signature-256`, and the older `X-Hub-Signature`.
    GitHub,
    /// `X-Gitlab-Token`: the secret itself.
    GitLab,
    /// `X-Slack-Signature`.
    Slack,
    /// Ed25519: `X-Signature-Ed25519`.
    Discord,
    /// `X-Shopify-Hmac-Sha256`.
    Shopify,
    /// `X-Twilio-Signature`, over the URL and the sorted form.
    Twilio,
    /// ECDSA: `X-Twilio-Email-Event-Webhook-Signature`.
    SendGrid,
    /// HMAC-SHA256 of the body in one header.
    Hmac(HmacForm),
}

/// The format of a generic HMAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacForm {
    pub header: String,
    /// The prefix of the digest, such as `sha256=`.
    pub prefix: String,
    pub encoding: Encoding,
}

/// The encoding of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Hex,
    Base64,
}

impl Default for HmacForm {
    fn default() -> Self {
        Self { header: "x-signature-256".into(), prefix: "sha256=".into(), encoding: Encoding::Hex }
    }
}

/// The input of a signature.
#[derive(Clone, Copy, Debug)]
pub struct ToSign<'a> {
    /// The URL of the delivery, as seen by the app.
    pub url: &'a str,
    pub body: &'a [u8],
    pub at: Timestamp,
    /// The id of the message; retries have the same one.
    pub id: &'a str,
}

/// The names of schemes.
const WORDS: [(&str, Scheme); 10] = [
    ("stripe", Scheme::Stripe),
    ("standard", Scheme::Standard),
    ("svix", Scheme::Svix),
    ("github", Scheme::GitHub),
    ("gitlab", Scheme::GitLab),
    ("slack", Scheme::Slack),
    ("discord", Scheme::Discord),
    ("shopify", Scheme::Shopify),
    ("twilio", Scheme::Twilio),
    ("sendgrid", Scheme::SendGrid),
];

impl Scheme {
    /// Finds a scheme by name; `hmac` is the generic one in its usual format.
    pub fn find(word: &str) -> Option<Self> {
        if word == "hmac" {
            return Some(Self::Hmac(HmacForm::default()));
        }
        WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, scheme)| scheme)
    }

    /// Returns its name.
    pub fn as_str(&self) -> &'static str {
        WORDS.iter().find(|(_, scheme)| scheme == self).map_or("hmac", |(word, _)| word)
    }

    /// Returns whether a delivery may have signatures of two secrets, as vendors send while a
    /// secret is rotated.
    pub fn takes_several(&self) -> bool {
        matches!(self, Self::Stripe | Self::Standard | Self::Svix)
    }

    /// Returns whether the signature includes its time, so that an old one can be refused.
    pub fn has_time(&self) -> bool {
        !matches!(self, Self::GitHub | Self::GitLab | Self::Shopify | Self::Twilio | Self::Hmac(_))
    }
}

/// Signs a delivery and returns its headers. The first secret is the current one; the others sign
/// as well if the scheme supports it.
pub fn sign(scheme: &Scheme, secrets: &[&str], what: &ToSign<'_>) -> Vec<(String, String)> {
    let first = secrets.first().copied().unwrap_or_default();
    match scheme {
        Scheme::Stripe => stripe(secrets, what),
        Scheme::Standard => standard("webhook", secrets, what),
        Scheme::Svix => standard("svix", secrets, what),
        Scheme::GitHub => github(first, what),
        Scheme::GitLab => vec![("x-gitlab-token".into(), first.to_owned())],
        Scheme::Slack => slack(first, what),
        Scheme::Discord => discord(first, what),
        Scheme::Shopify => {
            let digest = sha256(first.as_bytes(), &[what.body]);
            vec![("x-shopify-hmac-sha256".into(), STANDARD.encode(digest))]
        }
        Scheme::Twilio => twilio(first, what),
        Scheme::SendGrid => sendgrid(first, what),
        Scheme::Hmac(form) => generic(form, first, what),
    }
}

fn digest(algorithm: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

fn sha256(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    digest(hmac::HMAC_SHA256, key, parts)
}

fn sha1(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    digest(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, parts)
}

fn seconds(what: &ToSign<'_>) -> String {
    what.at.as_second().to_string()
}

fn stripe(secrets: &[&str], what: &ToSign<'_>) -> Vec<(String, String)> {
    let at = seconds(what);
    let mut value = format!("t={at}");
    for secret in secrets {
        let digest = sha256(secret.as_bytes(), &[at.as_bytes(), b".", what.body]);
        value.push_str(&format!(",v1={}", hex(digest.as_ref())));
    }
    vec![("stripe-signature".into(), value)]
}

fn standard(prefix: &str, secrets: &[&str], what: &ToSign<'_>) -> Vec<(String, String)> {
    let at = seconds(what);
    let one = |secret: &&str| {
        let key = keys::standard_key(secret);
        let parts: [&[u8]; 5] = [what.id.as_bytes(), b".", at.as_bytes(), b".", what.body];
        format!("v1,{}", STANDARD.encode(sha256(&key, &parts)))
    };
    let signatures: Vec<String> = secrets.iter().map(one).collect();
    vec![
        (format!("{prefix}-id"), what.id.to_owned()),
        (format!("{prefix}-timestamp"), at.clone()),
        (format!("{prefix}-signature"), signatures.join(" ")),
    ]
}

fn github(secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let key = secret.as_bytes();
    let (new, old) = (sha256(key, &[what.body]), sha1(key, &[what.body]));
    vec![
        ("x-hub-signature-256".into(), format!("sha256={}", hex(new.as_ref()))),
        ("x-hub-signature".into(), format!("sha1={}", hex(old.as_ref()))),
    ]
}

fn slack(secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let at = seconds(what);
    let digest = sha256(secret.as_bytes(), &[b"v0:", at.as_bytes(), b":", what.body]);
    vec![
        ("x-slack-request-timestamp".into(), at),
        ("x-slack-signature".into(), format!("v0={}", hex(digest.as_ref()))),
    ]
}

fn discord(secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let at = seconds(what);
    let signature = keys::discord_pair(secret).sign(&[at.as_bytes(), what.body].concat());
    vec![
        ("x-signature-timestamp".into(), at),
        ("x-signature-ed25519".into(), hex(signature.as_ref())),
    ]
}

/// Signs the URL and, for a form, each key and value after it, sorted by key.
fn twilio(secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let mut pairs = std::str::from_utf8(what.body).map(form::pairs).unwrap_or_default();
    pairs.sort();
    let text: String = pairs.iter().flat_map(|(key, value)| [key.as_str(), value]).collect();
    let digest = sha1(secret.as_bytes(), &[what.url.as_bytes(), text.as_bytes()]);
    vec![("x-twilio-signature".into(), STANDARD.encode(digest))]
}

fn sendgrid(secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let at = seconds(what);
    let signature = keys::sendgrid_signature(secret, &[at.as_bytes(), what.body].concat());
    let name = |end: &str| format!("x-twilio-email-event-webhook-{end}");
    vec![(name("timestamp"), at), (name("signature"), STANDARD.encode(signature))]
}

fn generic(form: &HmacForm, secret: &str, what: &ToSign<'_>) -> Vec<(String, String)> {
    let digest = sha256(secret.as_bytes(), &[what.body]);
    let digest = match form.encoding {
        Encoding::Hex => hex(digest.as_ref()),
        Encoding::Base64 => STANDARD.encode(digest),
    };
    vec![(form.header.to_ascii_lowercase(), format!("{}{digest}", form.prefix))]
}

#[cfg(test)]
mod tests;
