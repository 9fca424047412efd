//! Webhooks sent by a user: which one, signed for whom, to where. Pure except for random ids.

use std::collections::BTreeMap;

use hothouse_engine::WebhookTarget;
use hothouse_model::{
    Explain, Failure, FailureKind,
    config::{EntryName, Integration},
};
use hothouse_sinks::webhook::{
    Adversary, Delivery, Expected, Payload,
    adversary::{deliveries, message_id},
    fixture::{self, Fill, UnknownFixture},
};
use jiff::Timestamp;
use serde_json::Value;

use super::attempt::scheme_of;
use crate::mocks::{vendor_of, webhook_of};

/// A user's request.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// `VENDOR/TYPE`, or the file name of the payload.
    pub what: String,
    pub payload: Option<String>,
    pub vendor: Option<String>,
    pub set: Vec<String>,
    /// A fault to inject, or `all`.
    pub adversary: Option<String>,
    pub to: Option<String>,
}

/// The destination of a webhook, from the config and the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) integration: String,
    pub(super) vendor: String,
    /// An app, a service or a host, and the path, if the user named them.
    pub(super) to: Option<(String, Option<String>)>,
    /// The integration's target.
    pub(super) target: Option<WebhookTarget>,
}

/// Whether an app reacted as expected.
pub fn holds(expected: Expected, status: Option<u16>) -> bool {
    match (expected, status) {
        (Expected::Accepted | Expected::AcceptedOnce, Some(200..=299)) => true,
        (Expected::Refused, Some(400..=499)) => true,
        (Expected::NoFailure, Some(status)) => status < 500,
        _ => false,
    }
}

impl ByHand {
    /// Determines the vendor of a webhook and its configured target.
    pub(super) fn choose(
        &self,
        integrations: &BTreeMap<EntryName, Integration>,
    ) -> Result<Choice, Failure> {
        let to = self.to.as_deref().map(destination).transpose()?;
        let known = || integrations.iter().filter(|(_, one)| one.webhook.is_some());
        let vendor = match (&self.vendor, &self.payload) {
            (Some(vendor), _) => vendor.clone(),
            (None, None) => self.what.split('/').next().unwrap_or_default().to_owned(),
            (None, Some(_)) => only(known().filter_map(|(_, one)| vendor_of(one)))?,
        };
        let is_of = |one: &Integration| vendor_of(one).as_deref() == Some(vendor.as_str());
        let found = known().find(|(_, one)| is_of(one));
        let target = found.and_then(|(name, one)| webhook_of(name.as_str(), one));
        if target.is_none() && to.is_none() {
            return Err(nowhere(&vendor));
        }
        Ok(Choice {
            integration: found.map_or_else(|| vendor.clone(), |(name, _)| name.to_string()),
            vendor,
            to,
            target: target.map(|(_, (_, target))| target),
        })
    }

    /// Builds the deliveries.
    pub(super) fn deliveries(
        &self,
        vendor: &str,
        now: Timestamp,
        seed: &str,
    ) -> Result<Vec<Delivery>, Failure> {
        let set = self.set.iter().map(|text| field(text)).collect::<Result<Vec<_>, _>>()?;
        let make = |now: Timestamp, seed: &str| self.payload(vendor, &set, &Fill { now, seed });
        let first = make(now, seed).map_err(|error| error.failure())?;
        let again = |now: Timestamp, seed: &str| make(now, seed).unwrap_or_else(|_| first.clone());
        let of = |adversary| deliveries(adversary, &again, (now, seed));
        Ok(match self.adversary.as_deref() {
            None => vec![Delivery::new(first, message_id(seed), now)],
            // Each has its own event, or only the first would be new to the app.
            Some("all") => {
                let each = Adversary::ALL.into_iter().map(|adversary| {
                    deliveries(adversary, &again, (now, &format!("{seed} {adversary}")))
                });
                each.flatten().collect()
            }
            Some(word) => {
                let adversary = word.parse::<Adversary>();
                of(adversary.map_err(|error| error.failure())?)
            }
        })
    }

    fn payload(
        &self,
        vendor: &str,
        set: &[(String, Value)],
        fill: &Fill<'_>,
    ) -> Result<Payload, UnknownFixture> {
        let Some(text) = &self.payload else {
            let kind = self.what.split_once('/').map_or("", |(_, kind)| kind);
            return fixture::fixture(vendor, kind, set, fill);
        };
        let kind = kind_of(&self.what, text);
        let plain = || Payload {
            vendor: vendor.to_owned(),
            kind: kind.clone(),
            scheme: scheme_of(vendor),
            headers: vec![("content-type".into(), "application/json".into())],
            bytes: Vec::new(),
        };
        let known = fixture::of_tree(vendor, &kind, &Value::Null, fill).unwrap_or_else(plain);
        // The exact bytes of the file.
        Ok(Payload { bytes: text.clone().into_bytes(), ..known })
    }
}

/// Returns the type of a payload in a file: what it states itself, or the name of the file.
fn kind_of(file: &str, text: &str) -> String {
    let tree: Value = serde_json::from_str(text).unwrap_or_default();
    let said = tree["type"].as_str().or_else(|| tree["event"].as_str()).map(str::to_owned);
    let name = file.rsplit('/').next().unwrap_or(file);
    said.unwrap_or_else(|| name.split('.').next().unwrap_or(name).to_owned())
}

/// Parses `field=value`; a JSON value is parsed.
fn field(text: &str) -> Result<(String, Value), Failure> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::new(FailureKind::Usage, format!("`--set {text}` is not FIELD=VALUE"))
        })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

/// Parses `APP`, `APP/PATH` or a URL.
fn destination(text: &str) -> Result<(String, Option<String>), Failure> {
    let rest = match text.split_once("://") {
        Some(("http" | "https", rest)) => rest,
        Some(_) => {
            let message = format!("`--to {text}` is neither an app nor an http URL");
            return Err(Failure::new(FailureKind::Usage, message));
        }
        None => text,
    };
    let (place, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
        None => (rest, None),
    };
    let host = place.split(':').next().unwrap_or_default();
    Ok((host.to_ascii_lowercase(), path))
}

fn only(mut vendors: impl Iterator<Item = String>) -> Result<String, Failure> {
    let first = vendors.next();
    match (first, vendors.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(Failure::new(FailureKind::Usage, "whose webhook the file is cannot be told")
            .hint("name it with `--vendor`, such as `--vendor stripe`")),
    }
}

fn nowhere(vendor: &str) -> Failure {
    let message = format!("no integration says where webhooks of `{vendor}` go");
    Failure::new(FailureKind::Config, message)
        .hint("add `webhook = { to = \"SERVICE\", path = \"/PATH\", secret = \"VARIABLE\" }` to the `[integration.NAME]` with its hosts")
        .hint("or pass `--to APP/PATH`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        [service.api]
        run = "true"
        port = 3000
        [integration.pay]
        class = "mock"
        hosts = ["api.stripe.com"]
        webhook = { to = "api", path = "/hook", secret = "S" }
        [integration.stripe]
        class = "mock"
        hosts = ["api.vendor.example"]
        webhook = { to = "api", path = "/other" }
    "#;

    fn asked(what: &str) -> ByHand {
        ByHand {
            what: what.into(),
            payload: None,
            vendor: None,
            set: Vec::new(),
            adversary: None,
            to: None,
        }
    }

    fn choose(asked: &ByHand) -> Result<Choice, Failure> {
        let config = hothouse_config::parse("hothouse.toml", CONFIG).unwrap().config;
        asked.choose(&config.integrations)
    }

    #[test]
    fn hosts_tell_whose_webhooks_an_integration_has_and_never_its_name() {
        let chosen = choose(&asked("stripe/invoice.paid")).unwrap();
        assert_eq!((&*chosen.integration, &*chosen.vendor), ("pay", "stripe"));
        assert_eq!(chosen.target.unwrap().path, "/hook");
        assert_eq!(choose(&asked("github/push")).unwrap_err().kind, FailureKind::Config);
        let to = ByHand { to: Some("web/x?y".into()), ..asked("github/push") };
        assert_eq!(choose(&to).unwrap().to, Some(("web".into(), Some("/x?y".into()))));
        let file = ByHand { payload: Some("{}".into()), ..asked("event.json") };
        assert_eq!(choose(&file).unwrap().vendor, "stripe", "the only vendor that is known");
    }

    #[test]
    fn a_destination_is_an_app_or_a_url() {
        for (text, host, path) in [
            ("api", "api", None),
            ("api/hook", "api", Some("/hook")),
            (
                "https://API.a.shop.localhost:8443/hook?x=1",
                "api.a.shop.localhost",
                Some("/hook?x=1"),
            ),
        ] {
            let found = destination(text).unwrap();
            assert_eq!((&*found.0, found.1.as_deref()), (host, path));
        }
        assert!(destination("ftp://x/").is_err());
    }

    #[test]
    fn a_file_is_sent_as_it_is_and_says_its_type() {
        let text = "{ \"type\": \"invoice.paid\" }\n";
        let file = ByHand { payload: Some(text.into()), ..asked("a/b.json") };
        let [one] = &file.deliveries("stripe", Timestamp::UNIX_EPOCH, "s").unwrap()[..] else {
            panic!()
        };
        assert_eq!((&*one.payload.kind, &*one.payload.bytes), ("invoice.paid", text.as_bytes()));
        assert_eq!(kind_of("hooks/push.json", "no json"), "push");
        let unknown = asked("stripe/invoice.payd").deliveries("stripe", Timestamp::UNIX_EPOCH, "s");
        assert!(unknown.unwrap_err().hints[0].contains("invoice.paid"));
        let all = ByHand { adversary: Some("all".into()), ..asked("stripe/invoice.paid") };
        let all = all.deliveries("stripe", Timestamp::UNIX_EPOCH, "s").unwrap();
        assert!(all.len() > Adversary::ALL.len());
        let wrong = ByHand { adversary: Some("sloow".into()), ..asked("stripe/invoice.paid") };
        assert_eq!(
            wrong.deliveries("stripe", Timestamp::UNIX_EPOCH, "s").unwrap_err().kind,
            FailureKind::Usage
        );
    }

    #[test]
    fn what_is_expected_of_an_app() {
        use Expected::{Accepted, NoFailure, Refused};
        for (expected, status, ok) in [
            (Accepted, Some(204), true),
            (Accepted, Some(302), false),
            (Accepted, None, false),
            (Refused, Some(400), true),
            (Refused, Some(200), false),
            (Refused, Some(500), false),
            (NoFailure, Some(413), true),
            (NoFailure, Some(502), false),
        ] {
            assert_eq!(holds(expected, status), ok, "{expected:?} {status:?}");
        }
    }
}
