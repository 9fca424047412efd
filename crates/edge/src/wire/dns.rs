//! Messages of DNS (RFC 1035, RFC 6891), as far as a resolver for one room needs them.
//!
//! Questions come from a room and are answered with records that we build. Answers come from the
//! host's resolver: addresses are extracted, other records are passed on unchanged. Our own codec
//! because this is all we need: no zones, no keys, no compression of output.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hothouse_model::policy::Claim;

use super::Cursor;

pub const TYPE_A: u16 = 1;
pub const TYPE_PTR: u16 = 12;
pub const TYPE_AAAA: u16 = 28;
pub const TYPE_OPT: u16 = 41;
pub const TYPE_SVCB: u16 = 64;
pub const TYPE_HTTPS: u16 = 65;
/// Zone transfers, and `ANY`.
pub const TYPE_WHOLESALE: std::ops::RangeInclusive<u16> = 251..=255;

pub const CLASS_IN: u16 = 1;

const HEADER: usize = 12;
const NAME_LIMIT: usize = 255;
const LABEL_LIMIT: usize = 63;
/// What fits in a datagram without EDNS (RFC 1035), and the most that we send: larger datagrams are
/// lost on some paths.
const PLAIN_SIZE: usize = 512;
const LARGEST_SIZE: usize = 4096;
/// How many records of an answer are parsed.
const RECORD_LIMIT: usize = 256;

/// Response codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Fine = 0,
    Format = 1,
    Failed = 2,
    NoName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    id: u16,
    wants_recursion: bool,
    /// Name, type and class as received: the answer repeats them exactly.
    wire: Vec<u8>,
    pub claim: Claim,
    pub kind: u16,
    pub class: u16,
    /// The largest datagram that the client accepts.
    size: usize,
    extended: bool,
}

/// A message that is not a question we answer, with the reply to it, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuestion(pub Option<Vec<u8>>);

impl Question {
    /// Parses a question.
    pub fn read(bytes: &[u8]) -> Result<Self, NoQuestion> {
        let silence = || NoQuestion(None);
        let mut cursor = Cursor::new(bytes);
        let id = cursor.short().ok_or_else(silence)?;
        let flags = cursor.short().ok_or_else(silence)?;
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = cursor.short().ok_or_else(silence)?;
        }
        // Answering an answer could loop forever.
        if flags & 0x8000 != 0 {
            return Err(silence());
        }
        let refuse = |code| NoQuestion(Some(header(id, flags & 0x0100 != 0, code, [0; 4])));
        if flags & 0x7800 != 0 {
            return Err(refuse(Code::NotImplemented));
        }
        let [questions, answers, authorities, additional] = counts;
        if questions != 1 || answers != 0 || authorities != 0 || additional > 8 {
            return Err(refuse(Code::Format));
        }
        let broken = || refuse(Code::Format);
        let (claim, length) = read_name(cursor.rest()).ok_or_else(broken)?;
        let wire = cursor.take(length + 4).ok_or_else(broken)?.to_vec();
        let kind = u16::from_be_bytes([wire[length], wire[length + 1]]);
        let class = u16::from_be_bytes([wire[length + 2], wire[length + 3]]);
        let mut size = None;
        for _ in 0..additional {
            let (kind, class, rest) = read_additional(cursor).ok_or_else(broken)?;
            cursor = rest;
            if kind == TYPE_OPT {
                size = Some(usize::from(class));
            }
        }
        Ok(Self {
            id,
            wants_recursion: flags & 0x0100 != 0,
            wire,
            claim,
            kind,
            class,
            size: size.unwrap_or(PLAIN_SIZE).clamp(PLAIN_SIZE, LARGEST_SIZE),
            extended: size.is_some(),
        })
    }

    /// Builds an answer without records.
    pub fn empty(&self, code: Code) -> Vec<u8> {
        self.records(code, 0, &[])
    }

    /// Builds an answer with those addresses that have the requested type.
    pub fn addresses(&self, addresses: &[IpAddr], ttl: u32) -> Vec<u8> {
        self.records(Code::Fine, ttl, addresses)
    }

    fn records(&self, code: Code, ttl: u32, addresses: &[IpAddr]) -> Vec<u8> {
        let fits: Vec<&IpAddr> = addresses
            .iter()
            .filter(|address| self.kind == if address.is_ipv4() { TYPE_A } else { TYPE_AAAA })
            .take(RECORD_LIMIT)
            .collect();
        let count = u16::try_from(fits.len()).unwrap_or(u16::MAX);
        let counts = [1, count, 0, u16::from(self.extended)];
        let mut bytes = header(self.id, self.wants_recursion, code, counts);
        bytes.extend(&self.wire);
        for address in fits {
            // A pointer to the name in the question, at offset 12.
            bytes.extend([0xc0, 12]);
            bytes.extend(self.kind.to_be_bytes());
            bytes.extend(CLASS_IN.to_be_bytes());
            bytes.extend(ttl.to_be_bytes());
            match address {
                IpAddr::V4(address) => {
                    bytes.extend([0, 4]);
                    bytes.extend(address.octets());
                }
                IpAddr::V6(address) => {
                    bytes.extend([0, 16]);
                    bytes.extend(address.octets());
                }
            }
        }
        if self.extended {
            bytes.extend(option_record());
        }
        bytes
    }

    /// Builds an answer from an upstream resolver's answer, keeping its records.
    pub fn relay(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = answer.to_vec();
        let id = bytes.get_mut(..2)?;
        id.copy_from_slice(&self.id.to_be_bytes());
        // Clears AD: nothing was verified here.
        *bytes.get_mut(3)? &= !0x20;
        Some(bytes)
    }

    /// Truncates an answer to what fits in a datagram; the client retries over TCP.
    pub fn cut(&self, answer: Vec<u8>) -> Vec<u8> {
        if answer.len() <= self.size {
            return answer;
        }
        let mut cut = self.empty(Code::Fine);
        cut[2] |= 0x02;
        cut
    }

    /// Returns whether the name is ASCII, so that it is looked up in the form that was decided on.
    pub fn is_plain(&self) -> bool {
        // The name is followed by type and class, two bytes each.
        self.wire[..self.wire.len().saturating_sub(4)].is_ascii()
    }

    /// Builds the question for an upstream resolver.
    pub fn asked(&self, id: u16) -> Vec<u8> {
        query(id, &self.wire)
    }

    /// Returns name, type and class for comparison, ignoring case.
    pub fn key(&self) -> Vec<u8> {
        self.wire.to_ascii_lowercase()
    }
}

/// Builds a question for a name. `None` if the name cannot be looked up.
pub fn ask(id: u16, name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut wire = Vec::with_capacity(name.len() + 6);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        wire.push(length);
        wire.extend(label.bytes());
    }
    wire.push(0);
    if wire.len() > NAME_LIMIT {
        return None;
    }
    wire.extend(kind.to_be_bytes());
    wire.extend(CLASS_IN.to_be_bytes());
    Some(query(id, &wire))
}

fn query(id: u16, wire: &[u8]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    bytes.extend(wire);
    bytes.extend(option_record());
    bytes
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub code: u8,
    /// Whether it was truncated, and must be repeated over TCP.
    pub cut: bool,
    pub addresses: Vec<IpAddr>,
    /// The lowest TTL of its records.
    pub ttl: Option<u32>,
}

/// Parses the answer to our question; rejects anything else.
pub fn read_answer(question: &[u8], answer: &[u8]) -> Option<Answered> {
    let mut cursor = Cursor::new(answer);
    let id = cursor.short()?;
    let flags = cursor.short()?;
    let (questions, answers) = (cursor.short()?, cursor.short()?);
    cursor.take(4)?;
    let asked = question.get(HEADER..)?;
    let (_, length) = read_name(asked)?;
    let same = cursor.take(length + 4)?.eq_ignore_ascii_case(asked.get(..length + 4)?);
    if question.get(..2)? != id.to_be_bytes() || flags & 0x8000 == 0 || questions != 1 || !same {
        return None;
    }
    let mut found = Answered {
        code: u8::try_from(flags & 0xf).unwrap_or(0xf),
        cut: flags & 0x0200 != 0,
        addresses: Vec::new(),
        ttl: None,
    };
    for _ in 0..usize::from(answers).min(RECORD_LIMIT) {
        skip_name(&mut cursor)?;
        let (kind, class, ttl) = (cursor.short()?, cursor.short()?, cursor.long()?);
        let content = cursor.prefixed(2)?.rest();
        if class != CLASS_IN {
            continue;
        }
        found.ttl = Some(found.ttl.map_or(ttl, |least| least.min(ttl)));
        match kind {
            TYPE_A => {
                let octets: [u8; 4] = content.try_into().ok()?;
                found.addresses.push(Ipv4Addr::from(octets).into());
            }
            TYPE_AAAA => {
                let octets: [u8; 16] = content.try_into().ok()?;
                found.addresses.push(Ipv6Addr::from(octets).into());
            }
            _ => {}
        }
    }
    Some(found)
}

fn header(id: u16, wants_recursion: bool, code: Code, counts: [u16; 4]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0x80 | u8::from(wants_recursion), 0x80 | code as u8]);
    counts.iter().for_each(|count| bytes.extend(count.to_be_bytes()));
    bytes
}

/// Builds the EDNS record: the datagram size that we accept.
fn option_record() -> [u8; 11] {
    let [high, low] = 1232_u16.to_be_bytes();
    [0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]
}

/// Parses an uncompressed name: its claim, and its length in bytes.
fn read_name(bytes: &[u8]) -> Option<(Claim, usize)> {
    let mut cursor = Cursor::new(bytes);
    let mut text = Vec::new();
    let mut dotted = false;
    loop {
        let length = usize::from(cursor.byte()?);
        if length == 0 {
            break;
        }
        // Higher values are pointers, which a question does not need.
        if length > LABEL_LIMIT {
            return None;
        }
        let label = cursor.take(length)?;
        dotted |= label.contains(&b'.');
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend(label);
        if text.len() > NAME_LIMIT {
            return None;
        }
    }
    let length = bytes.len() - cursor.rest().len();
    // A dot inside a label would look like two labels.
    let claim = match dotted {
        true => Claim::Bad(text.escape_ascii().to_string()),
        false => Claim::of(&text),
    };
    Some((claim, length))
}

/// Skips a name, which may end in a pointer.
fn skip_name(cursor: &mut Cursor<'_>) -> Option<()> {
    for _ in 0..NAME_LIMIT {
        let length = usize::from(cursor.byte()?);
        match length {
            0 => return Some(()),
            1..=LABEL_LIMIT => cursor.take(length).map(drop)?,
            0xc0.. => return cursor.byte().map(drop),
            _ => return None,
        }
    }
    None
}

fn read_additional(mut cursor: Cursor<'_>) -> Option<(u16, u16, Cursor<'_>)> {
    skip_name(&mut cursor)?;
    let (kind, class) = (cursor.short()?, cursor.short()?);
    cursor.long()?;
    cursor.prefixed(2)?;
    Some((kind, class, cursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, kind: u16) -> Question {
        Question::read(&ask(7, name, kind).unwrap()).unwrap()
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let asked = question("Api.Example", TYPE_A);
        assert_eq!(asked.claim, Claim::of(b"api.example"));
        let addresses = ["1.2.3.4".parse().unwrap(), "::1".parse().unwrap()];
        let bytes = asked.addresses(&addresses, 60);
        let answer = read_answer(&ask(7, "api.example", TYPE_A).unwrap(), &bytes).unwrap();
        assert_eq!(answer.addresses, ["1.2.3.4".parse::<IpAddr>().unwrap()]);
        assert_eq!((answer.code, answer.ttl, answer.cut), (0, Some(60), false));
        assert_eq!(read_answer(&ask(8, "api.example", TYPE_A).unwrap(), &bytes), None);
        assert_eq!(read_answer(&ask(7, "other.example", TYPE_A).unwrap(), &bytes), None);
    }

    #[test]
    fn what_is_not_a_question_is_reported_or_ignored() {
        let good = ask(7, "a.example", TYPE_A).unwrap();
        for end in 0..HEADER {
            assert_eq!(Question::read(&good[..end]), Err(NoQuestion(None)));
        }
        for end in HEADER..good.len() {
            let told = Question::read(&good[..end]).unwrap_err().0.unwrap();
            assert_eq!(told[3] & 0xf, Code::Format as u8);
        }
        let mut answer = good.clone();
        answer[2] |= 0x80;
        assert_eq!(Question::read(&answer), Err(NoQuestion(None)));
        let mut update = good.clone();
        update[2] |= 5 << 3;
        let told = Question::read(&update).unwrap_err().0.unwrap();
        assert_eq!(told[3] & 0xf, Code::NotImplemented as u8);
        let mut two = good;
        two[5] = 2;
        assert!(Question::read(&two).is_err());
    }

    #[test]
    fn labels_with_dots_and_zero_bytes_are_not_names() {
        for label in [&b"a.b"[..], b"a\0b", b"a b"] {
            let mut bytes = ask(7, "x.example", TYPE_A).unwrap();
            let wire = [&[u8::try_from(label.len()).unwrap()][..], label].concat();
            bytes.splice(HEADER..HEADER + 2, wire);
            let asked = Question::read(&bytes).unwrap();
            assert!(matches!(asked.claim, Claim::Bad(_)), "{:?}", asked.claim);
        }
        assert_eq!(ask(1, "a..b", TYPE_A), None);
        assert_eq!(ask(1, &"a".repeat(64), TYPE_A), None);
        assert_eq!(ask(1, &["a"; 130].join("."), TYPE_A), None);
    }

    #[test]
    fn an_answer_that_is_too_long_for_a_datagram_is_cut() {
        let mut bytes = ask(7, "a.example", TYPE_A).unwrap();
        bytes.truncate(bytes.len() - 11);
        bytes[11] = 0;
        let plain = Question::read(&bytes).unwrap();
        let addresses: Vec<IpAddr> = (0..60).map(|n| Ipv4Addr::new(1, 1, 1, n).into()).collect();
        let whole = plain.addresses(&addresses, 1);
        assert!(whole.len() > PLAIN_SIZE);
        let cut = plain.cut(whole.clone());
        assert!(cut.len() <= PLAIN_SIZE && cut[2] & 2 != 0);
        assert_eq!(question("a.example", TYPE_A).cut(whole.clone()), whole, "EDNS has more room");
    }

    #[test]
    fn a_broken_answer_is_no_answer() {
        let asked = ask(7, "a.example", TYPE_A).unwrap();
        let whole = question("a.example", TYPE_A).addresses(&["1.2.3.4".parse().unwrap()], 9);
        for end in 0..whole.len() - 11 {
            assert_eq!(read_answer(&asked, &whole[..end]), None, "{end}");
        }
    }

    /// Builds a record of the answer, named by a pointer to the question.
    fn record(kind: u16, class: u16, ttl: u32, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let head = [kind.to_be_bytes(), class.to_be_bytes()].concat();
        [&[0xc0, 12][..], &head, &ttl.to_be_bytes(), &length, content].concat()
    }

    #[test]
    fn answers_of_odd_kinds_give_only_addresses_that_are_some() {
        let asked = ask(7, "a.example", TYPE_A).unwrap();
        let question = &asked[HEADER..asked.len() - 11];
        let answer = |counts: [u16; 4], records: &[u8]| {
            [&header(7, true, Code::Fine, counts)[..], question, records].concat()
        };
        let four = record(TYPE_A, CLASS_IN, 9, &[1, 2, 3, 4]);
        let addresses =
            |bytes: &[u8]| read_answer(&asked, bytes).map(|found| found.addresses.len());
        // Addresses of another class, inside records of other types, and in the sections that follow; too few records;
        // malformed addresses; other numbers of questions.
        for (counts, records, expected) in [
            ([1, 1, 0, 0], four.clone(), Some(1)),
            ([1, 1, 0, 0], record(TYPE_A, 3, 9, &[1, 2, 3, 4]), Some(0)),
            ([1, 1, 0, 0], record(TYPE_A, 254, 9, &[1, 2, 3, 4]), Some(0)),
            (
                [1, 1, 0, 0],
                record(TYPE_HTTPS, CLASS_IN, 9, &[0, 1, 0, 0, 4, 0, 4, 1, 2, 3, 4]),
                Some(0),
            ),
            ([1, 1, 0, 0], record(TYPE_OPT, CLASS_IN, 9, &[1, 2, 3, 4]), Some(0)),
            ([1, 0, 1, 1], [&four[..], &four].concat(), Some(0)),
            ([1, 2, 0, 0], four.clone(), None),
            ([1, u16::MAX, 0, 0], four.repeat(RECORD_LIMIT - 1), None),
            ([1, u16::MAX, 0, 0], four.repeat(2000), Some(RECORD_LIMIT)),
            ([1, 1, 0, 0], record(TYPE_A, CLASS_IN, 9, &[1, 2, 3, 4, 5]), None),
            ([1, 1, 0, 0], record(TYPE_A, CLASS_IN, 9, &[]), None),
            ([1, 1, 0, 0], record(TYPE_AAAA, CLASS_IN, 9, &[1, 2, 3, 4]), None),
            ([0, 1, 0, 0], four.clone(), None),
            ([2, 1, 0, 0], four.clone(), None),
        ] {
            assert_eq!(addresses(&answer(counts, &records)), expected, "{counts:?} {records:?}");
        }
        // Owner names that form a cycle or are invalid, before an otherwise valid record.
        let rest = &four[2..];
        for (name, expected) in [
            (&[0xc0, 0xff][..], Some(1)),
            (&[0xff, 0xff], Some(1)),
            (&[1, b'x', 0xc0, 29], Some(1)),
            (&[0x40], None),
            (&[0x80, 0], None),
            (&[63], None),
        ] {
            let found = addresses(&answer([1, 1, 0, 0], &[name, rest].concat()));
            assert_eq!(found, expected, "{name:?}");
        }
        // A record whose content extends beyond the answer, and the maximum TTL.
        let mut long = record(TYPE_A, CLASS_IN, u32::MAX, &[1, 2, 3, 4]);
        assert_eq!(read_answer(&asked, &answer([1, 1, 0, 0], &long)).unwrap().ttl, Some(u32::MAX));
        long[10] = 0xff;
        assert_eq!(addresses(&answer([1, 1, 0, 0], &long)), None);
    }
}
