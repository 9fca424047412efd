//! Recognizes credentials by their shape.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use hothouse_model::live_keys;

/// Prefixes besides those of live keys in `live_keys`: test keys are credentials too.
const TEST_KEYS: [&str; 17] = [
    "sk_test_",
    "rk_test_",
    "pk_test_",
    "whsec_",
    "rzp_test_",
    "sq0idp-",
    "access-sandbox-",
    "access-development-",
    "access_token$sandbox$",
    "phc_",
    "seti_",
    "pypi-",
    "glptt-",
    "gldt-",
    "dckr_pat_",
    "sntrys_",
    "hothouse_",
];

/// How many characters must follow a distinctive prefix, and one that also starts ordinary words.
const AFTER_DISTINCT: usize = 3;
const AFTER_PLAIN: usize = 12;

/// Prefixes by their first byte, with the number of characters that must follow.
static PREFIXES: LazyLock<Vec<Vec<(String, usize)>>> = LazyLock::new(|| {
    let mut by_first = vec![Vec::new(); 256];
    let mut add = |prefix: String, after| {
        by_first[usize::from(prefix.as_bytes()[0])].push((prefix, after));
    };
    for prefix in live_keys::prefixes().chain(TEST_KEYS) {
        let distinct = prefix.len() >= 6 && prefix.contains(['_', '-']);
        add(prefix.to_owned(), if distinct { AFTER_DISTINCT } else { AFTER_PLAIN });
        if distinct {
            // The same in base64 (Basic credentials, data URLs), for complete groups of three
            // bytes.
            let whole = prefix.len() / 3 * 3;
            add(STANDARD_NO_PAD.encode(&prefix.as_bytes()[..whole]), AFTER_DISTINCT);
        }
    }
    by_first
});

/// Returns whether a credential may begin with these bytes, judging by the first two.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    /// One bit per pair.
    static PAIRS: LazyLock<[u64; 1024]> = LazyLock::new(|| {
        let mut pairs = [0; 1024];
        let known = PREFIXES.iter().flatten().map(|(prefix, _)| prefix.as_str());
        for prefix in known.chain(["ey"]) {
            let (at, bit) = pair(prefix.as_bytes()[0], prefix.as_bytes()[1]);
            pairs[at] |= bit;
        }
        pairs
    });
    let [first, second, ..] = bytes else { return false };
    let (at, bit) = pair(*first, *second);
    PAIRS[at] & bit != 0
}

/// Returns the position of a pair of bytes in a table with one bit per pair.
fn pair(first: u8, second: u8) -> (usize, u64) {
    let number = usize::from(first) << 8 | usize::from(second);
    (number / 64, 1 << (number % 64))
}

/// Returns the length of the credential at the start of a text, if any.
pub(super) fn length(text: &str) -> Option<usize> {
    let first = usize::from(*text.as_bytes().first()?);
    let token = || text.bytes().take_while(|c| is_of_token(*c)).count();
    let second = text.as_bytes().get(1);
    // Most words differ from every key in the second byte.
    let mut near = PREFIXES[first].iter().filter(|(prefix, _)| prefix.as_bytes().get(1) == second);
    let known = near.any(|(prefix, after)| {
        text.strip_prefix(prefix.as_str()).is_some_and(|rest| {
            let tail = rest.bytes().take_while(|c| is_of_token(*c)).count();
            // Words in snake case, such as `re_render_everything`, have no digits.
            let plain = *after == AFTER_PLAIN;
            tail >= *after && (!plain || rest.bytes().take(tail).any(|c| c.is_ascii_digit()))
        })
    });
    known.then(token)
}

/// Returns the length of the JSON Web Token at the start of a text: two parts of JSON in base64,
/// and a signature.
pub(super) fn jwt(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("eyJ")?;
    let part = |text: &str| text.bytes().take_while(|c| is_of_base64_url(*c)).count();
    let head = part(rest);
    let rest = rest[head..].strip_prefix('.')?;
    let claims = part(rest);
    (claims >= 2).then(|| {
        let signature = rest[claims..].strip_prefix('.').map_or(0, |rest| 1 + part(rest));
        3 + head + 1 + claims + signature
    })
}

pub(super) fn is_of_token(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"_-./+=$".contains(&c)
}

fn is_of_base64_url(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'-' || c == b'_'
}
