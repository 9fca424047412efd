//! Enums whose values are single words, in JSON, in tables and in the store.

use std::fmt;

use hothouse_service::ServiceState;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An enum whose values are words.
pub trait Words: Copy {
    /// Returns its word in JSON and tables.
    fn word(self) -> &'static str;

    /// Parses the word that [`word`](Self::word) wrote.
    fn of_word(text: &str) -> Option<Self>;
}

/// A word from a room, a project or another build: one of `T`, or an unknown one that is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word<T> {
    Known(T),
    Other(String),
}

impl<T: Words> Word<T> {
    /// Parses a word.
    pub fn read(text: String) -> Self {
        T::of_word(&text).map_or(Self::Other(text), Self::Known)
    }

    /// Returns the word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.word(),
            Self::Other(text) => text,
        }
    }

    /// Converts it to words of another type; unknown ones are kept.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Word<U> {
        match self {
            Self::Known(known) => Word::Known(of(known)),
            Self::Other(text) => Word::Other(text),
        }
    }

    /// Returns the value, unless the word is unknown.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Other(_) => None,
        }
    }
}

impl Words for ServiceState {
    fn word(self) -> &'static str {
        self.as_str()
    }

    fn of_word(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl<T> Default for Word<T> {
    /// Returns the word of a missing field.
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl<T> From<T> for Word<T> {
    fn from(known: T) -> Self {
        Self::Known(known)
    }
}

impl<T: PartialEq> PartialEq<T> for Word<T> {
    fn eq(&self, other: &T) -> bool {
        matches!(self, Self::Known(known) if known == other)
    }
}

impl<T: Words> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T: Words> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de, T: Words> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::read)
    }
}

/// Declares an enum whose variants are words: `as_str`, `parse`, `ALL`, `Display` and serde agree.
macro_rules! word_type {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns its word in JSON and tables.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Parses the word that [`as_str`](Self::as_str) wrote.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text)
            }
        }

        impl $crate::words::Words for $name {
            fn word(self) -> &'static str {
                self.as_str()
            }

            fn of_word(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use word_type;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::JobState;

    #[test]
    fn words_of_others_stay_as_they_are() {
        for (text, known) in [
            ("dead", Some(JobState::Dead)),
            ("active", Some(JobState::Active)),
            ("snoozed", None),
            ("", None),
        ] {
            let read: Word<JobState> = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read.known(), known, "{text}");
            assert_eq!(serde_json::to_value(&read).unwrap(), text);
            assert_eq!(read == JobState::Dead, text == "dead");
        }
        assert_eq!(Word::<JobState>::default().as_str(), "");
        assert_eq!(format!("{:<5}|", Word::Known(JobState::Dead)), "dead |");
    }
}
