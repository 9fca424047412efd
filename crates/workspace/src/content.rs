//! Collision-resistant hashes that identify content.

use aws_lc_rs::digest::{Context, SHA256};
use hothouse_model::id::hex;

/// How much of a hash is used in a key, to keep names short.
const KEY: usize = 16;

/// Returns a key for these parts that can be used as a folder name.
pub fn key(parts: &[&[u8]]) -> String {
    hex(&hash(parts)[..KEY])
}

/// Returns a number derived from the hash of some parts.
pub(crate) fn print(parts: &[&[u8]]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash(parts);
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Hashes each part with its length, so that moving bytes between parts changes the hash.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_in_the_next_release_and_knows_where_parts_end() {
        assert_eq!(key(&[b"a", b"b"]), "cf6ab613e3942391f88ed698557e1680");
        let others: [&[&[u8]]; 5] = [&[b"ab"], &[b"ab", b""], &[b"", b"ab"], &[b"a\0b"], &[]];
        for parts in others {
            assert_ne!(key(parts), key(&[b"a", b"b"]), "{parts:?}");
            assert_ne!(print(parts), print(&[b"a", b"b"]), "{parts:?}");
        }
    }
}
