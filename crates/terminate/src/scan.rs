//! Scans responses: a value that a host sends back is replaced with its placeholder. Pure.
//!
//! The agent may choose what a host sends, so the output and its timing must not reveal whether it
//! resembles a value: with a response that ends in a guess, an agent could learn a value letter by
//! letter. So what is held back depends only on length: everything but the last bytes (one less
//! than the longest encoding) is forwarded. Two things allow forwarding earlier, and both are
//! public. A line break, or the end of a message in the framing of the body, occurs in no encoding,
//! so nothing that starts before it can continue after it: events and lines of JSON arrive without
//! delay. And the end of the response, after which nothing can follow. Time never releases
//! anything: half a value before a pause and half after it would both pass.
//!
//! Only a complete value makes a difference, and whoever can send one already knows it.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use bytes::{Bytes, BytesMut};
use hothouse_model::{
    encodings::{self, Changing},
    search::Search,
};

use crate::{
    secrets::Known,
    text::{self, Secret},
};

/// Shorter encodings could match anything.
const LEAST: usize = 8;

/// A value that must not be sent back, and its replacement.
struct Pair {
    value: Secret,
    instead: Vec<u8>,
}

/// All values that must not be sent back.
pub(crate) struct Echoes {
    pairs: Vec<Pair>,
    search: Search,
    /// The values in lower case, as in header names; built once a name is long enough to contain one.
    lower: OnceLock<Lower>,
    /// Whether no encoding contains a control character, so that nothing spans a line break.
    lines: bool,
}

/// Values in lower case.
struct Lower {
    values: Vec<Secret>,
    search: Search,
}

impl Echoes {
    /// Computes the encodings in which a host could send values back; `None` if there are no
    /// values.
    pub(crate) fn of(secrets: &[Known], sent: Vec<(Secret, Vec<u8>)>) -> Option<Self> {
        let mut pairs: Vec<Pair> = Vec::new();
        for secret in secrets {
            let (value, placeholder) = (secret.value.expose(), secret.placeholder.as_str());
            let changing = Changing::of(value);
            let of_value = encodings::all(value, changing);
            for (value, instead) in of_value.into_iter().zip(encodings::all(placeholder, changing))
            {
                add(&mut pairs, value, instead.to_vec());
            }
        }
        for (value, instead) in sent {
            // What the room sent holds no value; if it did, it must not come back in place of another.
            if !pairs.iter().any(|pair| text::holds(&instead, &pair.value)) {
                add(&mut pairs, value, instead);
            }
        }
        let search = Search::new(pairs.iter().map(|pair| pair.value.as_slice()));
        let lines = !pairs.iter().any(|pair| pair.value.iter().any(u8::is_ascii_control));
        (!pairs.is_empty()).then_some(Self { pairs, search, lower: OnceLock::new(), lines })
    }

    /// Returns whether every replacement is as long as what it replaces.
    pub(crate) fn keep_length(&self) -> bool {
        self.pairs.iter().all(|pair| pair.value.len() == pair.instead.len())
    }

    /// Returns how many bytes at the end of a stream must be held back.
    pub(crate) fn reach(&self) -> usize {
        self.search.longest().saturating_sub(1)
    }

    /// Replaces all values in a complete text.
    pub(crate) fn replace<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.find(text);
        match found.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(with(text, &found)),
        }
    }

    /// Returns whether a header name, which is in lower case, contains a value. A host may return names that the
    /// agent chose, so this takes no longer for the beginning of a value than for anything else.
    pub(crate) fn in_name(&self, name: &str) -> bool {
        // Most names are too short to contain one.
        if !self.pairs.iter().any(|pair| pair.value.len() <= name.len()) {
            return false;
        }
        let Lower { values, search } = self.lower.get_or_init(|| self.lowered());
        let found = search.find(name.as_bytes());
        found.iter().any(|(at, index)| name.as_bytes()[*at..].starts_with(&values[*index]))
    }

    fn lowered(&self) -> Lower {
        let values = self.pairs.iter().map(|pair| Secret::new(pair.value.to_ascii_lowercase()));
        let values: Vec<_> = values.collect();
        let search = Search::new(values.iter().map(|value| value.as_slice()));
        Lower { values, search }
    }

    /// Finds the replacements, in order and without overlaps; the longer one if two start at the
    /// same place.
    fn find(&self, text: &[u8]) -> Vec<(usize, &Pair)> {
        let pairs = self.search.find(text).into_iter().map(|(at, index)| (at, &self.pairs[index]));
        let mut found: Vec<_> =
            pairs.filter(|(at, pair)| text[*at..].starts_with(&pair.value)).collect();
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
}

/// Inserts the replacements.
fn with(text: &[u8], found: &[(usize, &Pair)]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    let mut from = 0;
    for (at, pair) in found {
        all.extend_from_slice(&text[from..*at]);
        all.extend_from_slice(&pair.instead);
        from = at + pair.value.len();
    }
    all.extend_from_slice(&text[from..]);
    all
}

/// Adds a value, unless it is too short to be recognized or known.
fn add(pairs: &mut Vec<Pair>, value: Secret, instead: Vec<u8>) {
    let known = pairs.iter().any(|pair| pair.value == value);
    if value.len() >= LEAST && *value != instead && !known {
        pairs.push(Pair { value, instead });
    }
}

/// Scans a stream.
pub(crate) struct Scanner {
    echoes: Arc<Echoes>,
    held: BytesMut,
}

impl Scanner {
    pub(crate) fn new(echoes: Arc<Echoes>) -> Self {
        Self { echoes, held: BytesMut::new() }
    }

    /// Accepts a chunk and returns what can be forwarded. Nothing that starts before or in the
    /// first `framed` bytes of the chunk continues after them.
    pub(crate) fn push(&mut self, piece: &[u8], framed: usize) -> Bytes {
        let before = self.held.len();
        self.held.extend_from_slice(piece);
        let by_length = self.held.len().saturating_sub(self.echoes.reach());
        let line = memchr::memrchr(b'\n', piece).map_or(0, |at| at + 1);
        let ready = match (self.echoes.lines, line.max(framed)) {
            (true, ends) if ends > 0 => by_length.max(before + ends),
            _ => by_length,
        };
        self.release(ready)
    }

    /// Returns the rest: nothing follows.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.release(self.held.len())
    }

    /// Returns whether nothing is held back.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Forwards the first bytes. Values that start in them are complete.
    fn release(&mut self, ready: usize) -> Bytes {
        if ready == 0 {
            return Bytes::new();
        }
        let mut found = self.echoes.find(&self.held);
        found.retain(|(at, _)| *at < ready);
        let Some((at, pair)) = found.last() else {
            return self.held.split_to(ready).freeze();
        };
        let end = ready.max(at + pair.value.len());
        let clean = with(&self.held[..end], &found);
        // Not `advance`, which would leave parts of a value in the old buffer.
        self.held = BytesMut::from(&self.held[end..]);
        clean.into()
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

    #[test]
    fn json_in_ascii_has_no_value_either() {
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: PLACEHOLDER.into(),
            value: SecretValue::new("pä/ss-€-😀".into()).unwrap(),
        };
        let echoes = Echoes::of(&[secret], Vec::new()).unwrap();
        for written in [
            "pä/ss-€-😀",
            // Python, .NET and PHP.
            r"p\u00e4/ss-\u20ac-\ud83d\ude00",
            r"p\u00E4/ss-\u20AC-\uD83D\uDE00",
            r"p\u00e4\/ss-\u20ac-\ud83d\ude00",
        ] {
            let text = format!("x{written}y");
            assert_eq!(echoes.replace(text.as_bytes()), format!("x{PLACEHOLDER}y").as_bytes());
        }
    }

    fn through(pieces: &[&[u8]]) -> Vec<u8> {
        let mut scanner = Scanner::new(Arc::new(echoes()));
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| scanner.push(piece, 0)).collect();
        all.extend(scanner.finish());
        all
    }

    #[test]
    fn an_echo_becomes_the_placeholder_in_every_writing() {
        let value = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let escapes = |text: &str| text.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        let percents = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for (text, expected) in [
            (format!("x{VALUE}y{VALUE}"), format!("x{PLACEHOLDER}y{PLACEHOLDER}")),
            ("q=ab%2Fabab%2B12ab&".into(), format!("q={PLACEHOLDER}&")),
            (r#"{"t":"ab\/abab+12ab"}"#.into(), format!(r#"{{"t":"{PLACEHOLDER}"}}"#)),
            // As .NET and HTML templates write it.
            ("ab%2fabab%2b12ab".into(), PLACEHOLDER.into()),
            (r"ab/abab\u002B12ab".into(), PLACEHOLDER.into()),
            // Encoders differ in what they leave as it is.
            ("/x/ab/abab%2B12ab".into(), format!("/x/{PLACEHOLDER}")),
            ("/x/ab/abab%2b12ab".into(), format!("/x/{PLACEHOLDER}")),
            ("/x/ab%2Fabab+12ab".into(), format!("/x/{PLACEHOLDER}")),
            ("ab/abab&#x2B;12ab".into(), PLACEHOLDER.into()),
            ("AB/ABAB+12AB".into(), PLACEHOLDER.into()),
            ("ab&#x2F;abab+12ab".into(), PLACEHOLDER.into()),
            ("61622F616261622B31326162".into(), "504C414345484F4C44455231".into()),
            ("61622f616261622b31326162".into(), "504c414345484f4c44455231".into()),
            (escapes(VALUE), escapes(PLACEHOLDER)),
            (percents(VALUE), percents(PLACEHOLDER)),
            (
                value(&text::base64(format!("user:{VALUE}").as_bytes())),
                value(&text::base64(format!("user:{PLACEHOLDER}").as_bytes())),
            ),
        ] {
            let done = String::from_utf8(through(&[text.as_bytes()])).unwrap();
            assert!(!done.contains(VALUE));
            // In base64 the first and last letters also depend on the neighbouring bytes.
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
    fn a_name_that_is_full_of_beginnings_takes_no_longer_than_another() {
        let (value, other) = ("x-meta-ab/abab+12ab", "x-meta-~~~~~~~~~~~~");
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: "x-meta-PLACEHOLDER1".into(),
            value: SecretValue::new(value.into()).unwrap(),
        };
        let echoes = Echoes::of(&[secret], Vec::new()).unwrap();
        let names = [&value[..value.len() - 1], &other[1..]].map(|part| part.repeat(2000));
        let took = |name: &str| {
            let begun = std::time::Instant::now();
            assert!(!echoes.in_name(std::hint::black_box(name)));
            begun.elapsed()
        };
        // The fastest of many alternating runs: other load on the machine can only slow a run down.
        let mut least = [std::time::Duration::MAX; 2];
        for turn in 0..60 {
            least[turn % 2] = least[turn % 2].min(took(&names[turn % 2]));
        }
        let [right, wrong] = least;
        assert!(right < wrong * 2 && wrong < right * 2, "{right:?} {wrong:?}");
    }

    #[test]
    fn lines_and_messages_are_forwarded_immediately_and_the_rest_waits_by_its_length() {
        let echoes = Arc::new(echoes());
        let reach = echoes.reach();
        let mut scanner = Scanner::new(echoes);
        assert_eq!(scanner.push(b"data: one\n\n", 0).as_ref(), b"data: one\n\n");
        assert_eq!(scanner.push(b"data: ab/ab", 0).as_ref(), b"");
        assert_eq!(scanner.push(b"c\n\nxy", 0).as_ref(), b"data: ab/abc\n\n");
        assert_eq!(scanner.push(b"message|rest", 8).as_ref(), b"xymessage|");
        assert_eq!(scanner.push(&vec![b'z'; reach], 0).as_ref(), b"rest");
        assert_eq!(scanner.push(b"a", 0).as_ref(), b"z");
        assert_eq!(scanner.finish().len(), reach);
    }

    /// Returns the lengths of the outputs, push by push.
    fn lengths(pieces: &[Vec<u8>]) -> Vec<usize> {
        let mut scanner = Scanner::new(Arc::new(echoes()));
        let mut all: Vec<_> = pieces.iter().map(|piece| scanner.push(piece, 0).len()).collect();
        all.push(scanner.finish().len());
        all
    }

    #[test]
    fn a_right_guess_comes_out_like_a_wrong_one_in_every_writing() {
        for writing in encodings::all(VALUE, Changing::of(VALUE)) {
            for right in 1..writing.len() {
                for before in ["", "x", "line\n"] {
                    let guess = |letters: &[u8]| {
                        let first = [before.as_bytes(), letters].concat();
                        [first, b"and so on".to_vec(), vec![b'.'; 300], b"end".to_vec()]
                    };
                    let wrong: Vec<u8> = (0..right).map(|_| b'~').collect();
                    assert_eq!(lengths(&guess(&writing[..right])), lengths(&guess(&wrong)));
                }
            }
        }
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
