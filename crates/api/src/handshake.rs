//! The version handshake: both sides name their build in every message.
//!
//! A client that is newer than the daemon gets only [`OUTDATED`]: it stops that daemon, which does not
//! affect rooms, and starts its own.

use std::{fmt, str::FromStr};

/// The header with the sender's build, in both directions.
pub const BUILD_HEADER: &str = "hothouse-build";

/// The header with the id of an operation that changes something.
pub const OPERATION_HEADER: &str = "hothouse-operation";

/// The status of a daemon that is older than the client.
pub const OUTDATED: u16 = 426;

/// A version, and when the executable was built, to distinguish two builds of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build {
    pub version: (u32, u32, u32),
    /// When the executable was last changed, in seconds since 1970.
    pub stamp: u64,
}

impl Build {
    /// Returns this build.
    pub fn current(stamp: u64) -> Self {
        let part = |text: &str| text.parse().expect("cargo gives three numbers");
        let version = (
            part(env!("CARGO_PKG_VERSION_MAJOR")),
            part(env!("CARGO_PKG_VERSION_MINOR")),
            part(env!("CARGO_PKG_VERSION_PATCH")),
        );
        Self { version, stamp }
    }

    /// Returns only the version, as users know it.
    pub fn version(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.version(), self.stamp)
    }
}

/// A header that is not a valid build.
#[derive(Debug, thiserror::Error)]
#[error("a build is written `1.2.3+SECONDS`")]
pub struct BuildError;

impl FromStr for Build {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let (version, stamp) = text.split_once('+').ok_or(BuildError)?;
        let mut parts = version.split('.').map(|part| part.parse::<u32>().map_err(|_| BuildError));
        let mut next = || parts.next().ok_or(BuildError)?;
        let version = (next()?, next()?, next()?);
        Ok(Self { version, stamp: stamp.parse().map_err(|_| BuildError)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_version_is_newer_whenever_it_was_built() {
        let build = |text: &str| text.parse::<Build>().unwrap();
        assert!(build("0.10.0+1") > build("0.9.9+9"));
        assert!(build("0.9.0+2") > build("0.9.0+1"));
        assert_eq!(build("0.9.0+2").to_string(), "0.9.0+2");
        assert!("0.9+2".parse::<Build>().is_err());
    }
}
