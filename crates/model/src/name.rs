//! Names that users choose, validated once and never checked again.
//!
//! A sandbox name becomes a folder, a branch and a DNS label, so its alphabet is the
//! intersection of what those three allow.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The maximum length of the name of a sandbox, project or service.
pub const MAX_NAME_LENGTH: usize = 40;

/// The label of Hothouse's own site in URLs. No project can have it: its apps would be same-site
/// with the dashboard, and could set cookies for it.
pub const OWN_LABEL: &str = "hothouse";

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a name cannot be empty")]
    Empty,
    #[error("`{shown}` has {length} characters, more than the {MAX_NAME_LENGTH} allowed")]
    TooLong { shown: String, length: usize },
    #[error(
        "`{shown}` is not a name: only a-z, 0-9 and `-` are allowed, beginning and ending with a letter or digit"
    )]
    Malformed { shown: String },
}

/// Checks the grammar `[a-z0-9]([a-z0-9-]*[a-z0-9])?`, at most [`MAX_NAME_LENGTH`] characters.
fn check(text: &str) -> Result<(), NameError> {
    let length = text.chars().count();
    if length == 0 {
        return Err(NameError::Empty);
    }
    if length > MAX_NAME_LENGTH {
        return Err(NameError::TooLong { shown: shown(text), length });
    }
    let alphabet = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if !text.bytes().all(alphabet) || text.starts_with('-') || text.ends_with('-') {
        return Err(NameError::Malformed { shown: shown(text) });
    }
    Ok(())
}

/// Makes a hostile text safe for one line of an error message.
fn shown(text: &str) -> String {
    let mut line: String = text.chars().take(32).flat_map(char::escape_debug).collect();
    if text.chars().count() > 32 {
        line.push('…');
    }
    line
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                check(text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                check(&text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// The name of a sandbox, unique within its project.
    SandboxName
}
name_type! {
    /// The name of a project, as `hothouse.toml` gives it or as derived from its folder.
    ProjectName
}
name_type! {
    /// The name of a service within a project.
    ServiceName
}

impl ProjectName {
    /// Derives a name from a folder's name, for a repository whose config sets none.
    pub fn from_folder(folder: &str) -> Self {
        let mut name = String::new();
        for c in folder.chars().map(|c| c.to_ascii_lowercase()) {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        name.truncate(MAX_NAME_LENGTH);
        let name = name.trim_end_matches('-');
        Self(if name.is_empty() { "project".to_owned() } else { name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_follow_their_grammar() {
        for good in ["a", "0", "agent-a", "a--b", &"x".repeat(40)] {
            assert!(good.parse::<SandboxName>().is_ok(), "{good}");
        }
        let long = "a".repeat(41);
        for bad in
            ["", "-a", "a-", "A", "a b", "a/b", "../x", ".git", "a\nb", "Ünicode", "a.b", &long]
        {
            assert!(bad.parse::<SandboxName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_message_about_a_hostile_name_stays_on_one_line() {
        let error = "a\n\u{1b}[31mb".parse::<SandboxName>().unwrap_err().to_string();
        assert!(!error.contains(['\n', '\u{1b}']), "{error:?}");
    }

    proptest! {
        #[test]
        fn a_folder_always_gives_a_valid_project_name(folder in ".*") {
            let name = ProjectName::from_folder(&folder);
            prop_assert!(check(name.as_str()).is_ok(), "{name}");
        }
    }
}
