//! The inputs of a seeded stack, and the key derived from them.

use std::collections::BTreeMap;

use hothouse_workspace::content;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Changes with the meaning of a snapshot.
pub(super) const FORMAT: &str = "2";

/// The inputs of a seeded stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedManifest {
    pub(super) format: String,
    pub bundles: Vec<String>,
    pub profile: String,
    /// The digest of the config, including the pinned half and the user's own.
    pub(super) config: String,
    /// Services and the kind of their data, such as `postgres 15`.
    pub(super) recipes: BTreeMap<String, String>,
    /// The digest of each file of the project.
    pub(super) files: BTreeMap<String, String>,
    pub created: Option<Timestamp>,
}

impl SeedManifest {
    /// Returns the key of these inputs.
    pub fn key(&self) -> String {
        let Self { format, bundles, profile, config, recipes, files, created: _ } = self;
        let whole = serde_json::to_vec(&(format, bundles, profile, config, recipes, files));
        content::key(&[&whole.expect("a manifest has text as keys")])
    }

    /// Returns why data from these inputs is not what `now` would produce.
    pub fn outdated(&self, now: &Self) -> Option<String> {
        if self.format != now.format {
            return Some("an earlier release made it".into());
        }
        if self.recipes != now.recipes {
            return Some("the recipes of services have changed".into());
        }
        let names = self
            .files
            .keys()
            .chain(now.files.keys().filter(|name| !self.files.contains_key(*name)));
        let changed: Vec<&String> =
            names.filter(|name| self.files.get(*name) != now.files.get(*name)).collect();
        if !changed.is_empty() {
            let shown: Vec<String> =
                changed.iter().take(3).map(|name| format!("`{}`", name.escape_debug())).collect();
            let more = changed.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Some(format!("{}{more} changed since", shown.join(", ")));
        }
        (self.config != now.config).then(|| "the config has changed".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> SeedManifest {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        SeedManifest {
            format: FORMAT.into(),
            bundles: vec!["a".into()],
            profile: "dev".into(),
            config: "c".into(),
            recipes: [pair("db", "postgres 15 x")].into(),
            files: [pair("a.sql", "1"), pair("b.sql", "2")].into(),
            created: None,
        }
    }

    #[test]
    fn whatever_a_seeding_depends_on_is_in_its_key_and_named_when_it_changed() {
        let was = manifest();
        assert_eq!(
            was.key(),
            SeedManifest { created: Some(Timestamp::UNIX_EPOCH), ..manifest() }.key()
        );
        type Change = fn(&mut SeedManifest);
        let changes: [(Change, Option<&str>); 6] = [
            (|m| drop(m.files.insert("a.sql".into(), "9".into())), Some("`a.sql` changed since")),
            (|m| drop(m.files.remove("b.sql")), Some("`b.sql` changed since")),
            (|m| drop(m.files.insert("c.sql".into(), "1".into())), Some("`c.sql` changed since")),
            (
                |m| drop(m.recipes.insert("db".into(), "postgres 16 x".into())),
                Some("the recipes of services have changed"),
            ),
            (|m| m.config.push('x'), Some("the config has changed")),
            (|m| m.bundles.push("b".into()), None),
        ];
        for (change, told) in changes {
            let mut now = manifest();
            change(&mut now);
            assert_ne!(was.key(), now.key(), "{told:?}");
            assert_eq!(was.outdated(&now).as_deref(), told);
        }
    }
}
