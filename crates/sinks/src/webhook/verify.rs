//! Deliveries of real vendors: whether one is signed, of now and of test mode, and what of it goes on to the app.
//!
//! Whoever finds the address of a listener can send to it, so nothing goes on that its vendor did not sign.

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_model::id::unhex;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Scheme, ToSign, sign};

/// How far the time of a signature may be from now.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5 * 60);

/// The longest type or id that is taken over.
const WORD_MOST: usize = 120;

/// A request as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Names in lower case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
    /// The address that the vendor sent it to; Twilio signs it.
    pub url: &'a str,
    pub now: Timestamp,
}

/// Why a delivery does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it has no signature of its vendor")]
    Unsigned,
    #[error("its signature was not made with the secret of this listener")]
    WrongSignature,
    #[error("its signature is of another time")]
    OtherTime,
    #[error("it is an event of live mode, and a sandbox takes those of test mode alone")]
    LiveMode,
}

/// Who verifies with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// A secret that vendor and receiver share; the vendor makes it.
    VendorSecret,
    /// A secret that the receiver may choose.
    OwnSecret,
    /// The vendor's public key.
    PublicKey,
}

/// Returns what a listener verifies with.
pub fn verifier(scheme: &Scheme) -> Verifier {
    match scheme {
        Scheme::GitHub | Scheme::GitLab | Scheme::Hmac(_) => Verifier::OwnSecret,
        Scheme::Discord | Scheme::SendGrid => Verifier::PublicKey,
        _ => Verifier::VendorSecret,
    }
}

/// Whether a delivery may go on: it is signed with `secret` (or by the owner of that public key), now, and is no
/// event of live mode.
pub fn check(scheme: &Scheme, secret: &str, arrived: &Arrived<'_>) -> Result<(), Refused> {
    match scheme {
        Scheme::Discord => discord(secret, arrived)?,
        Scheme::SendGrid => sendgrid(secret, arrived)?,
        _ => shared(scheme, secret, arrived)?,
    }
    match is_live(arrived.body) {
        true => Err(Refused::LiveMode),
        false => Ok(()),
    }
}

/// Whether an event says that it is of live mode.
pub fn is_live(body: &[u8]) -> bool {
    let Ok(tree) = serde_json::from_slice::<Value>(body) else { return false };
    let says_so = |tree: &Value| tree["livemode"] == true || tree["live_mode"] == true;
    says_so(&tree) || says_so(&tree["data"]["object"])
}

/// Returns the type of an event, as its vendor calls it.
pub fn kind(scheme: &Scheme, arrived: &Arrived<'_>) -> String {
    let tree = || serde_json::from_slice::<Value>(arrived.body).unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let header = |name| find(arrived.headers, name).map(str::to_owned);
    let found = match scheme {
        Scheme::GitHub => header("x-github-event"),
        Scheme::GitLab => header("x-gitlab-event"),
        Scheme::Shopify => header("x-shopify-topic").map(|topic| topic.replace('/', ".")),
        Scheme::Slack => {
            let tree = tree();
            text(&tree["event"]["type"]).or_else(|| text(&tree["type"]))
        }
        Scheme::SendGrid => text(&tree()[0]["event"]),
        Scheme::Twilio => Some("request".into()),
        Scheme::Discord => text(&tree()["type"]).map(|number| format!("interaction-{number}")),
        _ => {
            let tree = tree();
            text(&tree["type"]).or_else(|| text(&tree["event"]))
        }
    };
    word(found).unwrap_or_else(|| "unknown".into())
}

/// Returns the id that attempts of one message share, if the vendor gave it one.
pub fn message(arrived: &Arrived<'_>) -> Option<String> {
    const NAMES: [&str; 6] = [
        "webhook-id",
        "svix-id",
        "x-github-delivery",
        "x-gitlab-event-uuid",
        "x-shopify-webhook-id",
        "i-twilio-idempotency-token",
    ];
    let said = NAMES.iter().find_map(|name| find(arrived.headers, name)).map(str::to_owned);
    let in_body = || {
        let tree: Value = serde_json::from_slice(arrived.body).ok()?;
        let id = tree.get("id").or_else(|| tree.get("event_id"))?;
        id.as_str().map(str::to_owned)
    };
    word(said.or_else(in_body))
}

fn word(text: Option<String>) -> Option<String> {
    let text: String = text?.chars().filter(|c| c.is_ascii_graphic()).take(WORD_MOST).collect();
    (!text.is_empty()).then_some(text)
}

/// Returns the headers that go on to the app: not those of the way here, nor those that the new signature replaces.
pub fn passed_on(scheme: &Scheme, headers: &[(String, String)]) -> Vec<(String, String)> {
    const OF_THE_WAY: [&str; 17] = [
        "connection",
        "content-length",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-real-ip",
    ];
    let at = Timestamp::UNIX_EPOCH;
    let replaced = sign(scheme, &["-"], &ToSign { url: "", body: b"", at, id: "-" });
    let goes_on = |name: &str| {
        !OF_THE_WAY.contains(&name)
            && !name.starts_with("x-forwarded-")
            && !name.starts_with("cf-")
            && !replaced.iter().any(|(other, _)| other == name)
    };
    headers.iter().filter(|(name, _)| goes_on(name)).cloned().collect()
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

fn needed<'a>(arrived: &Arrived<'a>, name: &str) -> Result<&'a str, Refused> {
    find(arrived.headers, name).ok_or(Refused::Unsigned)
}

/// Reads the time of a signature, which must be about now.
fn time(text: &str, now: Timestamp) -> Result<Timestamp, Refused> {
    let second = text.parse().map_err(|_| Refused::Unsigned)?;
    let at = Timestamp::from_second(second).map_err(|_| Refused::OtherTime)?;
    match now.duration_since(at).abs() <= TOLERANCE {
        true => Ok(at),
        false => Err(Refused::OtherTime),
    }
}

fn is_same(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Signs what arrived with the secret that is shared, and compares.
fn shared(scheme: &Scheme, secret: &str, arrived: &Arrived<'_>) -> Result<(), Refused> {
    let (name, at, separator) = signed(scheme, arrived)?;
    let id = message_header(scheme, arrived).unwrap_or_default();
    let what = ToSign { url: arrived.url, body: arrived.body, at, id };
    let ours = sign(scheme, &[secret], &what);
    let ours = ours.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str());
    let theirs = needed(arrived, &name)?;
    let ours = last_part(ours.ok_or(Refused::WrongSignature)?, separator);
    // While a secret is replaced a vendor signs with both.
    let found = match separator {
        Some(separator) => theirs.split(separator).any(|part| is_same(part.trim(), ours)),
        None => is_same(theirs, ours),
    };
    if found { Ok(()) } else { Err(Refused::WrongSignature) }
}

fn last_part(text: &str, separator: Option<char>) -> &str {
    separator.and_then(|by| text.rsplit_once(by)).map_or(text, |(_, last)| last)
}

fn message_header<'a>(scheme: &Scheme, arrived: &Arrived<'a>) -> Option<&'a str> {
    match scheme {
        Scheme::Standard => find(arrived.headers, "webhook-id"),
        Scheme::Svix => find(arrived.headers, "svix-id"),
        _ => None,
    }
}

/// Returns the header of the signature, the time that was signed, and what stands between several signatures.
fn signed(
    scheme: &Scheme,
    arrived: &Arrived<'_>,
) -> Result<(String, Timestamp, Option<char>), Refused> {
    let now = arrived.now;
    let stamped = |name: &str| time(needed(arrived, name)?, now);
    Ok(match scheme {
        Scheme::Stripe => {
            let text = needed(arrived, "stripe-signature")?;
            let at = text.split(',').find_map(|part| part.trim().strip_prefix("t="));
            ("stripe-signature".into(), time(at.ok_or(Refused::Unsigned)?, now)?, Some(','))
        }
        Scheme::Standard => ("webhook-signature".into(), stamped("webhook-timestamp")?, Some(' ')),
        Scheme::Svix => ("svix-signature".into(), stamped("svix-timestamp")?, Some(' ')),
        Scheme::Slack => ("x-slack-signature".into(), stamped("x-slack-request-timestamp")?, None),
        Scheme::GitHub => ("x-hub-signature-256".into(), now, None),
        Scheme::GitLab => ("x-gitlab-token".into(), now, None),
        Scheme::Shopify => ("x-shopify-hmac-sha256".into(), now, None),
        Scheme::Twilio => ("x-twilio-signature".into(), now, None),
        Scheme::Hmac(form) => (form.header.to_ascii_lowercase(), now, None),
        Scheme::Discord | Scheme::SendGrid => return Err(Refused::WrongSignature),
    })
}

fn discord(key: &str, arrived: &Arrived<'_>) -> Result<(), Refused> {
    let at = needed(arrived, "x-signature-timestamp")?;
    let signature = unhex(needed(arrived, "x-signature-ed25519")?).ok_or(Refused::Unsigned)?;
    time(at, arrived.now)?;
    let key = unhex(key.trim()).ok_or(Refused::WrongSignature)?;
    let message = [at.as_bytes(), arrived.body].concat();
    let verified = UnparsedPublicKey::new(&ED25519, key).verify(&message, &signature);
    verified.map_err(|_| Refused::WrongSignature)
}

fn sendgrid(key: &str, arrived: &Arrived<'_>) -> Result<(), Refused> {
    let at = needed(arrived, "x-twilio-email-event-webhook-timestamp")?;
    let signature = needed(arrived, "x-twilio-email-event-webhook-signature")?;
    let signature = STANDARD.decode(signature).map_err(|_| Refused::Unsigned)?;
    time(at, arrived.now)?;
    let key = STANDARD.decode(key.trim()).map_err(|_| Refused::WrongSignature)?;
    // The point is what its DER form ends with.
    let point = key.len().checked_sub(65).map_or(&key[..], |from| &key[from..]);
    let message = [at.as_bytes(), arrived.body].concat();
    let verified =
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(&message, &signature);
    verified.map_err(|_| Refused::WrongSignature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::{
        Adversary, Delivery, adversary, fixture,
        fixture::Fill,
        keys::{new_secret, public_key},
    };

    const URL: &str = "https://tunnel.example/hook";

    const ALL: [(&str, &str); 11] = [
        ("stripe", "payment_intent.succeeded"),
        ("svix", "user.created"),
        ("clerk", "user.created"),
        ("standard", "user.created"),
        ("github", "push"),
        ("gitlab", "push"),
        ("slack", "event_callback"),
        ("discord", "ping"),
        ("shopify", "orders.create"),
        ("twilio", "sms"),
        ("sendgrid", "delivered"),
    ];

    fn now() -> Timestamp {
        Timestamp::from_second(1_790_000_000).unwrap()
    }

    /// What a vendor sends, how it signs, and what a listener verifies with.
    fn sent(
        vendor: &str,
        kind: &str,
        how: Option<Adversary>,
    ) -> (Delivery, Scheme, String, String) {
        let make = |now, seed: &str| fixture(vendor, kind, &[], &Fill { now, seed }).unwrap();
        let delivery = match how {
            Some(how) => adversary::deliveries(how, &make, (now(), "s")).remove(0),
            None => Delivery::new(make(now(), "s"), "msg_1", now()),
        };
        let scheme = delivery.payload.scheme.clone();
        let secret = new_secret(&scheme, &[7; 24]);
        let known = public_key(&scheme, &secret).unwrap_or_else(|| secret.clone());
        (delivery, scheme, secret, known)
    }

    fn checked(
        delivery: &Delivery,
        scheme: &Scheme,
        secret: &str,
        known: &str,
    ) -> Result<(), Refused> {
        let headers = delivery.headers(secret, URL);
        let body = &delivery.payload.bytes;
        check(scheme, known, &Arrived { headers: &headers, body, url: URL, now: now() })
    }

    #[test]
    fn what_a_vendor_signed_goes_on_and_nothing_else_does() {
        for (vendor, kind) in ALL {
            let (delivery, scheme, secret, known) = sent(vendor, kind, None);
            assert_eq!(checked(&delivery, &scheme, &secret, &known), Ok(()), "{vendor}");
            let (wrong, ..) = sent(vendor, kind, Some(Adversary::WrongSecret));
            let refused = checked(&wrong, &scheme, &secret, &known);
            assert_eq!(refused, Err(Refused::WrongSignature), "{vendor}");
            let (stale, ..) = sent(vendor, kind, Some(Adversary::StaleTimestamp));
            let expected = if scheme.has_time() { Err(Refused::OtherTime) } else { Ok(()) };
            assert_eq!(checked(&stale, &scheme, &secret, &known), expected, "{vendor}");
            // A body that somebody changed on the way; GitLab's token does not cover it.
            let mut changed = delivery.clone();
            let headers = delivery.headers(&secret, URL);
            changed.payload.bytes.extend_from_slice(b"&more=1");
            let arrived =
                Arrived { headers: &headers, body: &changed.payload.bytes, url: URL, now: now() };
            let expected = if vendor == "gitlab" { Ok(()) } else { Err(Refused::WrongSignature) };
            assert_eq!(check(&scheme, &known, &arrived), expected, "{vendor}");
            let unsigned = Arrived { headers: &[], ..arrived };
            assert_eq!(check(&scheme, &known, &unsigned), Err(Refused::Unsigned), "{vendor}");
        }
    }

    #[test]
    fn a_rotated_secret_is_taken_where_a_vendor_signs_with_both() {
        for (vendor, kind) in ALL {
            let (delivery, scheme, secret, known) =
                sent(vendor, kind, Some(Adversary::RotatedSecret));
            let expected =
                if scheme.takes_several() { Ok(()) } else { Err(Refused::WrongSignature) };
            assert_eq!(checked(&delivery, &scheme, &secret, &known), expected, "{vendor}");
        }
    }

    #[test]
    fn live_events_are_refused_although_they_are_signed() {
        let (mut delivery, scheme, secret, known) = sent("stripe", "invoice.paid", None);
        for body in [r#"{"livemode":true}"#, r#"{"data":{"object":{"livemode":true}}}"#] {
            delivery.payload.bytes = body.into();
            assert_eq!(checked(&delivery, &scheme, &secret, &known), Err(Refused::LiveMode));
        }
    }

    #[test]
    fn types_and_ids_are_the_vendors_words() {
        for (vendor, kind_sent, expected) in [
            ("stripe", "invoice.paid", "invoice.paid"),
            ("github", "push", "push"),
            ("shopify", "orders.create", "orders.create"),
            ("sendgrid", "delivered", "delivered"),
            ("clerk", "user.created", "user.created"),
        ] {
            let (delivery, scheme, secret, _) = sent(vendor, kind_sent, None);
            let headers = delivery.headers(&secret, URL);
            let arrived =
                Arrived { headers: &headers, body: &delivery.payload.bytes, url: URL, now: now() };
            assert_eq!(kind(&scheme, &arrived), expected, "{vendor}");
        }
        let odd = Arrived { headers: &[], body: b"{\"type\":\"\\u001b[2J\"}", url: "", now: now() };
        assert_eq!(kind(&Scheme::Stripe, &odd), "[2J");
        assert_eq!(message(&odd), None);
    }

    #[test]
    fn headers_of_the_way_and_old_signatures_stay_behind() {
        let headers = [
            ("host", "tunnel.example"),
            ("x-forwarded-for", "192.0.2.1"),
            ("stripe-signature", "t=1,v1=x"),
            ("user-agent", "Stripe/1.0"),
            ("content-type", "application/json"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let passed = passed_on(&Scheme::Stripe, &headers);
        let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["user-agent", "content-type"]);
    }
}
