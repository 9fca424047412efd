//! The hosts of integrations: those that Hothouse answers for (mocked, sunk or switched off), and those that
//! it reads every request to.

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
        self.find(name) == Some(true)
    }

    /// Whether an integration leads to the real host, whose requests its class judges one by one.
    pub fn passes_on(&self, name: &HostName) -> bool {
        self.find(name) == Some(false)
    }

    fn find(&self, name: &HostName) -> Option<bool> {
        self.0.iter().find(|(host, _)| host.matches(name)).map(|(_, here)| *here)
    }
}
