//! Shell syntax in texts: escapes, quotes, braces.

/// Marks an unknown part of a word.
pub(super) const UNKNOWN: char = '\u{E0FF}';

/// Characters that are special unless quoted.
const SPECIAL: &str = "{},*?[]~ \t\n";

/// Hides quoted characters, so that they are not expanded.
pub(super) fn quoted(text: &str) -> String {
    text.chars().map(|c| if SPECIAL.contains(c) { hidden(c) } else { c }).collect()
}

fn hidden(c: char) -> char {
    char::from_u32(0xE000 + u32::from(c)).unwrap_or(c)
}

/// Restores hidden characters.
pub(super) fn plain(text: &str) -> String {
    let shown = |c: char| match u32::from(c) {
        code @ 0xE000..=0xE07F => char::from_u32(code - 0xE000).unwrap_or(c),
        _ => c,
    };
    text.chars().map(shown).collect()
}

/// Parses an unquoted word: a backslash quotes the next character.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(next) if SPECIAL.contains(next) => out.push(hidden(next)),
                Some(next) => out.push(next),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

/// Parses a text in double quotes.
pub(super) fn in_double_quotes(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(next @ ('$' | '`' | '"' | '\\')) => out.push(next),
                Some(next) => out.extend(['\\', next]),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    quoted(&out)
}

/// Parses the text between `$'` and `'`, and what `printf` and `echo -e` print.
pub(crate) fn ansi(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let (digits, radix, skip) = match bytes[at + 1] {
            b'x' => (2, 16, 2),
            b'u' => (4, 16, 2),
            b'U' => (8, 16, 2),
            b'0' => (4, 8, 1),
            b'1'..=b'7' => (3, 8, 1),
            other => {
                let plain = match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'e' | b'E' => 27,
                    b'f' => 12,
                    b'v' => 11,
                    other => other,
                };
                out.push(plain);
                at += 2;
                continue;
            }
        };
        let from = at + skip;
        let rest = bytes[from..].iter().take(digits);
        let length = rest.take_while(|byte| (**byte as char).is_digit(radix)).count();
        let value = text
            .get(from..from + length)
            .and_then(|digits| u32::from_str_radix(digits, radix).ok());
        match value {
            Some(value) if bytes[at + 1] == b'u' || bytes[at + 1] == b'U' => {
                let c = char::from_u32(value).unwrap_or('?');
                out.extend(c.to_string().bytes());
            }
            Some(value) => out.push(u8::try_from(value & 0xff).unwrap_or_default()),
            None => out.extend(&bytes[at..from]),
        }
        at = from + length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The maximum number of words from one word with braces.
const WORDS: usize = 64;

/// Expands `a{b,c}d`; hidden braces are literal. `None` if there would be too many words.
pub(super) fn braces(text: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        if open.len() + done.len() > WORDS {
            return None;
        }
        match group(&text) {
            None => done.push(text),
            Some((before, parts, after)) => {
                let each = parts.iter().rev().map(|part| format!("{before}{part}{after}"));
                open.extend(each);
            }
        }
    }
    Some(done)
}

/// Finds the first group of braces with a comma: the text before it, its parts, and the text after it.
fn group(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    for (from, _) in text.match_indices('{') {
        if text[..from].ends_with('$') {
            continue;
        }
        let (mut depth, mut parts, mut begin) = (0_usize, Vec::new(), from + 1);
        for (at, c) in text[from..].char_indices().map(|(at, c)| (from + at, c)) {
            match c {
                '{' => depth += 1,
                ',' if depth == 1 => {
                    parts.push(&text[begin..at]);
                    begin = at + 1;
                }
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        if parts.is_empty() {
                            break;
                        }
                        parts.push(&text[begin..at]);
                        return Some((&text[..from], parts, &text[at + 1..]));
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand() {
        for (text, want) in [
            ("a{b,c}d", vec!["abd", "acd"]),
            ("/{etc,usr}/{a,b}", vec!["/etc/a", "/etc/b", "/usr/a", "/usr/b"]),
            ("{a,{b,c}}", vec!["a", "b", "c"]),
            ("{a}", vec!["{a}"]),
            ("${x,y}", vec!["${x,y}"]),
            ("{", vec!["{"]),
            ("}{,", vec!["}{,"]),
        ] {
            assert_eq!(braces(text).unwrap(), want, "{text}");
        }
        assert_eq!(braces(&"{a,b}".repeat(20)), None);
    }

    #[test]
    fn escapes_are_read() {
        for (text, want) in [
            (r"\x2fetc", "/etc"),
            (r"\057etc", "/etc"),
            (r"\u002fetc", "/etc"),
            (r"a\nb", "a\nb"),
            (r"\", "\\"),
            (r"\xzz", "\\xzz"),
        ] {
            assert_eq!(ansi(text), want, "{text}");
        }
        assert_eq!(plain(&unescaped(r"a\ b\\c")), r"a b\c");
    }
}
