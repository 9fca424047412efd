//! The secrets of a room: their names, their hosts, and their values while they are needed.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_model::{
    config::{HostName, HostPattern, SecretForm},
    secret::SecretValue,
};

/// How long a value is cached before it is read again, so that a new one takes effect.
const KEPT: Duration = Duration::from_secs(30);

/// A secret, as the wall uses it for one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    pub name: String,
    /// The only hosts that ever receive the value.
    pub hosts: Vec<HostPattern>,
    /// Where in a request it may occur.
    pub form: SecretForm,
    /// What the room has in its place.
    pub placeholder: String,
}

/// Source of values. It may block, so it is called on a blocking thread.
pub trait Vault: Send + Sync {
    /// Returns the value of a secret, or the reason why there is none.
    fn value(&self, secret: &str) -> Result<SecretValue, String>;
}

/// A secret with its value.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) form: SecretForm,
    pub(crate) placeholder: String,
    pub(crate) value: SecretValue,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({})", self.name)
    }
}

/// A secret without a value.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) placeholder: String,
    pub(crate) why: String,
}

/// The secrets of one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) known: Vec<Known>,
    pub(crate) missing: Vec<Missing>,
}

/// A value, or why there is none, and when it was read.
type Kept = (Instant, Result<SecretValue, String>);

/// The secrets of a room.
pub(crate) struct Secrets {
    uses: Vec<SecretUse>,
    vault: Arc<dyn Vault>,
    kept: Mutex<HashMap<String, Kept>>,
}

impl Secrets {
    pub(crate) fn new(uses: Vec<SecretUse>, vault: Arc<dyn Vault>) -> Self {
        Self { uses, vault, kept: Mutex::default() }
    }

    /// Whether any secret may be sent to a host.
    pub(crate) fn has_any_for(&self, host: &HostName) -> bool {
        self.uses.iter().any(|secret| goes_to(secret, host))
    }

    /// Returns the secrets of a host, with their values.
    pub(crate) async fn of(&self, host: &HostName) -> Held {
        let mut held = Held::default();
        let own: Vec<&SecretUse> = self.uses.iter().filter(|one| goes_to(one, host)).collect();
        for secret in own {
            let (name, placeholder) = (secret.name.clone(), secret.placeholder.clone());
            match self.value(&secret.name).await {
                Ok(value) => {
                    held.known.push(Known { name, form: secret.form, placeholder, value });
                }
                Err(why) => held.missing.push(Missing { name, placeholder, why }),
            }
        }
        held
    }

    /// Returns the secrets of every host whose values were read so far. Reads none itself: that may
    /// run a command, or prompt the user.
    pub(crate) fn seen(&self) -> Vec<Known> {
        let kept = self.kept();
        let known = |secret: &SecretUse| {
            let (_, value) = kept.get(&secret.name)?;
            let (name, placeholder) = (secret.name.clone(), secret.placeholder.clone());
            let value = value.as_ref().ok()?.clone();
            Some(Known { name, form: secret.form, placeholder, value })
        };
        self.uses.iter().filter_map(known).collect()
    }

    async fn value(&self, name: &str) -> Result<SecretValue, String> {
        if let Some((since, value)) = self.kept().get(name)
            && since.elapsed() < KEPT
        {
            return value.clone();
        }
        let (vault, wanted) = (self.vault.clone(), name.to_owned());
        let value = tokio::task::spawn_blocking(move || vault.value(&wanted)).await;
        let value = value.unwrap_or_else(|_| Err("reading the value failed".into()));
        self.kept().insert(name.to_owned(), (Instant::now(), value.clone()));
        value
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn goes_to(secret: &SecretUse, host: &HostName) -> bool {
    secret.hosts.iter().any(|pattern| pattern.matches(host))
}
