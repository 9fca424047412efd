//! The two halves of a configuration that an agent can edit.
//!
//! What describes the stack is read from the worktree; what could weaken the wall or the room is
//! pinned from the user's base commit. A new key is pinned unless it is listed here as free, so
//! forgetting this file is safe.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    egress::Egress,
    problem::join_key,
    sections::{
        Config, Integration, Lifetime, LiveKeys, Notify, Profile, Project, Room, Secret, Service,
        Variable,
    },
    text::{EntryName, SecretName, VariableName},
};
use crate::ServiceName;

/// Services by name.
pub type Services = BTreeMap<ServiceName, Service>;

/// The half that could weaken the wall or the room; keys of the other half are empty in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PinnedHalf {
    pub project: Project,
    pub room: Room,
    pub sandbox: Lifetime,
    pub egress: Egress,
    #[serde(rename = "integration")]
    pub integrations: BTreeMap<EntryName, Integration>,
    #[serde(rename = "secret")]
    pub secrets: BTreeMap<SecretName, Secret>,
    #[serde(rename = "env")]
    pub variables: BTreeMap<VariableName, Variable>,
    #[serde(default)]
    pub live_keys: LiveKeys,
    /// The host services of the base, and of each profile that has any.
    #[serde(rename = "service")]
    pub host_services: Services,
    #[serde(rename = "profile")]
    pub profiles: BTreeMap<EntryName, PinnedProfile>,
}

/// The pinned part of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PinnedProfile {
    #[serde(rename = "service")]
    pub host_services: Services,
}

/// A value of the pinned half that the worktree would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingChange {
    pub key: String,
    /// The current value; `None` if the base does not have the key.
    pub base: Option<Value>,
    /// The requested value; `None` if the worktree drops the key.
    pub worktree: Option<Value>,
}

/// The worktree declares a host service that the user has not approved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("service `{service}` on the host is not approved")]
pub struct UnapprovedService {
    pub service: ServiceName,
}

impl Config {
    /// Returns the half that is pinned at fork.
    pub fn pinned_half(&self) -> PinnedHalf {
        let profiles = self.profiles.iter().map(|(name, profile)| {
            (name.clone(), PinnedProfile { host_services: on_host(&profile.services) })
        });
        PinnedHalf {
            project: Project { setup: None, ..self.project.clone() },
            room: Room { deps: Vec::new(), ..self.room.clone() },
            sandbox: self.sandbox.clone(),
            egress: self.egress.clone(),
            integrations: self
                .integrations
                .iter()
                .map(|(name, whole)| (name.clone(), pinned(whole)))
                .collect(),
            secrets: self.secrets.clone(),
            variables: self.variables.clone(),
            live_keys: self.live_keys.clone(),
            host_services: on_host(&self.services),
            profiles: profiles.filter(|(_, profile)| !profile.host_services.is_empty()).collect(),
        }
    }

    /// Combines the worktree's stack with a pinned half, which is what a room is made from.
    pub fn with_pinned(self, pin: &PinnedHalf) -> Result<Self, UnapprovedService> {
        let none = Services::new();
        let under = |(name, profile): (EntryName, Profile)| {
            let hosted = pin.profiles.get(&name).map_or(&none, |profile| &profile.host_services);
            let services = with_hosted(profile.services, hosted)?;
            Ok((name, Profile { services, ..profile }))
        };
        let mut ours = self.integrations;
        let integrations = pin.integrations.iter().map(|(name, pinned)| {
            let free = ours.remove(name);
            (
                name.clone(),
                free.map_or_else(|| pinned.clone(), |free| under_pin(free, pinned.clone())),
            )
        });
        Ok(Self {
            project: Project { setup: self.project.setup, ..pin.project.clone() },
            room: Room { deps: self.room.deps, ..pin.room.clone() },
            sandbox: pin.sandbox.clone(),
            services: with_hosted(self.services, &pin.host_services)?,
            profiles: self.profiles.into_iter().map(under).collect::<Result<_, _>>()?,
            egress: pin.egress.clone(),
            integrations: integrations.collect(),
            secrets: pin.secrets.clone(),
            variables: pin.variables.clone(),
            live_keys: pin.live_keys.clone(),
            // Only the user's own file sets how they are notified; no room or project can write it.
            notify: Notify::default(),
            flags: self.flags,
            mail: self.mail,
            seed: self.seed,
            scenarios: self.scenarios,
            queues: self.queues,
            crons: self.crons,
            roles: self.roles,
            shims: self.shims,
            agent: self.agent,
            terminal: self.terminal,
            questions: self.questions,
        })
    }
}

/// Lists what a worktree's configuration would change in the pinned half, sorted by key.
pub fn pending_changes(base: &Config, worktree: &Config) -> Vec<PendingChange> {
    let (base, mut worktree) =
        (pinned_leaves(&base.pinned_half()), pinned_leaves(&worktree.pinned_half()));
    let mut changes: Vec<PendingChange> = Vec::new();
    for (key, base) in base {
        let asked = worktree.remove(&key);
        if asked.as_ref() != Some(&base) {
            changes.push(PendingChange { key, base: Some(base), worktree: asked });
        }
    }
    let added = worktree.into_iter().map(|(key, asked)| PendingChange {
        key,
        base: None,
        worktree: Some(asked),
    });
    changes.extend(added);
    changes.sort_by(|left, right| left.key.cmp(&right.key));
    changes
}

/// Returns the pinned part of an integration: webhooks, fixtures and variables stay with the
/// worktree.
fn pinned(whole: &Integration) -> Integration {
    Integration { webhook: None, fixtures: None, env: BTreeMap::new(), ..whole.clone() }
}

fn under_pin(free: Integration, pinned: Integration) -> Integration {
    Integration { webhook: free.webhook, fixtures: free.fixtures, env: free.env, ..pinned }
}

fn on_host(services: &Services) -> Services {
    let hosted = services.iter().filter(|(_, service)| service.host);
    hosted.map(|(name, service)| (name.clone(), service.clone())).collect()
}

/// Adds the approved host services, and rejects others.
fn with_hosted(mut services: Services, hosted: &Services) -> Result<Services, UnapprovedService> {
    services.extend(hosted.iter().map(|(name, service)| (name.clone(), service.clone())));
    match services.iter().find(|(name, service)| service.host && !hosted.contains_key(*name)) {
        Some((name, _)) => Err(UnapprovedService { service: name.clone() }),
        None => Ok(services),
    }
}

/// Flattens a half into its keys; a list counts as one value, and unset keys are left out.
pub fn pinned_leaves(half: &PinnedHalf) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let whole =
        serde_json::to_value(half).expect("a config holds only texts, numbers, lists and tables");
    collect(&whole, "", &mut found);
    found
}

fn collect(value: &Value, key: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(name, below)| collect(below, &join_key(key, name), found))
        }
        Value::Null => {}
        leaf => {
            found.insert(key.to_owned(), leaf.clone());
        }
    }
}
