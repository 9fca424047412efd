//! Decides which requests to a terminated host may be forwarded. Pure.

use std::{pin::Pin, sync::Arc};

use crate::{
    meter::Meter,
    record::{BODY_CAP, RECORDED_CAP},
};
use hothouse_model::{
    config::{Config, HostName, HostPattern, Hosts, IntegrationClass, LiveKeys, Method, Rule},
    policy::{Answerer, PlainPath, Reason},
};

/// A request, as presented to a gate.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub host: &'a HostName,
    pub port: u16,
    pub method: &'a str,
    /// The path as sent, without the query.
    pub path: &'a str,
    /// Whether it requests an upgrade to WebSocket.
    pub upgrades: bool,
    /// Who would answer it.
    pub by: Answerer,
}

/// A request that must not be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that refuses it.
    pub rule: String,
    pub reason: String,
    /// What the client can do instead.
    pub hint: String,
}

/// Completes when decisions may have changed.
pub type Changes = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Decides on each request.
pub trait Gate: Send + Sync {
    /// Admits or refuses a request.
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal>;

    /// Returns a future that completes when decisions may have changed since this call; `None` if
    /// they never do.
    fn changes(&self) -> Option<Changes> {
        None
    }

    /// Returns the integration that a host belongs to and its class, for the record.
    fn integration(&self, _host: &HostName) -> Option<(String, IntegrationClass)> {
        None
    }

    /// Returns what counts as a live key, for a host that must not receive any.
    fn live_keys(&self, _host: &HostName) -> Option<Arc<LiveKeys>> {
        None
    }

    /// Returns the meter for requests to a host, if they cost money.
    fn meter(&self, _host: &HostName) -> Option<Arc<dyn Meter>> {
        None
    }

    /// Returns how much of each body is recorded for requests to a host.
    fn kept_of_bodies(&self, _host: &HostName) -> usize {
        BODY_CAP
    }
}

/// Admits a request only if all gates do.
pub struct Gates(pub Vec<Arc<dyn Gate>>);

impl Gate for Gates {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        self.0.iter().try_for_each(|gate| gate.decide(asked))
    }

    fn changes(&self) -> Option<Changes> {
        self.0.iter().find_map(|gate| gate.changes())
    }

    fn integration(&self, host: &HostName) -> Option<(String, IntegrationClass)> {
        self.0.iter().find_map(|gate| gate.integration(host))
    }

    fn live_keys(&self, host: &HostName) -> Option<Arc<LiveKeys>> {
        self.0.iter().find_map(|gate| gate.live_keys(host))
    }

    fn meter(&self, host: &HostName) -> Option<Arc<dyn Meter>> {
        self.0.iter().find_map(|gate| gate.meter(host))
    }

    fn kept_of_bodies(&self, host: &HostName) -> usize {
        self.0.iter().map(|gate| gate.kept_of_bodies(host)).max().unwrap_or(BODY_CAP)
    }
}

/// Applies the class of each integration.
pub struct IntegrationGate {
    treated: Vec<Treated>,
    live_keys: Arc<LiveKeys>,
    /// The integration whose responses are recorded.
    recorded: Option<String>,
}

struct Treated {
    name: String,
    class: IntegrationClass,
    hosts: Vec<HostPattern>,
    exceptions: Vec<Rule>,
}

impl IntegrationGate {
    /// Selects the integrations whose requests must be checked individually.
    pub fn of(config: &Config) -> Self {
        let seen = config.integrations.iter().filter(|(_, one)| one.class.is_terminated());
        let treated = seen.map(|(name, one)| Treated {
            name: name.to_string(),
            class: one.class,
            hosts: one.hosts.clone(),
            exceptions: one.exceptions.clone(),
        });
        let live_keys = Arc::new(config.live_keys.clone());
        Self { treated: treated.collect(), live_keys, recorded: None }
    }

    /// Records long bodies of one integration, whose responses are recorded for replay.
    #[must_use]
    pub fn recording(self, recorded: Option<String>) -> Self {
        Self { recorded, ..self }
    }

    /// Returns the integration of a host: the first whose patterns match.
    fn of_host(&self, host: &HostName) -> Option<&Treated> {
        self.treated.iter().find(|one| one.hosts.iter().any(|pattern| pattern.matches(host)))
    }
}

impl Gate for IntegrationGate {
    fn integration(&self, host: &HostName) -> Option<(String, IntegrationClass)> {
        self.of_host(host).map(|one| (one.name.clone(), one.class))
    }

    fn live_keys(&self, host: &HostName) -> Option<Arc<LiveKeys>> {
        let class = self.of_host(host).map(|one| one.class);
        (class == Some(IntegrationClass::TestMode)).then(|| self.live_keys.clone())
    }

    fn kept_of_bodies(&self, host: &HostName) -> usize {
        let of = self.of_host(host).map(|one| &one.name);
        if of.is_some() && of == self.recorded.as_ref() { RECORDED_CAP } else { BODY_CAP }
    }

    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let found = self.of_host(asked.host);
        match (found.map(|one| one.class), asked.by) {
            // No exception allows requests to the real host.
            (Some(IntegrationClass::Mock | IntegrationClass::Sink), Answerer::StandIn) => {
                return Ok(());
            }
            (Some(IntegrationClass::Disable), _) => {}
            (_, Answerer::StandIn) => return Err(no_longer_here(asked.host)),
            (_, Answerer::Host) => {}
        }
        let Some(one) = found else { return Ok(()) };
        let rule = format!("integration.{}.class = \"{}\"", one.name, one.class);
        let refuse = |reason: String, hint: String| Err(Refusal { rule, reason, hint });
        let path = PlainPath::of(asked.path);
        let looks = one.class == IntegrationClass::ReadOnly
            || one.exceptions.iter().any(|rule| !rule.paths.is_empty());
        if let (true, Err(what)) = (looks, &path) {
            return refuse(
                Reason::Ambiguous(*what).to_string(),
                "write the path plainly: no dots, encoded slashes or empty segments".into(),
            );
        }
        let excepted =
            |path: PlainPath| one.exceptions.iter().any(|rule| allows(rule, asked, &path));
        if !one.class.is_answered_here() && path.is_ok_and(excepted) {
            return Ok(());
        }
        let reads = matches!(asked.method, "GET" | "HEAD" | "OPTIONS");
        match one.class {
            IntegrationClass::ReadOnly if asked.upgrades => refuse(
                format!(
                    "`{}` is read-only here, and nobody can tell what a WebSocket changes",
                    one.name
                ),
                format!(
                    "ask for an exception without `methods` under `[integration.{}]`: `exceptions`",
                    one.name
                ),
            ),
            IntegrationClass::ReadOnly if !reads => refuse(
                format!(
                    "`{}` is read-only here, and {} may change something",
                    one.name, asked.method
                ),
                format!("ask for an exception under `[integration.{}]`: `exceptions`", one.name),
            ),
            // The connection was opened before a stand-in answered for this host.
            IntegrationClass::Mock | IntegrationClass::Sink => refuse(
                format!(
                    "`{}` is answered for here, and this connection leads to the real one",
                    one.name
                ),
                "open a new connection".into(),
            ),
            IntegrationClass::Disable => refuse(
                format!("`{}` is switched off", one.name),
                format!("ask for another `class` under `[integration.{}]`", one.name),
            ),
            _ => Ok(()),
        }
    }
}

/// Refuses a request on a connection that was opened while a stand-in answered for the host.
fn no_longer_here(host: &HostName) -> Refusal {
    Refusal {
        rule: "integration".into(),
        reason: format!(
            "{host} is no longer answered for here, and this connection was opened when it was"
        ),
        hint: "open a new connection".into(),
    }
}

/// Returns whether a rule matches a request. The path of a rule covers itself and everything below;
/// a WebSocket counts as any method.
fn allows(rule: &Rule, asked: &Asked<'_>, path: &PlainPath) -> bool {
    let host = match &rule.host.hosts {
        Hosts::Any => true,
        Hosts::Pattern(pattern) => pattern.matches(asked.host),
        Hosts::Named(_) | Hosts::Network(_) => false,
    };
    let port = rule.host.port.is_none_or(|port| port == asked.port);
    let known = |method: &Method| method.as_str() == asked.method;
    let method = rule.methods.is_empty() || !asked.upgrades && rule.methods.iter().any(known);
    let below = rule.paths.is_empty() || rule.paths.iter().any(|own| path.is_below(own.as_str()));
    host && port && method && below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(method: &str, host: &str, path: &str) -> Option<String> {
        let text = r#"
            [integration.cms]
            class = "read-only"
            hosts = ["*.cms.example"]
            exceptions = [
                { host = "api.cms.example", methods = ["GET", "POST"], paths = ["/graphql"] },
                { host = "api.cms.example", paths = ["/live"] },
            ]
            [integration.pay]
            class = "mock"
            hosts = ["api.pay.example"]
            exceptions = [{ host = "api.pay.example", paths = ["/real"] }]
            [integration.mail]
            class = "sink"
            hosts = ["api.mail.example"]
            exceptions = [{ host = "api.mail.example", paths = ["/real"] }]
            [integration.off]
            class = "disable"
            hosts = ["off.example"]
            exceptions = [{ host = "off.example" }]
            [integration.seam]
            class = "seam"
            hosts = ["seam.example"]
        "#;
        let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
        let host = host.parse().unwrap();
        let asked = Asked {
            host: &host,
            port: 443,
            method: method.trim_end_matches(['+', '@']),
            path,
            upgrades: method.ends_with('+'),
            by: if method.ends_with('@') { Answerer::StandIn } else { Answerer::Host },
        };
        IntegrationGate::of(&config).decide(&asked).err().map(|refusal| refusal.rule)
    }

    #[test]
    fn a_class_decides_and_exceptions_are_narrow() {
        for (method, host, path, passes) in [
            ("GET", "api.cms.example", "/x", true),
            ("DELETE", "api.cms.example", "/x", false),
            ("POST", "api.cms.example", "/graphql", true),
            ("POST", "api.cms.example", "/graphql/v2", true),
            ("POST", "api.cms.example", "/graphqlx", false),
            ("POST", "api.cms.example", "/graphql/../admin", false),
            ("POST", "api.cms.example", "/graphql/%2e%2e/admin", false),
            ("POST", "other.cms.example", "/graphql", false),
            ("GET", "api.cms.example", "/x/../y", false),
            ("GET", "api.cms.example", "/x;y", false),
            ("get", "api.cms.example", "/x", false),
            ("POST", "api.cms.example", "/graphql/..;/admin", false),
            ("POST", "api.cms.example", "/graphql/%252e%252e/admin", false),
            ("POST", "api.cms.example", "/graphql/..%09/admin", false),
            // A plus marks a WebSocket upgrade.
            ("GET+", "api.cms.example", "/x", false),
            ("GET+", "api.cms.example", "/graphql", false),
            ("GET+", "api.cms.example", "/live", true),
            ("GET", "api.pay.example", "/", false),
            ("GET", "api.pay.example", "/real", false),
            ("GET", "off.example", "/", false),
            // An at-sign marks a request that a stand-in would answer.
            ("GET@", "api.pay.example", "/real", true),
            ("POST@", "api.pay.example", "/x/../y", true),
            ("POST@", "api.mail.example", "/x/../y", true),
            ("POST", "api.mail.example", "/real", false),
            ("GET@", "off.example", "/", false),
            ("GET@", "api.cms.example", "/x", false),
            ("GET@", "elsewhere.example", "/", false),
            ("GET+", "seam.example", "/x/../y", true),
            ("POST", "seam.example", "/", true),
            ("POST", "elsewhere.example", "/", true),
        ] {
            assert_eq!(decide(method, host, path).is_none(), passes, "{method} {host}{path}");
        }
    }
}
