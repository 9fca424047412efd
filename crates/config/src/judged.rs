//! The config by which a base judges a branch: the branch's own, with scenarios, seeds, roles and shims
//! of the base, and its folders of fixtures.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The sections that judge, and the depth of their named parts.
const JUDGING: [(&str, usize); 4] = [("scenario", 1), ("seed", 2), ("auth", 1), ("shim", 1)];

/// A config that is partly the base's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub text: String,
    /// The sections with parts from the base.
    pub taken: Vec<String>,
    /// The sections that differ from the base's but stay the branch's.
    pub left: Vec<String>,
}

/// Replaces the parts that judge a branch by those of the base. Parts that only the branch has stay: its code may need
/// them. `None` if one of the two is not TOML.
pub fn judged(base: &str, own: &str) -> Option<Judged> {
    let (base, mut own): (Table, Table) = (base.parse().ok()?, own.parse().ok()?);
    let mut judged = Judged::default();
    for (section, depth) in JUDGING {
        let Some(of_base) = base.get(section) else { continue };
        let before = own.get(section).cloned();
        put(&mut own, section, of_base, depth);
        if own.get(section) != before.as_ref() {
            judged.taken.push(section.to_owned());
        }
    }
    if put_fixtures(&base, &mut own) {
        judged.taken.push("integration".to_owned());
    }
    let names: BTreeSet<&String> = base.keys().chain(own.keys()).collect();
    let is_judging = |name: &str| JUDGING.iter().any(|(judging, _)| *judging == name);
    let left =
        names.into_iter().filter(|name| !is_judging(name) && base.get(*name) != own.get(*name));
    judged.left = left.cloned().collect();
    judged.text = own.to_string();
    Some(judged)
}

/// Sets a key to the base's value. Down to `depth`, names that only the branch has are kept.
fn put(own: &mut Table, key: &str, value: &Value, depth: usize) {
    match (own.get_mut(key), value) {
        (Some(Value::Table(own)), Value::Table(base)) if depth > 0 => {
            base.iter().for_each(|(name, value)| put(own, name, value, depth - 1));
        }
        _ => {
            own.insert(key.to_owned(), value.clone());
        }
    }
}

/// Sets where the fixtures of the base's integrations are; returns whether that was elsewhere.
fn put_fixtures(base: &Table, own: &mut Table) -> bool {
    let before = own.get("integration").cloned();
    if let Some(Value::Table(all)) = own.get_mut("integration") {
        for (name, one) in all {
            let of_base = base.get("integration").and_then(|all| all.get(name));
            let (Some(Value::Table(of_base)), Value::Table(one)) = (of_base, one) else { continue };
            match of_base.get("fixtures") {
                Some(folder) => drop(one.insert("fixtures".to_owned(), folder.clone())),
                None => drop(one.remove("fixtures")),
            }
        }
    }
    own.get("integration") != before.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_judges_is_the_bases_and_what_is_new_stays() {
        let base = r#"
            [service.web]
            run = "a"
            [scenario.buy]
            path = "/buy"
            [seed.bundle.users]
            run = "make users"
            [seed.radius]
            m = ["users"]
            [auth.customer]
            state = "customer.json"
            [shim.pay]
            script = "pay.js"
            [integration.pay]
            class = "mock"
            [integration.cms]
            fixtures = "cms"
        "#;
        let own = r#"
            [service.web]
            run = "b"
            [scenario.buy]
            path = "/"
            [seed.bundle.users]
            run = "true"
            [seed.bundle.coupons]
            run = "make coupons"
            [seed.radius]
            m = ["users", "coupons"]
            [flags]
            x = true
            [shim.pay]
            body = ""
            [shim.map]
            body = ""
            [integration.pay]
            class = "mock"
            fixtures = "mine"
            [integration.cms]
            [integration.new]
            fixtures = "new"
        "#;
        let judged = judged(base, own).unwrap();
        let text: Table = judged.text.parse().unwrap();
        assert_eq!(text["scenario"]["buy"]["path"].as_str(), Some("/buy"));
        assert_eq!(text["seed"]["bundle"]["users"]["run"].as_str(), Some("make users"));
        assert_eq!(text["seed"]["bundle"]["coupons"]["run"].as_str(), Some("make coupons"));
        assert_eq!(text["seed"]["radius"]["m"].as_array().map(Vec::len), Some(1));
        assert_eq!(text["auth"]["customer"]["state"].as_str(), Some("customer.json"));
        assert_eq!(text["service"]["web"]["run"].as_str(), Some("b"));
        assert_eq!(text["shim"]["pay"]["script"].as_str(), Some("pay.js"));
        assert!(text["shim"]["pay"].get("body").is_none() && text["shim"].get("map").is_some());
        let fixtures = |name: &str| text["integration"][name].get("fixtures")?.as_str();
        assert_eq!((fixtures("pay"), fixtures("cms")), (None, Some("cms")));
        assert_eq!(fixtures("new"), Some("new"));
        assert_eq!(judged.taken, ["scenario", "seed", "auth", "shim", "integration"]);
        assert_eq!(judged.left, ["flags", "integration", "service"]);
        assert_eq!(super::judged(base, base).unwrap().taken, Vec::<String>::new());
        assert!(super::judged(base, "=").is_none());
    }
}
