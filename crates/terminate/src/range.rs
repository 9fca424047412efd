//! Range requests. Pure.
//!
//! A range may start or end in the middle of a value, which would then go undetected. So for hosts
//! with secrets the requested range is widened: on both sides by the longest encoding of a value.
//! The response is scanned and then cut to what the room requested. A range that cannot be widened
//! (several ranges, other units) is not requested, and the room gets the whole response, as HTTP
//! allows (RFC 9110, section 14.2).

use hyper::{
    HeaderMap, Method,
    header::{self, HeaderName, HeaderValue},
};

/// The headers that request a range; the second is Azure's, and takes precedence there.
const ASKED: [HeaderName; 2] = [header::RANGE, HeaderName::from_static("x-ms-range")];

/// A range that a room requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From this byte, up to and including this one, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

/// The range of a response that the room gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// How many bytes precede it.
    pub(crate) skip: u64,
    pub(crate) length: u64,
    pub(crate) from: u64,
    /// The total length, if the host states it.
    pub(crate) total: Option<u64>,
}

/// Why a range cannot be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlice {
    /// It is not the requested one.
    Other,
    /// The requested range is beyond the end.
    Behind { total: u64 },
}

/// Widens the requested range by the maximum length of a value. Returns the range that the room
/// requested, or `None` if the whole response will be sent, as it is if the length of values
/// varies.
pub(crate) fn widen(
    method: &Method,
    headers: &mut HeaderMap,
    reach: Option<usize>,
) -> Option<Part> {
    let asked: Vec<HeaderName> =
        ASKED.into_iter().filter(|name| headers.contains_key(name)).collect();
    let part = match asked.as_slice() {
        [name] if method == Method::GET => {
            let mut values = headers.get_all(name).iter();
            let (first, second) = (values.next(), values.next());
            first.filter(|_| second.is_none()).and_then(|value| read(value.to_str().ok()?))
        }
        _ => None,
    };
    let wider = part.zip(reach).and_then(|(part, reach)| wider(part, reach as u64));
    let value = wider.and_then(|text| HeaderValue::from_str(&text).ok());
    match (value, asked.as_slice()) {
        (Some(value), [name]) => {
            headers.insert(name, value);
            part
        }
        _ => {
            for name in asked {
                headers.remove(name);
            }
            headers.remove(header::IF_RANGE);
            None
        }
    }
}

/// Parses a header that requests a single range.
fn read(text: &str) -> Option<Part> {
    let (unit, range) = text.trim().split_once('=')?;
    let (from, to) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some(match (from.trim(), to.trim()) {
        ("", last) => Part::Last(number(last)?),
        (from, "") => Part::From(number(from)?, None),
        (from, to) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some(Part::From(from, Some(to)))?
        }
    })
}

/// Parses a number without a sign, as in HTTP.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn wider(part: Part, reach: u64) -> Option<String> {
    Some(match part {
        Part::From(from, None) => format!("bytes={}-", from.saturating_sub(reach)),
        Part::From(from, Some(to)) => {
            format!("bytes={}-{}", from.saturating_sub(reach), to.checked_add(reach)?)
        }
        Part::Last(0) => return None,
        Part::Last(count) => format!("bytes=-{}", count.checked_add(reach)?),
    })
}

/// Locates the room's range in the range that the host sent.
pub(crate) fn slice(part: Part, reach: usize, content: &str) -> Result<Slice, NoSlice> {
    let sent = read_content(content).ok_or(NoSlice::Other)?;
    let (first, last, total) = sent;
    let reach = reach as u64;
    let (from, to) = match part {
        Part::From(from, to) => (from, to.unwrap_or(last).min(last)),
        Part::Last(count) => {
            let total = total.ok_or(NoSlice::Other)?;
            (total.saturating_sub(count), last)
        }
    };
    let ends = |last: u64| total == last.checked_add(1);
    // A range shorter than requested could cut a value in two, except at the ends of the whole.
    let begins_so = match part {
        Part::From(from, _) => first == from.saturating_sub(reach),
        Part::Last(_) => first == from.saturating_sub(reach) && ends(last),
    };
    let ends_so = match part {
        Part::From(_, Some(to)) => Some(last) == to.checked_add(reach) || ends(last),
        _ => ends(last),
    };
    if !begins_so || !ends_so {
        return Err(NoSlice::Other);
    }
    match from > last {
        true => Err(NoSlice::Behind { total: total.ok_or(NoSlice::Other)? }),
        false => Ok(Slice { skip: from - first, length: to - from + 1, from, total }),
    }
}

/// Parses `bytes 0-9/100`.
fn read_content(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let total = if total.trim() == "*" { None } else { Some(number(total.trim())?) };
    (first <= last && total.is_none_or(|total| last < total)).then_some((first, last, total))
}

impl Slice {
    /// Formats the `Content-Range` header.
    pub(crate) fn content(&self) -> String {
        let total = self.total.map_or_else(|| "*".to_owned(), |total| total.to_string());
        format!("bytes {}-{}/{total}", self.from, self.from + self.length - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REACH: usize = 10;

    fn widened(text: &str) -> (Option<Part>, Option<String>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, text.parse().unwrap());
        let part = widen(&Method::GET, &mut headers, Some(REACH));
        (part, headers.get(header::RANGE).map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_part_is_widened_and_what_cannot_be_is_not_asked_for() {
        for (asked, sent) in [
            ("bytes=0-9", Some("bytes=0-19")),
            ("bytes=100-109", Some("bytes=90-119")),
            ("Bytes= 100 - ", Some("bytes=90-")),
            ("bytes=-5", Some("bytes=-15")),
            ("bytes=-0", None),
            ("bytes=9-1", None),
            ("bytes=+1-2", None),
            ("bytes=0-1,5-6", None),
            ("bytes=0-18446744073709551615", None),
            ("lines=1-2", None),
            ("bytes", None),
        ] {
            let (part, header) = widened(asked);
            assert_eq!((part.is_some(), header.as_deref()), (sent.is_some(), sent), "{asked}");
        }
        let mut both = HeaderMap::new();
        for name in ASKED {
            both.insert(name, "bytes=0-1".parse().unwrap());
        }
        both.insert(header::IF_RANGE, "\"x\"".parse().unwrap());
        assert_eq!(widen(&Method::GET, &mut both, Some(REACH)), None);
        assert!(both.is_empty());
    }

    #[test]
    fn a_part_that_could_end_in_a_value_is_refused() {
        let part = Part::From(100, Some(109));
        for (content, passes) in [
            ("bytes 90-119/500", true),
            ("bytes 90-119/*", true),
            ("bytes 90-111/112", true),
            ("bytes 90-111/500", false),
            ("bytes 100-109/500", false),
            ("bytes 91-119/500", false),
            ("bytes 90-119/119", false),
            ("bytes */500", false),
            ("lines 90-119/500", false),
            ("", false),
        ] {
            assert_eq!(slice(part, REACH, content).is_ok(), passes, "{content}");
        }
        assert_eq!(slice(part, REACH, "bytes 90-94/95"), Err(NoSlice::Behind { total: 95 }));
        assert_eq!(slice(Part::Last(5), REACH, "bytes 85-99/*"), Err(NoSlice::Other));
    }

    proptest! {
        #[test]
        fn the_room_gets_what_it_asked_for(length in 1_u64..200, from in 0_u64..200, many in 0_u64..80) {
            for (asked, expected) in [
                (format!("bytes={from}-{}", from + many), from..(from + many + 1).min(length)),
                (format!("bytes={from}-"), from..length),
                (format!("bytes=-{}", many + 1), length.saturating_sub(many + 1)..length),
            ] {
                let (part, sent) = widened(&asked);
                // Simulates a host that follows the protocol.
                let (first, last) = match read(&sent.unwrap()).unwrap() {
                    Part::From(from, to) => (from, to.unwrap_or(u64::MAX).min(length - 1)),
                    Part::Last(count) => (length.saturating_sub(count), length - 1),
                };
                if first >= length {
                    continue;
                }
                let sliced = slice(part.unwrap(), REACH, &format!("bytes {first}-{last}/{length}"));
                match expected.is_empty() {
                    true => prop_assert_eq!(sliced, Err(NoSlice::Behind { total: length })),
                    false => {
                        let slice = sliced.unwrap();
                        prop_assert_eq!(slice.from..slice.from + slice.length, expected);
                        prop_assert_eq!(slice.skip, slice.from - first);
                    }
                }
            }
        }
    }
}
