//! Shell patterns for names. room-init has a smaller matcher of its own for the files that services watch, because it
//! does not link this crate.

/// Returns whether a pattern has special characters, so that it is more than a plain name.
pub fn is_wild(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// Returns whether a pattern matches a whole name: `*` is anything, `?` one byte, `[a-z]` and `[!a-z]` one of a set,
/// and `\` takes the next byte literally.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to continue when the last star must match one more byte.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
            continue;
        }
        let next = match name.get(from) {
            Some(byte) => one(&pattern[at..], *byte),
            None if at == pattern.len() => return true,
            None => None,
        };
        match (next, star) {
            (Some(length), _) => (at, from) = (at + length, from + 1),
            (None, Some((back, taken))) if taken < name.len() => {
                star = Some((back, taken + 1));
                (at, from) = (back + 1, taken + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte against the beginning of a pattern; returns how much of the pattern it used.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', wanted, ..] => (*wanted == byte).then_some(2),
        [b'[', rest @ ..] => set(rest, byte),
        [wanted, ..] => (*wanted == byte).then_some(1),
        [] => None,
    }
}

/// Matches a byte against what follows a `[`; an unclosed bracket stands for itself.
fn set(rest: &[u8], byte: u8) -> Option<usize> {
    let is_negated = matches!(rest.first(), Some(b'!' | b'^'));
    let first = usize::from(is_negated);
    // A bracket that comes first is a member of the set.
    let close = rest.iter().skip(first + 1).position(|byte| *byte == b']').map(|at| at + first + 1);
    let Some(close) = close else { return (byte == b'[').then_some(1) };
    let (mut members, mut is_in) = (&rest[first..close], false);
    while let Some((low, more)) = members.split_first() {
        match more {
            [b'-', high, after @ ..] => {
                is_in |= (*low..=*high).contains(&byte);
                members = after;
            }
            _ => {
                is_in |= *low == byte;
                members = more;
            }
        }
    }
    (is_in != is_negated).then_some(close + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c*", "abcd", true),
            ("a*c*", "abd", false),
            ("*.pem", "a.pem", true),
            ("id_?sa", "id_rsa", true),
            ("id_?sa", "id_sa", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
