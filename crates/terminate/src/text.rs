//! Texts in requests and answers. Pure.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
pub(crate) use hothouse_model::encodings::{Secret, json, percent};
use memchr::memmem;
use zeroize::Zeroizing;

/// Encodes bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> Secret {
    Zeroizing::new(STANDARD.encode(bytes).into_bytes())
}

/// Decodes base64, padded or not.
pub(crate) fn from_base64(text: &[u8]) -> Option<Secret> {
    let text = text.trim_ascii().trim_ascii_end();
    let plain = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    STANDARD_NO_PAD.decode(plain).ok().map(Zeroizing::new)
}

/// Replaces every occurrence; `None` if there is none.
pub(crate) fn replaced(text: &[u8], needle: &[u8], with: &[u8]) -> Option<Secret> {
    let found: Vec<usize> = memmem::find_iter(text, needle).collect();
    if found.is_empty() || needle.is_empty() {
        return None;
    }
    let mut all = Zeroizing::new(Vec::with_capacity(text.len() + found.len() * with.len()));
    let mut from = 0;
    for at in found {
        all.extend_from_slice(&text[from..at]);
        all.extend_from_slice(with);
        from = at + needle.len();
    }
    all.extend_from_slice(&text[from..]);
    Some(all)
}

/// Returns whether a text contains another.
pub(crate) fn holds(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && memmem::find(text, needle).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base_64_is_read_with_and_without_its_end() {
        assert_eq!(&**base64(b"user:pass"), b"dXNlcjpwYXNz");
        assert_eq!(
            from_base64(b"dXNlcjpwYXNzMQ==").as_deref().map(Vec::as_slice),
            Some(&b"user:pass1"[..])
        );
        assert_eq!(
            from_base64(b"dXNlcjpwYXNzMQ").as_deref().map(Vec::as_slice),
            Some(&b"user:pass1"[..])
        );
        assert_eq!(from_base64(b"***"), None);
    }

    proptest! {
        #[test]
        fn what_is_replaced_is_gone(text in "[ab]{0,40}") {
            if let Some(done) = replaced(text.as_bytes(), b"aba", b"-") {
                prop_assert!(done.len() < text.len());
            } else {
                prop_assert!(!text.contains("aba"));
            }
        }
    }
}
