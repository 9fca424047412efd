//! Secrets: values that must not be shown by accident, and their placeholders in a room.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    config::{SecretSource, VariableName},
    id::hex,
};

/// The minimum length of a value: a shorter one could not be told apart from other text in a response.
pub const LEAST_LENGTH: usize = 8;

/// The maximum length of a value.
pub const MOST_LENGTH: usize = 64 << 10;

/// How many letters and digits of a placeholder must be random.
const MADE_UP: usize = 12;

/// A secret's value. It is wiped when it is dropped, and prints as stars.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

/// Where a value comes from, as shown to the user. A command is not shown, because it may contain a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Origin {
    Keyring,
    File,
    Environment(VariableName),
    Command,
}

/// The word for values that a command prints.
const COMMAND: &str = "command";

/// A text that is not a valid origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not where a secret comes from")]
pub struct UnknownOrigin;

impl From<&SecretSource> for Origin {
    fn from(source: &SecretSource) -> Self {
        match source {
            SecretSource::Keyring => Self::Keyring,
            SecretSource::File => Self::File,
            SecretSource::Environment(name) => Self::Environment(name.clone()),
            SecretSource::Command(_) => Self::Command,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring => SecretSource::Keyring.fmt(f),
            Self::File => SecretSource::File.fmt(f),
            Self::Environment(name) => SecretSource::Environment(name.clone()).fmt(f),
            Self::Command => f.write_str(COMMAND),
        }
    }
}

impl FromStr for Origin {
    type Err = UnknownOrigin;

    /// Parses what [`Display`](fmt::Display) wrote.
    fn from_str(text: &str) -> Result<Self, UnknownOrigin> {
        match text.parse::<SecretSource>() {
            _ if text == COMMAND => Ok(Self::Command),
            Ok(SecretSource::Command(_)) | Err(_) => Err(UnknownOrigin),
            Ok(source) => Ok(Self::from(&source)),
        }
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

impl TryFrom<String> for Origin {
    type Error = UnknownOrigin;

    fn try_from(text: String) -> Result<Self, UnknownOrigin> {
        text.parse()
    }
}

/// A text that cannot be a secret's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("the value has fewer than {LEAST_LENGTH} characters")]
    Short,
    #[error("the value has more than {MOST_LENGTH} bytes")]
    Long,
    #[error("the value contains a NUL character")]
    Nul,
    #[error("the value is not valid UTF-8")]
    Encoding,
}

impl SecretValue {
    /// Takes a value as a person or a program wrote it, without a final line ending.
    pub fn new(text: String) -> Result<Self, ValueError> {
        let text = Zeroizing::new(text);
        let plain = text
            .strip_suffix('\n')
            .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        if plain.contains('\0') {
            return Err(ValueError::Nul);
        }
        if plain.chars().count() < LEAST_LENGTH {
            return Err(ValueError::Short);
        }
        if plain.len() > MOST_LENGTH {
            return Err(ValueError::Long);
        }
        Ok(Self(Zeroizing::new(plain.to_owned())))
    }

    /// Makes a value from bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ValueError> {
        let bytes = Zeroizing::new(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| ValueError::Encoding)?;
        Self::new(text.to_owned())
    }

    /// Returns the value itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Makes the placeholder that a room sees instead of a value: the same length and prefix, and the same kinds of
/// characters in the same places.
///
/// A value with too few characters to randomize gets a placeholder of a fixed form that cannot be confused with other
/// text.
pub fn placeholder(value: &SecretValue, seed: [u8; 16]) -> String {
    let value = value.expose();
    let kept = prefix_length(value);
    let mut dice = Dice::new(seed);
    let shaped: String =
        value.char_indices().map(|(at, c)| if at < kept { c } else { dice.like(c) }).collect();
    let made_up = value[kept..].chars().filter(char::is_ascii_alphanumeric).count();
    if made_up < MADE_UP || shaped == value || !shaped.is_ascii() || shaped.contains(['\n', '\r']) {
        return unshaped_placeholder(seed);
    }
    shaped
}

/// Makes a placeholder for an unknown value.
pub fn unshaped_placeholder(seed: [u8; 16]) -> String {
    format!("hothouse_{}", hex(&seed))
}

/// Returns the length of the prefix that all credentials of a vendor share: `ghp_`, `sk-proj-`.
fn prefix_length(value: &str) -> usize {
    let first = value
        .char_indices()
        .take(16)
        .take_while(|(_, c)| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let last = first.filter(|(_, c)| matches!(c, '_' | '-' | '.')).last();
    let length = last.map_or(0, |(at, _)| at + 1);
    // A prefix that is most of the text is not one.
    if length * 2 > value.len() { 0 } else { length }
}

/// Replaces characters with similar random ones.
struct Dice(u64, u64);

impl Dice {
    fn new(seed: [u8; 16]) -> Self {
        let half =
            |at: usize| seed[at..at + 8].iter().fold(0_u64, |all, b| all << 8 | u64::from(*b));
        Self(half(0), half(8))
    }

    /// Makes one step of splitmix64, over both halves of the seed.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0 ^ self.1.rotate_left(23);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.1 = self.1.wrapping_add(z);
        z ^ (z >> 31)
    }

    fn like(&mut self, c: char) -> char {
        let among = match c {
            'a'..='f' => "abcdef",
            'g'..='z' => "ghijklmnopqrstuvwxyz",
            'A'..='F' => "ABCDEF",
            'G'..='Z' => "GHIJKLMNOPQRSTUVWXYZ",
            '0'..='9' => "0123456789",
            _ => return c,
        };
        let at = usize::try_from(self.next() % among.len() as u64).unwrap_or(0);
        among.as_bytes().get(at).copied().map_or(c, char::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(value: &str) -> String {
        placeholder(&SecretValue::new(value.into()).unwrap(), [7; 16])
    }

    #[test]
    fn a_placeholder_has_the_shape_of_its_value() {
        let value = format!("{}{}", "ghp_", "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8bC0dF1gH2");
        let made = of(&value);
        assert!(made.starts_with("ghp_") && made.len() == value.len() && made != value, "{made}");
        let json = r#"{"type":"service_account","key":"abcdefghijklmnop"}"#;
        assert!(of(json).starts_with("{\"") && of(json).ends_with("\"}"));
        let hex = "0123456789abcdef0123456789abcdef";
        assert!(of(hex).chars().all(|c| c.is_ascii_hexdigit()));
    }

    #[test]
    fn a_value_without_enough_to_make_up_gets_a_form_of_ours() {
        for value in ["hunter22", "----------------", "pässwörter und mehr"] {
            assert!(of(value).starts_with("hothouse_"), "{value}");
        }
    }

    #[test]
    fn a_value_prints_as_stars_and_loses_its_line_end() {
        let value = SecretValue::new("correct horse\r\n".into()).unwrap();
        assert_eq!((value.expose(), format!("{value:?}").as_str()), ("correct horse", "***"));
        assert_eq!(SecretValue::new("short\n".into()), Err(ValueError::Short));
        assert_eq!(SecretValue::new("a\0bcdefgh".into()), Err(ValueError::Nul));
        assert_eq!(SecretValue::from_bytes(vec![0xff; 20]), Err(ValueError::Encoding));
    }

    proptest! {
        #[test]
        fn a_placeholder_is_never_the_value(value in "[ -~]{8,80}", seed in any::<[u8; 16]>()) {
            let value = SecretValue::new(value).unwrap();
            let made = placeholder(&value, seed);
            prop_assert_ne!(made.as_str(), value.expose());
            prop_assert!(made.len() >= LEAST_LENGTH);
        }
    }
}
