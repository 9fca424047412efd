//! The hosts of integrations: those that Hothouse answers for (mocked, sunk or disabled), and those whose requests it
//! reads.

use crate::config::{Config, HostName, HostPattern, IntegrationClass};

/// The hosts of integrations in order, each with its class; the first match decides, as it does for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredHere(Vec<(HostPattern, IntegrationClass)>);

impl AnsweredHere {
    /// Takes the integrations from a config.
    pub fn of(config: &Config) -> Self {
        let seen = config.integrations.values().filter(|one| one.class.is_terminated());
        let hosts = seen.flat_map(|one| one.hosts.iter().map(|host| (host.clone(), one.class)));
        Self(hosts.collect())
    }

    /// Returns whether a host is never dialled.
    pub fn holds(&self, name: &HostName) -> bool {
        self.class(name).is_some_and(IntegrationClass::is_answered_here)
    }

    /// Returns whether an integration passes requests on to the real host, with its class deciding each one.
    pub fn passes_on(&self, name: &HostName) -> bool {
        self.class(name).is_some_and(|class| !class.is_answered_here())
    }

    /// Returns whether what is sent to a host is taken and kept, including mail.
    pub fn sinks(&self, name: &HostName) -> bool {
        self.class(name) == Some(IntegrationClass::Sink)
    }

    fn class(&self, name: &HostName) -> Option<IntegrationClass> {
        self.0.iter().find(|(host, _)| host.matches(name)).map(|(_, class)| *class)
    }
}
