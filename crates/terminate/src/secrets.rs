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

    /// Returns values that were read before, for any purpose, with the names of their secrets. Reads none itself.
    fn remembered(&self) -> Vec<(String, SecretValue)> {
        Vec::new()
    }
}

/// A vault without values.
pub(crate) struct NoVault;

impl Vault for NoVault {
    fn value(&self, _: &str) -> Result<SecretValue, String> {
        Err("there are no secrets here".into())
    }
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
    /// Values that are no longer inserted, but that the host may still send back.
    pub(crate) former: Vec<Known>,
}

impl Held {
    /// Returns every value that must not be sent back.
    pub(crate) fn all(&self) -> Vec<Known> {
        self.known.iter().chain(&self.former).cloned().collect()
    }
}

/// How many former values of a secret are remembered.
const FORMER: usize = 4;

/// How many uses that a config no longer has are remembered.
const WITHDRAWN: usize = 64;

/// The cached result of reading a secret.
#[derive(Clone)]
struct Kept {
    at: Instant,
    /// Whether the config has changed since.
    stale: bool,
    /// The value, or why there is none.
    value: Result<SecretValue, String>,
    /// Former values, from before it changed or became unreadable, newest first.
    former: Vec<SecretValue>,
}

impl Kept {
    fn new(value: Result<SecretValue, String>, before: Option<Self>) -> Self {
        let mut former = Vec::new();
        if let Some(before) = before {
            former.extend(before.value.ok());
            former.extend(before.former);
        }
        let mut seen: Vec<SecretValue> = value.iter().cloned().collect();
        former.retain(|one: &SecretValue| {
            let is_new = seen.iter().all(|known| known.expose() != one.expose());
            seen.push(one.clone());
            is_new
        });
        former.truncate(FORMER);
        Self { at: Instant::now(), stale: false, value, former }
    }
}

/// The secrets of a room.
pub(crate) struct Secrets {
    uses: Vec<SecretUse>,
    /// Uses of earlier configs: nothing is inserted for them, but a host may still send a value back.
    withdrawn: Vec<SecretUse>,
    vault: Arc<dyn Vault>,
    kept: Mutex<HashMap<String, Kept>>,
}

impl Secrets {
    pub(crate) fn new(uses: Vec<SecretUse>, vault: Arc<dyn Vault>) -> Self {
        Self { uses, withdrawn: Vec::new(), vault, kept: Mutex::default() }
    }

    /// Creates the secrets of a room whose config has changed. Values are read again; earlier ones are still recognized
    /// in what hosts send back.
    pub(crate) fn after(earlier: &Self, uses: Vec<SecretUse>, vault: Arc<dyn Vault>) -> Self {
        let before = earlier.uses.iter().chain(&earlier.withdrawn);
        let mut withdrawn: Vec<_> = before.filter(|one| !uses.contains(one)).cloned().collect();
        withdrawn.truncate(WITHDRAWN);
        let mut kept = earlier.kept().clone();
        kept.values_mut().for_each(|one| one.stale = true);
        Self { uses, withdrawn, vault, kept: Mutex::new(kept) }
    }

    /// Returns the secrets that may be sent to a host.
    pub(crate) fn uses_for(&self, host: &HostName) -> Vec<SecretUse> {
        self.uses.iter().filter(|secret| goes_to(secret, host)).cloned().collect()
    }

    /// Returns whether any secret may be sent to a host, or could have been.
    pub(crate) fn has_any_for(&self, host: &HostName) -> bool {
        self.uses.iter().chain(&self.withdrawn).any(|secret| goes_to(secret, host))
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
            held.former.extend(self.former(secret));
        }
        for secret in self.withdrawn.iter().filter(|one| goes_to(one, host)) {
            held.former.extend(self.last(secret));
            held.former.extend(self.former(secret));
        }
        held
    }

    /// Returns the secrets of every host whose values were read so far, here or elsewhere. Reads none itself: that may
    /// run a command, or prompt the user.
    pub(crate) fn seen(&self) -> Vec<Known> {
        let mut all: Vec<Known> = self.uses.iter().filter_map(|secret| self.last(secret)).collect();
        all.extend(self.uses.iter().flat_map(|secret| self.former(secret)));
        for (name, value) in self.vault.remembered() {
            if !all.iter().any(|known| known.value.expose() == value.expose()) {
                let used = self.uses.iter().find(|secret| secret.name == name);
                let (form, placeholder) = match used {
                    Some(secret) => (secret.form, secret.placeholder.clone()),
                    None => (SecretForm::Header, format!("[secret {name}]")),
                };
                all.push(Known { name, form, placeholder, value });
            }
        }
        all
    }

    /// Returns the value of a secret that was read last, if any.
    fn last(&self, secret: &SecretUse) -> Option<Known> {
        let value = self.kept().get(&secret.name)?.value.as_ref().ok()?.clone();
        let (name, placeholder) = (secret.name.clone(), secret.placeholder.clone());
        Some(Known { name, form: secret.form, placeholder, value })
    }

    /// Returns the former values of a secret.
    fn former(&self, secret: &SecretUse) -> Vec<Known> {
        let kept = self.kept();
        let former = kept.get(&secret.name).into_iter().flat_map(|kept| &kept.former);
        let known = |value: &SecretValue| Known {
            name: secret.name.clone(),
            form: secret.form,
            placeholder: secret.placeholder.clone(),
            value: value.clone(),
        };
        former.map(known).collect()
    }

    async fn value(&self, name: &str) -> Result<SecretValue, String> {
        if let Some(kept) = self.kept().get(name)
            && !kept.stale
            && kept.at.elapsed() < KEPT
        {
            return kept.value.clone();
        }
        let (vault, wanted) = (self.vault.clone(), name.to_owned());
        let value = tokio::task::spawn_blocking(move || vault.value(&wanted)).await;
        let value = value.unwrap_or_else(|_| Err("reading the value failed".into()));
        let mut kept = self.kept();
        let before = kept.remove(name);
        kept.insert(name.to_owned(), Kept::new(value.clone(), before));
        value
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn goes_to(secret: &SecretUse, host: &HostName) -> bool {
    secret.hosts.iter().any(|pattern| pattern.matches(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the last of some values, or fails without any.
    struct Changing(Mutex<Vec<&'static str>>);

    impl Vault for Changing {
        fn value(&self, _: &str) -> Result<SecretValue, String> {
            let next = self.0.lock().unwrap().pop().ok_or("the keyring is locked")?;
            SecretValue::new(next.into()).map_err(|error| error.to_string())
        }
    }

    #[tokio::test]
    async fn a_value_that_changed_or_cannot_be_read_is_still_looked_for() {
        let secret = SecretUse {
            name: "T".into(),
            hosts: vec!["api.example".parse().unwrap()],
            form: SecretForm::Header,
            placeholder: "tok_placeholder00".into(),
        };
        let values = vec!["tok_second_value0", "tok_second_value0", "tok_first_value00"];
        let secrets = Secrets::new(vec![secret], Arc::new(Changing(Mutex::new(values))));
        let host = "api.example".parse().unwrap();
        let (mut inserted, mut looked_for) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let held = secrets.of(&host).await;
            let text = |all: &[Known]| {
                all.iter().map(|one| one.value.expose().to_owned()).collect::<Vec<_>>()
            };
            inserted.push(text(&held.known));
            looked_for.push(text(&held.all()));
            assert_eq!(text(&secrets.seen()), text(&held.all()));
            secrets.kept().get_mut("T").unwrap().at -= KEPT;
        }
        let (first, second) = ("tok_first_value00", "tok_second_value0");
        assert_eq!(inserted, [vec![first], vec![second], vec![second], vec![]]);
        let all = [vec![first], vec![second, first], vec![second, first], vec![second, first]];
        assert_eq!(looked_for, all);
    }

    #[tokio::test]
    async fn what_a_config_no_longer_names_is_not_inserted_and_still_looked_for() {
        let secret = |name: &str, host: &str| SecretUse {
            name: name.into(),
            hosts: vec![host.parse().unwrap()],
            form: SecretForm::Header,
            placeholder: "tok_placeholder00".into(),
        };
        let vault = |value| Arc::new(Changing(Mutex::new(vec![value])));
        let first = Secrets::new(vec![secret("T", "*.example")], vault("tok_first_value00"));
        let (one, other) = ("one.example".parse().unwrap(), "other.example".parse().unwrap());
        assert_eq!(first.of(&other).await.known.len(), 1);
        let second =
            Secrets::after(&first, vec![secret("T", "one.example")], vault("tok_second_value0"));
        let text =
            |all: &[Known]| all.iter().map(|one| one.value.expose().to_owned()).collect::<Vec<_>>();
        let held = second.of(&other).await;
        assert_eq!(
            (held.known.len(), text(&held.all())),
            (0, vec!["tok_first_value00".to_owned()])
        );
        assert!(second.uses_for(&other).is_empty() && second.has_any_for(&other));
        // Where it is still inserted, the new value applies immediately.
        let held = second.of(&one).await;
        assert_eq!(text(&held.known), ["tok_second_value0"]);
        assert!(text(&held.all()).contains(&"tok_first_value00".to_owned()));
    }
}
