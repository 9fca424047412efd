//! Encodings of a text that may occur in a request or a response. Pure.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use zeroize::Zeroizing;

/// The characters that RFC 3986 does not encode.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Bytes that may contain a secret.
pub(crate) type Secret = Zeroizing<Vec<u8>>;

/// Percent-encodes a text for a query or a form.
pub(crate) fn percent(text: &str) -> Secret {
    Zeroizing::new(percent_encode(text.as_bytes(), RESERVED).to_string().into_bytes())
}

/// Escapes a text for a JSON string.
pub(crate) fn json(text: &str) -> Secret {
    let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Zeroizing::new(inner.unwrap_or_default().as_bytes().to_vec())
}

/// Percent-encodes a text like [`percent`], with lower-case digits.
pub(crate) fn percent_small(text: &str) -> Secret {
    each(text, |c, all| match c {
        c if c.is_ascii_alphanumeric() || "-_.~".contains(c) => all.push(c),
        c => bytes_of(c, all, |byte, all| {
            all.push('%');
            digits(byte.into(), 2, false, all);
        }),
    })
}

/// The characters beside letters and digits that encoders leave as they are, and whether they write
/// a space as a plus: paths of Python and PHP; `encodeURIComponent`; `encodeURI`; `escape`; segments
/// of paths (RFC 3986, and Go); queries; forms (browsers and Java, PHP, Go and Python, .NET).
const WAYS: [(&str, bool); 11] = [
    ("-_.~/", false),
    ("-_.~!*'()", false),
    ("-_.~!*'();/?:@&=+$,#", false),
    ("-_.*@+/", false),
    ("-_.~!$&'()*+,;=:@", false),
    ("-_.~$&+=:@", false),
    ("-_.~!$&'()*+,;=:@/?", false),
    ("-_.*", true),
    ("-_.", true),
    ("-_.~", true),
    ("-_.!*()", true),
];

/// Percent-encodes a text in the ways of common encoders, with digits in either case.
pub(crate) fn percent_ways(text: &str) -> impl Iterator<Item = Secret> {
    WAYS.into_iter().flat_map(move |(left, plus)| {
        [false, true].map(|upper| {
            each(text, |c, all| match c {
                ' ' if plus => all.push('+'),
                c if c.is_ascii_alphanumeric() || left.contains(c) => all.push(c),
                c => bytes_of(c, all, |byte, all| {
                    all.push('%');
                    digits(byte.into(), 2, upper, all);
                }),
            })
        })
    })
}

/// Writes a text in lower case.
pub(crate) fn lower(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_ascii_lowercase())
}

/// Writes a text in upper case.
pub(crate) fn upper(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_ascii_uppercase())
}

/// Escapes what is special in base64: for URLs, with digits in either case, and in JSON.
pub(crate) fn base64_escaped(text: &[u8]) -> [Secret; 3] {
    let with = |plus: &[u8], slash: &[u8]| {
        let plain = Zeroizing::new(text.to_vec());
        let plain = replaced(&plain, b"+", plus).unwrap_or(plain);
        replaced(&plain, b"/", slash).unwrap_or(plain)
    };
    [with(b"%2B", b"%2F"), with(b"%2b", b"%2f"), with(b"+", b"\\/")]
}

/// Percent-encodes every byte of a text, even those that do not require it.
pub(crate) fn percent_all(text: &str, upper: bool) -> Secret {
    each(text, |c, all| {
        bytes_of(c, all, |byte, all| {
            all.push('%');
            digits(byte.into(), 2, upper, all);
        });
    })
}

/// Encodes a text in hexadecimal, in memory that is wiped: [`hothouse_model::id::hex`] would leave
/// the secret behind.
pub(crate) fn hexadecimal(text: &str, upper: bool) -> Secret {
    each(text, |c, all| bytes_of(c, all, |byte, all| digits(byte.into(), 2, upper, all)))
}

/// Writes every character of a text as a JSON `\u` escape.
pub(crate) fn unicode_json(text: &str, upper: bool) -> Secret {
    each(text, |c, all| escape(c, upper, all))
}

/// Escapes what is not ASCII in JSON.
pub(crate) fn escaped_to_ascii(json: &[u8], upper: bool) -> Secret {
    let json = Zeroizing::new(String::from_utf8_lossy(json).into_owned());
    each(&json, |c, all| match c.is_ascii() {
        true => all.push(c),
        false => escape(c, upper, all),
    })
}

/// Escapes a text as JSON for use in HTML, where .NET and Go escape more characters.
pub(crate) fn json_of_web(text: &str, upper: bool) -> Secret {
    let (delicate, quote) = if upper { ("&'<>+`", "\\u0022") } else { ("&<>", "\\\"") };
    escaped_json(text, delicate, quote, upper)
}

/// Escapes a text as Gson does, which also escapes an equals sign.
pub(crate) fn json_of_gson(text: &str) -> Secret {
    escaped_json(text, "&'<>=", "\\\"", false)
}

/// Escapes a text as JSON, and more characters of it.
fn escaped_json(text: &str, delicate: &str, quote: &str, upper: bool) -> Secret {
    // A quote in a JSON string is always preceded by a backslash.
    let plain = json(text);
    let plain = replaced(&plain, b"\\\"", quote.as_bytes()).unwrap_or(plain);
    each(&String::from_utf8_lossy(&plain), |c, all| match delicate.contains(c) {
        true => escape(c, upper, all),
        false => all.push(c),
    })
}

/// Escapes a text as HTML templates do: Python, Go, ASP.NET, PHP, and those that escape slashes.
pub(crate) fn html(text: &str) -> [Secret; 5] {
    let names = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;")];
    let more: [&[(char, &str)]; 5] = [
        &[('"', "&quot;"), ('\'', "&#x27;")],
        &[('"', "&#34;"), ('\'', "&#39;"), ('+', "&#43;")],
        &[('"', "&quot;"), ('\'', "&#x27;"), ('+', "&#x2B;")],
        &[('"', "&quot;"), ('\'', "&#039;")],
        &[('"', "&quot;"), ('\'', "&#39;"), ('/', "&#x2F;"), ('=', "&#x3D;"), ('`', "&#x60;")],
    ];
    more.map(|more| {
        each(text, |c, all| match names.iter().chain(more).find(|(of, _)| *of == c) {
            Some((_, name)) => all.push_str(name),
            None => all.push(c),
        })
    })
}

/// Converts a text character by character.
fn each(text: &str, mut write: impl FnMut(char, &mut String)) -> Secret {
    // Large enough for the longest encoding, so that growing leaves no copy behind.
    let mut all = String::with_capacity(text.len() * 6);
    text.chars().for_each(|c| write(c, &mut all));
    Zeroizing::new(all.into_bytes())
}

fn bytes_of(c: char, all: &mut String, mut write: impl FnMut(u8, &mut String)) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        write(byte, all);
    }
}

fn escape(c: char, upper: bool, all: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        all.push_str("\\u");
        digits(*unit, 4, upper, all);
    }
}

/// Appends a number in hexadecimal digits.
fn digits(number: u16, width: u32, upper: bool, all: &mut String) {
    for place in (0..width).rev() {
        let digit = char::from_digit(u32::from(number) >> (4 * place) & 15, 16).unwrap_or('0');
        all.push(if upper { digit.to_ascii_uppercase() } else { digit });
    }
}

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

/// Returns the part of a text's base64 that does not depend on its neighbours, for a text that
/// starts `offset` bytes into a group of three.
pub(crate) fn base64_within(text: &str, offset: usize, url_safe: bool) -> Secret {
    let mut bytes = Zeroizing::new(vec![0; offset]);
    bytes.extend_from_slice(text.as_bytes());
    let engine = if url_safe { URL_SAFE_NO_PAD } else { STANDARD_NO_PAD };
    let whole = Zeroizing::new(engine.encode(&*bytes));
    let (from, to) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    Zeroizing::new(whole.as_bytes().get(from..to).unwrap_or_default().to_vec())
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

/// Whether a text contains another.
pub(crate) fn holds(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && memmem::find(text, needle).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_has_its_forms() {
        assert_eq!(&**percent("a b/c+d"), b"a%20b%2Fc%2Bd");
        assert_eq!(&**json("a\"b\\c\n"), br#"a\"b\\c\n"#);
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
        assert_eq!(&**percent_small("a/b"), b"a%2fb");
        assert_eq!(&**percent_all("a/", true), b"%61%2F");
        assert_eq!(&**hexadecimal("k\u{e9}", false), b"6bc3a9");
        assert_eq!(&**unicode_json("+", true), br"\u002B");
        assert_eq!(&**json_of_web("a+<\\", true), br"a\u002B\u003C\\");
        assert_eq!(&**json_of_web("a+<\"", false), br#"a+\u003c\""#);
        assert_eq!(&**json_of_web("\\\"+", true), br"\\\u0022\u002B");
        assert_eq!(&**html("a'/")[4], b"a&#39;&#x2F;");
        assert_eq!(&**html("a+")[2], b"a&#x2B;");
        assert_eq!(&**json_of_gson("a+=="), br"a+\u003d\u003d");
        let ways: Vec<_> = percent_ways("a /+=~").map(|way| way.to_vec()).collect();
        for way in ["a%20/%2B%3D~", "a%20%2f+=~", "a+%2F%2B%3D%7E", "a%20/+=~"] {
            assert!(ways.iter().any(|known| known == way.as_bytes()), "{way}");
        }
        assert_eq!(&**base64_escaped(b"a+/=")[1], b"a%2b%2f=");
        assert_eq!(&**base64_escaped(b"a+/=")[2], br"a+\/=");
    }

    proptest! {
        #[test]
        fn the_inner_base_64_is_in_every_whole_one(
            before in "[ -~]{0,7}", text in "[ -~]{8,40}", after in "[ -~]{0,7}"
        ) {
            let whole = base64(format!("{before}{text}{after}").as_bytes());
            let inner = base64_within(&text, before.len() % 3, false);
            prop_assert!(holds(&whole, &inner));
        }

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
