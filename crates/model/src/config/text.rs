//! Text values with a required format, and the two macros that define types for them.
//!
//! The walker (problems), the type (validation) and the JSON Schema share each rule, so the three cannot disagree.

use super::problem::{Complaint, shown};

/// The format of a text value.
pub struct TextRule {
    /// What the text is, with an example: `a byte size such as "4G"`.
    pub what: &'static str,
    /// The format as a regular expression of JSON Schema, if it can be expressed.
    pub pattern: Option<&'static str>,
    pub check: fn(&str) -> Result<(), Complaint>,
}

/// Defines a type for a text that follows a rule.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident: $what:literal, $pattern:expr, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub const RULE: $crate::config::text::TextRule =
                $crate::config::text::TextRule { what: $what, pattern: $pattern, check: $check };

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::config::problem::Complaint;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                ($name::RULE.check)(&text)?;
                Ok(Self(text))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::config::problem::Complaint;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Defines an enum for a fixed list of words.
macro_rules! choice_type {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every word, as written in the config.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word, as written in the config.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::words::Words for $name {
            fn word(self) -> &'static str {
                self.as_str()
            }

            fn of_word(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(super) use {choice_type, text_type};

text_type! {
    /// A command line, run by a shell in the room.
    Command: "a command such as `npm start`", None, check_line
}
text_type! {
    /// A single line of text, for people to read or for a sink to search for.
    Line: "a text", None, check_line
}
text_type! {
    /// The name of something that the config declares: profile, integration, bundle, scenario, role.
    EntryName: "a name such as `admin-user`", Some(NAME_PATTERN), check_name
}
text_type! {
    /// The label of an app in its URLs.
    AppLabel: "a label such as `web`", Some(NAME_PATTERN), check_name
}
text_type! {
    /// The name of a secret, as in the room's environment.
    SecretName: "a name such as `GITHUB_TOKEN`", Some("^[A-Z_][A-Z0-9_]*$"), check_secret_name
}
text_type! {
    /// The key of a feature flag.
    FlagKey: "a key such as `new-checkout`", None, check_flag_key
}
text_type! {
    /// The name of an environment variable.
    VariableName: "a name such as `DATABASE_URL`", Some("^[A-Za-z_][A-Za-z0-9_]*$"), check_variable_name
}
text_type! {
    /// The version of a recipe's program, such as `16` or `10.11`.
    Version: "a version such as `16`", Some("^[0-9]+(\\.[0-9]+)*$"), check_version
}
text_type! {
    /// The name of a database or a database user.
    DatabaseName: "a name such as `shop`", Some("^[A-Za-z0-9_-]{1,63}$"), check_database_name
}
text_type! {
    /// The password of a database in a room. It protects nothing, but must match the app's own settings.
    DatabasePassword: "a password of letters, digits and `._~-`", Some("^[A-Za-z0-9._~-]{1,128}$"), check_database_password
}
text_type! {
    /// A stack: `host`, a built-in one, a script in `stacks/`, or an image.
    Stack: "a stack such as `host`, `node` or an image", Some("^[^\\s]+$"), check_word
}
text_type! {
    /// The name of an image: in a registry, `oci:FOLDER`, or `archive:FILE`.
    ImageName: "an image such as `postgres:16`", Some("^[^\\s]+$"), check_word
}
text_type! {
    /// A URL pattern, in which `*` is any text.
    UrlPattern: "a URL such as `https://js.vendor.example/*`", Some("^(https?|\\*)://[^\\s]+$"), check_url_pattern
}
text_type! {
    /// A regular expression that a log line must match.
    LogPattern: "a regular expression", None, check_regex
}

pub(super) const NAME_PATTERN: &str = "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$";

pub const NAME_RULE: TextRule = EntryName::RULE;

/// Rejects the empty text; every rule begins with this.
pub(super) fn check_filled(text: &str) -> Result<(), Complaint> {
    if text.trim().is_empty() {
        return Err(Complaint::new("cannot be empty"));
    }
    if text.contains('\0') {
        return Err(Complaint::new("cannot hold a NUL character"));
    }
    Ok(())
}

fn check_url_pattern(text: &str) -> Result<(), Complaint> {
    check_word(text)?;
    match ["https://", "http://", "*://"].iter().any(|scheme| text.starts_with(scheme)) {
        true => Ok(()),
        false => Err(Complaint::new("begins with `https://`")),
    }
}

fn check_line(text: &str) -> Result<(), Complaint> {
    check_filled(text)
}

fn check_word(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if plain { Ok(()) } else { Err(Complaint::new("cannot hold spaces or control characters")) }
}

fn check_name(text: &str) -> Result<(), Complaint> {
    if text.is_empty() {
        return Err(Complaint::new("cannot be empty"));
    }
    let form =
        "must be at most 40 of a-z, 0-9 and `-`, beginning and ending with a letter or digit";
    let wrong = |_| Complaint::new(format!("{form}, not `{}`", shown(text)));
    text.parse::<crate::ServiceName>().map(|_| ()).map_err(wrong)
}

fn check_secret_name(text: &str) -> Result<(), Complaint> {
    check_identifier(text, |c| c.is_ascii_uppercase(), "A-Z, 0-9 and `_`")
}

fn check_variable_name(text: &str) -> Result<(), Complaint> {
    check_identifier(text, |c| c.is_ascii_alphabetic(), "letters, digits and `_`")
}

fn check_identifier(text: &str, letter: fn(char) -> bool, alphabet: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    let plain = text.chars().all(|c| letter(c) || c == '_' || c.is_ascii_digit());
    if plain && !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    Err(Complaint::new(format!(
        "must consist of {alphabet} and not begin with a digit, unlike `{}`",
        shown(text)
    )))
}

fn check_flag_key(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    if crate::flag::is_key(text) {
        return Ok(());
    }
    Err(Complaint::new("must be at most 200 bytes, without control characters"))
}

fn check_database_name(text: &str) -> Result<(), Complaint> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match (1..=63).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(()),
        false => Err(Complaint::new("must be at most 63 letters, digits, `_` and `-`")),
    }
}

fn check_database_password(text: &str) -> Result<(), Complaint> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._~-".contains(&b);
    match (1..=128).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(()),
        false => Err(Complaint::new("must be at most 128 letters, digits and `._~-`")),
    }
}

fn check_version(text: &str) -> Result<(), Complaint> {
    let numbers = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if text.split('.').all(numbers) {
        return Ok(());
    }
    Err(Complaint::new(format!("must be a version such as `16` or `10.11`, not `{}`", shown(text))))
}

fn check_regex(text: &str) -> Result<(), Complaint> {
    check_filled(text)?;
    // The same engine as in room-init, which has no Unicode classes.
    match regex_lite::Regex::new(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Complaint::new(format!("is not a regular expression: `{}`", shown(text)))),
    }
}
