//! Which requests to a terminated host may go on at all. Pure.

use std::sync::Arc;

use hothouse_model::config::{Config, HostName, HostPattern, IntegrationClass, Method, Rule};

/// A request, as a gate sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub host: &'a HostName,
    pub port: u16,
    pub method: &'a str,
    /// Path without query.
    pub path: &'a str,
}

/// A request that must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which rule says so.
    pub rule: String,
    pub reason: String,
    /// What whoever asked can do.
    pub hint: String,
}

/// Decides about requests, one by one.
pub trait Gate: Send + Sync {
    /// Lets a request pass, or says why not.
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal>;
}

/// Lets pass what several gates let pass.
pub struct Gates(pub Vec<Arc<dyn Gate>>);

impl Gate for Gates {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        self.0.iter().try_for_each(|gate| gate.decide(asked))
    }
}

/// Treats integrations as their class says.
pub struct IntegrationGate(Vec<Treated>);

struct Treated {
    name: String,
    class: IntegrationClass,
    hosts: Vec<HostPattern>,
    exceptions: Vec<Rule>,
}

impl IntegrationGate {
    /// Takes the integrations whose requests must be seen one by one.
    pub fn of(config: &Config) -> Self {
        let seen = config.integrations.iter().filter(|(_, one)| one.class.is_terminated());
        let treated = seen.map(|(name, one)| Treated {
            name: name.to_string(),
            class: one.class,
            hosts: one.hosts.clone(),
            exceptions: one.exceptions.clone(),
        });
        Self(treated.collect())
    }
}

impl Gate for IntegrationGate {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let means = |one: &&Treated| one.hosts.iter().any(|host| host.matches(asked.host));
        let Some(one) = self.0.iter().find(means) else { return Ok(()) };
        if one.exceptions.iter().any(|rule| allows(rule, asked)) {
            return Ok(());
        }
        let rule = format!("integration.{}.class = \"{}\"", one.name, one.class);
        let refuse = |reason: String, hint: String| Err(Refusal { rule, reason, hint });
        let reads = matches!(asked.method, "GET" | "HEAD" | "OPTIONS");
        match one.class {
            IntegrationClass::ReadOnly if !reads => refuse(
                format!(
                    "`{}` is read-only here, and {} may change something",
                    one.name, asked.method
                ),
                format!("ask for an exception under `[integration.{}]`: `exceptions`", one.name),
            ),
            IntegrationClass::Mock | IntegrationClass::Sink => refuse(
                format!(
                    "`{}` never reaches the real service, and nothing stands in for it yet",
                    one.name
                ),
                "see `hothouse status` for what stands in for which host".into(),
            ),
            IntegrationClass::Disable => refuse(
                format!("`{}` is switched off", one.name),
                format!("ask for another `class` under `[integration.{}]`", one.name),
            ),
            _ => Ok(()),
        }
    }
}

/// Returns whether a rule means a request. A path of a rule means itself and what is below it.
fn allows(rule: &Rule, asked: &Asked<'_>) -> bool {
    use hothouse_model::config::Hosts;
    let host = match &rule.host.hosts {
        Hosts::Any => true,
        Hosts::Pattern(pattern) => pattern.matches(asked.host),
        Hosts::Named(_) | Hosts::Network(_) => false,
    };
    let port = rule.host.port.is_none_or(|port| port == asked.port);
    let method = rule.methods.is_empty()
        || rule.methods.iter().copied().map(Method::as_str).any(|known| known == asked.method);
    let path = rule.paths.is_empty()
        || rule.paths.iter().any(|path| {
            let rest = asked.path.strip_prefix(path.as_str());
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || path.as_str().ends_with('/')
            })
        });
    host && port && method && path && is_plain(asked.path)
}

/// A path that a server may read as another one is allowed by no rule.
fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    !path.split('/').any(|part| part == ".." || part == ".")
        && !["%2e", "%2f", "%5c", "\\", "//"].iter().any(|odd| lower.contains(odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(method: &str, host: &str, path: &str) -> Option<String> {
        let text = r#"
            [integration.cms]
            class = "read-only"
            hosts = ["*.cms.example"]
            exceptions = [{ host = "api.cms.example", methods = ["POST"], paths = ["/graphql"] }]
            [integration.pay]
            class = "mock"
            hosts = ["api.pay.example"]
            [integration.seam]
            class = "seam"
            hosts = ["seam.example"]
        "#;
        let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
        let host = host.parse().unwrap();
        let asked = Asked { host: &host, port: 443, method, path };
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
            ("GET", "api.pay.example", "/", false),
            ("POST", "seam.example", "/", true),
            ("POST", "elsewhere.example", "/", true),
        ] {
            assert_eq!(decide(method, host, path).is_none(), passes, "{method} {host}{path}");
        }
    }
}
