//! Reports on integrations: how each is handled, what that does not cover, who uses it. Pure.

use std::collections::BTreeMap;

use hothouse_model::{
    config::{Config, HostPattern, Integration, IntegrationClass, Method},
    integration::Wiring,
};
use hothouse_sdks::{Sdk, Vendor};

/// The report on an integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrationReport {
    pub name: String,
    pub class: IntegrationClass,
    /// Its vendor, if known.
    pub vendor: Option<String>,
    pub hosts: Vec<String>,
    /// As `ECOSYSTEM:NAME@VERSION`.
    pub sdks: Vec<String>,
    pub wiring: Wiring,
    /// Whether a request that changes something can reach the real service.
    pub writes: bool,
    /// How its credentials are handled.
    pub secret: String,
    /// What this class does not cover.
    pub caveat: String,
}

/// A vendor whose host was requested, and that no integration covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncoveredVendor {
    pub vendor: String,
    pub title: String,
    pub host: String,
    pub sdks: Vec<String>,
    /// The suggested class.
    pub class: IntegrationClass,
}

/// The SDKs of a project, by vendor.
pub type Sdks = BTreeMap<&'static str, Vec<Sdk>>;

/// Returns the vendor of an integration: from its config, or derived from its hosts.
pub fn vendor_of(integration: &Integration) -> Option<&'static Vendor> {
    match integration.vendor {
        Some(word) => hothouse_sdks::vendor(word.as_str()),
        None => {
            let hosts = integration.hosts.iter().map(ToString::to_string);
            hosts.filter_map(|host| hothouse_sdks::vendor_of_host(&host)).next()
        }
    }
}

/// Reports all integrations of a config.
pub(super) fn reports(config: &Config, sdks: &Sdks) -> Vec<IntegrationReport> {
    let all = config.integrations.iter();
    all.map(|(name, one)| report(name.as_str(), one, config, sdks)).collect()
}

fn report(name: &str, one: &Integration, config: &Config, sdks: &Sdks) -> IntegrationReport {
    let vendor = vendor_of(one);
    let said = one.vendor.map(|word| word.as_str().to_owned());
    let used = vendor.and_then(|vendor| sdks.get(vendor.name.as_str())).into_iter().flatten();
    IntegrationReport {
        name: name.to_owned(),
        class: one.class,
        vendor: said.or_else(|| vendor.map(|vendor| vendor.name.clone())),
        hosts: one.hosts.iter().map(ToString::to_string).collect(),
        sdks: used.map(shown).collect(),
        wiring: wiring(one),
        writes: writes(one),
        secret: secret(one, config),
        caveat: caveat(one, vendor),
    }
}

/// Formats an SDK with its version.
fn shown(sdk: &Sdk) -> String {
    match &sdk.version {
        Some(version) => format!("{}@{version}", sdk.package),
        None => sdk.package.clone(),
    }
}

fn wiring(one: &Integration) -> Wiring {
    let by_wall = one.class.is_terminated() && !one.hosts.is_empty();
    match (by_wall, one.env.is_empty()) {
        (true, false) => Wiring::Both,
        (true, true) => Wiring::Wall,
        (false, _) => Wiring::Env,
    }
}

fn writes(one: &Integration) -> bool {
    let is_read = |method: &Method| matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS");
    match one.class {
        IntegrationClass::TestMode | IntegrationClass::Seam => true,
        IntegrationClass::ReadOnly => one
            .exceptions
            .iter()
            .any(|rule| rule.methods.is_empty() || !rule.methods.iter().all(is_read)),
        _ => false,
    }
}

fn secret(one: &Integration, config: &Config) -> String {
    let is_own = |host: &HostPattern| one.hosts.contains(host);
    let own = config.secrets.iter().filter(|(_, secret)| secret.hosts.iter().any(is_own));
    let names: Vec<String> = own.map(|(name, _)| format!("`{name}`")).collect();
    let put_in = match names.is_empty() {
        true => None,
        false => Some(format!("the wall puts {} in", names.join(", "))),
    };
    match (one.class, put_in) {
        (IntegrationClass::TestMode, Some(put_in)) => format!("test keys only; {put_in}"),
        (IntegrationClass::TestMode, None) => "test keys only".to_owned(),
        (class, _) if class.is_answered_here() => "none is needed".to_owned(),
        (_, Some(put_in)) => put_in,
        (_, None) => "none".to_owned(),
    }
}

fn caveat(one: &Integration, vendor: Option<&Vendor>) -> String {
    let own = one.caveat.as_ref().map(|line| line.as_str().to_owned());
    // The table's caveat is about the class that it suggests.
    let known = vendor.filter(|vendor| vendor.class == one.class);
    let known = known.and_then(|vendor| vendor.caveat.clone());
    let led = one
        .to
        .as_ref()
        .map(|service| format!("service `{service}` of the room answers in its place"));
    let own = own.or(led);
    // Objects are kept, so what is said of other sinks would be wrong.
    let is_store =
        vendor.is_some_and(|vendor| ["s3", "gcs", "azure-blob"].contains(&vendor.name.as_str()));
    let kept = (is_store && one.class == IntegrationClass::Sink).then(|| {
        "objects are kept in the sandbox; rules for their lifecycle and for access have no effect"
            .to_owned()
    });
    own.or(known).or(kept).unwrap_or_else(|| of_class(one.class).to_owned())
}

/// Describes what a class does not cover.
fn of_class(class: IntegrationClass) -> &'static str {
    match class {
        IntegrationClass::Local => "a substitute in the room stands for the real service",
        IntegrationClass::ReadOnly => "the real service, and writes to it are denied",
        IntegrationClass::TestMode => "the real service, with keys of its test mode alone",
        IntegrationClass::Mock => "fixtures answer, and nothing reaches the real service",
        IntegrationClass::Shim => "a script in the browser stands for the real service",
        IntegrationClass::Sink => "what is sent is recorded, and goes nowhere",
        IntegrationClass::Disable => "switched off: every request is refused",
        IntegrationClass::Seam => "the app's own substitute is used; the wall enforces nothing",
    }
}

/// Returns the vendors with an SDK in the project whose hosts were requested, and that no
/// integration covers.
pub(super) fn uncovered<'a>(
    config: &Config,
    sdks: &Sdks,
    asked: impl IntoIterator<Item = &'a str>,
) -> Vec<UncoveredVendor> {
    let mut found: BTreeMap<&str, UncoveredVendor> = BTreeMap::new();
    for host in asked {
        let Ok(name) = host.parse() else { continue };
        let is_covered = config
            .integrations
            .values()
            .any(|one| one.hosts.iter().any(|pattern| pattern.matches(&name)));
        let vendor = hothouse_sdks::vendor_of_host(host).filter(|_| !is_covered);
        let Some((vendor, used)) =
            vendor.and_then(|vendor| Some((vendor, sdks.get(vendor.name.as_str())?)))
        else {
            continue;
        };
        found.entry(vendor.name.as_str()).or_insert_with(|| UncoveredVendor {
            vendor: vendor.name.clone(),
            title: vendor.title.clone(),
            host: host.to_owned(),
            sdks: used.iter().map(shown).collect(),
            class: vendor.class,
        });
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        [integration.pay]
        class = "mock"
        hosts = ["api.stripe.com"]
        [integration.cms]
        class = "read-only"
        hosts = ["cms.example"]
        exceptions = [{ host = "cms.example", methods = ["POST"], paths = ["/search"] }]
        caveat = "content is of today"
        [integration.search]
        class = "local"
        env = { SEARCH_URL = "http://127.0.0.1:1" }
        [integration.mail]
        class = "test-mode"
        hosts = ["api.resend.com"]
        env = { RESEND_BASE_URL = "x" }
        [integration.own]
        class = "seam"
        [secret.RESEND_KEY]
        hosts = ["api.resend.com"]
    "#;

    fn config() -> Config {
        hothouse_config::parse("hothouse.toml", CONFIG).unwrap().config
    }

    fn sdks() -> Sdks {
        let sdk = |package: &str, version: Option<&str>| Sdk {
            package: package.into(),
            version: version.map(str::to_owned),
            file: "package-lock.json".into(),
        };
        BTreeMap::from([
            ("stripe", vec![sdk("npm:stripe", Some("12.0.0"))]),
            ("openai", vec![sdk("pypi:openai", None)]),
        ])
    }

    #[test]
    fn each_integration_says_how_it_is_treated_and_what_that_leaves_out() {
        let all = reports(&config(), &sdks());
        let of = |name: &str| all.iter().find(|one| one.name == name).unwrap();
        for (name, wiring, writes, secret, caveat) in [
            ("pay", Wiring::Wall, false, "none is needed", "payments are the mock's own"),
            ("cms", Wiring::Wall, true, "none", "content is of today"),
            ("search", Wiring::Env, false, "none", "a substitute in the room"),
            (
                "mail",
                Wiring::Both,
                true,
                "test keys only; the wall puts `RESEND_KEY` in",
                "keys of its test mode",
            ),
            ("own", Wiring::Env, true, "none", "the wall enforces nothing"),
        ] {
            let found = of(name);
            assert_eq!(
                (found.wiring, found.writes, found.secret.as_str()),
                (wiring, writes, secret),
                "{name}"
            );
            assert!(found.caveat.contains(caveat), "{name}: {}", found.caveat);
        }
        assert_eq!(of("pay").sdks, ["npm:stripe@12.0.0"]);
        assert_eq!(of("pay").vendor.as_deref(), Some("stripe"));
    }

    #[test]
    fn a_host_of_a_known_sdk_without_an_integration_is_reported() {
        let asked = [
            "api.openai.com",
            "api.stripe.com",
            "api.slack.com",
            "x.example",
            "slack.com",
            "api.openai.com",
        ];
        let found = uncovered(&config(), &sdks(), asked);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.vendor.as_str(), one.host.as_str()), ("openai", "api.openai.com"));
        assert_eq!(
            (one.class, &one.sdks[..]),
            (IntegrationClass::Mock, &["pypi:openai".to_owned()][..])
        );
    }
}
