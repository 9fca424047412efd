//! Deliveries from real vendors: the user's listener passes each on, and it is forwarded to the app.
//!
//! The app has its own signing secret, so a delivery is verified here with the vendor's secret and
//! signed again. The vendor's secret is in a file of the run that no room can request, and nowhere
//! else.

use std::path::{Path, PathBuf};

use hothouse_engine::{WebhookPlace, WebhookTarget};
use hothouse_host::{Clock, clock::HostClock, files, random};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, live_keys,
    record::{Kind, bodies::Message},
};
use hothouse_sinks::webhook::{
    Scheme,
    adversary::message_id,
    fixture, keys,
    verify::{self, Arrived, Refused, Verifier},
};
use jiff::Timestamp;

use super::{
    Attempt, ByHand, Webhooks,
    attempt::{self, message},
    by_hand::Choice,
    queue::{Pending, Twist},
};
use crate::Keepers;

/// The folder of a run with private files, which are never shown.
pub const PRIVATE: &str = "private";

/// The maximum length of a secret or public key.
const SECRET_MOST: usize = 4096;

/// A request to listen.
#[derive(Clone, Debug)]
pub struct Listen {
    pub vendor: String,
    /// The endpoint's secret at the vendor, or the vendor's public key.
    pub secret: Option<String>,
    pub to: Option<String>,
}

/// The state of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub vendor: String,
    /// The URL in the sandbox to which deliveries are forwarded.
    pub to: String,
    /// The file with the secret.
    pub file: PathBuf,
    /// Whether the secret was generated here, so that it must be configured at the vendor.
    pub is_made: bool,
    /// Whether the app gets a signature that it can verify.
    pub is_signed: bool,
}

/// A delivery that a listener received.
#[derive(Clone, Debug)]
pub struct Taken {
    pub listen: Listen,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The URL to which the vendor sent it.
    pub url: String,
}

/// The result of forwarding a delivery.
#[derive(Clone, Debug)]
pub struct Forwarded {
    pub attempt: Attempt,
    /// Why it was not forwarded.
    pub refused: Option<Refused>,
}

impl Webhooks {
    /// Prepares a listener: determines its destination, and stores the secret.
    pub fn listen(&self, sandbox: &SandboxRecord, asked: &Listen) -> Result<Listening, Failure> {
        let scheme = scheme(&asked.vendor)?;
        let (_, target) = self.listener_target(sandbox, asked)?;
        let place = self.engine.webhook_place(sandbox, &target)?;
        let file = secret_file(sandbox, &asked.vendor)?;
        let is_made = keep_secret(&file, &scheme, asked)?;
        Ok(Listening {
            vendor: asked.vendor.clone(),
            to: place.url,
            file,
            is_made,
            is_signed: place.secret.is_some(),
        })
    }

    fn listener_target(
        &self,
        sandbox: &SandboxRecord,
        asked: &Listen,
    ) -> Result<(String, WebhookTarget), Failure> {
        let by_hand = ByHand {
            what: asked.vendor.clone(),
            payload: None,
            vendor: Some(asked.vendor.clone()),
            set: Vec::new(),
            adversary: None,
            to: asked.to.clone(),
        };
        let Choice { integration, to, target, .. } =
            by_hand.choose(&self.engine.integrations(sandbox)?)?;
        let target = match to {
            Some(to) => self.target(sandbox, to, target)?,
            None => target.expect("a webhook without a target was refused"),
        };
        Ok((integration, target))
    }

    /// Decides on a delivery: what is forwarded to the app, or why nothing is.
    fn judge(
        &self,
        sandbox: &SandboxRecord,
        taken: &Taken,
        now: Timestamp,
    ) -> Result<(Pending, Option<Refused>, WebhookPlace), Failure> {
        let vendor = &taken.listen.vendor;
        let scheme = scheme(vendor)?;
        let (integration, target) = self.listener_target(sandbox, &taken.listen)?;
        let place = self.engine.webhook_place(sandbox, &target)?;
        let secret = read_secret(&secret_file(sandbox, vendor)?)?.ok_or_else(not_listening)?;
        let (headers, body) = (taken.headers.as_slice(), taken.body.as_slice());
        let arrived = Arrived { headers, body, url: &taken.url, now };
        let refused = verify::check(&scheme, &secret, &arrived).err();
        let id = Kind::Webhook.id(random::bytes());
        let pending = Pending {
            message: verify::message(&arrived).unwrap_or_else(|| message_id(&id)),
            id,
            integration,
            fixture: String::new(),
            vendor: vendor.clone(),
            kind: verify::kind(&scheme, &arrived),
            headers: verify::passed_on(&scheme, headers),
            body: taken.body.clone(),
            target,
            attempts: 0,
            due: None,
            twist: Twist::default(),
        };
        Ok((pending, refused, place))
    }
}

/// Forwards a delivery to the app and records the result. There is no second attempt: the vendor
/// gets the app's response, and retries by itself.
pub async fn forward(
    keepers: &Keepers,
    sandbox: SandboxRecord,
    taken: Taken,
) -> Result<Forwarded, Failure> {
    let now = HostClock.now();
    let (webhooks, record) = (keepers.webhooks.clone(), sandbox.clone());
    let judged = tokio::task::spawn_blocking(move || webhooks.judge(&record, &taken, now)).await;
    let (pending, refused, place) =
        judged.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
    let attempt = match refused {
        None => {
            let _used = keepers.activities.of(sandbox.key).enter();
            attempt::deliver(keepers, &pending, Ok(place), now).await
        }
        Some(why) => not_passed(&pending, place.url, why, now),
    };
    let (webhooks, told) = (keepers.webhooks.clone(), attempt.clone());
    let noted = tokio::task::spawn_blocking(move || {
        webhooks.timelines.append(&sandbox, super::draft(&told));
    });
    noted.await.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    Ok(Forwarded { attempt, refused })
}

/// Returns the record of a delivery that the app never saw. Its content is forged or from live mode, so it is not
/// stored.
fn not_passed(pending: &Pending, to: String, why: Refused, time: Timestamp) -> Attempt {
    let mut request = message(Vec::new(), &[]);
    request.bytes = pending.body.len() as u64;
    Attempt {
        id: pending.id.clone(),
        time,
        fixture: None,
        vendor: pending.vendor.clone(),
        kind: if why == Refused::LiveMode { pending.kind.clone() } else { "unverified".into() },
        to,
        status: None,
        error: Some(format!("not passed on: {why}")),
        attempt: 1,
        message: message_id(&pending.id),
        request,
        response: Message::default(),
        duration: std::time::Duration::ZERO,
        adversary: None,
    }
}

fn scheme(vendor: &str) -> Result<Scheme, Failure> {
    if vendor == "hmac" {
        return Ok(Scheme::Hmac(Default::default()));
    }
    fixture::scheme(vendor).ok_or_else(|| {
        let message = format!("it is not known how `{vendor}` signs its webhooks");
        Failure::new(FailureKind::NotFound, message)
            .hint(format!("known: {}, hmac", fixture::vendors().join(", ")))
    })
}

/// Returns the path of a listener's secret. The vendor is from a fixed list, so its name is a safe
/// path.
fn secret_file(sandbox: &SandboxRecord, vendor: &str) -> Result<PathBuf, Failure> {
    let room = sandbox.room.as_ref().ok_or_else(|| {
        let message = format!("`{}` has not been up yet", sandbox.name);
        Failure::new(FailureKind::Conflict, message)
    })?;
    Ok(room.run.artifacts.join(PRIVATE).join(format!("webhook-secret-{vendor}")))
}

fn read_secret(file: &Path) -> Result<Option<String>, Failure> {
    let host = |error| Failure::of(FailureKind::Host, &error);
    match files::read_capped(file, SECRET_MOST as u64) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(host(error)),
    }
}

/// Stores the secret of a listener: the user's, that of an earlier listener of the run, or a
/// generated one if the vendor accepts it from its user. `true` if it was generated.
fn keep_secret(file: &Path, scheme: &Scheme, asked: &Listen) -> Result<bool, Failure> {
    let kept = read_secret(file)?.is_some();
    let (secret, is_made) = match (&asked.secret, kept, verify::verifier(scheme)) {
        (Some(secret), ..) => (checked_secret(&asked.vendor, secret)?, false),
        (None, true, _) => return Ok(false),
        (None, false, Verifier::OwnSecret) => (keys::new_secret(scheme, &random::bytes()), true),
        (None, false, verifier) => return Err(no_secret(&asked.vendor, verifier)),
    };
    let host = |error| Failure::of(FailureKind::Host, &error);
    let folder = file.parent().expect("the file is in a folder of the run");
    files::make_private_folder(folder).map_err(host)?;
    files::replace(file, secret.as_bytes(), 0o600).map_err(host)?;
    Ok(is_made)
}

fn checked_secret(vendor: &str, text: &str) -> Result<String, Failure> {
    let text = text.trim();
    let wrong = |message: &str| Err(Failure::new(FailureKind::Usage, message));
    if text.is_empty()
        || text.len() > SECRET_MOST
        || !text.bytes().all(|b| (0x20..0x7f).contains(&b))
    {
        return wrong("the secret of an endpoint is one line of at most 4096 characters");
    }
    // Shopify signs with the app's secret; there is no separate one for tests.
    let is_usual = vendor == "shopify" && text.starts_with("shpss_");
    let live = live_keys::find("", text, &Default::default());
    if let Some(key) = live.filter(|_| !is_usual) {
        let message =
            format!("this is a live key of {}, not the secret of an endpoint", key.vendor);
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("give the signing secret of an endpoint in test mode"));
    }
    const KEYS: [&str; 4] = ["sk_", "rk_", "pk_", "re_"];
    if KEYS.iter().any(|prefix| text.starts_with(prefix)) {
        return wrong("this is an API key, not the signing secret of an endpoint");
    }
    Ok(text.to_owned())
}

fn no_secret(vendor: &str, verifier: Verifier) -> Failure {
    let what = match verifier {
        Verifier::PublicKey => "the public key of",
        _ => "the signing secret of the endpoint at",
    };
    let message = format!("{what} `{vendor}` is needed to verify what it sends");
    Failure::new(FailureKind::Usage, message).hint(format!(
        "pass it on standard input: `hothouse webhook listen {vendor} --secret < FILE`"
    ))
}

fn not_listening() -> Failure {
    Failure::new(FailureKind::Conflict, "the run has no secret of this vendor any more")
        .hint("start `hothouse webhook listen` again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(vendor: &str, secret: Option<&str>) -> Listen {
        Listen { vendor: vendor.into(), secret: secret.map(str::to_owned), to: None }
    }

    fn keep(folder: &Path, vendor: &str, secret: Option<&str>) -> Result<bool, Failure> {
        let file = folder.join(PRIVATE).join(vendor);
        keep_secret(&file, &scheme(vendor).unwrap(), &listen(vendor, secret))
    }

    #[test]
    fn a_secret_is_kept_for_its_owner_alone_and_made_only_where_vendors_take_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let needed = keep(folder.path(), "stripe", None).unwrap_err();
        assert!(needed.message.contains("signing secret"), "{needed:?}");
        assert!(keep(folder.path(), "discord", None).unwrap_err().message.contains("public key"));
        assert_eq!(keep(folder.path(), "stripe", Some("whsec_1\n")).ok(), Some(false));
        assert_eq!(keep(folder.path(), "stripe", None).ok(), Some(false), "the run has one");
        assert_eq!(keep(folder.path(), "github", None).ok(), Some(true));
        let file = folder.path().join(PRIVATE).join("stripe");
        assert_eq!(read_secret(&file).unwrap().as_deref(), Some("whsec_1"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn keys_are_no_secrets_of_endpoints() {
        let live = format!("sk_{}_{}", "live", "51HxYzAbCdEfGhIjKlMnOpQrStUvWxYz0123456789");
        for wrong in [live.as_str(), "sk_test_51Hx", "", "two\nlines"] {
            assert!(checked_secret("stripe", wrong).is_err(), "{wrong}");
        }
        assert!(checked_secret("stripe", "whsec_abc").is_ok());
        let shopify = format!("shpss_{}", "0123456789abcdef".repeat(2));
        assert!(checked_secret("shopify", &shopify).is_ok());
        assert!(checked_secret("stripe", &shopify).is_err());
    }

    #[test]
    fn vendors_are_those_that_are_known() {
        assert!(scheme("../../etc").is_err());
        for vendor in fixture::vendors() {
            assert!(scheme(vendor).is_ok(), "{vendor}");
        }
    }
}
