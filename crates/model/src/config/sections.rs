//! The configuration as types: everything read and validated.
//!
//! The field names are the keys of `hothouse.toml`, so that a stored config, the pinned half and a problem use the same
//! names.

mod data;
mod room;
mod scenario;
mod service;
mod wall;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::{
    data::{Bundle, BundleCall, BundleWork, Cron, Queue, Radius, Role, Seed, Shim, ShipShim},
    room::{Agent, Backend, Lifetime, Mount, Place, Project, Room, Terminal, Tree},
    scenario::{Effect, Expectation, QueueExpectation, RowExpectation, Scenario},
    service::{
        Condition, DatabaseRecipe, Files, Need, Probe, Profile, Ready, Recipe, Restart,
        RestartPolicy, Service, Signal, SinkRecipe, Work,
    },
    wall::{
        Caps, Integration, IntegrationClass, LiveKeyRule, LiveKeys, Mail, MailFault, MailFaultKind,
        Notify, SECRET_SOURCE, Secret, SecretForm, SecretSource, VALUE_SOURCE, ValueSource,
        Variable, VariableKind, Vendor, Webhook,
    },
};
use super::{
    egress::{Egress, Hosts},
    host::{HostName, HostPattern},
    near::nearest,
    text::{EntryName, FlagKey, Line, SecretName, VariableName},
};
use serde_json::Value;

use crate::ServiceName;

/// The default profile.
pub const DEFAULT_PROFILE: &str = "dev";

/// A whole configuration, with defaults applied and every reference checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub project: Project,
    pub room: Room,
    #[serde(default)]
    pub sandbox: Lifetime,
    #[serde(default, rename = "service")]
    pub services: BTreeMap<ServiceName, Service>,
    /// Every profile with *all* of its effective services; `dev` and `e2e` always exist.
    #[serde(rename = "profile")]
    pub profiles: BTreeMap<EntryName, Profile>,
    pub egress: Egress,
    #[serde(default, rename = "integration")]
    pub integrations: BTreeMap<EntryName, Integration>,
    #[serde(default, rename = "secret")]
    pub secrets: BTreeMap<SecretName, Secret>,
    #[serde(default, rename = "env")]
    pub variables: BTreeMap<VariableName, Variable>,
    #[serde(default)]
    pub live_keys: LiveKeys,
    #[serde(default)]
    pub notify: Notify,
    /// The value of a feature flag that apps get, unless a sandbox pins another.
    #[serde(default)]
    pub flags: BTreeMap<FlagKey, Value>,
    /// Deliberate faults in the mail of apps.
    #[serde(default)]
    pub mail: Mail,
    #[serde(default)]
    pub seed: Seed,
    #[serde(default, rename = "scenario")]
    pub scenarios: BTreeMap<EntryName, Scenario>,
    #[serde(default, rename = "queue")]
    pub queues: BTreeMap<EntryName, Queue>,
    #[serde(default, rename = "cron")]
    pub crons: BTreeMap<EntryName, Cron>,
    #[serde(default, rename = "auth")]
    pub roles: BTreeMap<EntryName, Role>,
    #[serde(default, rename = "shim")]
    pub shims: BTreeMap<EntryName, Shim>,
    #[serde(default)]
    pub agent: Agent,
    #[serde(default)]
    pub terminal: Terminal,
    /// What `init` could not determine, by id.
    #[serde(default, rename = "question")]
    pub questions: BTreeMap<EntryName, Line>,
}

/// A requested profile that the config does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile `{name}`")]
pub struct UnknownProfile {
    pub name: String,
    pub suggestion: Option<String>,
    pub known: Vec<String>,
}

impl Config {
    /// Returns the configuration under a profile, by default `dev`.
    pub fn for_profile(&self, name: Option<&str>) -> Result<Self, UnknownProfile> {
        let name = name.unwrap_or(DEFAULT_PROFILE);
        let profile = self.profiles.get(name).ok_or_else(|| self.unknown_profile(name))?;
        Ok(Self { services: profile.services.clone(), ..self.clone() })
    }

    /// Returns the hosts whose TLS the wall terminates: those of secrets, of integrations whose requests it reads, and
    /// of rules that look at requests.
    pub fn terminated_hosts(&self) -> Vec<HostPattern> {
        let of_secrets = self.secrets.values().flat_map(|secret| &secret.hosts);
        let seen = self.integrations.values().filter(|one| one.class.is_terminated());
        let of_integrations = seen.flat_map(|one| &one.hosts);
        let rules = self.egress.allow.iter().chain(&self.egress.deny);
        let looking = rules.filter(|rule| !rule.methods.is_empty() || !rule.paths.is_empty());
        let of_rules = looking.filter_map(|rule| match &rule.host.hosts {
            Hosts::Pattern(pattern) => Some(pattern),
            Hosts::Any | Hosts::Named(_) | Hosts::Network(_) => None,
        });
        let mut hosts: Vec<_> =
            of_secrets.chain(of_integrations).chain(of_rules).cloned().collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// Returns the same with one integration in test mode, for the wall to use while its responses are recorded.
    #[must_use]
    pub fn recording(&self, integration: &str) -> Self {
        let mut config = self.clone();
        if let Some(one) = config.integrations.get_mut(integration) {
            one.class = IntegrationClass::TestMode;
        }
        config
    }

    /// Returns the integration that decides about a host: the first that covers it and reads its requests.
    pub fn integration_of(&self, host: &HostName) -> Option<(&EntryName, &Integration)> {
        let means = |one: &Integration| one.hosts.iter().any(|pattern| pattern.matches(host));
        self.integrations.iter().find(|(_, one)| one.class.is_terminated() && means(one))
    }

    /// Returns a service by its name, as given on the command line.
    pub fn service(&self, name: &str) -> Option<&Service> {
        name.parse::<ServiceName>().ok().and_then(|name| self.services.get(&name))
    }

    fn unknown_profile(&self, name: &str) -> UnknownProfile {
        let known: Vec<String> = self.profiles.keys().map(EntryName::to_string).collect();
        let suggestion = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        UnknownProfile { name: name.to_owned(), suggestion, known }
    }
}
