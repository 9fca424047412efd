//! Identifiers that we mint: operations, runs, and the public id of a sandbox.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ProjectName, SandboxName};

/// Why a text is not an operation id.
#[derive(Debug, thiserror::Error)]
#[error("an operation id is `op_` and 8 to 64 letters or digits")]
pub struct OperationIdError;

/// The id of one request that changes something. The client chooses it, so that it can repeat the request after a
/// crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

impl OperationId {
    /// Makes an id from random bytes.
    pub fn from_random(bytes: [u8; 12]) -> Self {
        Self(format!("op_{}", hex(&bytes)))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OperationId {
    type Err = OperationIdError;

    fn from_str(text: &str) -> Result<Self, OperationIdError> {
        let tail = text.strip_prefix("op_").ok_or(OperationIdError)?;
        let proper =
            (8..=64).contains(&tail.len()) && tail.bytes().all(|c| c.is_ascii_alphanumeric());
        if proper { Ok(Self(text.to_owned())) } else { Err(OperationIdError) }
    }
}

impl TryFrom<String> for OperationId {
    type Error = OperationIdError;

    fn try_from(text: String) -> Result<Self, OperationIdError> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The store's key for a sandbox; never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxKey(pub i64);

/// The store's key for a plan; never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey(pub i64);

/// The public id of a sandbox, such as `acme-agent-a-3f9c`: stable and derived, never random.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxId(String);

impl SandboxId {
    /// Derives the id from what identifies a workspace.
    pub fn derive(
        project: &ProjectName,
        name: &SandboxName,
        common_dir: &Path,
        worktree: &Path,
        branch: &str,
    ) -> Self {
        let parts = [
            common_dir.as_os_str().as_encoded_bytes(),
            worktree.as_os_str().as_encoded_bytes(),
            branch.as_bytes(),
        ];
        let digest = fnv1a(&parts);
        Self(format!(
            "{project}-{name}-{:04x}",
            (digest ^ (digest >> 16) ^ (digest >> 32)) & 0xffff
        ))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SandboxId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Hashes the parts, each terminated by a NUL, with 64-bit FNV-1a: stable across releases, which the standard library's
/// hasher does not promise.
///
/// It spreads names and numbers. An attacker who chooses the parts can choose the hash, so content is never identified
/// by it: `hothouse_workspace::content` does that.
pub fn fnv1a(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(|half| char::from(b"0123456789abcdef"[usize::from(half)])).collect()
}

/// Reads what [`hex`] writes.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_back() {
        let bytes = [0, 1, 0x7f, 0x80, 0xff];
        assert_eq!(unhex(&hex(&bytes)).as_deref(), Some(&bytes[..]));
        for text in ["abc", "0g", "+1", "é0"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn a_sandbox_id_is_the_same_today_and_in_the_next_release() {
        let id = SandboxId::derive(
            &"acme".parse::<ProjectName>().unwrap(),
            &"agent-a".parse::<SandboxName>().unwrap(),
            Path::new("/home/u/acme/.git"),
            Path::new("/home/u/acme-sandboxes/agent-a"),
            "agent-a",
        );
        insta::assert_snapshot!(id, @"acme-agent-a-37ec");
    }

    #[test]
    fn operation_ids_are_bounded_and_plain() {
        assert!(OperationId::from_random([7; 12]).as_str().parse::<OperationId>().is_ok());
        for bad in [
            "",
            "op_",
            "op_1234567",
            "op_12345678/..",
            "xx_12345678",
            &format!("op_{}", "a".repeat(65)),
        ] {
            assert!(bad.parse::<OperationId>().is_err(), "{bad}");
        }
    }
}
