//! Which bundles a list of names stands for, in which order.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Explain, FailureKind,
    config::{EntryName, Radius, Scenario, Seed, rules::nearest},
};

/// The bundles of a seed, each once, needs first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedPlan {
    /// The largest radius among the names.
    pub radius: Option<Radius>,
    /// In the order in which they run.
    pub bundles: Vec<EntryName>,
    /// Those that were named, directly or by a radius; the others are only needed by them.
    pub named: BTreeSet<EntryName>,
}

/// A list of names that is not a valid seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedPlanError {
    #[error("there is no bundle, radius or scenario `{name}`")]
    Unknown { name: String, near: Option<String>, known: Vec<String> },
    #[error("radius `{name}` is not declared")]
    Undeclared { name: Radius, known: Vec<String> },
    #[error("bundles need each other in a circle: {}", .circle.join(" -> "))]
    Circle { circle: Vec<String> },
    #[error("no bundle was named")]
    Nothing { known: Vec<String> },
}

impl Explain for SeedPlanError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Unknown { .. } | Self::Undeclared { .. } => FailureKind::NotFound,
            Self::Circle { .. } => FailureKind::Config,
            Self::Nothing { .. } => FailureKind::Usage,
        }
    }

    fn hints(&self) -> Vec<String> {
        let known = match self {
            Self::Unknown { near: Some(near), .. } => {
                return vec![format!("did you mean `{near}`?")];
            }
            Self::Circle { .. } => return vec!["take one of the `needs` out".into()],
            Self::Unknown { known, .. }
            | Self::Undeclared { known, .. }
            | Self::Nothing { known } => known,
        };
        match known.is_empty() {
            true => vec!["declare one under `[seed.bundle.NAME]` in hothouse.toml".into()],
            false => vec![format!("available: {}", known.join(", "))],
        }
    }
}

/// Resolves a list of bundles, radii and scenarios to bundles.
///
/// Names keep their order; the needs of a bundle come right before it, and nothing runs twice.
pub fn plan(
    seed: &Seed,
    scenarios: &BTreeMap<EntryName, Scenario>,
    names: &[String],
) -> Result<SeedPlan, SeedPlanError> {
    let known = Known { seed, scenarios };
    let mut plan = SeedPlan::default();
    for name in names.iter().flat_map(|name| name.split(',')).filter(|name| !name.is_empty()) {
        plan.radius = plan.radius.max(radius_of(name));
        for bundle in known.expand(name, &mut Vec::new())? {
            known.add(&bundle, &mut plan, &mut Vec::new())?;
            plan.named.insert(bundle);
        }
    }
    match plan.bundles.is_empty() && names.iter().all(|name| name.is_empty()) {
        true => Err(SeedPlanError::Nothing { known: known.words() }),
        false => Ok(plan),
    }
}

/// Expands every declared radius.
pub fn radii(seed: &Seed) -> BTreeMap<String, Vec<String>> {
    let none = BTreeMap::new();
    let of = |radius: &Radius| {
        let found = plan(seed, &none, &[radius.to_string()]).unwrap_or_default();
        found.bundles.iter().map(ToString::to_string).collect()
    };
    seed.radii.keys().map(|radius| (radius.to_string(), of(radius))).collect()
}

struct Known<'a> {
    seed: &'a Seed,
    scenarios: &'a BTreeMap<EntryName, Scenario>,
}

impl Known<'_> {
    fn words(&self) -> Vec<String> {
        let radii = self.seed.radii.keys().map(ToString::to_string);
        radii.chain(self.seed.bundles.keys().map(ToString::to_string)).collect()
    }

    /// Returns the bundles that a name stands for. `above` is the chain of names that led here, to
    /// detect cycles.
    fn expand(&self, name: &str, above: &mut Vec<String>) -> Result<Vec<EntryName>, SeedPlanError> {
        if let Some((bundle, _)) = self.seed.bundles.get_key_value(name) {
            return Ok(vec![bundle.clone()]);
        }
        let radius = radius_of(name);
        let declared = radius.and_then(|radius| self.seed.radii.get(&radius));
        let inner = match (declared, radius, self.scenarios.get(name)) {
            (Some(inner), ..) => inner,
            (None, Some(radius), _) => {
                return Err(SeedPlanError::Undeclared { name: radius, known: self.words() });
            }
            (None, None, Some(scenario)) => &scenario.seed,
            (None, None, None) => return Err(self.unknown(name)),
        };
        if above.iter().any(|seen| seen == name) {
            return Err(circle(above, name));
        }
        above.push(name.to_owned());
        let mut found = Vec::new();
        for name in inner {
            found.extend(self.expand(name.as_str(), above)?);
        }
        above.pop();
        Ok(found)
    }

    /// Adds a bundle after everything it needs.
    fn add(
        &self,
        name: &EntryName,
        plan: &mut SeedPlan,
        above: &mut Vec<String>,
    ) -> Result<(), SeedPlanError> {
        if plan.bundles.contains(name) {
            return Ok(());
        }
        if above.iter().any(|seen| seen == name.as_str()) {
            return Err(circle(above, name.as_str()));
        }
        let bundle = self.seed.bundles.get(name).ok_or_else(|| self.unknown(name.as_str()))?;
        above.push(name.to_string());
        for need in &bundle.needs {
            self.add(need, plan, above)?;
        }
        above.pop();
        plan.bundles.push(name.clone());
        Ok(())
    }

    fn unknown(&self, name: &str) -> SeedPlanError {
        let known = self.words();
        let all =
            self.scenarios.keys().map(EntryName::as_str).chain(known.iter().map(String::as_str));
        let near = nearest(name, all).map(str::to_owned);
        let name = name.chars().take(60).collect();
        SeedPlanError::Unknown { name, near, known }
    }
}

fn radius_of(name: &str) -> Option<Radius> {
    [Radius::Z, Radius::S, Radius::M, Radius::L, Radius::Xl]
        .into_iter()
        .find(|r| r.as_str() == name)
}

fn circle(above: &[String], name: &str) -> SeedPlanError {
    let start = above.iter().position(|seen| seen == name).unwrap_or(0);
    let circle = above[start..].iter().cloned().chain([name.to_owned()]).collect();
    SeedPlanError::Circle { circle }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seed() -> Seed {
        let bundle = |needs: &[&str]| json!({ "run": "true", "needs": needs, "dir": ".", "timeout": "1m", "snapshot": true });
        serde_json::from_value(json!({
            "bundle": {
                "base": bundle(&[]), "users": bundle(&["base"]), "shop": bundle(&["base"]),
                "orders": bundle(&["users", "shop"]),
            },
            "radius": { "z": ["base"], "s": ["z", "users"], "m": ["s", "orders"] },
        }))
        .unwrap()
    }

    fn planned(names: &[&str]) -> Result<Vec<String>, SeedPlanError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let scenario = json!({ "seed": ["orders"], "path": "/", "app": null, "within": "10s" });
        let scenarios = BTreeMap::from([(
            "checkout".parse().unwrap(),
            serde_json::from_value(scenario).unwrap(),
        )]);
        let found = plan(&seed(), &scenarios, &names)?;
        Ok(found.bundles.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_become_bundles_in_the_order_of_their_needs_each_once() {
        for (names, bundles) in [
            (&["z"][..], &["base"][..]),
            (&["s"], &["base", "users"]),
            (&["m"], &["base", "users", "shop", "orders"]),
            (&["orders"], &["base", "users", "shop", "orders"]),
            (&["shop", "users", "shop"], &["base", "shop", "users"]),
            (&["shop,users"], &["base", "shop", "users"]),
            (&["checkout"], &["base", "users", "shop", "orders"]),
        ] {
            assert_eq!(planned(names).unwrap(), bundles, "{names:?}");
        }
    }

    #[test]
    fn the_largest_radius_and_what_was_named_are_told() {
        let found = plan(&seed(), &BTreeMap::new(), &["z".into(), "m".into(), "s".into()]).unwrap();
        assert_eq!(found.radius, Some(Radius::M));
        let named: Vec<_> = found.named.iter().map(EntryName::as_str).collect();
        assert_eq!(named, ["base", "orders", "users"], "shop is only needed");
        assert_eq!(radii(&seed())["m"], ["base", "users", "shop", "orders"]);
    }

    #[test]
    fn what_does_not_exist_has_a_near_miss() {
        let error = planned(&["ordres"]).unwrap_err();
        assert_eq!(error.hints(), ["did you mean `orders`?"]);
        assert_eq!(planned(&["chekout"]).unwrap_err().hints(), ["did you mean `checkout`?"]);
        let error = planned(&["xl"]).unwrap_err();
        assert_eq!(error.to_string(), "radius `xl` is not declared");
        assert_eq!(error.hints(), ["available: z, s, m, base, orders, shop, users"]);
        assert!(matches!(planned(&[]), Err(SeedPlanError::Nothing { .. })));
        let empty = plan(&Seed::default(), &BTreeMap::new(), &["m".into()]).unwrap_err();
        assert!(empty.hints()[0].contains("[seed.bundle.NAME]"), "{empty:?}");
    }

    #[test]
    fn a_cycle_is_named_with_all_its_members() {
        let mut seed = seed();
        seed.bundles.get_mut("base").unwrap().needs = vec!["orders".parse().unwrap()];
        let error = plan(&seed, &BTreeMap::new(), &["users".into()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bundles need each other in a circle: users -> base -> orders -> users"
        );
        let mut seed = self::seed();
        seed.radii.insert(Radius::Z, vec!["m".parse().unwrap()]);
        let error = plan(&seed, &BTreeMap::new(), &["m".into()]).unwrap_err();
        assert!(error.to_string().contains("m -> s -> z -> m"), "{error}");
    }
}
