//! The known vendors, from `table.toml`.

use std::sync::LazyLock;

use hothouse_model::{config::IntegrationClass, glob};
use serde::Deserialize;

/// A known vendor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendor {
    /// The value of `vendor =`, where Hothouse speaks its protocol.
    pub name: String,
    /// The name for display.
    pub title: String,
    /// The class that `init` proposes.
    pub class: IntegrationClass,
    /// Production hosts; `*` matches any text.
    pub hosts: Vec<String>,
    /// Variables that point its SDKs to another host.
    #[serde(default)]
    pub env: Vec<String>,
    /// What the class does not cover.
    pub caveat: Option<String>,
    /// Packages, as `ECOSYSTEM:NAME`.
    pub sdks: Vec<String>,
}

#[derive(Deserialize)]
struct Table {
    vendor: Vec<Vendor>,
}

static TABLE: LazyLock<Vec<Vendor>> = LazyLock::new(|| {
    let table: Table =
        toml::from_str(include_str!("../table.toml")).expect("a test reads the table");
    table.vendor
});

/// Returns all vendors, in the order of their names.
pub fn vendors() -> &'static [Vendor] {
    &TABLE
}

/// Returns a vendor by its name.
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    TABLE.iter().find(|vendor| vendor.name == name)
}

/// Returns the vendor of a host: the one with the most specific pattern.
pub fn vendor_of_host(host: &str) -> Option<&'static Vendor> {
    let all = TABLE.iter().flat_map(|vendor| vendor.hosts.iter().map(move |host| (vendor, host)));
    let fitting = all.filter(|(_, pattern)| glob::fits(pattern.as_bytes(), host.as_bytes()));
    fitting.max_by_key(|(_, pattern)| pattern.len()).map(|(vendor, _)| vendor)
}

/// Returns the vendor of a package, and the package as written in the table.
pub fn vendor_of_package(ecosystem: &str, name: &str) -> Option<(&'static Vendor, &'static str)> {
    let name = normal(ecosystem, name);
    let is_meant = |sdk: &str| {
        let (kind, known) = sdk.split_once(':').unwrap_or_default();
        kind == ecosystem && normal(kind, known) == name
    };
    TABLE.iter().find_map(|vendor| {
        let sdk = vendor.sdks.iter().find(|sdk| is_meant(sdk))?;
        Some((vendor, sdk.as_str()))
    })
}

/// Normalizes a name as its ecosystem does for comparison.
fn normal(ecosystem: &str, name: &str) -> String {
    match ecosystem {
        // PEP 503.
        "pypi" => {
            let lower = name.to_ascii_lowercase();
            let parts: Vec<&str> =
                lower.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
            parts.join("-")
        }
        // Major versions are part of a module's path.
        "go" => match name.rsplit_once('/') {
            Some((path, version)) if is_major(version) => path.to_owned(),
            _ => name.to_owned(),
        },
        "cargo" => name.replace('_', "-"),
        _ => name.to_owned(),
    }
}

fn is_major(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hothouse_model::config::Vendor as Word;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_names_each_thing_once() {
        let names: Vec<&str> = vendors().iter().map(|vendor| vendor.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let sdks: Vec<&str> =
            vendors().iter().flat_map(|vendor| &vendor.sdks).map(String::as_str).collect();
        assert_eq!(sdks.iter().collect::<BTreeSet<_>>().len(), sdks.len());
        assert!(sdks.len() >= 60, "{}", sdks.len());
        for vendor in vendors() {
            assert!(!vendor.hosts.is_empty() && !vendor.sdks.is_empty(), "{}", vendor.name);
            for sdk in &vendor.sdks {
                let kind = sdk.split_once(':').map(|(kind, _)| kind);
                let known = ["npm", "pypi", "cargo", "go", "gem", "composer"];
                assert!(kind.is_some_and(|kind| known.contains(&kind)), "{sdk}");
            }
            // Anything other than the real vendor has to say what it leaves out.
            let is_plain =
                matches!(vendor.class, IntegrationClass::Mock | IntegrationClass::ReadOnly);
            assert!(!is_plain || vendor.caveat.is_some(), "{} has no caveat", vendor.name);
        }
    }

    #[test]
    fn every_vendor_of_the_config_but_forms_is_in_the_table() {
        for word in Word::WORDS.iter().filter(|word| !["standard", "openfeature"].contains(word)) {
            assert!(vendor(word).is_some(), "{word}");
        }
    }

    #[test]
    fn a_host_belongs_to_whoever_names_it_most_exactly() {
        for (host, expected) in [
            ("api.stripe.com", Some("stripe")),
            ("o1.ingest.sentry.io", Some("sentry")),
            ("email.eu-west-1.amazonaws.com", Some("ses")),
            ("bucket.s3.eu-west-1.amazonaws.com", Some("s3")),
            ("stripe.example", None),
        ] {
            assert_eq!(vendor_of_host(host).map(|vendor| vendor.name.as_str()), expected, "{host}");
        }
    }

    #[test]
    fn names_are_compared_as_their_ecosystems_do() {
        for (ecosystem, name, expected) in [
            ("pypi", "Sentry_SDK", Some("sentry")),
            ("pypi", "PyGithub", Some("github")),
            ("go", "github.com/stripe/stripe-go/v76", Some("stripe")),
            ("go", "github.com/stripe/stripe-go", Some("stripe")),
            ("go", "github.com/stripe/stripe-go/vendor", None),
            ("cargo", "async_openai", Some("openai")),
            ("npm", "Stripe", None),
            ("gem", "stripe", Some("stripe")),
        ] {
            let found = vendor_of_package(ecosystem, name);
            assert_eq!(
                found.map(|(vendor, _)| vendor.name.as_str()),
                expected,
                "{ecosystem} {name}"
            );
        }
    }
}
