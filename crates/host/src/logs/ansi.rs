//! Removes terminal escape sequences from text.

use std::borrow::Cow;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// Returns the bytes without colours, cursor movements and titles. Keeps line ends.
pub fn strip(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(ESCAPE, bytes) else { return Cow::Borrowed(bytes) };
    let mut plain = bytes[..first].to_vec();
    let mut at = first;
    while at < bytes.len() {
        at += sequence(&bytes[at..]);
        let rest = &bytes[at..];
        let end = memchr::memchr(ESCAPE, rest).unwrap_or(rest.len());
        plain.extend_from_slice(&rest[..end]);
        at += end;
    }
    Cow::Owned(plain)
}

/// Returns the length of the leading sequence, which never extends beyond a line.
fn sequence(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        // CSI: parameters and intermediates, then one final byte (ECMA-48 5.4).
        Some(b'[') => {
            let inner = bytes[2..].iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
            let ended = bytes.get(2 + inner).is_some_and(|byte| (0x40..0x7f).contains(byte));
            2 + inner + usize::from(ended)
        }
        // OSC and other strings end with BEL or ESC \.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => string(bytes),
        Some(b' '..=b'/') => {
            2 + usize::from(bytes.get(2).is_some_and(|byte| (0x30..0x7f).contains(byte)))
        }
        Some(b'0'..=b'~') => 2,
        _ => 1,
    }
}

fn string(bytes: &[u8]) -> usize {
    for (at, byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            &BELL => return at + 1,
            &ESCAPE => return if bytes.get(at + 1) == Some(&b'\\') { at + 2 } else { at },
            b'\n' => return at,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&strip(text.as_bytes())), expected);
    }

    #[test]
    fn colours_titles_and_movements_go_and_text_stays() {
        check("plain", "plain");
        check("\x1b[1;31mred\x1b[0m!", "red!");
        check("\x1b]0;title\x07x\x1b]8;;u\x1b\\y", "xy");
        check("a\x1b[2K\x1b[1Gb\x1b(Bc\x1b=d", "abcd");
        check("cut\x1b[", "cut");
        check("\x1b", "");
        check("\x1b]never ends\nnext", "\nnext");
        check("\x1b[31\nx", "\nx");
    }

    proptest::proptest! {
        #[test]
        fn lines_are_never_lost(text in "[a\\x1b\\[\\]0-9;m\\n\\x07\\\\P(]{0,60}") {
            let plain = strip(text.as_bytes()).into_owned();
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
            proptest::prop_assert_eq!(lines(&plain), lines(text.as_bytes()));
            proptest::prop_assert!(!plain.contains(&ESCAPE));
        }
    }
}
