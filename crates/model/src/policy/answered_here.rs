//! The hosts that Hothouse answers for: those of integrations that are mocked, sunk or switched off.

use crate::config::{Config, HostName, HostPattern};

/// The hosts of integrations in their order, each with whether it is answered for here; the first that
/// means a host decides, as it does for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredHere(Vec<(HostPattern, bool)>);

impl AnsweredHere {
    /// Takes the integrations of a config.
    pub fn of(config: &Config) -> Self {
        let seen = config.integrations.values().filter(|one| one.class.is_terminated());
        let hosts = seen.flat_map(|one| {
            one.hosts.iter().map(|host| (host.clone(), one.class.is_answered_here()))
        });
        Self(hosts.collect())
    }

    /// Whether a host is never dialled.
    pub fn holds(&self, name: &HostName) -> bool {
        self.0.iter().find(|(host, _)| host.matches(name)).is_some_and(|(_, here)| *here)
    }
}
