//! Settings of the pinned half that came from a room, until a user approves them.
//!
//! Commits lose their origin: a merge, a squash or a cherry-pick turns an agent's `hothouse.toml`
//! into the user's. So settings are remembered rather than commits, and each entry of a list on its
//! own. If a version cannot be read, or there are too many settings, everything that differs from
//! what was approved counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layers;
use hothouse_model::config::{Config, PendingChange, pending_changes, pinned_leaves};

/// The maximum number of settings that are remembered individually.
const LIMIT: usize = 1000;
/// The maximum length of a value that is shown.
const SHOWN: usize = 80;

/// A setting that commits of a room added to the pinned half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum RoomSetting {
    /// A value, or an entry of a list.
    Set { key: String, value: Value },
    /// A removed value, or a removed entry of a list.
    Dropped { key: String, value: Value },
    /// Everything that differs from this text.
    Unknown { approved: String },
}

/// What rooms added to a repository's configs without approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoomSettings(Vec<RoomSetting>);

impl RoomSettings {
    /// Parses the record. A damaged one counts as if it contained everything.
    pub fn from_json(bytes: &[u8]) -> Self {
        let anything = || Self(vec![RoomSetting::Unknown { approved: String::new() }]);
        serde_json::from_slice(bytes).unwrap_or_else(|_| anything())
    }

    /// Writes the record.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(&self.0).expect("settings are texts, numbers, lists and tables")
    }

    /// Returns whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records what a version of the config adds to the approved one, except for what `others`
    /// contain: the user's own versions, which a room may have merged. An unreadable version
    /// counts as unknown.
    pub fn note(&mut self, approved: &str, others: &[String], version: Option<&str>) {
        let Some(version) = version.and_then(parse) else {
            return self.note_unknown(approved);
        };
        let others: Vec<_> = others.iter().filter_map(|text| parse(text)).collect();
        let others: Vec<_> =
            others.iter().map(|config| (pinned_leaves(&config.pinned_half()), config)).collect();
        let changes = pending_changes(&config_or_default(approved), &version);
        for setting in changes.iter().flat_map(pieces).map(Piece::into_setting) {
            let is_users = others.iter().any(|(held, config)| setting.is_held(held, config));
            if !is_users && !self.0.contains(&setting) {
                self.0.push(setting);
            }
        }
        if self.0.len() > LIMIT {
            self.0.clear();
            self.note_unknown(approved);
        }
    }

    /// Records that a room may have changed anything.
    pub fn note_unknown(&mut self, approved: &str) {
        let unknown = RoomSetting::Unknown { approved: approved.to_owned() };
        if !self.0.contains(&unknown) {
            self.0.push(unknown);
        }
    }

    /// Returns whether a config contains something that came from a room.
    pub fn taint(&self, text: &str) -> bool {
        let Some(config) = parse(text) else { return !self.is_empty() };
        let held = pinned_leaves(&config.pinned_half());
        self.0.iter().any(|setting| setting.is_held(&held, &config))
    }

    /// Forgets what a config contains, because a user has approved it.
    pub fn approve(&mut self, text: &str) {
        let Some(config) = parse(text) else { return };
        let held = pinned_leaves(&config.pinned_half());
        for setting in std::mem::take(&mut self.0) {
            match setting {
                RoomSetting::Unknown { .. } => self.note_unknown(text),
                other if other.is_held(&held, &config) => {}
                other => self.0.push(other),
            }
        }
    }
}

impl RoomSetting {
    fn is_held(&self, held: &BTreeMap<String, Value>, config: &Config) -> bool {
        match self {
            Self::Set { key, value } => has(held.get(key), value),
            Self::Dropped { key, value } => !has(held.get(key), value),
            Self::Unknown { approved } => {
                !pending_changes(&config_or_default(approved), config).is_empty()
            }
        }
    }
}

fn has(found: Option<&Value>, value: &Value) -> bool {
    match found {
        Some(Value::Array(entries)) if !value.is_array() => entries.contains(value),
        Some(other) => other == value,
        None => false,
    }
}

/// Parses a text over the defaults only: what the user's own file sets does not come from a room.
fn parse(text: &str) -> Option<Config> {
    layers::parse("hothouse.toml", text).ok().map(|resolved| resolved.config)
}

/// Returns the config of a text; an invalid one grants nothing beyond the defaults.
fn config_or_default(text: &str) -> Config {
    parse(text).or_else(|| parse("")).expect("the defaults are valid")
}

/// Describes changes in words, for a user to decide on. The values may come from an agent, so they
/// are escaped and truncated.
pub fn in_words(changes: &[PendingChange]) -> Vec<String> {
    changes.iter().flat_map(pieces).map(|piece| piece.in_words()).collect()
}

/// An added or removed value, or entry of a list.
struct Piece {
    key: String,
    value: Value,
    comes: bool,
    /// Whether the key holds a list.
    is_entry: bool,
}

fn pieces(change: &PendingChange) -> Vec<Piece> {
    let entries = |value: &Option<Value>| match value {
        Some(Value::Array(entries)) => Some(entries.clone()),
        None => Some(Vec::new()),
        Some(_) => None,
    };
    let piece =
        |value: Value, comes, is_entry| Piece { key: change.key.clone(), value, comes, is_entry };
    if let (Some(before), Some(after)) = (entries(&change.base), entries(&change.worktree)) {
        let gone = before.iter().filter(|entry| !after.contains(entry));
        let gone = gone.map(|entry| piece(entry.clone(), false, true));
        let new = after.iter().filter(|entry| !before.contains(entry));
        let new: Vec<_> = new.map(|entry| piece(entry.clone(), true, true)).collect();
        let all: Vec<_> = gone.chain(new).collect();
        // Only the order differs, and the first matching rule decides.
        return match all.is_empty() {
            true => vec![piece(Value::Array(after), true, false)],
            false => all,
        };
    }
    match (&change.worktree, &change.base) {
        (Some(value), _) => vec![piece(value.clone(), true, false)],
        (None, Some(value)) => vec![piece(value.clone(), false, false)],
        (None, None) => Vec::new(),
    }
}

impl Piece {
    fn into_setting(self) -> RoomSetting {
        let Self { key, value, comes, .. } = self;
        if comes { RoomSetting::Set { key, value } } else { RoomSetting::Dropped { key, value } }
    }

    fn in_words(&self) -> String {
        let Self { key, value, comes, is_entry } = self;
        let shown = short(value);
        match (key.as_str(), comes, is_entry) {
            ("room.mounts", true, _) => mount(value),
            ("room.mounts", false, _) => format!("no mount of {shown}"),
            ("room.tools", true, _) => format!("tool folder {shown}"),
            ("room.unmask", true, _) => format!("secret files {shown} uncovered"),
            ("room.mask", false, _) => format!("secret files {shown} no longer hidden"),
            ("egress.allow", true, _) => format!("egress allows {shown}"),
            ("egress.deny", false, _) => format!("egress no longer denies {shown}"),
            ("egress.mode", true, _) => format!("egress mode {shown}"),
            (_, true, true) => format!("{} gets {shown}", name(key)),
            (_, false, true) => format!("{} loses {shown}", name(key)),
            (_, true, false) => format!("{} becomes {shown}", name(key)),
            (_, false, false) => format!("{} is no longer {shown}", name(key)),
        }
    }
}

fn mount(value: &Value) -> String {
    let part = |key: &str| value.get(key);
    let source = part("source").map_or_else(|| short(value), short);
    let target = part("target").filter(|target| !target.is_null());
    let target = target.map_or_else(String::new, |target| format!(" at {}", short(target)));
    let how = match part("write") {
        Some(Value::Bool(true)) => "writable",
        _ => "read-only",
    };
    format!("mount {source}{target} {how}")
}

fn name(key: &str) -> String {
    format!("`{}`", bounded(key))
}

/// Formats a value as a reader would write it, truncated.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(entries) if entries.get("host").is_some_and(Value::is_string) => {
            let host = entries["host"].as_str().unwrap_or_default();
            let more = entries.iter().filter(|(key, value)| {
                *key != "host" && !value.is_null() && **value != Value::Array(Vec::new())
            });
            let more: Vec<_> = more.map(|(key, value)| format!(" {key}={value}")).collect();
            format!("{host}{}", more.concat())
        }
        other => other.to_string(),
    };
    format!("`{}`", bounded(&text))
}

fn bounded(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().count() > SHOWN {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str =
        "[egress]\nmode = \"allowlist\"\nallow = [\"good.example\"]\ndeny = [\"bad.example\"]\n";
    const AGENT: &str = "[room]\nmounts = [{ source = \"~\", target = \"/h\", write = true }]\n\
                         [egress]\nmode = \"open\"\nallow = [\"good.example\", \"evil.example\"]\n";

    fn noted() -> RoomSettings {
        let mut settings = RoomSettings::default();
        settings.note(USER, &[], Some(AGENT));
        settings
    }

    #[test]
    fn what_a_room_asks_for_is_said_in_plain_words() {
        let changes = pending_changes(&config_or_default(USER), &config_or_default(AGENT));
        assert_eq!(
            in_words(&changes),
            [
                "egress allows `evil.example`",
                "egress no longer denies `bad.example`",
                "egress mode `open`",
                "mount `~` at `/h` writable",
            ]
        );
    }

    #[test]
    fn each_setting_is_known_again_wherever_it_turns_up() {
        let settings = noted();
        assert!(settings.taint(AGENT));
        assert!(!settings.taint(USER));
        for text in [
            // Squashed into other changes, merged with the user's own, cherry-picked in part.
            "[egress]\nmode = \"allowlist\"\nallow = [\"other.example\", \"evil.example\"]\ndeny = [\"bad.example\"]\n",
            "[egress]\nmode = \"allowlist\"\n",
            "[room]\nmounts = [{ source = \"~\", target = \"/h\", write = true }]\n[egress]\nmode = \"allowlist\"\ndeny = [\"bad.example\"]\n",
            "not toml",
        ] {
            assert!(settings.taint(text), "{text}");
        }
        assert!(!RoomSettings::default().taint("not toml"));
    }

    #[test]
    fn approval_takes_what_was_seen_out_of_the_record() {
        let mut settings = noted();
        settings.approve(
            "[egress]\nmode = \"open\"\nallow = [\"good.example\"]\ndeny = [\"bad.example\"]\n",
        );
        assert!(!settings.taint("[egress]\nmode = \"open\"\ndeny = [\"bad.example\"]\n"));
        assert!(settings.taint(AGENT), "the mount was not approved");
        settings.approve(AGENT);
        assert!(settings.is_empty());
    }

    #[test]
    fn what_the_user_wrote_meanwhile_is_not_a_rooms() {
        let mut settings = RoomSettings::default();
        settings.note("", &[USER.to_owned()], Some(USER));
        assert!(settings.is_empty());
        settings.note("", &[USER.to_owned()], Some(AGENT));
        assert!(settings.taint(AGENT) && !settings.taint(USER));
    }

    #[test]
    fn what_cannot_be_read_stands_for_anything() {
        for version in [None, Some("[egress\n")] {
            let mut settings = RoomSettings::default();
            settings.note(USER, &[], version);
            assert!(settings.taint(AGENT) && !settings.taint(USER));
            settings.approve(AGENT);
            assert!(!settings.taint(AGENT) && settings.taint(USER));
        }
        let broken = RoomSettings::from_json(b"{");
        assert!(broken.taint(USER) && !broken.taint(""));
        assert_eq!(RoomSettings::from_json(&noted().to_json()), noted());
    }

    #[test]
    fn a_record_does_not_grow_for_ever() {
        let mut settings = RoomSettings::default();
        for round in 0..3 {
            let hosts: Vec<_> = (0..500).map(|at| format!("\"h{round}-{at}.example\"")).collect();
            settings.note("", &[], Some(&format!("[egress]\nallow = [{}]\n", hosts.join(","))));
        }
        assert!(settings.0.len() <= LIMIT);
        assert!(settings.taint("[egress]\nallow = [\"h0-1.example\"]\n"));
    }

    #[test]
    fn words_are_escaped_and_bounded() {
        let change = PendingChange {
            key: "env.X\u{1b}.value".into(),
            base: None,
            worktree: Some(Value::String("\u{1b}[2J".repeat(100))),
        };
        let words = in_words(&[change]).concat();
        assert!(!words.contains('\u{1b}') && words.chars().count() < 800, "{words}");
    }
}
