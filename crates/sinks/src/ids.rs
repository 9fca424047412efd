//! Ids and hashes for responses.

use aws_lc_rs::digest;
use hothouse_model::id::hex;

/// Formats random bytes as a version 4 UUID.
pub(crate) fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let all = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &all[..8], &all[8..12], &all[12..16], &all[16..20], &all[20..])
}

/// Returns the SHA-256 of bytes as hexadecimal text.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}
