//! Redaction: removes what must not be stored, recognized by value, by shape and by name.
//!
//! Pure. Every draft passes through [`Redactor::draft`] before it is written, so no sink can forget
//! it. Redaction is idempotent.

mod keys;
mod names;
mod text;

use std::{borrow::Cow, fmt, sync::Arc};

use hothouse_model::{
    encodings::{self, Changing, Secret},
    id::hex,
    record::{Draft, Kind},
    search::Search,
};
use serde_json::Value;

use crate::chain::sha256;
pub(crate) use names::is_sensitive;

/// Replaces a credential.
pub const REDACTED: &str = "[redacted]";

/// How much of a text is stored, in bytes. A longer one is cut, with its length and hash.
pub const TEXT_CAP: usize = 32 << 10;

/// The minimum length of a value that is searched for: a shorter one would match ordinary words.
const LEAST: usize = 6;

/// How many bytes of a salted hash replace an identifier.
const IDENTIFIER: usize = 6;

/// What counts as a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Known values, known shapes, and everything with the name of a credential.
    Full,
    /// Known values and vendor keys. For mail, whose links and codes must stay usable.
    Keys,
}

impl Care {
    /// Returns how much is redacted in records of a kind.
    pub fn of(kind: Kind) -> Self {
        if kind == Kind::Mail { Self::Keys } else { Self::Full }
    }
}

/// Removes credentials from texts.
#[derive(Clone)]
pub struct Redactor {
    /// The values to find, and their replacements; longest first. Zeroized on drop.
    values: Arc<Vec<(Secret, String)>>,
    search: Arc<Search>,
    salt: [u8; 16],
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

impl Redactor {
    /// Creates a redactor for named secrets and placeholders, with the salt of a run.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>, salt: [u8; 16]) -> Self {
        let mut values: Vec<_> = secrets
            .into_iter()
            .filter(|(_, value)| value.len() >= LEAST)
            .flat_map(|(name, value)| {
                let stands = format!("[secret {name}]");
                encodings_of(value).into_iter().map(move |value| (value, stands.clone()))
            })
            .collect();
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let search = Search::new(values.iter().map(|(value, _)| value.as_slice()));
        Self { values: Arc::new(values), search: Arc::new(search), salt }
    }

    /// Returns a redactor of the same run for other values.
    pub fn with<'a>(&self, secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(secrets, self.salt)
    }

    /// Redacts a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text_with(text, Care::Full)
    }

    fn text_with<'a>(&self, text: &'a str, care: Care) -> Cow<'a, str> {
        let known = self.known(text);
        match text::redact(&known, care) {
            Some(redacted) => redacted.into(),
            None => known,
        }
    }

    /// Replaces known values in a text, and leaves whatever else looks like a credential.
    pub fn values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known(text)
    }

    /// Replaces known values that occur completely.
    ///
    /// A room writes texts and can read its records. So partial values are left alone, and take no
    /// longer than any other text: otherwise a room could guess a value letter by letter.
    fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_whole = |&(at, index): &(usize, usize)| {
            text.as_bytes()[at..].starts_with(&self.values[index].0)
        };
        let mut found = self.search.find(text.as_bytes());
        found.retain(is_whole);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        // Longer values come first in the list.
        found.sort_unstable();
        let (mut clean, mut end) = (String::with_capacity(text.len()), 0);
        for (at, index) in found {
            let (value, stands) = &self.values[index];
            if at >= end {
                clean.push_str(&text[end..at]);
                clean.push_str(stands);
            }
            // Overlapping values are removed completely.
            end = end.max(at + value.len());
        }
        clean.push_str(&text[end..]);
        clean.into()
    }

    /// Redacts and truncates a text; a truncated one ends with its length and hash.
    pub fn cut_text(&self, text: &str) -> String {
        self.cut_text_with(text, Care::Full)
    }

    /// Redacts a text where it is: most have nothing to redact, and stay as they are.
    fn redact_in_place(&self, text: &mut String, care: Care) {
        let redacted = match self.text_with(text, care) {
            Cow::Borrowed(same) if same.len() <= TEXT_CAP => None,
            redacted => Some(cut(redacted)),
        };
        if let Some(redacted) = redacted {
            *text = redacted;
        }
    }

    fn cut_text_with(&self, text: &str, care: Care) -> String {
        cut(self.text_with(text, care))
    }

    /// Redacts a JSON value: its texts, and everything with the name of a credential.
    pub fn json(&self, value: &mut Value) {
        self.json_below(value, false);
    }

    fn json_below(&self, value: &mut Value, sensitive: bool) {
        match value {
            Value::String(_) | Value::Number(_) if sensitive => *value = REDACTED.into(),
            Value::String(text) => self.redact_in_place(text, Care::Full),
            Value::Array(values) => self.array(values, sensitive),
            Value::Object(map) => self.object(map, sensitive),
            _ => {}
        }
    }

    fn array(&self, values: &mut [Value], sensitive: bool) {
        // A pair of a name and a value, as headers are.
        if let [Value::String(name), Value::String(text)] = values
            && let Some(redacted) = self.header(name, text)
        {
            *text = redacted;
        }
        let mut after_flag = false;
        for value in values {
            // `--password VALUE`, as commands are.
            let is_flag =
                |text: &str| text.starts_with('-') && !text.contains('=') && is_sensitive(text);
            let flag = value.as_str().is_some_and(is_flag);
            self.json_below(value, sensitive || after_flag);
            after_flag = flag;
        }
    }

    /// Redacts only vendor keys, in every text of a JSON value.
    fn json_keys(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_in_place(text, Care::Keys),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json_keys(value)),
            Value::Object(map) => map.values_mut().for_each(|value| self.json_keys(value)),
            _ => {}
        }
    }

    fn object(&self, map: &mut serde_json::Map<String, Value>, sensitive: bool) {
        // A key may itself be a credential.
        let changed = |key: &&String| {
            key.len() >= LEAST && matches!(self.text(key), Cow::Owned(text) if text != **key)
        };
        let keys: Vec<String> = map.keys().filter(changed).cloned().collect();
        for key in keys {
            if let Some(value) = map.remove(&key) {
                map.insert(self.cut_text(&key), value);
            }
        }
        for (name, value) in map.iter_mut() {
            match value {
                Value::String(text) if is_header_of_credentials(name) => {
                    *text = credential(text);
                }
                _ => self.json_below(value, sensitive || is_sensitive(name)),
            }
        }
    }

    /// Redacts headers.
    pub fn headers(&self, headers: &mut [(String, String)]) {
        for (name, value) in headers {
            if let Some(redacted) = self.header(name, value) {
                *value = redacted;
            }
        }
    }

    fn header(&self, name: &str, value: &str) -> Option<String> {
        if is_header_of_credentials(name) {
            return Some(credential(value));
        }
        if is_sensitive(name) {
            return Some(REDACTED.into());
        }
        let redacted = self.cut_text(value);
        (redacted != value).then_some(redacted)
    }

    /// Redacts a form or the query of a URL.
    pub fn form(&self, form: &str) -> String {
        let pairs = form.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if is_sensitive(name) && !value.is_empty() => {
                format!("{name}={REDACTED}")
            }
            _ => self.text(pair).into_owned(),
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Redacts the texts in some bytes.
    pub fn bytes<'a>(&self, bytes: &'a [u8], care: Care) -> Cow<'a, [u8]> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return match self.text_with(text, care) {
                Cow::Borrowed(text) => text.as_bytes().into(),
                Cow::Owned(text) => text.into_bytes().into(),
            };
        }
        let mut redacted = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            redacted.extend_from_slice(self.text_with(chunk.valid(), care).as_bytes());
            redacted.extend_from_slice(chunk.invalid());
        }
        redacted.into()
    }

    /// Returns a pseudonym for a person: the same for the same text within a run, different in
    /// another.
    pub fn identifier(&self, text: &str) -> String {
        let folded = text.trim().to_lowercase();
        if let Some(digits) = folded.strip_prefix("person_")
            && digits.len() == IDENTIFIER * 2
        {
            return folded;
        }
        format!("person_{}", hex(&sha256(&[&self.salt, folded.as_bytes()])[..IDENTIFIER]))
    }

    /// Redacts every field of a draft.
    pub fn draft(&self, mut draft: Draft) -> Draft {
        if draft.kind == Kind::Event {
            self.people(&mut draft.body, false);
        }
        let care = Care::of(draft.kind);
        draft.summary = self.text_with(&draft.summary, care).into_owned();
        for small in [&mut draft.service, &mut draft.trace].into_iter().flatten() {
            *small = self.text(small).into_owned();
        }
        if let Some(process) = &mut draft.process {
            process.command = self.text(&process.command).into_owned();
        }
        match care {
            Care::Full => self.json(&mut draft.body),
            Care::Keys => self.json_keys(&mut draft.body),
        }
        draft
    }

    /// Replaces people in an analytics event with hashes: by field names, and e-mail addresses
    /// wherever they are the whole text.
    fn people(&self, value: &mut Value, named: bool) {
        match value {
            Value::String(text) if named || names::is_email(text) => *text = self.identifier(text),
            Value::Number(number) if named => *value = self.identifier(&number.to_string()).into(),
            Value::Array(values) => values.iter_mut().for_each(|value| self.people(value, named)),
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    self.people(value, names::is_person(name));
                    if names::is_traits(name)
                        && let Some(value) = value.get_mut("name")
                    {
                        self.people(value, true);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the encodings in which a value is searched for, each once.
fn encodings_of(value: &str) -> Vec<Secret> {
    let mut all = encodings::all(value, Changing::of(value));
    all.sort_unstable_by(|one, other| one.as_slice().cmp(other.as_slice()));
    all.dedup();
    all.retain(|written| written.len() >= LEAST);
    all
}

/// Truncates a redacted text; a truncated one ends with its length and hash.
fn cut(redacted: Cow<'_, str>) -> String {
    if redacted.len() <= TEXT_CAP {
        return redacted.into_owned();
    }
    let kept = &redacted[..redacted.floor_char_boundary(TEXT_CAP)];
    let hash = hex(&sha256(&[redacted.as_bytes()]));
    format!("{kept}… [cut: {} bytes, sha256:{hash}]", redacted.len())
}

/// Headers that hold a scheme and a credential.
fn is_header_of_credentials(name: &str) -> bool {
    ["authorization", "proxy-authorization"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Keeps the scheme of a credential, which tells how it was sent.
fn credential(text: &str) -> String {
    match text.split_once(' ') {
        Some((scheme, _))
            if scheme.len() <= 20
                && !scheme.is_empty()
                && scheme.chars().all(|c| c.is_ascii_alphabetic() || c == '-') =>
        {
            format!("{scheme} {REDACTED}")
        }
        _ => REDACTED.to_owned(),
    }
}

#[cfg(test)]
mod tests;
