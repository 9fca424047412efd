//! Values whose encoding on the wire differs from that in JSON.
//!
//! On the wire a duration is a number of milliseconds and an environment a list of `NAME=value`, as room-init has
//! always encoded them.

/// A duration: milliseconds on the wire.
pub(crate) mod duration {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => time.serialize(to),
            false => u32::try_from(time.as_millis()).unwrap_or(u32::MAX).serialize(to),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match from.is_human_readable() {
            true => Duration::deserialize(from),
            false => u32::deserialize(from).map(|ms| Duration::from_millis(ms.into())),
        }
    }
}

/// An environment: a list of `NAME=value` on the wire.
pub(crate) mod environment {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<S: Serializer>(
        all: &BTreeMap<String, String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => all.serialize(to),
            false => to.collect_seq(all.iter().map(|(name, value)| format!("{name}={value}"))),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, String>, D::Error> {
        if from.is_human_readable() {
            return BTreeMap::deserialize(from);
        }
        let lines = Vec::<String>::deserialize(from)?;
        // A program could not look up an entry without `=`.
        let pairs = lines.iter().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
