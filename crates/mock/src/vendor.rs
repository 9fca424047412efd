//! Vendor packages, chosen by host.
//!
//! A package is a folder below `vendors/`: `vendor.toml` names its hosts, every other file is a
//! fixture or the body of one. `build.rs` embeds all of them, so a new vendor is a new folder.
//! A vendor whose answers need more than fixtures has code, named by `code` in `vendor.toml`.

use hothouse_model::{config::Problem, glob};
use serde_json::Value;

use crate::fixture::{read::fixtures, shelf::Shelf, source::Source};

include!(concat!(env!("OUT_DIR"), "/vendors.rs"));

/// The package of a vendor, whatever the integration is called.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    pub hosts: Vec<String>,
    pub shelf: Shelf,
    pub code: Option<Code>,
}

/// Vendors with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Stripe,
}

impl Package {
    /// Returns whether the package is for this host; `*` in its list matches any text.
    pub fn answers_for(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| glob::fits(known.as_bytes(), host.as_bytes()))
    }
}

/// Returns the names of all packages.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES.iter().map(|(vendor, _, _)| *vendor).collect();
    names.dedup();
    names
}

/// Returns the package for a host: the requested one, or one that lists the host.
pub fn choose(host: &str, wanted: Option<&str>) -> Option<&'static str> {
    match wanted {
        Some(wanted) => names().into_iter().find(|name| *name == wanted),
        None => names().into_iter().find(|name| {
            hosts(name).iter().any(|known| glob::fits(known.as_bytes(), host.as_bytes()))
        }),
    }
}

fn hosts(vendor: &str) -> Vec<String> {
    let list = about(vendor).get("hosts").cloned().unwrap_or_default();
    let items = list.as_array().cloned().unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn about(vendor: &str) -> Value {
    let source = file(vendor, "vendor.toml").map(|bytes| Source::open("vendor.toml", bytes));
    source.and_then(Result::ok).map_or(Value::Null, |source| source.value)
}

/// Returns a file of a package.
pub(crate) fn file(vendor: &str, name: &str) -> Option<&'static [u8]> {
    let found = FILES.iter().find(|(other, file, _)| *other == vendor && *file == name);
    found.map(|(_, _, bytes)| *bytes)
}

/// Loads a package. Its problems are mistakes of ours; a test checks that there are none.
pub fn load(vendor: &str) -> (Package, Vec<Problem>) {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    let beside = |name: &str| file(vendor, name);
    let own = FILES.iter().filter(|(other, file, _)| *other == vendor && *file != "vendor.toml");
    for (_, name, bytes) in own.filter(|(_, name, _)| name.ends_with(".toml")) {
        match Source::open(name, bytes) {
            Err(problem) => problems.push(problem),
            Ok(source) => {
                let (mut read, mut wrong) = fixtures(&source, &beside);
                read.iter_mut().for_each(|one| one.name = format!("{vendor}/{}", one.name));
                all.append(&mut read);
                problems.append(&mut wrong);
            }
        }
    }
    let code = match about(vendor).get("code").and_then(Value::as_str) {
        Some("stripe") => Some(Code::Stripe),
        _ => None,
    };
    let package =
        Package { name: vendor.to_owned(), hosts: hosts(vendor), shelf: Shelf::new(all), code };
    (package, problems)
}

#[cfg(test)]
mod tests {
    use hothouse_model::config::Vendor;

    use super::*;

    #[test]
    fn every_package_loads_without_a_problem() {
        for name in names() {
            let (package, problems) = load(name);
            assert_eq!(problems, [], "{name}");
            assert!(!package.hosts.is_empty(), "{name} names no host");
            assert!(package.code.is_some() || !package.shelf.fixtures().is_empty(), "{name}");
        }
    }

    #[test]
    fn every_package_can_be_named_in_a_config() {
        for name in names() {
            assert!(Vendor::WORDS.contains(&name), "{name} is not a word of `vendor`");
        }
    }

    #[test]
    fn a_package_is_chosen_by_host_or_by_name() {
        assert_eq!(choose("api.stripe.com", None), Some("stripe"));
        assert_eq!(choose("api.goshippo.com", None), Some("shippo"));
        assert_eq!(choose("stripe.example", None), None);
        assert_eq!(choose("payments.corp.example", Some("stripe")), Some("stripe"));
        assert_eq!(choose("api.stripe.com", Some("nobody")), None);
    }
}
