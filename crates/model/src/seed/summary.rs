//! The report of a seed: `seed-summary.json`, and the same for people.

use std::{collections::BTreeMap, fmt::Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::context::{collected, ids};
use crate::config::Radius;

/// The outcome of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BundleOutcome {
    Done,
    /// The data existed already, unchanged.
    Kept,
    /// The data came from a snapshot.
    Restored,
    Failed,
    /// Skipped, because an earlier bundle failed.
    Left,
}

/// One bundle of a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleResult {
    pub name: String,
    pub state: BundleOutcome,
    pub duration_ms: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The output of its command, below the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

impl BundleResult {
    /// Returns whether the data exists.
    pub fn is_there(&self) -> bool {
        !matches!(self.state, BundleOutcome::Failed | BundleOutcome::Left)
    }
}

/// A table that a bundle changed although the bundle had run before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableChange {
    pub service: String,
    pub table: String,
    pub rows_before: Option<u64>,
    pub rows_after: Option<u64>,
}

/// What a run was seeded with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedSummary {
    pub sandbox: String,
    pub run: String,
    /// When the latest seeding of the run began.
    pub time: Option<Timestamp>,
    pub ok: bool,
    pub radius: Option<Radius>,
    /// In the order in which they ran.
    pub bundles: Vec<BundleResult>,
    /// The snapshot that the data came from.
    pub snapshot: Option<String>,
    pub ids: BTreeMap<String, Value>,
    pub roles: Value,
    pub paths: Value,
    pub selectors: Value,
    pub effects: Value,
    pub caveats: Vec<String>,
    /// What bundles changed although they had run before.
    pub changed: Vec<TableChange>,
    /// The complete context.
    pub context: Map<String, Value>,
    pub duration_ms: u64,
    /// The paths of the summary.
    pub files: BTreeMap<String, String>,
}

impl SeedSummary {
    /// Takes everything that the context declares.
    pub fn describe(&mut self, context: Map<String, Value>) {
        self.ids = ids(&context);
        self.roles = collected(&context, &["roles"]);
        self.paths = collected(&context, &["paths"]);
        self.selectors = collected(&context, &["selectors"]);
        self.effects = collected(&context, &["effects", "expected_effects", "expectedEffects"]);
        let said = collected(&context, &["caveats"]);
        self.caveats = said.as_array().into_iter().flatten().map(text_of).collect();
        self.context = context;
        let again = self.changed.iter().map(|change| {
            let TableChange { service, table, rows_before, rows_after } = change;
            let rows = match (rows_before, rows_after) {
                (Some(before), Some(after)) if before != after => {
                    format!(" ({before} rows, then {after})")
                }
                _ => String::new(),
            };
            format!(
                "seeding again changed {table} of `{service}`{rows}: the bundles are not idempotent"
            )
        });
        self.caveats.extend(again.collect::<Vec<_>>());
    }

    /// Adds what was seeded earlier in the same run, unless it was seeded again.
    pub fn after(&mut self, earlier: &Self) {
        let is_new =
            |bundle: &&BundleResult| self.bundles.iter().all(|new| new.name != bundle.name);
        let kept: Vec<_> = earlier.bundles.iter().filter(is_new).cloned().collect();
        for bundle in self.bundles.iter_mut().filter(|bundle| bundle.state == BundleOutcome::Left) {
            let known =
                earlier.bundles.iter().find(|known| known.name == bundle.name && known.is_there());
            *bundle = known.unwrap_or(bundle).clone();
        }
        self.bundles.splice(0..0, kept);
        self.radius = self.radius.max(earlier.radius);
        self.snapshot = self.snapshot.take().or_else(|| earlier.snapshot.clone());
    }

    /// Returns the names of the bundles whose data exists.
    pub fn seeded(&self) -> Vec<String> {
        self.bundles
            .iter()
            .filter(|bundle| bundle.is_there())
            .map(|bundle| bundle.name.clone())
            .collect()
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the tables whose digest changed, by service and table. Each table has its digest and row count.
pub fn changed_tables(
    service: &str,
    before: &BTreeMap<String, (String, Option<u64>)>,
    after: &BTreeMap<String, (String, Option<u64>)>,
) -> Vec<TableChange> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let change = |table: &String| {
        let (old, new) = (before.get(table), after.get(table));
        let same = old.map(|(digest, _)| digest) == new.map(|(digest, _)| digest);
        (!same).then(|| TableChange {
            service: service.to_owned(),
            table: table.clone(),
            rows_before: old.map_or(Some(0), |(_, rows)| *rows),
            rows_after: new.map_or(Some(0), |(_, rows)| *rows),
        })
    };
    names.filter_map(change).collect()
}

/// Renders a summary for people.
pub fn markdown(summary: &SeedSummary) -> String {
    let mut text = String::from("# Seed\n\n");
    let radius = summary.radius.map(|radius| format!(", radius {radius}")).unwrap_or_default();
    let ended = if summary.ok { "seeded" } else { "**not whole**" };
    writeln!(
        text,
        "Sandbox `{}`, run `{}`: {ended}{radius}.\n",
        line(&summary.sandbox),
        line(&summary.run)
    )
    .ok();
    text.push_str("| bundle | state | time |\n|---|---|---|\n");
    for bundle in &summary.bundles {
        let state = serde_json::to_value(bundle.state).unwrap_or_default();
        let why = bundle.error.as_deref().map(|why| format!(": {}", line(why))).unwrap_or_default();
        let state = state.as_str().unwrap_or_default().to_owned();
        writeln!(text, "| {} | {state}{why} | {} ms |", line(&bundle.name), bundle.duration_ms)
            .ok();
    }
    if !summary.ids.is_empty() {
        text.push_str("\n## Ids\n\n| what | id |\n|---|---|\n");
        for (name, id) in &summary.ids {
            writeln!(text, "| {} | `{}` |", line(name), line(&text_of(id))).ok();
        }
    }
    let parts = [
        ("Roles", &summary.roles),
        ("Paths", &summary.paths),
        ("Selectors", &summary.selectors),
        ("Expected effects", &summary.effects),
    ];
    for (title, value) in parts {
        list(&mut text, title, value);
    }
    if !summary.caveats.is_empty() {
        text.push_str("\n## Caveats\n\n");
        for caveat in &summary.caveats {
            writeln!(text, "- {}", line(caveat)).ok();
        }
    }
    text
}

fn list(text: &mut String, title: &str, value: &Value) {
    let rows: Vec<String> = match value {
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| format!("{}: `{}`", line(key), line(&text_of(value))))
            .collect(),
        Value::Array(values) => values.iter().map(|value| line(&text_of(value))).collect(),
        _ => Vec::new(),
    };
    if !rows.is_empty() {
        write!(text, "\n## {title}\n\n").ok();
        for row in &rows {
            writeln!(text, "- {row}").ok();
        }
    }
}

/// Makes a text from the room one line that cannot break out of its table cell.
fn line(text: &str) -> String {
    let plain = crate::visible::line(text);
    let plain: String = plain.chars().take(500).collect();
    plain.replace('\n', " ").replace('|', "\\|").replace('`', "'").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_says_what_the_context_says() {
        let context = json!({
            "user": { "id": 41, "roles": { "buyer": "b@example.com" } },
            "paths": { "cart": "/cart" }, "expected_effects": ["a receipt"], "caveats": ["no stock | <b>"],
        });
        let mut summary = SeedSummary {
            changed: vec![TableChange {
                service: "db".into(),
                table: "users".into(),
                rows_before: Some(1),
                rows_after: Some(2),
            }],
            bundles: vec![BundleResult {
                name: "one".into(),
                state: BundleOutcome::Done,
                duration_ms: 5,
                error: None,
                log: None,
            }],
            ok: true,
            ..SeedSummary::default()
        };
        summary.describe(context.as_object().unwrap().clone());
        assert_eq!(summary.ids["user"], 41);
        assert_eq!(summary.roles, json!({ "buyer": "b@example.com" }));
        assert!(
            summary.caveats[1].contains("users of `db` (1 rows, then 2)"),
            "{:?}",
            summary.caveats
        );
        let text = markdown(&summary);
        assert!(text.contains("| user | `41` |") && text.contains("- a receipt"), "{text}");
        assert!(text.contains("no stock \\| &lt;b>"), "{text}");
    }

    #[test]
    fn a_later_seed_of_a_run_adds_to_the_earlier_one() {
        let bundle = |name: &str, state| BundleResult {
            name: name.into(),
            state,
            duration_ms: 0,
            error: None,
            log: None,
        };
        let earlier = SeedSummary {
            radius: Some(Radius::S),
            bundles: vec![bundle("a", BundleOutcome::Done), bundle("b", BundleOutcome::Failed)],
            ..SeedSummary::default()
        };
        let mut later = SeedSummary {
            bundles: vec![bundle("b", BundleOutcome::Done)],
            ..SeedSummary::default()
        };
        later.after(&earlier);
        assert_eq!(later.seeded(), ["a", "b"]);
        assert_eq!(later.radius, Some(Radius::S));
        let mut failing = SeedSummary {
            bundles: vec![bundle("c", BundleOutcome::Failed), bundle("a", BundleOutcome::Left)],
            ..SeedSummary::default()
        };
        failing.after(&earlier);
        assert_eq!(failing.seeded(), ["a"], "it was there before");
    }

    #[test]
    fn tables_are_compared_by_their_digests() {
        let of = |all: &[(&str, &str, u64)]| {
            let one = |(name, digest, rows): &(&str, &str, u64)| {
                ((*name).to_owned(), ((*digest).to_owned(), Some(*rows)))
            };
            all.iter().map(one).collect::<BTreeMap<_, _>>()
        };
        let changed = changed_tables(
            "db",
            &of(&[("a", "1", 1), ("b", "1", 1), ("gone", "1", 3)]),
            &of(&[("a", "1", 1), ("b", "2", 2), ("new", "1", 4)]),
        );
        let shown: Vec<_> =
            changed.iter().map(|c| (c.table.as_str(), c.rows_before, c.rows_after)).collect();
        assert_eq!(
            shown,
            [("b", Some(1), Some(2)), ("gone", Some(3), Some(0)), ("new", Some(0), Some(4))]
        );
    }
}
