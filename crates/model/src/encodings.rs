//! The encodings in which a value may travel. Pure.
//!
//! Responses of hosts and records of runs are searched for the same list, so neither search misses what the other
//! finds. All copies of a value are wiped.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use zeroize::Zeroizing;

/// Bytes that may contain a secret.
pub type Secret = Zeroizing<Vec<u8>>;

/// Which encodings would change a value; the others are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Changing {
    /// Whether web encoders, which differ in what they escape, change it at all.
    web: bool,
    /// Whether it is not ASCII.
    unicode: bool,
}

impl Changing {
    /// Checks what would change a value.
    pub fn of(value: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        Self { web: !value.bytes().all(is_plain), unicode: !value.is_ascii() }
    }
}

/// Returns the encodings of a text, always in the same order; some may be equal.
///
/// The encodings of a placeholder line up with those of its value if both calls get the `changing` of the value.
pub fn all(value: &str, changing: Changing) -> Vec<Secret> {
    let whole = Secret::new(value.as_bytes().to_vec());
    let mut all = vec![whole, percent(value), json(value), slashed(value)];
    // Names of headers and hosts are often written in one case, and echoed that way.
    all.extend([lower(value), upper(value)]);
    all.extend(html(value));
    for upper in [false, true] {
        all.extend([hexadecimal(value, upper), unicode_json(value, upper)]);
        all.extend([json_of_web(value, upper), percent_all(value, upper)]);
    }
    all.push(json_of_gson(value));
    // Some programs write the digits of `%2f` in lower case.
    all.push(percent_small(value));
    // A URL in the query of another, and JSON in a string of JSON.
    for inner in [percent(value), percent_small(value), json(value), slashed(value)] {
        let inner = Zeroizing::new(String::from_utf8_lossy(&inner).into_owned());
        all.extend([percent(&inner), json(&inner), slashed(&inner)]);
    }
    if changing.web {
        all.extend(percent_ways(value));
    }
    if changing.unicode {
        // Python and .NET write JSON in ASCII; PHP escapes slashes as well.
        for upper in [false, true] {
            let of_json = [json(value), slashed(value), json_of_web(value, upper)];
            all.extend(of_json.iter().map(|json| escaped_to_ascii(json, upper)));
        }
    }
    for offset in 0..3 {
        let [plain, url_safe] =
            [false, true].map(|url_safe| base64_within(value, offset, url_safe));
        // `+` and `/` may be escaped in turn.
        all.extend(base64_escaped(&plain));
        all.extend([plain, url_safe]);
    }
    all
}

/// Percent-encodes a text for a query or a form: everything except the unreserved characters of RFC 3986.
pub fn percent(text: &str) -> Secret {
    percent_but("-_.~", false, true, text)
}

/// Escapes a text for a JSON string.
pub fn json(text: &str) -> Secret {
    let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Zeroizing::new(inner.unwrap_or_default().as_bytes().to_vec())
}

/// Escapes a text for a JSON string, with slashes as `\/`, which is optional.
fn slashed(text: &str) -> Secret {
    each(text, |c, all| match c {
        '/' => all.push_str("\\/"),
        c => push_json(c, "\\\"", all),
    })
}

/// Percent-encodes a text like [`percent`], with lower-case digits.
fn percent_small(text: &str) -> Secret {
    percent_but("-_.~", false, false, text)
}

/// The characters besides letters and digits that encoders leave as they are, and whether they write a space as a plus:
/// paths of Python and PHP; `encodeURIComponent`; `encodeURI`; `escape`; path segments (RFC 3986, and Go); queries;
/// forms (browsers and Java, PHP, Go and Python, .NET).
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

/// Percent-encodes a text as common encoders do, with digits in either case.
fn percent_ways(text: &str) -> impl Iterator<Item = Secret> {
    let ways = WAYS.into_iter();
    ways.flat_map(move |(left, plus)| [false, true].map(|up| percent_but(left, plus, up, text)))
}

/// Percent-encodes everything except letters, digits and the characters of `left`.
fn percent_but(left: &str, plus: bool, upper: bool, text: &str) -> Secret {
    each(text, |c, all| match c {
        ' ' if plus => all.push('+'),
        c if c.is_ascii_alphanumeric() || left.contains(c) => all.push(c),
        c => percent_one(c, upper, all),
    })
}

fn percent_one(c: char, upper: bool, all: &mut String) {
    bytes_of(c, all, |byte, all| {
        all.push('%');
        digits(byte.into(), 2, upper, all);
    });
}

/// Percent-encodes every byte of a text, including those that do not require it.
fn percent_all(text: &str, upper: bool) -> Secret {
    each(text, |c, all| percent_one(c, upper, all))
}

fn lower(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_ascii_lowercase())
}

fn upper(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_ascii_uppercase())
}

/// Encodes a text in hexadecimal, in memory that is wiped: [`crate::id::hex`] would leave a copy of the secret.
fn hexadecimal(text: &str, upper: bool) -> Secret {
    each(text, |c, all| bytes_of(c, all, |byte, all| digits(byte.into(), 2, upper, all)))
}

/// Writes every character of a text as a JSON `\u` escape.
fn unicode_json(text: &str, upper: bool) -> Secret {
    each(text, |c, all| escape(c, upper, all))
}

/// Escapes the non-ASCII characters of JSON.
fn escaped_to_ascii(json: &[u8], upper: bool) -> Secret {
    let json = Zeroizing::new(String::from_utf8_lossy(json).into_owned());
    each(&json, |c, all| match c.is_ascii() {
        true => all.push(c),
        false => escape(c, upper, all),
    })
}

/// Escapes a text as JSON for use in HTML, where .NET and Go escape more characters.
fn json_of_web(text: &str, upper: bool) -> Secret {
    let (delicate, quote) = if upper { ("&'<>+`", "\\u0022") } else { ("&<>", "\\\"") };
    escaped_json(text, delicate, quote, upper)
}

/// Escapes a text as Gson does, which also escapes an equals sign.
fn json_of_gson(text: &str) -> Secret {
    escaped_json(text, "&'<>=", "\\\"", false)
}

/// Escapes a text as JSON, and the characters of `delicate` too.
fn escaped_json(text: &str, delicate: &str, quote: &str, upper: bool) -> Secret {
    each(text, |c, all| match delicate.contains(c) {
        true => escape(c, upper, all),
        false => push_json(c, quote, all),
    })
}

/// Appends a character of a JSON string.
fn push_json(c: char, quote: &str, all: &mut String) {
    if c == '"' {
        return all.push_str(quote);
    }
    let one = json(c.encode_utf8(&mut [0; 4]));
    all.push_str(&String::from_utf8_lossy(&one));
}

/// Escapes a text as HTML templates do: Python, Go, ASP.NET, PHP, and those that escape slashes.
fn html(text: &str) -> [Secret; 5] {
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

/// Returns the part of a text's base64 that does not depend on adjacent bytes, for a text that starts `offset` bytes
/// into a group of three.
fn base64_within(text: &str, offset: usize, url_safe: bool) -> Secret {
    let mut bytes = Zeroizing::new(Vec::with_capacity(offset + text.len()));
    bytes.resize(offset, 0);
    bytes.extend_from_slice(text.as_bytes());
    let engine = if url_safe { URL_SAFE_NO_PAD } else { STANDARD_NO_PAD };
    let whole = Zeroizing::new(engine.encode(&*bytes));
    let (from, to) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    Zeroizing::new(whole.as_bytes().get(from..to).unwrap_or_default().to_vec())
}

/// Escapes the special characters of base64: for URLs, with digits in either case, and for JSON.
fn base64_escaped(text: &[u8]) -> [Secret; 3] {
    let text = Zeroizing::new(String::from_utf8_lossy(text).into_owned());
    [("%2B", "%2F"), ("%2b", "%2f"), ("+", "\\/")].map(|(plus, slash)| {
        each(&text, |c, all| match c {
            '+' => all.push_str(plus),
            '/' => all.push_str(slash),
            c => all.push(c),
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

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_encoding_is_as_its_programs_write_it() {
        assert_eq!(&**percent("a b/c+d"), b"a%20b%2Fc%2Bd");
        assert_eq!(&**json("a\"b\\c\n"), br#"a\"b\\c\n"#);
        assert_eq!(&**slashed("a\"/\\\n"), br#"a\"\/\\\n"#);
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
        let value = "a+/\"";
        let written = all(value, Changing::of(value));
        for twice in ["a%252B%252F%2522", "a%252b%252f%2522", r#"a+/\\\""#, r#"a+\\\/\\\""#] {
            assert!(written.iter().any(|known| &***known == twice.as_bytes()), "{twice}");
        }
        assert_eq!(&**base64_escaped(b"a+/=")[1], b"a%2b%2f=");
        assert_eq!(&**base64_escaped(b"a+/=")[2], br"a+\/=");
    }

    #[test]
    fn every_encoding_is_text() {
        for value in ["sk_live_0123456789", "p\u{e4}/ss \"+\u{20ac}-\u{1f600}\\&='<"] {
            for written in all(value, Changing::of(value)) {
                assert!(std::str::from_utf8(&written).is_ok_and(|text| !text.is_empty()));
            }
        }
    }

    proptest! {
        #[test]
        fn the_inner_base_64_is_in_every_whole_one(
            before in "[ -~]{0,7}", text in "[ -~]{8,40}", after in "[ -~]{0,7}"
        ) {
            let whole = STANDARD.encode(format!("{before}{text}{after}"));
            let inner = base64_within(&text, before.len() % 3, false);
            prop_assert!(whole.contains(std::str::from_utf8(&inner).unwrap()));
        }

        #[test]
        fn what_stands_for_a_value_has_as_many_encodings(value in "\\PC{1,20}", other in "\\PC{1,20}") {
            let changing = Changing::of(&value);
            prop_assert_eq!(all(&value, changing).len(), all(&other, changing).len());
        }
    }
}
