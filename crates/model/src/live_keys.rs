//! Live credentials, which must not enter a room: recognized by prefix, by shape and by declaration.
//!
//! Pure: texts come in, findings go out, and a finding never holds the text it is about. A *certain* rule identifies a
//! production credential by its form; a *likely* one (a private key, the URL of a managed database) can be overruled by
//! declaring the variable harmless under `[env]`.

mod vendors;

use std::fmt;

use crate::config::{LiveKeys, VariableKind};
use vendors::{Form, MANAGED, NAMED, VENDORS};

/// How much of a credential a message may show: the part that all credentials of a vendor share.
const SHOWN: usize = 8;

/// The minimum length of a prefix in a project's rule; a shorter one would match ordinary words.
pub const LEAST_PREFIX: usize = 4;

/// How many characters must follow the prefix in a project's rule.
const OWN_TAIL: usize = 8;

/// A text that would be visible in a room.
#[derive(Clone, PartialEq, Eq)]
pub struct Exposed {
    /// The variable, or another name of the text.
    pub variable: String,
    /// Its owner, such as ``service `api` ``.
    pub place: String,
    pub value: String,
    /// What the user declared about it.
    pub declared: Option<VariableKind>,
}

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposed({} of {})", self.variable, self.place)
    }
}

/// A recognized credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveKey {
    pub vendor: String,
    pub what: String,
    /// The beginning, which is not secret: at most [`SHOWN`] characters.
    pub shown: String,
    certain: bool,
}

impl LiveKey {
    /// Returns whether its form is that of a production credential and nothing else.
    pub fn is_certain(&self) -> bool {
        self.certain
    }
}

/// A credential and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub variable: String,
    pub place: String,
    pub key: LiveKey,
}

/// What was found in all texts that would be visible in a room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Prevents the room from starting.
    pub refused: Vec<Finding>,
    /// Allowed by a named exception, with its reason.
    pub allowed: Vec<(Finding, String)>,
}

/// The room would have received live credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a live key must not enter a room: {}", counted(.findings))]
pub struct LiveKeysFound {
    pub findings: Vec<Finding>,
}

fn counted(findings: &[Finding]) -> String {
    match findings {
        [one] => format!("`{}` of {}", one.variable, one.place),
        many => format!("{} were found", many.len()),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LiveKey { vendor, what, shown, .. } = &self.key;
        write!(f, "`{}` of {} holds a live {vendor} {what}", self.variable, self.place)?;
        if shown.is_empty() { Ok(()) } else { write!(f, " ({shown}…)") }
    }
}

impl crate::Explain for LiveKeysFound {
    fn kind(&self) -> crate::FailureKind {
        crate::FailureKind::Config
    }

    fn causes(&self) -> Vec<String> {
        self.findings.iter().map(Finding::to_string).collect()
    }

    fn hints(&self) -> Vec<String> {
        let name = self.findings.first().map_or("NAME", |finding| finding.variable.as_str());
        vec![
            "use a test-mode key instead".into(),
            format!(
                "or declare `[secret.{name}]` with its hosts: the room then sees a placeholder, and the wall inserts the value"
            ),
            format!(
                "or commit an exception, which `status` shows: `[live-keys.allow-live]` with `{name} = \"why\"`"
            ),
        ]
    }
}

/// Returns the prefixes of the credentials of common vendors.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    VENDORS.iter().map(|vendor| vendor.prefix)
}

/// Checks all texts that would be visible in a room.
pub fn judge(exposed: impl IntoIterator<Item = Exposed>, settings: &LiveKeys) -> Judgement {
    let mut judgement = Judgement::default();
    for Exposed { variable, place, value, declared } in exposed {
        let Some(key) = find(&variable, &value, settings) else { continue };
        if !key.certain && declared.is_some_and(|kind| kind != VariableKind::Public) {
            continue;
        }
        let reason = settings.allow_live.get(variable.as_str());
        let finding = Finding { variable, place, key };
        match reason {
            Some(reason) => judgement.allowed.push((finding, reason.as_str().to_owned())),
            None => judgement.refused.push(finding),
        }
    }
    judgement
}

/// Finds a live credential anywhere in a text.
pub fn find(variable: &str, text: &str, settings: &LiveKeys) -> Option<LiveKey> {
    by_own_rule(text, settings)
        .or_else(|| by_prefix(text))
        .or_else(|| by_shape(text))
        .or_else(|| by_name(variable, text))
        .or_else(|| by_address(text))
}

fn by_own_rule(text: &str, settings: &LiveKeys) -> Option<LiveKey> {
    let any = Form { alphabet: |_| true, least: OWN_TAIL };
    let (name, rule) =
        settings.rules.iter().find(|(_, rule)| holds_token(text, rule.prefix.as_str(), &any))?;
    let vendor = rule.vendor.as_ref().map_or(name.as_str(), |vendor| vendor.as_str());
    Some(LiveKey {
        vendor: vendor.to_owned(),
        what: "key".into(),
        shown: rule.prefix.as_str().chars().take(SHOWN).collect(),
        certain: true,
    })
}

fn by_prefix(text: &str) -> Option<LiveKey> {
    let known = VENDORS.iter().find(|vendor| holds_token(text, vendor.prefix, &vendor.form))?;
    Some(LiveKey {
        vendor: known.name.into(),
        what: known.what.into(),
        shown: known.prefix.chars().take(SHOWN).collect(),
        certain: true,
    })
}

fn by_shape(text: &str) -> Option<LiveKey> {
    let likely = |vendor: &str, what: &str, certain| LiveKey {
        vendor: vendor.into(),
        what: what.into(),
        shown: String::new(),
        certain,
    };
    let plain = text.replace(['\\', ' ', '\n', '\t'], "");
    if plain.contains("\"type\":\"service_account\"") && plain.contains("\"private_key\"") {
        return Some(likely("Google", "service account", true));
    }
    let begins = text.find("-----BEGIN ").map(|at| &text[at..]);
    if begins
        .is_some_and(|rest| rest.lines().next().is_some_and(|l| l.contains("PRIVATE KEY-----")))
    {
        return Some(likely("private", "key (PEM)", false));
    }
    None
}

/// Recognizes a credential without a form of its own by the name of its variable.
fn by_name(variable: &str, text: &str) -> Option<LiveKey> {
    let upper = variable.to_ascii_uppercase();
    let text = text.trim();
    let known = NAMED.iter().find(|known| {
        upper.ends_with(known.variable)
            && text.len() == known.length
            && text.chars().all(known.alphabet)
            && !is_an_example(text)
    })?;
    Some(LiveKey {
        vendor: known.name.into(),
        what: known.what.into(),
        shown: String::new(),
        certain: known.certain,
    })
}

/// Recognizes the URL of a managed database that contains a password.
fn by_address(text: &str) -> Option<LiveKey> {
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        rest = &rest[at + 3..];
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        let Some((user, hosts)) = authority.rsplit_once('@') else { continue };
        if user.split_once(':').is_none_or(|(_, password)| password.is_empty()) {
            continue;
        }
        let hosts = hosts.split(',').map(|host| host.split(':').next().unwrap_or_default());
        for host in hosts.map(|host| host.trim_end_matches('.').to_ascii_lowercase()) {
            let of = |(suffix, _): &&(&str, &str)| {
                host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
            };
            if let Some((_, vendor)) = MANAGED.iter().find(of) {
                return Some(LiveKey {
                    vendor: (*vendor).into(),
                    what: "database URL with a password".into(),
                    shown: String::new(),
                    certain: false,
                });
            }
        }
    }
    None
}

/// Returns whether a text holds a token that begins with a prefix and continues long enough.
fn holds_token(text: &str, prefix: &str, form: &Form) -> bool {
    let mut from = 0;
    while let Some(at) = text[from..].find(prefix).map(|at| from + at) {
        let begins =
            text[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_');
        let tail: String =
            text[at + prefix.len()..].chars().take_while(|c| is_of_token(*c)).collect();
        let enough = tail.chars().take_while(|c| (form.alphabet)(*c)).count() >= form.least;
        if begins && enough && !is_an_example(&tail) {
            return true;
        }
        from = at + prefix.len();
    }
    false
}

fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./+=$:".contains(c)
}

/// Returns whether a key is a vendor's documentation example, or a placeholder such as `xxxx`.
fn is_an_example(tail: &str) -> bool {
    let first = tail.chars().next();
    let one_letter = tail.len() >= 8 && tail.chars().all(|c| Some(c) == first);
    one_letter || tail.ends_with("EXAMPLE") || tail.ends_with("EXAMPLEKEY")
}

/// Reads the entries of an env file: `NAME=value`, with `export`, comments and quotes.
pub fn env_file_entries(text: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut open: Option<char> = None;
    for line in text.lines() {
        if let Some(quote) = open {
            // A quoted value may span lines, as keys in PEM do.
            let ends = line.trim_end().ends_with(quote);
            if let Some((_, value)) = entries.last_mut() {
                value.push('\n');
                value.push_str(line.trim_end().trim_end_matches(quote));
            }
            open = (!ends).then_some(quote);
            continue;
        }
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim_end();
        let named = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if line.starts_with('#') || !named {
            continue;
        }
        let value = value.trim();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => {
                let inner = &value[1..];
                match inner.find(quote) {
                    Some(end) => &inner[..end],
                    None => {
                        open = Some(quote);
                        inner
                    }
                }
            }
            None => value.split(" #").next().unwrap_or(value).trim_end(),
        };
        entries.push((name.to_owned(), value.to_owned()));
    }
    entries
}
