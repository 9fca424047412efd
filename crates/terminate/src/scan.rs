//! Looking through answers: a value that a host sends back becomes its placeholder again. Pure.
//!
//! Nothing is held back but what could be the beginning of a value, so that a stream of events goes on
//! as it comes.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use memchr::memmem;

use crate::{
    secrets::Known,
    text::{self, Secret},
};

/// Shorter forms could be anything.
const LEAST: usize = 8;

/// What must not come back, and what comes instead.
struct Pair {
    value: Secret,
    instead: Vec<u8>,
}

/// Everything that must not come back.
pub(crate) struct Echoes(Vec<Pair>);

impl Echoes {
    /// Works out the forms in which a host could send values back; nothing if there is no value.
    pub(crate) fn of(secrets: &[Known], sent: Vec<(Secret, Vec<u8>)>) -> Option<Self> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut add = |value: Secret, instead: Vec<u8>| {
            let known = pairs.iter().any(|pair| pair.value == value);
            if value.len() >= LEAST && *value != instead && !known {
                pairs.push(Pair { value, instead });
            }
        };
        for secret in secrets {
            let (value, placeholder) = (secret.value.expose(), secret.placeholder.as_str());
            for (value, instead) in writings(value).into_iter().zip(writings(placeholder)) {
                add(value, instead.to_vec());
            }
        }
        for (value, instead) in sent {
            add(value, instead);
        }
        (!pairs.is_empty()).then_some(Self(pairs))
    }

    /// Returns whether what comes instead is as long as what it replaces.
    pub(crate) fn keep_length(&self) -> bool {
        self.0.iter().all(|pair| pair.value.len() == pair.instead.len())
    }

    /// Replaces everything in a whole text.
    pub(crate) fn replace<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut all = Vec::with_capacity(text.len());
        let mut from = 0;
        for (at, pair) in found {
            all.extend_from_slice(&text[from..at]);
            all.extend_from_slice(&pair.instead);
            from = at + pair.value.len();
        }
        all.extend_from_slice(&text[from..]);
        Cow::Owned(all)
    }

    /// Returns whether the name of a header, which has no capitals, holds a value.
    pub(crate) fn in_name(&self, name: &str) -> bool {
        let within = |value: &[u8]| {
            name.as_bytes().windows(value.len()).any(|part| part.eq_ignore_ascii_case(value))
        };
        // Most names are too short to hold one.
        self.0.iter().any(|pair| pair.value.len() <= name.len() && within(&pair.value))
    }

    /// Finds what is to be replaced, in order and without overlaps; of two at one place the longer one.
    fn find(&self, text: &[u8]) -> Vec<(usize, &Pair)> {
        let mut found: Vec<(usize, &Pair)> = self
            .0
            .iter()
            .flat_map(|pair| memmem::find_iter(text, &**pair.value).map(move |at| (at, pair)))
            .collect();
        found.sort_by_key(|(at, pair)| (*at, usize::MAX - pair.value.len()));
        let mut end = 0;
        found.retain(|(at, pair)| {
            let apart = *at >= end;
            if apart {
                end = at + pair.value.len();
            }
            apart
        });
        found
    }

    /// Returns how much of the end of a text could be the beginning of a value.
    fn open_end(&self, text: &[u8]) -> usize {
        self.0.iter().map(|pair| overlap(text, &pair.value)).max().unwrap_or(0)
    }
}

/// Writes a text in every way in which a host is likely to send it back, always in the same order.
fn writings(value: &str) -> Vec<Secret> {
    let whole = Secret::new(value.as_bytes().to_vec());
    let mut all = vec![whole, text::percent(value), text::json(value), slashed(value)];
    all.extend(text::html(value));
    for upper in [false, true] {
        all.extend([text::hexadecimal(value, upper), text::unicode_json(value, upper)]);
        all.extend([text::json_of_web(value, upper), text::percent_all(value, upper)]);
    }
    // Some programs write the digits of `%2f` small.
    all.push(text::percent_small(value));
    for offset in 0..3 {
        all.extend([false, true].map(|url_safe| text::base64_within(value, offset, url_safe)));
    }
    all
}

/// JSON may write a slash with a backslash before it.
fn slashed(text: &str) -> Secret {
    let json = text::json(text);
    text::replaced(&json, b"/", b"\\/").unwrap_or(json)
}

/// Returns the length of the longest end of `text` that begins `value` without being all of it.
fn overlap(text: &[u8], value: &[u8]) -> usize {
    let most = text.len().min(value.len().saturating_sub(1));
    let tail = &text[text.len() - most..];
    let Some(first) = value.first() else { return 0 };
    let begins = memchr::memchr_iter(*first, tail);
    begins.map(|at| &tail[at..]).find(|end| value.starts_with(end)).map_or(0, <[u8]>::len)
}

/// Looks through a stream.
pub(crate) struct Scanner<'a> {
    echoes: &'a Echoes,
    held: &'a mut BytesMut,
}

impl<'a> Scanner<'a> {
    /// Goes on with what was held back so far.
    pub(crate) fn new(echoes: &'a Echoes, held: &'a mut BytesMut) -> Self {
        Self { echoes, held }
    }

    /// Takes a piece and returns what can go on.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        let whole = match self.held.is_empty() {
            true => piece,
            false => {
                self.held.extend_from_slice(&piece);
                self.held.split().freeze()
            }
        };
        let found = self.echoes.find(&whole);
        let done = found.last().map_or(0, |(at, pair)| at + pair.value.len());
        let open = self.echoes.open_end(&whole[done..]);
        let ready = whole.len() - open;
        self.held.extend_from_slice(&whole[ready..]);
        match found.is_empty() {
            true => whole.slice(..ready),
            false => self.echoes.replace(&whole[..ready]).into_owned().into(),
        }
    }

    /// Returns what was held back, which turned out to be no value.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.held.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::{config::SecretForm, secret::SecretValue};
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "ab/abab+12ab";
    const PLACEHOLDER: &str = "PLACEHOLDER1";

    fn echoes() -> Echoes {
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: PLACEHOLDER.into(),
            value: SecretValue::new(VALUE.into()).unwrap(),
        };
        Echoes::of(&[secret], Vec::new()).unwrap()
    }

    fn through(pieces: &[&[u8]]) -> Vec<u8> {
        let (echoes, mut held) = (echoes(), BytesMut::new());
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(Scanner::new(&echoes, &mut held).push(Bytes::copy_from_slice(piece)));
        }
        all.extend(Scanner::new(&echoes, &mut held).finish());
        all
    }

    #[test]
    fn an_echo_becomes_the_placeholder_in_every_writing() {
        let value = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for (text, expected) in [
            (format!("x{VALUE}y{VALUE}"), format!("x{PLACEHOLDER}y{PLACEHOLDER}")),
            ("q=ab%2Fabab%2B12ab&".into(), format!("q={PLACEHOLDER}&")),
            (r#"{"t":"ab\/abab+12ab"}"#.into(), format!(r#"{{"t":"{PLACEHOLDER}"}}"#)),
            // As .NET and templates of HTML write it.
            ("ab%2fabab%2b12ab".into(), PLACEHOLDER.into()),
            (r"ab/abab\u002B12ab".into(), PLACEHOLDER.into()),
            ("ab&#x2F;abab+12ab".into(), PLACEHOLDER.into()),
            ("61622F616261622B31326162".into(), "504C414345484F4C44455231".into()),
            ("61622f616261622b31326162".into(), "504c414345484f4c44455231".into()),
            (
                value(&text::unicode_json(VALUE, false)),
                value(&text::unicode_json(PLACEHOLDER, false)),
            ),
            (value(&text::percent_all(VALUE, true)), value(&text::percent_all(PLACEHOLDER, true))),
            (
                value(&text::base64(format!("user:{VALUE}").as_bytes())),
                value(&text::base64(format!("user:{PLACEHOLDER}").as_bytes())),
            ),
        ] {
            let done = String::from_utf8(through(&[text.as_bytes()])).unwrap();
            assert!(!done.contains(VALUE));
            // In base 64 the first and last letters belong to the neighbours too.
            let same = done.chars().zip(expected.chars()).filter(|(a, b)| a == b).count();
            assert!(
                done == expected || text.len() == done.len() && same + 2 >= expected.len(),
                "{done} {expected}"
            );
        }
    }

    #[test]
    fn no_value_is_the_name_of_a_header() {
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: "tok_Zyxwvu98".into(),
            value: SecretValue::new("tok_Abcdef12".into()).unwrap(),
        };
        let echoes = Echoes::of(&[secret], Vec::new()).unwrap();
        assert!(echoes.in_name("x-tok_abcdef12"));
        assert!(!echoes.in_name("x-tok_zyxwvu98") && !echoes.in_name("date"));
    }

    #[test]
    fn nothing_is_held_back_that_cannot_be_a_beginning() {
        let (echoes, mut held) = (echoes(), BytesMut::new());
        let mut scanner = Scanner::new(&echoes, &mut held);
        assert_eq!(scanner.push(Bytes::from_static(b"data: one\n\n")).as_ref(), b"data: one\n\n");
        assert_eq!(scanner.push(Bytes::from_static(b"data: ab/ab")).as_ref(), b"data: ");
        assert_eq!(scanner.push(Bytes::from_static(b"c\n\n")).as_ref(), b"ab/abc\n\n");
    }

    proptest! {
        #[test]
        fn wherever_a_stream_is_cut_no_value_passes(
            before in "[ab/]{0,20}", after in "[ab/]{0,20}", cuts in proptest::collection::vec(0_usize..60, 0..6)
        ) {
            let text = format!("{before}{VALUE}{after}{VALUE}");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&text.as_bytes()[from..]);
            let cut_up = String::from_utf8(through(&pieces)).unwrap();
            prop_assert!(!cut_up.contains(VALUE));
            let whole = String::from_utf8(through(&[text.as_bytes()])).unwrap();
            prop_assert_eq!(cut_up, whole);
        }
    }
}
