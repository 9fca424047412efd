//! Sizes and durations, written with their unit.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    problem::{Complaint, shown},
    text::TextRule,
};

/// A number of bytes, written as `512M` or `4G`; the units are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(u64);

pub const BYTE_SIZE: TextRule = TextRule {
    what: "a byte size such as `512M` or `4G`",
    pattern: Some("^[0-9]+(\\.[0-9]+)?([KMGT](i?B)?)?$"),
    check: |text| text.parse::<ByteSize>().map(|_| ()),
};

pub const DURATION: TextRule = TextRule {
    what: "a duration such as `500ms`, `2s` or `1h30m`",
    pattern: Some("^([0-9]+(ms|s|m|h|d))+$"),
    check: |text| parse_duration(text).map(|_| ()),
};

const SIZE_UNITS: [(&str, u64); 4] =
    [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl ByteSize {
    /// Returns the size of `count` bytes.
    pub const fn from_bytes(count: u64) -> Self {
        Self(count)
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let wrong = || Complaint::new(format!("must be {}, not `{}`", BYTE_SIZE.what, shown(text)));
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = unit_bytes(&text[digits.len()..]).ok_or_else(wrong)?;
        let count = scaled(digits, unit).ok_or_else(wrong)?;
        if count == 0 { Err(Complaint::new("must be above zero")) } else { Ok(Self(count)) }
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    if unit.is_empty() {
        return Some(1);
    }
    let bare = unit.strip_suffix("iB").or(unit.strip_suffix('B')).unwrap_or(unit);
    SIZE_UNITS.iter().find(|(name, _)| *name == bare).map(|(_, bytes)| *bytes)
}

/// Multiplies a decimal such as `1.5` by a unit in integer arithmetic: no floats, no rounding up.
fn scaled(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?
    };
    if fraction.len() > 6 {
        return None;
    }
    let tenth_power = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = number(fraction)?.checked_mul(unit)? / tenth_power;
    number(whole)?.checked_mul(unit)?.checked_add(part)
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit =
            SIZE_UNITS.iter().find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes));
        match unit {
            Some((name, bytes)) => write!(f, "{}{name}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

impl TryFrom<String> for ByteSize {
    type Error = Complaint;

    fn try_from(text: String) -> Result<Self, Complaint> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

/// Reads a duration such as `500ms`, `2s` or `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, Complaint> {
    let wrong = || Complaint::new(format!("must be {}, not `{}`", DURATION.what, shown(text)));
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (count, unit, after) = split_term(rest).ok_or_else(wrong)?;
        total =
            count.checked_mul(unit).and_then(|term| total.checked_add(term)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(Complaint::new("cannot be empty"));
    }
    if total == 0 {
        Err(Complaint::new("must be above zero"))
    } else {
        Ok(Duration::from_millis(total))
    }
}

/// Splits `1h30m` into its first number, the unit of that number in milliseconds, and the rest.
fn split_term(text: &str) -> Option<(u64, u64, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let letters =
        text[digits..].find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len() - digits);
    let unit = &text[digits..digits + letters];
    let (_, milliseconds) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    Some((text[..digits].parse().ok()?, *milliseconds, &text[digits + letters..]))
}

/// Writes a duration as [`parse_duration`] reads it; fractions of a millisecond are dropped.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, unit) in TIME_UNITS {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Serde for a [`Duration`] as text.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

/// Serde for an `Option<Duration>` as text.
pub(super) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => super::duration::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse_duration(&text).map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("512M", 512 << 20),
            ("4G", 4 << 30),
            ("4GiB", 4 << 30),
            ("1.5K", 1536),
            ("2T", 2 << 40),
        ] {
            assert_eq!(text.parse::<ByteSize>().unwrap().bytes(), bytes, "{text}");
        }
        for bad in [
            "",
            "G",
            "-1G",
            "4X",
            "4g",
            "1.G",
            ".5G",
            "1e3",
            "4 G",
            "0",
            "99999999T",
            "4iB",
            "1.0000000001G",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, milliseconds) in
            [("500ms", 500), ("2s", 2000), ("1h30m", 5_400_000), ("1d", 86_400_000)]
        {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(milliseconds),
                "{text}"
            );
        }
        for bad in [
            "",
            "5",
            "s",
            "2S",
            "-1s",
            "1.5s",
            "2 s",
            "0s",
            "2sec",
            "99999999999999999999s",
            "1ms2",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_written_size_is_read_back(bytes in 1_u64..) {
            let size = ByteSize::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
        }

        #[test]
        fn a_written_duration_is_read_back(milliseconds in 1_u64..) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_makes_a_unit_panic(text in "\\PC*") {
            let _ = text.parse::<ByteSize>();
            let _ = parse_duration(&text);
        }
    }
}
