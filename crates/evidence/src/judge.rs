//! What a branch has changed of the things that judge it: scenarios, fixtures, seeds, roles, shims, tests.
//!
//! An agent can edit all of them. Such a change is not wrong, but a reviewer must see it, above all one that expects
//! less than the base.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hothouse_model::config::{Config, Integration, Scenario, parse_duration};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::coverage::LineSet;

/// Where fixtures are unless the config says otherwise.
pub const FIXTURES: &str = "hothouse/fixtures";

/// The name of the config.
const CONFIG: &str = "hothouse.toml";

/// What kind of check was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckArea {
    Scenario,
    Fixture,
    Seed,
    Role,
    Shim,
    Test,
}

impl CheckArea {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Fixture => "fixture",
            Self::Seed => "seed",
            Self::Role => "role",
            Self::Shim => "shim",
            Self::Test => "test",
        }
    }
}

/// A change of a check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangedCheck {
    /// Whether it expects less than the base.
    pub weaker: bool,
    pub area: CheckArea,
    /// The scenario or the file.
    pub name: String,
    /// The difference, such as `no longer expects mail "to:ann"`.
    pub how: String,
}

/// A file that differs from the base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedFile {
    pub path: String,
    /// `None` if the file is not text.
    pub added: Option<u64>,
    pub removed: Option<u64>,
    /// The added lines, at their current positions in the file.
    #[serde(skip_serializing_if = "LineSet::is_empty")]
    pub lines: LineSet,
}

/// Lists the changes of checks. An unreadable config counts as empty.
pub fn changes(
    base: Option<&Config>,
    own: Option<&Config>,
    files: &[ChangedFile],
) -> Vec<ChangedCheck> {
    let mut found = scenarios(base, own);
    let places = Places::of(&[base, own]);
    for file in files {
        if let Some(area) = places.area(&file.path) {
            let how = match (file.added, file.removed) {
                (Some(added), Some(removed)) => format!("+{added} −{removed} lines"),
                _ => "changed".to_owned(),
            };
            found.push(ChangedCheck { weaker: false, area, name: file.path.clone(), how });
        }
    }
    found.extend(parts(base, own, CheckArea::Seed, "seed"));
    found.extend(parts(base, own, CheckArea::Role, "auth"));
    found.extend(parts(base, own, CheckArea::Shim, "shim"));
    found.extend(fixture_folders(base, own));
    // Weaker checks come first.
    found.sort_by(|one, other| (!one.weaker, one).cmp(&(!other.weaker, other)));
    found.dedup();
    found
}

/// Returns the changed files that judge the code, so that those of the base can replace them. Tests are not included:
/// no scenario runs them.
pub fn judging_files<'a>(
    base: Option<&Config>,
    own: Option<&Config>,
    files: &'a [ChangedFile],
) -> Vec<&'a str> {
    let places = Places::of(&[base, own]);
    let judges = |path: &str| {
        places.area(path).is_some_and(|area| area != CheckArea::Test) && path != CONFIG
    };
    files.iter().map(|file| file.path.as_str()).filter(|path| judges(path)).collect()
}

/// The files and folders that judge a run, as a config names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judging {
    pub files: Vec<String>,
    pub folders: Vec<String>,
}

impl Judging {
    /// Lists what a config names: scripts, fixtures, and the files of seeds, roles and shims.
    pub fn of(config: &Config) -> Self {
        let places = Places::of(&[Some(config)]);
        let files = [places.scripts, places.seeds, places.roles, places.shims];
        Self {
            files: files.into_iter().flatten().collect(),
            folders: places.fixtures.into_iter().collect(),
        }
    }
}

/// Where the checks are in a tree.
#[derive(Debug, Default)]
struct Places {
    scripts: BTreeSet<String>,
    fixtures: BTreeSet<String>,
    /// Words of the commands of seeds and roles, some of which are file names.
    seeds: BTreeSet<String>,
    roles: BTreeSet<String>,
    shims: BTreeSet<String>,
}

impl Places {
    fn of(configs: &[Option<&Config>]) -> Self {
        let mut places = Self::default();
        places.fixtures.insert(FIXTURES.to_owned());
        for config in configs.iter().copied().flatten() {
            let scripts = config.scenarios.values().filter_map(|one| one.script.as_ref());
            places.scripts.extend(scripts.map(ToString::to_string));
            let own = config.integrations.values().filter_map(|one| one.fixtures.as_ref());
            places.fixtures.extend(own.map(ToString::to_string));
            for bundle in config.seed.bundles.values() {
                let run =
                    bundle.run.iter().flat_map(|run| words(run.as_str(), bundle.dir.as_str()));
                places.seeds.extend(run.chain(bundle.sql.as_ref().map(ToString::to_string)));
            }
            for role in config.roles.values() {
                let run = role.run.iter().flat_map(|run| words(run.as_str(), "."));
                let files = [&role.state, &role.script].into_iter().flatten();
                places.roles.extend(run.chain(files.map(ToString::to_string)));
            }
            let shims = config.shims.values().filter_map(|shim| shim.script.as_ref());
            places.shims.extend(shims.map(ToString::to_string));
        }
        places
    }

    fn area(&self, path: &str) -> Option<CheckArea> {
        let below = |folders: &BTreeSet<String>| {
            folders.iter().any(|folder| {
                path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        match () {
            () if self.scripts.contains(path) => Some(CheckArea::Scenario),
            () if below(&self.fixtures) => Some(CheckArea::Fixture),
            () if self.seeds.contains(path) || in_folder(path, &["seed", "seeds"]) => {
                Some(CheckArea::Seed)
            }
            () if self.roles.contains(path) => Some(CheckArea::Role),
            () if self.shims.contains(path) => Some(CheckArea::Shim),
            () if is_test(path) => Some(CheckArea::Test),
            () => None,
        }
    }
}

/// Returns the words of a command as paths, relative to its working folder.
fn words(command: &str, folder: &str) -> Vec<String> {
    let folder = folder.trim_end_matches('/');
    let word = |word: &str| word.trim_matches(['"', '\'']).trim_start_matches("./").to_owned();
    let all = command.split_whitespace().map(word).filter(|word| word.contains(['.', '/']));
    all.map(|word| if folder == "." { word } else { format!("{folder}/{word}") }).collect()
}

fn in_folder(path: &str, names: &[&str]) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    folders.iter().any(|folder| names.contains(folder))
}

fn is_test(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    in_folder(path, &["test", "tests", "__tests__", "spec", "specs", "e2e"])
        || stem.ends_with(".test")
        || stem.ends_with(".spec")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || stem.starts_with("test_")
}

fn scenarios(base: Option<&Config>, own: Option<&Config>) -> Vec<ChangedCheck> {
    let of = |config: Option<&Config>| {
        let all = config.into_iter().flat_map(|config| &config.scenarios);
        all.map(|(name, scenario)| (name.to_string(), scenario.clone())).collect::<BTreeMap<_, _>>()
    };
    let (base, own) = (of(base), of(own));
    let names: BTreeSet<&String> = base.keys().chain(own.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let mut add = |weaker: bool, how: String| {
            let area = CheckArea::Scenario;
            found.push(ChangedCheck { weaker, area, name: name.clone(), how });
        };
        match (base.get(name), own.get(name)) {
            (Some(_), None) => add(true, "removed".into()),
            (None, Some(_)) => add(false, "added".into()),
            (Some(old), Some(new)) if old != new => {
                difference(old, new).into_iter().for_each(|(weaker, how)| add(weaker, how));
            }
            _ => {}
        }
    }
    found
}

/// Lists what a scenario does or expects differently, each with whether that is weaker.
pub(crate) fn difference(old: &Scenario, new: &Scenario) -> Vec<(bool, String)> {
    let json = |scenario: &Scenario| serde_json::to_value(scenario).unwrap_or_default();
    let (old, new) = (json(old), json(new));
    let mut told = Vec::new();
    for (key, before, after) in pairs(&old, &new).into_iter().filter(|(key, ..)| key != "expect") {
        // A longer time limit does not make a check weaker.
        told.push((false, format!("{key}: {} → {}", shown(&before), shown(&after))));
    }
    for (key, before, after) in pairs(&old["expect"], &new["expect"]) {
        match (before.as_array(), after.as_array()) {
            (Some(before), Some(after)) => {
                let gone = before.iter().filter(|item| !after.contains(item));
                told.extend(
                    gone.map(|item| (true, format!("no longer expects {key} {}", text(item)))),
                );
                let come = after.iter().filter(|item| !before.contains(item));
                told.extend(come.map(|item| (false, format!("now expects {key} {}", text(item)))));
            }
            _ => told.push(limit(&key, &before, &after)),
        }
    }
    told
}

fn limit(key: &str, before: &Value, after: &Value) -> (bool, String) {
    let weaker = match (key, before.as_u64(), after.as_u64()) {
        ("status", ..) => true,
        // By default errors and calls are unlimited, but faults of the page are not allowed.
        ("errors" | "unmatched" | "queries", Some(_), None) => true,
        ("errors" | "unmatched" | "queries", None, Some(_)) => false,
        ("slowest-query", ..) => {
            time(before).is_some_and(|old| time(after).is_none_or(|new| new > old))
        }
        (_, before, after) => after.unwrap_or(0) > before.unwrap_or(0),
    };
    (weaker, format!("{key}: {} → {}", shown(before), shown(after)))
}

fn time(value: &Value) -> Option<Duration> {
    parse_duration(value.as_str()?).ok()
}

/// Returns the keys that differ, with both values.
fn pairs(old: &Value, new: &Value) -> Vec<(String, Value, Value)> {
    let keys = |value: &Value| {
        value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let all: BTreeSet<String> = keys(old).into_iter().chain(keys(new)).collect();
    let of = |value: &Value, key: &str| value.get(key).cloned().unwrap_or_default();
    let all = all.into_iter().map(|key| (of(old, &key), of(new, &key), key));
    all.filter(|(old, new, _)| old != new).map(|(old, new, key)| (key, old, new)).collect()
}

/// Returns an expectation as text: only its query, if there is nothing else.
fn text(item: &Value) -> String {
    match item {
        Value::Object(map) => {
            let rest = map.iter().filter(|(key, value)| *key != "query" && !value.is_null());
            let rest: Vec<String> =
                rest.map(|(key, value)| format!("{key} {}", shown(value))).collect();
            let query = map.get("query").map(shown).unwrap_or_default();
            if rest.is_empty() { query } else { format!("{query} ({})", rest.join(", ")) }
        }
        other => shown(other),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// Reports differences of a section of the config.
fn parts(
    base: Option<&Config>,
    own: Option<&Config>,
    area: CheckArea,
    section: &str,
) -> Vec<ChangedCheck> {
    let of = |config: Option<&Config>| {
        let json = config.and_then(|config| serde_json::to_value(config).ok()).unwrap_or_default();
        json.get(section).cloned().unwrap_or_default()
    };
    let (old, new) = (of(base), of(own));
    if old == new {
        return Vec::new();
    }
    let how = "the section differs".to_owned();
    vec![ChangedCheck { weaker: false, area, name: format!("[{section}] of {CONFIG}"), how }]
}

/// Reports integrations whose fixtures are in another folder than in the base.
fn fixture_folders(base: Option<&Config>, own: Option<&Config>) -> Vec<ChangedCheck> {
    let (Some(base), Some(own)) = (base, own) else { return Vec::new() };
    let changed = own.integrations.iter().filter_map(|(name, new)| {
        let old = base.integrations.get(name)?;
        (old.fixtures != new.fixtures).then(|| {
            let folder = |one: &Integration| match &one.fixtures {
                Some(folder) => format!("`{folder}`"),
                None => format!("`{FIXTURES}/{name}`"),
            };
            ChangedCheck {
                weaker: false,
                area: CheckArea::Fixture,
                name: format!("[integration.{name}] of {CONFIG}"),
                how: format!("fixtures: {} → {}", folder(old), folder(new)),
            }
        })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> ChangedFile {
        ChangedFile {
            path: path.into(),
            added: Some(1),
            removed: Some(0),
            ..ChangedFile::default()
        }
    }

    #[test]
    fn files_that_judge_are_told_from_code() {
        let mut places = Places::of(&[]);
        places.scripts.insert("hothouse/scenarios/buy.mjs".into());
        places.seeds.extend(words("node scripts/load.mjs --all", "apps/api"));
        for (path, expected) in [
            ("src/main.js", None),
            ("hothouse/fixtures/stripe/a.toml", Some(CheckArea::Fixture)),
            ("hothouse/fixtures-old/a.toml", None),
            ("hothouse/scenarios/buy.mjs", Some(CheckArea::Scenario)),
            ("apps/api/scripts/load.mjs", Some(CheckArea::Seed)),
            ("seed/users.sql", Some(CheckArea::Seed)),
            ("seed.js", None),
            ("apps/web/test/a.js", Some(CheckArea::Test)),
            ("src/pay.test.ts", Some(CheckArea::Test)),
            ("src/latest.ts", None),
            ("tests/test_pay.py", Some(CheckArea::Test)),
            ("pkg/pay_test.go", Some(CheckArea::Test)),
        ] {
            assert_eq!(places.area(path), expected, "{path}");
        }
        let files = [file("src/main.js"), file("seed/users.sql"), file("tests/a.py")];
        assert_eq!(judging_files(None, None, &files), ["seed/users.sql"]);
    }

    #[test]
    fn a_weaker_scenario_is_told_first() {
        let scenario = |expect: Value| -> Scenario {
            let value = serde_json::json!({ "path": "/", "within": "10s", "expect": expect });
            serde_json::from_value(value).unwrap()
        };
        let told = |old: Value, new: Value| difference(&scenario(old), &scenario(new));
        use serde_json::json;
        let mail = json!([{ "query": "to:ann" }]);
        assert_eq!(
            told(json!({ "mail": mail }), json!({})),
            [(true, "no longer expects mail `to:ann`".to_owned())]
        );
        assert_eq!(
            told(json!({}), json!({ "page": ["Hi"] })),
            [(false, "now expects page `Hi`".to_owned())]
        );
        for (old, new, weaker) in [
            (json!({ "errors": 0 }), json!({ "errors": 2 }), true),
            (json!({ "errors": 2 }), json!({ "errors": 0 }), false),
            (json!({ "errors": 0 }), json!({}), true),
            (json!({}), json!({ "errors": 0 }), false),
            (json!({}), json!({ "console": 3 }), true),
            (json!({ "console": 3 }), json!({}), false),
        ] {
            let told = told(old.clone(), new.clone());
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].0, weaker, "{old} {new}");
        }
    }
}
