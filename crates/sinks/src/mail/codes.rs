//! Links and one-time codes in a mail.

use super::html::{LIST_LIMIT, URL_LIMIT, cut};

/// The maximum number of listed codes.
const CODE_LIMIT: usize = 20;

/// How much of a mail is searched for codes, and the maximum length of a link, in bytes.
const TEXT_LIMIT: usize = 32 << 10;
const LINK_LIMIT: usize = 2 * URL_LIMIT;

/// The maximum distance between a code and its keyword, in bytes.
const NEAR: usize = 80;

/// Lists the links in text.
pub(super) fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = next_link(rest) {
        rest = &rest[at..];
        let stops = |c: char| c.is_whitespace() || c.is_control() || "<>\"'`|\\^{}".contains(c);
        let end = rest.find(stops).unwrap_or(rest.len());
        let link = trimmed(cut(&rest[..end], LINK_LIMIT));
        if link.len() > "https://".len() && found.len() < LIST_LIMIT {
            found.push(cut(link, URL_LIMIT).to_owned());
        }
        rest = &rest[end.max(1)..];
    }
    found
}

fn next_link(text: &str) -> Option<usize> {
    let is_link = |rest: &str| rest.starts_with("http://") || rest.starts_with("https://");
    text.match_indices("http").map(|(at, _)| at).find(|at| is_link(&text[*at..]))
}

/// Removes the punctuation of the surrounding sentence from a link.
fn trimmed(mut link: &str) -> &str {
    loop {
        let Some(last) = link.chars().next_back() else { return link };
        let (open, close) = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '*' | '_' => (0, 1),
            ')' => (link.matches('(').count(), link.matches(')').count()),
            ']' => (link.matches('[').count(), link.matches(']').count()),
            _ => return link,
        };
        if open >= close {
            return link;
        }
        link = &link[..link.len() - last.len_utf8()];
    }
}

/// Lists the one-time codes in a mail: 4 to 8 digits near a keyword, or alone on a line of a mail
/// that has one. Years, prices, dates and parts of links do not count.
pub(super) fn codes(subject: &str, text: &str) -> Vec<String> {
    let text = without_links(cut(text, TEXT_LIMIT));
    let whole = format!("{subject}\n\n{text}");
    let lower = whole.to_ascii_lowercase();
    let words = announcements(&lower);
    if words.is_empty() {
        return Vec::new();
    }
    let (mut found, mut others): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (start, end) in runs(&whole) {
        let Some(code) = code_of(&whole, start, end) else { continue };
        let is_announced = is_announced(&lower, &words, start, end);
        let is_found = match is_year(&code) {
            true => is_announced && is_told(&lower, &words, start),
            false => is_announced || is_alone(&whole, start, end),
        };
        match is_found {
            true => found.push(code),
            false if !is_year(&code) => others.push(code),
            false => {}
        }
    }
    // A keyword in the subject applies to the whole mail.
    let is_in_subject = words.iter().any(|(at, _)| *at < subject.len());
    if found.is_empty() && is_in_subject {
        found.extend(others.into_iter().next());
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|code| seen.insert(code.clone()));
    found.truncate(CODE_LIMIT);
    found
}

fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = next_link(rest) {
        out.push_str(&rest[..at]);
        out.push(' ');
        let link = &rest[at..];
        rest = &link[link.find(char::is_whitespace).unwrap_or(link.len())..];
    }
    out.push_str(rest);
    out
}

/// Returns the positions of keywords that announce a code.
fn announcements(lower: &str) -> Vec<(usize, usize)> {
    const WORDS: [&str; 10] = [
        "code",
        "pin",
        "otp",
        "passcode",
        "password",
        "verification",
        "2fa",
        "token",
        "one-time",
        "authenticator",
    ];
    const OTHER_CODES: [&str; 14] = [
        "zip",
        "postal",
        "post",
        "promo",
        "promotion",
        "coupon",
        "discount",
        "voucher",
        "country",
        "area",
        "error",
        "status",
        "source",
        "sort",
    ];
    let mut found = Vec::new();
    let mut before = "";
    for (at, word) in words(lower) {
        let is_other = word.starts_with("code") && OTHER_CODES.contains(&before);
        if !is_other
            && WORDS.iter().any(|known| word == *known || word.strip_suffix('s') == Some(known))
        {
            found.push((at, at + word.len()));
        }
        before = word;
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split(|c: char| !(c.is_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - start, word))
}

/// Returns runs of digits, including two groups as in `123 456` and `123-456`.
fn runs(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = digits_end(bytes, at);
        let pair = (end - at == 3 || end - at == 4)
            && bytes.get(end).is_some_and(|byte| b" -".contains(byte))
            && digits_end(bytes, end + 1) == end + 1 + (end - at);
        let end = if pair { end + 1 + (end - at) } else { end };
        found.push((at, end));
        at = end;
    }
    found
}

fn digits_end(bytes: &[u8], from: usize) -> usize {
    let digits = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    from + digits
}

/// Returns a run as a code, unless its surroundings make it something else.
fn code_of(text: &str, start: usize, end: usize) -> Option<String> {
    let code: String = text[start..end].chars().filter(char::is_ascii_digit).collect();
    let before = text[..start].chars().next_back();
    let before_that = text[..start].chars().rev().nth(1);
    let mut after = text[end..].chars();
    let (after, after_that) = (after.next(), after.next());
    let is_joined =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "$€£¥₹#@/\\_+%&=".contains(c));
    let is_number = |c: Option<char>, next: Option<char>| {
        c.is_some_and(|c| ".,:-–".contains(c)) && next.is_some_and(|c| c.is_ascii_digit())
    };
    // `G-123456` and `FB-12345` are codes of some vendors.
    let has_prefix = before == Some('-') && before_that.is_some_and(|c| c.is_ascii_uppercase());
    let is_price = text[end..].trim_start().starts_with(['€', '$', '£', '%'])
        || text[..start].trim_end().ends_with(['€', '$', '£']);
    let fits = (4..=8).contains(&code.len())
        && !is_joined(before)
        && !is_joined(after)
        && !is_number(before, before_that)
        && !is_number(after, after_that)
        && (before != Some('-') || has_prefix)
        && !is_price;
    fits.then_some(code)
}

/// Returns whether a keyword is near, without an empty line in between.
fn is_announced(lower: &str, words: &[(usize, usize)], start: usize, end: usize) -> bool {
    words.iter().any(|(word, word_end)| {
        let between = match word_end <= &start {
            true => lower.get(*word_end..start),
            false => lower.get(end..*word),
        };
        between.is_some_and(|between| between.len() <= NEAR && !between.contains("\n\n"))
    })
}

/// Returns whether a code directly follows its keyword, as in `code: 2024` or `PIN is 1999`.
fn is_told(lower: &str, words: &[(usize, usize)], start: usize) -> bool {
    words.iter().any(|(_, word_end)| {
        lower.get(*word_end..start).is_some_and(|between| {
            matches!(between.trim().trim_matches([':', '-', '"']).trim(), "" | "is")
        })
    })
}

fn is_alone(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].rsplit('\n').next().unwrap_or_default();
    let after = text[end..].split('\n').next().unwrap_or_default();
    let is_decoration =
        |part: &str| part.chars().all(|c| c.is_whitespace() || "*_-–—:•\"'".contains(c));
    is_decoration(before) && is_decoration(after)
}

fn is_year(code: &str) -> bool {
    code.len() == 4 && (code.starts_with("19") || code.starts_with("20"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_end_where_the_sentence_goes_on() {
        for (text, expected) in [
            ("see https://x.example/a?b=c&d=e#f.", vec!["https://x.example/a?b=c&d=e#f"]),
            (
                "(http://x.example/a) <https://y.example>",
                vec!["http://x.example/a", "https://y.example"],
            ),
            ("https://en.example/wiki/A_(b)", vec!["https://en.example/wiki/A_(b)"]),
            ("https://x.example/ä, und", vec!["https://x.example/ä"]),
            ("no: https:// ftp://x http", vec![]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn codes_are_found_and_other_numbers_are_not() {
        for (subject, text, expected) in [
            ("Your code", "Hello\n\n314159\n\nIt is valid for 10 minutes.", vec!["314159"]),
            ("", "Your verification code is 4821.", vec!["4821"]),
            ("", "Use 123 456 as your one-time code", vec!["123456"]),
            ("", "G-482913 is your Google verification code.", vec!["482913"]),
            (
                "482913 is your login code",
                "Copyright 2026 Acme, 94107 San Francisco",
                vec!["482913"],
            ),
            ("", "PIN: 2024", vec!["2024"]),
            ("", "Your code expires on 2026-11-17 at 12:30:45. © 2026", vec![]),
            ("Receipt", "Order 123456, total $1234.00, paid 2026", vec![]),
            ("", "Promo code SAVE20, zip code 94107", vec![]),
            ("", "code https://x.example/123456 and 1234.56 or 1,2345 or 12345678901", vec![]),
            ("", "OTP\n*881204*\n", vec!["881204"]),
            ("", "your code: 1234, again 1234", vec!["1234"]),
        ] {
            assert_eq!(codes(subject, text), expected, "{subject} {text}");
        }
    }

    #[test]
    fn long_texts_are_searched_in_time() {
        for text in ["code 1 ".repeat(20_000), "1 ".repeat(100_000), "http://".repeat(50_000)] {
            codes("code", &text);
            links(&text);
        }
    }
}
