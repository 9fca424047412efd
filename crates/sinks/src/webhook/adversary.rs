//! Faulty deliveries that an endpoint has to withstand, as plain values.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Expected, Payload, ToSign, sign};

/// The age of a stale delivery. Libraries refuse anything older than five minutes.
const STALE: SignedDuration = SignedDuration::from_secs(15 * 60);

/// How much earlier a late event happened than the one that overtook it.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// The duration of a slow delivery's body.
const SLOW: Duration = Duration::from_secs(10);

/// The size of a huge delivery, in bytes.
const HUGE: usize = 2 << 20;

/// A kind of faulty delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Adversary {
    /// The same event twice: it must count once.
    Duplicate,
    /// The later event first.
    Reordered,
    /// Signed a quarter of an hour ago.
    StaleTimestamp,
    /// Signed with a secret that the endpoint does not have.
    WrongSecret,
    /// Signed with the next secret and the current one, or only the next if the scheme has one
    /// signature.
    RotatedSecret,
    /// A body that takes ten seconds.
    Slow,
    /// A body of two megabytes.
    Huge,
}

/// The secrets that sign a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    Current,
    /// One that the endpoint does not know.
    Wrong,
    /// The next secret, and the current one if the scheme supports both.
    Rotated,
}

/// One delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub adversary: Option<Adversary>,
    pub payload: Payload,
    /// The id of the message; a duplicate has the same one.
    pub id: String,
    pub signed_at: Timestamp,
    pub signing: Signing,
    /// The duration of sending the body.
    pub pace: Option<Duration>,
    pub expected: Expected,
}

/// A name that is not an adversary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way in which deliveries go wrong")]
pub struct UnknownAdversary(pub String);

impl hothouse_model::Explain for UnknownAdversary {
    fn kind(&self) -> hothouse_model::FailureKind {
        hothouse_model::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        vec![format!("known: {}", Adversary::ALL.map(Adversary::as_str).join(", "))]
    }
}

impl Adversary {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 7] = [
        Self::Duplicate,
        Self::Reordered,
        Self::StaleTimestamp,
        Self::WrongSecret,
        Self::RotatedSecret,
        Self::Slow,
        Self::Huge,
    ];

    /// Returns the name of the adversary.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Reordered => "reordered",
            Self::StaleTimestamp => "stale-timestamp",
            Self::WrongSecret => "wrong-secret",
            Self::RotatedSecret => "rotated-secret",
            Self::Slow => "slow",
            Self::Huge => "huge",
        }
    }
}

impl fmt::Display for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Adversary {
    type Err = UnknownAdversary;

    fn from_str(text: &str) -> Result<Self, UnknownAdversary> {
        let found = Self::ALL.into_iter().find(|adversary| adversary.as_str() == text);
        found.ok_or_else(|| UnknownAdversary(text.to_owned()))
    }
}

impl Delivery {
    /// Builds the ordinary delivery of a payload.
    pub fn new(payload: Payload, id: impl Into<String>, now: Timestamp) -> Self {
        Self {
            adversary: None,
            payload,
            id: id.into(),
            signed_at: now,
            signing: Signing::Current,
            pace: None,
            expected: Expected::Accepted,
        }
    }

    /// Returns all headers of the delivery.
    pub fn headers(&self, secret: &str, url: &str) -> Vec<(String, String)> {
        let Payload { scheme, bytes, .. } = &self.payload;
        let (wrong, next) = (changed(secret, "wrong"), changed(secret, "next"));
        let secrets: Vec<&str> = match self.signing {
            Signing::Current => vec![secret],
            Signing::Wrong => vec![&wrong],
            Signing::Rotated => vec![&next, secret],
        };
        let what = ToSign { url, body: bytes, at: self.signed_at, id: &self.id };
        let mut headers = self.payload.headers.clone();
        headers.extend(sign(scheme, &secrets, &what));
        headers
    }
}

/// Builds the deliveries of one kind. `make` builds the payload for a time and a seed.
pub fn deliveries(
    adversary: Adversary,
    make: &dyn Fn(Timestamp, &str) -> Payload,
    (now, seed): (Timestamp, &str),
) -> Vec<Delivery> {
    let one = || Delivery::new(make(now, seed), message_id(seed), now);
    let scheme = || make(now, seed).scheme;
    let earlier = |span| now.checked_sub(span).unwrap_or(now);
    let list = match adversary {
        Adversary::Duplicate => {
            vec![one(), Delivery { expected: Expected::AcceptedOnce, ..one() }]
        }
        Adversary::Reordered => {
            let other = format!("{seed} earlier");
            let late = make(earlier(LATE), &other);
            vec![one(), Delivery::new(late, message_id(&other), now)]
        }
        Adversary::StaleTimestamp => {
            let expected =
                if scheme().has_time() { Expected::Refused } else { Expected::NoFailure };
            vec![Delivery { signed_at: earlier(STALE), expected, ..one() }]
        }
        Adversary::WrongSecret => {
            vec![Delivery { signing: Signing::Wrong, expected: Expected::Refused, ..one() }]
        }
        Adversary::RotatedSecret => {
            let several = scheme().takes_several();
            let expected = if several { Expected::Accepted } else { Expected::Refused };
            vec![Delivery { signing: Signing::Rotated, expected, ..one() }]
        }
        Adversary::Slow => vec![Delivery { pace: Some(SLOW), ..one() }],
        Adversary::Huge => {
            vec![Delivery { expected: Expected::NoFailure, payload: huge(one().payload), ..one() }]
        }
    };
    list.into_iter().map(|delivery| Delivery { adversary: Some(adversary), ..delivery }).collect()
}

/// Returns a message id derived from a seed.
pub fn message_id(seed: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, seed.as_bytes());
    format!("msg_{}", hothouse_model::id::hex(&digest.as_ref()[..12]))
}

/// Derives another secret of the same form.
fn changed(secret: &str, how: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let hash = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA256,
        format!("{how}\0{secret}").as_bytes(),
    );
    format!("whsec_{}", STANDARD.encode(&hash.as_ref()[..24]))
}

/// Makes a payload huge without changing its meaning, with another field in the object or form.
fn huge(mut payload: Payload) -> Payload {
    let padding = "x".repeat(HUGE);
    match serde_json::from_slice(&payload.bytes) {
        Ok(Value::Object(mut map)) => {
            map.insert("padding".into(), padding.into());
            payload.bytes = Value::Object(map).to_string().into_bytes();
        }
        Ok(other) => {
            payload.bytes = Value::Array(vec![other, padding.into()]).to_string().into_bytes();
        }
        Err(_) => payload.bytes.extend(format!("&padding={padding}").into_bytes()),
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::{fixture, fixture::Fill};

    fn made(vendor: &str, kind: &str, adversary: Adversary) -> Vec<Delivery> {
        let make = |now, seed: &str| fixture(vendor, kind, &[], &Fill { now, seed }).unwrap();
        deliveries(adversary, &make, (Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1), "s"))
    }

    #[test]
    fn a_word_leads_to_its_adversary_and_back() {
        for adversary in Adversary::ALL {
            assert_eq!(adversary.as_str().parse(), Ok(adversary));
        }
        assert!("slow-motion".parse::<Adversary>().is_err());
    }

    #[test]
    fn a_duplicate_is_the_same_to_the_byte() {
        let both = made("stripe", "invoice.paid", Adversary::Duplicate);
        assert_eq!(both[0].payload, both[1].payload);
        assert_eq!(both[0].headers("k", "u"), both[1].headers("k", "u"));
        assert_eq!(both[1].expected, Expected::AcceptedOnce);
    }

    #[test]
    fn what_overtakes_is_another_event_and_a_later_one() {
        let both = made("stripe", "invoice.paid", Adversary::Reordered);
        let created = |delivery: &Delivery| {
            let tree: Value = serde_json::from_slice(&delivery.payload.bytes).unwrap();
            (tree["created"].as_i64().unwrap(), tree["id"].clone())
        };
        assert!(created(&both[0]).0 > created(&both[1]).0);
        assert_ne!(created(&both[0]).1, created(&both[1]).1);
    }

    #[test]
    fn what_is_expected_follows_from_what_a_scheme_can_tell() {
        use Adversary::{Huge, RotatedSecret, StaleTimestamp, WrongSecret};
        use Expected::{Accepted, NoFailure, Refused};
        for (vendor, kind, adversary, expected) in [
            ("stripe", "invoice.paid", StaleTimestamp, Refused),
            ("github", "push", StaleTimestamp, NoFailure),
            ("stripe", "invoice.paid", RotatedSecret, Accepted),
            ("clerk", "user.created", RotatedSecret, Accepted),
            ("shopify", "orders.create", RotatedSecret, Refused),
            ("twilio", "sms", WrongSecret, Refused),
            ("twilio", "sms", Huge, NoFailure),
            ("sendgrid", "bounce", Huge, NoFailure),
        ] {
            let found = made(vendor, kind, adversary);
            assert_eq!(found[0].expected, expected, "{vendor} {adversary}");
            assert_eq!(found[0].adversary, Some(adversary));
        }
        assert!(made("twilio", "sms", Huge)[0].payload.bytes.len() > HUGE);
    }

    #[test]
    fn a_rotated_secret_signs_twice() {
        let one = &made("stripe", "invoice.paid", Adversary::RotatedSecret)[0];
        let headers = one.headers("whsec_current", "https://app.example/hook");
        let signature = &headers.iter().find(|(name, _)| name == "stripe-signature").unwrap().1;
        let current = Delivery { signing: Signing::Current, ..one.clone() };
        let current = current.headers("whsec_current", "").pop().unwrap().1;
        let current = current.split_once(",v1=").unwrap().1;
        assert_eq!(signature.matches("v1=").count(), 2);
        assert!(signature.ends_with(current));
    }
}
